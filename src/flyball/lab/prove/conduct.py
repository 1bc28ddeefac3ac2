"""The laws about acts, stops and ends. Each returns a sentence that says how it is broken, or ""."""

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

UNCHANGED = (  # what an interruption must not change
    *("turn", "iteration", "spent", "state", "status", "pending", "path.failures", "path.entries"),
    *("path.interventions", "spending.child_turns", "progress.idle", "progress.errors", "progress.trees"),
    *("tries.retries", "tries.contexts", "evidence.proof", "checkout.commit"),
)
COUNTS = (  # what a limit must not change
    *("turn", "iteration", "path.failures", "progress.idle", "progress.errors", "tries.retries"),
)


def differences(before: Run, after: Run, names: Iterable[str]) -> list[str]:
    """The named parts that differ."""
    return [name for name in names if (get := attrgetter(name))(before) != get(after)]


# ---- acts ----------------------------------------------------------------------------------------------------------


def _act(step: Observation) -> e.Act:
    assert isinstance(step.event, e.ActStarted)
    return step.event.act


def carries_a_time(step: Observation) -> str:
    act = _act(step)
    if act.state not in step.premise.machine.within_us or act.why == "baseline" or act.wall_us > 0:
        return ""
    return f"'{act.do}' in '{act.state}' has no time limit"


def on_its_tree(step: Observation) -> str:
    act, was = _act(step), step.was
    if act.do in ("restore", "prepare"):
        return ""
    if was.wanted and was.wanted != was.checkout:
        return f"'{act.do}' begins before the checkout is put right"
    return "" if act.tree == was.checkout else f"'{act.do}' takes the checkout for another tree"


def put_back_first(step: Observation) -> str:
    act, was = _act(step), step.was
    if was.wanted in ("", was.checkout):
        return ""
    return (
        ""
        if act.do == "restore" and act.tree == was.wanted
        else f"'{act.do}' begins before the tree is put back"
    )


def turn_allowed(step: Observation) -> str:
    most = step.premise.most("turns")
    if most is None or step.premise.machine.standing or not _act(step).do.startswith(("agent:", "run:")):
        return ""
    return "" if step.was.turns < most else f"a turn begins after {most}, which is the limit"


def covered(step: Observation) -> str:
    """GUARD-4: what was spent, plus another turn like the last one, stays within the budget."""
    budget, was = step.premise.settings.budget, step.was
    if not _act(step).do.startswith(("agent:", "run:")) or step.premise.machine.supervises:
        return ""  # here the budget is that of each child run
    reserve = step.premise.cost_uusd + step.premise.tokens if was.priced else 0
    most = budget.uusd if budget.tokens is None else budget.tokens
    if most is not None and was.spent + reserve > most:
        return "a turn begins that the budget does not cover"
    late = budget.wall_us is not None and was.took_us >= budget.wall_us
    return "a turn begins though the time is used up" if late else ""


def retry_allowed(step: Observation) -> str:
    if not _act(step).do.startswith("agent:") or step.was.failed <= _retries(step):
        return ""
    return f"a turn is tried again after {step.was.failed} failed ones, where {_retries(step)} retries are allowed"


def _retries(step: Observation) -> int:
    most = step.premise.most("retries")
    return 3 if most is None else most


def circuit_closed(step: Observation) -> str:
    most, act = step.premise.most("no_progress"), _act(step)
    counts = act.role in WORKERS and act.do.startswith("agent:")
    again = step.was.failed > 0  # a failed process comes before a loop rule: the turn is tried again
    probes = "progressed" in step.before.here.on
    if counts and not again and not probes and step.was.fruitless > 1:
        return f"a turn begins after {step.was.fruitless} probes with no fewer failing tests"
    if most is None or not counts or again or probes or step.was.asked or step.was.idle < max(most, 1):
        return ""
    return f"a turn begins after {step.was.idle} without progress, where {most} open the circuit"


def may_intervene(step: Observation) -> str:
    most = step.premise.most("cto")
    if (
        _act(step).do != "agent:cto"
        or _act(step).why == PLAN_REVIEW
        or step.was.interventions < (2 if most is None else most)
    ):
        return ""
    return f"the CTO intervenes again after {step.was.interventions} times"


def asks_after_crashes(step: Observation) -> str:
    if _act(step).why == "rollback":  # an order of a person
        return ""
    if step.before.tries.gone:
        return "an act begins though what acts stand on is gone"
    return f"an act begins after {step.was.cut} interruptions in a row" if step.was.cut >= 5 else ""


def idle_when_ended(step: Observation) -> str:
    already_ended = step.before.status == "ended" and not may_follow_end(step.before, step.event)
    return "a fact about a run that has ended" if already_ended else ""


def interruption_is_free(step: Observation) -> str:
    changed = differences(step.before, step.after, UNCHANGED)
    return f"an interruption changes {', '.join(changed)}" if changed else ""


def limits_are_free(step: Observation) -> str:
    event = step.event
    assert isinstance(event, e.ActFinished)
    free = ("rate_limited", "plan_limit", "overloaded", "network", "auth", "billing")
    if not isinstance(event.result, e.TurnEnded) or event.result.verdict not in free:
        return ""
    changed = differences(step.before, step.after, COUNTS)
    return f"'{event.result.verdict}' changes {', '.join(changed)}" if changed else ""


