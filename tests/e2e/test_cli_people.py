"""What people say to runs: it is left as a letter, bound to what they saw, and no agent says it for them."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import Any

import pytest
from helpers import FIXED, QUICK_PROOF, Place, command, eventually

FIXES: list[dict[str, Any]] = [{"write": {"calc.py": FIXED}}]
ASKS: list[dict[str, Any]] = [{"ask": "Plus or minus?"}, *FIXES]


def asked(place: Place, coder: list[dict[str, Any]], *more: str) -> dict[str, Any]:
    """A run that waits for a person, as the inbox tells of it."""
    said = place.run(place.script(coder=coder), *more)
    assert said.code in (3, 4, 5), said
    return place.fb("inbox", "--json").json[-1]


def answered(place: Place) -> list[dict[str, Any]]:
    return [event for event in place.fb("log", "@last", "--json").lines if event["is"] == "Answered"]


def driven(place: Place, coder: list[dict[str, Any]]) -> subprocess.Popen[str]:
    agent = place.script(coder=coder)
    started = place.start("run", "Fix add", "--agent", agent, "--set", QUICK_PROOF, "--json")
    eventually(place.coder_started)
    return started


# ---- the inbox -------------------------------------------------------------------------------------------


def test_the_inbox_says_what_happened_why_what_is_asked_and_how_to_answer(place: Place) -> None:
    assert place.fb("inbox", "--json").json == []
    one = asked(place, ASKS)
    assert (one["kind"], one["asked"], one["code"]) == ("clarification", "Plus or minus?", "wait.question")
    assert (one["repo"], one["answered"], one["driven"]) == (str(place.repo), False, False)
    said = place.fb("inbox", cwd=place.folder)
    for part in (one["question"], one["repo"], one["happened"], "Plus or minus?", one["how"]):
        assert part in said.out
    place.fb("answer", one["question"], "plus")
    assert f"flyball resume {one['run']}" in place.fb("inbox").out


def test_an_agents_question_cannot_drive_the_terminal(place: Place) -> None:
    asked(place, [{"ask": "Well\x1b[2J\x1b]0;owned\x07 then\x08\x9b31m?"}])
    for words in (("inbox",), ("show", "@last"), ("why", "@last"), ("log", "@last", "--output"), ("ls",)):
        said = place.fb(*words)
        assert said.code == 0 and not any(c in said.out for c in "\x1b\x07\x08\x9b"), words


# ---- answers ---------------------------------------------------------------------------------------------


def test_an_answer_is_journaled_with_who_how_and_its_words(place: Place) -> None:
    one = asked(place, ASKS)
    place.fb("answer", one["question"], "Plus", "is right", env={"LOGNAME": "ada"})
    assert place.fb("resume", "@last").code == 0
    (event,) = answered(place)
    assert {name: event[name] for name in ("question", "verb", "text", "who", "how")} == {
        "question": one["question"],
        "verb": "answer",
        "text": "Plus is right",
        "who": "ada",
        "how": "cli",
    }


@pytest.mark.parametrize(
    ("words", "verb", "text"),
    [
        (("go", "on"), "go-on", ""),
        (("GO-ON",), "go-on", ""),
        (("redirect", "elsewhere"), "redirect", "elsewhere"),
    ],
)
def test_a_verb_of_the_question_comes_first_and_other_words_are_text(
    place: Place, words: tuple[str, ...], verb: str, text: str
) -> None:
    one = asked(place, FIXES, "--breakpoint", "plan")
    sent = place.fb("answer", one["question"], *words, "--json").json
    assert (sent["verb"], sent["text"], sent["delivered"]) == (verb, text, False)


def test_approve_and_reject_answer_what_the_guard_asks(place: Place) -> None:
    added = {"write": {"calc.py": FIXED, ".github/workflows/ci.yml": "on: push\n"}}
    one = asked(place, [added, *FIXES])
    assert (one["kind"], "approve" in one["verbs"]) == ("approval", True)
    place.fb("reject", one["question"], "no CI, please")
    assert place.fb("resume", "@last").code == 0
    assert ".github" not in place.git("ls-tree", "--name-only", place.last()["branch"])
    two = asked(place, [added])
    place.fb("approve", two["run"])
    assert place.fb("resume", two["run"]).code == 0
    assert ".github/workflows/ci.yml" in place.git("ls-tree", "-r", "--name-only", place.last()["branch"])


def test_what_a_question_does_not_take_is_refused_and_nothing_is_sent(place: Place) -> None:
    one = asked(place, ASKS)
    for words in (
        ("approve", one["question"]),
        ("answer", one["question"]),
        ("answer", f"{one['run']}.7", "x"),
    ):
        said = place.fb(*words)
        assert (said.code, said.out) == (2, "") and said.err.count("\n") == 1
    assert place.fb("answer", "zzz", "x").code == 2
    assert place.fb("inbox", "--json").json[0]["answered"] is False


def test_a_mistyped_verb_is_refused_with_the_list_and_never_becomes_another(place: Place) -> None:
    added = {"write": {"calc.py": FIXED, ".github/workflows/ci.yml": "on: push\n"}}
    one = asked(place, [added])
    for words in (("aprove",), ("do it",), ("answer", "yes"), ("redirct", "leave the CI alone")):
        said = place.fb("answer", one["question"], *words)
        assert (said.code, said.out) == (2, "") and ", ".join(one["verbs"]) in said.err, words
    for words in (
        ("answer", one["question"], "approve", "but hurry"),
        ("approve", one["question"], "but hurry"),
    ):
        said = place.fb(*words)
        assert (said.code, said.out) == (2, "") and "'approve' takes no text" in said.err
    assert place.fb("inbox", "--json").json[0]["answered"] is False


def test_one_word_that_looks_like_a_verb_is_no_free_text(place: Place) -> None:
    one = asked(place, ASKS)
    for word in ("approve", "cancle", "redirct"):
        said = place.fb("answer", one["question"], word)
        assert (said.code, said.out) == (2, "") and "answer, redirect, cancel" in said.err, word
    sent = place.fb("answer", one["question"], "answer", "cancle", "--json").json
    assert (sent["verb"], sent["text"]) == ("answer", "cancle")


def test_an_answer_that_is_not_taken_yet_is_replaced_by_its_author(place: Place) -> None:
    one = asked(place, ASKS)
    assert place.fb("answer", one["question"], "plus", "--json").json["replaced"] is None
    assert place.fb("answer", one["question"], "cancel", "--json").json["replaced"] == "answer"
    assert place.fb("answer", one["question"], "minus", "--json").json["replaced"] == "cancel"
    assert place.fb("resume", "@last").code == 0
    events = place.fb("log", "@last", "--json").lines
    assert [event["text"] for event in events if event["is"] == "Answered"] == ["minus"]
    assert sum(event["is"] == "LetterRefused" for event in events) == 2


def test_nobody_else_replaces_an_answer(place: Place) -> None:
    one = asked(place, ASKS)
    assert place.fb("answer", one["question"], "plus", env={"LOGNAME": "ada"}).code == 0
    second = place.fb("answer", one["question"], "minus", env={"LOGNAME": "bob"})
    assert (second.code, second.out) == (2, "") and "ada" in second.err
    place.fb("resume", "@last")
    assert [event["text"] for event in answered(place)] == ["plus"]


# ---- pause, stop, cancel, tell ---------------------------------------------------------------------------


def test_pause_stops_after_the_turn_and_resume_goes_on(place: Place) -> None:
    started = driven(place, [{"sleep_s": 1, "write": {"calc.py": FIXED}}])
    said = place.fb("pause", "@last", "--json")
    assert said.json["delivered"] is True
    started.communicate(timeout=30)
    last = place.last()
    assert (started.returncode, last["stop_reason"]["code"], last["turns"]) == (3, "wait.paused", 2)
    again = place.fb("pause", "@last")
    assert again.code == 2 and f"flyball resume {last['run']}" in again.err
    assert place.fb("resume", "@last").code == 0


def test_stop_all_ends_the_turn_now_and_costs_nothing(place: Place) -> None:
    started = driven(place, [{"write": {"calc.py": FIXED}, "hang": True}])
    assert place.fb("stop").code == 2
    assert place.fb("stop", "--now", "--all").code == 0
    started.communicate(timeout=30)
    last = place.last()
    assert (started.returncode, last["status"], last["turns"], last["changed"]) == (3, "paused", 1, [])


def test_cancel_ends_a_driven_run_at_once_and_an_undriven_one_when_it_is_resumed(place: Place) -> None:
    started = driven(place, [{"hang": True}])
    place.fb("cancel", "@last")
    started.communicate(timeout=30)
    assert (started.returncode, place.last()["alo_code"]) == (1, "ALO_CANCELLED")
    assert place.fb("cancel", "@last").code == 2
    one = asked(place, ASKS)
    said = place.fb("cancel", one["run"])
    assert said.code == 0 and f"flyball resume {one['run']}" in said.out
    assert place.fb("resume", one["run"]).code == 1


def test_what_is_told_is_delivered_with_the_next_turn(place: Place) -> None:
    started = driven(place, [{"sleep_s": 1}, *FIXES])
    assert place.fb("tell", "@last", "mind", "the", "sign").code == 0
    started.communicate(timeout=30)
    assert started.returncode == 0
    prompts = [path.read_text() for path in sorted(place.state.glob("acts/*/prompt"))]
    assert sum("mind the sign" in prompt for prompt in prompts) == 1


def test_a_letter_to_a_run_that_nobody_drives_says_how_to_go_on(place: Place) -> None:
    started = driven(place, [{"hang": True}])
    started.kill()
    started.communicate()
    run = place.last()["run"]
    for words in (("tell", run, "hello"), ("pause", run), ("cancel", run)):
        said = place.fb(*words, "--json").json
        assert (said["delivered"], said["next"]) == (False, f"flyball resume {run}")
    assert place.fb("resume", run).code == 1


# ---- who may speak ---------------------------------------------------------------------------------------


def test_an_agents_process_cannot_speak_for_a_person(place: Place) -> None:
    one = asked(place, ASKS)
    for words in (("answer", one["question"], "x"), ("tell", one["run"], "x"), ("cancel", one["run"])):
        said = place.fb(*words, env={"FLYBALL_RUN": one["run"]})
        assert (said.code, said.out) == (2, "") and "only a person" in said.err
    assert place.fb("inbox", "--json").json[0]["answered"] is False


def test_wiping_the_environment_does_not_make_an_agent_a_person(place: Place) -> None:
    one = asked(place, ASKS)
    inner = f"import os, subprocess; del os.environ['FLYBALL_RUN']; subprocess.run({command('cancel', one['run'])!r})"
    done = subprocess.run(
        [sys.executable, "-c", inner],
        cwd=place.repo,
        env={**place.env, "FLYBALL_RUN": one["run"]},
        capture_output=True,
        text=True,
    )
    assert done.stdout == "" and "only a person" in done.stderr


def test_an_interrupted_answering_leaves_the_question_open(place: Place) -> None:
    one = asked(place, ASKS)
    started = place.start("resume", one["run"], "--wait")
    eventually(lambda: place.fb("inbox", "--json").json[0]["driven"])
    started.send_signal(signal.SIGINT)
    started.communicate(timeout=30)
    assert started.returncode == 130
    assert place.fb("inbox", "--json").json[0]["question"] == one["question"]


def test_an_answer_in_the_mail_comes_before_what_resume_means(place: Place) -> None:
    agent = place.script(coder=[{"write": {"calc.py": FIXED}}])
    place.run(agent, "--breakpoint", "write")
    run = place.last()["run"]
    assert place.fb("answer", run, "cancel").code == 0
    assert place.fb("resume", run).code == 1
    assert place.last()["stop_reason"]["code"] == "cancelled"
