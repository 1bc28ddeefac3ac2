"""Each hash covers the one before it, so a change anywhere shows at that place and at the end.

    hash(n) = sha256(hash(n-1) ‖ tag ‖ field ‖ field …)

A field is its length in eight bytes, then its bytes; a number is eight bytes, signed. So no two different
lists of fields give the same bytes. The first hash follows 32 zero bytes.

`faults` checks a whole store, one event at a time. Three things must agree: each run's chain of events, the
registry's chain of started and ended runs, and the signed heads kept outside the store, which may be behind it
but never ahead.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from hashlib import sha256
from struct import Struct as Packer
from typing import Protocol

from flyball.errors import AlreadyRunning, Conflict, Corrupt, Fenced, JournalError, NotFound
from flyball.journal.types import REGISTRY, Checkpoint, Draft, Entry, Fault, Registered, Write

UNREADABLE = "a column holds a value of another type"
"""Stands for the hash of what cannot be read as it was written; no chain bears it."""

_NOTHING = bytes(32)
_NUMBERS = Packer(">qq")
_LENGTH = Packer(">Q")


def event_digest(before: bytes, run: str, seq: int, at: int, kind: str, body: bytes) -> bytes:
    """The hash of a run's event `seq`, given the hash of the one before it."""
    name, sort = run.encode(), kind.encode()
    head = _event_head(len(name), len(sort)).pack(
        before or _NOTHING, b"event", seq, at, len(name), name, len(sort), sort, len(body)
    )
    return sha256(head + body).digest()


@functools.lru_cache(maxsize=1_024)
def _event_head(name: int, sort: int) -> Packer:
    """Everything before an event's body, packed with one call, because tens of thousands of events are hashed."""
    return Packer(f">32s5sqqQ{name}sQ{sort}sQ")


def registry_digest(before: bytes, n: int, kind: str, run: str, head: bytes, at: int) -> bytes:
    """The hash of the registry's line `n`."""
    fields = b"".join(_field(part) for part in (kind.encode(), run.encode(), head))
    return sha256((before or _NOTHING) + b"registry" + _NUMBERS.pack(n, at) + fields).digest()


def snapshot_digest(run: str, seq: int, head: bytes, rules: str, body: bytes) -> bytes:
    """A snapshot belongs to one event of one run: it is bound to that event's hash."""
    fields = b"".join(_field(part) for part in (run.encode(), head, rules.encode(), body))
    return sha256(b"snapshot" + _NUMBERS.pack(seq, 0) + fields).digest()


def _field(data: bytes) -> bytes:
    return _LENGTH.pack(len(data)) + data


def extend(run: str, seq: int, head: bytes, drafts: tuple[Draft, ...]) -> list[Entry]:
    """The drafts as entries after `seq`, whose hash is `head`."""
    return [entry for entry, _ in extended(run, seq, head, drafts)]


def extended(run: str, seq: int, head: bytes, drafts: tuple[Draft, ...]) -> list[tuple[Entry, bytes]]:
    """The same, each with its hash as bytes."""
    entries: list[tuple[Entry, bytes]] = []
    for draft in drafts:
        seq += 1
        at, kind, body = draft.at, draft.kind, draft.body
        head = event_digest(head, run, seq, at, kind, body)
        entries.append((Entry(run, seq, at, kind, body, head.hex()), head))
    return entries


def register(n: int, head: bytes, kind: str, run: str, run_head: bytes, at: int) -> Registered:
    """The registry's line after `n`, whose hash is `head`."""
    digest = registry_digest(head, n + 1, kind, run, run_head, at)
    return Registered(n + 1, kind, run, run_head.hex(), at, digest.hex())


def broken(before: bytes, after: int, entry: Entry) -> str:
    """Why `entry` cannot follow event `after`, whose hash is `before`, as half a sentence; "" if it can."""
    if entry.seq != after + 1:
        return f"event {after + 1} is missing (event {entry.seq} comes next)"
    if entry.hash == UNREADABLE:
        return f"event {entry.seq} cannot be read ({UNREADABLE})"
    digest = event_digest(before, entry.run, entry.seq, entry.at, entry.kind, entry.body)
    if digest.hex() != entry.hash:
        return f"event {entry.seq} is not what was written (its hash does not follow from the chain)"
    return ""


def checked(
    entries: Iterable[Entry], store: str, run: str, after: int, head: bytes, until: int
) -> Iterator[Entry]:
    """The entries after event `after`, whose hash is `head`, at least up to event `until`; each is checked."""
    for entry in entries:
        if why := broken(head, after, entry):
            raise _corrupt(store, run, why)
        after, head = entry.seq, bytes.fromhex(entry.hash)
        yield entry
    if after < until:
        raise _corrupt(store, run, f"event {after + 1} of {until} is missing")


def _corrupt(store: str, run: str, why: str) -> Corrupt:
    return Corrupt(
        f"{store} does not hold what was written: run {run}, {why}. "
        "`flyball check` names every fault; put back a backup."
    )


