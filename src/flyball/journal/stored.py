"""The SQLite file laid bare: rows as they lie there, unchecked, a page at a time.

A row that no statement of ours could have written (text that is no text, a number that is none) does not hide
the others: it is given as far as it can be read, with `UNREADABLE` for its hash, which no chain bears.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

from flyball.errors import Corrupt
from flyball.journal.chain import UNREADABLE, snapshot_digest
from flyball.journal.database import Database
from flyball.journal.types import Entry, Registered

SEQS = 1 << 32
"""An event's key is its run's number times this, plus its sequence number."""

_PAGE = 1_000
_LEAST = -(1 << 63)


class _Wanted(NamedTuple):
    """What is read: the columns (the first is the key), their types, from where."""

    columns: tuple[str, ...]
    types: tuple[type, ...]
    source: str


_REGISTRY = _Wanted(
    ("n", "kind", "run", "head", "at", "hash"), (int, str, str, bytes, int, bytes), "registry WHERE n > ?"
)
_HEADS = _Wanted(("n", "run", "seq", "head", "ended"), (int, str, int, bytes, int), "run WHERE n > ?")
_EVENTS = _Wanted(
    ("id", "at", "kind", "body", "hash"), (int, int, str, bytes, bytes), "event WHERE id > ? AND id < ?"
)
_SNAPSHOTS = _Wanted(
    ("s.n", "r.run", "s.seq", "s.rules", "s.body", "s.hash"),
    (int, str, int, str, bytes, bytes),
    "snapshot s JOIN run r ON r.n = s.n WHERE s.n > ?",
)


class SqliteStored:
    """What the auditor reads."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def registered(self) -> Iterator[Registered]:
        """The registry's lines in their order."""
        for good, (n, kind, run, head, at, digest) in self._rows(_REGISTRY, _LEAST):
            yield Registered(n, kind, run, head.hex(), at, digest.hex() if good else UNREADABLE)

    def heads(self) -> Iterator[tuple[str, int, str, bool]]:
        """Each run's name, sequence number, hash, and whether it has ended, as its row has them."""
        for good, (_, run, seq, head, ended) in self._rows(_HEADS, _LEAST):
            yield run, seq, head.hex() if good else UNREADABLE, bool(ended)

    def entries(self, run: str) -> Iterator[Entry]:
        """The run's events, whether it still has a row or only its line in the registry."""
        sql = "SELECT n FROM run WHERE run = ? UNION ALL SELECT n FROM registry WHERE run = ? AND kind = 'began'"
        found = self._database.ask(sql, (run, run), (int,))
        return self.entries_of(found[0][0], run) if found else iter(())

    def entries_of(self, n: int, run: str, after: int = 0) -> Iterator[Entry]:
        """The events after `after` of the run whose number is `n`."""
        first, end = n * SEQS, (n + 1) * SEQS
        for good, (key, at, kind, body, digest) in self._rows(_EVENTS, first + after, end):
            yield Entry(run, key - first, at, kind, body, digest.hex() if good else UNREADABLE)

    def hash_at(self, n: int, seq: int) -> bytes:
        """The hash stored with an event; b"" if there is no such event."""
        rows = self._database.ask("SELECT hash FROM event WHERE id = ?", (n * SEQS + seq,), (bytes,))
        return rows[0][0] if rows else b""

    def strays(self) -> Iterator[str]:
        """Hop from run number to run number; name those that neither a row nor the registry knows."""
        known = (
            "SELECT 1 FROM run WHERE n = ? UNION ALL SELECT 1 FROM registry WHERE n = ? AND kind = 'began'"
        )
        last = _LEAST
        while found := self._database.ask(
            "SELECT id FROM event WHERE id > ? ORDER BY id LIMIT 1", (last,), (int,)
        ):
            n = found[0][0] // SEQS
            if found[0][0] <= last:
                raise self._out_of_order()
            if found[0][0] % SEQS == 0 or not self._database.ask(known, (n, n)):
                yield f"run number {n}"
            last = (n + 1) * SEQS - 1

    def spoiled(self) -> Iterator[tuple[str, int]]:
        """The snapshots that are not bound to their events any more."""
        for good, (n, run, seq, rules, body, digest) in self._rows(_SNAPSHOTS, _LEAST):
            if not good or digest != snapshot_digest(run, seq, self.hash_at(n, seq), rules, body):
                yield run, seq

    # Pages.

    def _rows(self, wanted: _Wanted, last: int, *values: int) -> Iterator[tuple[bool, Any]]:
        """The rows after `last`, and whether each is as our statements write them."""
        while page := self._page(wanted, last, values):
            yield from page
            last = page[-1][1][0]

    def _page(self, wanted: _Wanted, last: int, values: tuple[int, ...]) -> list[tuple[bool, Any]]:
        sql = _sql(wanted.columns, wanted.source)
        try:
            rows = self._database.ask(sql, (last, *values, _PAGE), wanted.types)
            page = [(True, row) for row in rows]
        except Corrupt:
            page = self._one_by_one(wanted, last, values)
        keys = [last, *(row[0] for _, row in page)]
        if any(before >= after for before, after in pairwise(keys)):
            raise self._out_of_order()
        return page

    def _out_of_order(self) -> Corrupt:
        """In a damaged file rows may not come in order, and paging would never end."""
        return Corrupt(f"{self._database.path} is damaged (its rows are out of order). Put back a backup.")

    def _one_by_one(self, wanted: _Wanted, last: int, values: tuple[int, ...]) -> list[tuple[bool, Any]]:
        """Every column as bytes: what is of the right type is told apart by what SQLite calls it."""
        bare = [f"CAST({name} AS BLOB)" for name in wanted.columns[1:]]
        kinds = [f"typeof({name})" for name in wanted.columns[1:]]
        sql = _sql((wanted.columns[0], *bare, *kinds), wanted.source)
        many = len(bare)
        return [
            _lenient(wanted.types, row[0], row[1 : many + 1], row[many + 1 :])
            for row in self._database.ask(sql, (last, *values, _PAGE))
        ]


def _sql(columns: tuple[str, ...], source: str) -> str:
    return f"SELECT {', '.join(columns)} FROM {source} ORDER BY 1 LIMIT ?"


_NAMES = {int: "integer", str: "text", bytes: "blob"}


def _lenient(types: tuple[type, ...], key: int, bare: tuple[Any, ...], kinds: tuple[str, ...]) -> Any:
    good, row = True, list[Any]([key])
    for wanted, value, kind in zip(types[1:], bare, kinds, strict=True):
        read, sound = _read(wanted, bytes(value or b""))
        row.append(read)
        good = good and sound and kind == _NAMES[wanted]
    return good, tuple(row)


def _read(wanted: type, value: bytes) -> tuple[Any, bool]:
    if wanted is bytes:
        return value, True
    try:
        return (value.decode("utf-8") if wanted is str else int(value)), True
    except ValueError:
        return (value.decode("utf-8", "replace") if wanted is str else 0), False
