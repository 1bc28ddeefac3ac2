"""TASK-7: the record of a task and its events in the JSON form of seed 001."""

from __future__ import annotations

import json
from typing import Any

import pytest

from flyball.domain import events as e
from flyball.domain.settings import MINUTE
from flyball.views.task_record import TaskEvents, record
from support import FAIL, PASS, Played, Script, begun, play, says, settings

GUIDED = says(outcome="retry", data={"kind": "retry", "guidance": "Read the\x1b[31m schema first"})
FIELDS = ["timestamp", "taskId", "event", "from", "to", "actor", "reason", "metadata"]


def task(**plays: Any) -> Played:
    return play(Script(**plays), begun("task", settings()))


def rows(played: Played, name: str = "") -> list[dict[str, Any]]:
    told = TaskEvents()
    known = [row for event in played.events for row in told.of(event)]
    return [row for row in known if name in ("", row["event"])]


def test_every_event_has_the_fields_of_the_seed_in_its_order() -> None:
    played = task(planning=[FAIL] * 3 + [PASS], cto_intervention=GUIDED)
    known = rows(played)
    assert {row["event"] for row in known} == {
        "STATE_TRANSITION",
        "FAILURE_INCREMENT",
        "AGENT_ASSIGNED",
        "CTO_INTERVENTION",
    }
    for row in known:
        assert list(row) == FIELDS and row["taskId"] == "r1" and row["timestamp"].endswith("Z")
        assert row["actor"] and row["reason"] and json.loads(json.dumps(row)) == row


def test_every_transition_is_told_with_its_actor() -> None:
    played = task()
    told = [(row["from"], row["to"], row["actor"]) for row in rows(played, "STATE_TRANSITION")]
    assert told == [(move.source, move.target, move.actor) for move in played.of(e.Moved)]
    assert told[2] == ("planning", "validated", "@agent-solution-validator")


def test_failures_and_the_help_of_the_cto_are_told() -> None:
    played = task(planning=[FAIL] * 3 + [PASS], cto_intervention=GUIDED)
    failures = rows(played, "FAILURE_INCREMENT")
    assert [(row["from"], row["metadata"]["failureCount"]) for row in failures] == [
        ("planning", 1),
        ("planning", 2),
        ("planning", 3),
    ]
    (help_,) = rows(played, "CTO_INTERVENTION")
    assert (help_["from"], help_["to"], help_["actor"]) == ("cto_intervention", "planning", "@agent-cto")
    assert (help_["reason"], help_["metadata"]["recovery"]) == ("Read the schema first", "retry")
    assert help_["metadata"]["ctoAttempts"] == 1


def test_an_agent_is_assigned_when_it_or_its_role_changes() -> None:
    assigned = rows(task(planning=[FAIL, FAIL, PASS]), "AGENT_ASSIGNED")
    assert [(row["from"], row["metadata"]["role"]) for row in assigned] == [("planning", "validator")]
    helped = rows(task(planning=[FAIL] * 3 + [PASS], cto_intervention=GUIDED), "AGENT_ASSIGNED")
    assert [row["metadata"]["role"] for row in helped] == ["validator", "cto", "validator"]


def test_the_record_says_where_a_task_is_and_how_it_came_there() -> None:
    played = task(planning=says(ask="Which table?"))
    now = played.run.entered_at + 90 * MINUTE
    known = record(played.events, now)
    assert (known["id"], known["title"], known["currentState"]) == ("r1", "fix it", "planning")
    assert (known["previousState"], known["assignedAgent"]) == ("assigned", "script:x")
    assert (known["failureCount"], known["ctoAttempts"], known["timeInState"]) == (0, 0, 90.0)
    assert [(row["fromState"], row["toState"]) for row in known["stateHistory"]] == [
        ("pending", "assigned"),
        ("assigned", "planning"),
    ]
    assert known["timeByState"]["planning"] == 90.0
    assert sum(known["timeByState"].values()) == pytest.approx(known["totalTaskTime"], abs=0.01)


def test_the_record_counts_the_help_of_the_cto() -> None:
    known = record(task(planning=[FAIL] * 3 + [PASS], cto_intervention=GUIDED).events, 0)
    assert (known["ctoAttempts"], known["failureCount"]) == (1, 0)


def test_the_clocks_of_a_task_that_has_ended_stand_still() -> None:
    played = task()
    early, late = (record(played.events, played.now + more) for more in (0, 90 * MINUTE))
    assert early == late and early["currentState"] == "completed" and early["assignedAgent"] is None


def test_a_failure_in_the_present_state_is_counted() -> None:
    played = task(planning=[FAIL, says(ask="Which?")])
    assert record(played.events, played.now)["failureCount"] == 1
