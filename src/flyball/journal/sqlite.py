"""The journal in one SQLite file that all processes of a user share.

One transaction holds a write's events, its row, its messages, its snapshot and its lines of the registry.
`append` takes the writes of many runs: this is the group commit, with one sync for all of them.
An instance is used by the thread that made it; other processes (and threads) open their own.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import compress
from operator import ne
from pathlib import Path
from typing import NamedTuple, Unpack

from msgspec.json import encode
from msgspec.structs import astuple

from flyball.errors import Conflict, JournalError
from flyball.journal import chain
from flyball.journal.chain import (
    check_shape,
    checked,
    elsewhere,
    extended,
    fenced,
    held,
    not_ended,
    pruned_before,
    register,
    snapshot_digest,
    taken,
    unknown,
)
from flyball.journal.database import CHECKPOINT_PAGES, SEQS, Database, SqliteStored, Value
from flyball.journal.types import (
    EXACTLY,
    Checkpoint,
    Entry,
    Fault,
    Message,
    Registered,
    Row,
    RowFilter,
    Snapshot,
    Write,
)

TYPES: tuple[type, ...] = tuple(str if default == "" else int for default in astuple(Row()))
COLUMNS = ", ".join(f'"{name}"' for name in Row.__struct_fields__)
_REMEMBERED = 4_096
_TRIES = 100
_MESSAGE = (int, str, int, bytes)
_FIELDS = Row.__struct_fields__
_Event = tuple[int, int, str, bytes, bytes]
_Updates = dict[tuple[bool, ...], list[tuple[Value, ...]]]


class _Place(NamedTuple):
    """The position of a run: its number, its head, whether its end is registered, its row's values; the lease."""

    n: int
    seq: int
    head: bytes
    ended: bool
    row: tuple[Value, ...]
    fence: int = 0


