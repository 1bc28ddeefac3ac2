"""What must hold at every step, each law with its id. A law says in a sentence how it is broken, or nothing.

ALO-8 needs no law here: facts are frozen structs, and a step can only append to them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from flyball.core import codes
from flyball.core import events as e
from flyball.core.machine import OURS, Machine
from flyball.core.run import WORKERS, Run
from flyball.errors import FlyballError
from flyball.prove.moves import Move
from flyball.prove.premises import Premise
from flyball.prove.witness import Witness

LAWS = {
    "SYS-1": "every state has a way on, and every run a way to an end",
    "SYS-2": "only transitions of the table",
    "SYS-3": "the rules always have an answer",
    "SYS-5": "an interruption costs nothing, and its tree is put back; five in a row ask",
    "SYS-7": "every stop has a known reason and the status that goes with it",
    "SYS-8": "an owner succeeds only with a proof and a commit of exactly this tree",
    "SYS-10": "an act begins on the tree that its run knows",
    "HUMAN-2": "an answer renews what ran out, and is bound to what was shown",
    "HUMAN-3": "a cancel ends, an ended run does nothing",
    "ALO-1": "the guard rules on every turn before its outcome counts",
    "ALO-2": "a passing proof of this tree before verify, or a journaled skip",
    "ALO-3": "no more entries to a limited state than one iteration allows, and no fewer",
    "ALO-4": "a breakpoint pauses at every visit",
    "ALO-6": "an iteration begins at each entry to its state, and nowhere else",
    "ALO-7": "no more iterations than allowed, and no fewer",
    "ALO-9": "a deny blocks where it is, and only a human lets it go on",
    "ALO-10": "every act in a state with a time limit carries one",
    "LOOP-1": "done needs two indicators and the signal; no turn beyond the limit of turns",
    "LOOP-3": "no turn once the circuit should be open",
    "LOOP-5": "a limit costs neither a turn nor a failure",
    "RETRY": "a failed turn is tried again as often as allowed, no more and no less",
    "TASK-9": "failures and interventions within their limits; no skipping but the override",
    "CTO-1": "reasons where they are due; only a person's answer leads from waiting to idle",
    "PAIR-1": "DONE, PASS and FAIL lead where they must, and nothing else does",
    "BOUND": "every path ends or waits",
}
ONLY_IN = {"ALO-2": "build", "TASK-9": "task", "CTO-1": "cto", "PAIR-1": "review"}
OF_THE_RULES = (*OURS, "stalled", "third_failure", "escalate")  # outcomes that need no turn
UNCHANGED = (  # what an interruption leaves alone
    *("turn", "below_turns", "retries", "contexts", "failures", "no_progress", "error_count", "iteration"),
    *("entries", "cto_attempts", "spent", "state", "status", "seen", "proof", "committed", "held"),
)


class Seen(Struct, frozen=True):
    """One fact, with the run and the witness before and after it."""

    premise: Premise
    before: Run
    event: e.AnyEvent
    after: Run
    was: Witness
    now: Witness


Law = Callable[[Seen], str]


def laws_of(machine: Machine) -> list[str]:
    """The laws that concern this machine."""
    return [law for law in LAWS if ONLY_IN.get(law, machine.name) == machine.name]


def broken(seen: Seen) -> tuple[str, str] | None:
    """The law that this fact breaks, and how."""
    for law, check in CHECKS.get(type(seen.event), ()):
        says = check(seen) if ONLY_IN.get(law) in (None, seen.premise.machine.name) else ""
        if says:
            return law, says
    return None


# ---- transitions -----------------------------------------------------------------------------------------------


def _moved(seen: Seen) -> e.Moved:
    assert isinstance(seen.event, e.Moved)
    return seen.event


def _edge(seen: Seen) -> str:
    moved = _moved(seen)
    if moved.source != seen.before.state or seen.after.state != moved.target:
        return f"it says {moved.source}→{moved.target}, but the run was in {seen.before.state}"
    known = seen.premise.machine.ways.get(moved.source, {}).get(moved.target, ())
    return "" if moved.outcome in known else f"the table has no {moved.source}→{moved.target} on '{moved.outcome}'"


def _judged(seen: Seen) -> str:
    moved = _moved(seen)
    if seen.premise.machine.states[moved.source].act != "agent":
        return ""
    if not seen.was.turned:
        return "" if moved.outcome in OF_THE_RULES else f"'{moved.outcome}' without a turn"
    if seen.was.judged in ("allow", "waived", "approved", "below"):
        return ""
    ends = seen.premise.machine.states[moved.target].end == "failure"
    if seen.was.judged == "ask" and ends:
        return ""
    return f"'{moved.outcome}' is followed though the guard said '{seen.was.judged or 'nothing'}'"


def _tested(seen: Seen) -> str:
    moved = _moved(seen)
    if moved.target != "verify":
        return ""
    tests = seen.premise.proves and seen.premise.settings.require_test_pass
    if tests and seen.was.proved != seen.was.checkout:
        return "verify is entered without a passing proof of this tree"
    skipped = moved.outcome == "untested" and seen.was.skipped
    return "" if tests or skipped else "the test is left out, and no fact says so"


def _entries(seen: Seen) -> str:
    target = _moved(seen).target
    most = seen.premise.most(target) if target in seen.premise.machine.most else None
    if most is None or seen.now.entries.get(target, 0) <= most:
        return ""
    return f"entry {seen.now.entries[target]} to '{target}', where {most} are allowed"


def _iterations(seen: Seen) -> str:
    most, count = seen.premise.most("iterations"), seen.now.iteration
    if most is None or _moved(seen).target != seen.premise.machine.iteration or count <= most:
        return ""
    return f"iteration {count} begins, where {most} are allowed"


def _iteration_counted(seen: Seen) -> str:
    begun = int(_moved(seen).target == seen.premise.machine.iteration)
    return "" if seen.after.iteration - seen.before.iteration == begun else "the iteration is not counted"


def _paused(seen: Seen) -> str:
    moved = _moved(seen)
    if moved.source not in seen.premise.settings.breakpoints or seen.was.broke or moved.outcome in OF_THE_RULES:
        return ""
    return f"'{moved.source}' is left by '{moved.outcome}' without a pause at its breakpoint"


def _gate(seen: Seen) -> str:
    moved, was = _moved(seen), seen.was
    if seen.premise.machine.states[moved.target].end != "success" or not seen.premise.owner:
        return ""
    if seen.premise.proves and was.proved != was.checkout:
        return f"'{moved.target}' is entered without a passing proof of this tree"
    return "" if was.committed == was.checkout else f"'{moved.target}' is entered without a commit of this tree"


def _exit(seen: Seen) -> str:
    """LOOP-1, wherever a worker may be done."""
    moved = _moved(seen)
    source = seen.premise.machine.states[moved.source]
    if source.of != "worker" or moved.outcome != "done" or seen.was.finishes or seen.was.judged == "below":
        return ""
    return "it is done without two indicators and the signal"


# ---- machines of their own ---------------------------------------------------------------------------------------


def _task(seen: Seen) -> str:
    moved, was = _moved(seen), seen.was
    if moved.source != "cto_intervention" or not moved.outcome.startswith(("retry", "rollback", "skip")):
        return ""
    line = seen.premise.machine.groups.get("working", ())
    if moved.target not in line or was.origin not in line:
        return f"the CTO leads from '{was.origin}' to '{moved.target}'"
    ahead = line.index(moved.target) - line.index(was.origin)
    good = {"skip": ahead == 1, "retry": ahead <= 0, "rollback": ahead < 0}[moved.outcome]
    return "" if good else f"the CTO's {moved.outcome} leads from '{was.origin}' to '{moved.target}'"


def _failures(seen: Seen) -> str:
    event, most = seen.event, seen.premise.most("failures")
    assert isinstance(event, e.FailureCounted)
    count = seen.now.failures[event.state]
    if most is not None and count > most:
        return f"failure {count} in '{event.state}', where {most} are allowed"
    return "" if count == event.count else f"failure {count} in '{event.state}' is counted as {event.count}"


def _cto(seen: Seen) -> str:
    moved = _moved(seen)
    pair = (moved.source, moved.target)
    if pair in (("PLANNING", "IDLE"), ("EXECUTING", "PLANNING")) and not moved.reason:
        return f"{moved.source}→{moved.target} without a reason"
    if pair == ("WAITING_FOR_HUMAN", "IDLE") and seen.was.answered is None:
        return "WAITING_FOR_HUMAN→IDLE without a person's answer"
    return ""


def _pair(seen: Seen) -> str:
    moved, was = _moved(seen), seen.was
    if not was.turned or moved.outcome in OF_THE_RULES:
        return ""
    if was.signal == "FAIL" and moved.target != "failed":
        return f"FAIL leads to '{moved.target}'"
    if moved.target == "failed" and was.signal != "FAIL":
        return f"'{was.signal or 'nothing'}' leads to 'failed'"
    return _author(seen, moved) if moved.source == "working" else _reviewer(seen, moved)


def _author(seen: Seen, moved: e.Moved) -> str:
    alone = seen.premise.option("review") != "always" and not seen.premise.settings.consensus
    proves = seen.premise.proves or not seen.premise.owner
    done = seen.was.signal == "DONE" and alone and proves
    if moved.target == "complete":
        return "" if done else f"'{seen.was.signal or 'nothing'}' from the author completes"
    excused = not done or seen.was.disproved
    return "" if excused or moved.target != "reviewing" else "DONE with a passing proof goes to reviewing"


def _reviewer(seen: Seen, moved: e.Moved) -> str:
    agreed = not seen.premise.settings.consensus or seen.was.done == seen.was.checkout
    passes = seen.was.signal == "PASS" and agreed
    if moved.target == "complete":
        return "" if passes else f"'{seen.was.signal or 'nothing'}' from the reviewer completes"
    excused = not passes or seen.was.disproved
    return "" if excused or moved.target != "working" else "PASS with a passing proof goes back to working"


# ---- acts ----------------------------------------------------------------------------------------------------------


def _act(seen: Seen) -> e.Act:
    assert isinstance(seen.event, e.ActStarted)
    return seen.event.act


def _timed(seen: Seen) -> str:
    act = _act(seen)
    if act.state not in seen.premise.machine.within_us or act.why == "baseline" or act.wall_us > 0:
        return ""
    return f"'{act.do}' in '{act.state}' has no time limit"


def _on_its_tree(seen: Seen) -> str:
    act, was = _act(seen), seen.was
    if act.do in ("restore", "prepare"):
        return ""
    if was.wanted and was.wanted != was.checkout:
        return f"'{act.do}' begins before the checkout is put right"
    return "" if act.tree == was.checkout else f"'{act.do}' takes the checkout for another tree"


def _restores(seen: Seen) -> str:
    act, was = _act(seen), seen.was
    if was.wanted in ("", was.checkout):
        return ""
    return "" if act.do == "restore" and act.tree == was.wanted else f"'{act.do}' begins before the tree is put back"


def _turn_allowed(seen: Seen) -> str:
    most = seen.premise.most("turns")
    if most is None or seen.premise.machine.standing or not _act(seen).do.startswith(("agent:", "run:")):
        return ""
    return "" if seen.was.turns < most else f"a turn begins after {most}, which is the limit"


def _retry_allowed(seen: Seen) -> str:
    if not _act(seen).do.startswith("agent:") or seen.was.failed <= _retries(seen):
        return ""
    return f"a turn is tried again after {seen.was.failed} failed ones, where {_retries(seen)} retries are allowed"


def _retries(seen: Seen) -> int:
    most = seen.premise.most("retries")
    return 3 if most is None else most


def _closed(seen: Seen) -> str:
    most, act = seen.premise.most("no_progress"), _act(seen)
    counts = act.do.partition(":")[2] in WORKERS and act.do.startswith("agent:")
    if most is None or not counts or seen.was.idle < most:
        return ""
    return f"a turn begins after {seen.was.idle} without progress, where {most} open the circuit"


def _intervenes(seen: Seen) -> str:
    most = seen.premise.most("cto")
    if _act(seen).do != "agent:cto" or seen.was.interventions < (2 if most is None else most):
        return ""
    return f"the CTO intervenes again after {seen.was.interventions} times"


def _crashes(seen: Seen) -> str:
    return f"an act begins after {seen.was.cut} interruptions in a row" if seen.was.cut >= 5 else ""


def _idle_when_ended(seen: Seen) -> str:
    return "a fact about a run that has ended" if seen.before.status == "ended" else ""


def _costs_nothing(seen: Seen) -> str:
    changed = [n for n in UNCHANGED if getattr(seen.before, n) != getattr(seen.after, n)]
    return f"an interruption changes {', '.join(changed)}" if changed else ""


def _limit_is_free(seen: Seen) -> str:
    event = seen.event
    assert isinstance(event, e.ActFinished)
    free = ("rate_limited", "plan_limit", "overloaded", "network", "auth", "billing")
    if not isinstance(event.result, e.TurnEnded) or event.result.verdict not in free:
        return ""
    names = ("turn", "retries", "no_progress", "failures", "error_count", "iteration")
    changed = [n for n in names if getattr(seen.before, n) != getattr(seen.after, n)]
    return f"'{event.result.verdict}' changes {', '.join(changed)}" if changed else ""


# ---- stops and ends --------------------------------------------------------------------------------------------------


def _stop(seen: Seen) -> e.Stop:
    assert isinstance(seen.event, e.Stopped | e.Ended)
    return seen.event.stop


def _known(seen: Seen) -> str:
    code = _stop(seen).code
    try:
        status = codes.of(code).status
    except FlyballError:
        return f"'{code}' is no code"
    is_now = seen.after.status
    fits = is_now == status or code.startswith("error.")
    return "" if fits else f"'{code}' makes the run {is_now}, not {status}"


def _same_stop(seen: Seen) -> str:
    stop = _stop(seen)
    here = (seen.after.state, stop.code, stop.rule)
    return f"the answer leads straight back to {stop.code}" if seen.was.answered == here else ""


def _no_sooner(seen: Seen) -> str:
    """What ends for a limit has used it up."""
    stop, most = _stop(seen), seen.premise.most
    code = stop.rule if stop.code == "wait.escalation" else stop.code
    iterations = most("iterations")
    if code == "limit.iterations" and iterations is not None and seen.was.iteration < iterations:
        return f"it stops for iterations after {seen.was.iteration} of {iterations}"
    return ""


def _no_fewer_entries(seen: Seen) -> str:
    stop = _stop(seen)
    most = seen.premise.most("fix")
    if stop.code != "limit.fix_attempts" or most is None or seen.was.entries.get("fix", 0) >= most:
        return ""
    return f"it stops for fix attempts after {seen.was.entries.get('fix', 0)} of {most}"


def _no_fewer_turns(seen: Seen) -> str:
    stop, most = _stop(seen), seen.premise.most("turns")
    if stop.code != "limit.turns" or stop.rule != "turns" or most is None or seen.was.turns >= most:
        return ""
    return f"it stops for turns after {seen.was.turns} of {most}"


def _no_fewer_retries(seen: Seen) -> str:
    if _stop(seen).rule != "retries" or seen.was.failed > _retries(seen):
        return ""
    return f"it gives up after {seen.was.failed} failed turns, where {_retries(seen)} retries are allowed"


def _succeeds(seen: Seen) -> str:
    event = seen.event
    assert isinstance(event, e.Ended)
    if event.end != "success":
        return ""
    if seen.before.machine.states[seen.before.state].end != "success":
        return f"it succeeds in '{seen.before.state}', which is no success end"
    good = "completed" if seen.premise.proves else "completed_unproven"
    return "" if event.stop.code == good else f"it ends '{event.stop.code}', not '{good}'"


def _unwaivable(seen: Seen) -> str:
    event = seen.event
    assert isinstance(event, e.Stopped)
    ruling, question = seen.before.ruling, event.question
    if question is None or question.kind != "block" or ruling is None or ruling.waivable:
        return ""
    return f"'{ruling.rule}' could be approved" if "approve" in question.verbs else ""


CHECKS: dict[type[e.Event], Sequence[tuple[str, Law]]] = {
    e.Moved: (
        ("HUMAN-3", _idle_when_ended),
        ("SYS-2", _edge),
        ("ALO-1", _judged),
        ("ALO-2", _tested),
        ("ALO-4", _paused),
        ("SYS-8", _gate),
        ("LOOP-1", _exit),
        ("ALO-3", _entries),
        ("ALO-7", _iterations),
        ("ALO-6", _iteration_counted),
        ("TASK-9", _task),
        ("CTO-1", _cto),
        ("PAIR-1", _pair),
    ),
    e.ActStarted: (
        ("HUMAN-3", _idle_when_ended),
        ("SYS-5", _restores),
        ("SYS-10", _on_its_tree),
        ("ALO-10", _timed),
        ("SYS-5", _crashes),
        ("LOOP-1", _turn_allowed),
        ("LOOP-3", _closed),
        ("RETRY", _retry_allowed),
        ("TASK-9", _intervenes),
    ),
    e.ActFinished: (("LOOP-5", _limit_is_free),),
    e.ActInterrupted: (("SYS-5", _costs_nothing),),
    e.FailureCounted: (("TASK-9", _failures),),
    e.Stopped: (
        ("SYS-7", _known),
        ("HUMAN-2", _same_stop),
        ("HUMAN-2", _unwaivable),
        ("ALO-7", _no_sooner),
        ("ALO-3", _no_fewer_entries),
        ("LOOP-1", _no_fewer_turns),
        ("RETRY", _no_fewer_retries),
    ),
    e.Ended: (
        ("HUMAN-3", _idle_when_ended),
        ("SYS-7", _known),
        ("SYS-8", _succeeds),
        ("ALO-7", _no_sooner),
        ("ALO-3", _no_fewer_entries),
        ("LOOP-1", _no_fewer_turns),
        ("RETRY", _no_fewer_retries),
    ),
}


# ---- a whole step ------------------------------------------------------------------------------------------------------


def step_breaks(
    before: Run, move: Move, facts: Sequence[e.AnyEvent], after: Run, now: Witness
) -> tuple[str, str] | None:
    """What no single fact shows."""
    kinds = {type(fact) for fact in facts}
    if before.status == "blocked" and after.status == "running" and not kinds & {e.Answered, e.ChildWentOn}:
        return "ALO-9", "a blocked run goes on without an answer"
    finished = move.finished
    if finished is not None and finished.ruling is not None and finished.ruling.diff != now.waived:
        return _ruling_breaks(before, finished.ruling, after, now)
    if finished is not None and isinstance(finished.result, e.TurnEnded) and e.Ruled not in kinds:
        return "ALO-1", "a turn ends without a ruling"
    letter = move.letter
    if letter is not None and getattr(letter, "shown", "") == "another" and kinds != {e.LetterRefused}:
        return "HUMAN-2", "an answer to something else is taken"
    return None


def _ruling_breaks(before: Run, ruling: e.Ruling, after: Run, now: Witness) -> tuple[str, str] | None:
    cancelled = before.asked == "cancel" and after.end == "cancelled" and ruling.rule != "tampering"
    if ruling.verdict == "deny" and not cancelled:
        stays = after.status == "blocked" and after.state == before.state
        return None if stays else ("ALO-9", f"a deny leaves the run {after.status} in '{after.state}'")
    stands = before.act is not None and now.checkout != before.act.tree
    if ruling.verdict == "ask" and after.status == "running" and stands:
        return "ALO-1", "the run goes on though the guard asks"
    return None
