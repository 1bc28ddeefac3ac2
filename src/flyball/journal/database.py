"""The SQLite file of a user and the processes that share it. Errors of SQLite become messages that say what to do.

A `Driver` is a process that executes runs: it has a name, a lock that it holds while it lives, and a socket that wakes
it. A lease in the journal names its driver. The lock shows whether that driver is alive, so the runs of a killed driver
can be taken over at once, and those of a living one never.

A `Database` is one connection, used by one thread. With WAL and synchronous=FULL, a commit that returned survives a
power cut. Several processes share the file; a writer waits for the others for up to `PATIENCE_MS`. The result of every
statement is read completely at once, so no read stays open across a write.

`SqliteStored` returns the rows as they are in the file, unchecked, a page at a time. A row that none of our statements
could have written does not hide the others: what can be read of it is returned, with `UNREADABLE` as its hash, which
never occurs in a chain.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import apsw

from flyball.errors import Corrupt, JournalError
from flyball.journal.chain import UNREADABLE, snapshot_digest
from flyball.journal.types import Entry, Registered
from flyball.state_dir import at_socket, private_folder

if TYPE_CHECKING:
    import socket


DRIVERS = "drivers"


class Driver:
    """This process as a driver. Its leases end when it is closed, or when the process ends."""

    def __init__(self, state_dir: Path, name: str | None = None) -> None:
        self.folder = state_dir / DRIVERS
        private_folder(self.folder)
        self.name = name or f"{os.getpid()}-{os.urandom(4).hex()}"
        self._lock = os.open(self.folder / f"{self.name}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)  # whoever only checks it holds it for a moment
        os.write(self._lock, namespace().encode())
        self.bell = _bell()
        self.bell.setblocking(False)
        at_socket(self.folder, f"{self.name}.bell", self.bell.bind)

    def hear(self) -> None:
        """Read and discard all pending wake-ups."""
        with contextlib.suppress(BlockingIOError):
            while self.bell.recv(16):
                pass

    def close(self) -> None:
        self.bell.close()
        for end in ("bell", "lock"):
            (self.folder / f"{self.name}.{end}").unlink(missing_ok=True)
        os.close(self._lock)


def _bell() -> socket.socket:
    import socket  # read-only commands do not need it, and start faster without it

    return socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)


def alive(state_dir: Path, name: str) -> bool:
    """Whether that driver's process still holds its lock."""
    try:
        lock = os.open(state_dir / DRIVERS / f"{name}.lock", os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def others_at_work(state_dir: Path) -> list[str]:
    """The names of the living drivers of other processes."""
    names = sorted(lock.stem for lock in (state_dir / DRIVERS).glob("*.lock"))
    own = f"{os.getpid()}-"
    return [name for name in names if not name.startswith(own) and alive(state_dir, name)]


def namespace() -> str:
    """The PID namespace of this process; "" where there are none."""
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return ""


def namespaces(state_dir: Path) -> set[str]:
    """The PID namespaces of all living drivers."""
    names: set[str] = set()
    for lock in (state_dir / DRIVERS).glob("*.lock"):
        with contextlib.suppress(OSError):
            if alive(state_dir, lock.stem):
                names.add(lock.read_text("utf-8", "replace"))
    return names - {""}


def ring(state_dir: Path, name: str) -> bool:
    """Wake a driver: there is mail. False if there is none."""
    if not name:
        return False
    bell = _bell()
    try:
        bell.setblocking(False)
        at_socket(state_dir / DRIVERS, f"{name}.bell", bell.connect)
        bell.send(b"!")
    except BlockingIOError:
        return True  # enough wake-ups are pending: it will wake up
    except OSError:
        return False
    finally:
        bell.close()
    return True


# ---- drivers: the processes that run runs --------------------------------------------------------------------


APPLICATION = 0x666C7962  # "flyb": tells our file from another program's database
PATIENCE_MS = 30_000
BACKUPS = "backups"
CHECKPOINT_PAGES = 4_000  # pages in the log before they are copied into the file

Value = None | int | float | bytes | str


class Database:
    """An open journal file of this version."""

    def __init__(self, path: Path, vfs: str = "", checkpoint_pages: int = CHECKPOINT_PAGES) -> None:
        self.path, self.checkpoint_pages = path, checkpoint_pages
        _make_private(path)
        try:
            self._connection: Any = apsw.Connection(str(path), vfs=vfs or None)
            self._connection.set_busy_timeout(PATIENCE_MS)
        except (apsw.Error, OSError) as error:
            raise explained(error, path) from error
        try:
            self._settle()
        except BaseException:
            self.close()
            raise

    def _settle(self) -> None:
        self._refuse_others()
        self._use_wal()
        self.ask("PRAGMA synchronous = FULL")
        self.ask("PRAGMA foreign_keys = OFF")
        self.ask("PRAGMA journal_size_limit = 67108864")
        self.ask(f"PRAGMA wal_autocheckpoint = {self.checkpoint_pages}")
        self.ask("PRAGMA cache_size = -8000")
        self._migrate()

    def _refuse_others(self) -> None:
        tables = self.number(
            "SELECT count(*) FROM sqlite_schema"
        )  # first: a process that sees the tables also sees whose they are
        owner = self.number("PRAGMA application_id")
        if owner not in (0, APPLICATION) or (owner == 0 and tables):
            raise Corrupt(
                f"{self.path} is another program's database, not a Flyball journal. "
                "Move it, or set FLYBALL_STATE_DIR to another directory."
            )
        version, ours = self.number("PRAGMA user_version"), len(_migrations())
        if version > ours:
            raise JournalError(
                f"{self.path} was written by a newer Flyball (version {version} of the journal; this one knows "
                f"{ours}). Update Flyball, or set FLYBALL_STATE_DIR to another directory."
            )

    def _use_wal(self) -> None:
        """SQLite does not wait for other processes here, so we do."""
        until = time.monotonic() + PATIENCE_MS / 1000
        while True:
            try:
                mode = self._connection.execute("PRAGMA journal_mode = WAL").fetchall()[0][0]
                break
            except apsw.BusyError as error:
                if time.monotonic() > until:
                    raise explained(error, self.path) from error
                time.sleep(0.01)
            except apsw.Error as error:
                raise explained(error, self.path) from error
        if mode != "wal":
            raise JournalError(
                f"{self.path} is on a file system without support for a write-ahead log. "
                "Set FLYBALL_STATE_DIR to a directory on a local disk."
            )

    def _migrate(self) -> None:
        """Bring the tables up to this version. An older journal is copied first, and refused while a driver uses it.

        Two processes may get here at once: the second one has nothing left to do.
        """
        version = self.number("PRAGMA user_version")
        if version == len(_migrations()):
            return
        if version:
            self._refuse_drivers(version)
            self._back_up(version)
        self.begin()
        try:
            for script in _migrations()[self.number("PRAGMA user_version") :]:
                self.ask(script)
            self.ask(f"PRAGMA application_id = {APPLICATION}")
            self.ask(f"PRAGMA user_version = {len(_migrations())}")
            self.commit()
        except BaseException:
            self.rollback()
            raise

    def _refuse_drivers(self, version: int) -> None:
        """A process of an older Flyball would continue to write to tables that no longer exist."""
        others = others_at_work(self.path.parent)
        if others:
            pid = others[0].partition("-")[0]
            raise JournalError(
                f"{self.path} must be upgraded from version {version} to {len(_migrations())}, but an older Flyball is "
                f"still running (process {pid}). Wait for it, or end it with `kill {pid}` (its runs can be resumed)."
            )

    def _back_up(self, version: int) -> None:
        """A complete copy beside the journal, finished before the first table is changed."""
        target = self.path.parent / BACKUPS / f"{self.path.stem}-version-{version}.db"
        draft = target.with_name(f"{target.name}.{os.getpid()}.draft")
        try:
            target.parent.mkdir(mode=0o700, exist_ok=True)
            draft.unlink(missing_ok=True)
            os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
            self._connection.execute("VACUUM INTO ?", (str(draft),))
            with draft.open("rb") as copy:
                os.fsync(copy.fileno())
            draft.replace(target)
        except (apsw.Error, OSError) as error:
            with suppress(OSError):
                draft.unlink()
            raise JournalError(
                f"{self.path} must be upgraded, but no copy of it can be written to {target.parent} ({error}). "
                "Nothing was changed. Free some space there, then try again."
            ) from error

    def ask(self, sql: str, values: Sequence[Value] = (), types: tuple[type, ...] = ()) -> list[Any]:
        """Run one statement (or a script) and return all its rows, which must be of these types.

        In a damaged file a column may hold something that none of our statements could have written.
        """
        try:
            rows = self._connection.execute(sql, values).fetchall()
        except (apsw.Error, OSError, UnicodeDecodeError) as error:
            raise explained(error, self.path) from error
        if types and any(tuple(map(type, row)) != types for row in rows):
            raise Corrupt(_DAMAGED.format(path=self.path, why="a column holds a value of another type"))
        return rows

    def number(self, sql: str, values: Sequence[Value] = ()) -> int:
        """The first value of the first row, which is a number; 0 if there is no row."""
        rows = self.ask(sql, values, (int,))
        return rows[0][0] if rows else 0

    def tell(self, sql: str, values: Sequence[Value] = ()) -> int:
        """Run one writing statement and return the number of rows that it changed."""
        try:
            self._connection.execute(sql, values)
            return self._connection.changes()
        except (apsw.Error, OSError) as error:
            raise explained(error, self.path) from error

    def tell_many(self, sql: str, values: Sequence[Sequence[Value]]) -> int:
        """Run one writing statement for each of the values; return the total number of rows changed."""
        try:
            before = self._connection.total_changes()
            self._connection.executemany(sql, values)
            return self._connection.total_changes() - before
        except (apsw.Error, OSError) as error:
            raise explained(error, self.path) from error

    def begin(self) -> None:
        """Start a write transaction."""
        self.tell("BEGIN IMMEDIATE")

    def commit(self) -> None:
        """When it returns, the data is on the disk."""
        self.tell("COMMIT")

    @contextmanager
    def reading(self) -> Generator[None]:
        """All reads see the same state. Inside a transaction they do so anyway."""
        if self._connection.in_transaction:
            yield
            return
        self.tell("BEGIN")
        try:
            yield
        finally:
            self.rollback()

    def rollback(self) -> None:
        """Undo the transaction. It may have been rolled back by SQLite already."""
        try:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        except apsw.Error:  # the error that led here is the one to report
            pass

    def close(self) -> None:
        """Close the connection."""
        try:
            self._connection.close()
        except (apsw.Error, OSError) as error:
            raise explained(error, self.path) from error


def _make_private(path: Path) -> None:
    """Only the user may read a new file; SQLite gives its -wal and -shm files the same mode."""
    try:
        private_folder(path.parent)
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        if not path.parent.is_dir():
            raise JournalError(
                f"{path.parent} is a file, not a directory, so the journal cannot be created there. "
                "Move it, or set FLYBALL_STATE_DIR."
            ) from None
    except OSError as error:
        raise explained(error, path) from error


def _migrations() -> list[str]:
    """The numbered migration scripts, in order."""
    global _scripts
    if not _scripts:
        files = sorted(Path(__file__).with_name("schema").glob("*.sql"))
        _scripts = [path.read_text("utf-8") for path in files]
    return _scripts


_scripts: list[str] = []


def explained(error: Exception, path: Path) -> JournalError:
    """The message for an error of SQLite or of the system."""
    for kind, (blame, sentence) in _SENTENCES.items():
        if isinstance(error, kind):
            return blame(sentence.format(path=path, why=str(error).rstrip(".")))
    return JournalError(f"{path} could not be used ({type(error).__name__}: {error}); nothing was written.")


_CLOSED = (
    "{path} cannot be opened or written ({why}). Check that it and its directory are yours and writable."
)
_DAMAGED = (
    "{path} is damaged ({why}). Keep a copy, then put back a backup, or move it away to begin a new journal."
)
_SENTENCES: dict[type[Exception], tuple[type[JournalError], str]] = {
    apsw.NotADBError: (
        Corrupt,
        "{path} is not a journal ({why}). Restore a backup, or move it away to begin a new journal.",
    ),
    apsw.CorruptError: (Corrupt, _DAMAGED),
    UnicodeDecodeError: (Corrupt, _DAMAGED),
    apsw.SchemaChangeError: (Corrupt, _DAMAGED),
    apsw.SQLError: (Corrupt, _DAMAGED),  # our statements fit our schema, so the schema must have been changed
    apsw.MismatchError: (Corrupt, _DAMAGED),
    apsw.ConstraintError: (Corrupt, _DAMAGED),  # another process has written the next event already
    apsw.FullError: (
        JournalError,
        "The disk that holds {path} is full; nothing was written. Free some space, then try again.",
    ),
    apsw.BusyError: (
        JournalError,
        "{path} was kept locked by another process for too long (`fuser` says which); nothing was written.",
    ),
    apsw.ReadOnlyError: (JournalError, _CLOSED),
    apsw.PermissionsError: (JournalError, _CLOSED),
    apsw.CantOpenError: (JournalError, _CLOSED),
    apsw.ConnectionClosedError: (JournalError, "{path} was already closed."),
    apsw.IOError: (
        JournalError,
        "The disk that holds {path} failed ({why}); nothing was written. Check the disk, then try again.",
    ),
    OSError: (JournalError, _CLOSED),
}


SEQS = 1 << 32
"""An event's key is its run's number times this, plus its sequence number."""

_PAGE = 1_000
_LEAST = -(1 << 63)


class _Wanted(NamedTuple):
    """What to read: the columns (the first is the key), their types, and the table."""

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
    """What an audit reads."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def registered(self) -> Iterator[Registered]:
        """The registry's lines, in order."""
        for good, (n, kind, run, head, at, digest) in self._rows(_REGISTRY, _LEAST):
            yield Registered(n, kind, run, head.hex(), at, digest.hex() if good else UNREADABLE)

    def heads(self) -> Iterator[tuple[str, int, str, bool]]:
        """Each run's name, sequence number, hash, and whether it has ended, as its row has them."""
        for good, (_, run, seq, head, ended) in self._rows(_HEADS, _LEAST):
            yield run, seq, head.hex() if good else UNREADABLE, bool(ended)

    def entries(self, run: str) -> Iterator[Entry]:
        """The run's events, whether it still has a row or only its line in the registry."""
        sql = "SELECT n FROM run WHERE run = ? UNION ALL SELECT n FROM registry WHERE run = ? AND kind = 'began'"
        rows = self._database.ask(sql, (run, run), (int,))
        return self.entries_of(rows[0][0], run) if rows else iter(())

    def entries_of(self, n: int, run: str, after: int = 0) -> Iterator[Entry]:
        """The events after `after`, of the run with number `n`."""
        first, end = n * SEQS, (n + 1) * SEQS
        for good, (key, at, kind, body, digest) in self._rows(_EVENTS, first + after, end):
            yield Entry(run, key - first, at, kind, body, digest.hex() if good else UNREADABLE)

    def hash_at(self, n: int, seq: int) -> bytes:
        """The hash stored with an event; b"" if there is no such event."""
        rows = self._database.ask("SELECT hash FROM event WHERE id = ?", (n * SEQS + seq,), (bytes,))
        return rows[0][0] if rows else b""

    def orphans(self) -> Iterator[str]:
        """Jump from run number to run number; name those that neither a row nor the registry knows."""
        condition = (
            "SELECT 1 FROM run WHERE n = ? UNION ALL SELECT 1 FROM registry WHERE n = ? AND kind = 'began'"
        )
        last = _LEAST
        while rows := self._database.ask(
            "SELECT id FROM event WHERE id > ? ORDER BY id LIMIT 1", (last,), (int,)
        ):
            n = rows[0][0] // SEQS
            if rows[0][0] <= last:
                raise self._out_of_order()
            if rows[0][0] % SEQS == 0 or not self._database.ask(condition, (n, n)):
                yield f"run number {n}"
            last = (n + 1) * SEQS - 1

    def unbound_snapshots(self) -> Iterator[tuple[str, int]]:
        """The snapshots that are no longer bound to their events."""
        for good, (n, run, seq, rules, body, digest) in self._rows(_SNAPSHOTS, _LEAST):
            if not good or digest != snapshot_digest(run, seq, self.hash_at(n, seq), rules, body):
                yield run, seq

    # Pages.

    def _rows(self, query: _Wanted, last: int, *values: int) -> Iterator[tuple[bool, Any]]:
        """The rows after `last`, each with whether our statements could have written it."""
        while page := self._page(query, last, values):
            yield from page
            last = page[-1][1][0]

    def _page(self, query: _Wanted, last: int, values: tuple[int, ...]) -> list[tuple[bool, Any]]:
        sql = _sql(query.columns, query.source)
        try:
            rows = self._database.ask(sql, (last, *values, _PAGE), query.types)
            page = [(True, row) for row in rows]
        except Corrupt:
            page = self._one_by_one(query, last, values)
        keys = [last, *(row[0] for _, row in page)]
        if any(before >= after for before, after in pairwise(keys)):
            raise self._out_of_order()
        return page

    def _out_of_order(self) -> Corrupt:
        """In a damaged file rows may be out of order, and paging would never end."""
        return Corrupt(f"{self._database.path} is damaged (its rows are out of order). Restore a backup.")

    def _one_by_one(self, query: _Wanted, last: int, values: tuple[int, ...]) -> list[tuple[bool, Any]]:
        """Every column as bytes; SQLite's own type names show which values have the right type."""
        bare = [f"CAST({name} AS BLOB)" for name in query.columns[1:]]
        kinds = [f"typeof({name})" for name in query.columns[1:]]
        sql = _sql((query.columns[0], *bare, *kinds), query.source)
        many = len(bare)
        return [
            _lenient(query.types, row[0], row[1 : many + 1], row[many + 1 :])
            for row in self._database.ask(sql, (last, *values, _PAGE))
        ]


def _sql(columns: tuple[str, ...], source: str) -> str:
    return f"SELECT {', '.join(columns)} FROM {source} ORDER BY 1 LIMIT ?"


_NAMES = {int: "integer", str: "text", bytes: "blob"}


def _lenient(types: tuple[type, ...], key: int, bare: tuple[Any, ...], kinds: tuple[str, ...]) -> Any:
    good, row = True, list[Any]([key])
    for type_, value, kind in zip(types[1:], bare, kinds, strict=True):
        value_, sound = _read(type_, bytes(value or b""))
        row.append(value_)
        good = good and sound and kind == _NAMES[type_]
    return good, tuple(row)


def _read(type_: type, value: bytes) -> tuple[Any, bool]:
    if type_ is bytes:
        return value, True
    try:
        return (value.decode("utf-8") if type_ is str else int(value)), True
    except ValueError:
        return (value.decode("utf-8", "replace") if type_ is str else 0), False
