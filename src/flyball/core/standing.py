"""The rules of the standing loop (`cto`): what starts work, what a plan needs, and when child runs are stopped.

A child run here has its own checkout. It is never lost: it is interrupted, together with the act that waits for it, and
continued later by the rules or by a person's answer.
"""

from __future__ import annotations

from msgspec.structs import replace

from flyball.core.stops import ask, stop
from flyball.core.transition import follow
from flyball.domain import events as e
from flyball.domain.results import code_of
from flyball.domain.settings import dollars, show_duration
from flyball.state.fold import Events
from flyball.state.plans import NOTHINGS, WARN_AT
from flyball.state.run import Plan, Run

SET_ASIDE = "set-aside"  # the request to a run that is interrupted for something more urgent
REPAIRS = 1  # how often CI of a run's own branch is repaired before a person is asked


# ---- triggers --------------------------------------------------------------------------------------------


def listens(run: Run) -> bool:
    """Whether it has nothing to do and takes triggers."""
    idle = run.status == "running" and run.act is None and not run.agenda
    return run.here.act == "listen" and idle and not run.plan.aside


def outranks(run: Run, trigger: e.Trigger) -> bool:
    """Whether this trigger is more urgent than the current work, so that a child run would be interrupted for it."""
    works = run.here.act == "run" and run.plan.trigger is not None
    return works and not trigger.tried and trigger.priority > _priority(run)


def _priority(run: Run) -> int:
    return run.plan.trigger.priority if run.plan.trigger else 100


def works(run: Run) -> bool:
    """Whether it plans or executes; waiting for a person or for work is neither."""
    return run.here.act in ("agent", "run") and run.status == "running"


def makes_way(run: Run) -> bool:
    """Whether the child run has stopped at the end of its turn because it is being interrupted."""
    return run.status == "paused" and run.stop is not None and run.stop.rule == SET_ASIDE


def refusal(run: Run, trigger: e.Trigger) -> str:
    """Why the trigger cannot be taken now; "" if it can."""
    if not run.machine.standing:
        return f"'{run.machine.name}' takes no triggers."
    if listens(run) or (makes_way(run) and outranks(run, trigger)):
        return ""
    return f"Run {run.id} is not waiting for work."


def hear_trigger(events: Events, trigger: e.Trigger) -> Events:
    run, now = events.run, events.now
    if run.here.act != "listen":
        events.add(e.Resumed(at=now, why="a more urgent trigger"), e.SetAside(at=now, run=run.child))
        _begin(events, trigger, interrupts=True)
        return follow(events, "interrupt", reason=f"{trigger.kind}: {trigger.text[:200]}")
    text, count = run.plan.nothings
    _begin(events, trigger, interrupts=False)
    if text == trigger.text and count >= NOTHINGS:
        cause = stop(run, "loop.state_cycle", "nothing to do", NOTHINGS, count, detail=trigger.text[:500])
        return _ask(follow(events, "unresolved", cause=cause), cause)
    if trigger.tried:
        detail = f"A repair was tried already. {trigger.text[:500]}"
        cause = stop(run, "wait.dependency", "CI", REPAIRS, REPAIRS, detail=detail)
        return _ask(follow(events, "unresolved", cause=cause), cause)
    return follow(events, "trigger", reason=f"{trigger.kind}: {trigger.text[:200]}")


def hear_parked(events: Events, plan: Plan) -> Events:
    """This lane asks about a plan that another one has made."""
    assert plan.trigger is not None
    _begin(events, plan.trigger, interrupts=False, assessment=plan.assessment)
    follow(events, "trigger", reason=f"{plan.trigger.kind}: {plan.trigger.text[:200]}")
    return follow(events, "approval", reason="another lane has made the plan")


def _begin(
    events: Events, trigger: e.Trigger, interrupts: bool, assessment: e.Assessment | None = None
) -> None:
    """The planner sees the files from which the work will start."""
    events.add(e.Triggered(at=events.now, trigger=trigger, interrupts=interrupts, assessment=assessment))
    if trigger.tree and trigger.tree != events.run.tree:
        events.add(e.RestoreOrdered(at=events.now, tree=trigger.tree, why="trigger"))


def listening(run: Run, now: int) -> Events | None:
    """CTO-5: interrupted work continues when there is nothing else to do; its plan is still valid, so no turn is needed."""
    if not run.plan.aside:
        return None
    events = Events(run, now)
    follow(events, "trigger", reason="continuing the interrupted work")
    events.add(e.TakenUp(at=now, what="plan"))
    return follow(events, "planned", reason="the plan is still valid") if events.run.plan.steps else events


# ---- steps -----------------------------------------------------------------------------------------------


def paused(events: Events, cause: e.Stop) -> Events:
    """CTO-1: a person paused the loop; it asks them how to continue."""
    return _ask(follow(events, "paused", cause=cause), cause)


