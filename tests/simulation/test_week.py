"""A piece of the simulated week (`make week` plays all of it): the production lanes under a virtual clock."""

from __future__ import annotations

from flyball.domain import events as e
from flyball.domain.messages import RESUME
from flyball.lab.simulate.week import Week, missing, page
from flyball.lab.simulate.week_tasks import TASKS

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
