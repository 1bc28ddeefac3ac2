"""A person's hand in a run: take-over, hand-back, rollback, retry, replay."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.helpers import ACCEPTS, BROKEN, FIXED, STILL_BROKEN, Yard

GOOD_TURN = {"write": {"calc.py": FIXED}}
WORSE_TURN = {"write": {"calc.py": STILL_BROKEN}}


@pytest.fixture
def yard(tmp_path: Path) -> Iterator[Yard]:
    made = Yard(tmp_path)
    yield made
    made.clear()


def test_what_a_person_changes_is_theirs_and_the_act_is_done_again(yard: Yard) -> None:
    ran = yard.play(
        yard.script(coder=[WORSE_TURN, {"say": "nothing left to do"}], critic=ACCEPTS),
        "--breakpoint",
        "write",
    )
    assert yard.flyball("hand-back", ran.run).returncode == 2, "it was not taken over"
    assert yard.flyball("take-over", ran.run).returncode == 0
    assert (
        json.loads(yard.flyball("show", ran.run, "--json").stdout)["stop_reason"]["code"] == "wait.take_over"
    )
    checkout = yard.state / "runs" / ran.run / "checkout"
    (checkout / "calc.py").write_text(FIXED)
    (checkout / ".env").write_text("MINE=1\n")  # a person is not judged
    assert yard.flyball("hand-back", ran.run).returncode == 0
    said = yard.flyball("why", ran.run).stdout
    assert f"saved. Apply it with `flyball resume {ran.run}`" in said and "hand-back" not in said
    ran = yard.resume()
    assert ran.code == "wait.breakpoint", "the state's act was done again"
    ran = yard.resume()
    assert (ran.code, ".env" in ran.changed) == ("completed", True)
    assert yard.git("show", f"flyball/{ran.run}:calc.py") == FIXED.strip()


def test_rollback_brings_back_an_earlier_turn(yard: Yard) -> None:
    yard.make({".gitignore": "cache.txt\n"})
    first = {"write": {"calc.py": STILL_BROKEN, "cache.txt": "one"}}
    second = {"write": {"calc.py": FIXED, "cache.txt": "two"}}
    ran = yard.play(yard.script(coder=[first, second], critic=ACCEPTS), "--breakpoint", "fix")
    checkout = yard.state / "runs" / ran.run / "checkout"
    assert (checkout / "calc.py").read_text() == FIXED
    assert yard.flyball("rollback", ran.run, "--to", "99").returncode == 2
    done = yard.flyball("rollback", ran.run, "--to", "2")
    assert done.returncode == 0, done.stderr
    assert (checkout / "calc.py").read_text() == STILL_BROKEN and (
        checkout / "cache.txt"
    ).read_text() == "one"
    assert yard.flyball("rollback", ran.run, "--to", "0").returncode == 0
    assert (checkout / "calc.py").read_text() == BROKEN


def test_rollback_after_hand_back_keeps_the_edit_and_does_not_continue_the_run(yard: Yard) -> None:
    ran = yard.play(yard.script(coder=[WORSE_TURN, GOOD_TURN], critic=ACCEPTS), "--breakpoint", "write")
    assert yard.flyball("take-over", ran.run).returncode == 0
    folder = yard.state / "runs" / ran.run
    (folder / "checkout/mine.txt").write_text("by hand\n")
    assert yard.flyball("hand-back", ran.run).returncode == 0
    turns = json.loads(yard.flyball("show", ran.run, "--json").stdout)["turns"]
    done = yard.flyball("rollback", ran.run, "--to", "0")
    assert done.returncode == 0, done.stderr
    assert (folder / "checkout/calc.py").read_text() == BROKEN and not (folder / "checkout/mine.txt").exists()
    assert json.loads(yard.flyball("show", ran.run, "--json").stdout)["turns"] == turns, "no turn was taken"
    ref = next(word.rstrip(";") for word in done.stdout.split() if word.startswith("refs/"))
    words = ["git", f"--git-dir={folder / 'git'}", "show", f"{ref}:mine.txt"]
    assert subprocess.run(words, capture_output=True, text=True, check=True).stdout == "by hand\n"
    ran = yard.resume()
    assert ran.code == "wait.breakpoint", "it continues when told to"


@pytest.mark.sampled(0)
def test_retry_goes_on_from_the_tree_of_an_ended_run(yard: Yard) -> None:
    other = {"write": {"notes.txt": "kept\n", "calc.py": STILL_BROKEN}}
    ran = yard.play(yard.script(coder=[other]), "--set", "limits.fix=0")
    assert ran.code == "failed.tests"
    yard.script(coder=[GOOD_TURN], critic=ACCEPTS)
    again = type(ran)(yard.flyball("retry", ran.run, "--json"))
    assert (again.exit, again.code, again.run != ran.run) == (0, "completed", True), again.err
    assert sorted(again.changed) == ["calc.py", "notes.txt"]
    assert yard.git("show", f"flyball/{again.run}:notes.txt") == "kept"
    waiting = yard.play(yard.script(coder=[GOOD_TURN]), "--breakpoint", "write")
    assert yard.flyball("retry", waiting.run).returncode == 2


def test_replay_shows_where_other_limits_would_have_decided_otherwise(yard: Yard) -> None:
    ran = yard.play(yard.script(coder=[WORSE_TURN, WORSE_TURN, GOOD_TURN], critic=ACCEPTS))
    assert ran.code == "completed"
    same = json.loads(yard.flyball("replay", ran.run, "--json").stdout)
    assert same["differs"] is None and same["alike"] > 6
    other = json.loads(yard.flyball("replay", ran.run, "--set", "limits.fix=1", "--json").stdout)
    assert (
        other["differs"]["was"] == "test → fix (failed)" and "limit.fix_attempts" in other["differs"]["now"]
    )
    assert json.loads(yard.flyball("show", ran.run, "--json").stdout)["stop_reason"]["code"] == "completed", (
        "nothing was run"
    )


def test_replay_of_an_answered_run_decides_alike(yard: Yard) -> None:
    touched = {"write": {"calc.py": FIXED, ".github/workflows/ci.yml": "on: push\n"}}
    ran = yard.play(yard.script(coder=[touched, GOOD_TURN], critic=ACCEPTS), "--breakpoint", "verify")
    yard.flyball("reject", ran.question)
    ran = yard.resume()
    ran = yard.resume()
    assert ran.code == "completed"
    assert json.loads(yard.flyball("replay", ran.run, "--json").stdout)["differs"] is None
