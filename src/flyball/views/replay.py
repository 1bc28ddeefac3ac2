"""The decisions of a run made again, under other settings, from the same facts. Nothing is run.

What acts came to, and what people said, is taken from the journal; what Flyball decided is decided anew. The two
histories are compared decision by decision, until they part.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from flyball.core import events as e
from flyball.core.decide import Do, Finished, Note, due, react
from flyball.core.letters import Answer, answer
from flyball.core.run import Run, apply, begin, fold
from flyball.core.settings import Settings
from flyball.errors import FlyballError

DECIDED = (e.Moved, e.Stopped, e.Ended, e.Held, e.Skipped, e.FailureCounted)
HEARD = (e.Told, e.Asked, e.Resumed, e.ChildStopped, e.ChildWentOn, e.Charged, e.WindowSeen)


class Parting(Struct, frozen=True):
    """Where two histories of one run differ for the first time; None on either side: it had come to its end."""

    turn: int
    state: str
    was: e.AnyEvent | None
    now: e.AnyEvent | None


class Replayed(Struct, frozen=True):
    decisions: int  # made alike
    parting: Parting | None
    run: Run


def replay(events: Sequence[e.AnyEvent], settings: Settings) -> Replayed:
    """Decide a run's history again under `settings`."""
    first = events[0]
    if not isinstance(first, e.RunBegan):
        raise FlyballError("A history begins with RunBegan; this one does not.")
    recorded = iter([event for event in events if isinstance(event, DECIDED)])
    run, alike = begin(replace(first, settings=settings)), 0
    for decided in _decisions(run, events[1:]):
        run = decided[-1]
        for event in decided[0]:
            was = next(recorded, None)
            if was is None or _differ(was, event):
                return Replayed(alike, Parting(run.turns, run.state, was, event), run)
            alike += 1
    was = next(recorded, None)
    return Replayed(alike, Parting(run.turns, run.state, was, None) if was else None, run)


def _differ(was: e.AnyEvent, now: e.AnyEvent) -> bool:
    """Times and thresholds may differ; what was decided may not."""
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
    """Each batch of decisions, with the run after it, fed by what the journal says came from outside."""
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
                done = Finished(
                    key=event.key, result=event.result, took_us=event.took_us, ruling=rulings.get(event.key)
                )
                facts = react(run, done, event.at)
                run = fold(run, facts)
                yield [x for x in facts if isinstance(x, DECIDED)], run
            case e.ActInterrupted():
                run = apply(run, event)
            case e.RestoreOrdered() if event.why in ("rollback", "hand-back"):
                run = apply(run, event)
            case e.Answered():
                if run.question is None or event.verb not in run.question.verbs:
                    return
                facts = answer(run, _letter(run.question.id, event), event.at)
                run = fold(run, facts)
                yield [x for x in facts if isinstance(x, DECIDED)], run
            case _ if isinstance(event, HEARD):
                run = _heard(run, event)
            case _:
                pass


def _letter(question: str, event: e.Answered) -> Answer:
    return Answer(
        question=question, verb=event.verb, text=event.text, who=event.who, how=event.how, data=event.data
    )


def _heard(run: Run, event: e.AnyEvent) -> Run:
    """A person's word or a descendant's cost. What Flyball said of itself is said again by deciding."""
    if isinstance(event, e.Told) and event.who in ("flyball", "proof"):
        return run
    if isinstance(event, e.Resumed) and run.status == "running":
        return run
    return apply(run, event)
