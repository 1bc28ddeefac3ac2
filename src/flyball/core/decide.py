"""All rules about what comes next. Pure: the same run and the same result always give the same events.

`due` says what to do now: the first step of the run's agenda, else the act of its state. `react` says which events
follow from its result. Where an outcome leads is decided in `transition.follow`.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from flyball.core import standing, stops, turns
from flyball.core.mail import answer
from flyball.core.stops import INTERRUPTIONS, ask, cancel, end, infrastructure, let_go, pause, spent_up, stop
from flyball.core.transition import (
    ask_about_evidence,
    disproved,
    doubted,
    follow,
    refuse_claim,
    tell_again,
    unproved,
    unproven,
)
from flyball.domain import events as e
from flyball.domain.machine import JUDGING_ROLES, WORKERS, duration_us
from flyball.domain.messages import Answer
from flyball.domain.settings import MINUTE, SECOND, show_duration
from flyball.errors import FlyballError
from flyball.state.fold import ENVIRONMENT, Events, most_interventions
from flyball.state.run import AnyStep, Baseline, Commit, Follow, Halt, Land, Prepare, Prove, Restore, Run
from flyball.state.tally import SHOWN, shown

ENVIRONMENT_HELP = (
    "Fix this (`flyball init --force` tries the tests and says how), then answer retry to run them again, or "
    "go-on to start the work without."
)
PAUSES = {"interrupt": "interrupted", "take-over": "wait.take_over"}


class Do(Struct, frozen=True):
    """Start this act (after its ActStarted is durable)."""

    act: e.Act


class Note(Struct, frozen=True):
    """Write these events down; then ask again."""

    events: Events


class Rest(Struct, frozen=True):
    """Nothing to do before this time; None: until a message arrives or an act finishes."""

    until: int | None = None


class Finished(Struct, frozen=True, kw_only=True):
    """The result of an act, as the shell reports it."""

    key: str
    result: e.AnyResult
    took_us: int = 0
    ruling: e.Ruling | None = None


class Interrupted(Struct, frozen=True):
    """An act was interrupted; it costs nothing. `gone`: something is missing, and no act can be done until a person fixes it."""

    key: str
    reason: str
    kept: str = ""
    gone: bool = False
    session: str = ""  # the agent's, to be resumed


# ---- what is due -----------------------------------------------------------------------------------------


def due(run: Run, now: int) -> Do | Note | Rest:
    """What to do next: the first step of the agenda, else the act of the state."""
    if run.act is not None:
        return Rest(run.until)
    if run.status == "ended":  # HUMAN-3: it does nothing more, but land
        return _first(run, run.landing, now) if run.landing else Rest()
    step = run.agenda[0] if run.agenda else None
    waits = run.status != "running" and not (run.status == "waiting" and run.question is None and run.asked)
    always = step == Halt("cancel") or (isinstance(step, Restore) and step.why == "rollback")
    if waits and not always:
        return _resting(run, now)
    missing = run.tries.gone or run.tries.interruptions >= INTERRUPTIONS
    if missing and not always and not isinstance(step, Halt):
        return Note(infrastructure(Events(run, now)))
    return _work(run, now) if step is None else _first(run, step, now)


def _first(run: Run, step: AnyStep, now: int) -> Do | Note:
    """The first step of the agenda."""
    match step:
        case Halt(what):
            return Note(_halt(Events(run, now), what))
        case Restore(tree, why, since):
            return Do(_act(run, "restore", why=why, tree=tree, since=since))
        case Prepare():
            return Do(_act(run, "prepare"))
        case Baseline():
            return Do(_act(run, "proof", why="baseline"))
        case Prove():
            return Do(_gate_proof(run))
        case Commit():
            return Do(_act(run, "commit"))
        case Land(branch):
            proposes = run.settings.commit == "pr" and run.status != "ended"
            return Do(_act(run, "land", why="pr" if proposes else "", branch=branch))
        case Follow(""):  # the turn has no outcome, though its change may be kept
            return Note(let_go(Events(run, now), "the turn had no outcome"))
        case Follow():
            return Note(_go_on(Events(run, now)))


def _halt(events: Events, what: str) -> Events:
    """Stop the run here, as requested."""
    run, over = events.run, e.Asked(at=events.now, what="", who="flyball")
    if what == "cancel":
        return cancel(events)
    if what in ("pause", "stop") and "paused" in run.here.on:  # CTO-1: a state waits for the person
        return standing.paused(events.add(over), stop(run, "wait.paused", what))
    if what == standing.SET_ASIDE and run.machine.supervises and run.here.act != "run":
        return events.add(over)  # nothing can make way
    if what == "take-over":
        let_go(events)  # its act is done again
    return pause(events, PAUSES.get(what, "wait.paused"), what)


def _go_on(events: Events) -> Events:
    """Follow the outcome that is on the agenda, if there is one."""
    step = events.run.pending
    if step is None:
        return events
    return follow(events, step.outcome, step.data, past_breakpoint=step.past_breakpoint)


def _resting(run: Run, now: int) -> Note | Rest:
    question = run.question
    if question is not None and question.deadline and now >= question.deadline:
        by_default = Answer(
            question=question.id,
            verb=question.default,
            text=question.default_text,
            who=stops.WHO,
            how="deadline",
        )
        return Note(answer(run, by_default, now))
    if run.until is None or now < run.until:
        times = [at for at in (run.until, question.deadline if question else None) if at]
        return Rest(min(times, default=None))
    events = Events(run, now).add(e.Resumed(at=now, why="the wait is over"))
    if run.here.act == "ask" and "answered" in run.here.on:  # LOOP-3: a cooldown is over
        follow(events, "answered", past_breakpoint=True)
    return Note(events)


def _work(run: Run, now: int) -> Do | Note | Rest:
    """The act of the state that the run is in."""
    match run.here.act:
        case "agent":
            return _turn(run, now)
        case "run":
            first = standing.executing(run, now) if run.machine.supervises else None
            return Note(first) if first else over(run, now) or Do(_act(run, run.here.do, why="child"))
        case "proof":
            return _test(run, now)
        case "commit":
            return _commit(run, now)
        case "check":
            return _check(run, now)
        case "ask":
            return (over(run, now) if run.here.circuit == "open" else None) or Note(_question(run, now))
        case "wait":
            until = run.entered_at + duration_us(str(run.here.options.get("for", "1m")))
            return Note(follow(Events(run, now), next(iter(run.here.on)))) if now >= until else Rest(until)
        case _:  # listen
            first = standing.listening(run, now)
            return Note(first) if first else Rest()


def _test(run: Run, now: int) -> Do | Note:
    """Files that failed twice are not proved a third time; the first failure may have been chance."""
    current, events = run.evidence.proof, Events(run, now)
    if not run.settings.proof:
        events.add(e.Skipped(at=now, what="proof", reason="no proof command is configured"))
        return Note(follow(events, "passed", past_breakpoint=True))  # no act was done
    if current is None or current.tree != run.tree or current.fails < 2:
        return Do(_act(run, "proof", why="test"))
    events.add(e.Skipped(at=now, what="proof", reason="nothing changed since it failed twice"))
    tell_again(events)
    return Note(follow(events, "failed"))


def _check(run: Run, now: int) -> Do | Note | Rest:
    """TASK-5: where a task carries out a plan file, the code base is reviewed once before the first check."""
    first = run.began.options.get("step", 1) == 1
    if run.here.plan_review and run.plan_file and first and not run.evidence.plan_reviewed:
        return over(run, now) or _agents_turn(run, run.here.plan_review, now, turns.PLAN_REVIEW)
    return Do(_act(run, "check"))


def _commit(run: Run, now: int) -> Do | Note:
    if unproved(run):
        return Do(_gate_proof(run))
    if disproved(run):
        return Note(refuse_claim(Events(run, now)))
    return Note(ask_about_evidence(Events(run, now))) if doubted(run) else Do(_act(run, "commit"))


def _gate_proof(run: Run) -> e.Act:
    """A proof that passed on this very tree is examined, not run again."""
    proof = run.evidence.proof
    is_current = proof is not None and proof.passed and proof.tree == run.tree
    return _act(run, "proof", why="gate", since=proof.key if proof is not None and is_current else "")


def _turn(run: Run, now: int) -> Do | Note:
    role = run.here.of
    most = most_interventions(run)
    if role == "cto" and run.path.interventions >= most:
        events, reason = Events(run, now), f"{most} of {most} CTO interventions used"
        return Note(follow(events, "escalate", past_breakpoint=True, reason=reason))  # no act was done
    stopped = over(run, now)
    if stopped:
        return stopped
    if stops.probe_due(run):
        return Do(_act(run, "proof", why="probe"))
    if run.here.loop and run.option("write") == "loop":
        return Do(_act(run, run.here.loop, why="write"))
    return _agents_turn(run, run.here.do, now)


def _agents_turn(run: Run, do: str, now: int, why: str = "") -> Do:
    role = do.partition(":")[2]
    agent = stops.agent_for(run, role, now)
    session = run.talk.sessions.get(f"{agent}|{role}", "")
    notes = tuple(text for text in run.talk.notes if not text.startswith(SHOWN))
    notes = (*notes, shown(run.findings)) if role == "reviewer" and run.findings else notes
    return Do(_act(run, do, why=why, agent=agent, session=session, resume=bool(session), told=notes))


def over(run: Run, now: int) -> Note | None:
    """The first limit that another turn would exceed: money and tokens, then turns and time, then the loop rules."""
    budget = spent_up(run)
    if budget:
        amount = stops.raised_to(run, budget)
        text = f"The budget does not cover another turn: {budget.observed}. Answer `raise` to {amount}."
        return Note(ask(Events(run, now), budget, "budget", text))
    limit = stops.over_limit(run)
    if limit:
        return Note(follow(Events(run, now), "exhausted", cause=limit))
    plan = stops.plan_used_up(run, now)
    if plan:
        return Note(stops.wait(Events(run, now), plan, run.spending.plan_reset_at))
    stall = stops.stalled(run) if _counts_for_the_circuit(run) else None
    placed = run.machine.place(run.state, "stalled")
    return Note(follow(Events(run, now), "stalled", cause=stall)) if stall and placed else None


def _counts_for_the_circuit(run: Run) -> bool:
    """Not in a state that handles `stalled` itself, nor in the state of the probing turn."""
    on = run.here.on
    return run.here.of in WORKERS and ("stalled" not in on or not (run.tries.retries or "progressed" in on))


def _question(run: Run, now: int) -> Events:
    events, error = Events(run, now), run.progress.error_text
    if run.here.circuit == "open":
        cause = stops.stalled(run) or stop(run, "loop.no_progress", "half_open", 1, 1, detail=error)
        cooldown = run.settings.timeout_us(run.machine.name, "cooldown", 0)
        until = now + cooldown if cooldown else None
        return ask(events, cause, "loop", stops.solutions(run, cause), until=until)
    if run.machine.supervises:
        cause, text = standing.question(run)
        return ask(events, cause, "escalation", text, status="waiting")
    last = " ".join(run.path.failure.split())
    detail = error or last
    cause = stop(run, "wait.escalation", f"the state '{run.state}' waits for a person", detail=detail)
    failures = [(state, count) for state, count in run.path.failures.items() if count > 1]
    failed = "".join(f" '{state}' failed {count} times." for state, count in failures)
    about = f" about '{run.path.origin}'" if run.path.origin else f" in '{run.state}'"
    failure_text = f" Last failure: {last[-500:].rstrip('.')}." if last else ""
    failure_text += f" Last error: {error[-300:]}" if error and error not in last else ""
    text = f"The run needs your decision{about}.{failed}{failure_text} How should it continue?"
    return ask(events, cause, "escalation", text)


def _act(run: Run, do: str, *, why: str = "", tree: str = "", **more: Any) -> e.Act:
    wall_us = phase_us(run) if why != "baseline" else 0
    if run.began.within_us:
        wall_us = min(wall_us or run.began.within_us, run.began.within_us)
    if do.startswith("agent:"):
        more["idle_us"] = run.settings.timeout_us(run.machine.name, "idle_timeout", 10 * MINUTE)
        budget, spending = run.settings.budget.wall_us, run.spending
        if budget is not None and not run.machine.supervises:  # there each child run has its own
            remaining = max(SECOND, budget - (spending.wall_us - spending.wall_base))
            wall_us = min(wall_us or remaining, remaining)
    key, turn, tree = f"{run.id}-{run.acts + 1}", run.turn + 1, tree or run.tree
    return e.Act(key=key, do=do, state=run.state, turn=turn, wall_us=wall_us, why=why, tree=tree, **more)


def phase_us(run: Run) -> int:
    """The time limit of this state's act: its own as configured, else that of every phase, else the machine's."""
    usual = run.machine.within_us.get(run.state, 0)
    own = run.settings.timeouts_us.get(run.machine.name)
    return own.get(f"within.{run.state}", own.get("phase_timeout", usual)) if own else usual


# ---- what follows ----------------------------------------------------------------------------------------


def trigger(run: Run, outcome: str, now: int, data: dict[str, Any] | None = None) -> Events:
    """The events that follow from an outcome that comes from outside."""
    if outcome == "trigger":
        return standing.hear_trigger(Events(run, now), e.Trigger(kind="start", text=f"work {run.acts}"))
    return follow(Events(run, now), outcome, data)


def react(run: Run, finished: Finished, now: int) -> Events:
    """The events that follow from what came of the act in flight."""
    act = run.act
    if act is None or act.key != finished.key:
        raise FlyballError(f"Run {run.id} has no step {finished.key} in flight; its result is ignored.")
    result, ruling, events = finished.result, finished.ruling, Events(run, now)
    if not isinstance(result, e.CheckEnded):
        result = turns.fitted(run, act, result)
        ruling = ruling or turns.unjudged(act, result)
    events.add(e.ActFinished(at=now, key=act.key, result=result, took_us=finished.took_us))
    if isinstance(result, e.TurnEnded):
        turns.warn_of(events, result)
    if ruling:
        events.add(e.Ruled(at=now, key=act.key, ruling=ruling))
    if isinstance(result, e.CommitEnded) and result.outcome == "committed":
        _delivered(events, act, result)
    return _following(events, act, result, ruling)


def _delivered(events: Events, act: e.Act, result: e.CommitEnded) -> None:
    landing = events.run.landing
    if result.landed:
        who = landing.who if landing else ""
        events.add(e.Landed(at=events.now, commit=result.commit, branch=result.landed, who=who))
    if act.why == "pr":
        events.add(e.Proposed(at=events.now, commit=result.commit, url=result.pull_request))


def _following(events: Events, act: e.Act, result: e.AnyResult, ruling: e.Ruling | None) -> Events:
    match result:
        case _ if events.run.status == "ended":
            again = e.Dropped(at=events.now, why="not landed")  # to land it, a person orders it again
            return events.add(again) if events.run.landing else events
        case e.TurnEnded():
            stopped = turns.stopped_by(events, act, result, ruling)
            return events if stopped else _follow_turn(events, act, result)
        case _ if events.run.agenda and events.run.asked == "cancel":
            return cancel(events)
        case e.CheckEnded():
            return _after_check(events, result)
        case e.ProofEnded():
            return _after_proof(events, act, result)
        case e.CommitEnded():
            return _after_commit(events, result)
        case e.Prepared() if result.error:
            cause = stop(events.run, result.code or "error.config", detail=result.error)
            return end(events, "failure", cause)
        case e.ChildEnded():
            return _after_child(events, act, result)
        case _:
            return events


def _follow_turn(events: Events, act: e.Act, turn: e.TurnEnded) -> Events:
    if act.why == turns.PLAN_REVIEW:
        return _after_review(events, act, turn)
    outcome, data, notes = turns.outcome_of(events.run, act, turn)
    but = turns.unlisted(events.run, act, turn) if act.role in JUDGING_ROLES else ""
    return follow(events.tell(*notes), outcome, data, reason=f"no verdict: {but}" if but else "")


def _after_review(events: Events, act: e.Act, turn: e.TurnEnded) -> Events:
    """A plan that does not fit the code is a failure of the state, and the next review is told of it."""
    outcome, _, notes = turns.outcome_of(events.run, act, turn)
    if outcome == turns.REVIEWS[0]:
        text = f"The {act.do.partition(':')[2]} reviewed the code base for the plan:\n{turn.message}"
        file = events.run.plan_file
        return events.add(e.PlanReviewed(at=events.now, file=file, text=text if turn.message else ""))
    return follow(events.tell(*notes), "failure", reason=f"The plan was rejected: {turn.message[-500:]}")


def _after_check(events: Events, check: e.CheckEnded) -> Events:
    run = events.run
    for outcome in (check.outcome, *(("failure", "cannot_start") if check.outcome != "ready" else ())):
        if run.machine.place(run.state, outcome):
            return follow(events, outcome, reason=check.reason)
    return follow(events, "error", cause=stop(run, "failed.start", "check", detail=check.reason))


def _after_proof(events: Events, act: e.Act, proof: e.ProofEnded) -> Events:
    run = events.run
    if proof.cannot_start:
        cause = stop(run, "error.config", "proof.commands", detail=proof.cannot_start)
        if act.why == "baseline":
            return end(events, "failure", cause)
        return ask(events, cause, "infrastructure", proof.cannot_start)
    if act.why == "baseline" and proof.lacks:
        cause = stop(run, "wait.infrastructure", ENVIRONMENT, detail=proof.lacks)
        return ask(events, cause, "infrastructure", f"{proof.lacks} {ENVIRONMENT_HELP}")
    if act.why == "baseline":
        return events.warn("proof.invalid", proof.invalid) if proof.invalid else events
    if act.why == "probe":
        return stops.after_probe(events, proof)
    if act.why == "test" and act.wall_us and proof.invalid == "phase timeout":
        late = stop(run, "timeout.phase", "phase_timeout", show_duration(phase_us(run)), "exceeded")
        return follow(events, "timeout", cause=late)
    if proof.passed:
        return _go_on(events) if act.why == "gate" else follow(events, "passed")
    events.tell(f"The proof failed:\n{proof.invalid or proof.summary}", who="proof")
    return refuse_claim(events) if act.why == "gate" else follow(events, "failed")


def _after_commit(events: Events, result: e.CommitEnded) -> Events:
    if result.outcome == "conflict":
        cause = stop(events.run, "wait.conflict", "merge", detail=result.reason)
        return ask(events, cause, "infrastructure", f"{result.reason} Resolve it, then answer retry.")
    if result.outcome == "unreachable":
        cause = stop(events.run, "wait.infrastructure", "pull request", detail=result.reason)
        text = f"The pull request could not be opened. {result.reason} Answer retry to try it again."
        return ask(events, cause, "infrastructure", text)
    if events.run.here.act == "commit":
        return follow(events, result.outcome, reason=result.reason)
    if result.outcome == "refused":
        return follow(events, unproven(events.run), past_breakpoint=True)
    return _go_on(events)


def _after_child(events: Events, act: e.Act, child: e.ChildEnded) -> Events:
    run, on = events.run, events.run.here.on
    if run.machine.supervises and run.plan.trigger is not None:
        return standing.after_step(events, child)
    if child.end == "success" and act.why == "write":  # the loop stands for the turn that it replaced
        return follow(events, turns.first_outcome(run))
    if child.end == "success":
        return follow(events, "success" if "success" in on else "done")
    if run.machine.place(run.state, "failure"):
        reason = f"The child run ended: {child.stop.code}. {child.stop.detail}".strip()
        return follow(events, "failure", reason=reason)
    family = child.stop.code.partition(".")[0]
    outcome = {"limit": "exhausted", "timeout": "timeout"}.get(family, "error")
    return follow(events, "halted" if "halted" in on else outcome, cause=replace(child.stop, turn=run.turns))
