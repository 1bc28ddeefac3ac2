"""Notices: which events are worth one, in which words, and how many go out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from flyball.domain import events as e
from flyball.domain.settings import HOUR, MINUTE
from flyball.errors import ConfigError
from flyball.runtime import listeners
from flyball.state.fold import fold
from flyball.state_dir import StateDir
from flyball.views.notices import AGAIN_US, MOST, PERIOD_US, Notice, Notices, Throttle
from support import Played, Script, bad, begun, failing, ok, play, ruled, says, settings


def titles(played: Played) -> list[str]:
    """Of every notice about a run, in order."""
    told, run = Notices(), None
    known: list[str] = []
    for event in played.events:
        run = fold(run, [event])
        notice = told.of(run, event)
        known += [notice.title.removeprefix("flyball: run r1 ")] if notice else []
    return known


def build(**plays: Any) -> Played:
    return play(Script(**plays), begun("build", settings()))


LIMITED = bad("plan_limit", reset_at=HOUR)
CASES: dict[str, tuple[Played, list[str]]] = {
    "done": (build(), ["completed"]),
    "failed": (build(proof__test=failing(fingerprint="a")), ["failed"]),
    "asked": (build(write=ok("t1", ask="Which?")), ["asks you (clarification)"]),
    "blocked": (build(write=ruled("deny", "t1")), ["asks you (block)"]),
    "limit": (build(plan=[LIMITED, ok("base")]), ["waits for a rate limit", "continues", "completed"]),
    "escalated": (
        play(
            Script(planning=says("FAIL"), cto_intervention=says(outcome="escalate")),
            begun("task", settings()),
        ),
        ["needs your decision"],
    ),
    "a child's end": (play(Script(), begun("build", settings(), owner=False, parent="p", root="p")), []),
}


@pytest.mark.parametrize("name", CASES)
def test_people_are_told_of_what_concerns_them(name: str) -> None:
    played, expected = CASES[name]
    assert titles(played) == expected


def test_a_late_task_is_told_at_the_whole_time_and_when_it_is_raised() -> None:
    run = build(write=ok("t1", ask="Which?")).run
    codes = ("alert.80", "alert.100", "alert.150", "proof.invalid")
    events = [e.Warned(at=run.at, code=code, text="in 'write' for 1h") for code in codes]
    assert [bool(Notices().of(run, event)) for event in events] == [False, True, True, False]


def test_a_question_is_told_with_its_text_and_how_to_answer() -> None:
    played = build(write=ok("t1", ask="Which \x1b[31mtable?\n# Now"))
    stop = next(event for event in played.events if isinstance(event, e.Stopped))
    notice = Notices().of(played.run, stop)
    assert (
        notice
        and "table?" in notice.body
        and "flyball answer r1.1" in notice.body
        and "\x1b" not in notice.body
    )


def notice(number: int) -> Notice:
    return Notice(f"k{number}", f"flyball: t{number}", "b")


def test_the_same_thing_is_told_once_an_hour() -> None:
    throttle = Throttle()
    assert [throttle.admit(notice(1), at) for at in (0, 1, AGAIN_US - 1, AGAIN_US)] == [
        True,
        False,
        False,
        True,
    ]
    assert throttle.held == []


def test_what_is_too_much_is_told_together_when_there_is_room() -> None:
    throttle = Throttle()
    sent = [throttle.admit(notice(n), MINUTE) for n in range(MOST + 30)]
    assert sent == [True] * MOST + [False] * 30
    assert throttle.summary(MINUTE + PERIOD_US - 1) is None
    assert throttle.wait_s(MINUTE) == PERIOD_US / 1_000_000
    later = throttle.summary(MINUTE + PERIOD_US)
    assert later and "30 more messages" in later.title and "t10" in later.body and "and 10 more" in later.body
    assert (throttle.summary(MINUTE + PERIOD_US), throttle.wait_s(0)) == (None, None)
    assert throttle.admit(notice(99), MINUTE + PERIOD_US)


def notifier(tmp_path: Path, sender: Any, urls: Sequence[str] = ("json://x",)) -> listeners.Notifier:
    dirs = StateDir(tmp_path)
    if urls:
        listeners.keep_addresses(dirs.run("r1").notify, urls)
    return listeners.Notifier(dirs, sender)


def test_a_storm_is_ten_messages_and_one_more(tmp_path: Path) -> None:
    sent: list[Notice] = []
    told = notifier(tmp_path, lambda urls, one: bool(sent.append(one)) or True)
    played = build(write=ok("t1", ask="Which?"))
    stop = next(event for event in played.events if isinstance(event, e.Stopped))
    assert stop.question
    for number in range(200):
        question = e.Question(id=f"r1.{number}", kind="clarification", text="?", verbs=("answer",))
        told.note(played.run, e.Stopped(at=0, status="waiting", stop=stop.stop, question=question))
    told.close()
    assert len(sent) == MOST + 1 and "190 more messages" in sent[-1].title and told.failed == 0


def test_a_sender_that_fails_or_raises_is_only_counted(tmp_path: Path) -> None:
    def raises(urls: Sequence[str], one: Notice) -> bool:
        raise RuntimeError("no route")

    for sender in (raises, lambda urls, one: False):
        told = notifier(tmp_path, sender)
        for event in (played := build()).events:
            told.note(played.run, event)
        told.close()
        assert told.failed == 1


def test_without_an_address_nothing_is_sent(tmp_path: Path) -> None:
    sent: list[Notice] = []
    told = notifier(tmp_path, lambda urls, one: bool(sent.append(one)), urls=())
    (tmp_path / "runs" / "r1").mkdir(parents=True)
    (tmp_path / "runs" / "r1" / "notify.json").write_text("{broken")
    for event in (played := build()).events:
        told.note(played.run, event)
    told.close()
    assert sent == []


@pytest.mark.parametrize("url", ["nonsense", "secret://hunter2@host"])
def test_an_address_that_cannot_be_used_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(ConfigError, match="is not one that Apprise knows") as problem:
        listeners.check(["json://localhost", url])
    assert "address 2" in str(problem.value) and "hunter2" not in str(problem.value)
