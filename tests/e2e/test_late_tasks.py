"""A task that takes long, over the real command line: it is warned about, shown, raised to the inbox, and goes on."""

from __future__ import annotations

import time
from typing import Any

import pytest
from tests.e2e.helpers import FIXED, QUICK_PROOF, Place

SLOW = 4


@pytest.fixture(scope="module")
def late(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The place, what the inbox and `show` said while the task was late, and how it ended."""
    place = Place(tmp_path_factory.mktemp("late"))
    turn = {"write": {"calc.py": FIXED}, "finish": {"indicators": ["all done", "task complete"]}}
    agent = place.script(
        validator=[{"sleep_s": SLOW, "say": "OUTCOME: approved"}], worker=[turn], reviewer=[{"say": "PASS"}]
    )
    words = ("run", "Fix add", "--machine", "task", "--agent", agent, "--set", QUICK_PROOF)
    process = place.start(*words, "--set", "limits.alert.planning=1s")
    inbox: list[Any] = []
    shown = ""
    deadline = time.monotonic() + 30
    while not inbox and time.monotonic() < deadline:
        time.sleep(0.2)
        inbox = place.fb("inbox", "--json").json
        shown = place.fb("show", "@last").out if inbox else ""
    text = place.fb("inbox").out
    process.communicate(timeout=60)
    yield place, inbox, text, shown, process.returncode
    place.clear()


def test_a_late_task_is_in_the_inbox_while_it_is_late_and_goes_on(late: Any) -> None:
    place, inbox, text, shown, code = late
    (alert,) = inbox
    assert (alert["kind"], alert["code"], alert["state"], alert["verbs"]) == (
        "alert",
        "alert.150",
        "planning",
        [],
    )
    assert "exceeds its alert time; it continues" in text and "the alert time is 1s" in text
    assert "(late); alert after 1s" in shown
    assert code == 0 and place.last()["stop_reason"]["code"] == "completed"
    assert place.fb("inbox", "--json").json == []


def test_the_log_has_each_warning_once_in_both_forms(late: Any) -> None:
    place = late[0]
    said = place.fb("log", "@last").out
    told = [step for step in (80, 100, 150) if said.count(f"(alert.{step})") == 1]
    assert told[-1] == 150  # a busy machine may wake too late for an earlier one
    events = place.fb("log", "@last", "--format", "events").lines
    warnings = [row["metadata"]["percent"] for row in events if row["event"] == "TIMEOUT_WARNING"]
    assert warnings == told
    task = [row for row in events if row["metadata"]["machine"] == "task"]
    moves = [row["to"] for row in task if row["event"] == "STATE_TRANSITION"]
    assert moves[:3] == ["assigned", "planning", "validated"] and moves[-1] == "completed"
    assert {row["metadata"].get("parent") for row in events if row not in task} >= {task[0]["taskId"]}


def test_show_has_the_record_of_the_task(late: Any) -> None:
    known = late[0].fb("show", "@last", "--json").json
    record = known["record"]
    assert (record["currentState"], record["previousState"]) == ("completed", "committing")
    assert record["timeByState"]["planning"] >= SLOW / 60 and len(record["stateHistory"]) == 9


@pytest.mark.parametrize(
    ("key", "complaint"),
    [("limits.alert.nowhere=1s", "has no limit 'alert.nowhere'"), ("limits.alert.planning=soon", "soon")],
)
def test_an_alert_time_that_makes_no_sense_is_refused(late: Any, key: str, complaint: str) -> None:
    place = late[0]
    agent = place.script("none", validator=[])
    said = place.fb("run", "x", "--machine", "task", "--agent", agent, "--set", QUICK_PROOF, "--set", key)
    assert (said.code, said.err.count("\n")) == (2, 1) and complaint in said.err
