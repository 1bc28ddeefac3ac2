"""All movement between states: every outcome is followed here, and only this module decides a `Moved` event.

In this order: a breakpoint pauses; a failure is counted; the table names the target; a success end needs the gate;
an entry needs an allowance. Where a limit says no, the outcome is `exhausted`, through the same door.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from flyball.core import stops
from flyball.core.run import Facts, Run
from flyball.core.stops import ask, end, let_go, stop
from flyball.domain import events as e
from flyball.domain.machine import FAILING, JUDGING_ROLES, WAITING_ACTS, counts_as_failure
from flyball.domain.results import code_of
from flyball.errors import FlyballError

UNTESTED = "untested"
DOUBTS_SHOWN = 20
SENT = ("merge", "pr")  # with these a commit goes further than the run's own branch


def follow(
    facts: Facts,
    outcome: str,
    data: dict[str, Any] | None = None,
    *,
    past_breakpoint: bool = False,
    reason: str = "",
    cause: e.Stop | None = None,
) -> Facts:
    """Add what follows from an outcome. `cause`: the rule that gave it (a limit, a time, a failed process)."""
    run, data = facts.run, data or {}
    pausing = run.state in run.settings.breakpoints and run.here.act not in WAITING_ACTS
    if pausing and not past_breakpoint and cause is None:
        return _pause_at_breakpoint(facts, outcome, data)
    if outcome in FAILING:
        outcome = _count_failure(facts, outcome, reason)
    target = _target(run, outcome, data, cause)
    if target.startswith("@"):
        return _special(facts, target, outcome, reason, cause)
    if run.machine.states[target].end == "success" and run.owner and _gate(facts, outcome, data):
        return facts
    limited = target in run.machine.most or target == run.machine.iteration
    limit = _entry_limit(run, target, outcome) if limited else None
    if limit is None:
        return _enter(facts, target, outcome, reason, cause)
    if outcome == "exhausted" or (limit.threshold == "0" and run.here.act == "ask"):
        return end(facts, "failure", _failed_by(cause or limit))  # even the way out is used up
    return follow(facts, "exhausted", cause=limit)


def _pause_at_breakpoint(facts: Facts, outcome: str, data: dict[str, Any]) -> Facts:
    state = facts.run.state
    facts.add(e.Held(at=facts.now, outcome=outcome, until="breakpoint", data=data))
    then = f"The run would have continued with '{outcome}'."
    cause = stop(facts.run, "wait.breakpoint", "breakpoint", state, state, otherwise=then)
    text = f"Breakpoint after '{state}'. Its outcome is '{outcome}'. Continue?"
    return ask(facts, cause, "breakpoint", text, status="paused")


def _count_failure(facts: Facts, outcome: str, reason: str) -> str:
    """Machines that count failures by state (TASK-2): the third in one state is an outcome of its own."""
    run = facts.run
    if not counts_as_failure(run.machine, run.here, outcome):
        return outcome
    most = run.most("failures")
    if most is None:
        return outcome
    count = min(run.path.failures.get(run.state, 0) + 1, max(most, 1))
    reason = reason or f"the outcome was '{outcome}'"
    facts.add(e.FailureCounted(at=facts.now, state=run.state, count=count, reason=reason))
    return "third_failure" if count >= most else outcome


def _target(run: Run, outcome: str, data: dict[str, Any], cause: e.Stop | None) -> str:
    target = run.machine.place(run.state, outcome) or ("@fail" if cause else "")
    if not target:
        raise FlyballError(f"'{run.machine.name}' does not say where '{outcome}' leads from '{run.state}'.")
    if not target.startswith("any:"):
        return target
    named = str(data.get("state") or run.path.origin or run.machine.start)
    choices = run.machine.targets(target)
    return named if named in choices else choices[0]


# ---- the gate --------------------------------------------------------------------------------------------


def _gate(facts: Facts, outcome: str, data: dict[str, Any]) -> bool:
    """SYS-8: a success end needs a proof of exactly this tree, a commit of it, and its landing. True: it is not open yet."""
    run, commit = facts.run, facts.run.checkout.commit
    if unproved(run):
        until = "gate"
    elif disproved(run):
        _tell_again(facts)
        follow(facts, unproven(facts.run), past_breakpoint=True)
        return True
    elif doubted(run):
        facts.add(e.Held(at=facts.now, outcome=outcome, until="evidence", data=data))
        ask_about_evidence(facts)
        return True
    elif commit is None or commit.work != run.tree:
        until = "commit"
    elif run.settings.commit in SENT and not (commit.landed or commit.pull_request):
        until = "land"
    else:
        return False
    facts.add(e.Held(at=facts.now, outcome=outcome, until=until, data=data))
    return True


def unproved(run: Run) -> bool:
    """The tree was not proved, or its proof was not examined yet (EVID-3)."""
    proof = run.evidence.proof
    if not run.owner or not run.settings.proof:
        return False
    return proof is None or proof.tree != run.tree or (proof.passed and not proof.examined)


def disproved(run: Run) -> bool:
    proof = run.evidence.proof
    return run.owner and bool(run.settings.proof) and proof is not None and not proof.passed


def doubted(run: Run) -> bool:
    """The proof passed, but a person has to say whether it proves this change."""
    proof = run.evidence.proof
    if proof is None or not proof.passed or not proof.evidence.doubts:
        return False
    return proof.tree == run.tree and proof.evidence.doubts_key != run.evidence.accepted


def ask_about_evidence(facts: Facts) -> Facts:
    proof = facts.run.evidence.proof
    assert proof is not None
    doubts = proof.evidence.doubts
    lines = [f"- {doubt}" for doubt in doubts[:DOUBTS_SHOWN]]
    if len(doubts) > DOUBTS_SHOWN:
        lines.append(f"- and {len(doubts) - DOUBTS_SHOWN} more")
    text = "The tests pass, but they may not prove that the change works:\n" + "\n".join(
        (*lines, *proof.evidence.versions)
    )
    then = "The run would have completed."
    cause = stop(facts.run, "wait.approval", "evidence", otherwise=then, detail=doubts[0])
    return ask(facts, cause, "evidence", f"{text}\nAccept the result?", bound=proof.evidence.doubts_key)


def refuse_claim(facts: Facts) -> Facts:
    """A claim did not pass the gate; a state whose own act is the commit has an outcome for that."""
    run = facts.run
    if run.pending is None and run.here.act == "commit":
        return follow(facts, "unproven" if run.machine.place(run.state, "unproven") else "refused")
    return follow(facts, unproven(run), past_breakpoint=True)


def _tell_again(facts: Facts) -> None:
    """The next turn is told how the proof that is known of this tree failed."""
    known = facts.run.evidence.proof
    assert known is not None
    text = f"The proof failed:\n{known.summary}"
    facts.add(e.Told(at=facts.now, text=text, who="proof", fingerprint=known.fingerprint))


def unproven(run: Run) -> str:
    """A claim that failed the gate is an ordinary turn: `stalled` beats it, and progress closes a circuit."""
    on = run.here.on
    leads = run.machine.states.get(on.get("progressed", ""))
    if "progressed" in on and not (leads and leads.end == "success"):
        return "progressed" if run.progress.advanced else "unproven"
    return "stalled" if "stalled" in on and stops.stalled(run) else "unproven"


# ---- states ----------------------------------------------------------------------------------------------


def _entry_limit(run: Run, target: str, outcome: str) -> e.Stop | None:
    detail = run.progress.error_text[-500:]
    if target == run.machine.iteration:
        most, used = run.most("iterations"), run.iteration - run.spending.iteration_base
        if most is not None and used >= most:
            code = "failed.tests" if outcome == "unproven" else "limit.iterations"
            return stop(run, code, "iterations", most, used + 1, detail=detail)
    if target in run.machine.most:
        most, used = run.most(target), run.path.entries.get(target, 0)
        if most is not None and used >= most:
            code = "failed.tests" if most == 0 else f"limit.{run.machine.states[target].counts or 'turns'}"
            return stop(run, code, target, most, used + 1, detail=detail)
    return None


def _enter(facts: Facts, target: str, outcome: str, reason: str, cause: e.Stop | None) -> Facts:
    run, how = facts.run, facts.run.machine.states[target].end
    if not reason and outcome == "nothing":  # CTO-1: a plan is dropped for a reason
        reason = run.talk.message[-500:]
    if not reason and outcome == "replan" and run.path.child_stop:  # … and made again for one
        reason = f"a step failed: {run.path.child_stop.code}"
    given_up = run.plan.act if run.machine.states[target].act != "run" else None
    if given_up is not None and run.here.act == "ask":  # a person wants no more of the run that was set aside
        facts.add(e.Abandoned(at=facts.now, run=given_up.child))
    if outcome == UNTESTED and not how:  # ALO-2: a test phase left out is journaled with its reason
        why = "require_test_pass is off" if run.settings.proof else "no proof command is configured"
        facts.add(e.Skipped(at=facts.now, what="test", reason=why))
    moved = e.Moved(
        at=facts.now,
        source=run.state,
        target=target,
        outcome=outcome,
        actor=_actor(run, target, cause),
        reason=cause.code if cause else reason,
    )
    facts.add(moved)
    if how == "failure":
        return end(facts, how, _failure(run, outcome, reason, cause))
    code = "completed" if run.settings.proof else "completed_unproven"
    return end(facts, how, stop(run, code, detail=reason)) if how else facts


def _actor(run: Run, target: str, cause: e.Stop | None) -> str:
    """Who is recorded for the transition: as the table says, else the role, or Flyball by a rule of its own."""
    if not run.machine.actors:
        return "flyball" if cause else run.here.of or "flyball"
    actor = run.machine.states[target].called_by or run.machine.actors.get(run.state, "flyball")
    return f"human:{run.path.answered_by or 'unknown'}" if actor == "human" else actor


def _failure(run: Run, outcome: str, reason: str, cause: e.Stop | None) -> e.Stop:
    """Why a run fails by an outcome of its state; a child's failure keeps the child's code."""
    if cause:
        return _failed_by(cause)
    if run.path.child_stop and outcome in ("failure", "third_failure"):
        return replace(run.path.child_stop, turn=run.turns)
    return stop(run, _failure_code(run, outcome), outcome, detail=reason or run.talk.message[-500:])


def _failed_by(cause: e.Stop) -> e.Stop:
    """A rule that only stops a run ends it where the table says so: the rule's own code is then the evidence."""
    ends = code_of(cause.code).status == "ended" or cause.code.startswith("error.")
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


