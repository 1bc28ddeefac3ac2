"""What the gate proves, in which order, and what it asks (EVID-3, EVID-4, EVID-5): trees of a few lines, proved in this process."""

from __future__ import annotations

import ast
from collections.abc import Sequence

import pytest

from flyball.guard.change import Change
from flyball.proofs.examination import Examination, GateSettings, Side, private_variables
from flyball.proofs.exchange import Edits, Files, Room
from flyball.proofs.sides import Sides
from flyball.reading.test_report import TestReport, TestResult

Tree = dict[str, str]
WRONG, RIGHT = "def add(a, b):\n    return a - b\n", "def add(a, b):\n    return a + b\n"
TEST = "def test_add():\n    assert add(2, 3) == 5\n\n\ndef test_zero():\n    assert add(4, 0) == 4\n"
CALC, TESTS = "calc.py", "tests/test_calc.py"
BASE: Tree = {CALC: WRONG, TESTS: TEST, "README.md": "Adds.\n"}


class Trees:
    """Trees by their names, and the proofs of them that were asked for."""

    def __init__(self, *, alone: bool = False, **trees: Tree) -> None:
        self.trees: dict[str, Tree] = trees
        self.proved: list[str] = []
        self.alone = alone  # tests also run without their runner

    def read(self, places: Sequence[tuple[str, str]]) -> list[bytes | None]:
        texts = [self.trees[tree].get(path) for tree, path in places]
        return [None if text is None else text.encode() for text in texts]

    def edited(self, tree: str, edits: Edits) -> str:
        files = {
            **self.trees[tree],
            **{path: data.decode() for path, data in edits.items() if data is not None},
        }
        files = {path: text for path, text in files.items() if edits.get(path, b"") is not None}
        name = next((name for name, known in self.trees.items() if known == files), f"tree-{len(self.trees)}")
        self.trees[name] = files
        return name

    def prove(self, tree: str, name: str, room: Room) -> Side:
        self.proved.append(name)
        return self.side(tree, room)

    def side(self, tree: str, room: Room = Room()) -> Side:  # noqa: B008
        files, tested = self.trees[tree], not room.source
        wrong = outcomes({**files, **room.broken}, tested=tested) if self.alone and room.broken else {}
        tests = [
            TestResult(f"{TESTS}::{test}", outcome, TESTS, bitten=wrong.get(test) == "failed")
            for test, outcome in outcomes(files, tested=tested).items()
        ]
        good = all(test.outcome == "passed" for test in tests)
        return Side(TestReport(("pytest",), tuple(tests), failed=not good), good, took_us=1_000_000)


def outcomes(files: Tree, *, tested: bool) -> dict[str, str]:
    """How the tests of a tree end. The code sees `TESTED` where the room is not plain."""
    known: dict[str, object] = {"TESTED": tested}
    exec(files[CALC], known)
    exec(files.get(TESTS, ""), known)
    ended: dict[str, str] = {}
    for test in [
        one.name for one in ast.parse(files.get(TESTS, "")).body if isinstance(one, ast.FunctionDef)
    ]:
        try:
            known[test]()  # type: ignore[operator]
            ended[test] = "passed"
        except (AssertionError, RuntimeError):
            ended[test] = "failed"
    return {name: outcome for name, outcome in ended.items() if name.startswith("test")}


