"""Where a simulated world keeps its journal: in memory, or on a disk that fails.

What was acknowledged must still be there later. `Store` opens a journal whenever a driver starts; its hazard is called
before and after each append.
"""

from __future__ import annotations

import contextlib
import random
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from flyball.errors import JournalError
from flyball.journal import Entry, Journal, Write
from flyball.journal.memory import MemoryJournal
from flyball.journal.sqlite import SqliteJournal
from flyball.lab.faulty_disk import DiskFault, FaultyDisk

SYNC_FROM = 3  # the last operations of a transaction are syncs
DIRECTED = {
    "write fails": "write",
    "sync fails": "sync",
    "disk full": "write",
}  # in one of the next transactions


class Hazard(Protocol):
    def before(self, writes: Sequence[Write]) -> None:
        """It may raise: then nothing is written."""
        ...

    def after(self, entries: Sequence[Entry]) -> None:
        """It is durable now. It may raise: then nobody is told so."""
        ...


class Store(Protocol):
    def open(self, hazard: Hazard, keep: Sequence[Journal] = ()) -> Journal:
        """Open it as a new process does. Those of earlier processes are closed, except `keep`."""
        ...

    def cut_power(self, rng: random.Random) -> None: ...

    @property
    def failed(self) -> str:
        """The last fault."""
        ...

    def spoil(self, in_operations: int, kind: str) -> None:
        """Let a disk operation fail: the n-th from now (io | full), or the next one of a kind (see `DIRECTED`)."""
        ...

    def mend(self) -> None:
        """Nothing fails any more."""
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
            if fails == "sync fails":  # it is written, but nobody is told so
                super().append(writes)
            raise JournalError(f"The journal could not be written: {fails}.")
        entries = super().append(writes)
        self.hazard.after(entries)
        return entries


class MemoryStore:
    """A disk on which whole transactions fail."""

    def __init__(self) -> None:
        self.journal = HazardousMemory()
        self.failed = ""

    def open(self, hazard: Hazard, keep: Sequence[Journal] = ()) -> Journal:
        self.journal.hazard, self.journal.fails = hazard, ""
        return self.journal

    def cut_power(self, rng: random.Random) -> None:
        """Everything here counts as synced."""

    def spoil(self, in_operations: int, kind: str) -> None:
        by_lot = {"io": "sync fails" if in_operations > SYNC_FROM else "write fails", "full": "disk full"}
        self.journal.fails = self.failed = by_lot.get(kind, kind)

    def mend(self) -> None:
        self.journal.fails = ""

    def close(self) -> None:
        """Nothing to close."""


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
    """The journal's own file, on a file system that knows what a power cut would leave."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="flyball-world-"))
        self.path = self.folder / "journal.db"
        self.disk = FaultyDisk(f"world{id(self)}")
        self.opened: list[SqliteJournal] = []

    def open(self, hazard: Hazard, keep: Sequence[Journal] = ()) -> Journal:
        self._let_go(keep)
        journal = HazardousSqlite(self.path, self.disk.name, hazard)
        self.opened.append(journal)
        return journal

    def cut_power(self, rng: random.Random) -> None:
        self.disk.off = True
        self._let_go()
        self.disk.power_cut(rng)
        self.path.with_name(f"{self.path.name}-shm").unlink(missing_ok=True)

    @property
    def failed(self) -> str:
        return self.disk.failed

    def spoil(self, in_operations: int, kind: str) -> None:
        how = "refuse" if kind in ("full", "disk full") else "fail"
        at, on = (0, DIRECTED[kind]) if kind in DIRECTED else (len(self.disk.operations) + in_operations, "")
        self.disk.trouble = DiskFault(how, at, on=on)

    def mend(self) -> None:
        self.disk.mend()

    def _let_go(self, keep: Sequence[Journal] = ()) -> None:
        for journal in [one for one in self.opened if one not in keep]:
            with contextlib.suppress(Exception):  # the disk may have failed during it
                journal.close()
            self.opened.remove(journal)

    def close(self) -> None:
        self._let_go()
        self.disk.unregister()
        shutil.rmtree(self.folder, ignore_errors=True)
