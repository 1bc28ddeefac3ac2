"""Honest edits of tests and of their surroundings are not asked about: refactored tests assert as much as before."""

from __future__ import annotations

import pytest
from msgspec import convert

from flyball.acts.run_files import shipped_policies
from flyball.guard.change import Change
from flyball.guard.changes import judge_changes

POLICY = shipped_policies().get()
T = "tests/test_calc.py"
BASE = """import pytest
from calc import add, double


def test_add():
    assert add(2, 3) == 5
    assert add(-1, 1) == 0


def test_add_big():
    assert add(10, 20) == 30


def test_double():
    assert double(4) == 8


def test_double_zero():
    assert double(0) == 0


def test_raises():
    with pytest.raises(TypeError):
        add("a", 1)
"""
U = "tests/test_u.py"
UNITTEST = """import unittest
from textkit import truncate


class TruncateTest(unittest.TestCase):
    def setUp(self):
        self.w = 4

    def test_short(self):
        self.assertEqual(truncate("ab", self.w), "ab")

    def test_long(self):
        self.assertEqual(truncate("governor", 5), "gove~")
        self.assertTrue(truncate("engineer", 5) == "engi~")
"""
JS = "test('one', () => {\n  assert.strictEqual(f(1), 2);\n});\n\ntest('two', () => {\n  assert.strictEqual(f(2), 4);\n});\n"
GONE = {
    "renamed and moved": ({T: (BASE, None), "tests/test_sums.py": (None, BASE.replace("def test_d", "def test_sum_d"))}),
    "one deleted": ({T: (BASE, BASE.replace("\n\ndef test_double():\n    assert double(4) == 8\n", ""))}),
    "a test of JavaScript": ({"test/f.test.js": (JS, JS.partition("\n\n")[0])}),
}  # fmt: skip


@pytest.mark.parametrize("name", GONE)
def test_where_the_gate_knows_tests_by_id_it_decides_about_those_that_are_gone(name: str) -> None:
    def rules(by_id: bool) -> set[str]:
        texts = GONE[name]
        ops = {
            p: "delete" if new is None else "add" if old is None else "modify"
            for p, (old, new) in texts.items()
        }
        changes = [convert({"path": path, "op": op}, Change) for path, op in ops.items()]
        verdict = judge_changes(changes, POLICY, workspace="/w/repo", texts=texts, tests_by_id=by_id)
        return {finding.rule for finding in verdict.findings if finding.verdict != "allow"}

    assert "test-weakening" in rules(False)
    assert "test-weakening" not in rules(True)


def test_an_emptied_test_asks_also_where_tests_are_known_by_id() -> None:
    texts = {T: (BASE, BASE.replace("    assert double(4) == 8\n", "    double(4)\n"))}
    changes = [Change(path=T, op="modify")]
    verdict = judge_changes(changes, POLICY, workspace="/w/repo", texts=texts, tests_by_id=True)
    assert (verdict.verdict, verdict.rule) == ("ask", "test-weakening")
