"""What runs mean to each other: the first event of a child run, and the effects of an event on the runs above and below.

A cost is charged to the run and all its ancestors; a child's stop is its parent's; a child's end is the outcome of the
parent's act. A request to a run also applies to its child runs.

Most child runs work in their parent's checkout. Those of the standing loop have a checkout, a budget and a root
of their own: each is one step of a plan, and starts from the result of the step before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from msgspec import Struct
from msgspec.structs import replace

from flyball.core import standing
from flyball.core.decide import Finished, phase_us, react
from flyball.core.mail import order, wake
from flyball.core.stops import cancel
from flyball.domain import events as e
from flyball.domain.settings import Settings
from flyball.state.fold import NOT_FORWARDS, Events, begin, fold
from flyball.state.run import Run


class HasRun(Protocol):
    @property
    def run(self) -> Run: ...


class Changed(Struct):
    """A run with the events that were added to it."""

    run: Run
    events: list[e.AnyEvent]


class Family:
    """Runs and the events added to them; each event has its effects on the other runs at once.

    `known` has the runs as they were before. They are not changed: `changed` has what is new.
    """

    def __init__(self, runs: Mapping[str, HasRun]) -> None:
        self._known = runs
        self.changed: dict[str, Changed] = {}

    def run(self, run_id: str) -> Run:
        return (self.changed.get(run_id) or self._known[run_id]).run

    def begin(self, event: e.RunBegan) -> None:
        self.changed[event.run] = Changed(begin(event), [event])

    def add(self, run_id: str, facts: Sequence[e.AnyEvent]) -> None:
        changed = self.touch(run_id)
        before = changed.run
        folded = isinstance(facts, Events) and facts.before is before  # the rules have folded them already
        changed.run = facts.run if isinstance(facts, Events) and folded else fold(before, facts)
        changed.events.extend(facts)
        for event in facts:
            self._tell_others(before, self.run(run_id), event)

    def touch(self, run_id: str) -> Changed:
        """The run as one of those that change, even if no event is added to it."""
        changed = self.changed.get(run_id)
        if changed is None:
            changed = self.changed[run_id] = Changed(self._known[run_id].run, [])
        return changed

    def _tell_others(self, before: Run, run: Run, event: e.AnyEvent) -> None:
        """The effects of an event on the parent run and the child runs."""
        match event:
            case e.SetAside() | e.Abandoned():
                self._ask_below(event.run, "pause" if isinstance(event, e.SetAside) else "cancel", event.at)
            case e.TakenUp(what="run"):
                self._wake_below(event.run, event.at)
            case _:
                if self._is_known(run.began.parent):
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

    def _is_known(self, run_id: str) -> bool:
        return bool(run_id) and (run_id in self._known or run_id in self.changed)

    def _below(self, run_id: str) -> Iterator[str]:
        """The run and those below it, as far as they are driven here."""
        while self._is_known(run_id):
            yield run_id
            run_id = self.run(run_id).child

    def spread(self, run_id: str, now: int) -> None:
        """A request to a run also applies to its child runs."""
        request = self.run(run_id).asked
        for member in list(self._below(run_id))[1:]:
            run = self.run(member)
            persons = request == standing.SET_ASIDE and run.asked  # what a person wants of it comes first
            if request and run.asked != request and run.status != "ended" and not persons:
                self.add(member, order(run, request, "parent", now))

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
        child = self.run(run_id) if self._is_known(run_id) else None
        if child is None or child.stop is None or child.status in ("running", "ended"):
            return
        stopped = e.ChildStopped(at=now, run=run_id, status=child.status, stop=child.stop, until=child.until)
        self.add(child.began.parent, standing.child_stopped(self.run(child.began.parent), stopped))

    def _charge(self, before: Run, event: e.ActFinished) -> None:
        act, turn = before.act, event.result
        assert act is not None and isinstance(turn, e.TurnEnded)
        after = self.run(before.id)
        turns = after.turn - before.turn
        charged = e.Charged(
            at=event.at,
            run=before.id,
            usage=turn.usage,
            turns=turns,
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
        while self._is_known(ancestor):
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


# ---- the first event of a child run --------------------------------------------------------------------------


def child_of(parent: Run, act: e.Act, table: dict[str, Any], now: int) -> e.RunBegan:
    options = dict(parent.here.options)
    began = e.RunBegan(
        at=now,
        run=act.child,
        machine=act.role,
        table=table,
        settings=parent.settings,
        task=parent.began.task,
        rules=e.RULES,
        parent=parent.id,
        root=parent.began.root or parent.id,
        repo=parent.began.repo,
        start=str(options.pop("start", "")),
        options=options,
        commit=parent.began.commit,
        version=parent.began.version,
        pinned=parent.began.pinned,
        environment=parent.began.environment,
    )
    return _of_a_plan(parent, began) if parent.machine.supervises else _within(parent, began)


def _within(parent: Run, began: e.RunBegan) -> e.RunBegan:
    """In the parent's checkout."""
    checkout = parent.checkout
    changed = [path for path in checkout.changed if path not in checkout.excused]
    approved = {"tier": parent.began.options["tier"]} if "tier" in parent.began.options else {}
    return replace(
        began,
        settings=_left(parent),
        owner=False,
        options={
            **began.options,
            **approved,
            "changed": changed,
            "lines": checkout.lines - checkout.excused_lines,
        },
        tree=parent.tree,
        base_tree=checkout.base_tree,
        within_us=phase_us(parent),
        sandbox=checkout.sandbox,
    )


