"""What people say to runs: it is left as a message, bound to what they saw, and no agent says it for them."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Generator
from typing import Any

import pytest
from tests.e2e.helpers import FIXED, FIXES, Place, command, eventually

from flyball.domain.messages import Answer, encode
from flyball.runtime.app import App

ASK = {"ask": "Plus or minus?"}
TOUCHES_CI = {"write": {"calc.py": FIXED, ".github/workflows/ci.yml": "on: push\n"}}


def asked(place: Place, *turns: dict[str, Any], more: tuple[str, ...] = ()) -> dict[str, Any]:
    """A run that waits for a person, as the inbox tells of it."""
    said = place.loop(*turns, more=more)
    assert said.code in (3, 4, 5), said
    return place.fb("inbox", "--json").json[-1]


def events(place: Place, kind: str) -> list[dict[str, Any]]:
    return [event for event in place.fb("log", "@last", "--json").lines if event["is"] == kind]


def refused(place: Place, *words: str, says: str = "", env: dict[str, str] | None = None) -> None:
    said = place.fb(*words, env=env)
    assert (said.code, said.out, said.err.count("\n")) == (2, "", 1) and says in said.err, (words, said)


# ---- the inbox -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def waiting(tmp_path_factory: pytest.TempPathFactory) -> Generator[Place]:
    """A run with an open question, which the tests that share it leave open."""
    place = Place(tmp_path_factory.mktemp("waiting"))
    assert place.fb("inbox", "--json").json == []
    asked(place, ASK, FIXES)
    yield place
    place.clear()


def open_question(place: Place) -> dict[str, Any]:
    (one,) = place.fb("inbox", "--json").json
    assert one["answered"] is False
    return one


def test_the_inbox_says_what_happened_why_what_is_asked_and_how_to_answer(waiting: Place) -> None:
    one = open_question(waiting)
    assert (one["kind"], one["asked"], one["code"]) == ("clarification", "Plus or minus?", "wait.question")
    assert (one["repo"], one["driven"]) == (str(waiting.repo), False)
    said = waiting.fb("inbox", cwd=waiting.folder)
    for part in (one["question"], one["repo"], one["happened"], "Plus or minus?", one["how"]):
        assert part in said.out


def test_a_question_says_what_is_answered_if_nobody_does(place: Place) -> None:
    line = 'inbox.defaults=["clarification answer after 9h Use -."]'
    said = place.loop({"ask": "Which one?"}, more=("--set", line))
    for text in (said.out, place.fb("inbox").out):
        assert "default" in text and 'answer "Use -.", if nobody answers by 20' in text


def test_what_a_question_does_not_take_is_refused_and_nothing_is_sent(waiting: Place) -> None:
    """One word that looks like a verb is no free text."""
    one = open_question(waiting)
    refused(waiting, "approve", one["question"])
    refused(waiting, "answer", one["question"])
    refused(waiting, "answer", f"{one['run']}.7", "x")
    refused(waiting, "answer", "no-run", "x")
    for word in ("approve", "cancle", "redirct"):
        refused(waiting, "answer", one["question"], word, says="answer, redirect, cancel")
    open_question(waiting)


def test_an_agents_process_cannot_speak_for_a_person(waiting: Place) -> None:
    one = open_question(waiting)
    for words in (("answer", one["question"], "x"), ("tell", one["run"], "x"), ("cancel", one["run"])):
        refused(waiting, *words, says="only a person", env={"FLYBALL_RUN": one["run"]})
    open_question(waiting)


def test_wiping_the_environment_does_not_make_an_agent_a_person(waiting: Place) -> None:
    run = open_question(waiting)["run"]
    inner = (
        f"import os, subprocess; del os.environ['FLYBALL_RUN']; subprocess.run({command('cancel', run)!r})"
    )
    done = subprocess.run(
        [sys.executable, "-c", inner],
        cwd=waiting.repo,
        env={**waiting.env, "FLYBALL_RUN": run},
        capture_output=True,
        text=True,
    )
    assert done.stdout == "" and "only a person" in done.stderr


def test_an_interrupted_answering_leaves_the_question_open(waiting: Place) -> None:
    one = open_question(waiting)
    started = waiting.start("resume", one["run"], "--wait")
    eventually(lambda: waiting.fb("inbox", "--json").json[0]["driven"])
    started.send_signal(signal.SIGINT)
    started.communicate(timeout=30)
    assert started.returncode == 130
    assert open_question(waiting)["question"] == one["question"]


def test_an_agents_question_cannot_drive_the_terminal(place: Place) -> None:
    asked(place, {"ask": "Well\x1b[2J\x1b]0;owned\x07 then\x08\x9b31m?"})
    for words in (("inbox",), ("show", "@last"), ("why", "@last"), ("log", "@last", "--output"), ("ls",)):
        said = place.fb(*words)
        assert said.code == 0 and not any(c in said.out for c in "\x1b\x07\x08\x9b"), words


# ---- answers ---------------------------------------------------------------------------------------------


def test_an_answer_is_journaled_with_who_how_and_its_words_and_replaced_only_by_its_author(
    place: Place,
) -> None:
    one = asked(place, ASK, FIXES)
    ada = {"LOGNAME": "ada"}
    assert place.fb("answer", one["question"], "plus", "--json", env=ada).json["replaced"] is None
    refused(place, "answer", one["question"], "minus", says="ada", env={"LOGNAME": "bob"})
    assert place.fb("answer", one["question"], "cancel", "--json", env=ada).json["replaced"] == "answer"
    sent = place.fb("answer", one["question"], "answer", "cancle", "that", "--json", env=ada).json
    assert (sent["replaced"], sent["verb"], sent["text"]) == ("cancel", "answer", "cancle that")
    assert f"flyball resume {one['run']}" in place.fb("inbox").out
    assert place.fb("resume", "@last").code == 0
    (event,) = events(place, "Answered")
    assert {name: event[name] for name in ("question", "verb", "text", "who", "how")} == {
        "question": one["question"],
        "verb": "answer",
        "text": "cancle that",
        "who": "ada",
        "how": "cli",
    }
    assert len(events(place, "LetterRefused")) == 2


def test_two_people_who_contradict_each_other_are_both_asked_again(place: Place) -> None:
    """CTO-8: answers that were left at the same moment. The same answer twice is no contradiction."""
    one = asked(place, ASK, FIXES)
    app = App({**place.env})

    def leave(who: str, text: str) -> None:
        message = Answer(question=one["question"], verb="answer", text=text, who=who, how="cli")
        app.journal.post(one["run"], 1, app.seals.sealed(one["run"], encode(message)))

    leave("ada", "plus")
    leave("bob", "minus")
    assert place.fb("resume", "@last").code == 3, "the question is still open"
    refused_for = [event["reason"] for event in events(place, "LetterRefused")]
    assert len(refused_for) == 2 and all(
        said.startswith("ada answered answer and bob") for said in refused_for
    )
    assert events(place, "Answered") == []
    leave("ada", "plus")
    leave("bob", "plus")
    assert place.fb("resume", "@last").code == 0
    assert [event["text"] for event in events(place, "Answered")] == ["plus"]
    app.close()


def test_a_verb_of_the_question_comes_first_and_an_answer_comes_before_what_resume_means(
    place: Place,
) -> None:
    one = asked(place, FIXES, more=("--breakpoint", "closed"))
    for words, verb, text in (
        (("go", "on"), "go-on", ""),
        (("GO-ON",), "go-on", ""),
        (("redirect", "elsewhere"), "redirect", "elsewhere"),
        (("cancel",), "cancel", ""),
    ):
        sent = place.fb("answer", one["question"], *words, "--json").json
        assert (sent["verb"], sent["text"], sent["delivered"]) == (verb, text, False)
    assert place.fb("resume", one["run"]).code == 1
    assert place.last()["stop_reason"]["code"] == "cancelled"


def test_approve_and_reject_answer_what_the_guard_asks(place: Place) -> None:
    one = asked(place, TOUCHES_CI, FIXES)
    assert (one["kind"], "approve" in one["verbs"]) == ("approval", True)
    for words in (("aprove",), ("do it",), ("answer", "yes"), ("redirct", "leave the CI alone")):
        refused(place, "answer", one["question"], *words, says=", ".join(one["verbs"]))
    refused(place, "answer", one["question"], "approve", "but hurry", says="'approve' takes no text")
    refused(place, "approve", one["question"], "but hurry", says="'approve' takes no text")
    refused(place, "answer", one["question"], "redirect", says="The text is missing")
    open_question(place)
    place.fb("reject", one["question"], "no CI, please")
    assert place.fb("resume", "@last").code == 0
    assert ".github" not in place.git("ls-tree", "--name-only", place.last()["branch"])
    two = asked(place, {**FIXES, **TOUCHES_CI})
    place.fb("approve", two["run"])
    assert place.fb("resume", two["run"]).code == 0
    assert ".github/workflows/ci.yml" in place.git("ls-tree", "-r", "--name-only", place.last()["branch"])


# ---- pause, stop, cancel, tell ---------------------------------------------------------------------------


def test_pause_stops_after_the_turn_and_what_is_told_is_delivered_with_the_next(place: Place) -> None:
    started = place.start_loop({"sleep_s": 1, "write": {"notes.txt": "x"}}, FIXES)
    assert place.fb("tell", "@last", "mind", "the", "sign").code == 0
    assert place.fb("pause", "@last", "--json").json["delivered"] is True
    started.communicate(timeout=30)
    last = place.last()
    assert (started.returncode, last["stop_reason"]["code"], last["turns"]) == (3, "wait.paused", 1)
    refused(place, "pause", "@last", says=f"flyball resume {last['run']}")
    assert place.fb("resume", "@last").code == 0
    prompts = [path.read_text() for path in sorted(place.state.glob("acts/*/prompt"))]
    assert ["mind the sign" in prompt for prompt in prompts] == [False, True]


def test_stop_all_ends_the_turn_now_and_costs_nothing(place: Place) -> None:
    started = place.start_loop({"write": {"calc.py": FIXED}, "hang": True})
    assert place.fb("stop").code == 2
    assert place.fb("stop", "--now", "--all").code == 0
    started.communicate(timeout=30)
    last = place.last()
    assert (started.returncode, last["status"], last["turns"], last["changed"]) == (3, "paused", 0, [])


def test_cancel_ends_a_driven_run_at_once(place: Place) -> None:
    started = place.start_loop({"hang": True})
    place.fb("cancel", "@last")
    started.communicate(timeout=30)
    assert (started.returncode, place.last()["alo_code"]) == (1, "ALO_CANCELLED")
    assert place.fb("cancel", "@last").code == 2


def test_a_message_to_a_run_that_nobody_drives_says_how_to_go_on(place: Place) -> None:
    started = place.start_loop({"hang": True})
    started.kill()
    started.communicate()
    run = place.last()["run"]
    watched = place.fb("watch", run)
    assert watched.code == 2 and "flyball resume" in watched.err
    for words in (("tell", run, "hello"), ("pause", run), ("cancel", run)):
        said = place.fb(*words, "--json").json
        assert (said["delivered"], said["next"]) == (False, f"flyball resume {run}")
    assert place.fb("resume", run).code == 1
