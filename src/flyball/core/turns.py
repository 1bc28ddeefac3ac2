"""How an agent's turn is read: what stops it, and which outcome its words amount to. DONE is a claim."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from msgspec.structs import replace

from flyball.core import events as e
from flyball.core import limits, stops
from flyball.core.ledger import DISPUTES, settled
from flyball.core.machine import JUDGING_ROLES
from flyball.core.run import Run
from flyball.core.settings import INDICATORS, CallLimits
from flyball.core.stops import ask, ended, stop
from flyball.core.tally import CONTEXTS, FAILED, FREE, WAITS
from flyball.core.transition import follow

GIVEN = (  # outcomes that Flyball gives itself: no agent can claim them
    *("untested", "unproven", "approval", "stalled", "progressed", "success", "failure", "third_failure"),
    *("blocked", "exhausted", "timeout", "error", "cancel", "passed", "committed", "refused", "answered"),
)
RECOVERIES = ("retry", "rollback", "skip", "escalate")
VERDICTS = ("ok", "turn_limit", "budget_limit", "needs_approval", "timeout", *FREE, *FAILED)
TIERS = ("T0", "T3", "T2", "T1")
INDICATORS_MIN = 2  # so many different ones, at least, go with a claim to be done


def claimable(run: Run) -> list[str]:
    first, *others = run.here.on
    return [first, *(name for name in others if name not in GIVEN)]


def first_outcome(run: Run) -> str:
    """What a writing turn that ended well comes to; without a test phase it is `untested`."""
    tested = bool(run.settings.proof) and run.settings.require_test_pass
    return "untested" if "untested" in run.here.on and not tested else next(iter(run.here.on))


# ---- does the result fit? ----------------------------------------------------------------------------------


def fitted(run: Run, act: e.Act, result: e.AnyResult) -> e.AnyResult:
    """The result as it is believed."""
    match result:
        case e.TurnEnded():
            return _fitted_turn(run, act, result)
        case e.ProofEnded() if result.passed and (result.invalid or result.tree != act.tree):
            return replace(result, passed=False, invalid=result.invalid or "It proved another tree.")
        case e.CommitEnded(outcome="committed") if not _holds(run, act, result):
            return replace(
                result, outcome="refused", reason=result.reason or "The commit holds another tree."
            )
        case _:
            return result


def _holds(run: Run, act: e.Act, done: e.CommitEnded) -> bool:
    """The commit is of the tree that was to be committed, or of its merge, if that was proved too."""
    if done.work != act.tree or not done.of:
        return done.work == act.tree
    proof = done.proof
    return not run.settings.proof or (proof is not None and proof.passed and proof.tree == done.tree)


def _fitted_turn(run: Run, act: e.Act, turn: e.TurnEnded) -> e.TurnEnded:
    """Data that does not fit make a failed turn, and the agent is told why."""
    if turn.verdict not in VERDICTS:
        return replace(turn, verdict="unknown", error=turn.error or f"an unknown end: {turn.verdict}")
    if turn.verdict == "turn_limit":  # an ended turn without a claim
        return replace(turn, claim=e.Claim())
    problem = misfit(run, act.do.partition(":")[2], turn.claim) if turn.verdict == "ok" else ""
    if not problem:
        return turn
    note = f"Your claim could not be used: {problem}"
    return replace(turn, verdict="unknown", error=problem, notes=(*turn.notes, note))


def unjudged(act: e.Act, result: e.AnyResult) -> e.Ruling | None:
    """ALO-1: a change that the guard has not judged is refused; there is no way round it."""
    if not isinstance(result, e.TurnEnded) or result.tree in ("", act.tree):
        return None
    reason = "The change was not judged."
    return e.Ruling(verdict="deny", rule="unjudged", reason=reason, tree=result.tree, diff=result.tree)


def misfit(run: Run, role: str, claim: e.Claim) -> str:
    if role == "cto" and (claim.outcome or claim.data):
        return _recovery_misfit(run, claim)
    if role == "planner" and claim.data:
        return _plan_misfit(claim.data)
    target = run.here.on.get(claim.outcome, "") if claim.outcome in claimable(run) else ""
    if target.startswith("any:") and claim.data.get("state") not in run.machine.targets(target):
        return f"'{claim.outcome}' needs data.state, one of {', '.join(run.machine.targets(target))}."
    return ""


def _recovery_misfit(run: Run, claim: e.Claim) -> str:
    kind = claim.data.get("kind", claim.outcome)
    if kind not in RECOVERIES:
        return f"a recovery's kind is one of {', '.join(RECOVERIES)}, not '{kind}'."
    if kind == "escalate" or kind not in run.here.on:
        return ""
    target, choices = recovery_state(run, claim), run.machine.targets(run.here.on[kind])
    if target not in choices:
        return f"'{target}' is not a state that work can go on in."
    if kind != "skip" and run.origin in choices and choices.index(target) > choices.index(run.origin):
        return f"'{target}' comes after '{run.origin}': only 'skip' goes forward, and by one state."
    if kind == "rollback" and target == run.origin:
        return "a rollback names an earlier state."
    return ""


def recovery_state(run: Run, claim: e.Claim) -> str:
    kind = claim.data.get("kind", claim.outcome)
    if not run.here.on.get(kind, "").startswith("any:"):
        return run.here.on.get(kind, "")
    if kind == "skip":
        return next(iter(run.machine.states[run.origin].on.values())) if run.origin else ""
    return str(claim.data.get("state") or run.origin)


def _plan_misfit(data: dict[str, Any]) -> str:
    steps, tier = data.get("steps"), data.get("tier", "T3")
    if not isinstance(steps, list) or not all(_is_step(step) for step in cast("list[Any]", steps)):
        return "a plan is {steps: [{title, paths, criteria}], rollback, tier?}."
    return "" if tier in TIERS else f"a tier is one of {', '.join(TIERS)}, not '{tier}'."


def _is_step(step: Any) -> bool:
    return isinstance(step, dict) and isinstance(cast("dict[str, Any]", step).get("title"), str)


# ---- what stops a turn before its outcome counts -------------------------------------------------------------


def stopped_by(
    run: Run, act: e.Act, turn: e.TurnEnded, ruling: e.Ruling | None, now: int
) -> Sequence[e.AnyEvent] | None:
    """Tampering, cancel, deny, process failure, in this order; None: the outcome counts."""
    if ruling and ruling.rule == "tampering":
        return _blocked(run, act, turn, ruling, "blocked.tampering", now)
    asks = ruling is not None and ruling.verdict == "ask" and ruling.diff not in run.waived
    back = _put_back(run, act, now) if asks else []
    if run.asked == "cancel":
        return [*back, ended(run, "cancelled", stop(run, "cancelled", rule="a person asked for it"), now)]
    if ruling and ruling.verdict == "deny" and ruling.diff not in run.waived:
        return _blocked(run, act, turn, ruling, f"blocked.guard.{ruling.rule}", now)
    failure = _process_failure(run, act, turn, now)
    if failure is not None and (run.tree == act.tree or _ends(failure)):
        return [*back, *failure]
    if ruling and asks:
        return _needs_approval(run, act, turn, ruling, now)
    return failure if failure is not None else _halted(run, turn, now) or _asks(run, turn, now)


def _put_back(run: Run, act: e.Act, now: int) -> list[e.AnyEvent]:
    """Nobody will be asked any more: the change goes, also for a run above."""
    stays = run.tree == act.tree
    return [] if stays else [e.RestoreOrdered(at=now, tree=act.tree, why="putback")]


def _ends(facts: Sequence[e.AnyEvent]) -> bool:
    return any(isinstance(fact, e.Ended) for fact in facts)


def call_limits(run: Run) -> CallLimits:
    """How many tool calls a turn may have (CTO-9), as configured."""
    usual = CallLimits()
    calls, same = run.most("calls") or usual.halt, run.most("same_action") or usual.same_call
    return replace(usual, same_call=same, halt=calls, warn=min(usual.warn, calls // 2))


def warned(run: Run, result: e.AnyResult, now: int) -> list[e.AnyEvent]:
    warn = call_limits(run).warn
    if not isinstance(result, e.TurnEnded) or result.halted or result.calls <= warn:
        return []
    text = f"{result.calls} tool calls in one turn; a warning is due above {warn}."
    return [e.Warned(at=now, code="limit.actions", text=text)]


def _halted(run: Run, turn: e.TurnEnded, now: int) -> list[e.AnyEvent] | None:
    if not turn.halted:
        return None
    seen = stop(run, turn.halted, "tool calls", detail=turn.halted_why)
    return [ask(run, seen, "loop", f"{turn.halted_why} Go on, redirect, or cancel?", now)]


def _held(run: Run, act: e.Act, turn: e.TurnEnded, ruling: e.Ruling, now: int) -> tuple[e.Held, str]:
    """The outcome to follow once the change may stand, and what would have come of it; a turn that failed,
    was halted or asks has none."""
    came_to = turn.verdict in ("ok", "turn_limit") and not turn.halted and not _asks(run, turn, now)
    outcome, data, _ = outcome_of(_as_if_it_stood(run, ruling), act, turn) if came_to else ("", {}, ())
    back = {"before": act.tree} if run.tree != act.tree else {}
    then = f"'{outcome}' would have been followed" if outcome else "the turn would have been tried again"
    until = "block" if ruling.verdict == "deny" else "approval"
    held = e.Held(at=now, outcome=outcome, until=until, data={**data, **back})
    return held, f"the change would have stood and {then}"


def _as_if_it_stood(run: Run, ruling: e.Ruling) -> Run:
    fresh = bool(ruling.tree) and ruling.tree not in run.seen
    return replace(run, tree=ruling.tree, progressed=True, no_progress=0) if fresh else run


def _blocked(
    run: Run, act: e.Act, turn: e.TurnEnded, ruling: e.Ruling, code: str, now: int
) -> list[e.AnyEvent]:
    held, otherwise = _held(run, act, turn, ruling, now)
    where = f"{ruling.file}{f':{ruling.line}' if ruling.line else ''}"
    seen = stop(run, code, ruling.rule, f"policy {ruling.policy}", where, otherwise, ruling.reason)
    text = f"The guard refused a change: {ruling.reason} ({ruling.file or 'the change as a whole'}). It was put back."
    if ruling.call:
        text = f"The guard ended the turn. {ruling.reason} What was changed in that turn was put back."
    question = ask(run, seen, "block", text, now, "blocked", ruling.waivable, ruling.diff)
    return [held, question]


def _needs_approval(run: Run, act: e.Act, turn: e.TurnEnded, ruling: e.Ruling, now: int) -> list[e.AnyEvent]:
    held, otherwise = _held(run, act, turn, ruling, now)
    seen = stop(
        run, "wait.approval", ruling.rule, f"policy {ruling.policy}", ruling.file, otherwise, ruling.reason
    )
    text = f"The guard asks: {ruling.reason} ({ruling.file or 'the change as a whole'}). Let it stand?"
    return [held, ask(run, seen, "approval", text, now, bound=ruling.diff)]


def _process_failure(run: Run, act: e.Act, turn: e.TurnEnded, now: int) -> Sequence[e.AnyEvent] | None:
    verdict = turn.verdict
    if verdict == "timeout":
        return _timed_out(run, turn, now)
    if verdict in WAITS:
        return limits.limited(run, act, turn, now)
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
        fresh = e.Told(at=now, text=limits.so_far(run), who="flyball")
        return [fresh] if run.contexts < CONTEXTS else _failed(run, turn, now)
    return _failed(run, turn, now) if verdict in FAILED else None


def _timed_out(run: Run, turn: e.TurnEnded, now: int) -> list[e.AnyEvent]:
    """The clock that ran out is the phase's, unless the run's own has."""
    wall, spent = run.settings.budget.wall_us, run.wall_us - run.wall_base
    if wall is not None and spent >= wall:
        seen = stop(run, "limit.time", "budget.wall", f"{wall // 1_000_000}s", f"{spent // 1_000_000}s")
        return follow(run, "exhausted", now, cause=seen)
    seen = stop(run, "timeout.phase", "phase_timeout", "", "outlived", detail=turn.error)
    return follow(run, "timeout", now, cause=seen)


def _failed(run: Run, turn: e.TurnEnded, now: int) -> Sequence[e.AnyEvent]:
    most = run.most("retries")
    most = 3 if most is None else most
    if run.retries <= most:
        return [e.Warned(at=now, code="turn.failed", text=turn.error or turn.verdict)]
    code = {"hung": "timeout.idle", "cannot_start": "failed.start"}.get(turn.verdict, "failed.agent")
    if code == "failed.start" and run.turn > run.retries:
        code = "failed.agent"
    failed = stop(run, code, "retries", most, run.retries, detail=turn.error)
    return follow(run, "error", now, cause=failed)


def _asks(run: Run, turn: e.TurnEnded, now: int) -> list[e.AnyEvent] | None:
    if turn.verdict == "needs_approval":
        seen = replace(stop(run, "wait.permission", "permission", detail=turn.error), call=turn.wanted)
        what = f": {turn.error}" if turn.error else "."
        return [ask(run, seen, "permission", f"The agent asks for a permission{what}", now)]
    twice = [name for name, count in run.disputes.items() if count >= DISPUTES]
    if twice:
        seen = stop(run, "wait.question", "disputed twice", DISPUTES, DISPUTES, detail=", ".join(twice))
        return [ask(run, seen, "clarification", f"{', '.join(twice)}: disputed twice. Who is right?", now)]
    said = turn.message or "The agent says that it is blocked."
    text = turn.claim.ask or (said if turn.claim.reading == "blocked" else "")
    if not text:
        return None
    return [ask(run, stop(run, "wait.question", "the agent asks", detail=text), "clarification", text, now)]


# ---- what a turn amounts to ----------------------------------------------------------------------------------


def outcome_of(run: Run, act: e.Act, turn: e.TurnEnded) -> tuple[str, dict[str, Any], tuple[str, ...]]:
    """(outcome, data, what the next turn is told)."""
    role, on = act.do.partition(":")[2], run.here.on
    if role == "worker" and "done" in on:
        return _worker(run, turn)
    if (role == "author" and "done" in on) or (role == "reviewer" and "passed" in on):
        return _pair(run, role, turn)
    if role == "cto":
        return _recovery(run, turn)
    if role in JUDGING_ROLES:
        return _judged(run, turn)
    first = next(iter(on))
    outcome = turn.claim.outcome if turn.claim.outcome in claimable(run) else first
    return (first_outcome(run) if outcome == first else outcome), turn.claim.data, ()


def _worker(run: Run, turn: e.TurnEnded) -> tuple[str, dict[str, Any], tuple[str, ...]]:
    missing = missing_for_exit(run, turn.claim)
    if not missing:
        return "done", {}, ()
    tried = turn.claim.finished or len(set(turn.claim.indicators)) >= INDICATORS_MIN
    told = ("Not done yet: " + " ".join(missing),) if tried else ()
    if "progressed" in run.here.on:
        return ("progressed" if run.progressed else "stalled"), {}, told
    open_now = stops.stalled(run) and run.machine.place(run.state, "stalled")
    return ("stalled" if open_now else next(iter(run.here.on))), {}, told


def missing_for_exit(run: Run, claim: e.Claim) -> list[str]:
    """LOOP-1 without the proof, which is the gate's: what the claim lacks, as sentences."""
    missing = list(claim.missing)
    if not claim.finished:
        missing.append("The exit signal is not set.")
    if len(set(claim.indicators)) < INDICATORS_MIN:
        given = len(set(claim.indicators))
        names = ", ".join(INDICATORS)
        missing.append(
            f"{given} of {INDICATORS_MIN} distinct completion indicators were given; they are: {names}."
        )
    if any(f.severity == "high" and f.status == "open" for f in run.findings):
        missing.append("A high finding is still open.")
    return missing


