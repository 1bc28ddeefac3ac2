"""What the proofs of one gate add up to: what was broken and by whom it was noticed, what is flaky, and the evidence."""

from __future__ import annotations

import difflib
import hashlib
import re
from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from flyball.domain.examined import Evidence
from flyball.proofs.compare import Comparison
from flyball.proofs.exchange import Edits, Files
from flyball.reading.test_report import TestReport

NAMES_MOST = 50
DIFF_MOST = 40  # lines
WHOLE = "The proof"  # stands for all tests where none is known by its id


class Side(Struct, frozen=True):
    """How the proof commands ended on one tree: the tests by id, where they are known, and whether all passed."""

    report: TestReport | None
    passed: bool

    def passing(self, known: bool) -> frozenset[str]:
        """The tests that pass. Where they are known by id and this time were not reported, none did."""
        if known:
            return self.report.ids("passed") if self.report else frozenset()
        return frozenset([WHOLE] if self.passed else [])


# ---- only a part of the tests ----


def changed_test_files(edits: Edits, before: TestReport | None, now: TestReport | None) -> tuple[str, ...]:
    """The edited files, where each holds tests and nothing else: then the tests of other files are not touched."""
    files = {test.file for report in (before, now) if report for test in report.tests}
    return tuple(edits) if before and now and files.issuperset(edits) else ()


def with_the_rest(side: Side, baseline: Side, files: tuple[str, ...]) -> Side:
    """The tests of these files as `side` ran them, and all others as the baseline did."""
    if not files or side.report is None or baseline.report is None:
        return side
    tests = {test.id: test for test in baseline.report.tests if test.file not in files}
    tests |= {test.id: test for test in side.report.tests}
    return Side(replace(side.report, tests=tuple(tests.values())), side.passed)


def time_of(report: TestReport | None, tests: frozenset[str]) -> int:
    """What these tests took, in microseconds."""
    return sum(test.took_ms * 1000 for test in report.tests if test.id in tests) if report else 0


# ---- repeated ----


def unsteady(tests: frozenset[str], staged: bool) -> list[str]:
    """What to ask about tests that do not pass every time. `staged`: they fail again and again in a plain room."""
    how = "fails where the code cannot see that it is tested and where its results cannot redefine equality"
    how = how if staged else "passes and fails on the same code (flaky)"
    return [f"{test} {how}" if test == WHOLE else f"{test}: it {how}" for test in sorted(tests)]


# ---- broken on purpose ----


class Break(Struct, frozen=True):
    """One way to break a tree, and the tests that have to notice it: one of them, or with `each` every one."""

    name: str  # expectations | changes | functions
    edits: Edits
    tests: frozenset[str] = frozenset()
    each: bool = False


def break_of(files: Files, report: TestReport | None, needed: frozenset[str]) -> Break:
    """Wrong expectations of the tests that need the change; where there are none, the changed functions raise, or
    else all functions."""
    edits, tests, each = files.broken_expectations(files_of(report, needed))
    if edits and tests:
        return Break("expectations", edits, tests, each)
    if report is None and (edits := files.broken_checks()):
        return Break("expectations", edits)
    passed = report.ids("passed") if report else frozenset[str]()
    if not needed and (edits := files.broken_changes()):
        return Break("changes", edits, passed)
    return Break("functions", files.broken_source(), needed or passed)


def files_of(report: TestReport | None, tests: frozenset[str]) -> dict[str, str]:
    """Each of these tests, with the file it stands in as far as its runner tells."""
    files = {test.id: test.file for test in report.tests} if report else {}
    return {test: test.partition("::")[0] if "::" in test else files.get(test, "") for test in tests}


def unnoticed(broken: Break, side: Side, known: bool) -> str:
    """What to ask where the proof passes although the tree is broken; "" where it noticed."""
    what = {
        "functions": "every function of the code raises an error",
        "changes": "the changed functions raise an error",
        "expectations": "its assertions are made wrong",
    }[broken.name]
    if side.report is None or not broken.tests:
        return f"The proof still passes when {what}" if side.passed else ""
    still = broken.tests & side.report.ids("passed")
    if known and broken.each and still and still != broken.tests:
        return f"{', '.join(sorted(still)[:5])}: passes also when {what}"
    return f"The proof still passes when {what}" if still == broken.tests else ""


# ---- the result ----


class Findings(Struct):
    """What the gate learned, besides the comparison of tests."""

    comparison: Comparison
    known: bool  # the tests are known by id
    flaky: tuple[str, ...] = ()
    bite: str = ""
    places: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()
    versions: tuple[str, ...] = ()


def evidence(tree: str, require: str, report: TestReport | None, findings: Findings) -> Evidence:
    comparison, doubts = findings.comparison, tuple(dict.fromkeys(findings.doubts))
    key = hashlib.sha256("\0".join((tree, *doubts)).encode()).hexdigest() if doubts else ""
    return Evidence(
        require=require,
        judged="tests" if findings.known else "command",
        runners=report.runners if report else (),
        passed=report.count("passed") if report else 0,
        skipped=report.count("skipped") if report else 0,
        fail_to_pass=comparison.fail_to_pass[:NAMES_MOST],
        fail_to_pass_count=len(comparison.fail_to_pass),
        pass_to_pass_count=len(comparison.pass_to_pass),
        removed=comparison.removed[:NAMES_MOST],
        newly_skipped=comparison.skipped[:NAMES_MOST],
        still_failing=comparison.still_failing[:NAMES_MOST],
        new_count=len(comparison.new),
        flaky=findings.flaky[:NAMES_MOST],
        bite=findings.bite,
        bite_places=findings.places,
        doubts=doubts[:NAMES_MOST],
        versions=findings.versions if doubts else (),
        doubts_key=key,
    )


def versions(comparison: Comparison, files: Files, task: str) -> tuple[str, ...]:
    """How the files of the tests in doubt were changed, and whether the task speaks of them."""
    lines: list[str] = []
    for path in dict.fromkeys(doubt.file for doubt in comparison.doubts if doubt.file):
        before, after = (files.text(tree, path).splitlines() for tree in (files.base, files.tree))
        lines += difflib.unified_diff(before, after, f"before {path}", f"after {path}", lineterm="", n=1)
    more = [f"({len(lines) - DIFF_MOST} more lines)"] if len(lines) > DIFF_MOST else []
    return (*_named_in_task(comparison, task), *(line[:200] for line in lines[:DIFF_MOST]), *more)


def _named_in_task(comparison: Comparison, task: str) -> Iterator[str]:
    for doubt in comparison.doubts:
        names = {re.split(r"::|\.", doubt.test.partition("[")[0])[-1], doubt.file.rpartition("/")[2]}
        named = next((name for name in sorted(names) if len(name) > 3 and name in task), "")
        if named:
            yield f"The task itself names {named}."
            return
