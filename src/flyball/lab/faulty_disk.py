"""A disk for SQLite that does one thing wrong: one of its operations fails, is torn, is lost or is refused.

Beside each file it keeps what a power cut would leave of it: what was synced, and what was written since. An operation
is a write, a truncation or a sync. Nothing is really synced, and the power cut is simulated.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import apsw
from msgspec import Struct

FAULTS = ("fail", "tear", "lose", "fill")


class DiskFault(Struct, frozen=True):
    """What goes wrong at operation `at`. `cut`: the operation at which the power is cut (0: only if the write is
    torn).
    """

    kind: str = ""  # one of FAULTS, or "refuse": the disk is full this one time
    at: int = 0
    cut: int = 0
    seed: int = 0
    on: str = ""  # instead of `at`: the next write, or the next sync


class Pending(Struct, frozen=True):
    """A write since the last sync; `data` None: the file was truncated at `offset`."""

    offset: int
    data: bytes | None
    fate: str = ""  # "lost": it never arrives; "stays": it does


class FaultyDisk(apsw.VFS):
    """An APSW file system on top of the usual one. `begin` makes it a new disk."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.begin(DiskFault())
        super().__init__(name, "")

    def begin(self, trouble: DiskFault) -> None:
        self.trouble, self.rng = trouble, random.Random(trouble.seed)
        self.operations: list[str] = []  # what each was
        self.off = self.full = False
        self.failed = ""  # what went wrong last
        self.durable: dict[str, bytearray] = {}
        self.since: dict[str, list[Pending]] = {}

    def mend(self) -> None:
        """From here on nothing fails."""
        self.trouble, self.off, self.full = DiskFault(), False, False

    def xOpen(self, name: Any, flags: list[int]) -> FaultyFile:  # noqa: N802
        return FaultyFile(self, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802
        if self.off:
            raise apsw.IOError("the power is off")
        super().xDelete(filename, syncdir)
        self.durable.pop(filename, None)
        self.since.pop(filename, None)

    def operation(self, what: str) -> str:
        """Number the operation; raise, or say how it fails: "tear", "lose", or "" if it does not."""
        self.operations.append(what)
        number, trouble, kind = len(self.operations), self.trouble, "sync" if what == "sync" else "write"
        if self.off or (trouble.cut and number >= trouble.cut):
            self.off = True
            raise apsw.IOError("the power is off")
        if self.full and kind != "sync":
            raise apsw.FullError("the disk is full")
        if kind != trouble.on if trouble.on else number != trouble.at:
            return ""
        self.trouble = DiskFault() if trouble.on else trouble
        return self._go_wrong(trouble.kind, kind)

    def _go_wrong(self, how: str, kind: str) -> str:
        self.failed = "disk full" if how in ("fill", "refuse") else f"{kind} fails"
        if how == "fail":
            raise apsw.IOError("a fault of the disk")
        if how in ("fill", "refuse"):
            self.full = how == "fill"
            raise apsw.FullError("the disk is full")
        return how

    def sync(self, name: str) -> None:
        image = self.durable[name]
        for pending in self.since[name]:
            _arrive(image, pending, "all" if pending.fate != "lost" else "nothing", self.rng)
        self.since[name] = []

    def power_cut(self, rng: random.Random | None = None) -> None:
        """Of each write since a file's last sync, everything, nothing or the first part remains."""
        rng = rng or self.rng
        for name, image in sorted(self.durable.items()):
            for pending in self.since[name]:
                chance = rng.choice(("all", "nothing", "torn"))
                _arrive(image, pending, {"lost": "nothing", "stays": "all"}.get(pending.fate, chance), rng)
            self.since[name] = []
            Path(name).write_bytes(image)
        self.off = False


def _arrive(image: bytearray, pending: Pending, fate: str, rng: random.Random) -> None:
    data, offset = pending.data, pending.offset
    if fate == "nothing":
        return
    if data is None:
        del image[offset:]
        return
    written = data if fate == "all" else data[: rng.randrange(len(data) + 1)]
    image.extend(bytes(max(0, offset + len(written) - len(image))))
    image[offset : offset + len(written)] = written


class FaultyFile(apsw.VFSFile):
    def __init__(self, disk: FaultyDisk, name: Any, flags: list[int]) -> None:
        self.disk = disk
        self.name: str = name.filename() if isinstance(name, apsw.URIFilename) else str(name)
        if self.name not in disk.durable:
            path = Path(self.name)
            disk.durable[self.name] = bytearray(path.read_bytes() if path.exists() else b"")
            disk.since[self.name] = []
        super().__init__("", name, flags)
        self._underneath: Any = super()

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        wrong = self.disk.operation("write")
        if wrong == "tear":
            self._tear(bytes(data), offset)
        self._underneath.xWrite(data, offset)
        self._pend(Pending(offset, bytes(data), "lost" if wrong == "lose" else ""))

    def _tear(self, data: bytes, offset: int) -> None:
        """The power is cut in the middle of the write."""
        self._pend(Pending(offset, data[: self.disk.rng.randrange(len(data))], "stays"))
        self.disk.off = True
        raise apsw.IOError("the power is off")

    def _pend(self, pending: Pending) -> None:
        self.disk.since[self.name].append(pending)

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        wrong = self.disk.operation("truncate")
        if wrong == "tear":
            self.disk.off = True
            raise apsw.IOError("the power is off")
        self._underneath.xTruncate(newsize)
        self._pend(Pending(newsize, None, "lost" if wrong == "lose" else ""))

    def xSync(self, flags: int) -> None:  # noqa: N802
        wrong = self.disk.operation("sync")
        if wrong == "tear":
            self.disk.off = True
            raise apsw.IOError("the power is off")
        if wrong != "lose":
            self.disk.sync(self.name)
