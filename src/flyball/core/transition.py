"""Whether an outcome may go where the table says, and what happens if it does.

`onward` pauses at a breakpoint, passes the gate, keeps the limits, then moves; `enter` takes the transition.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from flyball.core import events as e
from flyball.core import turns
from flyball.core.actors import actor_of
from flyball.core.machine import FAILING, JUDGING_ROLES, WAITING_ACTS
from flyball.core.run import Run, apply, fold
from flyball.core.stops import ask, ended, exhausted, let_go, stop
from flyball.errors import FlyballError


def onward(
    run: Run,
    outcome: str,
    now: int,
    data: dict[str, Any] | None = None,
    past_breakpoint: bool = False,
    reason: str = "",
) -> list[e.AnyEvent]:
    """An outcome is there: pause at a breakpoint, pass the gate, keep the limits, then move."""
    data = data or {}
    pausing = run.state in run.settings.breakpoints and run.here.act not in WAITING_ACTS
    if pausing and not past_breakpoint:
        return _pause_at_breakpoint(run, outcome, data, now)
    counted, outcome = _count_failure(run, outcome, now, reason)
    run = fold(run, counted)
    target = _chosen(run, run.machine.place(run.state, outcome), outcome, data)
    if not target.startswith("@") and run.machine.states[target].end == "success" and run.owner:
        barred = _gate(run, outcome, data, now)
        if barred is not None:
            return [*counted, *barred]
    return [*counted, *enter(run, target, outcome, now, reason)]


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
    if most is None or outcome not in FAILING or not run.machine.place(run.state, "third_failure"):
        return [], outcome
    count = min(run.failures.get(run.state, 0) + 1, max(most, 1))
    counted = e.FailureCounted(
        at=now, state=run.state, count=count, reason=reason or f"'{run.state}' ended in '{outcome}'."
    )
    return [counted], "third_failure" if count >= most else outcome


def _chosen(run: Run, target: str, outcome: str, data: dict[str, Any]) -> str:
    if not target:
        raise FlyballError(f"'{run.machine.name}' does not say where '{outcome}' leads from '{run.state}'.")
    if not target.startswith("any:"):
        return target
    named = str(data.get("state") or run.origin or run.machine.start)
    choices = run.machine.targets(target)
    return named if named in choices else choices[0]


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
        return [told, *onward(run, turns.unproven(run), now, past_breakpoint=True)]
    if run.committed is None or run.committed.work != run.tree:
        return [e.Held(at=now, outcome=outcome, until="commit", data=data)]
    return None


def unproved(run: Run) -> bool:
    return run.owner and bool(run.settings.proof) and (run.proof is None or run.proof.tree != run.tree)


def disproved(run: Run) -> bool:
    return run.owner and bool(run.settings.proof) and run.proof is not None and not run.proof.passed


def enter(run: Run, target: str, outcome: str, now: int, reason: str = "") -> list[e.AnyEvent]:
    """Take the transition, unless a limit on entries says no."""
    if target.startswith("@"):
        return special(run, target, outcome, now, reason)
    limit = _entry_limit(run, target, outcome)
    if limit is not None:
        return exhausted(run, limit, now)
    actor = actor_of(run, target, outcome)
    reason = reason or (
        run.message[-500:] if outcome == "nothing" else ""
    )  # CTO-1: a plan is dropped for a reason
    moved = e.Moved(at=now, source=run.state, target=target, outcome=outcome, actor=actor, reason=reason)
    end = run.machine.states[target].end
    if not end:
        return [*_skipped(run, outcome, now), moved]
    if end == "success":
        code = "completed" if run.settings.proof else "completed_unproven"
        return [moved, ended(apply(run, moved), end, stop(run, code, detail=reason), now)]
    return [moved, ended(apply(run, moved), end, _failure(run, outcome, reason), now)]


def _skipped(run: Run, outcome: str, now: int) -> list[e.AnyEvent]:
    """ALO-2: a test phase left out is journaled with its reason."""
    why = "require_test_pass is off" if run.settings.proof else "no proof command is configured"
    return [e.Skipped(at=now, what="test", reason=why)] if outcome == "untested" else []


def _failure(run: Run, outcome: str, reason: str) -> e.Stop:
    """Why a run fails by an outcome of its state; a child's failure keeps the child's code."""
    if run.below and outcome in ("failure", "third_failure"):
        return replace(run.below, turn=run.turns)
    return stop(run, _failure_code(run, outcome), rule=outcome, detail=reason or run.message[-500:])


def _failure_code(run: Run, outcome: str) -> str:
    if outcome == "cannot_start":
        return "failed.start"
    if run.here.act in ("proof", "commit") or outcome == "unproven":
        return "failed.tests"
    if run.here.of in (*JUDGING_ROLES, "author"):
        return "failed.review"
    return "failed.abandoned" if run.here.act == "ask" else "failed.agent"


def _entry_limit(run: Run, target: str, outcome: str) -> e.Stop | None:
    iterations = run.most("iterations")
    used = run.iteration - run.iteration_base
    if target == run.machine.iteration and iterations is not None and used >= iterations:
        code = "failed.tests" if outcome == "unproven" else "limit.iterations"
        return stop(run, code, "iterations", iterations, used + 1, detail=run.last_error[-500:])
    most = run.most(target) if target in run.machine.most else None
    if most is not None and run.entries.get(target, 0) >= most:
        code = "failed.tests" if most == 0 else "limit.fix_attempts" if target == "fix" else "limit.turns"
        return stop(run, code, target, most, run.entries.get(target, 0) + 1, detail=run.last_error[-500:])
    return None


def special(run: Run, target: str, outcome: str, now: int, reason: str = "") -> list[e.AnyEvent]:
    """`@fail` and its kin: the state stays."""
    if target == "@back":
        return let_go(run, now)
    if target == "@fail":
        return [ended(run, "failure", _failure(run, outcome, reason), now)]
    if target == "@cancel":
        return [ended(run, "cancelled", stop(run, "cancelled", rule=outcome, detail=reason), now)]
    seen = turns.stalled(run) if outcome == "stalled" else None
    if seen:
        return [*let_go(run, now), ask(run, seen, "loop", turns.solutions(run, seen), now)]
    code = f"blocked.guard.{outcome}" if target == "@blocked" else "wait.escalation"
    seen = stop(run, code, rule=outcome, detail=reason)
    text = reason or f"'{run.state}' ended in '{outcome}'. What next?"
    return [*let_go(run, now), ask(run, seen, "escalation", text, now)]
