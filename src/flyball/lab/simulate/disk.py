"""A disk of a simulated world: it refuses, fills up, fails in a sync, and loses what was not synced when the power goes.

What was acknowledged must be there afterwards. `Store` opens a journal on it as often as a driver starts; the hazard
is asked before each append and told after it.
"""

from __future__ import annotations

import contextlib
import random
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import apsw

from flyball.errors import JournalError
from flyball.journal import Entry, Journal, Write
from flyball.journal.memory import MemoryJournal
from flyball.journal.sqlite import SqliteJournal

SECTOR = 512
SYNC_FROM = 3  # of the deeds of one transaction the last ones are syncs
DIRECTED = {"write fails": False, "sync fails": True, "disk full": False}  # whether in a sync


class Hazard(Protocol):
    def before(self, writes: Sequence[Write]) -> None:
        """It may raise: then nothing is written."""
        ...

    def after(self, entries: Sequence[Entry]) -> None:
        """It is durable now. It may raise: then nobody hears of that."""
        ...


class Store(Protocol):
    def open(self, hazard: Hazard, keep: Sequence[Journal] = ()) -> Journal:
        """As a new process does. Those of earlier ones are closed, but for `keep`."""
        ...

    def cut_power(self, rng: random.Random) -> None: ...

    @property
    def failed(self) -> str:
        """What failed last."""
        ...

    def spoil(self, in_deeds: int, kind: str) -> None:
        """Let the so manieth deed of the disk fail (io | full), or the next of a kind (see `DIRECTED`)."""
        ...

    def mend(self) -> None:
        """No deed fails any more."""
        ...

    def close(self) -> None: ...


class HazardousMemory(MemoryJournal):
    def __init__(self) -> None:
        super().__init__()
        self.hazard: Hazard | None = None
        self.fails = ""

    def append(self, writes: Sequence[Write]) -> list[Entry]:
        assert self.hazard is not None
        self.hazard.before(writes)
        if self.fails:
            fails, self.fails = self.fails, ""
            if fails == "sync fails":  # it is written, and nobody hears of it
                super().append(writes)
            raise JournalError(f"The journal could not be written: {fails}.")
        entries = super().append(writes)
        self.hazard.after(entries)
        return entries


class MemoryStore:
    """A disk that fails by whole transactions."""

    def __init__(self) -> None:
        self.journal = HazardousMemory()
        self.failed = ""

    def open(self, hazard: Hazard, keep: Sequence[Journal] = ()) -> Journal:
        self.journal.hazard, self.journal.fails = hazard, ""
        return self.journal

    def cut_power(self, rng: random.Random) -> None:
        """All that is there was synced."""

    def spoil(self, in_deeds: int, kind: str) -> None:
        by_lot = {"io": "sync fails" if in_deeds > SYNC_FROM else "write fails", "full": "disk full"}
        self.journal.fails = self.failed = by_lot.get(kind, kind)

    def mend(self) -> None:
        self.journal.fails = ""

    def close(self) -> None:
        """Nothing to let go of."""


class HazardousSqlite(SqliteJournal):
    def __init__(self, path: Path, vfs: str, hazard: Hazard) -> None:
        super().__init__(path, vfs)
        self.hazard = hazard

    def append(self, writes: Sequence[Write]) -> list[Entry]:
        self.hazard.before(writes)
        entries = super().append(writes)
        self.hazard.after(entries)
        return entries


