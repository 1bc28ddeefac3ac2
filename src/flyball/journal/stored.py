"""The SQLite file laid bare: rows as they lie there, unchecked, a page at a time."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from flyball.errors import Corrupt
from flyball.journal.chain import snapshot_digest
from flyball.journal.database import Database
from flyball.journal.types import Entry, Registered

SEQS = 1 << 32
"""An event's key is its run's number times this, plus its sequence number."""

_PAGE = 1_000


class SqliteStored:
    """What the auditor reads."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def registered(self) -> Iterator[Registered]:
        """The registry's lines in their order."""
        sql = "SELECT n, kind, run, head, at, hash FROM registry WHERE n > ? ORDER BY n LIMIT ?"
        last = -(1 << 63)
        while page := self._page(sql, (int, str, str, bytes, int, bytes), last):
            for last, kind, run, head, at, digest in page:
                yield Registered(last, kind, run, head.hex(), at, digest.hex())

    def heads(self) -> Iterator[tuple[str, int, str]]:
        """Each run's name, sequence number and hash as its row has them."""
        sql = "SELECT n, run, seq, head FROM run WHERE n > ? ORDER BY n LIMIT ?"
        last = -(1 << 63)
        while page := self._page(sql, (int, str, int, bytes), last):
            yield from ((run, seq, head.hex()) for _, run, seq, head in page)
            last = page[-1][0]

    def entries(self, run: str) -> Iterator[Entry]:
        """The run's events, whether it still has a row or only its line in the registry."""
        sql = "SELECT n FROM run WHERE run = ? UNION ALL SELECT n FROM registry WHERE run = ? AND kind = 'began'"
        found = self._database.ask(sql, (run, run), (int,))
        return self.entries_of(found[0][0], run) if found else iter(())

    def entries_of(self, n: int, run: str, after: int = 0) -> Iterator[Entry]:
        """The events after `after` of the run whose number is `n`."""
        sql = "SELECT id, at, kind, body, hash FROM event WHERE id > ? AND id < ? ORDER BY id LIMIT ?"
        first, end = n * SEQS, (n + 1) * SEQS
        last = first + after
        while page := self._page(sql, (int, int, str, bytes, bytes), last, end):
            for last, at, kind, body, digest in page:
                yield Entry(run, last - first, at, kind, body, digest.hex())

    def hash_at(self, n: int, seq: int) -> bytes:
        """The hash stored with an event; b"" if there is no such event."""
        rows = self._database.ask("SELECT hash FROM event WHERE id = ?", (n * SEQS + seq,), (bytes,))
        return rows[0][0] if rows else b""

    def strays(self) -> Iterator[str]:
        """Hop from run number to run number; name those that neither a row nor the registry knows."""
        sql = "SELECT id FROM event WHERE id > ? ORDER BY id LIMIT min(1, ?)"
        known = (
            "SELECT 1 FROM run WHERE n = ? UNION ALL SELECT 1 FROM registry WHERE n = ? AND kind = 'began'"
        )
        last = -(1 << 63)
        while page := self._page(sql, (int,), last):
            n = page[0][0] // SEQS
            if page[0][0] % SEQS == 0 or not self._database.ask(known, (n, n)):
                yield f"run number {n}"
            last = (n + 1) * SEQS - 1

    def spoiled(self) -> Iterator[tuple[str, int]]:
        """The snapshots that are not bound to their events any more."""
        sql = (
            "SELECT s.n, r.run, s.seq, s.rules, s.body, s.hash FROM snapshot s JOIN run r ON r.n = s.n "
            "WHERE s.n > ? ORDER BY s.n LIMIT ?"
        )
        last = -(1 << 63)
        while page := self._page(sql, (int, str, int, str, bytes, bytes), last):
            for last, run, seq, rules, body, digest in page:
                if digest != snapshot_digest(run, seq, self.hash_at(last, seq), rules, body):
                    yield run, seq

    def _page(self, sql: str, types: tuple[type, ...], last: int, *values: int) -> list[Any]:
        """The rows after `last`. In a damaged file they may not come in order, and paging would never end."""
        page = self._database.ask(sql, (last, *values, _PAGE), types)
        keys = [last, *(row[0] for row in page)]
        if any(before >= after for before, after in pairwise(keys)):
            raise Corrupt(f"{self._database.path} is damaged (its rows are out of order). Put back a backup.")
        return page