def _pair(run: Run, role: str, turn: e.TurnEnded) -> tuple[str, dict[str, Any], tuple[str, ...]]:
    signal = turn.claim.signal
    if signal == "FAIL" and "failed" in run.here.on:
        return "failed", {}, ()
    if role == "reviewer":
        return _reviewed(run, turn)
    review = run.option("review") == "always" or run.settings.consensus
    unproved = run.owner and not run.settings.proof
    done = signal == "DONE" and not review and not unproved
    told = (f"The author says:\n{turn.message}",) if turn.message else ()
    return ("done" if done else next(iter(run.here.on))), {}, told


def _reviewed(run: Run, turn: e.TurnEnded) -> tuple[str, dict[str, Any], tuple[str, ...]]:
    if turn.claim.signal != "PASS" and not settled(run.findings, turn.claim.findings):
        return "rejected", {}, _findings(turn)
    if run.settings.consensus and run.done_tree != run.tree:
        return "rejected", {}, ("The reviewer passes it, but the author has not said that it is done.",)
    return "passed", {}, ()


def _findings(turn: e.TurnEnded) -> tuple[str, ...]:
    return (f"The reviewer says:\n{turn.message}",) if turn.message else ()


def _recovery(run: Run, turn: e.TurnEnded) -> tuple[str, dict[str, Any], tuple[str, ...]]:
    claim = turn.claim
    kind = str(claim.data.get("kind", claim.outcome) or "escalate")
    guidance = str(claim.data.get("guidance", "")) or turn.message
    if kind not in run.here.on or kind == "escalate":
        return "escalate", {}, ()
    return kind, {"state": recovery_state(run, claim)}, (f"The CTO says: {guidance}",) if guidance else ()


def _judged(run: Run, turn: e.TurnEnded) -> tuple[str, dict[str, Any], tuple[str, ...]]:
    claim, first = turn.claim, next(iter(run.here.on))
    if claim.outcome in claimable(run) and claim.signal != "FAIL":
        outcome = claim.outcome
    else:
        outcome = first if claim.signal == "PASS" else "rejected"
    return outcome, claim.data, _findings(turn) if outcome != first else ()
