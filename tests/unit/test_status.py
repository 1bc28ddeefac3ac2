"""The seeds' own shapes of where a run is: they map one to one, and what is unknown is an error."""

from __future__ import annotations

import pytest

from flyball.errors import FlyballError
from flyball.machines import shipped
from flyball.views import loop_status, run_view
from support import Script, begun, finish, ok, play, start


def test_every_state_of_a_pair_has_a_run_state_and_back() -> None:
    review = shipped("review")
    states = list(review.states)
    named = [run_view.run_state(review, state) for state in states]
    assert named == ["submitted", "working", "reviewing", "completed", "failed"]
    assert [run_view.from_run_state(review, name) for name in named] == states


@pytest.mark.parametrize("name", ["", "paused", "Working"])
def test_an_unknown_state_is_an_error_and_not_failed(name: str) -> None:
    with pytest.raises(FlyballError, match="run state"):
        run_view.from_run_state(shipped("review"), name)
    with pytest.raises(FlyballError, match="no run state"):
        run_view.run_state(shipped("review"), name)


def test_a_run_that_begins_in_an_unknown_state_is_an_error() -> None:
    with pytest.raises(FlyballError, match="'paused'"):
        start(Script(), begun("review", start="paused"))


@pytest.mark.parametrize(
    ("turns", "circuit", "task", "decision", "reason"),
    [
        ([ok("base")], "open", "blocked", "wait", "Run r1 is waiting in 'open': 5 turns"),
        (
            [ok("t1", ask="Which?")],
            "closed",
            "blocked",
            "wait",
            "Run r1 is waiting in 'closed': the agent asked",
        ),
        ([finish("t1")], "closed", "complete", "exit", "Run r1 completed: no files changed"),
    ],
)
def test_the_loop_status_says_circuit_task_and_decision(
    turns: list[object], circuit: str, task: str, decision: str, reason: str
) -> None:
    run = play(Script(**{"agent:worker": turns}), machine="loop").run
    assert (loop_status.circuit(run), loop_status.task_status(run), loop_status.decision(run)) == (
        circuit,
        task,
        decision,
    )
    text = loop_status.loop_status(run)
    assert f"**Circuit State**: {circuit}\n**Task Status**: {task}\n" in text
    assert f"**Decision**: {decision}\n**Reason**: {reason}" in text


def test_what_was_missing_is_the_reason_to_go_on() -> None:
    one = ok("0123456789ab", finished=True, indicators=("all done",))
    played = start(Script(**{"agent:worker": [one, finish("t2")]}), machine="loop")
    run = played.go_on(lambda run: run.turn == 1).run
    assert "**Reason**: Not done yet: 1 of 2 distinct" in loop_status.loop_status(run)
    state = loop_status.loop_state(run)["loopState"]
    assert (state["exitSignal"], state["lastProgress"]) == (True, "01234567")