class _Pending:
    """What a transaction still has to store: rows that move, by the columns that change, and events."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.events: list[_Event] = []
        self.updates: _Updates = {}
        self.runs: dict[str, Write] = {}


class SqliteJournal:
    """A `Journal` in the file `path`. `vfs` names an APSW file system; tests use one that fails."""

    def __init__(self, path: Path | str, vfs: str = "", checkpoint_pages: int = CHECKPOINT_PAGES) -> None:
        self.path = Path(path)
        self._database = Database(self.path, vfs, checkpoint_pages)
        self._stored = SqliteStored(self._database)
        self._places: dict[str, _Place] = {}
        self._updates: dict[tuple[bool, ...], str] = {}

    # Appending. A remembered position is only a guess: the update names the head that it expects. Whoever writes no
    # event leaves the head alone, so a position is remembered for as long as the lease under which it was reached.

    def append(self, writes: Sequence[Write]) -> list[Entry]:
        """Write all in one transaction, or raise and write nothing."""
        for write in writes:
            check_shape(write)
        if not writes:
            return []
        self._database.begin()
        try:
            entries = self._write_all(writes)
            self._database.commit()
        except BaseException:
            self._places.clear()
            self._database.rollback()
            raise
        return entries

    def _write_all(self, writes: Sequence[Write]) -> list[Entry]:
        """Leases are read once, and rows and events are stored with one call each, for all runs together."""
        fences, pending = self._fences(writes), _Pending()
        for write in writes:
            now = fences.get(write.run, 0)
            if now != write.fence or not now:
                raise fenced(write, now)
            if write.run in pending.runs:  # the same run twice in one transaction: one after the other
                self._store(pending)
            self._write(write, pending)
        self._store(pending)
        return pending.entries

    def _fences(self, writes: Sequence[Write]) -> dict[str, int]:
        """The numbers of the leases in force."""
        if len(writes) == 1:
            which, value = "run = ?", writes[0].run
        else:
            which, value = "run IN (SELECT value FROM json_each(?))", encode([w.run for w in writes]).decode()
        sql = f"SELECT run, fence FROM lease WHERE driver <> '' AND {which}"
        return dict(self._database.ask(sql, (value,), (str, int)))

    def _write(self, write: Write, pending: "_Pending") -> None:
        place = self._place(write)
        chained = extended(write.run, write.after, place.head, write.drafts)
        head = chained[-1][1] if chained else place.head
        if write.after:
            place = self._move(place, write, head, pending)
        else:
            place = self._begin(write, chained[0], head)
        base = place.n * SEQS
        for entry, digest in chained:
            pending.entries.append(entry)
            pending.events.append((base + entry.seq, entry.at, entry.kind, entry.body, digest))
        if write.messages:
            self._take(write)
        if write.snapshot:
            self._keep_snapshot(place, write)
        self._remember(write.run, place)

    def _store(self, pending: "_Pending") -> None:
        """The changed rows, each only if its head is still the expected one; then the events."""
        for changed, values in pending.updates.items():
            if self._database.tell_many(self._update(changed), values) != len(values):
                raise self._elsewhere(pending.runs)
        self._database.tell_many(
            "INSERT INTO event (id, at, kind, body, hash) VALUES (?, ?, ?, ?, ?)", pending.events
        )
        pending.runs.clear()
        pending.updates.clear()
        pending.events.clear()

    def _elsewhere(self, runs: dict[str, Write]) -> Conflict:
        """The first run that is not at the event that its write expects."""
        for run, write in runs.items():
            place = self._load(run)
            if (
                place is None
                or place.seq != write.after + len(write.drafts)
                or place.head != self._places[run].head
            ):
                return elsewhere(write, place.seq if place else 0)
        return elsewhere(next(iter(runs.values())), 0)

    def _place(self, write: Write) -> _Place:
        place = self._places.get(write.run)
        if place is None or place.seq != write.after or place.fence != write.fence:
            place = self._load(write.run) or _Place(0, 0, b"", False, ())
        if place.seq != write.after:
            raise elsewhere(write, place.seq)
        return place

    def _load(self, run: str) -> _Place | None:
        sql = f"SELECT n, seq, head, ended, {COLUMNS} FROM run WHERE run = ?"
        for n, seq, head, ended, *row in self._database.ask(sql, (run,), (int, int, bytes, int, *TYPES)):
            return _Place(n, seq, head, bool(ended), tuple(row))
        return None

    def _begin(self, write: Write, first: tuple[Entry, bytes], head: bytes) -> _Place:
        if self._database.ask("SELECT 1 FROM registry WHERE run = ? LIMIT 1", (write.run,)):
            raise pruned_before(write.run)
        n = self._register("began", write.run, first[1], first[0].at)
        ended = self._register_end(write, head, False)
        row, seq = astuple(write.row), len(write.drafts)
        marks = ", ".join("?" * (len(_FIELDS) + 4))
        sql = f"INSERT INTO run (n, seq, head, ended, {COLUMNS}) VALUES ({marks})"
        self._database.tell(sql, (n, seq, head, ended, *row))
        return _Place(n, seq, head, ended, row, write.fence)

    def _move(self, place: _Place, write: Write, head: bytes, pending: "_Pending") -> _Place:
        """Set only the columns that changed, so that only their indexes are updated."""
        ended = self._register_end(write, head, place.ended)
        row, seq = astuple(write.row), place.seq + len(write.drafts)
        changed = tuple(map(ne, place.row, row))
        values = (seq, head, ended, *compress(row, changed), place.n, place.seq, place.head)
        pending.runs[write.run] = write
        pending.updates.setdefault(changed, []).append(values)
        return _Place(place.n, seq, head, ended, row, write.fence)

    def _update(self, changed: tuple[bool, ...]) -> str:
        sql = self._updates.get(changed)
        if sql is None:
            sets = "".join(f', "{name}" = ?' for name in compress(_FIELDS, changed))
            sql = f"UPDATE run SET seq = ?, head = ?, ended = ?{sets} WHERE n = ? AND seq = ? AND head = ?"
            self._updates[changed] = sql
        return sql

    def _register_end(self, write: Write, head: bytes, ended: bool) -> bool:
        if not ended and write.row.status == "ended":
            at = write.drafts[-1].at if write.drafts else write.row.updated_at
            self._register("ended", write.run, head, at)
            return True
        return ended

    def _register(self, kind: str, run: str, run_head: bytes, at: int) -> int:
        n, head = self.registry_head()
        line = register(n, bytes.fromhex(head), kind, run, run_head, at)
        sql = "INSERT INTO registry (n, kind, run, head, at, hash) VALUES (?, ?, ?, ?, ?, ?)"
        self._database.tell(sql, (line.n, kind, run, run_head, at, bytes.fromhex(line.hash)))
        return line.n

    def _take(self, write: Write) -> None:
        sql = "UPDATE letter SET taken = 1 WHERE id = ? AND run = ? AND taken = 0"
        for message in write.messages:
            if not self._database.tell(sql, (message, write.mailbox or write.run)):
                raise taken(write.run, message)

    def _keep_snapshot(self, place: _Place, write: Write) -> None:
        digest = snapshot_digest(write.run, place.seq, place.head, write.rules, write.snapshot)
        sql = "INSERT OR REPLACE INTO snapshot (n, seq, rules, body, hash) VALUES (?, ?, ?, ?, ?)"
        self._database.tell(sql, (place.n, place.seq, write.rules, write.snapshot, digest))

    def _remember(self, run: str, place: _Place) -> None:
        if len(self._places) >= _REMEMBERED:
            self._places.clear()
        self._places[run] = place

    # Reading.

    def read(self, run: str, after: int = 0) -> Iterator[Entry]:
        """The events after `after`, a page at a time, so that others may append meanwhile."""
        place = self._load(run)
        if place is None or after >= place.seq:
            return
        head, entries = self._stored.hash_at(place.n, after), self._stored.entries_of(place.n, run, after)
        yield from checked(entries, str(self.path), run, after, head, place.seq)

    def head(self, run: str) -> tuple[int, str]:
        """The run's last sequence number and hash."""
        rows = self._database.ask("SELECT seq, head FROM run WHERE run = ?", (run,), (int, bytes))
        return (rows[0][0], rows[0][1].hex()) if rows else (0, "")

    def hash_at(self, run: str, seq: int) -> str:
        """The hash of one event."""
        rows = self._database.ask("SELECT n FROM run WHERE run = ?", (run,), (int,))
        return self._stored.hash_at(rows[0][0], seq).hex() if rows else ""

    def finished(self, since: int) -> list[bytes]:
        """The bodies of all acts that have finished since then, of any run."""
        sql = "SELECT body FROM event INDEXED BY event_finished WHERE kind = 'ActFinished' AND at >= ?"
        return [body for (body,) in self._database.ask(sql, (since,), (bytes,))]

    def registry_head(self) -> tuple[int, str]:
        """The registry's last number and hash."""
        sql = "SELECT n, hash FROM registry ORDER BY n DESC LIMIT 1"
        rows = self._database.ask(sql, (), (int, bytes))
        return (rows[0][0], rows[0][1].hex()) if rows else (0, "")

    def latest_snapshot(self, run: str) -> Snapshot | None:
        """The snapshot written last, if it is still bound to its event."""
        sql = (
            "SELECT s.n, s.seq, s.rules, s.body, s.hash FROM run JOIN snapshot s ON s.n = run.n "
            "WHERE run.run = ? AND s.seq <= run.seq"
        )
        for n, seq, rules, body, digest in self._database.ask(sql, (run,), (int, int, str, bytes, bytes)):
            if digest == snapshot_digest(run, seq, self._stored.hash_at(n, seq), rules, body):
                return Snapshot(run, seq, rules, body)
        return None

    def row(self, run: str) -> Row | None:
        """The run's row."""
        rows = self._database.ask(f"SELECT {COLUMNS} FROM run WHERE run = ?", (run,), TYPES)
        return Row(*rows[0]) if rows else None

    def rows(self, *, limit: int | None = None, **filters: Unpack[RowFilter]) -> list[Row]:
        """The rows that fit every condition, newest first."""
        return [Row(*values) for values in self._database.ask(*rows_query(filters, limit), TYPES)]

    def tally(self, *, machine: str | None = None) -> dict[str, int]:
        """How many runs are in each state."""
        where, values = ("", ()) if machine is None else ("WHERE machine = ?", (machine,))
        sql = f"SELECT state, count(*) FROM run INDEXED BY run_state {where} GROUP BY state ORDER BY state"
        return dict(self._database.ask(sql, values, (str, int)))

    def resolve(self, prefix: str) -> list[str]:
        """The runs whose id begins with the prefix, in order."""
        sql = "SELECT run FROM run WHERE run >= ? AND run < ? ORDER BY run"
        rows = self._database.ask(sql, (prefix, prefix + "\U0010ffff"), (str,))
        return [run for (run,) in rows]

    # Leases.

    def acquire(self, run: str, driver: str, alive: Callable[[str], bool]) -> int:
        """Take the lease if nobody holds it, or if its holder is dead. Whether it is alive is checked before the
        file is locked.
        """
        holder = ""
        for _ in range(_TRIES):
            holder, fence = self._lease(run)
            if holder == driver:
                return fence
            if holder and alive(holder):
                raise held(run, holder)
            if self._seize(run, driver, holder, fence):
                return fence + 1
        raise held(run, holder)

    def _lease(self, run: str) -> tuple[str, int]:
        rows = self._database.ask("SELECT driver, fence FROM lease WHERE run = ?", (run,), (str, int))
        return rows[0] if rows else ("", 0)

    def _seize(self, run: str, driver: str, holder: str, fence: int) -> bool:
        if not fence:
            sql = "INSERT OR IGNORE INTO lease (run, driver, fence) VALUES (?, ?, 1)"
            return bool(self._database.tell(sql, (run, driver)))
        sql = "UPDATE lease SET driver = ?, fence = fence + 1 WHERE run = ? AND driver = ? AND fence = ?"
        return bool(self._database.tell(sql, (driver, run, holder, fence)))

    def release(self, run: str, driver: str) -> None:
        """Give the lease back. The number stays, so that the next one is higher."""
        self._database.tell("UPDATE lease SET driver = '' WHERE run = ? AND driver = ?", (run, driver))

    def holder(self, run: str) -> str:
        """Who holds the lease."""
        return self._lease(run)[0]

    # Mail.

    def post(self, run: str, at: int, body: bytes) -> int:
        """Leave a message; when this returns, it is on the disk."""
        sql = "INSERT INTO letter (run, at, body) VALUES (?, ?, ?) RETURNING id"
        return self._database.number(sql, (run, at, body))

    def mail(self, run: str) -> list[Message]:
        """The run's messages that nobody has taken."""
        sql = "SELECT id, run, at, body FROM letter INDEXED BY letter_waiting WHERE taken = 0 AND run = ? ORDER BY id"
        return [Message(*values, taken=False) for values in self._database.ask(sql, (run,), _MESSAGE)]

    def mail_all(self, runs: Iterable[str]) -> list[Message]:
        """The messages of these runs that nobody has taken: one query for all pending messages, which are few."""
        ids = frozenset(runs)
        sql = "SELECT id, run, at, body FROM letter INDEXED BY letter_waiting WHERE taken = 0 ORDER BY id"
        rows = self._database.ask(sql, (), _MESSAGE)
        return [Message(*values, taken=False) for values in rows if values[1] in ids]

    # Pruning, auditing, closing.

    def prune(self, run: str, at: int) -> None:
        """Delete an ended run; a line in the registry stays as a tombstone."""
        self._database.begin()
        try:
            self._bury(run, at)
            self._database.commit()
        except BaseException:
            self._database.rollback()
            raise
        finally:
            self._places.pop(run, None)

    def _bury(self, run: str, at: int) -> None:
        place = self._load(run)
        if place is None:
            raise unknown(run)
        if not place.ended:
            raise not_ended(run)
        self._register("pruned", run, place.head, at)
        first, end = place.n * SEQS, (place.n + 1) * SEQS
        self._database.tell("DELETE FROM event WHERE id > ? AND id < ?", (first, end))
        self._database.tell("DELETE FROM snapshot WHERE n = ?", (place.n,))
        self._database.tell("DELETE FROM run WHERE n = ?", (place.n,))
        self._database.tell("DELETE FROM letter WHERE run = ?", (run,))
        self._database.tell("DELETE FROM lease WHERE run = ?", (run,))

    def weights(self) -> dict[str, int]:
        """About how many bytes the events of each run use."""
        sql = (
            "SELECT r.run, sum(length(e.body) + length(e.hash) + length(e.kind) + 24) "
            f"FROM event e JOIN run r ON r.n = e.id / {SEQS} GROUP BY r.n"
        )
        return dict(self._database.ask(sql, (), (str, int)))

    def compact(self) -> None:
        """Give the space of pruned runs back to the disk, if it is worth the copying."""
        free, pages = (self._database.number(f"PRAGMA {name}") for name in ("freelist_count", "page_count"))
        if free * 4 > pages:
            self._database.tell("VACUUM")

    def pruned_at(self, run: str) -> int:
        """When a run was pruned; 0 if it was not."""
        return self._database.number("SELECT at FROM registry WHERE run = ? AND kind = 'pruned'", (run,))

    def registered(self) -> Iterator[Registered]:
        """The registry, in order, unchecked."""
        return self._stored.registered()

    def faults(self, checkpoints: Iterable[Checkpoint] = (), only: str | None = None) -> list[Fault]:
        """What SQLite finds wrong with the file, then what the chains show; both of the same moment, whoever
        writes meanwhile.
        """
        result: list[Fault] = []
        try:
            with self.still():
                result += self._damage() if only is None else []
                result += chain.faults(self._stored, checkpoints, only)
        except JournalError as error:
            result.append(Fault("", 0, str(error)))
        return result

    @contextmanager
    def still(self) -> Generator[None]:
        """Everything read inside sees the same state, although others write. Keep it short; nothing may be written."""
        with self._database.reading():
            yield

    def _damage(self) -> list[Fault]:
        rows = self._database.ask("PRAGMA integrity_check(20)", (), (str,))
        return [Fault("", 0, f"{self.path} is damaged ({what}).") for (what,) in rows if what != "ok"]

    def close(self) -> None:
        """Close the file."""
        self._database.close()


