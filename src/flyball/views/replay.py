"""Decide a run's history again with other settings, from the same facts. Nothing is run.

Results of acts and messages from people are taken from the journal; Flyball's own decisions are made again. The two
lists of decisions are compared up to the first difference.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from flyball.core.decide import Do, Finished, Note, due, react
from flyball.core.mail import answer
from flyball.domain import events as e
from flyball.domain.messages import Answer
from flyball.domain.settings import Settings
from flyball.errors import FlyballError
from flyball.state.fold import apply, begin, fold
from flyball.state.run import Run

DECIDED = (e.Moved, e.Stopped, e.Ended, e.Held, e.Skipped, e.FailureCounted)
FROM_OUTSIDE = (e.Told, e.Asked, e.Resumed, e.ChildStopped, e.ChildWentOn, e.Charged, e.WindowSeen)


class Difference(Struct, frozen=True):
    """The first decision that differs; None on one side: there was no further decision."""

    turn: int
    state: str
    was: e.AnyEvent | None
    now: e.AnyEvent | None


class Replay(Struct, frozen=True):
    same: int  # decisions up to the first difference
    difference: Difference | None
    run: Run


def replay(events: Sequence[e.AnyEvent], settings: Settings) -> Replay:
    """Decide a run's history again with `settings`."""
    first = events[0]
    if not isinstance(first, e.RunBegan):
        raise FlyballError("This history does not start with RunBegan, so it cannot be replayed.")
    recorded = iter([event for event in events if isinstance(event, DECIDED)])
    run, same = begin(replace(first, settings=settings)), 0
    for decisions, after in _decisions(run, events[1:]):
        run = after
        for event in decisions:
            was = next(recorded, None)
            if was is None or _differ(was, event):
                return Replay(same, Difference(run.turns, run.state, was, event), run)
            same += 1
    was = next(recorded, None)
    return Replay(same, Difference(run.turns, run.state, was, None) if was else None, run)


def _differ(was: e.AnyEvent, now: e.AnyEvent) -> bool:
    """Times and thresholds may differ; the decision may not."""
    return _essence(was) != _essence(now)


def _essence(event: e.AnyEvent) -> tuple[str, ...]:
    match event:
        case e.Moved():
            return ("moved", event.source, event.target, event.outcome)
        case e.Stopped():
            return ("stopped", event.status, event.stop.code)
        case e.Ended():
            return ("ended", event.end, event.stop.code)
        case e.Held():
            return ("held", event.outcome, event.until)
        case e.Skipped():
            return ("skipped", event.what, event.reason)
        case e.FailureCounted():
            return ("failure", event.state, str(event.count))
        case _:
            return (e.kind(event),)


def _decisions(run: Run, events: Sequence[e.AnyEvent]) -> Iterator[tuple[list[e.AnyEvent], Run]]:
    """Each batch of decisions with the run after it, fed with what the journal recorded from outside."""
    rulings = {event.key: event.ruling for event in events if isinstance(event, e.Ruled)}
    for event in events:
        while True:
            step = due(run, event.at)
            if not isinstance(step, Note):
                break
            run = fold(run, step.events)
            yield [x for x in step.events if isinstance(x, DECIDED)], run
        match event:
            case e.ActStarted():
                if not isinstance(step, Do) or step.act.do != event.act.do:
                    return
                run = apply(run, event)
            case e.ActFinished():
                if run.act is None or run.act.key != event.key:
                    return
                finished = Finished(
                    key=event.key, result=event.result, took_us=event.took_us, ruling=rulings.get(event.key)
                )
                facts = react(run, finished, event.at)
                run = fold(run, facts)
                yield [x for x in facts if isinstance(x, DECIDED)], run
            case e.ActInterrupted():
                run = apply(run, event)
            case e.RestoreOrdered() if event.why in ("rollback", "hand-back"):
                run = apply(run, event)
            case e.Answered():
                if run.question is None or event.verb not in run.question.verbs:
                    return
                facts = answer(run, _message(run.question.id, event), event.at)
                run = fold(run, facts)
                yield [x for x in facts if isinstance(x, DECIDED)], run
            case _ if isinstance(event, FROM_OUTSIDE):
                run = _from_outside(run, event)
            case _:
                pass


def _message(question: str, event: e.Answered) -> Answer:
    return Answer(
        question=question, verb=event.verb, text=event.text, who=event.who, how=event.how, data=event.data
    )


def _from_outside(run: Run, event: e.AnyEvent) -> Run:
    """A message from a person or the cost of a child run. Flyball's own messages follow from deciding again."""
    if isinstance(event, e.Told) and event.who in ("flyball", "proof"):
        return run
    if isinstance(event, e.Resumed) and run.status == "running":
        return run
    return apply(run, event)
