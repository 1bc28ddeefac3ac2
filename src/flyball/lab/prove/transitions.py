"""The laws about transitions. Each returns a sentence that says how it is broken, or ""."""

from __future__ import annotations

from flyball.domain import events as e
from flyball.lab.prove.observed import OF_THE_RULES, Observation

# ---- transitions -----------------------------------------------------------------------------------------------


def _moved(step: Observation) -> e.Moved:
    assert isinstance(step.event, e.Moved)
    return step.event


def on_the_table(step: Observation) -> str:
    moved = _moved(step)
    if moved.source != step.before.state or step.after.state != moved.target:
        return f"it says {moved.source}→{moved.target}, but the run was in {step.before.state}"
    allowed = step.premise.machine.ways.get(moved.source, {}).get(moved.target, ())
    return (
        ""
        if moved.outcome in allowed
        else f"the table has no {moved.source}→{moved.target} on '{moved.outcome}'"
    )


def judged_first(step: Observation) -> str:
    moved = _moved(step)
    if step.premise.machine.states[moved.source].act != "agent":
        return ""
    if not step.was.turned:
        plan = step.before.plan  # interrupted work continues, or another lane has made the plan
        waits = bool(plan.assessment and plan.assessment.reasons) and not plan.approved
        holds = bool(plan.steps) and moved.outcome == ("approval" if waits else "planned")
        excused = moved.outcome in OF_THE_RULES or step.was.settled or holds
        return "" if excused else f"'{moved.outcome}' without a turn"
    if step.was.judged in ("allow", "waived", "approved", "below"):
        return ""
    ends = step.premise.machine.states[moved.target].end == "failure"
    stands = step.was.checkout != step.was.before
    if step.was.judged == "ask" and (ends or (moved.outcome in OF_THE_RULES and not stands)):
        return ""
    return f"'{moved.outcome}' is followed though the guard said '{step.was.judged or 'nothing'}'"


def tested_first(step: Observation) -> str:
    moved = _moved(step)
    if moved.target != "verify":
        return ""
    tests = step.premise.proves and step.premise.settings.require_test_pass
    if tests and step.was.proved != step.was.checkout:
        return "verify is entered without a passing proof of this tree"
    skipped = moved.outcome == "untested" and step.was.skipped
    return "" if tests or skipped else "the test is left out, and no fact says so"


def entries_allowed(step: Observation) -> str:
    target = _moved(step).target
    most = step.premise.most(target) if target in step.premise.machine.most else None
    if most is None or step.now.entries.get(target, 0) <= most:
        return ""
    return f"entry {step.now.entries[target]} to '{target}', where {most} are allowed"


def iterations_allowed(step: Observation) -> str:
    most, count = step.premise.most("iterations"), step.now.iteration
    if most is None or _moved(step).target != step.premise.machine.iteration or count <= most:
        return ""
    return f"iteration {count} begins, where {most} are allowed"


def iteration_counted(step: Observation) -> str:
    expected = int(_moved(step).target == step.premise.machine.iteration)
    return "" if step.after.iteration - step.before.iteration == expected else "the iteration is not counted"


def paused_first(step: Observation) -> str:
    moved = _moved(step)
    act = step.premise.machine.states[moved.source].act
    acts = act not in ("ask", "listen", "wait") and (act != "proof" or step.premise.proves)
    acts = acts and not (act == "run" and not step.was.turned)  # nothing was planned, so no run was begun
    pauses = acts and moved.source in step.premise.settings.breakpoints
    if not pauses or step.was.broke or moved.outcome in OF_THE_RULES:
        return ""
    return f"'{moved.source}' is left by '{moved.outcome}' without a pause at its breakpoint"