class SqliteStore:
    """The journal's own file, through a file system that remembers what a power cut would leave."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="flyball-world-"))
        self.path = self.folder / "journal.db"
        self.disk = Disk()
        self.opened: list[SqliteJournal] = []

    def open(self, hazard: Hazard, keep: Sequence[Journal] = ()) -> Journal:
        self._let_go(keep)
        journal = HazardousSqlite(self.path, self.disk.name, hazard)
        self.opened.append(journal)
        return journal

    def cut_power(self, rng: random.Random) -> None:
        self.disk.off = True
        self._let_go()
        self.disk.lose(rng)
        self.path.with_name(f"{self.path.name}-shm").unlink(missing_ok=True)
        self.disk.off = False

    @property
    def failed(self) -> str:
        return self.disk.failed

    def spoil(self, in_deeds: int, kind: str) -> None:
        self.disk.fails_in, self.disk.fails_with = in_deeds, kind

    def mend(self) -> None:
        self.disk.fails_in, self.disk.fails_with = 0, ""

    def _let_go(self, keep: Sequence[Journal] = ()) -> None:
        for journal in [one for one in self.opened if one not in keep]:
            with contextlib.suppress(Exception):  # the disk may have failed under it
                journal.close()
            self.opened.remove(journal)

    def close(self) -> None:
        self._let_go()
        self.disk.unregister()
        shutil.rmtree(self.folder, ignore_errors=True)


# ---- the file system -----------------------------------------------------------------------------------------------


class Disk(apsw.VFS):
    """Keeps, beside each file, its bytes at the last sync and the writes since."""

    def __init__(self) -> None:
        self.name = f"world{id(self)}"
        self.fails_in, self.fails_with, self.failed, self.off = 0, "", "", False
        self.synced: dict[str, bytearray] = {}
        self.since: dict[str, list[tuple[int, bytes | None]]] = {}
        super().__init__(self.name, "")

    def xOpen(self, name: Any, flags: list[int]) -> DiskFile:  # noqa: N802
        return DiskFile(self, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802
        self.deed()
        super().xDelete(filename, syncdir)
        self.synced.pop(filename, None)
        self.since.pop(filename, None)

    def deed(self, syncs: bool = False) -> None:
        if self.off:
            raise apsw.IOError("the power is off")
        if self.fails_in:
            self.fails_in -= 1
            fails = not self.fails_in
        else:
            fails = DIRECTED.get(self.fails_with) == syncs
        if fails:
            how, self.fails_with = self.fails_with, ""
            full = how in ("full", "disk full")
            self.failed = "disk full" if full else "sync fails" if syncs else "write fails"
            raise apsw.FullError("the disk is full") if full else apsw.IOError("a fault of the disk")

    def lose(self, rng: random.Random) -> None:
        """Of each write since a file's last sync remains all, nothing, or some sectors."""
        for name in sorted(self.synced):
            for offset, data in self.since[name]:
                _survive(self.synced[name], offset, data, rng)
            self.since[name] = []
            Path(name).write_bytes(self.synced[name])


def _survive(image: bytearray, offset: int, data: bytes | None, rng: random.Random) -> None:
    fate = rng.choice(("all", "nothing", "torn"))
    if fate == "nothing":
        return
    if data is not None and fate == "torn":
        data = data[: rng.randrange(len(data) // SECTOR + 1) * SECTOR]
    _put(image, offset, data)


def _put(image: bytearray, offset: int, data: bytes | None) -> None:
    """None: the file is cut off there."""
    if data is None:
        del image[offset:]
        return
    image.extend(bytes(max(0, offset + len(data) - len(image))))
    image[offset : offset + len(data)] = data


class DiskFile(apsw.VFSFile):
    def __init__(self, disk: Disk, name: Any, flags: list[int]) -> None:
        self.disk = disk
        self.name: str = name.filename() if isinstance(name, apsw.URIFilename) else str(name)
        if self.name not in disk.synced:
            path = Path(self.name)
            disk.synced[self.name] = bytearray(path.read_bytes() if path.exists() else b"")
            disk.since[self.name] = []
        super().__init__("", name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        self.disk.deed()
        underneath: Any = super()
        underneath.xWrite(data, offset)
        self.disk.since[self.name].append((offset, bytes(data)))

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        self.disk.deed()
        super().xTruncate(newsize)
        self.disk.since[self.name].append((newsize, None))

    def xSync(self, flags: int) -> None:  # noqa: N802
        """The real file is not synced: only a simulated power cut is survived."""
        self.disk.deed(syncs=True)
        for offset, data in self.disk.since[self.name]:
            _put(self.disk.synced[self.name], offset, data)
        self.disk.since[self.name] = []
