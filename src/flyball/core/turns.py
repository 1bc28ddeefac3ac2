"""How an agent's turn is read: what stops it, and which outcome its words amount to. DONE is a claim."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from flyball.core import events as e
from flyball.core.machine import JUDGING_ROLES
from flyball.core.run import FAILED, Run
from flyball.core.stops import ask, ended, exhausted, stop

GIVEN = (  # outcomes that Flyball gives itself: no agent can claim them
    *("untested", "unproven", "approval", "stalled", "progressed", "success", "failure", "third_failure"),
    *("blocked", "exhausted", "timeout", "error", "cancel", "passed", "committed", "refused", "answered"),
)
RECOVERIES = ("retry", "rollback", "skip", "escalate")
WAITS = ("rate_limited", "plan_limit", "overloaded", "network")


def claimable(run: Run) -> list[str]:
    return [name for name in run.here.on if name not in GIVEN]


# ---- does the claim fit? -----------------------------------------------------------------------------------


def fitted(run: Run, act: e.Act, result: e.AnyResult) -> e.AnyResult:
    """Data that does not fit make a failed turn, and the agent is told why."""
    if not isinstance(result, e.TurnEnded) or result.verdict != "ok":
        return result
    problem = misfit(run, act.do.partition(":")[2], result.claim)
    if not problem:
        return result
    note = f"Your claim could not be used: {problem}"
    return replace(result, verdict="unknown", error=problem, notes=(*result.notes, note))


def misfit(run: Run, role: str, claim: e.Claim) -> str:
    if role == "cto" and claim.outcome:
        return _recovery_misfit(run, claim)
    if role == "planner" and claim.data:
        return _plan_misfit(claim.data)
    return ""


def _recovery_misfit(run: Run, claim: e.Claim) -> str:
    kind = claim.data.get("kind", claim.outcome)
    if kind not in RECOVERIES:
        return f"a recovery's kind is one of {', '.join(RECOVERIES)}, not '{kind}'."
    if kind == "escalate":
        return ""
    target = recovery_state(run, claim)
    if target not in run.machine.groups.get("working", ()):
        return f"'{target}' is not a state that work can go on in."
    return ""


def recovery_state(run: Run, claim: e.Claim) -> str:
    kind = claim.data.get("kind", claim.outcome)
    named = claim.data.get("state")
    if kind == "skip":
        return next(iter(run.machine.states[run.origin].on.values())) if run.origin else ""
    return str(named or run.origin)


def _plan_misfit(data: dict[str, Any]) -> str:
    steps = data.get("steps")
    if not isinstance(steps, list):
        return "a plan is {steps: [{title, paths, criteria}], rollback, tier?}."
    return ""


# ---- what stops a turn before its outcome counts -------------------------------------------------------------


def stopped_by(
    run: Run, act: e.Act, turn: e.TurnEnded, ruling: e.Ruling | None, now: int
) -> Sequence[e.AnyEvent] | None:
    """Tampering, cancel, deny, process failure, in this order; None: the outcome counts."""
    if ruling and ruling.rule == "tampering":
        return _blocked(run, act, turn, ruling, "blocked.tampering", now)
    if run.asked == "cancel":
        return [ended(run, "cancelled", stop(run, "cancelled", rule="a person asked for it"), now)]
    if ruling and ruling.verdict == "deny" and ruling.diff not in run.waived:
        return _blocked(run, act, turn, ruling, f"blocked.guard.{ruling.rule}", now)
    failure = _process_failure(run, turn, now)
    if failure is not None:
        return failure
    if turn.halted:
        seen = stop(run, turn.halted, "tool calls", detail=turn.halted_why)
        return [ask(run, seen, "loop", f"{turn.halted_why} Go on, redirect, or cancel?", now)]
    if ruling and ruling.verdict == "ask" and ruling.diff not in run.waived:
        return _needs_approval(run, act, turn, ruling, now)
    return _asks(run, turn, now)


def _blocked(
    run: Run, act: e.Act, turn: e.TurnEnded, ruling: e.Ruling, code: str, now: int
) -> list[e.AnyEvent]:
    outcome, data, _ = outcome_of(run, act, turn)
    seen = stop(
        run,
        code,
        ruling.rule,
        f"policy {ruling.policy}",
        f"{ruling.file}{f':{ruling.line}' if ruling.line else ''}",
        otherwise=f"the change would have stood and '{outcome}' would have been followed",
        detail=ruling.reason,
    )
    text = f"The guard refused a change: {ruling.reason} ({ruling.file or 'the change as a whole'}). It was put back."
    question = ask(run, seen, "block", text, now, "blocked", ruling.waivable, ruling.diff)
    return [e.Held(at=now, outcome=outcome, until="block", data=data), question]


def _needs_approval(run: Run, act: e.Act, turn: e.TurnEnded, ruling: e.Ruling, now: int) -> list[e.AnyEvent]:
    outcome, data, _ = outcome_of(run, act, turn)
    otherwise = f"the change would have stood and '{outcome}' would have been followed"
    seen = stop(
        run, "wait.approval", ruling.rule, f"policy {ruling.policy}", ruling.file, otherwise, ruling.reason
    )
    text = f"The guard asks: {ruling.reason} ({ruling.file or 'the change as a whole'}). Let it stand?"
    held = e.Held(at=now, outcome=outcome, until="approval", data={**data, "before": act.tree})
    return [held, ask(run, seen, "approval", text, now, bound=ruling.diff)]


def _process_failure(run: Run, turn: e.TurnEnded, now: int) -> Sequence[e.AnyEvent] | None:
    verdict = turn.verdict
    if verdict == "timeout":
        seen = stop(run, "timeout.phase", "phase_timeout", "", "outlived", detail=turn.error)
        return exhausted(run, seen, now, "timeout")
    if verdict in WAITS:
        return [_limit_wait(run, turn, now)]
    if verdict in ("auth", "billing"):
        seen = stop(run, f"wait.{verdict}", verdict, detail=turn.error)
        return [
            ask(
                run,
                seen,
                "limit",
                f"The agent cannot work: {turn.error or verdict}. Settle it, then go on.",
                now,
            )
        ]
    if verdict == "budget_limit":
        seen = stop(run, "limit.budget_usd", "the agent's own budget", detail=turn.error)
        return [ask(run, seen, "budget", "The agent's own budget is used up. Raise it?", now)]
    if verdict == "context":
        return [] if run.contexts < 2 else _failed(run, turn, now)
    return _failed(run, turn, now) if verdict in FAILED else None


def _limit_wait(run: Run, turn: e.TurnEnded, now: int) -> e.Stopped:
    until = max(turn.reset_at, now) if turn.reset_at is not None else now + run.settings.retry_every_us
    seen = stop(run, "wait.rate_limit", turn.verdict, until, now, detail=turn.error)
    return e.Stopped(at=now, status="waiting", stop=seen, until=until)


def _failed(run: Run, turn: e.TurnEnded, now: int) -> Sequence[e.AnyEvent]:
    most = run.most("retries")
    most = 3 if most is None else most
    if run.retries <= most:
        return [e.Warned(at=now, code="turn.failed", text=turn.error or turn.verdict)]
    code = {"hung": "timeout.idle", "cannot_start": "failed.start"}.get(turn.verdict, "failed.agent")
    if code == "failed.start" and run.turn > run.retries:
        code = "failed.agent"
    return exhausted(run, stop(run, code, "retries", most, run.retries, detail=turn.error), now, "error")


def _asks(run: Run, turn: e.TurnEnded, now: int) -> list[e.AnyEvent] | None:
    if turn.verdict == "needs_approval":
        seen = stop(run, "wait.permission", "permission", detail=turn.error)
        return [ask(run, seen, "permission", turn.error, now)]
    text = turn.claim.ask or (turn.message if turn.claim.reading == "blocked" else "")
    if not text:
        return None
    return [ask(run, stop(run, "wait.question", "the agent asks", detail=text), "clarification", text, now)]


# ---- what a turn amounts to ----------------------------------------------------------------------------------


def outcome_of(run: Run, act: e.Act, turn: e.TurnEnded) -> tuple[str, dict[str, Any], tuple[str, ...]]:
    """(outcome, data, what the next turn is told)."""
    role = act.do.partition(":")[2]
    if role == "worker":
        return _worker(run, turn)
    if role in ("author", "reviewer"):
        return _pair(run, role, turn)
    if role == "cto":
        return _recovery(run, turn)
    if role in JUDGING_ROLES:
        return _judged(run, turn)
    first = next(iter(run.here.on))
    outcome = turn.claim.outcome if turn.claim.outcome in claimable(run) else first
    if (
        outcome == first
        and "untested" in run.here.on
        and not (run.settings.proof and run.settings.require_test_pass)
    ):
        outcome = "untested"
    return outcome, turn.claim.data, ()


def _worker(run: Run, turn: e.TurnEnded) -> tuple[str, dict[str, Any], tuple[str, ...]]:
    missing = missing_for_exit(run, turn.claim)
    if not missing:
        return "done", {}, ()
    told = ("Not done yet: " + " ".join(missing),) if turn.claim.finished else ()
    if "progressed" in run.here.on:
        return ("progressed" if run.progressed else "stalled"), {}, told
    return ("stalled" if stalled(run) else next(iter(run.here.on))), {}, told


def missing_for_exit(run: Run, claim: e.Claim) -> list[str]:
    """LOOP-1 without the proof, which is the gate's: what the claim lacks, as sentences."""
    missing = list(claim.missing)
    if not claim.finished:
        missing.append("The exit signal is not set.")
    if len(set(claim.indicators)) < 2:
        missing.append(f"{len(set(claim.indicators))} of 2 distinct completion indicators were given.")
    if any(f.severity == "high" and f.status == "open" for f in run.findings):
        missing.append("A high finding is still open.")
    return missing


