"""Questions that nobody answers: a default after a while, a reminder each day (HUMAN-1, CTO-9)."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from flyball.core.decide import Note, Rest, due
from flyball.core.stops import VERBS, ask, due_alert, next_alert_at, stop
from flyball.domain import events as e
from flyball.domain.settings import DAY, DEFAULTS, HOUR, TAKES_TEXT, Settings, parse_default
from flyball.state.fold import Events, fold
from flyball.state.run import Run
from flyball.views.notices import Notices
from support import Script, begun, start

CODES = {"approval": "wait.approval", "block": "blocked.guard.radius", "breakpoint": "wait.breakpoint"}


def asks(kind: str, *defaults: str, before: str = "") -> Run:
    """A run that has just asked a question of this kind. `before`: who answered last."""
    run = start(Script(), begun("loop", Settings(defaults=defaults))).run
    run = replace(run, path=replace(run.path, answered_by=before))
    cause = stop(run, CODES.get(kind, "wait.question"))
    return fold(run, ask(Events(run, 10 * HOUR), cause, kind, "What now?"))


def answered(run: Run, now: int) -> list[e.Answered]:
    step = due(run, now)
    return [event for event in step.events if isinstance(event, e.Answered)] if isinstance(step, Note) else []


@pytest.mark.parametrize("kind", [kind for kind in VERBS if kind in DEFAULTS])
def test_a_default_counts_from_its_deadline_on_and_not_before(kind: str) -> None:
    verb = DEFAULTS[kind][0]
    words = " Decide yourself." if verb in TAKES_TEXT else ""
    run = asks(kind, f"{kind} {verb} after 2h{words}")
    assert run.question is not None and run.question.deadline == 12 * HOUR
    assert due(run, 12 * HOUR - 1) == Rest(12 * HOUR)
    (event,) = answered(run, 12 * HOUR)
    assert (event.verb, event.text, event.who, event.how) == (verb, words.strip(), "flyball", "deadline")


def test_a_default_is_used_once_until_a_person_answers() -> None:
    line = "loop go-on after 2h"
    for before, deadline in (("", 12 * HOUR), ("anna", 12 * HOUR), ("flyball", 0)):
        question = asks("loop", line, before=before).question
        assert question is not None and question.deadline == deadline
    assert due(asks("loop", line, before="flyball"), 900 * HOUR) == Rest(None)
    assert due(asks("clarification", line), 900 * HOUR) == Rest(None), "of another kind"


@pytest.mark.parametrize("kind", ["approval", "evidence", "block", "permission"])
def test_what_needs_a_yes_can_only_default_to_no(kind: str) -> None:
    for verb in VERBS[kind]:
        line = f"{kind} {verb} after 1h{' x' if verb in TAKES_TEXT else ''}"
        if verb == "reject":
            assert parse_default(line).verb == verb
        else:
            with pytest.raises(ValueError, match="one of: reject"):
                parse_default(line)


@pytest.mark.parametrize(
    "line",
    [
        *(
            "budget raise after 1h",
            "escalation retry after 1h",
            "done approve after 1h",
            "",
            "loop",
            "loop go-on",
        ),
        *("loop go-on 2h", "loop go-on after", "loop go-on after soon", "loop go-on after 2h now"),
        *("clarification answer after 2h", "loop dance after 2h"),
    ],
)
def test_other_lines_are_refused(line: str) -> None:
    with pytest.raises(ValueError, match=r"after|one of"):
        parse_default(line)


def test_an_open_question_is_asked_again_each_day_and_louder() -> None:
    run, notices = asks("clarification"), Notices()
    first = 10 * HOUR + DAY
    assert next_alert_at(run) == first and due_alert(run, first - 1) == []
    for day in (1, 2, 3):
        (warning,) = due_alert(run, 10 * HOUR + day * DAY)
        run = fold(run, [warning])
        told = notices.of(run, warning)
        assert told is not None and "STILL asks you" in told.title
        assert f"STILL WAITING after {day}d:" in told.body and "What now?" in told.body
        assert due_alert(run, 10 * HOUR + (day + 1) * DAY - 1) == []
    assert run.status == "waiting" and run.question is not None, "it stays open"


def test_how_often_it_is_asked_again_can_be_set() -> None:
    run = start(Script(), begun("loop", Settings(remind_us=2 * HOUR))).run
    run = fold(run, ask(Events(run, HOUR), stop(run, "wait.question"), "clarification", "What now?"))
    assert next_alert_at(run) == 3 * HOUR and due_alert(run, 3 * HOUR - 1) == []
    run = fold(run, due_alert(run, 3 * HOUR))
    assert next_alert_at(run) == 5 * HOUR
