"""The sentences with which a journal says no; every store says the same."""

from flyball.errors import AlreadyRunning, Conflict, Fenced, JournalError, NotFound
from flyball.journal.types import Write


def check_shape(write: Write) -> None:
    """Refuse a write that cannot mean anything, before the store is touched."""
    if not write.run or write.row.run != write.run:
        raise JournalError(
            f"A write to run '{write.run}' carries the row of '{write.row.run}'; nothing was written."
        )
    if write.after < 0 or (not write.after and not write.drafts):
        raise JournalError(f"Run {write.run} cannot begin without an event; nothing was written.")


def elsewhere(write: Write, now: int) -> Conflict:
    """The run is not where the writer thinks."""
    return Conflict(
        f"Run {write.run} is at event {now}, not at {write.after}: someone else wrote to it. "
        "Nothing was written; read it again."
    )


def fenced(write: Write, now: int) -> Fenced:
    """The writer's lease is not the one in force."""
    holds = f"lease {now} is in force" if now else "nobody holds its lease"
    return Fenced(
        f"Run {write.run} was written to under lease {write.fence}, but {holds}. "
        "Nothing was written; another process drives it now, or it was released."
    )


def taken(run: str, letter: int) -> Conflict:
    """A letter can be taken once, by its own run."""
    return Conflict(f"Letter {letter} is not waiting for run {run} any more; nothing was written.")


def pruned_before(run: str) -> Conflict:
    """An id is used once, for ever."""
    return Conflict(f"There was a run {run} before, and it was pruned; begin a new one under another id.")


def held(run: str, holder: str) -> AlreadyRunning:
    """A second driver."""
    return AlreadyRunning(
        f"Run {run} is already driven by {holder}. Follow it with `flyball watch {run}`, or stop that process first."
    )


def unknown(run: str) -> NotFound:
    """No such run."""
    return NotFound(f"There is no run {run}. `flyball ls` lists them.")


def not_ended(run: str) -> JournalError:
    """Only what is over can go."""
    return JournalError(
        f"Run {run} has not ended, so it cannot be pruned. End it first (`flyball cancel {run}`)."
    )
