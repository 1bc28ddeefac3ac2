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
JS = "test/slug.test.js"
SCRIPT = """const test = require('node:test');
const assert = require('node:assert');
const { slug } = require('../lib/slug.js');

test('makes letters small', () => {
  assert.strictEqual(slug('Hello World'), 'hello-world');
});

test('leaves signs out', () => {
  assert.strictEqual(slug('Fly, ball!'), 'fly-ball');
});
"""
EDITS: dict[str, tuple[str, str | None, str]] = {}
EDITS["parametrize"] = (
    T,
    BASE,
    BASE.replace(
        """def test_double():
    assert double(4) == 8


def test_double_zero():
    assert double(0) == 0
""",
        """@pytest.mark.parametrize(("n", "twice"), [(4, 8), (0, 0)])
def test_double(n, twice):
    assert double(n) == twice
""",
    ),
)
EDITS["fixture"] = (
    T,
    BASE,
    BASE.replace(
        "def test_double():\n    assert double(4) == 8",
        "@pytest.fixture\ndef four():\n    return 4\n\n\ndef test_double(four):\n    assert double(four) == 8",
    ),
)
EDITS["expected edited"] = (T, BASE, BASE.replace("== 30", "== 31"))
EDITS["class"] = (
    T,
    BASE,
    BASE.replace(
        "def test_double():\n    assert double(4) == 8\n\n\ndef test_double_zero():\n    assert double(0) == 0\n",
        "class TestDouble:\n    def test_four(self):\n        assert double(4) == 8\n\n    def test_zero(self):\n        assert double(0) == 0\n",
    ),
)
EDITS["match"] = (T, BASE, BASE.replace("pytest.raises(TypeError)", 'pytest.raises(TypeError, match="str")'))
EDITS["other error"] = (T, BASE, BASE.replace("pytest.raises(TypeError)", "pytest.raises(ValueError)"))
EDITS["duplicate removed"] = (
    T,
    BASE,
    BASE.replace("    assert add(-1, 1) == 0\n", "    assert add(-1, 1) == 0\n").replace(
        "def test_add_big():\n    assert add(10, 20) == 30",
        "def test_add_big():\n    big = add(10, 20)\n    assert big == 30",
    ),
)
EDITS["loop"] = (
    T,
    BASE,
    BASE.replace(
        "    assert add(2, 3) == 5\n    assert add(-1, 1) == 0\n",
        "    for a, b, want in [(2, 3, 5), (-1, 1, 0)]:\n        assert add(a, b) == want\n",
    ),
)
EDITS["helper"] = (
    T,
    BASE,
    BASE.replace(
        "def test_add():", "def check(a, b, want):\n    assert add(a, b) == want\n\n\ndef test_add():"
    ).replace(
        "    assert add(2, 3) == 5\n    assert add(-1, 1) == 0\n", "    check(2, 3, 5)\n    check(-1, 1, 0)\n"
    ),
)
EDITS["to unittest"] = (
    U,
    UNITTEST,
    UNITTEST.replace(
        'self.assertTrue(truncate("engineer", 5) == "engi~")',
        'self.assertEqual(truncate("engineer", 5), "engi~")',
    ),
)
EDITS["to pytest"] = (
    U,
    UNITTEST,
    """from textkit import truncate


def test_short():
    assert truncate("ab", 4) == "ab"


def test_long():
    assert truncate("governor", 5) == "gove~"
    assert truncate("engineer", 5) == "engi~"
""",
)
EDITS["subTest"] = (
    U,
    UNITTEST,
    UNITTEST.replace(
        """        self.assertEqual(truncate("governor", 5), "gove~")
        self.assertTrue(truncate("engineer", 5) == "engi~")
""",
        """        for word, want in (("governor", "gove~"), ("engineer", "engi~")):
            with self.subTest(word):
                self.assertEqual(truncate(word, 5), want)
""",
    ),
)
EDITS["js each"] = (
    JS,
    SCRIPT,
    """const test = require('node:test');
const assert = require('node:assert');
const { slug } = require('../lib/slug.js');

for (const [text, want] of [['Hello World', 'hello-world'], ['Fly, ball!', 'fly-ball']]) {
  test(`slug of ${text}`, () => {
    assert.strictEqual(slug(text), want);
  });
}
""",
)
EDITS["js esm"] = (
    JS,
    SCRIPT,
    SCRIPT.replace("const test = require('node:test');", "import test from 'node:test';")
    .replace("const assert = require('node:assert');", "import assert from 'node:assert/strict';")
    .replace("const { slug } = require('../lib/slug.js');", "import { slug } from '../lib/slug.js';")
    .replace("assert.strictEqual", "assert.equal"),
)
EDITS["js before"] = (
    JS,
    SCRIPT,
    SCRIPT.replace("test('makes", "test.before(() => { process.env.X = '1'; });\n\ntest('makes"),
)
EDITS["platform skip new"] = (
    T,
    BASE,
    BASE
    + """

@pytest.mark.skipif(__import__("sys").platform == "win32", reason="posix only")
def test_posix():
    assert add(1, 1) == 2
""",
)
EDITS["try finally"] = (
    T,
    BASE,
    BASE
    + """

def test_file(tmp_path):
    file = open(tmp_path / "x", "w")
    try:
        file.write("x")
    finally:
        file.close()
    assert (tmp_path / "x").read_text() == "x"
""",
)
EDITS["monkeypatch"] = (
    T,
    BASE,
    BASE
    + """

def test_env(monkeypatch):
    monkeypatch.setenv("X", "1")
    assert add(1, 1) == 2
""",
)
EDITS["conftest fixture"] = (
    "tests/conftest.py",
    None,
    "import pytest\n\n\n@pytest.fixture\ndef basket():\n    return []\n",
)
EDITS["conftest path"] = (
    "tests/conftest.py",
    None,
    'import sys\nfrom pathlib import Path\n\nsys.path.insert(0, str(Path(__file__).parent.parent / "src"))\n',
)
EDITS["pyproject dep"] = (
    "pyproject.toml",
    '[project]\nname = "x"\ndependencies = []\n',
    '[project]\nname = "x"\ndependencies = ["attrs"]\n',
)
EDITS["pyproject marker"] = (
    "pyproject.toml",
    '[tool.pytest.ini_options]\ntestpaths = ["tests"]\n',
    '[tool.pytest.ini_options]\ntestpaths = ["tests"]\nmarkers = ["slow: slow tests"]\n',
)
EDITS["package script"] = (
    "package.json",
    '{\n  "scripts": {\n    "test": "node --test"\n  }\n}\n',
    '{\n  "scripts": {\n    "test": "node --test",\n    "lint": "eslint ."\n  }\n}\n',
)
EDITS["snapshot new"] = ("tests/snapshots/three.txt", None, "3\n")
EDITS["rename test file import"] = (T, BASE, BASE.replace("from calc import", "from mathkit.calc import"))
EDITS["go"] = (
    "calc_test.go",
    'package c\n\nfunc TestAdd(t *testing.T) {\n\tif Add(1, 2) != 3 {\n\t\tt.Fatal("x")\n\t}\n}\n',
    'package c\n\nfunc TestAdd(t *testing.T) {\n\ttests := []struct{ a, b, want int }{\n\t\t{1, 2, 3},\n\t\t{0, 0, 0},\n\t}\n\tfor _, tt := range tests {\n\t\tif got := Add(tt.a, tt.b); got != tt.want {\n\t\t\tt.Errorf("got %d", got)\n\t\t}\n\t}\n}\n',
)


