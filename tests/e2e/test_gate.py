"""What the gate asks of a proof besides exit 0, with real runs (EVID-1 to EVID-5, EVID-7)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.helpers import ACCEPTS, BROKEN, FIXED, TEST, Ran, Yard

UNITTEST = "python3 -m unittest -q"
CASE = "test_calc.AddTest.test_add"
MORE = TEST + "\n    def test_more(self):\n        self.assertEqual(add(2, 2), 4)\n"
WEAKER = TEST.replace("add(1, 2), 3)", "add(1, 2), -1)")
TWO_BUGS = BROKEN + "\n\ndef double(n):\n    return n\n"
ONE_LEFT = FIXED + "\n\ndef double(n):\n    return n\n"
TWO_TESTS = TEST.replace("import add", "import add, double") + (
    "\n    def test_double(self):\n        self.assertEqual(double(2), 4)\n"
    "\n    def test_zero(self):\n        self.assertEqual(add(0, 0), 0)\n"
)
ROOM = """import os
import unittest
from pathlib import Path

from calc import add


class AddTest(unittest.TestCase):
    def test_add(self):
        self.assertEqual(add(1, 2), 3)

    def test_the_room_is_new(self):
        own = [name for name in os.environ if name.startswith("FLYBALL")]
        self.assertEqual(own, [])
        for folder in (Path.home(), Path(os.environ["TMPDIR"]), Path("made")):
            mark = folder / "left-behind"
            self.assertFalse(mark.exists(), mark)
            mark.write_text("for the next proof")
"""
FLAKY = """import unittest
from pathlib import Path

from calc import add


class AddTest(unittest.TestCase):
    def test_add(self):
        counter = Path({counter!r})
        count = int(counter.read_text()) + 1 if counter.exists() else 1
        counter.write_text(str(count))
        self.assertEqual(add(1, 2), 3)
        self.assertNotEqual(count, 4)
"""


@pytest.fixture
def yard(tmp_path: Path) -> Iterator[Yard]:
    made = Yard(tmp_path)
    made.bite = ()
    yield made
    made.clear()


def wrote(yard: Yard, files: dict[str, str], *more: str, proof: str = UNITTEST) -> Ran:
    """A run whose coder writes these files, and whose critic accepts everything."""
    agent = yard.script(coder=[{"write": files, "say": "Done.\nOUTCOME: done"}], critic=ACCEPTS)
    return yard.play(agent, "--set", "limits.fix=1", *more, proof=proof)


def evidence(yard: Yard, run: str) -> dict[str, Any]:
    return json.loads(yard.flyball("verify", run, "--json").stdout)["says"]["evidence"]


def test_tests_are_known_by_name_and_the_certificate_says_which_need_the_change(yard: Yard) -> None:
    yard.make({"test_calc.py": TEST})
    ran = wrote(yard, {"calc.py": FIXED, "test_calc.py": MORE})
    assert (ran.exit, ran.code) == (0, "completed")
    told = evidence(yard, ran.run)
    assert (told["judged"], told["runners"], told["passed"]) == ("tests", ["unittest"], 2)
    assert told["fail_to_pass"] == [CASE, "test_calc.AddTest.test_more"]
    assert (told["new_count"], told["bite"], "doubts" in told) == (1, "noticed", False)
    assert CASE in yard.flyball("verify", ran.run).stdout
    assert CASE in yard.flyball("why", ran.run).stdout


def test_a_test_whose_earlier_version_fails_is_asked_about_by_name(yard: Yard) -> None:
    """Rejected, it goes back to the agent; approved, the certificate says who accepted it."""
    yard.make({"test_calc.py": TEST})
    turns = [{"write": {"test_calc.py": WEAKER}}, {"write": {"test_calc.py": TEST, "calc.py": FIXED}}]
    agent = yard.script(coder=[{**turn, "say": "Done.\nOUTCOME: done"} for turn in turns], critic=ACCEPTS)
    ran = yard.play(agent, "--set", "guard.sandbox=none", proof=UNITTEST)
    assert (ran.exit, ran.code, ran.stop_reason["rule"]) == (3, "wait.approval", "evidence")
    question = ran.facts["question"]["text"]
    assert CASE in question and "-1" in question, "both versions are shown"
    assert yard.flyball("answer", ran.question, "reject").returncode == 0
    again = yard.resume()
    assert again.code == "completed", again.out
    assert yard.git("show", f"flyball/{ran.run}:test_calc.py") == TEST.strip()
    ran = wrote(yard, {"test_calc.py": WEAKER}, "--set", "guard.sandbox=none")
    assert yard.flyball("answer", ran.question, "approve").returncode == 0
    done = yard.resume()
    assert (done.exit, done.code) == (0, "completed")
    told = evidence(yard, ran.run)
    assert told["doubts"] and told["accepted_by"]


def test_a_proof_that_does_not_notice_a_broken_change_proves_nothing(yard: Yard) -> None:
    ran = wrote(yard, {"calc.py": FIXED}, proof='python3 -c "import calc"')
    assert (ran.exit, ran.code, ran.stop_reason["rule"]) == (3, "wait.approval", "evidence")


@pytest.mark.sampled(0)
def test_a_test_that_passes_only_now_and_then_is_flaky(yard: Yard) -> None:
    yard.make({"test_calc.py": FLAKY.format(counter=str(yard.folder / "counter"))})
    ran = wrote(
        yard, {"calc.py": FIXED}, "--set", "guard.sandbox=none", "--set", "run.require_test_pass=false"
    )
    assert (ran.code, ran.stop_reason["rule"]) == ("wait.approval", "evidence")
    assert f"{CASE}: it passes and fails" in ran.facts["question"]["text"]


def test_code_that_behaves_only_while_it_is_tested_is_asked_about(yard: Yard) -> None:
    staged = "import sys\n\n\ndef add(a, b):\n    words = getattr(sys, 'ar' + 'gv')\n    return a + b if words[0] != '-c' else a - b\n"
    yard.make({"test_calc.py": TEST})
    ran = wrote(yard, {"calc.py": staged})
    assert (ran.code, ran.stop_reason["rule"]) == ("wait.approval", "evidence")
    assert f"{CASE}: it fails where the code cannot see that it is tested" in ran.facts["question"]["text"]


def test_no_proof_leaves_anything_to_a_later_one(yard: Yard) -> None:
    yard.make({"test_calc.py": ROOM, ".gitignore": "made/\n"})
    setup = 'workspace.setup=["mkdir -p made"]'
    ran = wrote(yard, {"calc.py": FIXED}, "--set", setup)
    assert (ran.exit, ran.code) == (0, "completed"), ran.out
    assert evidence(yard, ran.run)["pass_to_pass_count"] == 1


@pytest.mark.sampled(0)
def test_where_tests_were_red_before_no_worse_is_enough(yard: Yard) -> None:
    yard.make({"calc.py": TWO_BUGS, "test_calc.py": TWO_TESTS})
    assert wrote(yard, {"calc.py": ONE_LEFT}).code == "limit.fix_attempts"
    ran = wrote(yard, {"calc.py": ONE_LEFT}, "--set", "proof.require=no-worse")
    assert (ran.exit, ran.code) == (0, "completed")
    told = evidence(yard, ran.run)
    assert (told["fail_to_pass"], told["still_failing"]) == ([CASE], ["test_calc.AddTest.test_double"])
    assert yard.flyball("verify", ran.run).returncode == 0
