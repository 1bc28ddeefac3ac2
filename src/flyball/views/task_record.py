"""A run as seed 001 records a task (TASK-7): its record, and its events in the seed's JSON form.

Both are made from the run's events. Times are UTC; durations are minutes, as the seed has them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from flyball.core import stops
from flyball.domain import events as e
from flyball.domain.settings import MINUTE
from flyball.state.fold import apply, begin
from flyball.state.run import Run
from flyball.views.measures import measure
from flyball.views.text import clean, iso, one_line

ORCHESTRATOR = "build orchestrator"
MONITOR = "@agent-plan-manager"  # the seed's: it watches the time in states


class TaskEvents:
    """Turns the events of one run, in order, into the seed's events."""

    def __init__(self) -> None:
        self.run: Run | None = None
        self._agent = ""
        self._guidance = ""

    def of(self, event: e.AnyEvent) -> list[dict[str, Any]]:
        """What one event says in the seed's form: none, one or two events."""
        if isinstance(event, e.RunBegan):
            self.run = begin(event)
            return []
        before = self.run
        if before is None:
            return []
        self.run = apply(before, event)
        return list(self._told(before, event))

    def _told(self, run: Run, event: e.AnyEvent) -> Iterator[dict[str, Any]]:
        match event:
            case e.ActStarted(act=act) if act.agent and f"{act.do} {act.agent}" != self._agent:
                self._agent = f"{act.do} {act.agent}"
                role, actor = act.role, run.machine.actors.get(act.state, ORCHESTRATOR)
                data = {"agent": act.agent, "role": role, "turn": act.turn}
                yield _event(run, event, "AGENT_ASSIGNED", act.state, actor, f"{role} is {act.agent}", data)
            case e.ActFinished(result=e.TurnEnded(claim=claim, message=message)):
                self._guidance = str(claim.data.get("guidance") or message)
            case e.Moved():
                yield from self._moved(run, event)
            case e.FailureCounted():
                data = {"failureCount": event.count}
                reason = event.reason
                yield _event(run, event, "FAILURE_INCREMENT", event.state, ORCHESTRATOR, reason, data)
            case e.Warned() if stops.alert_step(event.code):
                data = {
                    "percent": stops.alert_step(event.code),
                    "timeInState": minutes(event.at - run.entered_at),
                    "timeout": minutes(stops.alert_time_us(run)),
                }
                yield _event(run, event, "TIMEOUT_WARNING", run.state, MONITOR, event.text, data)
            case _:
                pass

    def _moved(self, run: Run, event: e.Moved) -> Iterator[dict[str, Any]]:
        actor, data = event.actor or ORCHESTRATOR, {"outcome": event.outcome}
        reason = event.reason or f"{event.source}: {event.outcome}"
        yield _event(run, event, "STATE_TRANSITION", event.source, actor, reason, data, event.target)
        if run.here.of == "cto":
            data = {"recovery": event.outcome, "ctoAttempts": self.run.path.interventions if self.run else 0}
            guidance = one_line(self._guidance, 500) or reason
            yield _event(run, event, "CTO_INTERVENTION", event.source, actor, guidance, data, event.target)


def _event(
    run: Run,
    event: e.AnyEvent,
    name: str,
    state: str,
    actor: str,
    reason: str,
    data: dict[str, Any],
    target: str = "",
) -> dict[str, Any]:
    parent = {"parent": run.began.parent} if run.began.parent else {}
    return {
        "timestamp": iso(event.at),
        "taskId": run.id,
        "event": name,
        "from": state,
        "to": target or state,
        "actor": actor,
        "reason": clean(reason),
        "metadata": {"machine": run.machine.name, **parent, **data},
    }


def record(events: Iterable[e.AnyEvent], now: int) -> dict[str, Any]:
    """The record of a task: where it is, how it came there, and how long that took."""
    story, task_events = list(events), TaskEvents()
    rows = [one for event in story for one in task_events.of(event)]
    history = [_transition(one) for one in rows if one["event"] == "STATE_TRANSITION"]
    run, counts = task_events.run, measure(story, now)
    assert run is not None and counts is not None, "the first event of a run is RunBegan"
    end = counts.updated_at if run.status == "ended" else max(now, run.at)
    return {
        "id": run.id,
        "title": one_line(run.began.task.partition("\n")[0], 200),
        "currentState": run.state,
        "previousState": run.path.previous or None,
        "assignedAgent": _assigned(run, story),
        "failureCount": run.path.failures.get(run.state, 0),
        "ctoAttempts": run.path.interventions,
        "stateHistory": history,
        "createdAt": iso(run.began.at),
        "updatedAt": iso(run.at),
        "timeInState": minutes(end - run.entered_at),
        "totalTaskTime": minutes(end - run.began.at),
        "timeByState": {state: minutes(us) for state, us in counts.state_us.items()},
    }


def _transition(event: dict[str, Any]) -> dict[str, Any]:
    names = {
        "from": "fromState",
        "to": "toState",
        "timestamp": "timestamp",
        "reason": "reason",
        "actor": "actor",
    }
    return {new: event[old] for old, new in names.items()}


def _assigned(run: Run, events: Iterable[e.AnyEvent]) -> str | None:
    """The agent that works now, else the last one; none once the run has ended."""
    agents = [event.act.agent for event in events if isinstance(event, e.ActStarted) and event.act.agent]
    return agents[-1] if agents and run.status != "ended" else None


def minutes(us: int) -> float:
    return round(us / MINUTE, 3)
