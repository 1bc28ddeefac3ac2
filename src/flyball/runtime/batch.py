"""What one transaction will hold: the events of one or many runs, and the messages that they take. All or nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from flyball.core.family import Changed, Family
from flyball.domain import events as e
from flyball.journal import Draft, Write
from flyball.journal.history import row_of
from flyball.state.fold import freeze
from flyball.state.run import Run

SNAPSHOT_EVERY = 64


class DrivenRun(Struct):
    """A run in its driver's memory: the fold, its position in the journal, and the lease."""

    run: Run
    seq: int
    fence: int


class Messages(Struct):
    """The messages that a run takes, and from whose mailbox if it is not its own."""

    taken: list[int]
    mailbox: str = ""


class Batch(Family):
    def __init__(self, driven: Mapping[str, DrivenRun]) -> None:
        super().__init__(driven)
        self._driven = driven
        self._new: dict[str, int] = {}  # the leases of the runs that begin
        self._messages: dict[str, Messages] = {}

    def start(self, event: e.RunBegan, fence: int) -> None:
        """A run begins, under this lease."""
        self.begin(event)
        self._new[event.run] = fence

    def take(self, run_id: str, messages: Sequence[int], mailbox: str = "") -> None:
        """The run takes messages, from its own mailbox or a shared one."""
        self.touch(run_id)
        mine = self._messages.setdefault(run_id, Messages([]))
        mine.taken.extend(messages)
        mine.mailbox = mailbox or mine.mailbox

    def writes(self) -> list[Write]:
        changed = self.changed.items()
        return [self._write(name, one) for name, one in changed if one.events or name in self._messages]

    def after(self) -> dict[str, DrivenRun]:
        """The runs as they are once all of it is written."""
        return {name: self._after(name, one) for name, one in self.changed.items()}

    def _after(self, run_id: str, changed: Changed) -> DrivenRun:
        seq, fence = self._before(run_id)
        return DrivenRun(changed.run, seq + len(changed.events), fence)

    def _before(self, run_id: str) -> tuple[int, int]:
        if run_id in self._new:
            return 0, self._new[run_id]
        driven = self._driven[run_id]
        return driven.seq, driven.fence

    def _write(self, run_id: str, changed: Changed) -> Write:
        seq, fence = self._before(run_id)
        messages = self._messages.get(run_id)
        drafts = tuple(
            Draft(at=event.at, kind=e.kind(event), body=e.encode(event)) for event in changed.events
        )
        after = seq + len(drafts)
        due = after // SNAPSHOT_EVERY > seq // SNAPSHOT_EVERY
        return Write(
            run=run_id,
            after=seq,
            drafts=drafts,
            row=row_of(changed.run),
            fence=fence,
            messages=tuple(messages.taken) if messages else (),
            mailbox=messages.mailbox if messages else "",
            snapshot=freeze(changed.run) if due else b"",
            rules=e.RULES if due else "",
        )
