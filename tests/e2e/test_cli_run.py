"""run, resume and watch: a run goes to its end, stops where it must, and can always be taken up again."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import shlex
import signal
import struct
import subprocess
import termios
import threading
from pathlib import Path

import pytest
from tests.e2e.helpers import FIXED, FIXES, QUICK_PROOF, Place, command, eventually

ASK = {"ask": "Plus or minus?"}
SUMMARY = {"run", "machine", "state", "status", "end", "stop_reason", "turns", "cost_usd", "tokens", "tree"}


def one_sentence(text: str) -> bool:
    return text.startswith("flyball: ") and text.count("\n") == 1 and "Traceback" not in text


# ---- to the end ------------------------------------------------------------------------------------------


def test_json_prints_one_summary_object_and_progress_goes_to_stderr(place: Place) -> None:
    """Uncommitted changes are named and left out."""
    (place.repo / "note.txt").write_text("mine\n")
    said = place.run(place.script(coder=[FIXES]), "--json")
    assert said.code == 0 and said.json.keys() > SUMMARY
    assert said.json["stop_reason"]["code"] == "completed" and said.json["turns"] == 3
    assert "proof passed" in said.err and "uncommitted changes: note.txt." in said.err and "HEAD" in said.err
    assert "note.txt" not in place.git("ls-tree", "--name-only", said.json["branch"])
    ended, unknown = place.fb("resume", "@last"), place.fb("resume", "no-run")
    assert (ended.code, unknown.code) == (2, 2) and one_sentence(ended.err) and one_sentence(unknown.err)
    assert "ALO_LOOP_NOT_PAUSED" in ended.err and "flyball retry" in ended.err
    assert "ALO_LOOP_NOT_FOUND" in unknown.err and "no-run" in unknown.err


def test_without_a_proof_command_the_output_says_unproven(place: Place) -> None:
    """The task stands in a file, and what is not committed goes along when asked for."""
    (place.repo / "note.txt").write_text("mine\n")
    (place.folder / "task.md").write_text("Fix add, please\n")
    said = place.loop(FIXES, task=f"@{place.folder}/task.md", more=("--with-changes",))
    assert said.code == 0 and "unproven" in said.out and "uncommitted changes" not in said.out
    last = place.last()
    assert (last["stop_reason"]["code"], last["task"]) == ("completed_unproven", "Fix add, please")
    assert "note.txt" in place.git("ls-tree", "--name-only", last["branch"])


def test_a_reader_who_leaves_does_not_stop_the_run(place: Place) -> None:
    started = place.start(*place.loop_words(FIXES))
    assert started.stdout and started.stderr
    started.stdout.close()
    assert started.wait(30) == 0, started.stderr.read()
    started.stderr.close()
    assert place.last()["end"] == "success"


# ---- questions -------------------------------------------------------------------------------------------


def test_in_a_pipe_an_open_question_ends_run_with_3_and_resume_goes_on_with_its_answer(place: Place) -> None:
    said = place.loop(ASK, FIXES)
    assert said.code == 3 and "Plus or minus?" in said.out
    last = place.last()
    question = last["question"]["id"]
    assert f"flyball answer {question}" in said.out
    again = place.fb("resume", "@last")
    assert again.code == 3 and "Plus or minus?" in again.out
    assert place.last()["turns"] == 1
    journal = (place.state / "journal.db").read_bytes()
    sent = place.fb("answer", question, "Plus,", "always")
    assert sent.code == 0 and f"flyball resume {last['run']}" in sent.out
    said = place.fb("resume", last["run"])
    assert said.code == 0, said
    prompts = [path.read_text() for path in place.state.glob("acts/*/prompt")]
    assert any("Plus, always" in prompt for prompt in prompts)
    _an_older_copy_is_not_driven(place, journal)


def _an_older_copy_is_not_driven(place: Place, journal: bytes) -> None:
    for file in place.state.glob("journal.db*"):
        file.unlink()
    (place.state / "journal.db").write_bytes(journal)
    place.fb("answer", "@last", "plus")
    said = place.fb("resume", "@last")
    assert said.code == 2 and one_sentence(said.err) and "older copy" in said.err


def test_with_wait_run_stays_and_goes_on_when_another_process_answers(place: Place) -> None:
    started = place.start(*place.loop_words(ASK, FIXES), "--wait", "--json")
    asked = eventually(lambda: place.fb("inbox", "--json").json)[0]
    sent = place.fb("answer", asked["question"], "plus", "--json")
    assert sent.json["delivered"] is True
    out, _ = started.communicate(timeout=30)
    assert started.returncode == 0 and out.count("\n") == 1


class AtTerminal:
    """A command with a person at its terminal."""

    def __init__(self, place: Place, *words: str, errors: Path | None = None) -> None:
        self.ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 120, 0, 0))
        env = {**place.env, "TERM": "xterm", "COLUMNS": "120", "PAGER": "sh -c 'cat; echo LESS=$LESS'"}
        with contextlib.ExitStack() as stack:
            err = stack.enter_context(errors.open("wb")) if errors else theirs
            self.process = subprocess.Popen(
                ["setsid", "--ctty", *command(*words)],
                cwd=place.repo,
                env=env,
                stdin=theirs,
                stdout=theirs,
                stderr=err,
            )
        os.close(theirs)
        self.screen, self.answered_at = bytearray(), 0
        self.is_open = True
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self) -> None:
        with contextlib.suppress(OSError):  # the other end has gone
            while self.is_open:
                if select.select([self.ours], [], [], 0.1)[0]:
                    self.screen += os.read(self.ours, 4096)

    def answer(self, shown: bytes, keys: bytes, prompt: bytes, line: bytes) -> None:
        """Press these keys, one by one, once that is shown; then fill in the prompt."""
        self.wait_for(shown)
        self._press(keys)
        self.wait_for(prompt)
        self.answered_at = len(self.screen)
        if line.endswith(b"\n"):
            os.write(self.ours, line)
        else:
            self._press(line)

    def _press(self, keys: bytes) -> None:
        """What is typed before keys are read one by one is thrown away."""
        for key in keys:
            eventually(lambda: not termios.tcgetattr(self.ours)[3] & termios.ICANON)
            os.write(self.ours, bytes((key,)))

    def wait_for(self, shown: bytes) -> None:
        """Until that is on the screen, below the last answer."""
        eventually(lambda: shown in self.screen[self.answered_at :])

    def close(self) -> None:
        self.is_open = False
        self.reader.join()
        os.close(self.ours)

    def code(self) -> int:
        code = self.process.wait(30)
        self.reader.join()
        self.close()
        return code


def visible(screen: bytes) -> list[str]:
    """The rows as a terminal shows them: what was erased is gone."""
    rows, at, anew = [""], 0, False
    pattern = rb"\x1b\[\??([\d;]*)([A-Za-z])|(\n)|(\r)|([^\x1b\n\r]+)"
    for count, message, newline, start, text in re.findall(pattern, screen):
        if message == b"A":
            at = max(0, at - int(count or 1))
        elif message == b"K":
            rows[at] = ""
        elif newline:
            at += 1
            rows += [""] * (at == len(rows))
        elif text:
            rows[at] = text.decode() if anew else rows[at] + text.decode("utf-8", "replace")
        anew = bool(start) or (anew and not text and not newline)
    return rows


def answers_given(place: Place) -> list[tuple[str, str]]:
    events = place.fb("log", "@last", "--json").lines
    return [(event["verb"], event["text"]) for event in events if event["is"] == "Answered"]


def test_on_a_terminal_run_shows_what_is_done_and_takes_answers_as_keys(place: Place) -> None:
    """A question in words, then a change that the guard asks about: its diff is shown, and a key rejects it."""
    ci = {"write": {"calc.py": FIXED, ".github/workflows/ci.yml": "on: push\n"}}
    agent = place.script(coder=[ASK, ci, FIXES])
    person = AtTerminal(place, "run", "Fix add", "--agent", agent, "--set", QUICK_PROOF)
    person.answer(b"w answer", b"xw", b"Your text for the agent", b"\n")
    assert b"No answer has this key. Keys: w answer" in person.screen
    person.answer(b"still open", b"w", b"Your text for the agent", b"not this\x03\n")
    person.answer(b"still open", b"c", b"for good? y/N", b"n")
    person.answer(b"still open", b"w", b"Your text for the agent", b"plus\n")
    person.answer(b"r reject", b"dr", b"Your reason", b"Leave CI alone\n")
    assert person.code() == 0
    screen = person.screen
    assert screen.count(b"+on: push") == 2  # below the question, and again in the pager
    assert visible(screen).count("+    return a + b") == 2  # the live lines erase nothing of it
    assert b"iteration 1 of 10" in screen and b"calc.py" in screen and b"flyball land" in screen
    assert b"LESS=FRX" in screen, "the pager shows colours"
    rows = "\n".join(visible(screen))
    assert "completed:" in rows and "ended: completed" not in rows, "the summary says it once"
    assert "flyball answer" not in rows, "where keys answer, no command is named"
    assert answers_given(place) == [("answer", "plus"), ("reject", "Leave CI alone")]


def test_the_inbox_is_worked_through_with_the_keyboard(place: Place) -> None:
    """Two questions: forward, back, the change in the pager, one rejected; the other stays open."""
    place.run(place.script(coder=[ASK, FIXES]))
    ci = {"write": {"calc.py": FIXED, ".github/workflows/ci.yml": "on: push\n"}}
    place.run(place.script("other", coder=[ci, FIXES]))
    person = AtTerminal(place, "inbox")
    person.wait_for(b"Question 1 of 2")
    person.answer(b"w answer", b"]", b"r reject", b"[")
    person.answer(b"Question 1 of 2", b"c", b"for good? y/N", b"\x03")
    person.answer(b"Not answered.", b"z", b"No answer has this key. Keys: ", b"]")
    person.answer(b"undo the change", b"", b"Press a key", b"d")
    person.answer(b"+on: push", b"r", b"Your reason", b"Leave CI alone\n")
    assert person.code() == 0 and b"1 question still open." in person.screen
    assert "Answer saved: reject." in person.screen.decode()
    assert len(place.fb("inbox", "--json").json) == 2, "it is not resumed yet"
    assert place.fb("resume", "@last").code == 0
    assert answers_given(place) == [("reject", "Leave CI alone")]


def test_a_second_key_cancels(place: Place) -> None:
    person = AtTerminal(place, *place.loop_words(ASK))
    person.answer(b"c cancel", b"c", b"for good? y/N", b"y")
    assert person.code() == 1 and place.last()["end"] == "cancelled"


def test_watch_takes_answers_as_keys_too(place: Place) -> None:
    """A question that was open before somebody watched, and one that opens meanwhile."""
    place.loop(ASK, {"ask": "Are you sure?"}, FIXES, more=("--detach",))
    eventually(lambda: place.fb("inbox", "--json").json)
    person = AtTerminal(place, "watch", "@last")
    person.answer(b"w answer", b"xw", b"Your text for the agent", b"plus\n")
    person.answer(b"w answer", b"w", b"Your text for the agent", b"yes\n")
    assert person.code() == 0
    assert answers_given(place) == [("answer", "plus"), ("answer", "yes")]


@pytest.mark.parametrize("prompting", [False, True])
def test_a_terminal_that_is_closed_at_a_question_stops_the_run_cleanly(
    place: Place, tmp_path: Path, prompting: bool
) -> None:
    errors = tmp_path / "err"
    person = AtTerminal(place, *place.loop_words(ASK), errors=errors)
    person.wait_for(b"Press a key")
    if prompting:
        os.write(person.ours, b"w")
        eventually(lambda: "Your text for the agent" in errors.read_text())
    person.close()
    assert person.process.wait(30) == 130
    assert "Traceback" not in errors.read_text()
    assert place.last()["question"]["text"] == "Plus or minus?"


def test_a_question_of_a_run_below_is_shown_as_the_runs_own(place: Place) -> None:
    said = place.run(place.script(worker=[ASK, FIXES]), "--set", "run.write=loop", "--json")
    assert said.code == 3 and said.json["question"]["text"] == "Plus or minus?"
    assert said.json["stop_reason"]["code"] == "wait.question"
    child = place.fb("inbox", "--json").json[0]["run"]
    assert child != said.json["run"]
    assert f"flyball resume {said.json['run']}" in place.fb("answer", child, "plus").out
    went_on = place.fb("resume", child, "--json")
    assert (went_on.code, went_on.json["run"]) == (0, said.json["run"])


# ---- limits ----------------------------------------------------------------------------------------------


def test_ctrl_c_during_a_rate_limit_lets_go_and_resume_tries_again(place: Place) -> None:
    limited = {"limited": {"kind": "plan_limit", "reset_in_s": 3600}}
    started = place.start(*place.loop_words(limited, FIXES))
    eventually(lambda: "wait.rate_limit" in place.fb("ls").out)
    started.send_signal(signal.SIGINT)
    out, _ = started.communicate(timeout=30)
    assert started.returncode == 130 and "flyball resume" in out
    assert (place.last()["status"], place.last()["stop_reason"]["code"]) == ("paused", "interrupted")
    assert place.fb("resume", "@last").code == 0


# ---- stopping and going on -------------------------------------------------------------------------------


def test_resume_of_several_runs_names_them_first_and_in_front_of_each_line(place: Place) -> None:
    runs = [place.loop(ASK, FIXES, more=("--json",)).json["run"] for _ in range(2)]
    for run in runs:
        place.fb("answer", run, "plus")
        assert "Your last answer is saved." in place.fb("why", run).out
    said = place.fb("resume")
    first, *lines = said.out.splitlines()
    assert said.code == 0 and first == f"Resuming 2 runs: {runs[0]}, {runs[1]}."
    worked = [line for line in lines if "(worker)" in line]
    assert {line.split()[1] for line in worked} == {*runs}


def test_ctrl_c_once_stops_after_this_turn_and_resume_goes_on(place: Place) -> None:
    started = place.start_loop({"sleep_s": 1.5, "write": {"notes.txt": "x"}}, FIXES)
    started.send_signal(signal.SIGINT)
    out, _ = started.communicate(timeout=30)
    assert started.returncode == 130 and "after this turn" in out
    last = place.last()
    assert (last["status"], last["turns"], last["changed"]) == ("paused", 1, ["notes.txt"])
    assert place.fb("resume", last["run"]).code == 0


@pytest.mark.parametrize("signals", [[signal.SIGINT, signal.SIGINT], [signal.SIGTERM]])
def test_a_second_ctrl_c_or_sigterm_stops_now(place: Place, signals: list[signal.Signals]) -> None:
    started = place.start_loop({"write": {"calc.py": FIXED}, "hang": True})
    for number in signals:
        started.send_signal(number)
        eventually(lambda: any(event["is"] == "Asked" for event in place.fb("log", "@last", "--json").lines))
    out, _ = started.communicate(timeout=30)
    assert started.returncode == 130 and "Stopping now" in out
    last = place.last()
    assert (last["stop_reason"]["code"], last["turns"], last["changed"]) == ("interrupted", 0, [])
    place.fb("cancel", last["run"])
    assert place.fb("resume", last["run"]).code == 1
    assert place.last()["end"] == "cancelled"


def test_sigterm_is_heard_while_a_hostile_output_is_read(place: Place) -> None:
    """Eight million empty lines of a failing proof."""
    size = 8_000_000
    proof = f"""proof.commands=["python3 -S -c 'print(chr(10) * {size}); raise SystemExit(1)'"]"""
    agent = place.script(coder=[{"hang": True}])
    started = place.start("run", "Fix add", "--agent", agent, "--set", proof)
    eventually(lambda: any(log.stat().st_size > size for log in place.state.glob("acts/*/*/out")))
    started.send_signal(signal.SIGTERM)
    out, _ = started.communicate(timeout=30)
    assert started.returncode == 130 and "Stopping now" in out
    assert place.last()["stop_reason"]["code"] == "interrupted"


def test_after_kill_9_resume_goes_on_and_nothing_runs_twice(place: Place) -> None:
    started = place.start_loop({"run": 'echo turn >> "$HOME/witness"', "sleep_s": 1, **FIXES})
    eventually(lambda: list(place.state.glob("runs/*/homes/*/witness")))
    started.kill()
    started.communicate()
    said = place.fb("resume")
    assert said.code == 0 and "continues in 'closed'." in said.out, said
    assert [p.read_text() for p in place.state.glob("runs/*/homes/*/witness")] == ["turn\n"]


def test_a_second_driver_is_refused(place: Place) -> None:
    started = place.start_loop({"hang": True})
    said = place.fb("resume", "@last")
    assert said.code == 2 and one_sentence(said.err)
    assert "ALO_LOOP_ALREADY_RUNNING" in said.err and "flyball watch" in said.err
    assert "flyball inbox" in place.fb("resume").out  # there is nothing else to resume
    started.send_signal(signal.SIGTERM)
    started.communicate(timeout=30)


def test_resume_without_a_run_takes_all_that_no_question_holds(place: Place) -> None:
    started = place.start_loop({"sleep_s": 0.5}, FIXES)
    started.send_signal(signal.SIGINT)
    started.communicate(timeout=30)
    place.loop(ASK, FIXES, task="held")
    place.loop(ASK, FIXES, task="answered")
    place.fb("answer", place.last()["question"]["id"], "plus")
    said = place.fb("resume", "--json")
    assert said.code == 0 and sorted(one["task"] for one in said.lines) == ["Fix add", "answered"]
    assert [row["task"] for row in place.fb("ls", "--status", "waiting", "--json").json] == ["held"]


# ---- in the background -----------------------------------------------------------------------------------


def test_detach_prints_the_id_at_once_watch_follows_and_an_answer_goes_on(place: Place) -> None:
    said = place.loop(ASK, {"sleep_s": 0.5, **FIXES}, more=("--detach",))
    run = said.out.strip()
    assert said.code == 0 and place.last()["run"] == run
    asked = eventually(lambda: place.fb("inbox", "--json").json)[0]
    assert place.fb("watch", run).code == 3
    assert place.fb("answer", asked["question"], "plus", "--json").json["delivered"] is True
    eventually(lambda: place.last()["question"] is None)
    watched = place.fb("watch", run)
    assert watched.code == 0 and "ended: completed" in watched.out
    events = place.fb("watch", "@last", "--json").lines
    assert (events[0]["is"], events[-1]["is"]) == ("RunBegan", "Ended")


def test_a_journal_that_cannot_be_written_is_one_sentence_and_the_run_can_be_resumed(place: Place) -> None:
    run = shlex.join(command(*place.loop_words(FIXES)))
    env = {**place.env, "PYTHONDONTWRITEBYTECODE": "1"}  # else a module's cache could be cut off too
    full = subprocess.run(
        ["bash", "-c", f"ulimit -f 220; exec {run}"], cwd=place.repo, env=env, capture_output=True, text=True
    )
    assert full.returncode == 2 and one_sentence(full.stderr), full
    assert f"flyball resume {place.last()['run']}" in full.stderr
    assert place.fb("resume", "@last").code == 0
