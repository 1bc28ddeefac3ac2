"""The laws of acts, stops and ends. Each says in a sentence how it is broken, or nothing."""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter

from flyball.core.turns import PLAN_REVIEW
from flyball.domain import events as e
from flyball.domain.machine import WORKERS
from flyball.domain.results import code_of
from flyball.errors import FlyballError
from flyball.lab.prove.after_end import may_follow_end
from flyball.lab.prove.observed import Observation
from flyball.state.run import Run

UNCHANGED = (  # what an interruption leaves alone
    *("turn", "iteration", "spent", "state", "status", "pending", "path.failures", "path.entries"),
    *("path.interventions", "spending.child_turns", "progress.idle", "progress.errors", "progress.trees"),
    *("tries.retries", "tries.contexts", "evidence.proof", "checkout.commit"),
)
COUNTS = (  # what a limit leaves alone
    *("turn", "iteration", "path.failures", "progress.idle", "progress.errors", "tries.retries"),
)


def differences(before: Run, after: Run, names: Iterable[str]) -> list[str]:
    """The parts that differ, of those named."""
    return [name for name in names if (get := attrgetter(name))(before) != get(after)]


# ---- acts ----------------------------------------------------------------------------------------------------------


def _act(seen: Observation) -> e.Act:
    assert isinstance(seen.event, e.ActStarted)
    return seen.event.act


def carries_a_time(seen: Observation) -> str:
    act = _act(seen)
    if act.state not in seen.premise.machine.within_us or act.why == "baseline" or act.wall_us > 0:
        return ""
    return f"'{act.do}' in '{act.state}' has no time limit"


def on_its_tree(seen: Observation) -> str:
    act, was = _act(seen), seen.was
    if act.do in ("restore", "prepare"):
        return ""
    if was.wanted and was.wanted != was.checkout:
        return f"'{act.do}' begins before the checkout is put right"
    return "" if act.tree == was.checkout else f"'{act.do}' takes the checkout for another tree"


def put_back_first(seen: Observation) -> str:
    act, was = _act(seen), seen.was
    if was.wanted in ("", was.checkout):
        return ""
    return (
        ""
        if act.do == "restore" and act.tree == was.wanted
        else f"'{act.do}' begins before the tree is put back"
    )


def turn_allowed(seen: Observation) -> str:
    most = seen.premise.most("turns")
    if most is None or seen.premise.machine.standing or not _act(seen).do.startswith(("agent:", "run:")):
        return ""
    return "" if seen.was.turns < most else f"a turn begins after {most}, which is the limit"


def covered(seen: Observation) -> str:
    """GUARD-4: what is spent and another turn like the last stay within the budget."""
    budget, was = seen.premise.settings.budget, seen.was
    if not _act(seen).do.startswith(("agent:", "run:")) or seen.premise.machine.supervises:
        return ""  # the budget is that of each run below
    reserve = seen.premise.cost_uusd + seen.premise.tokens if was.priced else 0
    most = budget.uusd if budget.tokens is None else budget.tokens
    if most is not None and was.spent + reserve > most:
        return "a turn begins that the budget does not cover"
    late = budget.wall_us is not None and was.took_us >= budget.wall_us
    return "a turn begins though the time is used up" if late else ""


def retry_allowed(seen: Observation) -> str:
    if not _act(seen).do.startswith("agent:") or seen.was.failed <= _retries(seen):
        return ""
    return f"a turn is tried again after {seen.was.failed} failed ones, where {_retries(seen)} retries are allowed"


def _retries(seen: Observation) -> int:
    most = seen.premise.most("retries")
    return 3 if most is None else most


def circuit_closed(seen: Observation) -> str:
    most, act = seen.premise.most("no_progress"), _act(seen)
    counts = act.role in WORKERS and act.do.startswith("agent:")
    again = seen.was.failed > 0  # a failed process comes before a loop rule: the turn is tried again
    probes = "progressed" in seen.before.here.on
    if counts and not again and not probes and seen.was.fruitless > 1:
        return f"a turn begins after {seen.was.fruitless} probes with no fewer failing tests"
    if most is None or not counts or again or probes or seen.was.idle < max(most, 1):
        return ""
    return f"a turn begins after {seen.was.idle} without progress, where {most} open the circuit"


def may_intervene(seen: Observation) -> str:
    most = seen.premise.most("cto")
    if (
        _act(seen).do != "agent:cto"
        or _act(seen).why == PLAN_REVIEW
        or seen.was.interventions < (2 if most is None else most)
    ):
        return ""
    return f"the CTO intervenes again after {seen.was.interventions} times"


def asks_after_crashes(seen: Observation) -> str:
    if _act(seen).why == "rollback":  # a person's own order
        return ""
    if seen.before.tries.gone:
        return "an act begins though what acts stand on is gone"
    return f"an act begins after {seen.was.cut} interruptions in a row" if seen.was.cut >= 5 else ""


def idle_when_ended(seen: Observation) -> str:
    done = seen.before.status == "ended" and not may_follow_end(seen.before, seen.event)
    return "a fact about a run that has ended" if done else ""


def interruption_is_free(seen: Observation) -> str:
    changed = differences(seen.before, seen.after, UNCHANGED)
    return f"an interruption changes {', '.join(changed)}" if changed else ""


