"""mechanic in whole runs: a bug it was not told of, repaired and certified; and an end when it cannot."""

from __future__ import annotations

import pytest
from tests.e2e.helpers import BROKEN, FIXED, REAL_PROOF, Place

HOPELESS = """import unittest

from calc import add


class CalcTest(unittest.TestCase):
    def test_add(self):
        self.assertEqual(add(1, 2), "three")
"""


@pytest.mark.sampled(1)
@pytest.mark.parametrize("machine", ["build", "loop", "review"])
def test_every_machine_ends_certified(machine: str, place: Place) -> None:
    said = place.fb(
        "run", "Make the tests pass", "--agent", "mechanic", "--machine", machine, "--set", REAL_PROOF
    )
    assert said.code == 0, said
    last = place.last()
    assert last["stop_reason"]["code"] == "completed"
    assert place.git("show", f"{last['branch']}:calc.py") == FIXED.strip()
    assert place.fb("verify", "@last").code == 0


def test_it_works_beside_other_agents(place: Place) -> None:
    agent = place.script(planner=[{"say": "Look at add."}])
    words = ("--agent", agent, "--agent", "coder=mechanic", "--set", REAL_PROOF)
    assert place.fb("run", "Make the tests pass", *words).code == 0
    assert place.git("show", f"{place.last()['branch']}:calc.py") == FIXED.strip()


@pytest.mark.parametrize(
    ("machine", "code"), [("build", "wait.question"), ("loop", "wait.question"), ("review", "failed.review")]
)
def test_what_it_cannot_repair_ends_the_work_and_not_the_patience(
    machine: str, code: str, place: Place
) -> None:
    (place.repo / "test_calc.py").write_text(HOPELESS)
    place.git("commit", "-qam", "A test that nothing can satisfy")
    said = place.fb(
        "run", "Make the tests pass", "--agent", "mechanic", "--machine", machine, "--set", REAL_PROOF
    )
    last = place.last()
    assert said.code in (1, 3) and last["stop_reason"]["code"] == code
    assert "none makes the failing tests pass" in said.out
    assert place.git("show", "main:calc.py") == BROKEN.strip() and last["changed"] == []


@pytest.mark.parametrize("machine", ["build", "loop", "task"])
def test_where_there_are_no_python_tests_it_is_refused_before_the_run(machine: str, place: Place) -> None:
    place.git("rm", "-q", "test_calc.py")
    place.git("commit", "-qm", "No tests of Python")
    words = ("--agent", "mechanic", "--machine", machine, "--set", "proof.commands=['node test.js']")
    said = place.fb("run", "Make the tests pass", *words)
    assert said.code == 2 and "has none" in said.err and "flyball agents" in said.err
    assert "No runs" in place.fb("ls").out