def _left(parent: Run) -> Settings:
    """A child may use what is left of its parent's budget."""
    budget, spent, spending = parent.settings.budget, parent.spent, parent.spending
    used = spent.cost_uusd - spending.base.cost_uusd
    tokens, wall_us = spent.tokens - spending.base.tokens, spending.wall_us - spending.wall_base
    remaining = replace(
        budget,
        uusd=None if budget.uusd is None else max(0, budget.uusd - used),
        tokens=None if budget.tokens is None else max(0, budget.tokens - tokens),
        wall_us=None if budget.wall_us is None else max(0, budget.wall_us - wall_us),
    )
    return replace(parent.settings, budget=remaining)


def _of_a_plan(parent: Run, began: e.RunBegan) -> e.RunBegan:
    """In a checkout of its own. Only the last step of a plan lands."""
    plan, step = parent.plan, standing.step(parent)
    last = plan.step + 1 >= len(plan.steps)
    assessment, ticket = plan.assessment, plan.trigger.ticket if plan.trigger else ""
    options = {**began.options, "ticket": ticket, "step": plan.step + 1, "steps": len(plan.steps) or 1}
    if assessment and assessment.tier:
        options["tier"] = assessment.tier
    if step is not None and step.paths:
        options["files"] = len(step.paths)  # later estimates look at tasks of this size
    if plan.trigger and plan.trigger.plan:
        options["plan_file"] = plan.trigger.plan
    if plan.trigger and last:
        extra = {"head": plan.trigger.head, "tick": list(plan.trigger.tick)}
        options |= {name: value for name, value in extra.items() if value}
    return replace(
        began,
        task=_text(parent, step),
        root=began.run,
        options=options,
        commit=plan.commit or began.commit,
        branch=parent.began.branch,
        settings=parent.settings if last else replace(parent.settings, commit="branch"),
    )


def _text(parent: Run, step: e.PlanStep | None) -> str:
    """What the task is told: the whole plan, and which part of it is its own."""
    if step is None:
        return parent.task
    alone = len(parent.plan.steps) == 1
    parts = (
        [step.title] if not alone or step.title == parent.task else [parent.task, f"The plan: {step.title}"]
    )
    if step.criteria:
        parts.append("It is done when:\n" + "\n".join(f"- {one}" for one in step.criteria))
    if not alone:
        parts.append(f"This is step {parent.plan.step + 1} of {len(parent.plan.steps)} of: {parent.task}")
    return "\n\n".join(parts)