def through_the_gate(step: Observation) -> str:
    moved, was = _moved(step), step.was
    if step.premise.machine.states[moved.target].end != "success" or not step.premise.owner:
        return ""
    if step.premise.proves and was.proved != was.checkout:
        return f"'{moved.target}' is entered without a passing proof of this tree"
    if step.premise.proves and was.accepted != was.checkout:
        return f"'{moved.target}' is entered though nobody said yes to the doubts about its proof"
    if was.committed != was.checkout:
        return f"'{moved.target}' is entered without a commit of this tree"
    lands = step.premise.settings.commit in ("merge", "pr") and was.landed != was.checkout
    return f"'{moved.target}' is entered before the commit has landed" if lands else ""


def truly_done(step: Observation) -> str:
    """LOOP-1, wherever a worker may be done; or a person said so about files that passed two probes."""
    moved, was = _moved(step), step.was
    source = step.premise.machine.states[moved.source]
    proven = was.finishes or was.settled or was.judged == "below"
    if source.of != "worker" or moved.outcome != "done" or proven:
        return ""
    return "it is done without two indicators and the signal"


# ---- machines of their own ---------------------------------------------------------------------------------------


def task_recovers(step: Observation) -> str:
    moved, was = _moved(step), step.was
    if moved.source != "cto_intervention" or not moved.outcome.startswith(("retry", "rollback", "skip")):
        return ""
    line = step.premise.machine.groups.get("working", ())
    if moved.target not in line or was.origin not in line:
        return f"the CTO leads from '{was.origin}' to '{moved.target}'"
    ahead = line.index(moved.target) - line.index(was.origin)
    good = {"skip": ahead == 1, "retry": ahead <= 0, "rollback": ahead < 0}[moved.outcome]
    return "" if good else f"the CTO's {moved.outcome} leads from '{was.origin}' to '{moved.target}'"


def failures_counted(step: Observation) -> str:
    event, most = step.event, step.premise.most("failures")
    assert isinstance(event, e.FailureCounted)
    count = step.now.failures[event.state]
    if most is not None and count > most:
        return f"failure {count} in '{event.state}', where {most} are allowed"
    return "" if count == event.count else f"failure {count} in '{event.state}' is counted as {event.count}"


def cto_gives_reasons(step: Observation) -> str:
    moved = _moved(step)
    pair = (moved.source, moved.target)
    if pair in (("PLANNING", "IDLE"), ("EXECUTING", "PLANNING")) and not moved.reason:
        return f"{moved.source}→{moved.target} without a reason"
    if pair == ("WAITING_FOR_HUMAN", "IDLE") and step.was.answered is None:
        return "WAITING_FOR_HUMAN→IDLE without a person's answer"
    return ""


def pair_signals(step: Observation) -> str:
    moved, was = _moved(step), step.was
    if not was.turned or moved.outcome in OF_THE_RULES:
        return ""
    if was.signal == "FAIL" and moved.target != "failed":
        return f"FAIL leads to '{moved.target}'"
    if moved.target == "failed" and was.signal != "FAIL":
        return f"'{was.signal or 'nothing'}' leads to 'failed'"
    return _author(step, moved) if moved.source == "working" else _reviewer(step, moved)


def _author(step: Observation, moved: e.Moved) -> str:
    alone = step.premise.option("review") != "always" and not step.premise.settings.consensus
    proves = step.premise.proves or not step.premise.owner
    agrees = step.was.signal == "DONE" and alone and proves
    if moved.target == "complete":
        return "" if agrees else f"'{step.was.signal or 'nothing'}' from the author completes"
    excused = not agrees or step.was.disproved
    return "" if excused or moved.target != "reviewing" else "DONE with a passing proof goes to reviewing"


def _reviewer(step: Observation, moved: e.Moved) -> str:
    same_tree = not step.premise.settings.consensus or step.was.done == step.was.checkout
    passes = step.was.signal == "PASS" and same_tree
    if moved.target == "complete":
        return "" if passes else f"'{step.was.signal or 'nothing'}' from the reviewer completes"
    excused = not passes or step.was.disproved
    return "" if excused or moved.target != "working" else "PASS with a passing proof goes back to working"
