"""The laws of transitions. Each says in a sentence how it is broken, or nothing."""

from __future__ import annotations

from flyball.domain import events as e
from flyball.lab.prove.observed import OF_THE_RULES, Observation

# ---- transitions -----------------------------------------------------------------------------------------------


def _moved(seen: Observation) -> e.Moved:
    assert isinstance(seen.event, e.Moved)
    return seen.event


def on_the_table(seen: Observation) -> str:
    moved = _moved(seen)
    if moved.source != seen.before.state or seen.after.state != moved.target:
        return f"it says {moved.source}→{moved.target}, but the run was in {seen.before.state}"
    known = seen.premise.machine.ways.get(moved.source, {}).get(moved.target, ())
    return (
        ""
        if moved.outcome in known
        else f"the table has no {moved.source}→{moved.target} on '{moved.outcome}'"
    )


def judged_first(seen: Observation) -> str:
    moved = _moved(seen)
    if seen.premise.machine.states[moved.source].act != "agent":
        return ""
    if not seen.was.turned:
        plan = seen.before.plan  # interrupted work continues, or another lane has made the plan
        waits = bool(plan.assessment and plan.assessment.reasons) and not plan.approved
        holds = bool(plan.steps) and moved.outcome == ("approval" if waits else "planned")
        known = moved.outcome in OF_THE_RULES or seen.was.settled or holds
        return "" if known else f"'{moved.outcome}' without a turn"
    if seen.was.judged in ("allow", "waived", "approved", "below"):
        return ""
    ends = seen.premise.machine.states[moved.target].end == "failure"
    stands = seen.was.checkout != seen.was.before
    if seen.was.judged == "ask" and (ends or (moved.outcome in OF_THE_RULES and not stands)):
        return ""
    return f"'{moved.outcome}' is followed though the guard said '{seen.was.judged or 'nothing'}'"


def tested_first(seen: Observation) -> str:
    moved = _moved(seen)
    if moved.target != "verify":
        return ""
    tests = seen.premise.proves and seen.premise.settings.require_test_pass
    if tests and seen.was.proved != seen.was.checkout:
        return "verify is entered without a passing proof of this tree"
    skipped = moved.outcome == "untested" and seen.was.skipped
    return "" if tests or skipped else "the test is left out, and no fact says so"


def entries_allowed(seen: Observation) -> str:
    target = _moved(seen).target
    most = seen.premise.most(target) if target in seen.premise.machine.most else None
    if most is None or seen.now.entries.get(target, 0) <= most:
        return ""
    return f"entry {seen.now.entries[target]} to '{target}', where {most} are allowed"


def iterations_allowed(seen: Observation) -> str:
    most, count = seen.premise.most("iterations"), seen.now.iteration
    if most is None or _moved(seen).target != seen.premise.machine.iteration or count <= most:
        return ""
    return f"iteration {count} begins, where {most} are allowed"


def iteration_counted(seen: Observation) -> str:
    begun = int(_moved(seen).target == seen.premise.machine.iteration)
    return "" if seen.after.iteration - seen.before.iteration == begun else "the iteration is not counted"


def paused_first(seen: Observation) -> str:
    moved = _moved(seen)
    act = seen.premise.machine.states[moved.source].act
    acts = act not in ("ask", "listen", "wait") and (act != "proof" or seen.premise.proves)
    acts = acts and not (act == "run" and not seen.was.turned)  # nothing was planned, so no run was begun
    pauses = acts and moved.source in seen.premise.settings.breakpoints
    if not pauses or seen.was.broke or moved.outcome in OF_THE_RULES:
        return ""
    return f"'{moved.source}' is left by '{moved.outcome}' without a pause at its breakpoint"


