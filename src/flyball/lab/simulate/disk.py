"""Where a simulated world keeps its journal: in memory, or on a disk that fails.

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
from typing import Protocol

from flyball.errors import JournalError
from flyball.journal import Entry, Journal, Write
from flyball.journal.memory import MemoryJournal
from flyball.journal.sqlite import SqliteJournal
from flyball.lab.faulty_disk import DiskFault, FaultyDisk

SYNC_FROM = 3  # of the operations of one transaction the last ones are syncs
DIRECTED = {"write fails": "write", "sync fails": "sync", "disk full": "write"}  # in the next one of these


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

    def spoil(self, in_operations: int, kind: str) -> None:
        """Let an operation of the disk fail: the n-th from now (io | full), or the next of a kind (see `DIRECTED`)."""
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

    def spoil(self, in_operations: int, kind: str) -> None:
        by_lot = {"io": "sync fails" if in_operations > SYNC_FROM else "write fails", "full": "disk full"}
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
            with contextlib.suppress(Exception):  # the disk may have failed under it
                journal.close()
            self.opened.remove(journal)

    def close(self) -> None:
        self._let_go()
        self.disk.unregister()
        shutil.rmtree(self.folder, ignore_errors=True)
