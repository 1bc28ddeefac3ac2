"""Every rule that says what comes next. Pure: the same run and the same news give the same facts.

`due` says what to do now. `react` says which facts follow from what came of it. Where an outcome leads is the
table's business; whether it may go there yet (breakpoint, gate, limits) is decided in `follow`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from flyball.core import events as e
from flyball.core import limits, stops, turns
from flyball.core.landing import LAND, landed, landing_due
from flyball.core.ledger import SHOWN, shown
from flyball.core.machine import duration_us
from flyball.core.run import WORKERS, Run, apply, cto_most, fold
from flyball.core.stops import (
    INTERRUPTIONS,
    ask,
    ended,
    infrastructure,
    let_go,
    spent_up,
    stop,
    unapproved,
)
from flyball.core.transition import disproved, follow, unproved, unproven
from flyball.errors import FlyballError


class Do(Struct, frozen=True):
    """Begin this act (after its ActStarted is durable)."""

    act: e.Act


class Note(Struct, frozen=True):
    """Write these facts down; then ask again."""

    events: tuple[e.AnyEvent, ...]


class Rest(Struct, frozen=True):
    """Nothing to do before this instant; None: until somebody writes or an act finishes."""

    until: int | None = None


class Finished(Struct, frozen=True, kw_only=True):
    """What came of an act, as the shell saw it."""

    key: str
    result: e.AnyResult
    took_us: int = 0
    ruling: e.Ruling | None = None


class Interrupted(Struct, frozen=True):
    """An act came to nothing; it costs nothing. `gone`: nothing can be done until somebody has put that right."""

    key: str
    reason: str
    kept: str = ""
    gone: bool = False


# ---- what is due -----------------------------------------------------------------------------------------


def due(run: Run, now: int) -> Do | Note | Rest:
    """What to do next."""
    if run.status == "ended":
        landing = landing_due(run)
        return Do(landing) if landing else Rest()
    if run.asked == "cancel" and run.act is None:
        seen = stop(run, "cancelled", rule="a person asked for it")
        return Note((*unapproved(run, now), ended(run, "cancelled", seen, now)))
    if run.todo and run.todo.why == "rollback" and run.act is None:  # a person said so: also while it waits
        return Do(_act(run, "restore", why="rollback", tree=run.todo.tree, since=run.todo.since))
    waits = run.status == "waiting" and run.question is None
    if run.act is not None or not (run.status == "running" or (waits and run.asked)):
        return _resting(run, now)
    half_made = run.asked == "take-over" and run.todo is not None  # not handed over as the person's own
    if run.asked and not half_made:
        dropped = let_go(run, now) if run.asked == "take-over" else []  # the act is done again afterwards
        code = {"interrupt": "interrupted", "take-over": "wait.take_over"}.get(run.asked, "wait.paused")
        return Note((*dropped, e.Stopped(at=now, status="paused", stop=stop(run, code, rule=run.asked))))
    if run.gone or run.interruptions >= INTERRUPTIONS:
        return Note((infrastructure(run, now),))
    return _groundwork(run) or (_onwards_from_held(run, now) if run.held else _work(run, now))


def _resting(run: Run, now: int) -> Note | Rest:
    if run.until is None or run.act is not None or now < run.until:
        return Rest(run.until)
    resumed = e.Resumed(at=now, why="the wait is over")
    if run.here.act == "ask" and "answered" in run.here.on:  # LOOP-3: a cooldown stands for an answer
        return Note((resumed, *follow(apply(run, resumed), "answered", now, past_breakpoint=True)))
    return Note((resumed,))


def _groundwork(run: Run) -> Do | None:
    """What must stand before any turn: the right tree, the checkout, the baseline."""
    if run.todo:
        return Do(_act(run, "restore", why=run.todo.why, tree=run.todo.tree, since=run.todo.since))
    if not run.prepared:
        return Do(_act(run, "prepare"))
    if not run.baselined and run.settings.proof:
        return Do(_act(run, "proof", why="baseline"))
    return None


def _onwards_from_held(run: Run, now: int) -> Do | Note:
    held = run.held
    assert held is not None
    if held.until == "gate":
        return Do(_act(run, "proof", why="gate"))
    if held.until == "commit":
        return Do(_act(run, "commit"))
    if not held.outcome:  # the turn came to nothing, though its change may stand
        return Note((e.Dropped(at=now, why="the turn had no outcome"),))
    return Note(tuple(follow(run, held.outcome, now, held.data, past_breakpoint=held.until == "passed")))


def _work(run: Run, now: int) -> Do | Note | Rest:
    """The act of the state that the run is in."""
    match run.here.act:
        case "agent":
            return _turn(run, now)
        case "run":
            return over(run, now) or Do(_act(run, run.here.do, why="child"))
        case "proof":
            if run.settings.proof:
                return Do(_act(run, "proof", why="test"))
            skipped = e.Skipped(at=now, what="proof", reason="no proof command is configured")
            return Note((skipped, *follow(run, "passed", now, past_breakpoint=True)))  # no act, no breakpoint
        case "commit":
            if unproved(run):
                return Do(_act(run, "proof", why="gate"))
            return Do(_act(run, "commit")) if not disproved(run) else Note(tuple(_uncommitted(run, now)))
        case "check":
            return Do(_act(run, "check"))
        case "ask":
            return (over(run, now) if run.here.circuit == "open" else None) or Note((_question(run, now),))
        case "wait":
            return _wait(run, now)
        case _:  # listen
            return Rest()


def _uncommitted(run: Run, now: int) -> list[e.AnyEvent]:
    return follow(run, "unproven" if run.machine.place(run.state, "unproven") else "refused", now)


def _turn(run: Run, now: int) -> Do | Note:
    role = run.here.of
    if role == "cto" and run.cto_attempts >= cto_most(run):
        used_up = "the CTO's attempts are used up"  # no act was done, so no breakpoint holds it
        return Note(tuple(follow(run, "escalate", now, past_breakpoint=True, reason=used_up)))
    stopped = over(run, now)
    if stopped:
        return stopped
    if run.here.loop and run.option("write") == "loop":
        return Do(_act(run, run.here.loop, why="write"))
    agent = limits.agent_for(run, role, now)
    session = run.sessions.get(f"{agent}|{role}", "")
    told = tuple(text for text in run.told if not text.startswith(SHOWN))
    told = (*told, shown(run.findings)) if role == "reviewer" and run.findings else told
    return Do(_act(run, run.here.do, agent=agent, session=session, resume=bool(session), told=told))


def over(run: Run, now: int) -> Note | None:
    """What another turn would break: money and tokens, then turns and time, then the loop rules."""
    spent = spent_up(run)
    if spent:
        text = "The budget does not cover another turn. Raise it by the same again?"
        return Note((ask(run, spent, "budget", text, now),))
    limit = _over_limit(run)
    if limit:
        return Note(tuple(follow(run, "exhausted", now, cause=limit)))
    plan = limits.plan_used_up(run, now)
    if plan:
        return Note((plan,))
    seen = stops.stalled(run) if _counts_for_the_circuit(run) else None
    placed = run.machine.place(run.state, "stalled")
    return Note(tuple(follow(run, "stalled", now, cause=seen))) if seen and placed else None


def _counts_for_the_circuit(run: Run) -> bool:
    """A state that places `stalled` itself reads it from its turns; one that probes has a turn of its own."""
    on = run.here.on
    return run.here.of in WORKERS and ("stalled" not in on or not (run.retries or "progressed" in on))


def _over_limit(run: Run) -> e.Stop | None:
    most, used = run.most("turns"), run.turns + run.barren - run.turns_base
    if most is not None and used >= most and not run.machine.supervises:
        return stop(run, "limit.turns", "turns", most, used)
    wall, spent = run.settings.budget.wall_us, run.wall_us - run.wall_base
    if wall is not None and spent >= wall:
        return stop(run, "limit.time", "budget.wall", f"{wall // 1_000_000}s", f"{spent // 1_000_000}s")
    return None


def _wait(run: Run, now: int) -> Note | Rest:
    until = run.entered_at + duration_us(str(run.here.options.get("for", "1m")))
    return Note(tuple(follow(run, next(iter(run.here.on)), now))) if now >= until else Rest(until)


def _question(run: Run, now: int) -> e.Stopped:
    if run.here.circuit == "open":
        seen = stops.stalled(run) or stop(run, "loop.no_progress", "half_open", 1, 1, detail=run.last_error)
        cooldown = run.settings.timeout_us(run.machine.name, "cooldown", 0)
        asked = ask(run, seen, "loop", stops.solutions(run, seen), now)
        return replace(asked, until=now + cooldown) if cooldown else asked
    seen = stop(run, "wait.escalation", rule=f"the state '{run.state}' asks a person", detail=run.last_error)
    return ask(
        run, seen, "escalation", f"'{run.began.task}' needs a person in state '{run.state}'. What next?", now
    )


def _act(run: Run, do: str, *, why: str = "", tree: str = "", **more: Any) -> e.Act:
    limit_us = phase_us(run) if why != "baseline" else 0
    budget = run.settings.budget.wall_us
    left = max(1_000_000, budget - (run.wall_us - run.wall_base)) if budget is not None else 0
    bounds = [b for b in (limit_us, left if do.startswith("agent:") else 0, run.began.within_us) if b]
    return e.Act(
        key=f"{run.id}-{run.acts + 1}",
        do=do,
        state=run.state,
        turn=run.turn + 1,
        wall_us=min(bounds, default=0),
        idle_us=run.settings.timeout_us(run.machine.name, "idle_timeout", 600_000_000)
        if do.startswith("agent:")
        else 0,
        why=why,
        tree=tree or run.tree,
        **more,
    )


def phase_us(run: Run) -> int:
    """The time limit of this state's act: its own as configured, else that of every phase, else the machine's."""
    machine, settings = run.machine, run.settings
    usual = settings.timeout_us(machine.name, "phase_timeout", machine.within_us.get(run.state, 0))
    return settings.timeout_us(machine.name, f"within.{run.state}", usual)


# ---- what follows ----------------------------------------------------------------------------------------


def react(run: Run, finished: Finished, now: int) -> list[e.AnyEvent]:
    """The facts that follow from what came of the act in flight."""
    act = run.act
    if act is None or act.key != finished.key:
        raise FlyballError(f"Run {run.id} has no act {finished.key} in flight; its result is not believed.")
    result = turns.fitted(run, act, finished.result)
    ruling = finished.ruling or turns.unjudged(act, result)
    facts: list[e.AnyEvent] = [e.ActFinished(at=now, key=act.key, result=result, took_us=finished.took_us)]
    facts += turns.warned(run, result, now)
    if ruling:
        facts.append(e.Ruled(at=now, key=act.key, ruling=ruling))
    if act.do == LAND:
        return [*facts, *(landed(run, result, now) if isinstance(result, e.CommitEnded) else ())]
    after = fold(run, facts)
    return [*facts, *_following(after, act, result, ruling, now)]


def _following(
    run: Run, act: e.Act, result: e.AnyResult, ruling: e.Ruling | None, now: int
) -> Sequence[e.AnyEvent]:
    match result:
        case e.TurnEnded():
            stopped = turns.stopped_by(run, act, result, ruling, now)
            return stopped if stopped is not None else _outcome_of_turn(run, act, result, now)
        case _ if run.asked == "cancel":
            return [ended(run, "cancelled", stop(run, "cancelled", rule="a person asked for it"), now)]
        case e.ProofEnded():
            return _after_proof(run, act, result, now)
        case e.CheckEnded():
            return _after_check(run, result, now)
        case e.CommitEnded():
            return _after_commit(run, result, now)
        case e.Prepared() if result.error:
            return [ended(run, "failure", stop(run, result.code or "error.config", detail=result.error), now)]
        case e.ChildEnded():
            return _after_child(run, act, result, now)
        case _:
            return []


def _outcome_of_turn(run: Run, act: e.Act, turn: e.TurnEnded, now: int) -> Sequence[e.AnyEvent]:
    outcome, data, told = turns.outcome_of(run, act, turn)
    notes: list[e.AnyEvent] = [e.Told(at=now, text=text, who="flyball") for text in told]
    return [*notes, *follow(fold(run, notes), outcome, now, data)]


def _after_check(run: Run, check: e.CheckEnded, now: int) -> Sequence[e.AnyEvent]:
    named = (check.outcome, "failure", "cannot_start")
    outcome = next((name for name in named if run.machine.place(run.state, name)), "")
    if outcome and (outcome == check.outcome or check.outcome != "ready"):
        return follow(run, outcome, now, reason=check.reason)
    failed = stop(run, "failed.start", "check", detail=check.reason)
    return follow(run, "error", now, cause=failed)


def _after_proof(run: Run, act: e.Act, proof: e.ProofEnded, now: int) -> Sequence[e.AnyEvent]:
    if proof.cannot_start:
        seen = stop(run, "error.config", "proof.commands", detail=proof.cannot_start)
        before = act.why == "baseline"
        return [
            ended(run, "failure", seen, now)
            if before
            else ask(run, seen, "infrastructure", proof.cannot_start, now)
        ]
    if act.why == "baseline":
        return [e.Warned(at=now, code="proof.invalid", text=proof.invalid)] if proof.invalid else []
    if act.why == "test" and _timed_out(run, act, proof):
        late = stop(run, "timeout.phase", "phase_timeout", f"{phase_us(run) // 1_000_000}s", "outlived")
        return follow(run, "timeout", now, cause=late)
    if proof.passed:
        return _after_gate(run, now) if act.why == "gate" else follow(run, "passed", now)
    told = e.Told(at=now, text=f"The proof failed:\n{proof.invalid or proof.summary}", who="proof")
    run = apply(run, told)
    if act.why == "gate" and run.held is None:
        return [told, *_uncommitted(run, now)]
    if act.why == "gate":
        return [told, *follow(run, unproven(run), now, past_breakpoint=True)]
    return [told, *follow(run, "failed", now)]


def _after_gate(run: Run, now: int) -> Sequence[e.AnyEvent]:
    held = run.held
    return follow(run, held.outcome, now, held.data, past_breakpoint=True) if held else []


def _timed_out(run: Run, act: e.Act, proof: e.ProofEnded) -> bool:
    return bool(act.wall_us) and proof.invalid == "phase timeout"


def _after_commit(run: Run, done: e.CommitEnded, now: int) -> Sequence[e.AnyEvent]:
    if done.outcome == "conflict":
        seen = stop(run, "wait.conflict", "merge", detail=done.reason)
        return [ask(run, seen, "infrastructure", f"{done.reason} Settle it, then retry.", now)]
    notes = landed(run, done, now)
    if run.here.act == "commit":
        return [*notes, *follow(run, done.outcome, now, reason=done.reason)]
    held = run.held
    assert held is not None
    if done.outcome == "refused":
        return follow(run, unproven(run), now, past_breakpoint=True)
    return [*notes, *follow(run, held.outcome, now, held.data, past_breakpoint=True)]


def _after_child(run: Run, act: e.Act, child: e.ChildEnded, now: int) -> Sequence[e.AnyEvent]:
    if child.end == "success":
        return _after_success(run, act, now)
    reason = f"The run below ended: {child.stop.code}. {child.stop.detail}".strip()
    if run.machine.place(run.state, "failure"):
        return follow(run, "failure", now, reason=reason)
    outcome = _outcome_for(run, child.stop.code)
    return follow(run, outcome, now, cause=replace(child.stop, turn=run.turns))


def _after_success(run: Run, act: e.Act, now: int) -> list[e.AnyEvent]:
    """A loop that wrote stands for the turn it replaced: it yields the first outcome of the state."""
    if act.why == "write":
        return follow(run, turns.first_outcome(run), now)
    return follow(run, "success" if "success" in run.here.on else "done", now)


def _outcome_for(run: Run, code: str) -> str:
    """What a child's failure is in a table that does not place `failure`."""
    if "halted" in run.here.on:
        return "halted"
    return {"limit": "exhausted", "timeout": "timeout"}.get(code.partition(".")[0], "error")
