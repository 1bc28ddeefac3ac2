"""A journal in memory, for rehearsals, simulations and tests.

It keeps the same hash chains as the one on disk, and checks a whole append before it changes anything.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, Unpack

from msgspec.structs import replace

from flyball.journal import chain
from flyball.journal.chain import (
    check_shape,
    checked,
    elsewhere,
    extend,
    fenced,
    held,
    not_ended,
    pruned_before,
    register,
    snapshot_digest,
    taken,
    unknown,
)
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


class _Lease(NamedTuple):
    driver: str = ""
    fence: int = 0


class MemoryJournal:
    """A `Journal` in this process."""

    def __init__(self) -> None:
        self._events: dict[str, list[Entry]] = {}
        self._rows: dict[str, Row] = {}
        self._registry: list[Registered] = []
        self._ended: set[str] = set()
        self._pruned: set[str] = set()
        self._leases: dict[str, _Lease] = {}
        self._messages: list[Message] = []
        self._snapshots: dict[str, tuple[Snapshot, bytes]] = {}

    # Appending: first every check that may refuse, then every change.

    def append(self, writes: Sequence[Write]) -> list[Entry]:
        """Write everything, or raise and write nothing."""
        heads: dict[str, tuple[int, str]] = {}
        read_ids: set[int] = set()
        plans: list[tuple[Write, list[Entry]]] = []
        for write in writes:
            check_shape(write)
        for write in writes:
            self._check(write, heads, read_ids)
            entries = extend(write.run, write.after, bytes.fromhex(heads[write.run][1]), write.drafts)
            if entries:
                heads[write.run] = (entries[-1].seq, entries[-1].hash)
            plans.append((write, entries))
        for write, entries in plans:
            self._apply(write, entries)
        return [entry for _, entries in plans for entry in entries]

    def _check(self, write: Write, heads: dict[str, tuple[int, str]], read_ids: set[int]) -> None:
        lease = self._leases.get(write.run, _Lease())
        if not lease.driver or lease.fence != write.fence:
            raise fenced(write, lease.fence if lease.driver else 0)
        seq, _ = heads.setdefault(write.run, self.head(write.run))
        if seq != write.after:
            raise elsewhere(write, seq)
        if write.run in self._pruned:
            raise pruned_before(write.run)
        for message in write.messages:
            if message in read_ids or not self._waits(message, write.mailbox or write.run):
                raise taken(write.run, message)
            read_ids.add(message)

    def _waits(self, message: int, run: str) -> bool:
        if not 0 < message <= len(self._messages):
            return False
        message_ = self._messages[message - 1]
        return message_.run == run and not message_.taken

    def _apply(self, write: Write, entries: list[Entry]) -> None:
        run = write.run
        if not write.after:
            self._register("began", run, entries[0].hash, entries[0].at)
        self._events.setdefault(run, []).extend(entries)
        self._rows[run] = write.row
        if write.row.status == "ended" and run not in self._ended:
            self._ended.add(run)
            at = entries[-1].at if entries else write.row.updated_at
            self._register("ended", run, self._events[run][-1].hash, at)
        for message in write.messages:
            self._messages[message - 1] = replace(self._messages[message - 1], taken=True)
        if write.snapshot:
            self._keep_snapshot(write)

    def _register(self, kind: str, run: str, head: str, at: int) -> None:
        n, last = self.registry_head()
        self._registry.append(register(n, bytes.fromhex(last), kind, run, bytes.fromhex(head), at))

    def _keep_snapshot(self, write: Write) -> None:
        seq, head = self.head(write.run)
        digest = snapshot_digest(write.run, seq, bytes.fromhex(head), write.rules, write.snapshot)
        self._snapshots[write.run] = (Snapshot(write.run, seq, write.rules, write.snapshot), digest)

    # Reading.

    def read(self, run: str, after: int = 0) -> Iterator[Entry]:
        """The events after `after` that exist now."""
        events = self._events.get(run, [])
        until = len(events)
        if after < until:
            head = bytes.fromhex(self.hash_at(run, after))
            yield from checked(events[after:], "The journal", run, after, head, until)

    def head(self, run: str) -> tuple[int, str]:
        """The run's last sequence number and hash."""
        events = self._events.get(run)
        return (events[-1].seq, events[-1].hash) if events else (0, "")

    def hash_at(self, run: str, seq: int) -> str:
        """The hash of one event."""
        events = self._events.get(run, [])
        return events[seq - 1].hash if 0 < seq <= len(events) else ""

    def finished(self, since: int) -> list[bytes]:
        """The bodies of all acts that have finished since then, of any run."""
        entries = (entry for events in self._events.values() for entry in events)
        matches = [entry for entry in entries if entry.kind == "ActFinished" and entry.at >= since]
        return [entry.body for entry in sorted(matches, key=lambda entry: entry.at)]

    def registry_head(self) -> tuple[int, str]:
        """The registry's last number and hash."""
        return (self._registry[-1].n, self._registry[-1].hash) if self._registry else (0, "")

    def latest_snapshot(self, run: str) -> Snapshot | None:
        """The snapshot written last."""
        snapshot = self._snapshots.get(run)
        return snapshot[0] if snapshot and self._bound(*snapshot) else None

    def _bound(self, snapshot: Snapshot, digest: bytes) -> bool:
        head = bytes.fromhex(self.hash_at(snapshot.run, snapshot.seq))
        return digest == snapshot_digest(snapshot.run, snapshot.seq, head, snapshot.rules, snapshot.body)

    def row(self, run: str) -> Row | None:
        """The run's row."""
        return self._rows.get(run)

    def rows(self, *, limit: int | None = None, **filters: Unpack[RowFilter]) -> list[Row]:
        """The rows that fit every condition, newest first."""
        matches = [row for row in self._rows.values() if _fits(filters, row)]
        matches.reverse()
        matches.sort(key=lambda row: row.created_at, reverse=True)
        return matches[:limit]

    def tally(self, *, machine: str | None = None) -> dict[str, int]:
        """How many runs are in each state."""
        states = sorted(row.state for row in self._rows.values() if machine in (None, row.machine))
        return {state: states.count(state) for state in dict.fromkeys(states)}

    def resolve(self, prefix: str) -> list[str]:
        """The runs whose id begins with the prefix, in order."""
        return sorted(run for run in self._rows if run.startswith(prefix))

    # Leases and mail.

    def acquire(self, run: str, driver: str, alive: Callable[[str], bool]) -> int:
        """Take the lease if nobody holds it, or if its holder is dead."""
        lease = self._leases.get(run, _Lease())
        if lease.driver == driver:
            return lease.fence
        if lease.driver and alive(lease.driver):
            raise held(run, lease.driver)
        self._leases[run] = _Lease(driver, lease.fence + 1)
        return lease.fence + 1

    def release(self, run: str, driver: str) -> None:
        """Give the lease back. The number stays, so that the next one is higher."""
        lease = self._leases.get(run, _Lease())
        if lease.driver == driver:
            self._leases[run] = _Lease("", lease.fence)

    def holder(self, run: str) -> str:
        """Who holds the lease."""
        return self._leases.get(run, _Lease()).driver

    def post(self, run: str, at: int, body: bytes) -> int:
        """Leave a message."""
        self._messages.append(Message(len(self._messages) + 1, run, at, body, taken=False))
        return len(self._messages)

    def mail(self, run: str) -> list[Message]:
        """The run's messages that nobody has taken."""
        return self.mail_all((run,))

    def mail_all(self, runs: Iterable[str]) -> list[Message]:
        """The messages of these runs that nobody has taken."""
        ids = frozenset(runs)
        return [message for message in self._messages if message.run in ids and not message.taken]

    # Pruning and auditing.

    def prune(self, run: str, at: int) -> None:
        """Delete an ended run; a line in the registry stays as a tombstone."""
        if run not in self._rows:
            raise unknown(run)
        if run not in self._ended:
            raise not_ended(run)
        self._register("pruned", run, self.head(run)[1], at)
        self._pruned.add(run)
        self._messages = [
            replace(message, taken=message.taken or message.run == run) for message in self._messages
        ]
        for store in (self._events, self._rows, self._snapshots, self._leases):
            store.pop(run, None)

    def registered(self) -> Iterator[Registered]:
        """The registry, in order, unchecked."""
        return iter(tuple(self._registry))

    def heads(self) -> Iterator[tuple[str, int, str, bool]]:
        """Each run that has a row, with its head and whether it has ended."""
        return ((run, *self.head(run), run in self._ended) for run in tuple(self._rows))

    def entries(self, run: str) -> Iterator[Entry]:
        """The run's events, unchecked."""
        return iter(tuple(self._events.get(run, ())))

    def orphans(self) -> Iterator[str]:
        """Here events are always stored under their run's name."""
        return iter(())

    def unbound_snapshots(self) -> Iterator[tuple[str, int]]:
        """The snapshots that are no longer bound to their events."""
        return (
            (snapshot.run, snapshot.seq)
            for snapshot, digest in self._snapshots.values()
            if not self._bound(snapshot, digest)
        )

    def faults(self, checkpoints: Iterable[Checkpoint] = (), only: str | None = None) -> list[Fault]:
        """Everything that is not as it was written."""
        return chain.faults(self, checkpoints, only)

    def close(self) -> None:
        """Nothing to close."""


def _fits(filters: RowFilter, row: Row) -> bool:
    late_at, failures = filters.get("late_at"), filters.get("failures")
    return (
        all(filters.get(name) in (None, getattr(row, name)) for name in EXACTLY)
        and (not filters.get("open_question") or row.question != "")
        and (late_at is None or 0 < row.alert_at <= late_at)
        and (failures is None or row.failures >= failures)
    )