def executing(run: Run, now: int) -> Events | None:
    """The interrupted run that continues before the next step, if there is one; nothing if all steps are done."""
    events = Events(run, now)
    if run.plan.act is not None:
        return events.add(e.TakenUp(at=now, what="run", run=run.plan.act.child))
    if run.plan.halt is not None:  # the run has ended while it was paused
        return _ask(follow(events, "halted", cause=run.plan.halt), run.plan.halt)
    if run.plan.trigger is not None and not run.plan.finished:
        return None
    reason = "all steps are done" if run.plan.trigger else "nothing is planned"
    return follow(events, "done", past_breakpoint=True, reason=reason)  # no act was done


def step(run: Run) -> e.PlanStep | None:
    """The step that is due."""
    return run.plan.steps[run.plan.step] if run.plan.step < len(run.plan.steps) else None


def after_step(events: Events, child: e.ChildEnded) -> Events:
    """A failed step is planned again; without progress, or too often, a person decides."""
    run, plan, detail = events.run, events.run.plan, f"{child.stop.code}: {child.stop.detail}"[:500]
    if child.end == "success":
        return follow(events, "done", reason="all steps are done") if plan.finished else events
    cause, most = child.stop, run.most("failures") or 3
    if child.end == "cancelled" or cause.code == "failed.abandoned" or plan.failures > most:
        return _ask(follow(events, "halted", cause=cause), cause)
    if plan.replanned and not plan.advanced:
        cause = stop(run, "loop.replan", "replan", detail=detail)
        return _ask(follow(events, "halted", cause=cause), cause)
    failed = step(run)
    title = failed.title if failed else ""
    text = f"Step {plan.step + 1} of the plan ({title}) failed: {detail} Plan the rest in a different way."
    return follow(events.tell(text), "replan", reason=f"step {plan.step + 1} failed: {child.stop.code}")


# ---- child runs -------------------------------------------------------------------------------------------


def child_stopped(run: Run, event: e.ChildStopped) -> Events:
    """CTO-8: a question or block of a child run stops the standing loop too; a limit that clears by itself does not."""
    events, cause = Events(run, event.at).add(event), event.stop
    passing = event.until is not None or cause.rule == SET_ASIDE or cause.code == "interrupted"
    if not run.machine.supervises or run.here.act != "run" or passing:
        return events
    return follow(events, "halted", cause=cause)


def child_went_on(run: Run, event: e.ChildWentOn) -> Events:
    events = Events(run, event.at).add(event)
    answered = run.machine.supervises and run.here.act == "ask" and run.act is not None
    return follow(events, "proceed", past_breakpoint=True) if answered else events


def step_run(run: Run) -> str:
    """The run of the current step, even if it is interrupted; "" if there is none."""
    return run.child or (run.plan.act.child if run.plan.act is not None else "")


def aside(run: Run, child: str) -> bool:
    """Whether this child run is interrupted."""
    acts = [plan.act for plan in (run.plan, *run.plan.aside)]
    return any(act is not None and act.child == child for act in acts)


def taken_over(run: Run, child: str, now: int) -> Events:
    """CTO-10: a person works in the checkout of the interrupted run; taking it over was their answer. After it is handed
    back, that run continues."""
    events = Events(run, now)
    if run.here.act != "ask" or run.plan.act is None or run.plan.act.child != child:
        return events
    return events.add(
        e.Resumed(at=now, why=f"run {child} was taken over"), e.TakenUp(at=now, what="run", run=child)
    )


def charged(run: Run, event: e.Charged) -> Events:
    """CTO-9 and 10: each turn of a child run is counted, and a rule that fires stops that run at once."""
    events = Events(run, event.at).add(event)
    if not run.machine.supervises or run.here.act != "run" or run.act is None:
        return events
    cause = _loops(events.run, event)
    return _halt(events, cause) if cause else _warn(events)


def _counts(run: Run) -> list[tuple[str, str, int, int | None, str]]:
    """The rules of CTO-9: stop code, key, the count, how much is allowed, and its name in words."""
    usual, plan = run.machine.alert_us.get(run.state, 0), run.plan
    unwatched_us = run.settings.timeout_us(run.machine.name, f"alert.{run.state}", usual) or None
    return [
        ("wait.check_in", "no milestone", plan.worked_us, unwatched_us, ""),
        *(
            (code, key, count, run.most(key), what)
            for code, key, count, what in (
                ("limit.actions", "turns", plan.turns, "turns for this plan"),
                ("loop.same_action", "same_action", plan.said[1], "turns in a row with the same result"),
                ("loop.same_error", "same_error", plan.error[1], "turns in a row with the same error"),
                ("loop.no_progress", "no_progress", plan.idle, "turns in a row without progress"),
            )
        ),
    ]


