"""Leaving out what is the same never changes the verdict, and keeps the numbers of lines."""

from __future__ import annotations

import random

import pytest

from flyball.guard import pytests
from flyball.guard.changed_parts import reduced
from flyball.guard.weakening import Arrived, _compared

SKIP = "@pytest.mark." + "skip"
HELPERS = (
    "import pytest\n\n\ndef check(a, b):\n    assert f(a) == b\n\n\ndef outer(a):\n    check(a, a + 1)\n\n\n"
)
TESTS = "".join(
    f"def test_{n}():\n    assert f({n}) == {n}\n    assert g({n}) == {n}\n\n\n"
    if n % 3
    else f"def test_{n}():\n    outer({n})\n\n\n"
    for n in range(60)
)
OLD = HELPERS + TESTS + "class TestA:\n    def test_in(self):\n        assert f(1) == 1\n"


def told(old: str, new: str) -> list[tuple[str, int]]:
    """What the tests lost between two texts, and where."""
    before, after = pytests.read(old), pytests.read(new)
    if before is None or after is None:
        return [("unreadable", 0)]
    return [(weak.reason, weak.line) for weak in _compared(before, after, Arrived(()))]


EDITS = {
    "an assertion gone": ("    assert g(7) == 7\n", ""),
    "a helper emptied": ("    assert f(a) == b\n", "    pass\n"),
    "a helper of a helper emptied": ("    check(a, a + 1)\n", "    pass\n"),
    "a test skipped": ("def test_8(", SKIP + "\ndef test_8("),
    "a test gone": ("def test_10():\n    assert f(10) == 10\n    assert g(10) == 10\n\n\n", ""),
    "overwritten below": ("class TestA", "test_4 = None\n\n\nclass TestA"),
    "defined again": ("class TestA", "def test_5():\n    pass\n\n\nclass TestA"),
    "in a class": ("        assert f(1) == 1\n", "        pass\n"),
    "a mark for all": ("import pytest\n", "import pytest\n\npytestmark = " + SKIP[1:] + "\n"),
    "one more test": ("class TestA", "def test_new():\n    assert f(1) == 1\n\n\nclass TestA"),
    "put in a helper": ("    assert f(11) == 11\n    assert g(11) == 11\n", "    check(11, 11)\n    check(12, 12)\n"),
    "a remark": ("import pytest\n", "import pytest  # the runner\n"),
}  # fmt: skip


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS.keys())
def test_what_is_told_is_that_of_the_whole_texts(edit: tuple[str, str]) -> None:
    new = OLD.replace(*edit, 1)
    assert new != OLD
    assert told(*reduced(OLD, new)) == told(OLD, new)


def test_random_edits_are_told_as_of_the_whole_texts() -> None:
    rng = random.Random(4)
    lines = OLD.splitlines(keepends=True)
    for _ in range(40):
        at, copy = rng.randrange(len(lines)), lines[:]
        other = rng.choice(([], ["    pass\n"], [lines[rng.randrange(len(lines))]]))
        copy[at : at + rng.choice((1, 2, 5))] = other
        new = "".join(copy)
        assert told(*reduced(OLD, new)) == told(OLD, new), new


def test_what_cannot_matter_is_left_out_and_lines_keep_their_numbers() -> None:
    new = OLD.replace("    assert g(31) == 31\n", "", 1)
    before, after = reduced(OLD, new)
    assert (before.count("\n"), after.count("\n")) == (OLD.count("\n"), new.count("\n"))
    assert "test_31" in before and "test_32" not in before and "outer" not in before
    read = pytests.read(before)
    assert read and read.tests.keys() == {"test_31"}


def test_texts_that_could_be_cut_in_two_are_read_whole() -> None:
    torn = OLD + 'TEXT = """\ndef test_no():\n    pass\n"""\n'
    assert reduced(torn, torn + "X = 1\n") == (torn, torn + "X = 1\n")