def _special(facts: Facts, target: str, outcome: str, reason: str, cause: e.Stop | None) -> Facts:
    run = facts.run
    if outcome == "stalled" and cause is None:
        cause = stops.stalled(run)
    match target:
        case "@back" if outcome != "exhausted":  # done again, with new retries; after a stall, with new turns
            again = run.pending or run.tries.retries or outcome == "stalled"
            return facts.add(e.Dropped(at=facts.now, why=f"@back {outcome}")) if again else facts
        case "@cancel":
            return end(facts, "cancelled", _instead(run, "cancelled", outcome, reason, cause))
        case "@ask" | "@blocked":
            return _question(let_go(facts), target, outcome, reason, cause)
        case _:
            return end(facts, "failure", _failure(run, outcome, reason, cause))


def _instead(run: Run, code: str, outcome: str, reason: str, cause: e.Stop | None) -> e.Stop:
    """The evidence of the cause stays; its code becomes the rule."""
    return replace(cause, code=code, rule=cause.code) if cause else stop(run, code, outcome, detail=reason)


def _question(facts: Facts, target: str, outcome: str, reason: str, cause: e.Stop | None) -> Facts:
    run = facts.run
    text = reason or f"The state '{run.state}' ended with '{outcome}'. How should the run continue?"
    text = (
        f"The run cannot continue by itself: {code_of(cause.code).says}. How should it continue?"
        if cause
        else text
    )
    if target == "@blocked":
        return ask(
            facts, _instead(run, f"blocked.table.{outcome}", outcome, reason, cause), "escalation", text
        )
    if cause and cause.code.startswith("loop."):
        return ask(facts, cause, "loop", stops.solutions(run, cause))
    if cause is None or code_of(cause.code).status == "ended":
        cause = _instead(run, "wait.escalation", outcome, reason, cause)
    return ask(facts, cause, "escalation", text, status="waiting")
