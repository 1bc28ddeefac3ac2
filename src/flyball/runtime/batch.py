"""What one transaction will hold: the facts of one or many runs, and what they mean to their ancestors.

A cost is charged to the run and all its ancestors; a child's stop is its parent's; a child's end is the
outcome of the parent's act. All of it is written together or not at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from flyball.core import standing
from flyball.core.decide import Finished, react
from flyball.core.mail import order, wake
from flyball.core.stops import cancel
from flyball.domain import events as e
from flyball.journal import Draft, Write
from flyball.journal.history import row_of
from flyball.state.fold import NOT_FORWARDS, Events, begin, fold, freeze
from flyball.state.run import Run

SNAPSHOT_EVERY = 64


class DrivenRun(Struct):
    """A run in its driver's memory: the fold, its position in the journal, and the lease."""

    run: Run
    seq: int
    fence: int


class StagedRun(Struct):
    run: Run
    seq: int  # before this transaction
    fence: int
    events: list[e.AnyEvent]
    messages: list[int]
    mailbox: str = ""  # to whom they are, if not to the run


class Batch:
    def __init__(self, driven: Mapping[str, DrivenRun]) -> None:
        self._driven = driven
        self.staged: dict[str, StagedRun] = {}

    def run(self, run_id: str) -> Run:
        staged = self.staged.get(run_id)
        return staged.run if staged else self._driven[run_id].run

    def begin(self, event: e.RunBegan, fence: int) -> None:
        self.staged[event.run] = StagedRun(begin(event), 0, fence, [event], [])

    def add(self, run_id: str, facts: Sequence[e.AnyEvent], message: int | None = None) -> None:
        staged = self._stage(run_id)
        if message is not None:
            staged.messages.append(message)
        before = staged.run
        known = isinstance(facts, Events) and facts.before is before  # the rules have folded them already
        staged.run = facts.run if isinstance(facts, Events) and known else fold(before, facts)
        staged.events.extend(facts)
        for event in facts:
            self._tell_others(before, self.run(run_id), event)

    def take(self, run_id: str, mailbox: str, messages: Sequence[int]) -> None:
        """The run takes messages from a shared mailbox."""
        staged = self._stage(run_id)
        staged.mailbox = mailbox
        staged.messages.extend(messages)

    def _stage(self, run_id: str) -> StagedRun:
        if run_id not in self.staged:
            driven = self._driven[run_id]
            self.staged[run_id] = StagedRun(driven.run, driven.seq, driven.fence, [], [])
        return self.staged[run_id]

    def _tell_others(self, before: Run, run: Run, event: e.AnyEvent) -> None:
        """The effects of an event on the parent run and the child runs."""
        match event:
            case e.SetAside() | e.Abandoned():
                self._ask_below(event.run, "pause" if isinstance(event, e.SetAside) else "cancel", event.at)
            case e.TakenUp(what="run"):
                self._wake_below(event.run, event.at)
            case _:
                if self._known(run.began.parent):
                    self._tell_parent(before, run, event)

    def _tell_parent(self, before: Run, run: Run, event: e.AnyEvent) -> None:
        parent = self.run(run.began.parent)
        match event:
            case e.ActFinished(result=e.TurnEnded()):
                self._charge(before, event)
            case e.ActFinished() if event.took_us:
                self._spend(run, e.Charged(at=event.at, run=run.id, usage=e.Usage(), took_us=event.took_us))
            case e.Stopped() | e.ChildStopped() if parent.child == run.id:
                below = event.run if isinstance(event, e.ChildStopped) else run.id
                stopped = e.ChildStopped(
                    at=event.at, run=below, status=event.status, stop=event.stop, until=event.until
                )
                self.add(parent.id, standing.child_stopped(parent, stopped))
            case e.Stopped() | e.ChildStopped() if event.stop.code == "wait.take_over":
                self.add(parent.id, standing.taken_over(parent, run.id, event.at))
            case e.Resumed() | e.Answered() | e.ChildWentOn() if parent.child == run.id:
                if parent.status != "running":
                    went_on = e.ChildWentOn(at=event.at, run=run.id)
                    self.add(parent.id, standing.child_went_on(parent, went_on))
            case e.Resumed() | e.Answered() | e.ChildWentOn() if standing.aside(parent, run.id):
                self._ask_below(run.id, "pause", event.at)  # its turn comes when the run above takes it up
            case e.Moved() if parent.machine.supervises and event.outcome not in NOT_FORWARDS:
                what = f"{event.source} → {event.target}"
                self.add(parent.id, [e.Milestone(at=event.at, run=run.id, what=what)])
            case e.Ended():
                if not run.owner:
                    self._owe(parent.id, run, event.at)
                self._end(run, event)
            case _:
                pass

    def _known(self, run_id: str) -> bool:
        return bool(run_id) and (run_id in self._driven or run_id in self.staged)

    def _below(self, run_id: str) -> Iterator[str]:
        """The run and those below it, as far as they are driven here."""
        while self._known(run_id):
            yield run_id
            run_id = self.run(run_id).child

    def spread(self, run_id: str, now: int) -> None:
        """A request to a run also applies to its child runs."""
        asked = self.run(run_id).asked
        for member in list(self._below(run_id))[1:]:
            run = self.run(member)
            persons = asked == standing.SET_ASIDE and run.asked  # what a person wants of it comes first
            if asked and run.asked != asked and run.status != "ended" and not persons:
                self.add(member, order(run, asked, "parent", now))

    def _ask_below(self, run_id: str, what: str, now: int) -> None:
        for member in list(self._below(run_id)):
            stays = ("cancel",) if what == "cancel" else ("cancel", "take-over")
            if self.run(member).status != "ended" and self.run(member).asked not in stays:
                self.add(member, [e.Asked(at=now, what=what, who="flyball")])
        deepest = next((self.run(member) for member in [*self._below(run_id)][-1:]), None)
        if what == "cancel" and deepest and deepest.act is None and deepest.status != "ended":
            self.add(deepest.id, cancel(Events(deepest, now)))  # nothing is under way any more

    def wake(self, run_id: str, now: int) -> None:
        """The run and those below it continue, the lowest first."""
        for member in reversed(list(self._below(run_id))):
            self.add(member, wake(self.run(member), now))

    def _wake_below(self, run_id: str, now: int) -> None:
        """The child runs continue. One that waits for a person keeps waiting, and its parent with it."""
        self.wake(run_id, now)
        child = self.run(run_id) if self._known(run_id) else None
        if child is None or child.stop is None or child.status in ("running", "ended"):
            return
        stopped = e.ChildStopped(at=now, run=run_id, status=child.status, stop=child.stop, until=child.until)
        self.add(child.began.parent, standing.child_stopped(self.run(child.began.parent), stopped))

    def _charge(self, before: Run, event: e.ActFinished) -> None:
        act, turn = before.act, event.result
        assert act is not None and isinstance(turn, e.TurnEnded)
        after = self.run(before.id)
        counted = after.turn - before.turn
        charged = e.Charged(
            at=event.at,
            run=before.id,
            usage=turn.usage,
            turns=counted,
            agent=act.agent,
            role=act.role,
            changed=turn.changed,
            took_us=event.took_us,
            said=f"{act.do} {turn.tree} {turn.said}" if turn.said else "",
            error=after.progress.error,
            error_text=after.progress.error_text[-300:] if after.progress.error else "",
            advanced=after.progress.advanced and turn.tree != act.tree,
        )
        self._spend(before, charged)

    def _spend(self, run: Run, charged: e.Charged) -> None:
        """The run's ancestors pay too, in the same transaction."""
        ancestor = run.began.parent
        while self._known(ancestor):
            self.add(ancestor, standing.charged(self.run(ancestor), charged))
            ancestor = self.run(ancestor).began.parent

    def _owe(self, parent: str, run: Run, now: int) -> None:
        """If a run ends before it restored a tree, its parent restores it."""
        step = run.restore
        if step is not None:
            self.add(parent, [e.RestoreOrdered(at=now, tree=step.tree, why=step.why, since=step.since)])

    def _end(self, run: Run, event: e.Ended) -> None:
        parent = self.run(run.began.parent)
        aside = parent.plan.act
        if aside is not None and aside.child == run.id:  # it ended before it could pause
            self.add(parent.id, [e.TakenUp(at=event.at, what="run", run=run.id)])
            parent = self.run(parent.id)
        elif standing.aside(parent, run.id):
            self.add(parent.id, [e.Abandoned(at=event.at, run=run.id, stop=event.stop)])
        if parent.act is None or parent.act.child != run.id:
            return
        commit = run.checkout.commit.commit if run.owner and run.checkout.commit else ""
        result = e.ChildEnded(
            run=run.id,
            end=event.end,
            stop=event.stop,
            tree=run.tree,
            usage=run.spent,
            turns=run.turns,
            commit=commit,
        )
        if parent.status != "running" or parent.here.act == "ask":
            went_on = e.ChildWentOn(at=event.at, run=run.id)
            self.add(parent.id, standing.child_went_on(parent, went_on))
            parent = self.run(parent.id)
        key = parent.act.key if parent.act else ""
        self.add(parent.id, react(parent, Finished(key=key, result=result), event.at))

    def writes(self) -> list[Write]:
        return [self._write(staged) for staged in self.staged.values() if staged.events or staged.messages]

    def _write(self, staged: StagedRun) -> Write:
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
            messages=tuple(staged.messages),
            mailbox=staged.mailbox,
            snapshot=freeze(staged.run) if due else b"",
            rules=e.RULES if due else "",
        )
