"""All movement between states: every outcome is followed here, and only this module creates a `Moved` event.

In this order: a breakpoint pauses; a failure is counted; the table names the target; a success end needs the gate;
entering a state must be within its limits. If a limit is used up, the outcome `exhausted` goes through the same
function.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from flyball.core import stops
from flyball.core.stops import ask, end, let_go, stop
from flyball.domain import events as e
from flyball.domain.machine import FAILING, JUDGING_ROLES, WAITING_ACTS, counts_as_failure
from flyball.domain.results import code_of
from flyball.errors import FlyballError
from flyball.state.fold import Events
from flyball.state.run import Run

UNTESTED = "untested"
DOUBTS_SHOWN = 20
SENT = ("merge", "pr")  # with these a commit goes further than the run's own branch
PARKED = "it needs approval, and the interrupted work does not: another lane asks"


def follow(
    events: Events,
    outcome: str,
    data: dict[str, Any] | None = None,
    *,
    past_breakpoint: bool = False,
    reason: str = "",
    cause: e.Stop | None = None,
) -> Events:
    """Add what follows from an outcome. `cause`: the rule that gave it (a limit, a time, a failed process)."""
    run, data = events.run, data or {}
    pausing = run.state in run.settings.breakpoints and run.here.act not in WAITING_ACTS
    if pausing and not past_breakpoint and cause is None:
        return _pause_at_breakpoint(events, outcome, data)
    if outcome == "approval" and run.plan.aside:  # CTO-5: work that may go on does not wait for an answer
        events.add(e.Parked(at=events.now))
        outcome, reason = "nothing", PARKED
    if outcome in FAILING:
        outcome = _count_failure(events, outcome, reason)
    target = _target(run, outcome, data, cause)
    if target.startswith("@"):
        return _special(events, target, outcome, reason, cause)
    if run.machine.states[target].end == "success" and run.owner and _gate(events, outcome, data):
        return events
    limited = target in run.machine.most or target == run.machine.iteration
    limit = _entry_limit(run, target, outcome) if limited else None
    if limit is None:
        return _enter(events, target, outcome, reason, cause)
    if outcome == "exhausted" or (limit.threshold == "0" and run.here.act == "ask"):
        return end(
            events, "failure", _failed_by(cause or limit)
        )  # even the target of `exhausted` has reached its limit
    return follow(events, "exhausted", cause=limit)


def _pause_at_breakpoint(events: Events, outcome: str, data: dict[str, Any]) -> Events:
    state = events.run.state
    events.add(e.Held(at=events.now, outcome=outcome, until="breakpoint", data=data))
    then = f"The run would have continued with '{outcome}'."
    cause = stop(events.run, "wait.breakpoint", "breakpoint", state, state, otherwise=then)
    text = f"Breakpoint after '{state}'. Its outcome is '{outcome}'. Continue?"
    return ask(events, cause, "breakpoint", text, status="paused")


def _count_failure(events: Events, outcome: str, reason: str) -> str:
    """Machines that count failures by state (TASK-2): the third in one state is an outcome of its own."""
    run = events.run
    if not counts_as_failure(run.machine, run.here, outcome):
        return outcome
    most = run.most("failures")
    if most is None:
        return outcome
    count = min(run.path.failures.get(run.state, 0) + 1, max(most, 1))
    verdict = run.talk.message[-500:].strip() if run.here.of in JUDGING_ROLES else ""
    reason = reason or verdict or f"the outcome was '{outcome}'"
    events.add(e.FailureCounted(at=events.now, state=run.state, count=count, reason=reason))
    return "third_failure" if count >= most else outcome


def _target(run: Run, outcome: str, data: dict[str, Any], cause: e.Stop | None) -> str:
    target = run.machine.place(run.state, outcome) or ("@fail" if cause else "")
    if not target:
        raise FlyballError(f"'{run.machine.name}' does not say where '{outcome}' leads from '{run.state}'.")
    if not target.startswith("any:"):
        return target
    state = str(data.get("state") or run.path.origin or run.machine.start)
    choices = run.machine.targets(target)
    return state if state in choices else choices[0]


# ---- the gate --------------------------------------------------------------------------------------------


def _gate(events: Events, outcome: str, data: dict[str, Any]) -> bool:
    """SYS-8: a success end needs a proof of exactly this tree, its commit, and its landing. True: something is still missing."""
    run, commit = events.run, events.run.checkout.commit
    if unproved(run):
        until = "gate"
    elif disproved(run):
        tell_again(events)
        follow(events, unproven(events.run), past_breakpoint=True)
        return True
    elif doubted(run):
        events.add(e.Held(at=events.now, outcome=outcome, until="evidence", data=data))
        ask_about_evidence(events)
        return True
    elif commit is None or commit.work != run.tree:
        until = "commit"
    elif run.settings.commit in SENT and not (commit.landed or commit.pull_request):
        until = "land"
    else:
        return False
    events.add(e.Held(at=events.now, outcome=outcome, until=until, data=data))
    return True


def unproved(run: Run) -> bool:
    """Whether the tree was not proved yet, or its proof was not examined yet (EVID-3)."""
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


def ask_about_evidence(events: Events) -> Events:
    proof = events.run.evidence.proof
    assert proof is not None
    doubts = proof.evidence.doubts
    lines = [f"- {doubt}" for doubt in doubts[:DOUBTS_SHOWN]]
    if len(doubts) > DOUBTS_SHOWN:
        lines.append(f"- and {len(doubts) - DOUBTS_SHOWN} more")
    text = "The tests pass, but they may not prove that the change works:\n" + "\n".join(
        (*lines, *proof.evidence.versions)
    )
    then = "The run would have completed."
    cause = stop(events.run, "wait.approval", "evidence", otherwise=then, detail=doubts[0])
    return ask(events, cause, "evidence", f"{text}\nAccept the result?", bound=proof.evidence.doubts_key)


def refuse_claim(events: Events) -> Events:
    """A claim did not pass the gate; a state whose own act is the commit has an outcome for that."""
    run = events.run
    if run.pending is None and run.here.act == "commit":
        return follow(events, "unproven" if run.machine.place(run.state, "unproven") else "refused")
    return follow(events, unproven(run), past_breakpoint=True)


def tell_again(events: Events) -> None:
    """The next turn is told how the last proof of this tree failed."""
    proof = events.run.evidence.proof
    assert proof is not None
    text = f"The proof failed:\n{proof.summary}"
    events.add(e.Told(at=events.now, text=text, who="proof", fingerprint=proof.fingerprint))


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


def _enter(events: Events, target: str, outcome: str, reason: str, cause: e.Stop | None) -> Events:
    run, how = events.run, events.run.machine.states[target].end
    if not reason and outcome == "nothing":  # CTO-1: a plan is dropped for a reason
        reason = run.talk.message[-500:]
    if not reason and outcome == "replan" and run.path.child_stop:  # … and made again for one
        reason = f"a step failed: {run.path.child_stop.code}"
    given_up = run.plan.act if run.machine.states[target].act != "run" else None
    if given_up is not None and run.here.act == "ask":  # a person gave up the paused run
        events.add(e.Abandoned(at=events.now, run=given_up.child))
    if outcome == UNTESTED and not how:  # ALO-2: a test phase left out is journaled with its reason
        why = "require_test_pass is off" if run.settings.proof else "no proof command is configured"
        events.add(e.Skipped(at=events.now, what="test", reason=why))
    moved = e.Moved(
        at=events.now,
        source=run.state,
        target=target,
        outcome=outcome,
        actor=_actor(run, target, cause),
        reason=cause.code if cause else reason,
    )
    events.add(moved)
    if how == "failure":
        return end(events, how, _failure(run, outcome, reason, cause))
    code = "completed" if run.settings.proof else "completed_unproven"
    return end(events, how, stop(run, code, detail=reason)) if how else events


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
    words = "" if run.here.act == "ask" else run.talk.message[-500:]  # a person's decision is nobody else's
    return stop(run, _failure_code(run, outcome), outcome, detail=reason or words)


def _failed_by(cause: e.Stop) -> e.Stop:
    """A rule that normally only stops a run ends it if the table says so; the rule's code is then kept as evidence."""
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