@pytest.mark.parametrize("name", EDITS)
def test_an_honest_edit_is_not_asked_about(name: str) -> None:
    path, old, new = EDITS[name]
    change = Change(path=path, op="add" if old is None else "modify")
    verdict = judge_changes([change], POLICY, workspace="/w/repo", texts={path: (old, new)})
    assert verdict.verdict == "allow", verdict.reason


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("def test_double_zero():\n    assert double(0) == 0\n", ""),
        ("    assert add(-1, 1) == 0\n", ""),
        ("assert add(10, 20) == 30", "assert add(10, 20)"),
        ("def test_add_big", "def check_add_big"),
        ("def test_double():", "@pytest.mark.xfail\ndef test_double():"),
        ("    assert add(2, 3) == 5\n", "    for a, b in []:\n        assert add(a, b) == 5\n"),
    ],
)
def test_a_test_that_is_lost_or_asserts_less_is_asked_about(old: str, new: str) -> None:
    assert old in BASE
    change = Change(path=T, op="modify")
    verdict = judge_changes([change], POLICY, workspace="/w/repo", texts={T: (BASE, BASE.replace(old, new))})
    assert (verdict.verdict, verdict.rule) == ("ask", "test-weakening")


TWO = "test('one', () => {\n  assert.strictEqual(f(1), 2);\n});\n\ntest('two', () => {\n  assert.strictEqual(f(2), 4);\n});\n"
GONE = {
    "renamed and moved": ({T: (BASE, None), "tests/test_sums.py": (None, BASE.replace("def test_d", "def test_sum_d"))}),
    "one deleted": ({T: (BASE, BASE.replace("\n\ndef test_double():\n    assert double(4) == 8\n", ""))}),
    "one became rows of the table of another": ({
        T: (
            "CASES = [(1, 1, 2)]\n\n\n@pytest.mark.parametrize('a, b, want', CASES)\ndef test_add(a, b, want):\n    assert add(a, b) == want\n\n\ndef test_rows():\n    for a, b, want in ROWS:\n        assert add(a, b) == want\n",
            "CASES = [(1, 1, 2)]\n\n\n@pytest.mark.parametrize('a, b, want', [*CASES, *((a, b, want) for a, b, want in ROWS)])\ndef test_add(a, b, want):\n    assert add(a, b) == want\n",
        )
    }),
    "a test of JavaScript": ({"test/f.test.js": (TWO, TWO.partition("\n\n")[0])}),
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


@pytest.mark.parametrize(
    ("assertion", "verdict"), [("assert got == want", "allow"), ("print(got, want)", "ask")]
)
def test_a_helper_in_another_file_asserts_for_the_tests_that_call_it(assertion: str, verdict: str) -> None:
    helped = BASE.replace(
        "    assert add(2, 3) == 5\n    assert add(-1, 1) == 0\n",
        "    same(add(2, 3), 5)\n    same(add(-1, 1), 0)\n",
    )
    texts = {T: (BASE, helped), "tests/support.py": (None, f"def same(got, want):\n    {assertion}\n")}
    changes = [Change(path=T, op="modify"), Change(path="tests/support.py", op="add")]
    judged = judge_changes(changes, POLICY, workspace="/w/repo", texts=texts, tests_by_id=True)
    assert judged.verdict == verdict
