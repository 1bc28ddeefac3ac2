"""The journal conformance suite without a test runner: each law of `JournalSuite` on a store of its own."""

from __future__ import annotations

import traceback
from pathlib import Path

from msgspec import Struct, field

from flyball.journal import Journal
from flyball.journal.memory import MemoryJournal
from flyball.journal.sqlite import SqliteJournal
from flyball.testing.journal_suite import JournalSuite


class ConformanceCount(Struct):
    laws: int = 0
    broken: list[str] = field(default_factory=list[str])


def conform(folder: Path) -> ConformanceCount:
    """Every law on SQLite in this folder, and in memory."""
    names = [name for name in dir(JournalSuite) if name.startswith("test_")]
    count = ConformanceCount(len(names))
    for number, name in enumerate(names):
        _check(count, name, MemoryJournal())
        _check(count, name, SqliteJournal(folder / f"law-{number}" / "journal.db"))
    return count


def _check(count: ConformanceCount, name: str, journal: Journal) -> None:
    try:
        getattr(JournalSuite(), name)(journal)
    except Exception as problem:  # any exception means that the law does not hold
        where = traceback.extract_tb(problem.__traceback__)[-1]
        law = name.removeprefix("test_").replace("_", " ")
        count.broken.append(
            f"{type(journal).__name__}: {law} ({type(problem).__name__}, line {where.lineno})"
        )
    finally:
        journal.close()
