"""Events are believed when the chain says so, not before."""

from collections.abc import Iterable, Iterator

from flyball.errors import Corrupt
from flyball.journal.chain import broken
from flyball.journal.types import Entry


def checked(
    entries: Iterable[Entry], store: str, run: str, after: int, head: bytes, until: int
) -> Iterator[Entry]:
    """The entries that follow event `after`, whose hash is `head`, at least to event `until`."""
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
