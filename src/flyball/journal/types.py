"""The types of the journal: drafts, entries, rows and messages. A write is all or nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol, TypedDict, Unpack

from msgspec import Struct

REGISTRY = ""
"""The name under which the registry's own head is checkpointed: no run is called that."""


class Draft(Struct, frozen=True):
    """An event that has not been written yet."""

    at: int
    kind: str
    body: bytes


class Entry(Struct, frozen=True):
    """An event as it was written: its position in its run, and the hash that binds it to all events before it."""

    run: str
    seq: int
    at: int
    kind: str
    body: bytes
    hash: str


class Row(Struct, frozen=True):
    """One row for each run, for queries. It is rewritten with each append and is never authoritative: the events are.

    Times are in microseconds. `alert_at` is when the time in state exceeds its alert; 0: there is none.
    """

    run: str = ""
    root: str = ""
    parent: str = ""
    repo: str = ""
    machine: str = ""
    task: str = ""
    state: str = ""
    status: str = ""
    code: str = ""
    end: str = ""
    question: str = ""
    agent: str = ""
    actor: str = ""
    turns: int = 0
    cost_uusd: int = 0
    tokens: int = 0
    failures: int = 0
    cto_attempts: int = 0
    created_at: int = 0
    updated_at: int = 0
    entered_at: int = 0
    alert_at: int = 0
    ticket: str = ""  # of the backlog, on a task run


class RowFilter(TypedDict, total=False):
    """Which rows a caller of `rows` wants; None and False: any.

    `late_at`: rows whose alert time has passed by then. `failures`: rows with at least that many.
    """

    repo: str | None
    status: str | None
    state: str | None
    machine: str | None
    root: str | None
    parent: str | None
    ticket: str | None
    open_question: bool
    late_at: int | None
    failures: int | None


EXACTLY = (
    "repo",
    "status",
    "state",
    "machine",
    "root",
    "parent",
    "ticket",
)  # the comparison that a filter makes with columns of that name


class Message(Struct, frozen=True):
    """A message to the driver of a run, from somebody else."""

    id: int
    run: str
    at: int
    body: bytes
    taken: bool


class Snapshot(Struct, frozen=True):
    """The fold up to `seq` under one version of the rules. It only saves time and may be deleted at any moment."""

    run: str
    seq: int
    rules: str
    body: bytes


class Write(Struct, frozen=True):
    """What one run adds in a transaction.

    `after` is the sequence number that the run must be at (0: it is new); `fence` the number of the lease that
    the writer holds; `messages` are taken, and `snapshot` (if any) is kept, together with the drafts.
    """

    run: str
    after: int
    drafts: tuple[Draft, ...]
    row: Row
    fence: int
    messages: tuple[int, ...] = ()
    snapshot: bytes = b""
    rules: str = ""
    mailbox: str = ""  # whose mailbox the messages are in, if not the run's


class Registered(Struct, frozen=True):
    """A line of the registry: that a run began, ended or was pruned, and its head's hash at that moment."""

    n: int
    kind: str
    run: str
    head: str
    at: int
    hash: str


class Checkpoint(Struct, frozen=True):
    """A head that was once durable: run `run` (`REGISTRY`: the registry) had `hash` at `seq`."""

    run: str
    seq: int
    hash: str
    at: int


class Fault(Struct, frozen=True):
    """One thing that is not as it was written; `message` is a sentence about it."""

    run: str
    seq: int
    message: str


class Journal(Protocol):
    """An append-only store of runs. An instance belongs to the thread that made it."""

    def append(self, writes: Sequence[Write]) -> list[Entry]:
        """Write everything in one transaction, durable on return; or raise and write nothing.

        Conflict: a run is not at `after`, or a message is already taken. Fenced: `fence` is not the number of
        the lease held on the run now. A run's first write registers that it began; the first whose row has
        the status `ended` registers that it ended, with its head.
        """
        ...

    def read(self, run: str, after: int = 0) -> Iterator[Entry]:
        """The run's events after `after`, in order, each checked against the chain (else Corrupt)."""
        ...

    def head(self, run: str) -> tuple[int, str]:
        """The run's last sequence number and hash; (0, "") if there is no such run."""
        ...

    def hash_at(self, run: str, seq: int) -> str:
        """The hash of one event; "" if there is no such event."""
        ...

    def registry_head(self) -> tuple[int, str]:
        """The registry's last number and hash; (0, "") if no run has ever begun."""
        ...

    def latest_snapshot(self, run: str) -> Snapshot | None:
        """The snapshot written last; None if there is none or it was changed since."""
        ...

    def row(self, run: str) -> Row | None:
        """The run's row; None if there is no such run."""
        ...

    def rows(self, *, limit: int | None = None, **filters: Unpack[RowFilter]) -> list[Row]:
        """The rows that fit every condition, newest first."""
        ...

    def tally(self, *, machine: str | None = None) -> dict[str, int]:
        """How many runs are in each state, by the state's name."""
        ...

    def finished(self, since: int) -> list[bytes]:
        """The bodies of all ActFinished events since then, of any run."""
        ...

    def resolve(self, prefix: str) -> list[str]:
        """The runs whose id begins with the prefix, in order."""
        ...

    def acquire(self, run: str, driver: str, alive: Callable[[str], bool]) -> int:
        """Take the run's lease and return its fencing number, which is higher than any before.

        Whoever already holds it gets the same number. If another driver holds it and `alive` says that it
        lives: AlreadyRunning.
        """
        ...

    def release(self, run: str, driver: str) -> None:
        """Give the lease back, if `driver` holds it."""
        ...

    def holder(self, run: str) -> str:
        """Who holds the run's lease; "" if nobody."""
        ...

    def post(self, run: str, at: int, body: bytes) -> int:
        """Leave a message for the run's driver; return its id. The run need not exist yet."""
        ...

    def mail(self, run: str) -> list[Message]:
        """The run's messages that nobody has taken, oldest first."""
        ...

    def mail_all(self, runs: Iterable[str]) -> list[Message]:
        """The messages of all these runs that nobody has taken, oldest first."""
        ...

    def prune(self, run: str, at: int) -> None:
        """Delete an ended run; a tombstone with its head stays in the registry."""
        ...

    def registered(self) -> Iterator[Registered]:
        """The registry, in order, unchecked."""
        ...

    def faults(self, checkpoints: Iterable[Checkpoint] = (), only: str | None = None) -> list[Fault]:
        """Everything in the store that is not as it was written, or that a checkpoint has and the store lacks.

        With `only`: what concerns the registry and that one run.
        """
        ...

    def close(self) -> None:
        """Close the store. Leases stay with their holders."""
        ...
