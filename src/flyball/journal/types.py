"""The types of the journal: drafts, entries, rows and messages. A write is all or nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol, TypedDict, Unpack

from msgspec import Struct

REGISTRY = ""
"""The name under which the registry's own head is checkpointed: no run is called that."""


class Draft(Struct, frozen=True):
    """An event that is not written yet."""

    at: int
    kind: str
    body: bytes


class Entry(Struct, frozen=True):
    """An event as it was written: its place in its run, and the hash that binds it to all before it."""

    run: str
    seq: int
    at: int
    kind: str
    body: bytes
    hash: str


class Row(Struct, frozen=True):
    """One row a run, for queries. It is rewritten with each append and never the truth: the events are.

    Instants are microseconds. `alert_at` is when the time in state passes its alert; 0: there is none.
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
    """Which rows a caller of `rows` wants; None and False: it does not matter.

    `late_at`: those whose alert instant has come by then. `failures`: those with at least so many.
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
)  # what a filter asks of columns of that name


class Message(Struct, frozen=True):
    """What someone who does not drive a run wants its driver to know."""

    id: int
    run: str
    at: int
    body: bytes
    taken: bool


class Snapshot(Struct, frozen=True):
    """The fold up to `seq` under one version of the rules. It only saves time; it may always be thrown away."""

    run: str
    seq: int
    rules: str
    body: bytes


class Write(Struct, frozen=True):
    """What one run adds in a transaction.

    `after` is the sequence number the run must be at (0: it is new); `fence` the number of the lease that
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
    mailbox: str = ""  # to whom the messages are, if not to the run


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
    """One thing that is not as it was written; `message` names it in a sentence."""

    run: str
    seq: int
    message: str


class Journal(Protocol):
    """An append-only store of runs. An instance belongs to the thread that made it."""

    def append(self, writes: Sequence[Write]) -> list[Entry]:
        """Write all of it in one transaction, durable on return, or raise and write none of it.

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
        """The registry's last number and hash; (0, "") if no run ever began."""
        ...

    def latest_snapshot(self, run: str) -> Snapshot | None:
        """The snapshot written last; None if there is none or it is not what was written."""
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
        """The bodies of all events of the kind ActFinished, of any run, from that instant on."""
        ...

    def resolve(self, prefix: str) -> list[str]:
        """The runs whose id begins so, in order."""
        ...

    def acquire(self, run: str, driver: str, alive: Callable[[str], bool]) -> int:
        """Take the run's lease and return its fencing number, which is higher than any before.

        Who holds it already gets the number it has. If another does and `alive` says so: AlreadyRunning.
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
        """The run's messages that are not taken, oldest first."""
        ...

    def mail_all(self, runs: Iterable[str]) -> list[Message]:
        """The messages of all these runs that are not taken, oldest first."""
        ...

    def prune(self, run: str, at: int) -> None:
        """Drop an ended run whole; a tombstone with its head stays in the registry."""
        ...

    def registered(self) -> Iterator[Registered]:
        """The registry, in order, unchecked."""
        ...

    def faults(self, checkpoints: Iterable[Checkpoint] = (), only: str | None = None) -> list[Fault]:
        """Everything in the store that is not as it was written, or that a checkpoint knows and it does not.

        With `only`: what concerns the registry and that one run.
        """
        ...

    def close(self) -> None:
        """Let go of the store. Leases stay with their holders."""
        ...
