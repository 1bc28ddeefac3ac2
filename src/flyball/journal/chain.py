"""Each hash covers the one before it, so a change anywhere shows at that place and at the end.

    hash(n) = sha256(hash(n-1) ‖ tag ‖ field ‖ field …)

A field is its length in eight bytes, then its bytes; a number is eight bytes, signed. So no two different
lists of fields give the same bytes. Before the first stand 32 zero bytes.
"""

import functools
from hashlib import sha256
from struct import Struct as Packer

from flyball.journal.types import Draft, Entry, Registered

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
    """Everything before an event's body, packed with one call: events are hashed by the ten thousand."""
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