def _special(events: Events, target: str, outcome: str, reason: str, cause: e.Stop | None) -> Events:
    run = events.run
    if outcome == "stalled" and cause is None:
        cause = stops.stalled(run)
    match target:
        case "@back" if outcome != "exhausted":  # done again, with new retries; after a stall, with new turns
            again = run.pending or run.tries.retries or outcome == "stalled"
            return events.add(e.Dropped(at=events.now, why=f"@back {outcome}")) if again else events
        case "@cancel":
            return end(events, "cancelled", _instead(run, "cancelled", outcome, reason, cause))
        case "@ask" | "@blocked":
            return _question(let_go(events), target, outcome, reason, cause)
        case _:
            return end(events, "failure", _failure(run, outcome, reason, cause))


def _instead(run: Run, code: str, outcome: str, reason: str, cause: e.Stop | None) -> e.Stop:
    """The evidence of the cause stays; its code becomes the rule."""
    return replace(cause, code=code, rule=cause.code) if cause else stop(run, code, outcome, detail=reason)


def _question(events: Events, target: str, outcome: str, reason: str, cause: e.Stop | None) -> Events:
    run = events.run
    text = reason or f"The state '{run.state}' ended with '{outcome}'. How should the run continue?"
    if cause:
        text = f"The run cannot continue by itself: {code_of(cause.code).says}. How should it continue?"
    if target == "@blocked":
        blocked = _instead(run, f"blocked.table.{outcome}", outcome, reason, cause)
        return ask(events, blocked, "escalation", text)
    if cause and cause.code.startswith("loop."):
        return ask(events, cause, "loop", stops.solutions(run, cause))
    if cause is None or code_of(cause.code).status == "ended":
        cause = _instead(run, "wait.escalation", outcome, reason, cause)
    return ask(events, cause, "escalation", text, status="waiting")