def limits_are_free(seen: Observation) -> str:
    event = seen.event
    assert isinstance(event, e.ActFinished)
    free = ("rate_limited", "plan_limit", "overloaded", "network", "auth", "billing")
    if not isinstance(event.result, e.TurnEnded) or event.result.verdict not in free:
        return ""
    changed = differences(seen.before, seen.after, COUNTS)
    return f"'{event.result.verdict}' changes {', '.join(changed)}" if changed else ""


# ---- stops and ends --------------------------------------------------------------------------------------------------


def _stop(seen: Observation) -> e.Stop:
    assert isinstance(seen.event, e.Stopped | e.Ended)
    return seen.event.stop


def known_code(seen: Observation) -> str:
    code = _stop(seen).code
    try:
        status = code_of(code).status
    except FlyballError:
        return f"'{code}' is no code"
    is_now = seen.after.status
    fits = is_now == status or code.startswith("error.")
    return "" if fits else f"'{code}' makes the run {is_now}, not {status}"


def no_same_stop(seen: Observation) -> str:
    stop = _stop(seen)
    here = (seen.after.state, stop.code, stop.rule, seen.was.ran_out)
    return f"the answer leads straight back to {stop.code}" if seen.was.answered == here else ""


def _below(seen: Observation) -> bool:
    """It carries the code of the run below: the limit was that one's."""
    below = seen.before.path.child_stop
    return below is not None and below.code in (_stop(seen).code, _stop(seen).rule)


def no_fewer_iterations(seen: Observation) -> str:
    """What ends for a limit has used it up."""
    if _below(seen):
        return ""
    stop, most = _stop(seen), seen.premise.most
    code = stop.rule if stop.code.startswith(("wait.escalation", "blocked.table.")) else stop.code
    iterations = most("iterations")
    if code == "limit.iterations" and iterations is not None and seen.was.iteration < iterations:
        return f"it stops for iterations after {seen.was.iteration} of {iterations}"
    return ""


def no_fewer_entries(seen: Observation) -> str:
    stop, machine = _stop(seen), seen.premise.machine
    name = next((s.name for s in machine.states.values() if s.counts == "fix_attempts"), "")
    most, entries = seen.premise.most(name), seen.was.entries.get(name, 0)
    if stop.code != "limit.fix_attempts" or most is None or _below(seen) or entries >= most:
        return ""
    return f"it stops for fix attempts after {entries} of {most}"


def no_fewer_turns(seen: Observation) -> str:
    stop, most = _stop(seen), seen.premise.most("turns")
    if (
        stop.code != "limit.turns"
        or stop.rule != "turns"
        or most is None
        or _below(seen)
        or seen.was.turns >= most
    ):
        return ""
    return f"it stops for turns after {seen.was.turns} of {most}"


def no_fewer_retries(seen: Observation) -> str:
    if _stop(seen).rule != "retries" or _below(seen) or seen.was.failed > _retries(seen):
        return ""
    return f"it gives up after {seen.was.failed} failed turns, where {_retries(seen)} retries are allowed"


def succeeds_at_an_end(seen: Observation) -> str:
    event = seen.event
    assert isinstance(event, e.Ended)
    if event.end != "success":
        return ""
    if seen.before.machine.states[seen.before.state].end != "success":
        return f"it succeeds in '{seen.before.state}', which is no success end"
    good = "completed" if seen.premise.proves else "completed_unproven"
    return "" if event.stop.code == good else f"it ends '{event.stop.code}', not '{good}'"


def stays_unwaivable(seen: Observation) -> str:
    event = seen.event
    assert isinstance(event, e.Stopped)
    ruling, question = seen.before.evidence.ruling, event.question
    if question is None or question.kind != "block" or ruling is None or ruling.waivable:
        return ""
    return f"'{ruling.rule}' could be approved" if "approve" in question.verbs else ""


# ---- what is never lost --------------------------------------------------------------------------------------------------------


def granted_by_a_person(seen: Observation) -> str:
    """GUARD-2: what may be called is what a person's answer to the very question says."""
    before, after, event = seen.before, seen.after, seen.event
    kept = before.evidence.grants
    if isinstance(event, e.ActFinished) and after.turn > before.turn:
        kept = tuple(call for call in kept if not call.startswith("once:"))
    if isinstance(event, e.Answered) and before.stop and before.stop.code == "wait.permission":
        call = before.stop.call
        given = {"approve": call, "grant": f"once:{call}"}.get(event.verb, "") if call else ""
        kept = (*kept, given) if given else kept
    return (
        ""
        if after.evidence.grants == kept
        else f"{after.evidence.grants or 'nothing'} is granted where {kept or 'nothing'} should be"
    )


def files_remembered(seen: Observation) -> str:
    """ALO-5: what was changed, and what this fact says was changed, are known after it."""
    if isinstance(seen.event, e.Charged) and seen.premise.machine.supervises:
        return ""  # the run below has a checkout of its own, and remembers
    made = seen.event.result if isinstance(seen.event, e.ActFinished) else seen.event
    lost = {*seen.before.checkout.changed, *getattr(made, "changed", ())}.difference(
        seen.after.checkout.changed
    )
    return f"{', '.join(sorted(lost))} was changed and is forgotten" if lost else ""


def only_appended(seen: Observation) -> str:
    """ALO-8: the record of what was done can grow."""
    before, after = seen.before, seen.after
    if not type(seen.event).__struct_config__.frozen:
        return "a fact can be changed"
    shrunk = [name for name in ("iteration", "turn", "acts") if getattr(after, name) < getattr(before, name)]
    return f"{', '.join(shrunk)} was taken back" if shrunk else ""