def stalled(run: Run) -> e.Stop | None:
    """The circuit's rules (LOOP-3)."""
    most = run.most("no_progress")
    if most is not None and run.no_progress >= most:
        code = "loop.oscillation" if run.moved_tree else "loop.no_progress"
        return stop(
            run, code, "no_progress", most, run.no_progress, "another turn would have begun", run.last_error
        )
    most = run.most("same_error")
    if most is not None and run.error_count >= most:
        otherwise = "another turn would have begun"
        return stop(run, "loop.same_error", "same_error", most, run.error_count, otherwise, run.last_error)
    return None


def unproven(run: Run) -> str:
    """A claim that failed the gate is an ordinary turn: `stalled` beats it, and progress closes a circuit."""
    on = run.here.on
    if "progressed" in on:
        return "progressed" if run.progressed else "unproven"
    return "stalled" if "stalled" in on and stalled(run) else "unproven"


def solutions(run: Run, seen: e.Stop) -> str:
    error = f" The last error: {run.last_error[-300:]}" if run.last_error else ""
    return (
        f"The circuit is open: {seen.code} ({seen.observed} of {seen.threshold}).{error} "
        "Possible: go on for one probing turn; answer with a hint; redirect to another approach; cancel."
    )


def _pair(run: Run, role: str, turn: e.TurnEnded) -> tuple[str, dict[str, Any], tuple[str, ...]]:
    signal = turn.claim.signal
    if signal == "FAIL":
        return "failed", {}, ()
    if role == "reviewer":
        return ("passed", {}, ()) if signal == "PASS" else ("rejected", {}, _findings(turn))
    if signal != "DONE":
        return "worked", {}, ()
    review = run.option("review") == "always" or run.settings.consensus
    unproved = run.owner and not run.settings.proof
    return ("worked" if review or unproved else "done"), {}, ()


def _findings(turn: e.TurnEnded) -> tuple[str, ...]:
    return (f"The reviewer says:\n{turn.message}",) if turn.message else ()


def _recovery(run: Run, turn: e.TurnEnded) -> tuple[str, dict[str, Any], tuple[str, ...]]:
    claim = turn.claim
    kind = str(claim.data.get("kind", claim.outcome)) or "escalate"
    guidance = str(claim.data.get("guidance", "")) or turn.message
    if kind not in run.here.on or kind == "escalate":
        return "escalate", {}, ()
    return kind, {"state": recovery_state(run, claim)}, (f"The CTO says: {guidance}",) if guidance else ()


def _judged(run: Run, turn: e.TurnEnded) -> tuple[str, dict[str, Any], tuple[str, ...]]:
    claim, first = turn.claim, next(iter(run.here.on))
    if claim.outcome in claimable(run):
        outcome = claim.outcome
    else:
        outcome = first if claim.signal == "PASS" else "rejected"
    return outcome, claim.data, _findings(turn) if outcome != first else ()
