"""A piece of the simulated week (`make week` plays all of it): the production lanes under a virtual clock."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest
from msgspec.structs import replace

from flyball.domain import events as e
from flyball.domain.messages import RESUME
from flyball.lab.simulate.onlooker import Line
from flyball.lab.simulate.week import Week, missing, page
from flyball.lab.simulate.week_tasks import TASKS, WeekTask

PIECE = ("Interrupted by something urgent", "Paused, and told something", "The tests fail three times")


def test_a_piece_of_the_week_ends_and_the_report_says_what_is_missing() -> None:
    """More urgent work comes between; a paused step goes on in the same process; nothing is stuck."""
    week = Week((TASKS[0], *(task for task in TASKS if task.text in PIECE)))
    told = week.play()
    assert not told.broken, told.broken
    assert set(week.taken.became.values()) == {"done"} and len(week.taken.became) >= 5
    events = [line.event for line in told.lines]
    assert any(isinstance(event, e.Triggered) and event.interrupts for event in events)
    assert any(isinstance(event, e.Resumed) and event.why == "resumed" for event in events), RESUME
    assert "cto: 'EXECUTING' was never left by 'interrupt'" not in missing(week)
    assert "task: 'committing' was never left by 'refused'" in missing(week)
    assert "  task: 'committing' was never left by 'refused'" in page(week, told)


@pytest.mark.parametrize(
    ("answer", "order"),
    [
        pytest.param("proceed@6h", ["W2", "W3", "W1"], id="when nothing else is left to do"),
        pytest.param("proceed@97m", ["W2", "W1", "W3"], id="while another task is worked on"),
    ],
)
def test_interrupted_work_goes_on_while_the_urgent_plan_waits_for_a_yes(
    answer: str, order: list[str]
) -> None:
    """Another lane asks about the plan. After the yes it comes first again, and two lanes never work at once."""
    urgent, other = (named("Urgent and risky"), named("Goes on while the risky one waits"))
    week = Week((replace(urgent, answers=(answer,)), other, TASKS[0]))
    told = week.play()
    assert not told.broken, told.broken
    parked = [line.run for line in told.lines if isinstance(line.event, e.Parked)]
    taken = [
        line.run for line in told.lines if isinstance(line.event, e.TakenUp) and line.event.what == "parked"
    ]
    assert len(parked) == 1 and parked == taken
    assert week.taken.became == dict.fromkeys(order, "done") and list(week.taken.became) == order
    assert switches(told.lines) <= 3


def named(text: str) -> WeekTask:
    return next(task for task in TASKS if task.text == text)


def switches(lines: Sequence[Line]) -> int:
    """How often an agent of another lane than before worked."""
    above, lanes = dict[str, str](), list[str]()
    for line in lines:
        match line.event:
            case e.RunBegan(parent=parent):
                above[line.run] = above.get(parent, parent) or line.run
            case e.ActStarted(act=act) if act.agent:
                lanes.append(above[line.run])
            case _:
                pass
    return sum(one != other for one, other in pairwise(lanes))
