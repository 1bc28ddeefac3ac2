"""The state of the standing loop, computed from its events: its plan, interrupted work, and the progress of its child runs."""

from __future__ import annotations

from msgspec.structs import replace

from flyball.domain import events as e
from flyball.domain.machine import WORKERS
from flyball.state.run import Plan, Run

WARN_AT = {"limit.actions": (1, 2), "loop.same_action": (2, 3), "wait.check_in": (3, 4)}  # of a threshold
OUTCOMES_KEPT = 1_000
NOTHINGS = 3  # so often in a row the same trigger may find nothing to do


def triggered(run: Run, event: e.Triggered) -> Run:
    plan = run.plan
    fresh = Plan(
        trigger=event.trigger,
        assessment=event.assessment,
        commit=event.trigger.commit,
        aside=(*plan.aside, _alone(plan)) if event.interrupts else plan.aside,
        parked=plan.parked,
        outcomes=plan.outcomes,
        nothings=plan.nothings,
    )
    return replace(run, at=event.at, plan=fresh, talk=replace(run.talk, plan="", notes=()))


def _alone(plan: Plan) -> Plan:
    """The plan without what belongs to the lane."""
    return replace(plan, aside=(), parked=(), outcomes={})


def parked(run: Run, event: e.Parked) -> Run:
    plan = run.plan
    empty = replace(plan, trigger=None, assessment=None, parked=(*plan.parked, _alone(plan)))
    return replace(run, at=event.at, plan=empty)


def set_aside(run: Run, event: e.SetAside) -> Run:
    plan = replace(run.plan, act=run.act, halt=event.stop)
    return replace(run, at=event.at, act=None, child="", plan=plan)


def taken_up(run: Run, event: e.TakenUp) -> Run:
    plan = run.plan
    if event.what == "run":
        act, fresh = plan.act, replace(renewed(plan), act=None, halt=None)
        return replace(run, at=event.at, act=act, child=act.child if act else "", plan=fresh)
    if event.what == "parked":
        return replace(run, at=event.at, plan=replace(plan, parked=plan.parked[1:]))
    last = renewed(plan.aside[-1])
    carried = {"parked": plan.parked, "outcomes": plan.outcomes, "nothings": plan.nothings}
    return replace(run, at=event.at, plan=replace(last, aside=plan.aside[:-1], **carried))


def abandoned(run: Run, event: e.Abandoned) -> Run:
    plan = _without(run.plan, event)
    return replace(run, at=event.at, plan=replace(plan, aside=tuple(_without(p, event) for p in plan.aside)))


def _without(plan: Plan, event: e.Abandoned) -> Plan:
    ours = plan.act is not None and plan.act.child == event.run
    return replace(plan, act=None, halt=event.stop) if ours else plan


def milestone(run: Run, event: e.Milestone) -> Run:
    return replace(run, at=event.at, plan=replace(run.plan, worked_us=0, warned=()))


def renewed(plan: Plan) -> Plan:
    """After an answer or an interruption, counts of turns in a row start again; the turns of the plan do not."""
    return replace(plan, idle=0, said=("", 0), error=("", 0), worked_us=0, warned=())


def warned(plan: Plan, code: str) -> Plan:
    """A person is warned of each rule once."""
    new = code in WARN_AT and code not in plan.warned
    return replace(plan, warned=(*plan.warned, code)) if new else plan


def charged(plan: Plan, event: e.Charged) -> Plan:
    """One more turn of a child run. Only turns of writing roles count (CTO-9)."""
    plan = replace(plan, worked_us=plan.worked_us + event.took_us)
    if event.role not in WORKERS or not event.turns:
        return plan
    return replace(
        plan,
        turns=plan.turns + event.turns,
        idle=0 if event.advanced else plan.idle + event.turns,
        said=_again(plan.said, event.said),
        error=("", 0) if event.advanced and not event.error else _again(plan.error, event.error),
        advanced=plan.advanced or event.advanced,
    )


def _again(last: tuple[str, int], now: str) -> tuple[str, int]:
    return (now, last[1] + 1 if now == last[0] else 1) if now else ("", 0)


def moved(run: Run, event: e.Moved) -> Plan:
    """Back to listening: the work is over, and only its result is kept. A plan that will be
    made again keeps the results of its steps."""
    plan, to = run.plan, run.machine.states[event.target]
    if to.act == "agent" and run.here.act == "run":
        return replace(plan, replanned=event.outcome == "replan" or plan.replanned, advanced=False)
    if to.act != "listen":
        return plan
    ticket, text = (plan.trigger.ticket, plan.trigger.text) if plan.trigger else ("", "")
    outcomes = plan.outcomes
    if ticket:
        became = f"done {plan.commit}" if event.outcome == "done" else "dropped"
        outcomes = {**{k: v for k, v in outcomes.items() if k != ticket}, ticket: became}
        outcomes = dict(list(outcomes.items())[-OUTCOMES_KEPT:])
    nothings = _again(plan.nothings, text) if event.outcome == "nothing" else ("", 0)
    nothings = (nothings[0], min(nothings[1], NOTHINGS))
    return Plan(aside=plan.aside, parked=plan.parked, outcomes=outcomes, nothings=nothings)