# The rows to select, as SQL. The index is named explicitly: a query plan must not depend on statistics.


def rows_query(filters: RowFilter, limit: int | None) -> tuple[str, list[int | str]]:
    """The statement, newest first, and its values."""
    equal: dict[str, str] = {name: value for name in EXACTLY if (value := filters.get(name)) is not None}
    wheres, values = _conditions(filters, equal)
    sql = (
        f"SELECT {COLUMNS} FROM run INDEXED BY {_index(filters, frozenset(equal))} WHERE {' AND '.join(wheres)} "
        "ORDER BY created_at DESC, n DESC LIMIT ?"
    )
    return sql, [*values, -1 if limit is None else limit]


def _conditions(filters: RowFilter, equal: dict[str, str]) -> tuple[list[str], list[int | str]]:
    wheres, values = [f"{name} = ?" for name in equal], list[int | str](equal.values())
    late_at, failures = filters.get("late_at"), filters.get("failures")
    if filters.get("open_question"):
        wheres.append("question <> ''")
    if late_at is not None:
        wheres.append("alert_at > 0 AND alert_at <= ?")
        values.append(late_at)
    if failures is not None:
        wheres.append("failures >= ?" if failures < 1 else "failures > 0 AND failures >= ?")
        values.append(failures)
    return wheres or ["true"], values


def _index(filters: RowFilter, equal: frozenset[str]) -> str:
    """The narrowest index that fits: columns that few rows match come before those that many match."""
    if filters.get("late_at") is not None:
        return "run_alert"
    if filters.get("open_question"):
        return "run_question"
    if (filters.get("failures") or 0) > 0:
        return "run_failures"
    if filters.get("parent"):
        return "run_parent"
    return next((index for columns, index in _BY_COLUMNS if columns <= equal), "run_created")


_BY_COLUMNS: tuple[tuple[frozenset[str], str], ...] = (
    (frozenset({"root"}), "run_root"),
    (frozenset({"ticket"}), "run_ticket"),
    (frozenset({"state"}), "run_state"),
    (frozenset({"repo", "status"}), "run_repo_status"),
    (frozenset({"status"}), "run_status"),
    (frozenset({"repo"}), "run_repo"),
    (frozenset({"machine"}), "run_machine"),
    (frozenset({"parent"}), "run_parent"),
)
