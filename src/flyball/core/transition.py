"""The one door: every outcome is followed here, whoever gave it, and every `Moved` is decided here.

In this order: a breakpoint pauses; a failure is counted; the table names the target; a success end needs the gate;
an entry needs an allowance. Where a limit says no, the outcome is `exhausted`, through the same door.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from flyball.core import codes, stops
from flyball.core import events as e
from flyball.core.machine import JUDGING_ROLES, WAITING_ACTS, counts_as_failure
from flyball.core.run import Run, apply, fold
from flyball.core.stops import ask, ended, let_go, stop
from flyball.errors import FlyballError


def follow(
    run: Run,
    outcome: str,
    now: int,
    data: dict[str, Any] | None = None,
    *,
    past_breakpoint: bool = False,
    reason: str = "",
    cause: e.Stop | None = None,
) -> list[e.AnyEvent]:
    """The facts that follow from an outcome. `cause`: the rule that gave it (a limit, a time, a failed process)."""
    data = data or {}
    pausing = run.state in run.settings.breakpoints and run.here.act not in WAITING_ACTS
    if pausing and not past_breakpoint and cause is None:
        return _pause_at_breakpoint(run, outcome, data, now)
    counted, outcome = _count_failure(run, outcome, now, reason)
    run = fold(run, counted)
    target = _target(run, outcome, data, cause)
    if target.startswith("@"):
        return [*counted, *_special(run, target, outcome, now, reason, cause)]
    if run.machine.states[target].end == "success" and run.owner:
        barred = _gate(run, outcome, data, now)
        if barred is not None:
            return [*counted, *barred]
    limit = _entry_limit(run, target, outcome)
    if limit is None:
        return [*counted, *_enter(run, target, outcome, now, reason, cause)]
    if outcome == "exhausted":  # even the way out is used up
        return [*counted, ended(run, "failure", _failed_by(cause or limit), now)]
    return [*counted, *follow(run, "exhausted", now, cause=limit)]


def _pause_at_breakpoint(run: Run, outcome: str, data: dict[str, Any], now: int) -> list[e.AnyEvent]:
    then = f"'{outcome}' would have been followed"
    seen = stop(run, "wait.breakpoint", "breakpoint", run.state, run.state, otherwise=then)
    text = f"Breakpoint in '{run.state}': the outcome is '{outcome}'. Go on?"
    return [
        e.Held(at=now, outcome=outcome, until="breakpoint", data=data),
        ask(run, seen, "breakpoint", text, now, "paused"),
    ]


def _count_failure(run: Run, outcome: str, now: int, reason: str) -> tuple[list[e.AnyEvent], str]:
    """Machines that count failures by state (TASK-2): the third in one state is an outcome of its own."""
    most = run.most("failures")
    if most is None or not counts_as_failure(run.machine, run.here, outcome):
        return [], outcome
    count = min(run.failures.get(run.state, 0) + 1, max(most, 1))
    counted = e.FailureCounted(
        at=now, state=run.state, count=count, reason=reason or f"'{run.state}' ended in '{outcome}'."
    )
    return [counted], "third_failure" if count >= most else outcome


def _target(run: Run, outcome: str, data: dict[str, Any], cause: e.Stop | None) -> str:
    target = run.machine.place(run.state, outcome) or ("@fail" if cause else "")
    if not target:
        raise FlyballError(f"'{run.machine.name}' does not say where '{outcome}' leads from '{run.state}'.")
    if not target.startswith("any:"):
        return target
    named = str(data.get("state") or run.origin or run.machine.start)
    choices = run.machine.targets(target)
    return named if named in choices else choices[0]


# ---- the gate --------------------------------------------------------------------------------------------


def _gate(run: Run, outcome: str, data: dict[str, Any], now: int) -> list[e.AnyEvent] | None:
    """SYS-8: nobody enters a success end but through a proof of exactly this tree, and a commit of it."""
    if unproved(run):
        return [e.Held(at=now, outcome=outcome, until="gate", data=data)]
    if disproved(run):
        assert run.proof is not None
        known = run.proof
        text = f"The proof failed:\n{known.summary}"
        told = e.Told(at=now, text=text, who="proof", fingerprint=known.fingerprint)
        run = apply(run, told)
        return [told, *follow(run, unproven(run), now, past_breakpoint=True)]
    if run.committed is None or run.committed.work != run.tree:
        return [e.Held(at=now, outcome=outcome, until="commit", data=data)]
    return None


def unproved(run: Run) -> bool:
    return run.owner and bool(run.settings.proof) and (run.proof is None or run.proof.tree != run.tree)


def disproved(run: Run) -> bool:
    return run.owner and bool(run.settings.proof) and run.proof is not None and not run.proof.passed


def unproven(run: Run) -> str:
    """A claim that failed the gate is an ordinary turn: `stalled` beats it, and progress closes a circuit."""
    on = run.here.on
    if "progressed" in on and not _succeeds(run, "progressed"):
        return "progressed" if run.progressed else "unproven"
    return "stalled" if "stalled" in on and stops.stalled(run) else "unproven"


def _succeeds(run: Run, outcome: str) -> bool:
    target = run.machine.states.get(run.here.on[outcome])
    return target is not None and target.end == "success"


# ---- states ----------------------------------------------------------------------------------------------


def _entry_limit(run: Run, target: str, outcome: str) -> e.Stop | None:
    iterations = run.most("iterations")
    used = run.iteration - run.iteration_base
    if target == run.machine.iteration and iterations is not None and used >= iterations:
        code = "failed.tests" if outcome == "unproven" else "limit.iterations"
        return stop(run, code, "iterations", iterations, used + 1, detail=run.last_error[-500:])
    most = run.most(target) if target in run.machine.most else None
    if most is not None and run.entries.get(target, 0) >= most:
        code = "failed.tests" if most == 0 else f"limit.{run.machine.states[target].counts or 'turns'}"
        return stop(run, code, target, most, run.entries.get(target, 0) + 1, detail=run.last_error[-500:])
    return None


def _enter(
    run: Run, target: str, outcome: str, now: int, reason: str, cause: e.Stop | None
) -> list[e.AnyEvent]:
    if not reason and outcome == "nothing":  # CTO-1: a plan is dropped for a reason
        reason = run.message[-500:]
    actor = _actor(run, target, cause)
    said = cause.code if cause else reason
    moved = e.Moved(at=now, source=run.state, target=target, outcome=outcome, actor=actor, reason=said)
    end = run.machine.states[target].end
    if not end:
        return [*_skipped(run, outcome, now), moved]
    if end == "failure":
        return [moved, ended(apply(run, moved), end, _failure(run, outcome, reason, cause), now)]
    code = "completed" if run.settings.proof else "completed_unproven"
    return [moved, ended(apply(run, moved), end, stop(run, code, detail=reason), now)]


def _actor(run: Run, target: str, cause: e.Stop | None) -> str:
    """Who is recorded for the transition: as the table says, else the role, or Flyball by a rule of its own."""
    if not run.machine.actors:
        return "flyball" if cause else run.here.of or "flyball"
    actor = run.machine.states[target].called_by or run.machine.actors.get(run.state, "flyball")
    return f"human:{run.answered_by or 'unknown'}" if actor == "human" else actor


def _skipped(run: Run, outcome: str, now: int) -> list[e.AnyEvent]:
    """ALO-2: a test phase left out is journaled with its reason."""
    why = "require_test_pass is off" if run.settings.proof else "no proof command is configured"
    return [e.Skipped(at=now, what="test", reason=why)] if outcome == "untested" else []


def _failure(run: Run, outcome: str, reason: str, cause: e.Stop | None) -> e.Stop:
    """Why a run fails by an outcome of its state; a child's failure keeps the child's code."""
    if cause:
        return _failed_by(cause)
    if run.below and outcome in ("failure", "third_failure"):
        return replace(run.below, turn=run.turns)
    return stop(run, _failure_code(run, outcome), rule=outcome, detail=reason or run.message[-500:])


def _failed_by(cause: e.Stop) -> e.Stop:
    """A rule that only stops a run ends it where the table says so: the rule's own code is then the evidence."""
    ends = codes.of(cause.code).status == "ended" or cause.code.startswith("error.")
    return cause if ends else replace(cause, code="failed.agent", rule=cause.code)


