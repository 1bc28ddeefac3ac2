"""What one transaction will hold: the facts of one or many runs, and what they mean to their ancestors.

A cost is charged to the run and all its ancestors; a child's stop is its parent's; a child's end is the
outcome of the parent's act. All of it is written together or not at all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from flyball.core.decide import Finished, react
from flyball.core.run import Facts, Run, begin, fold, freeze
from flyball.domain import events as e
from flyball.journal import Draft, Write
from flyball.journal.history import row_of

SNAPSHOT_EVERY = 64


class Driven(Struct):
    """A run as its driver holds it: the fold, its place in the journal, and the lease."""

    run: Run
    seq: int
    fence: int


class Staged(Struct):
    run: Run
    seq: int  # before this transaction
    fence: int
    events: list[e.AnyEvent]
    letters: list[int]


class Batch:
    def __init__(self, driven: Mapping[str, Driven]) -> None:
        self._driven = driven
        self.staged: dict[str, Staged] = {}

    def run(self, run_id: str) -> Run:
        staged = self.staged.get(run_id)
        return staged.run if staged else self._driven[run_id].run

    def begin(self, event: e.RunBegan, fence: int) -> None:
        self.staged[event.run] = Staged(begin(event), 0, fence, [event], [])

    def add(self, run_id: str, facts: Sequence[e.AnyEvent], letter: int | None = None) -> None:
        staged = self._stage(run_id)
        if letter is not None:
            staged.letters.append(letter)
        before = staged.run
        known = isinstance(facts, Facts) and facts.before is before  # the rules have folded them already
        staged.run = facts.run if isinstance(facts, Facts) and known else fold(before, facts)
        staged.events.extend(facts)
        for event in facts:
            self._tell_parent(before, self.run(run_id), event)

    def _stage(self, run_id: str) -> Staged:
        if run_id not in self.staged:
            driven = self._driven[run_id]
            self.staged[run_id] = Staged(driven.run, driven.seq, driven.fence, [], [])
        return self.staged[run_id]

    def _tell_parent(self, before: Run, run: Run, event: e.AnyEvent) -> None:
        parent = run.began.parent
        if not parent or (parent not in self._driven and parent not in self.staged):
            return
        match event:
            case e.ActFinished(result=e.TurnEnded()):
                self._charge(before, event)
            case e.ActFinished() if event.took_us:
                self._spend(run, e.Charged(at=event.at, run=run.id, usage=e.Usage(), took_us=event.took_us))
            case e.Stopped():
                stopped = e.ChildStopped(
                    at=event.at, run=run.id, status=event.status, stop=event.stop, until=event.until
                )
                self.add(parent, [stopped])
            case e.ChildStopped():
                self.add(
                    parent,
                    [
                        e.ChildStopped(
                            at=event.at,
                            run=event.run,
                            status=event.status,
                            stop=event.stop,
                            until=event.until,
                        )
                    ],
                )
            case e.Resumed() | e.Answered() | e.ChildWentOn():
                if self.run(parent).status != "running":
                    self.add(parent, [e.ChildWentOn(at=event.at, run=run.id)])
            case e.Ended():
                self._owe(parent, run, event.at)
                self._end(run, event)
            case _:
                pass

    def _charge(self, before: Run, event: e.ActFinished) -> None:
        act, turn = before.act, event.result
        assert act is not None and isinstance(turn, e.TurnEnded)
        counted = self.run(before.id).turn - before.turn
        charged = e.Charged(
            at=event.at,
            run=before.id,
            usage=turn.usage,
            turns=counted,
            agent=act.agent,
            role=act.do.partition(":")[2],
            changed=turn.changed,
            took_us=event.took_us,
        )
        self._spend(before, charged)

    def _spend(self, run: Run, charged: e.Charged) -> None:
        """The run's ancestors pay too, in the same transaction."""
        ancestor = run.began.parent
        while ancestor and (ancestor in self._driven or ancestor in self.staged):
            self.add(ancestor, [charged])
            ancestor = self.run(ancestor).began.parent

    def _owe(self, parent: str, run: Run, now: int) -> None:
        """What a run that ends had still to put back is put back by its parent."""
        step = run.restore
        if step is not None:
            self.add(parent, [e.RestoreOrdered(at=now, tree=step.tree, why=step.why, since=step.since)])

    def _end(self, run: Run, event: e.Ended) -> None:
        parent = self.run(run.began.parent)
        if parent.act is None or parent.act.child != run.id:
            return
        result = e.ChildEnded(
            run=run.id, end=event.end, stop=event.stop, tree=run.tree, usage=run.spent, turns=run.turns
        )
        if parent.status != "running":
            self.add(parent.id, [e.ChildWentOn(at=event.at, run=run.id)])
            parent = self.run(parent.id)
        key = parent.act.key if parent.act else ""
        self.add(parent.id, react(parent, Finished(key=key, result=result), event.at))

    def writes(self) -> list[Write]:
        return [self._write(staged) for staged in self.staged.values() if staged.events or staged.letters]

    def _write(self, staged: Staged) -> Write:
        drafts = tuple(
            Draft(at=event.at, kind=e.kind(event), body=e.encode(event)) for event in staged.events
        )
        after = staged.seq + len(drafts)
        due = after // SNAPSHOT_EVERY > staged.seq // SNAPSHOT_EVERY
        return Write(
            run=staged.run.id,
            after=staged.seq,
            drafts=drafts,
            row=row_of(staged.run),
            fence=staged.fence,
            letters=tuple(staged.letters),
            snapshot=freeze(staged.run) if due else b"",
            rules=e.RULES if due else "",
        )