class Stored(Protocol):
    """Unchecked access to everything that a store holds."""

    def registered(self) -> Iterator[Registered]:
        """The registry's lines, in order."""
        ...

    def heads(self) -> Iterator[tuple[str, int, str, bool]]:
        """Each run's name, sequence number, hash, and whether it has ended, as its row has them."""
        ...

    def entries(self, run: str) -> Iterator[Entry]:
        """The run's events, in order."""
        ...

    def orphans(self) -> Iterator[str]:
        """A name for each bundle of events that no run and no registry line owns."""
        ...

    def unbound_snapshots(self) -> Iterator[tuple[str, int]]:
        """The run and sequence number of each snapshot that is not bound to its event any more."""
        ...


class _Life:
    """What the registry records about one run."""

    def __init__(self) -> None:
        self.heads: dict[str, str] = {}

    @property
    def pruned(self) -> bool:
        return "pruned" in self.heads


Head = tuple[int, str, bool]


def faults(stored: Stored, checkpoints: Iterable[Checkpoint] = (), only: str | None = None) -> list[Fault]:
    """Every fault of the store, those of the registry first; with `only`, of the registry and that one run."""
    marks: dict[str, list[Checkpoint]] = {}
    for mark in checkpoints:
        marks.setdefault(mark.run, []).append(mark)
    faults_, lives = _registry_faults(stored, marks.pop(REGISTRY, []))
    heads = {run: (seq, head, ended) for run, seq, head, ended in stored.heads()}
    for run in dict.fromkeys([*lives, *heads, *marks]) if only is None else (only,):
        life = lives.get(run)
        faults_ += _run_faults(stored, run, life, heads.get(run), marks.get(run, []))
    return [*faults_, *_loose_faults(stored, only)]


def _loose_faults(stored: Stored, only: str | None) -> Iterator[Fault]:
    """Data without an owner: events of no run, snapshots of no event."""
    for name in stored.orphans() if only is None else ():
        yield Fault(name, 0, f"There are events of {name}, which was never started.")
    for run, seq in stored.unbound_snapshots():
        if only in (None, run):
            yield Fault(run, seq, f"Run {run}: its snapshot at event {seq} is not what was written.")


def _registry_faults(stored: Stored, marks: list[Checkpoint]) -> tuple[list[Fault], dict[str, _Life]]:
    faults_: list[Fault] = []
    lives: dict[str, _Life] = {}
    n, head = 0, ""
    hashes: dict[int, str] = {}
    positions = {mark.seq for mark in marks}
    for line in stored.registered():
        if not faults_ and (why := _line_fault(n, head, line, lives.get(line.run))):
            faults_.append(Fault(line.run, line.n, f"The registry's line {why}."))
        lives.setdefault(line.run, _Life()).heads[line.kind] = line.head
        n, head = line.n, line.hash
        if n in positions:
            hashes[n] = head
    faults_ += [_behind("The registry", mark, n) for mark in marks if hashes.get(mark.seq) != mark.hash]
    return faults_, lives


def _line_fault(n: int, head: str, line: Registered, life: _Life | None) -> str:
    if line.n != n + 1:
        return f"{n + 1} is missing (line {line.n} comes next)"
    if line.hash == UNREADABLE:
        return f"{line.n} (run {line.run}) cannot be read ({UNREADABLE})"
    digest = registry_digest(
        bytes.fromhex(head), line.n, line.kind, line.run, bytes.fromhex(line.head), line.at
    )
    if digest.hex() != line.hash:
        return f"{line.n} (run {line.run}) is not what was written (its hash does not follow from the chain)"
    if (life is None) != (line.kind == "began") or (life and (line.kind in life.heads or life.pruned)):
        return f"{line.n} says that run {line.run} {_PAST.get(line.kind, line.kind)}, which cannot be at that point"
    return ""


_PAST = {"pruned": "was pruned"}


def _behind(what: str, mark: Checkpoint, last: int) -> Fault:
    if mark.seq > last:
        why = f"ends at {last}, but a signed head has event {mark.seq}: it was truncated or replaced by an older copy"
    else:
        why = f"differs from a signed head at {mark.seq}: history was rewritten"
    return Fault(mark.run, mark.seq, f"{what} {why}.")


def _run_faults(
    stored: Stored, run: str, life: _Life | None, head: Head | None, marks: list[Checkpoint]
) -> list[Fault]:
    if life is not None and life.pruned:
        return _grave_faults(stored, run, head)
    if life is None and head is None:
        return [_gone(mark) for mark in marks]
    if life is None:
        return [
            Fault(run, 0, f"Run {run} is stored but not in the registry."),
            *_chain_faults(stored, run, {}, head, marks),
        ]
    return _chain_faults(stored, run, life.heads, head, marks)