def _failure_code(run: Run, outcome: str) -> str:
    if outcome == "cannot_start":
        return "failed.start"
    if run.here.act in ("proof", "commit") or outcome == "unproven":
        return "failed.tests"
    if run.here.of in (*JUDGING_ROLES, "author"):
        return "failed.review"
    return "failed.abandoned" if run.here.act == "ask" else "failed.agent"


# ---- @ask and the like: the state stays ------------------------------------------------------------------


def _special(
    run: Run, target: str, outcome: str, now: int, reason: str, cause: e.Stop | None
) -> list[e.AnyEvent]:
    if outcome == "stalled" and cause is None:
        cause = stops.stalled(run)
    match target:
        case "@back" if outcome != "exhausted":
            return _back(run, outcome, now)
        case "@cancel":
            seen = _instead(run, "cancelled", outcome, reason, cause)
            return [ended(run, "cancelled", seen, now)]
        case "@ask" | "@blocked":
            return [*let_go(run, now), _question(run, target, outcome, now, reason, cause)]
        case _:
            return [ended(run, "failure", _failure(run, outcome, reason, cause), now)]


def _back(run: Run, outcome: str, now: int) -> list[e.AnyEvent]:
    """The act of the state is done again, with new retries; after a stall, with a new allowance of turns."""
    again = run.held or run.retries or outcome == "stalled"
    return [e.Dropped(at=now, why=f"@back {outcome}")] if again else []


def _instead(run: Run, code: str, outcome: str, reason: str, cause: e.Stop | None) -> e.Stop:
    """The evidence of the cause stays; its code becomes the rule."""
    if cause is None:
        return stop(run, code, rule=outcome, detail=reason)
    return replace(cause, code=code, rule=cause.code)


def _question(run: Run, target: str, outcome: str, now: int, reason: str, cause: e.Stop | None) -> e.Stopped:
    text = reason or f"'{run.state}' ended in '{outcome}'. What next?"
    if cause:
        text = f"It cannot go on by itself: {cause.code}. What next?"
    if target == "@blocked":
        seen = _instead(run, f"blocked.table.{outcome}", outcome, reason, cause)
        return ask(run, seen, "escalation", text, now)
    if cause and cause.code.startswith("loop."):
        return ask(run, cause, "loop", stops.solutions(run, cause), now)
    waits = cause is not None and codes.of(cause.code).status != "ended"
    seen = cause if cause and waits else _instead(run, "wait.escalation", outcome, reason, cause)
    return ask(run, seen, "escalation", text, now, "waiting")