CHANGES: dict[str, tuple[Tree, Tree, list[str], str, list[str]]] = {
    # the base where it differs, the run's files, what is proved besides, the bite, what is asked
    "a repair": ({}, {CALC: RIGHT}, ["again-1", "broken-expectations"], "noticed", []),
    "a repair with a test": (
        {},
        {CALC: RIGHT, TESTS: TEST + "\n\ndef test_more():\n    assert add(1, 1) == 2\n"},
        ["base-tests", "run-tests", "again-1", "broken-expectations"],
        "noticed",
        [],
    ),
    "another expectation": (
        {},
        {TESTS: TEST.replace("== 5", "== -1")},
        ["broken-functions"],
        "noticed",
        ["test_add: its version before the change fails on the changed code"],
    ),
    "a test that is gone": (
        {CALC: RIGHT},
        {CALC: RIGHT + "\n\nMORE = 1\n", TESTS: TEST.partition("\n\n\n")[2]},
        ["base-tests", "run-tests", "broken-functions"],
        "noticed",
        ["test_add: it was removed"],
    ),
    "code that knows it is tested": (
        {},
        {CALC: "def add(a, b):\n    return a + b if TESTED else a - b\n"},
        ["again-1", "again-1-changes", "again-1-more", "broken-expectations"],
        "noticed",
        ["test_add: it fails where the code cannot see that it is tested"],
    ),
    "code without a test": (
        {CALC: RIGHT},
        {CALC: RIGHT + "\n\ndef twice(a):\n    return a + a\n"},
        ["broken-changes"],
        "not noticed",
        ["The proof still passes when the changed functions raise an error"],
    ),
    "words only": ({CALC: RIGHT}, {"README.md": "Adds numbers.\n"}, ["broken-functions"], "noticed", []),
}


@pytest.mark.parametrize(("before", "after", "proofs", "bite", "asked"), CHANGES.values(), ids=CHANGES.keys())
def test_what_is_proved_and_what_is_asked(
    before: Tree, after: Tree, proofs: list[str], bite: str, asked: list[str]
) -> None:
    base = {**BASE, **before}
    trees = Trees(base=base, run={**base, **after})
    changes = [Change(path, "modify", lines_added=1, lines_deleted=1) for path in after]
    files = Files("base", "run", changes, Sides(["pytest -q"]), trees.read, list(base))
    settings = GateSettings(("pytest -q",), "all", 3, "auto", "Repair add.")
    baseline, proof = trees.side("base"), trees.side("run")
    assert proof.passed
    found = Examination(settings, files, baseline, proof, trees.edited, trees.prove).evidence()
    assert trees.proved == proofs
    assert found.bite == bite
    assert [words for words in asked if not any(words in doubt for doubt in found.doubts)] == []
    assert len(found.doubts) == len(asked), found.doubts


@pytest.mark.parametrize(
    ("wrong", "proofs"),
    [
        (RIGHT, ["again-1"]),
        (RIGHT.replace("a + b", "Any(a + b)") + "class Any(int):\n    def __eq__(self, other):\n        return True\n", ["again-1", "broken-expectations"]),
    ],
    ids=["noticed", "not noticed"],
)  # fmt: skip
def test_a_bite_that_the_repeat_has_answered_needs_no_proof_of_its_own(wrong: str, proofs: list[str]) -> None:
    trees = Trees(alone=True, base=BASE, run={**BASE, CALC: wrong})
    files = Files(
        "base", "run", [Change(CALC, "modify", lines_added=1)], Sides(["pytest -q"]), trees.read, list(BASE)
    )
    settings = GateSettings(("pytest -q",), "all", 3, "auto", "Repair add.")
    found = Examination(
        settings, files, trees.side("base"), trees.side("run"), trees.edited, trees.prove
    ).evidence()
    assert trees.proved == proofs
    assert (found.bite, found.bite_places) == (
        "noticed" if len(proofs) == 1 else "not noticed",
        ("expectations in 1 file",),
    )


VARIABLES = {
    "set by tests alone": ("awk -v n=\"${LIST:+1}\" '{ print n }'", "", ["LIST"]),
    "known before": ('echo "$LIST"', "echo $LIST", []),
    "not set by tests": ('echo "$COLOUR"', "", []),
    "an own one of each test": ('echo "$FILE"', "", ["FILE"]),
}


@pytest.mark.parametrize(("line", "before", "names"), VARIABLES.values(), ids=VARIABLES.keys())
def test_a_variable_that_only_tests_set(line: str, before: str, names: list[str]) -> None:
    tests = "LIST=./list.sh FILE=x sh one.test.sh\n"
    base = {"list.sh": f"{before}\n", "tests/run.sh": tests}
    trees = Trees(base=base, run={**base, "list.sh": f"{before}\n{line}\n"})
    files = Files(
        "base",
        "run",
        [Change("list.sh", "modify", lines_added=1)],
        Sides(["sh tests/run.sh"]),
        trees.read,
        list(base),
    )
    assert private_variables(files) == names