def through_the_gate(seen: Observation) -> str:
    moved, was = _moved(seen), seen.was
    if seen.premise.machine.states[moved.target].end != "success" or not seen.premise.owner:
        return ""
    if seen.premise.proves and was.proved != was.checkout:
        return f"'{moved.target}' is entered without a passing proof of this tree"
    if seen.premise.proves and was.accepted != was.checkout:
        return f"'{moved.target}' is entered though nobody said yes to the doubts about its proof"
    if was.committed != was.checkout:
        return f"'{moved.target}' is entered without a commit of this tree"
    lands = seen.premise.settings.commit in ("merge", "pr") and was.landed != was.checkout
    return f"'{moved.target}' is entered before the commit has landed" if lands else ""


def truly_done(seen: Observation) -> str:
    """LOOP-1, wherever a worker may be done; or a person said so of files that passed two probes."""
    moved, was = _moved(seen), seen.was
    source = seen.premise.machine.states[moved.source]
    known = was.finishes or was.settled or was.judged == "below"
    if source.of != "worker" or moved.outcome != "done" or known:
        return ""
    return "it is done without two indicators and the signal"


# ---- machines of their own ---------------------------------------------------------------------------------------


def task_recovers(seen: Observation) -> str:
    moved, was = _moved(seen), seen.was
    if moved.source != "cto_intervention" or not moved.outcome.startswith(("retry", "rollback", "skip")):
        return ""
    line = seen.premise.machine.groups.get("working", ())
    if moved.target not in line or was.origin not in line:
        return f"the CTO leads from '{was.origin}' to '{moved.target}'"
    ahead = line.index(moved.target) - line.index(was.origin)
    good = {"skip": ahead == 1, "retry": ahead <= 0, "rollback": ahead < 0}[moved.outcome]
    return "" if good else f"the CTO's {moved.outcome} leads from '{was.origin}' to '{moved.target}'"


def failures_counted(seen: Observation) -> str:
    event, most = seen.event, seen.premise.most("failures")
    assert isinstance(event, e.FailureCounted)
    count = seen.now.failures[event.state]
    if most is not None and count > most:
        return f"failure {count} in '{event.state}', where {most} are allowed"
    return "" if count == event.count else f"failure {count} in '{event.state}' is counted as {event.count}"


def cto_gives_reasons(seen: Observation) -> str:
    moved = _moved(seen)
    pair = (moved.source, moved.target)
    if pair in (("PLANNING", "IDLE"), ("EXECUTING", "PLANNING")) and not moved.reason:
        return f"{moved.source}→{moved.target} without a reason"
    if pair == ("WAITING_FOR_HUMAN", "IDLE") and seen.was.answered is None:
        return "WAITING_FOR_HUMAN→IDLE without a person's answer"
    return ""


def pair_signals(seen: Observation) -> str:
    moved, was = _moved(seen), seen.was
    if not was.turned or moved.outcome in OF_THE_RULES:
        return ""
    if was.signal == "FAIL" and moved.target != "failed":
        return f"FAIL leads to '{moved.target}'"
    if moved.target == "failed" and was.signal != "FAIL":
        return f"'{was.signal or 'nothing'}' leads to 'failed'"
    return _author(seen, moved) if moved.source == "working" else _reviewer(seen, moved)


def _author(seen: Observation, moved: e.Moved) -> str:
    alone = seen.premise.option("review") != "always" and not seen.premise.settings.consensus
    proves = seen.premise.proves or not seen.premise.owner
    done = seen.was.signal == "DONE" and alone and proves
    if moved.target == "complete":
        return "" if done else f"'{seen.was.signal or 'nothing'}' from the author completes"
    excused = not done or seen.was.disproved
    return "" if excused or moved.target != "reviewing" else "DONE with a passing proof goes to reviewing"


def _reviewer(seen: Observation, moved: e.Moved) -> str:
    agreed = not seen.premise.settings.consensus or seen.was.done == seen.was.checkout
    passes = seen.was.signal == "PASS" and agreed
    if moved.target == "complete":
        return "" if passes else f"'{seen.was.signal or 'nothing'}' from the reviewer completes"
    excused = not passes or seen.was.disproved
    return "" if excused or moved.target != "working" else "PASS with a passing proof goes back to working"
