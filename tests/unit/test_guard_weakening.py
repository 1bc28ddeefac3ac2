"""Weakened tests are asked about; new, stronger, moved and rewritten ones are ordinary."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from textwrap import dedent

import pytest

import flyball.guard
from flyball.guard.change import Change, Verdict
from flyball.guard.changes import judge_changes
from flyball.guard.policy import parse

POLICY = parse((Path(flyball.guard.__file__).parent / "policies" / "default.toml").read_text("utf-8")).get()
SKIP = "@pytest.mark." + "skip"
MOCK = "m."


def judge(*changes: Change, texts: dict[str, tuple[str | None, str | None]] | None = None) -> Verdict:
    return judge_changes(changes, POLICY, workspace="/w", texts=texts)


def edit(path: str, removed: Sequence[str], added: Sequence[str]) -> Change:
    sizes = {"lines_added": len(added), "lines_deleted": len(removed)}
    return Change(path, "modify", added=tuple(added), removed=tuple(removed), **sizes)


def rewritten(before: str, after: str) -> tuple[str, str]:
    """The verdict and rule on a Python test file whose two texts are known."""
    path = "tests/test_x.py"
    ruling = judge(
        Change(path, "modify", lines_added=9, lines_deleted=9), texts={path: (dedent(before), dedent(after))}
    )
    return ruling.verdict, ruling.rule


TEST = "def test_a():\n    assert f(1) == 2\n    assert f(2) == 3\n"

WEAKER = {
    "deleted": "def test_b():\n    assert g(1) == 2\n",
    "skipped": SKIP + "(reason='slow')\n" + TEST,
    "skipped if true": SKIP + "if(True, reason='x')\n" + TEST,
    "xfailed": "@pytest.mark.xfail\n" + TEST,
    "emptied": "def test_a():\n    pass\n",
    "an assertion gone": "def test_a():\n    assert f(1) == 2\n",
    "membership": TEST.replace("f(1) == 2", "f(1) in (2, 3)"),
    "not none": TEST.replace("f(1) == 2", "f(1) is not None"),
    "truth": TEST.replace("f(1) == 2", "f(1)"),
    "constant": TEST.replace("f(1) == 2", "True"),
    "or true": TEST.replace("f(1) == 2", "f(1) == 2 or True"),
    "tuple": TEST.replace("f(1) == 2", '(f(1) == 2, "told")'),
    "itself": TEST.replace("f(1) == 2", "f(1) == f(1)"),
    "approximate": TEST.replace("== 2", "== pytest.approx(2)"),
    "swallowed": "def test_a():\n    try:\n        assert f(1) == 2\n        assert f(2) == 3\n    except Exception:\n        pass\n",
    "suppressed": "def test_a():\n    with suppress(AssertionError):\n        assert f(1) == 2\n        assert f(2) == 3\n",
    "early return": "def test_a():\n    return\n    assert f(1) == 2\n    assert f(2) == 3\n",
    "if false": "def test_a():\n    if False:\n        assert f(1) == 2\n        assert f(2) == 3\n",
    "module skip": "pytest.skip('later', allow_module_level=True)\n" + TEST,
    "module mark": "pytestmark = pytest.mark.xfail\n" + TEST,
    "hidden": "__test__ = False\n" + TEST,
    "overwritten": TEST + "test_a = None\n",
    "renamed away": TEST.replace("test_a", "disabled_a"),
    "repeated": "@pytest.mark.flaky(reruns=9)\n" + TEST,
    "commented out": "def test_a():\n    # assert f(1) == 2\n    assert f(2) == 3\n",
}


def test_a_new_test_may_compare_two_calls() -> None:
    after = TEST + "\n\ndef test_seed():\n    assert shuffled(4) == shuffled(4)\n"
    assert rewritten(TEST, after)[0] == "allow"


@pytest.mark.parametrize("after", WEAKER.values(), ids=WEAKER.keys())
def test_a_weakened_test_is_asked_about(after: str) -> None:
    assert rewritten(TEST, after) == ("ask", "test-weakening")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("with pytest.raises(ValueError, match='x'): f()", "with pytest.raises(ValueError): f()"),
        ("assert accuracy() > 0.9", "assert accuracy() > 0.5"),
        ("assert seconds() < 10", "assert seconds() < 100"),
        ("self.assertEqual(f(), 3)", "self.assertTrue(f())"),
        ("self.assertAlmostEqual(f(), 3, places=7)", "self.assertIsNotNone(f())"),
        (f"{MOCK}assert_called_once_with(3)", f"{MOCK}assert_called()"),
    ],
)
def test_a_loosened_assertion_is_asked_about(before: str, after: str) -> None:
    assert rewritten(f"def test_a(self):\n    {before}\n", f"def test_a(self):\n    {after}\n")[0] == "ask"
    lines = judge(edit("tests/test_x.py", [f"    {before}"], [f"    {after}"]))
    assert (lines.verdict, lines.rule) == ("ask", "test-weakening")


STRONGER = {
    "a new test": TEST + "def test_b():\n    assert g(1) is not None\n",
    "another value": TEST.replace("== 2", "== 4"),
    "a message": TEST.replace("== 2", "== 2, 'told'"),
    "a name for the result": "def test_a():\n    got = f(1)\n    assert got == 2\n    assert f(2) == 3\n",
    "another name": TEST.replace("test_a", "test_better_name"),
    "one more assertion": TEST + "    assert f(3) == 4\n",
    "a table of cases": (
        "@pytest.mark.parametrize(('a', 'b'), [(1, 2), (2, 3)])\ndef test_all(a, b):\n    assert f(a) == b\n"
    ),
    "the same test, parametrized": (
        "@pytest.mark.parametrize(('a', 'b'), [(1, 2), (2, 3)])\ndef test_a(a, b):\n    assert f(a) == b\n"
    ),
    "a helper": "def check(a, b):\n    assert f(a) == b\n\ndef test_a():\n    check(1, 2)\n    check(2, 3)\n",
    "in a class": "class TestA:\n    def test_a(self):\n        assert f(1) == 2\n        assert f(2) == 3\n",
    "a fixture": "@pytest.fixture\ndef x():\n    return 1\n\n" + TEST,
    "a function that returns": "def shown(words):\n    if words:\n        print(words)\n        return\n    print(f)\n\n\n"
    + TEST,
    "another order": "def test_a():\n    assert f(2) == 3\n    assert f(1) == 2\n",
}


@pytest.mark.parametrize("after", STRONGER.values(), ids=STRONGER.keys())
def test_honest_work_on_tests_is_ordinary(after: str) -> None:
    assert rewritten(TEST, after) == ("allow", "ordinary")


def test_a_test_that_moves_to_another_file_is_ordinary() -> None:
    texts: dict[str, tuple[str | None, str | None]] = {
        "tests/test_a.py": (TEST, None),
        "tests/test_b.py": ("", TEST),
    }
    gone, come = (
        Change("tests/test_a.py", "delete", lines_deleted=3),
        Change("tests/test_b.py", "add", lines_added=3),
    )
    assert judge(gone, come, texts=texts).verdict == "allow"
    assert judge(gone, texts=texts).verdict == "ask"
    lines = edit("tests/test_b.py", TEST.splitlines(), []), edit("tests/test_c.py", [], TEST.splitlines())
    assert judge(*lines).verdict == "allow"


def test_a_renamed_test_file_still_runs_or_is_asked_about() -> None:
    assert judge(Change("tests/unit/test_a.py", "rename", from_="tests/test_a.py")).verdict == "allow"
    assert judge(Change("tests/a.py.bak", "rename", from_="tests/test_a.py")).verdict == "ask"


def test_a_test_that_becomes_shorter_unseen_is_asked_about() -> None:
    assert judge(Change("tests/test_a.py", "modify", lines_added=1, lines_deleted=30)).verdict == "ask"
    assert judge(Change("tests/test_a.py", "modify", lines_added=30, lines_deleted=5)).verdict == "allow"
    assert judge(Change("tests/test_a.py", "delete", lines_deleted=30)).verdict == "ask"


@pytest.mark.parametrize(
    ("path", "removed", "added"),
    [
        ("src/a.test.ts", "it('a', () => {", "it.skip('a', () => {"),
        ("src/a.test.ts", "it('a', () => {", "xit('a', () => {"),
        ("src/a.test.ts", "describe('a', () => {", "describe.only('a', () => {"),
        ("src/a.test.ts", "expect(x).toBe(3);", "expect(x).toBeDefined();"),
        ("src/a.test.ts", "expect(x).toBe(3);", "expect(true).toBe(true);"),
        ("src/a.test.ts", "expect(x).toBe(3);", "// expect(x).toBe(3);"),
        ("pkg/a_test.go", 't.Fatalf("got %v", x)', 't.Logf("got %v", x)'),
        ("pkg/a_test.go", "", 't.Skip("flaky")'),
        ("tests/a.rs", "", "#[ignore]"),
        ("tests/a.rs", "assert_eq!(x, Some(3));", "assert!(x.is_some());"),
        ("src/test/java/ATest.java", "", "@Disabled"),
        ("src/test/java/ATest.java", "assertEquals(3, x);", "assertNotNull(x);"),
        ("spec/a_spec.rb", "it 'works' do", "xit 'works' do"),
        ("spec/a_spec.rb", "expect(x).to eq(3)", "expect(x).to be_truthy"),
    ],
)
def test_other_languages_are_read_by_the_line(path: str, removed: str, added: str) -> None:
    ruling = judge(edit(path, [f"    {removed}"] if removed else [], [f"    {added}"]))
    assert (ruling.verdict, ruling.rule) == ("ask", "test-weakening")


@pytest.mark.parametrize(
    ("path", "removed", "added"),
    [
        ("src/a.test.ts", "expect(x).toBe(3);", "expect(x).toBe(4);"),
        ("pkg/a_test.go", "", 't.Fatal("new")'),
        ("tests/a.rs", "assert_eq!(x, 3);", "assert_eq!(x, 4);"),
        ("src/test/java/ATest.java", "assertNotNull(x);", "assertEquals(3, x);"),
        ("spec/a_spec.rb", "expect(x).to be_truthy", "expect(x).to eq(3)"),
        ("src/skip.py", "", "def skip(x): return x"),
        ("src/app.py", "assert x == 1", ""),
    ],
)
def test_other_languages_keep_what_is_as_strong(path: str, removed: str, added: str) -> None:
    assert judge(edit(path, [removed] if removed else [], [added] if added else [])).verdict == "allow"


@pytest.mark.parametrize(
    ("path", "removed", "added"),
    [
        ("pyproject.toml", "fail_under = 90", "fail_under = 70"),
        ("pyproject.toml", "", 'addopts = "--ignore=tests/slow"'),
        ("package.json", '"test": "jest"', '"test": "echo ok"'),
        ("package.json", '    "branches": 80,', '    "branches": 40,'),
        ("tests/conftest.py", "", "def pytest_collection_modifyitems(items): items[:] = []"),
        ("scripts/ci.sh", "", "pytest -q || true"),
    ],
)
def test_configuration_and_code_that_spare_the_tests_are_asked_about(
    path: str, removed: str, added: str
) -> None:
    ruling = judge(edit(path, [removed] if removed else [], [added]))
    assert (ruling.verdict, ruling.rule) == ("ask", "test-weakening")


@pytest.mark.parametrize(
    ("path", "removed", "added"),
    [
        ("pyproject.toml", "fail_under = 90", "fail_under = 95"),
        ("pyproject.toml", "", 'testpaths = ["tests"]'),
        ("package.json", "", '"test:unit": "jest unit"'),
        ("tests/conftest.py", "", "def db(): return Db()"),
    ],
)
def test_stricter_configuration_is_ordinary(path: str, removed: str, added: str) -> None:
    assert judge(edit(path, [removed] if removed else [], [added])).verdict == "allow"


def test_a_finding_says_what_is_lost_and_where() -> None:
    path = "tests/test_x.py"
    texts: dict[str, tuple[str | None, str | None]] = {
        path: (TEST, "x = 1\n\n" + TEST.replace("== 3", "> 0"))
    }
    ruling = judge(Change(path, "modify", lines_added=1, lines_deleted=1), texts=texts)
    assert (ruling.file, ruling.line) == (path, 1)
    assert "an assertion is loosened" in ruling.reason


def test_a_file_that_is_no_python_is_read_by_the_line() -> None:
    assert rewritten(TEST, TEST.replace("    assert f(1) == 2\n", "") + "def (:\n")[0] == "ask"


@pytest.mark.parametrize(
    ("path", "removed", "added"),
    [
        ("src/a.spec.js", "  expect(f).toThrow(TypeError)", "  expect(f).toThrow()"),
        ("cypress/e2e/a.cy.ts", "  cy.get('a').should('have.text', 'x')", "  cy.get('a').should('exist')"),
        ("pkg/a_test.go", "func TestA(t *testing.T) {", "func testA(t *testing.T) {"),
        ("pkg/a_test.go", '\t\tt.Fatalf("got %d", got)', '\t\tt.Logf("got %d", got)'),
        ("src/lib.rs", "        assert_eq!(add(1, 2), 3);", ""),
        ("src/lib.rs", "    #[test]", ""),
        ("tsconfig.json", '    "strict": true,', '    "strict": false,'),
        ("mypy.ini", "strict = True", "strict = False"),
        ("pyproject.toml", "strict = true", "ignore_errors = true"),
        (".eslintrc.json", '"no-unused-vars": "error"', '"no-unused-vars": "off"'),
        ("src/test/kotlin/ATest.kt", "        assertEquals(1, f())", ""),
        ("spec/a_spec.rb", "    expect(x).to eq(3)", "    expect(x).not_to be_nil"),
        ("tests/ATests.cs", "        Assert.Equal(1, x);", "        Assert.NotNull(x);"),
        ("tests/a_test.cc", "TEST(A, B) {", "TEST(A, DISABLED_B) {"),
        ("Tests/ATests.swift", "        XCTAssertEqual(f(), 1)", "        XCTAssertNotNil(f())"),
    ],
)
def test_weakening_is_seen_in_other_languages_and_their_configuration(
    path: str, removed: str, added: str
) -> None:
    ruling = judge(edit(path, [removed], [added] if added else []))
    assert (ruling.verdict, ruling.rule) == ("ask", "test-weakening")


@pytest.mark.parametrize(
    ("path", "removed", "added"),
    [
        ("src/a.test.ts", "  expect(x).toBeTruthy()", "  expect(x).toEqual({a: 1})"),
        ("pkg/a_test.go", "func testHelper(t *testing.T) {", "func TestHelper(t *testing.T) {"),
        ("tsconfig.json", '    "strict": false,', '    "strict": true,'),
        ("mypy.ini", "strict = False", "strict = True"),
        ("pyproject.toml", "fail_under = 80", "fail_under = 90"),
        ("src/lib.rs", "    let x = 1;", "    let x = 2;"),
        (".eslintrc.json", '"no-console": "off"', '"no-console": "error"'),
    ],
)
def test_what_is_made_stricter_is_ordinary(path: str, removed: str, added: str) -> None:
    assert judge(edit(path, [removed], [added])).verdict == "allow"


def test_a_test_renamed_so_that_no_runner_finds_it_is_asked_about() -> None:
    assert judge(Change("tests/old_test_x.py", "rename", from_="tests/test_x.py")).verdict == "ask"
    assert judge(Change("tests/test_y.py", "rename", from_="tests/test_x.py")).verdict == "allow"


OLD = "import pytest\n\n\ndef test_a():\n    assert f(1) == 2\n    assert g(1) < 5\n"
GROWN = {
    "a test": "\n\ndef test_b():\n    assert f(2) == 3\n",
    "a longer test": "    assert f(3) == 4\n    assert g(2) < 500\n",
    "a loop within a new test": "\n\ndef test_b():\n    for n in (1, 2):\n        if n:\n            assert f(n) == n + 1\n",
    "a table": '\n\n@pytest.mark.parametrize("n", [1, 2])\ndef test_b(n):\n    assert f(n) == n + 1\n',
    "a fixture": "\n\n@pytest.fixture\ndef shelf():\n    return [1]\n",
    "a class": "\n\nclass TestB:\n    def test_a(self):\n        assert f(2) == 3\n",
    "a note": "\n\n# that is all\n",
}
TAKEN = {
    "an empty test of the same name": "\n\ndef test_a():\n    pass\n",
    "a test of the same name": "\n\ndef test_a():\n    assert f(1) == 2\n    assert g(1) < 5\n",
    "a skipped test": "\n\n" + SKIP + "\ndef test_b():\n    assert f(2) == 3\n",
    "a test overwritten": "\n\ntest_a = None\n",
    "a test deleted": "\n\ndel test_a\n",
    "all skipped": "\n\npytestmark = pytest.mark." + "skip\n",
    "hidden": "\n\n__test__ = False\n",
    "an assertion replaced": "\n\nunittest.TestCase.assertEqual = print\n",
    "a test imported over it": "\n\nfrom stubs import test_a\n",
    "a test given another's name": "\n\ntest_a = print\n",
}


@pytest.mark.parametrize("tail", GROWN.values(), ids=GROWN.keys())
def test_a_file_that_only_grew_is_ordinary_and_so_it_is_when_compared(tail: str) -> None:
    assert rewritten(OLD, OLD + tail)[0] == "allow"
    assert rewritten(OLD, "# compared\n" + OLD + tail)[0] == "allow"


@pytest.mark.parametrize("tail", TAKEN.values(), ids=TAKEN.keys())
def test_what_is_added_at_the_end_can_still_take_from_what_was_there(tail: str) -> None:
    assert rewritten(OLD, OLD + tail)[0] == "ask"


def test_a_bound_added_beside_the_old_one_is_no_wider_one() -> None:
    before = "def test_a():\n    assert g(1) < 5\n"
    assert rewritten(before, before + "    x = 1\n    if x:\n        assert g(1) < 500\n")[0] == "allow"
    assert rewritten(before, "def test_a():\n    assert g(1) < 500\n")[0] == "ask"


def test_a_mark_in_quotes_is_text() -> None:
    quoted = [
        "def test_marks_are_read():",
        '    assert parse("' + SKIP + '") == 1',
        "    assert run('--skip') == 0",
    ]
    assert judge(edit("tests/test_x.py", [], quoted)).verdict == "allow"
    assert judge(edit("src/a.test.ts", [], ["it('can it.skip', () => {"])).verdict == "allow"
    assert judge(edit("tests/a_test.cpp", ['TEST_CASE("a") {'], ['TEST_CASE("a", "[.]") {'])).verdict == "ask"


@pytest.mark.parametrize(
    ("path", "removed", "added"),
    [
        ("test/ASpec.scala", '  it should "a" in {', '  ignore should "a" in {'),
        ("tests/a.bats", "", '  skip "later"'),
        ("tests/a.bats", '@test "a" {', ""),
    ],
)
def test_a_test_left_out_is_asked_about_line_by_line(path: str, removed: str, added: str) -> None:
    lines = [[line] if line else [] for line in (removed, added)]
    assert judge(edit(path, *lines)).verdict == "ask"
