"""A disk that does one thing wrong: it fails, tears, loses or refuses its n-th deed, under a real SQLite.

Beside each file it keeps what a power cut would leave of it: what was synced, and what was written since. A deed is a
write, a cut-off or a sync. Nothing is really synced: the power goes only in here.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import apsw
from msgspec import Struct

FAULTS = ("fail", "tear", "lose", "fill")


class Trouble(Struct, frozen=True):
    """What goes wrong at deed `at`. `cut`: the power goes at that deed (0: only if the fault is a tear)."""

    kind: str = ""
    at: int = 0
    cut: int = 0
    seed: int = 0


class Pending(Struct, frozen=True):
    """A write since the last sync; `data` None: the file was cut off at `offset`."""

    offset: int
    data: bytes | None
    fate: str = ""  # "lost": it never arrives; "stays": it does


class Platter(apsw.VFS):
    """An APSW file system over the usual one. `begin` makes it a new disk."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.begin(Trouble())
        super().__init__(name, "")

    def begin(self, trouble: Trouble) -> None:
        self.trouble, self.rng = trouble, random.Random(trouble.seed)
        self.deeds: list[str] = []  # what each was
        self.off = self.full = False
        self.durable: dict[str, bytearray] = {}
        self.since: dict[str, list[Pending]] = {}

    def mend(self) -> None:
        """From here on nothing goes wrong."""
        self.trouble, self.off, self.full = Trouble(), False, False

    def xOpen(self, name: Any, flags: list[int]) -> PlatterFile:  # noqa: N802
        return PlatterFile(self, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802
        if self.off:
            raise apsw.IOError("the power is off")
        super().xDelete(filename, syncdir)
        self.durable.pop(filename, None)
        self.since.pop(filename, None)

    def deed(self, what: str) -> str:
        """Number the deed; raise, or say how it goes wrong: "tear", "lose" or "" for not at all."""
        self.deeds.append(what)
        number, trouble = len(self.deeds), self.trouble
        if self.off or (trouble.cut and number >= trouble.cut):
            self.off = True
            raise apsw.IOError("the power is off")
        if self.full and what != "sync":
            raise apsw.FullError("the disk is full")
        if number != trouble.at:
            return ""
        if trouble.kind == "fail":
            raise apsw.IOError("a fault of the disk")
        if trouble.kind == "fill":
            self.full = True
            raise apsw.FullError("the disk is full")
        return trouble.kind

    def sync(self, name: str) -> None:
        image = self.durable[name]
        for pending in self.since[name]:
            _arrive(image, pending, "all" if pending.fate != "lost" else "nothing", self.rng)
        self.since[name] = []

    def power_cut(self) -> None:
        """Of each write since a file's last sync remains all, nothing, or its beginning."""
        for name, image in sorted(self.durable.items()):
            for pending in self.since[name]:
                chance = self.rng.choice(("all", "nothing", "torn"))
                _arrive(
                    image, pending, {"lost": "nothing", "stays": "all"}.get(pending.fate, chance), self.rng
                )
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
    kept = data if fate == "all" else data[: rng.randrange(len(data) + 1)]
    image.extend(bytes(max(0, offset + len(kept) - len(image))))
    image[offset : offset + len(kept)] = kept


class PlatterFile(apsw.VFSFile):
    def __init__(self, disk: Platter, name: Any, flags: list[int]) -> None:
        self.disk = disk
        self.name: str = name.filename() if isinstance(name, apsw.URIFilename) else str(name)
        if self.name not in disk.durable:
            path = Path(self.name)
            disk.durable[self.name] = bytearray(path.read_bytes() if path.exists() else b"")
            disk.since[self.name] = []
        super().__init__("", name, flags)
        self._underneath: Any = super()

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        wrong = self.disk.deed("write")
        if wrong == "tear":
            self._tear(bytes(data), offset)
        self._underneath.xWrite(data, offset)
        self._pend(Pending(offset, bytes(data), "lost" if wrong == "lose" else ""))

    def _tear(self, data: bytes, offset: int) -> None:
        """The power goes in the middle of it."""
        self._pend(Pending(offset, data[: self.disk.rng.randrange(len(data))], "stays"))
        self.disk.off = True
        raise apsw.IOError("the power is off")

    def _pend(self, pending: Pending) -> None:
        self.disk.since[self.name].append(pending)

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        wrong = self.disk.deed("truncate")
        if wrong == "tear":
            self.disk.off = True
            raise apsw.IOError("the power is off")
        self._underneath.xTruncate(newsize)
        self._pend(Pending(newsize, None, "lost" if wrong == "lose" else ""))

    def xSync(self, flags: int) -> None:  # noqa: N802
        wrong = self.disk.deed("sync")
        if wrong == "tear":
            self.disk.off = True
            raise apsw.IOError("the power is off")
        if wrong != "lose":
            self.disk.sync(self.name)
