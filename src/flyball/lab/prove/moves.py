"""Every possible next move of a run, and the events that the production rules make of it.

What the supervisor would do is done here by hand: a child gets its id, a child run charges and stops its parent, a
message may arrive at any point. Everything else is done by the real `due`, `react`, `hear` and `wake`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from flyball.core import decide, mail
from flyball.core.decide import Do, Finished, Note, Rest
from flyball.domain import events as e, messages
from flyball.lab.prove.act_results import results, usage_of
from flyball.lab.prove.premises import Premise
from flyball.state import fold as runs
from flyball.state.run import Run

STALE = "another"  # the hash of something else than what was shown
WORDS = ("answer", "redirect")  # answers that carry text
BELOW = (
    ("waiting", "wait.question", None),
    ("waiting", "wait.rate_limit", 10),
    ("waiting", "limit.budget_usd", None),
    ("paused", "wait.breakpoint", None),
    ("blocked", "blocked.guard.radius", None),
)


class Move(Struct, frozen=True, kw_only=True):
    """One thing that may happen next."""

    says: str
    kind: str  # due | finished | interrupted | message | resume | outcome | below
    at: int = 0
    finished: Finished | None = None
    message: messages.AnyMessage | None = None
    events: tuple[e.AnyEvent, ...] = ()
    outcome: str = ""


def moves(run: Run, premise: Premise) -> Iterator[Move]:
    now = run.at + 1
    yield from _of_its_own(run, now)
    if run.act is not None:
        yield from _in_flight(run, run.act, premise, now)
    if run.question is not None:
        yield from _answers(run, run.question, premise, now)
    if run.status in ("paused", "waiting"):
        yield Move(says="`flyball resume`", kind="resume", at=now)
    if run.stop is not None and run.stop.code == "wait.take_over":
        yield Move(
            says="a person hands it back", kind="message", at=now, message=messages.HandBack(who="anna")
        )
    if not run.asked:
        for what in premise.messages:
            yield Move(says=f"a person says {what}", kind="message", at=now, message=messages.Ask(what=what))


def _of_its_own(run: Run, now: int) -> Iterator[Move]:
    match decide.due(run, now):
        case Do(act):
            yield Move(says=f"{act.do} begins{_why(act)}", kind="due", at=now)
        case Note():
            yield Move(says="the rules go on", kind="due", at=now)
        case Rest(until) if until is not None and run.act is None:
            yield Move(says="the wait is over", kind="due", at=until)
        case Rest():
            if run.status == "running" and run.act is None and run.here.act == "listen":
                for outcome in run.here.on:
                    yield Move(says=f"there is {outcome}", kind="outcome", at=now, outcome=outcome)


def _why(act: e.Act) -> str:
    return f" ({act.why})" if act.why else ""


# ---- an act is in flight -------------------------------------------------------------------------------------


def _in_flight(run: Run, act: e.Act, premise: Premise, now: int) -> Iterator[Move]:
    if act.child:
        yield from _below(run, act, premise, now)
        return
    for came in results(run, act, premise):
        yield Move(says=came.says, kind="finished", at=now, finished=came.finished)
    if run.tries.interruptions < premise.crashes or (
        premise.results == "all" and run.tries.interruptions == 0
    ):
        cut = e.ActInterrupted(at=now, key=act.key, reason="its keeper was killed")
        yield Move(says="its process is killed with the driver", kind="interrupted", at=now, events=(cut,))
        if run.tries.interruptions == 0:
            cut = e.ActInterrupted(at=now, key=act.key, reason="its sandbox is gone", gone=True)
            yield Move(says="its sandbox is gone", kind="interrupted", at=now, events=(cut,))
    if run.asked in ("stop", "cancel"):
        cut = e.ActInterrupted(at=now, key=act.key, reason=runs.BY_A_PERSON)
        yield Move(says="the act is stopped", kind="interrupted", at=now, events=(cut,))


def _below(run: Run, act: e.Act, premise: Premise, now: int) -> Iterator[Move]:
    stopped = run.status != "running"
    usage = usage_of(premise)
    for came in results(run, act, premise):
        result = came.finished.result
        assert isinstance(result, e.ChildEnded)
        continued: list[e.AnyEvent] = [e.ChildWentOn(at=now, run=act.child)] if stopped else []
        if result.turns:
            continued.append(
                e.Charged(at=now, run=act.child, usage=usage, turns=result.turns, took_us=premise.took_us)
            )
        yield Move(says=came.says, kind="finished", at=now, finished=came.finished, events=tuple(continued))
    if stopped:
        went_on = e.ChildWentOn(at=now, run=act.child)
        yield Move(says="the run below goes on", kind="below", at=now, events=(went_on,))
    elif premise.results != "onward":
        for status, code, until in BELOW:
            yield _below_stops(act, status, code, now + until if until else None, now)


def _below_stops(act: e.Act, status: str, code: str, until: int | None, now: int) -> Move:
    stop = e.ChildStopped(at=now, run=act.child, status=status, stop=e.Stop(code=code), until=until)
    return Move(says=f"the run below stops: {code}", kind="below", at=now, events=(stop,))


# ---- people --------------------------------------------------------------------------------------------------


def _answers(run: Run, question: e.Question, premise: Premise, now: int) -> Iterator[Move]:
    for verb in question.verbs:
        plain = messages.Answer(question=question.id, verb=verb, who="anna", shown=question.shown)
        for answer in _variants(run, plain, premise):
            where = f" {answer.data['state']}" if answer.data else ""
            yield Move(says=f"a person answers: {verb}{where}", kind="message", at=now, message=answer)
    if premise.results == "all":
        stale = messages.Answer(question=question.id, verb=question.verbs[0], shown=STALE)
        yield Move(says="a person answers what was shown before", kind="message", at=now, message=stale)


def _variants(run: Run, plain: messages.Answer, premise: Premise) -> Iterator[messages.Answer]:
    """An answer that names a state: each state, or only the first and the last one."""
    target = run.here.on.get(plain.verb, "") if run.here.act == "ask" else ""
    if target.startswith("any:"):
        choices = run.machine.targets(target)
        for state in choices if premise.results == "all" else dict.fromkeys((choices[0], choices[-1])):
            yield replace(plain, data={"state": state})
        return
    yield replace(plain, text="do it so") if plain.verb in WORDS else plain


# ---- what the rules make of it -------------------------------------------------------------------------------


def facts(run: Run, move: Move) -> list[e.AnyEvent]:
    """The events that would be journaled."""
    match move.kind:
        case "due":
            return _due(run, move.at)
        case "finished":
            assert move.finished is not None
            after = runs.fold(run, move.events)
            return [*move.events, *decide.react(after, move.finished, move.at)]
        case "message":
            assert move.message is not None
            return mail.hear(run, messages.encode(move.message), 1, move.at)
        case "resume":
            return mail.wake(run, move.at)
        case "outcome":
            return decide.trigger(run, move.outcome, move.at)
        case _:
            return list(move.events)


def _due(run: Run, now: int) -> list[e.AnyEvent]:
    match decide.due(run, now):
        case Do(act):
            child: dict[str, Any] = {"child": f"c{run.acts}"} if act.do.startswith("run:") else {}
            return [e.ActStarted(at=now, act=replace(act, **child))]
        case Note(events):
            return list(events)
        case _:
            return []