def _gone(mark: Checkpoint) -> Fault:
    text = f"Run {mark.run} is missing: a signed head has it at event {mark.seq}, but the journal does not have it."
    return Fault(mark.run, mark.seq, text)


def _grave_faults(stored: Stored, run: str, head: Head | None) -> list[Fault]:
    entry = next(stored.entries(run), None)
    if entry is None and head is None:
        return []
    return [
        Fault(run, entry.seq if entry else 0, f"Run {run} was pruned, but something of it is still stored.")
    ]


def _chain_faults(
    stored: Stored, run: str, registry: dict[str, str], head: Head | None, marks: list[Checkpoint]
) -> list[Fault]:
    """Walk the run's chain once and compare it with everything else that is known about the run."""
    last, prior = 0, ""
    positions = {mark.seq for mark in marks}
    hashes: dict[int, str] = {}
    unmatched = {value: kind for kind, value in registry.items()}
    for entry in stored.entries(run):
        if why := broken(bytes.fromhex(prior), last, entry):
            return [Fault(run, last + 1, f"Run {run}: {why}.")]
        if not last and registry.get("began", entry.hash) != entry.hash:
            return [
                Fault(run, 1, f"Run {run}: event 1 is not the one with which the registry says it began.")
            ]
        last, prior = entry.seq, entry.hash
        unmatched.pop(prior, None)
        if last in positions:
            hashes[last] = prior
    return [
        *_head_faults(run, last, prior, head, "ended" in registry),
        *(_behind(f"Run {run}", mark, last) for mark in marks if hashes.get(mark.seq) != mark.hash),
        *_owed_faults(run, last, unmatched),
    ]


def _head_faults(run: str, last: int, prior: str, head: Head | None, ended: bool) -> Iterator[Fault]:
    if head is None and not last:
        yield Fault(
            run, 0, f"Run {run} is gone: the registry says it began, and neither events nor a row are left."
        )
    elif head is None:
        yield Fault(run, last, f"Run {run} has {last} events but no row.")
    elif head[1] == UNREADABLE:
        yield Fault(
            run, last, f"Run {run}: its row cannot be read ({UNREADABLE}); its chain is at event {last}."
        )
    elif head[0] > last:
        yield Fault(
            run, last + 1, f"Run {run}: event {last + 1} is missing: its row says that there are {head[0]}."
        )
    elif head[:2] != (last, prior):
        yield Fault(run, last, f"Run {run}: its row stands at event {head[0]}, its chain at event {last}.")
    elif head[2] != ended:
        say = ("has not", "has") if ended else ("has", "has not")
        text = (
            f"Run {run}: its row says that it {say[0]} ended at event {last}, the registry that it {say[1]}."
        )
        yield Fault(run, last, text)


def _owed_faults(run: str, last: int, unmatched: dict[str, str]) -> Iterator[Fault]:
    if "ended" in unmatched.values():
        text = f"Run {run}: the registry says that it ended with an event that is not among its {last}."
        yield Fault(run, last, text)


# ---- why a store refuses ---------------------------------------------------------------------------------------


def check_shape(write: Write) -> None:
    """Refuse a malformed write before the store is touched."""
    if not write.run or write.row.run != write.run:
        raise JournalError(
            f"A write to run '{write.run}' carries the row of '{write.row.run}'; nothing was written."
        )
    if write.after < 0 or (not write.after and not write.drafts):
        raise JournalError(f"Run {write.run} cannot begin without an event; nothing was written.")


def elsewhere(write: Write, now: int) -> Conflict:
    """The run is not at the event that the writer expects."""
    return Conflict(
        f"Run {write.run} is at event {now}, not at {write.after}: someone else wrote to it. "
        "Nothing was written; read it again."
    )


def fenced(write: Write, now: int) -> Fenced:
    """The writer's lease is no longer in force."""
    holds = f"lease {now} is in force" if now else "nobody holds its lease"
    return Fenced(
        f"Run {write.run} was written to under lease {write.fence}, but {holds}. "
        "Nothing was written; another process runs it now, or it was released."
    )


def taken(run: str, message: int) -> Conflict:
    """A message can be taken only once, and only by its own run."""
    return Conflict(f"Message {message} is no longer waiting for run {run}; nothing was written.")


def pruned_before(run: str) -> Conflict:
    """A run's id is never used again."""
    return Conflict(f"Run {run} existed before and was pruned. Use another id.")


def held(run: str, holder: str) -> AlreadyRunning:
    """Another driver has the run."""
    return AlreadyRunning(
        f"Run {run} is already running in {holder}. Follow it with `flyball watch {run}`, or stop that process first."
    )


def unknown(run: str) -> NotFound:
    """No such run."""
    return NotFound(f"There is no run {run}. `flyball ls` lists them.")


def not_ended(run: str) -> JournalError:
    """Only an ended run can be pruned."""
    return JournalError(
        f"Run {run} has not ended, so it cannot be pruned. End it first (`flyball cancel {run}`)."
    )