def _loops(run: Run, turn: e.Charged) -> e.Stop | None:
    last = f"Last error, of run {turn.run}: {turn.error_text}" if turn.error_text else ""
    for code, key, count, most, what in _counts(run):
        if most is None or count <= most:
            continue
        if not what:
            return stop(run, code, key, show_duration(most), show_duration(count))
        return stop(run, code, key, most, count, detail=f"{count} {what}. {last}".strip())
    return None


def _warn(events: Events) -> Events:
    """A person is warned of each rule once, before it stops anything."""
    for code, _, count, most, what in _counts(events.run):
        part, whole = WARN_AT.get(code, (1, 1))
        if code not in WARN_AT or most is None or count <= most * part // whole:
            continue
        text = f"{count} {what}; a person is asked after more than {most}."
        if not what:
            duration, allowed = show_duration(count), show_duration(most)
            text = f"{duration} of work without a milestone; a person is asked after {allowed}."
        if code not in events.run.plan.warned:
            events.warn(code, text)
    return events


def _halt(events: Events, cause: e.Stop) -> Events:
    events.add(e.SetAside(at=events.now, run=events.run.child, stop=cause))
    return follow(events, "halted", cause=cause)


# ---- health ----------------------------------------------------------------------------------------------


def mismatched(run: Run, now: int, texts: tuple[str, ...], grave: bool) -> Events:
    """CTO-13: mismatches are recorded; if no rule resolves one, a person is asked."""
    events = Events(run, now).warn("wait.mismatch", *texts)
    cause = stop(run, "wait.mismatch", "resume", detail=" ".join(texts)[:500])
    if not grave or run.status != "running" or run.asked:
        return events
    if run.here.act == "run" and run.act is not None:
        return _halt(events, cause)
    return _ask(follow(events, "unresolved", cause=cause), cause) if listens(run) else events


# ---- what a person is asked ------------------------------------------------------------------------------


def _ask(events: Events, cause: e.Stop) -> Events:
    """Ask at once, while the cause is known; if a breakpoint comes first, the state asks."""
    if events.run.here.act != "ask" or events.run.status != "running":
        return events
    cause, text = question(events.run, cause)
    return ask(events, cause, "escalation", text, status="waiting")


def question(run: Run, cause: e.Stop | None = None) -> tuple[e.Stop, str]:
    """Why the loop waits, and what a person is asked."""
    plan, trigger = run.plan, run.plan.trigger
    reasons = plan.assessment.reasons if plan.assessment and not plan.approved else ()
    if reasons and plan.act is None and cause is None:
        cause = stop(run, "wait.approval", "plan", detail=reasons[0])
        return cause, f"{outline(run)}\nIt needs your approval: {' '.join(reasons)}\nExecute this plan?"
    cause = cause or plan.halt or run.path.child_stop
    cause = cause or stop(run, "wait.escalation", "the standing loop asks", detail=run.progress.error_text)
    why = " ".join(cause.detail.split()) or code_of(cause.code).says
    if code_of(cause.code).status != "waiting":  # the rule is why the child run ended
        cause = replace(cause, code="wait.escalation", rule=cause.code)
    if trigger is None:
        return (
            cause,
            f"No task is being worked on: {why}.\nWhat next? proceed takes the next task of the backlog.",
        )
    progress = f" {plan.step} of {len(plan.steps)} steps are done." if plan.steps else ""
    choices = "proceed continues with the same step, replan makes a new plan, drop gives this task up."
    below = step_run(run)
    by_hand = f" With `flyball take-over {below}` you do it yourself." if below else ""
    title = trigger.text.strip().partition("\n")[0]
    return cause, f"'{title}' stopped: {why.rstrip('.')}.{progress}\nWhat next? {choices}{by_hand}"


def outline(run: Run) -> str:
    """The plan in a few lines."""
    plan, assessment = run.plan, run.plan.assessment
    task = plan.trigger.text if plan.trigger else ""
    if assessment is None:
        return f"Task: {task}"
    lines = [f"Task: {task}", f"Tier: {assessment.tier} ({assessment.tier_why.rstrip('.')})"]
    usual = (
        f"; median {dollars(assessment.median_uusd)}, {assessment.median_tokens:,} tokens"
        if assessment.median_tokens not in (0, assessment.tokens)
        else ""
    )
    lines.append(
        f"Estimate: {dollars(assessment.cost_uusd)}, {assessment.tokens:,} tokens ({assessment.basis}{usual})"
    )
    for number, one in enumerate(assessment.steps, 1):
        where = f" ({', '.join(one.paths)})" if one.paths else ""
        lines.append(f"{number}. {one.title}{where}")
    return "\n".join((*lines, f"Rollback: {assessment.rollback}" if assessment.rollback else "")).rstrip()