# ---- stops and ends --------------------------------------------------------------------------------------------------


def _stop(step: Observation) -> e.Stop:
    assert isinstance(step.event, e.Stopped | e.Ended)
    return step.event.stop


def known_code(step: Observation) -> str:
    code = _stop(step).code
    try:
        status = code_of(code).status
    except FlyballError:
        return f"'{code}' is no code"
    is_now = step.after.status
    fits = is_now == status or code.startswith("error.")
    return "" if fits else f"'{code}' makes the run {is_now}, not {status}"


def no_same_stop(step: Observation) -> str:
    stop = _stop(step)
    here = (step.after.state, stop.code, stop.rule, step.was.ran_out)
    return f"the answer leads straight back to {stop.code}" if step.was.answered == here else ""


def _below(step: Observation) -> bool:
    """The stop has the code of the child run, whose limit it was."""
    below = step.before.path.child_stop
    return below is not None and below.code in (_stop(step).code, _stop(step).rule)


def no_fewer_iterations(step: Observation) -> str:
    """A run that ends because of a limit has used it up."""
    if _below(step):
        return ""
    stop, most = _stop(step), step.premise.most
    code = stop.rule if stop.code.startswith(("wait.escalation", "blocked.table.")) else stop.code
    iterations = most("iterations")
    if code == "limit.iterations" and iterations is not None and step.was.iteration < iterations:
        return f"it stops for iterations after {step.was.iteration} of {iterations}"
    return ""


def no_fewer_entries(step: Observation) -> str:
    stop, machine = _stop(step), step.premise.machine
    name = next((s.name for s in machine.states.values() if s.counts == "fix_attempts"), "")
    most, entries = step.premise.most(name), step.was.entries.get(name, 0)
    if stop.code != "limit.fix_attempts" or most is None or _below(step) or entries >= most:
        return ""
    return f"it stops for fix attempts after {entries} of {most}"


def no_fewer_turns(step: Observation) -> str:
    stop, most = _stop(step), step.premise.most("turns")
    if (
        stop.code != "limit.turns"
        or stop.rule != "turns"
        or most is None
        or _below(step)
        or step.was.turns >= most
    ):
        return ""
    return f"it stops for turns after {step.was.turns} of {most}"


def no_fewer_retries(step: Observation) -> str:
    if _stop(step).rule != "retries" or _below(step) or step.was.failed > _retries(step):
        return ""
    return f"it gives up after {step.was.failed} failed turns, where {_retries(step)} retries are allowed"


def succeeds_at_an_end(step: Observation) -> str:
    event = step.event
    assert isinstance(event, e.Ended)
    if event.end != "success":
        return ""
    if step.before.machine.states[step.before.state].end != "success":
        return f"it succeeds in '{step.before.state}', which is no success end"
    good = "completed" if step.premise.proves else "completed_unproven"
    return "" if event.stop.code == good else f"it ends '{event.stop.code}', not '{good}'"


def stays_unwaivable(step: Observation) -> str:
    event = step.event
    assert isinstance(event, e.Stopped)
    ruling, question = step.before.evidence.ruling, event.question
    if question is None or question.kind != "block" or ruling is None or ruling.waivable:
        return ""
    return f"'{ruling.rule}' could be approved" if "approve" in question.verbs else ""


# ---- what is never lost --------------------------------------------------------------------------------------------------------


def granted_by_a_person(step: Observation) -> str:
    """GUARD-2: a call is allowed only by a person's answer to the question about it."""
    before, after, event = step.before, step.after, step.event
    expected = before.evidence.grants
    if isinstance(event, e.ActFinished) and after.turn > before.turn:
        expected = tuple(call for call in expected if not call.startswith("once:"))
    if isinstance(event, e.Answered) and before.stop and before.stop.code == "wait.permission":
        call = before.stop.call
        grant = {"approve": call, "grant": f"once:{call}"}.get(event.verb, "") if call else ""
        expected = (*expected, grant) if grant else expected
    return (
        ""
        if after.evidence.grants == expected
        else f"{after.evidence.grants or 'nothing'} is granted where {expected or 'nothing'} should be"
    )


def files_remembered(step: Observation) -> str:
    """ALO-5: files changed before, and those that this event reports, are known after it."""
    if isinstance(step.event, e.Charged) and step.premise.machine.supervises:
        return ""  # the child run has a checkout of its own, and records its changes itself
    result = step.event.result if isinstance(step.event, e.ActFinished) else step.event
    missing = {*step.before.checkout.changed, *getattr(result, "changed", ())}.difference(
        step.after.checkout.changed
    )
    return f"{', '.join(sorted(missing))} was changed and is forgotten" if missing else ""


def only_appended(step: Observation) -> str:
    """ALO-8: the record of what was done only grows."""
    before, after = step.before, step.after
    if not type(step.event).__struct_config__.frozen:
        return "a fact can be changed"
    shrunk = [name for name in ("iteration", "turn", "acts") if getattr(after, name) < getattr(before, name)]
    return f"{', '.join(shrunk)} was taken back" if shrunk else ""
