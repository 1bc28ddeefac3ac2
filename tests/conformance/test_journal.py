"""One suite over every journal."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from flyball.journal import Journal
from flyball.journal.memory import MemoryJournal
from flyball.journal.sqlite import SqliteJournal
from flyball.testing.journal_suite import JournalSuite


class TestMemory(JournalSuite):
    @pytest.fixture
    def journal(self) -> Journal:
        return MemoryJournal()


class TestSqlite(JournalSuite):
    @pytest.fixture
    def journal(self, tmp_path: Path) -> Iterator[Journal]:
        journal = SqliteJournal(tmp_path / "journal.db")
        yield journal
        journal.close()
