"""Where a test goes, what takes its place, and what of it is lost on the way."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

import flyball.guard
from flyball.guard.change import Change, edit_of
from flyball.guard.changes import judge_changes
from flyball.guard.policy import parse
from flyball.guard.weakening import weakenings

POLICY = parse((Path(flyball.guard.__file__).parent / "policies" / "default.toml").read_text("utf-8")).get()
ORDINARY, WEAKENED = ("allow", "ordinary"), ("ask", "test-weakening")
Texts = dict[str, tuple[str | None, str | None]]


def judged(*changes: Change, texts: Texts | None = None) -> tuple[str, str]:
    ruling = judge_changes(changes, POLICY, workspace="/w", texts=texts)
    return ruling.verdict, ruling.rule


def known(**files: tuple[str | None, str | None]) -> tuple[str, str]:
    """The ruling on test files whose texts before and after are known; `a` is tests/test_a.py."""
    texts: Texts = {
        f"tests/test_{name}.py": (before and dedent(before), after and dedent(after))
        for name, (before, after) in files.items()
    }
    ops = {
        path: "delete" if after is None else "add" if before is None else "modify"
        for path, (before, after) in texts.items()
    }
    changes = [Change(path, op, lines_added=9, lines_deleted=9) for path, op in ops.items()]  # type: ignore[arg-type]
    return judged(*changes, texts=texts)


def changed(before: str, after: str) -> tuple[str, str]:
    return known(a=(before, after))


def lines(
    path: str, removed: tuple[str, ...] | None, added: tuple[str, ...] | None, op: str = "modify"
) -> Change:
    sizes = {"lines_added": len(added or ()), "lines_deleted": len(removed or ())}
    return Change(path, op, added=added, removed=removed, **sizes)  # type: ignore[arg-type]


A = "def test_a():\n    assert f(1) == 2\n    assert f(2) == 3\n"
B = "def test_b():\n    assert g(1) == 2\n"
SKIP = "@pytest.mark." + "skip\n"


# ---- moving --------------------------------------------------------------------------------------------------------------


def test_a_test_may_move_to_a_file_that_had_none_of_its_name() -> None:
    assert known(a=(A + B, B), b=(B, B + A)) == ORDINARY
    assert known(a=(A, None), c=(None, A)) == ORDINARY
    assert known(a=(A, None), c=("def (:\n", A)) == ORDINARY  # it was no Python before
    inside = "class TestAll:\n" + "".join(f"    {line}\n" for line in A.splitlines())
    assert known(a=(A, None), c=(None, inside)) == ORDINARY


@pytest.mark.parametrize(
    "there",
    [
        (A, A),  # it was there before: nothing arrived
        (None, A.replace("test_a", "test_z")),
        (None, A.replace("    assert f(2) == 3\n", "")),
        (None, SKIP + A),
        (None, "def (:\n"),
        (A, None),
    ],
)
def test_a_test_that_is_gone_from_its_file_and_weaker_or_nowhere_else_is_asked_about(
    there: tuple[str | None, str | None],
) -> None:
    assert known(a=(A, None), c=there)[0] == "ask"
    assert known(a=(A + B, B), c=there)[0] == "ask"


def test_all_the_tests_of_a_deleted_file_must_live_on() -> None:
    assert known(a=(A + B, None), c=(None, A + B)) == ORDINARY
    assert known(a=(A + B, None), c=(None, A)) == WEAKENED
    assert known(a=("x = 1\n", None))[0] == "ask"  # a file that only looks like one


JS = ("it('adds', () => {", "  expect(add(1, 2)).toBe(3);", "});")


@pytest.mark.parametrize(
    ("there", "verdict"),
    [
        (lines("tests/b.test.ts", (), JS, "add"), "allow"),
        (lines("tests/b.test.ts", (), ("x = 1",), "add"), "ask"),
        (lines("src/b.ts", (), JS, "add"), "ask"),
        (lines("tests/b.test.ts", None, None, "add"), "ask"),
        (lines("tests/b.test.ts", JS, (), "delete"), "ask"),
    ],
)
def test_tests_in_other_languages_move_by_their_names(there: Change, verdict: str) -> None:
    gone = lines("tests/a.test.ts", JS, (), "delete")
    assert judged(gone, there)[0] == verdict
    assert judged(there, gone)[0] == verdict


def test_each_of_two_tests_of_the_same_name_must_arrive() -> None:
    gone = lines("tests/a.test.ts", JS * 2, (), "delete")
    assert judged(gone, lines("tests/b.test.ts", (), JS * 2, "add"))[0] == "allow"
    assert judged(gone, lines("tests/b.test.ts", (), JS, "add"))[0] == "ask"
    assert judged(lines("tests/a.test.ts", ("const x = 1;",), (), "delete"))[0] == "ask"


@pytest.mark.parametrize(
    ("path", "added", "verdict"),
    [
        ("tests/unit/test_a.py", 5, "allow"),
        ("tests/unit/test_a.py", 4, "ask"),
        ("tests/unit/test_b.py", 5, "ask"),
        ("tests/unit/my_test_a.py", 5, "ask"),
        ("docs/test_a.txt", 5, "ask"),
    ],
)
def test_unseen_a_test_moves_by_its_files_name_and_length(path: str, added: int, verdict: str) -> None:
    gone = Change("tests/test_a.py", "delete", lines_deleted=5)
    assert judged(gone, Change(path, "add", lines_added=added))[0] == verdict


def test_a_test_that_moved_between_files_of_lines_is_not_deleted() -> None:
    """Neither is what did not move excused by what did, nor does a file stand for itself."""
    here, there = ("src/a.test.ts", "src/b.test.ts")
    assert judged(lines(here, JS, ()), lines(there, (), JS))[0] == "allow"
    assert judged(lines(here, JS, ()), lines(there, (), ("x",)))[0] == "ask"
    assert judged(lines(here, JS, ()), lines(there, (), None))[0] == "ask"
    assert judged(lines(here, JS, ()))[0] == "ask"


# ---- what is read ----------------------------------------------------------------------------------------------------------


def test_what_only_moved_within_a_file_is_neither_gone_nor_new() -> None:
    before = "expect(a).toBe(1);\nfoo();\nexpect(b).toBe(2);\n"
    after = "expect(b).toBe(2);\nfoo();\n"
    path = "src/a.test.ts"
    change = Change(path, "modify", lines_added=9, lines_deleted=9)
    assert judged(change, texts={path: (before, after)}) == WEAKENED
    twice = "expect(a).toBe(1);\nexpect(a).toBe(1);\nfoo();\nexpect(b).toBe(2);\n"
    kept = "foo();\nexpect(a).toBe(1);\nexpect(a).toBe(1);\n"
    assert judged(change, texts={path: (twice, kept)}) == WEAKENED
    turned = "expect(b).toBe(2);\nfoo();\nexpect(a).toBe(1);\n"
    assert judged(change, texts={path: (before, turned)}) == ORDINARY
    assert judged(change, texts={path: (None, before)}) == ORDINARY


def test_lines_are_read_with_or_without_the_marks_of_a_diff() -> None:
    path, old, new = "src/a.test.ts", "expect(x).toBe(3);", "expect(x).toBe(4);"
    marked = lines(path, (f"-{old}", ""), (f"+{new}", ""))
    assert judged(marked) == judged(lines(path, (old,), (new,))) == ORDINARY
    assert judged(lines(path, (f"-{old}",), ("+  // gone",)))[0] == "ask"
    assert judged(lines("tests/test_x.py", ("-assert f(1) == 2",), ("+assert f(1) == 2",))) == ORDINARY
    assert judged(lines("tests/test_x.py", (), ("-1", "+assert f(1) == 2"))) == ORDINARY


def test_lines_of_which_only_one_side_is_known_are_read_all_the_same() -> None:
    assert judged(lines("src/a.test.ts", None, ("it.skip('a', () => {",)))[0] == "ask"
    assert judged(lines("src/a.test.ts", ("expect(x).toBe(3);",), None))[0] == "ask"
    assert judged(lines("src/a.test.ts", None, ("expect(x).toBe(3);",)))[0] == "allow"


@pytest.mark.parametrize(
    ("path", "op", "verdict"),
    [
        ("tests/conftest.py", "modify", "ask"),
        ("tests/conftest.py", "add", "ask"),
        ("tests/conftest.py", "mode", "allow"),
        ("tests/helpers.py", "modify", "allow"),
    ],
)
def test_what_decides_how_tests_run_is_asked_about_unseen(path: str, op: str, verdict: str) -> None:
    assert judged(Change(path, op, lines_added=3, lines_deleted=1))[0] == verdict  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("op", "added", "deleted", "verdict"),
    [("modify", 1, 2, "ask"), ("modify", 2, 2, "allow"), ("mode", 1, 2, "allow"), ("add", 1, 2, "allow")],
)
def test_only_a_known_test_that_becomes_shorter_is_asked_about_unseen(
    op: str, added: int, deleted: int, verdict: str
) -> None:
    change = Change("tests/test_a.py", op, lines_added=added, lines_deleted=deleted)  # type: ignore[arg-type]
    assert judged(change)[0] == verdict
    helper = Change("tests/helpers.py", op, lines_added=added, lines_deleted=deleted)  # type: ignore[arg-type]
    assert judged(helper)[0] == "allow"


def test_a_new_test_in_any_language_is_ordinary_unless_it_is_switched_off() -> None:
    for path, new in (("src/b.test.ts", JS), ("pkg/b_test.go", ('t.Fatal("x")',))):
        assert judged(lines(path, (), new, "add")) == ORDINARY
    assert judged(lines("src/b.test.ts", (), ("it.skip('adds', () => {",), "add"))[0] == "ask"
    assert judged(lines("tests/a.rs", ("assert_eq!(x, 3);",), (), "add"))[0] == "allow"


@pytest.mark.parametrize(
    ("old", "new", "verdict"),
    [
        ("tests/test_x.py", "tests/test_y.py", "allow"),
        ("tests/test_x.py", "tests/x.py", "ask"),
        ("tests/test_x.py", "docs/x.md", "ask"),
        ("tests/x.rs", "tests/y.rs", "allow"),
        ("tests/x.rs", "attic/x.txt", "ask"),
        ("src/x.py", "src/y.py", "allow"),
        ("src/test_x.py", "lib/x_test.py", "allow"),
    ],
)
def test_a_renamed_test_must_still_be_found(old: str, new: str, verdict: str) -> None:
    assert judged(Change(new, "rename", from_=old))[0] == verdict


def test_a_test_that_becomes_a_link_is_asked_about_and_a_link_is_not_read() -> None:
    assert judged(Change("tests/test_a.py", "symlink", target="b.py"))[0] == "ask"
    assert judged(Change("src/a.py", "symlink", target="b.py"))[0] == "allow"
    gone = lines("tests/a.test.ts", JS, (), "delete")
    linked = Change("tests/b.test.ts", "symlink", target="c.ts", added=JS, lines_added=3)
    assert judged(gone, linked)[0] == "ask"


def test_where_a_policy_allows_it_nothing_is_said() -> None:
    gone = Change("tests/test_a.py", "delete", lines_deleted=5)
    edit = edit_of(gone, gone.path, None)
    assert list(weakenings([edit], "allow")) == []
    assert [v.verdict for v in weakenings([edit], "deny")] == ["deny"]


# ---- what takes a test's place ------------------------------------------------------------------------------------------------

TWO = "def test_a():\n    assert f(1) == 2\n\ndef test_b():\n    assert f(2) == 3\n"


@pytest.mark.parametrize(
    ("after", "verdict"),
    [
        (
            "def test_all():\n    assert f(1) == 2\n    assert f(2) == 3\n",
            "ask",
        ),  # the gate knows better, by id
        ("def test_all():\n    assert f(1) == 2\n", "ask"),  # worth one of the two
        ("def test_all():\n    assert h(1) == 2\n    assert h(2) == 3\n", "ask"),  # of something else
        (SKIP + "def test_all():\n    assert f(1) == 2\n    assert f(2) == 3\n", "ask"),
        ("def test_all():\n    f(1)\n    f(2)\n", "ask"),
        (
            "@pytest.mark.flaky(reruns=9)\ndef test_all():\n    assert f(1) == 2\n    assert f(2) == 3\n",
            "ask",
        ),
        (
            "def test_a():\n    assert f(1) > 0\n\ndef test_b():\n    assert f(2) == 3\n\ndef test_c():\n    assert f(1) == 2\n",
            "allow",
        ),
        ("def test_a():\n    assert f(1) == 2\n\ndef test_c():\n    assert f(2) == 3\n", "allow"),
        ("def test_a():\n    f(1)\n\ndef test_c():\n    assert f(1) == 2\n    assert f(2) == 3\n", "allow"),
        ("def test_a():\n    f(1)\n\ndef test_c():\n    assert f(2) == 3\n", "ask"),
    ],
)
def test_tests_may_be_merged_or_split_if_as_much_is_asserted_of_the_same(after: str, verdict: str) -> None:
    assert changed(TWO, after)[0] == verdict


def test_what_one_test_was_given_for_its_loss_covers_no_other() -> None:
    """Two tests lose an assertion each; a new one with one assertion makes up for one of them."""
    old = "def test_a():\n    x()\n    assert f(1) == 2\n\ndef test_b():\n    x()\n    assert f(2) == 3\n"
    one = "def test_a():\n    x()\n\ndef test_b():\n    x()\n\ndef test_c():\n    assert f(1) == 2\n"
    assert changed(old, one)[0] == "ask"
    assert changed(old, one + "    assert f(2) == 3\n") == ORDINARY
    kept = "def test_a():\n    assert f(0) == 1\n{}\ndef test_b():\n    assert f(9) == 1\n{}\n"
    before = kept.format("    assert f(1) == 2\n", "    assert f(2) == 3\n")
    after = kept.format("", "") + "def test_c():\n    assert f(1) == 2\n"
    assert changed(before, after)[0] == "ask"
    assert changed(before, after + "    assert f(2) == 3\n") == ORDINARY


def test_a_finding_is_at_its_line_if_it_has_one() -> None:
    path = "tests/test_a.py"
    gone = judge_changes([Change(path, "delete", lines_deleted=5)], POLICY, workspace="/w")
    assert (gone.rule, gone.file, gone.line) == ("test-weakening", path, 0)


@pytest.mark.parametrize(
    "after", [SKIP + A, A.replace("():\n", "():\n    return\n"), "def test_a():\n    pass\n"]
)
def test_a_test_that_cannot_fail_any_more_is_asked_about(after: str) -> None:
    assert changed(A, after) == WEAKENED


def test_a_new_test_that_is_skipped_is_asked_about_and_one_under_a_condition_is_not() -> None:
    assert changed(A, A + SKIP + B) == WEAKENED
    assert changed(A, A + "@pytest.mark." + "skipif(old, reason='x')\n" + B) == ORDINARY
    assert changed(SKIP + A, SKIP + A + B) == ORDINARY
    assert changed(SKIP + A, A) == ORDINARY


def test_a_dodge_of_the_whole_file_counts_where_it_is_new() -> None:
    dodge = "pytestmark = pytest.mark." + "skip\n"
    assert changed(A, dodge + A)[0] == "ask"
    assert changed(dodge + A, dodge + A + B) == ORDINARY


# ---- how much is lost -----------------------------------------------------------------------------------------------------------

TABLE = "@pytest.mark.parametrize('n', {})\ndef test_a(n):\n    assert f(n) == n\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [("[1, 2]", "[1, 2, 3]"), ("[1, 2]", "[3, 4]"), ("[1, 2]", "cases()"), ("cases()", "[1]")],
)
def test_a_table_of_cases_may_change(before: str, after: str) -> None:
    assert changed(TABLE.format(before), TABLE.format(after)) == ORDINARY


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [
        (("f(1) == 2", "f(2) == 3"), ("f(1) == 2",), WEAKENED),
        (("f(1) == 2",), ("f(1) > 0",), WEAKENED),
        (("f(1) == 2",), ("f(1) > 0", "f(1) < 9"), WEAKENED),
        (("f(1) == 2", "f(2)"), ("f(1) > 0", "f(2) > 0"), WEAKENED),
        (("f(1) > 0",), ("f(1) == 2",), ORDINARY),
        (("f(1) == 2",), ("f(1) == 3",), ORDINARY),
        (("f(1) == 2", "True"), ("f(1) == 2",), ORDINARY),
        (
            ("f(1) == 2", "f(2) == 3", "f(3)", "f(4)"),
            ("f(1) == 2", "f(2) > 0", "f(3) > 0", "f(4) > 0"),
            WEAKENED,
        ),
        (("f(1) == 2", "f(2)"), ("f(1) == 3", "f(2) > 0"), ORDINARY),
    ],
)
def test_assertions_are_weighed(
    before: tuple[str, ...], after: tuple[str, ...], verdict: tuple[str, str]
) -> None:
    texts = ["def test_a():\n" + "".join(f"    assert {line}\n" for line in side) for side in (before, after)]
    assert changed(*texts) == verdict


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [
        (("f(n) == 2", "g(n) == 3"), ("f(n) == 2",), WEAKENED),
        (("f(n) == 2",), ("f(n) > 0",), WEAKENED),
        (("f(n) == 2",), ("f(n) == 3",), ORDINARY),
    ],
)
def test_assertions_are_weighed_once_for_each_case(
    before: tuple[str, ...], after: tuple[str, ...], verdict: tuple[str, str]
) -> None:
    head = "@pytest.mark.parametrize('n', [1, 2])\ndef test_a(n):\n"
    texts = [head + "".join(f"    assert {line}\n" for line in side) for side in (before, after)]
    assert changed(*texts) == verdict


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [
        ("f() > 5", "f() > 4", WEAKENED),
        ("f() > 5", "f() > 5", ORDINARY),
        ("f() < 5", "f() < 5", ORDINARY),
        ("f() > 5", "f() > 6", ORDINARY),
        ("f() > 5", "f() >= 5", ORDINARY),
        ("f() < 5", "f() < 6", WEAKENED),
        ("f() < 5", "f() < 4", ORDINARY),
        ("f() > 5", "g() > 4", ORDINARY),
        ("f() == approx(1, abs=0.1)", "f() == approx(2, abs=0.1)", ORDINARY),
    ],
)
def test_a_bound_that_is_moved_out_of_the_way_is_told(
    before: str, after: str, verdict: tuple[str, str]
) -> None:
    body = "def test_a():\n    assert {}\n"
    assert changed(body.format(before), body.format(after)) == verdict
