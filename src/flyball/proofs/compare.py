"""What four reports say of a change: fail-to-pass, pass-to-pass, and every test that has to be asked about.

The four: the baseline (the base's tests on the base), the tree as it is, the base's test side over the run's source,
and the run's test side over the base's source. Where the test side did not change, the first two stand for all four.
"""

from __future__ import annotations

from collections.abc import Collection

from msgspec import Struct

from flyball.reading.test_report import TestReport, TestResult

Kind = str  # "fails" | "not run" | "removed" | "skipped"
NONE = TestReport()


class Doubt(Struct, frozen=True):
    """A test that judged the base and does not judge the change as it did: a person is asked about it by name."""

    test: str
    kind: Kind
    detail: str = ""
    file: str = ""

    def __str__(self) -> str:
        words = {
            "fails": "its version before the change fails on the changed code",
            "not run": "its version before the change no longer runs",
            "removed": "it was removed",
            "skipped": "it is skipped now",
        }
        return f"{self.test}: {words[self.kind]}{f' ({self.detail})' if self.detail else ''}"


class Comparison(Struct, frozen=True):
    """What is known of a change by test. All ids are sorted."""

    fail_to_pass: tuple[str, ...] = ()
    pass_to_pass: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    new: tuple[str, ...] = ()
    still_failing: tuple[str, ...] = ()
    doubts: tuple[Doubt, ...] = ()


def compare(
    baseline: TestReport,
    now: TestReport,
    base_side: TestReport | None = None,
    run_side: TestReport | None = None,
    followed: Collection[str] = (),
) -> Comparison:
    """`base_side` and `run_side` are None where the test side did not change; `followed` are removed tests whose
    content was found in another test that ran."""
    judged, without = base_side or now, run_side or baseline
    ran = (baseline.ids("passed") | baseline.ids("failed")) - _loaded(baseline, judged)
    gone = ran - {test.id for test in now.tests} - set(followed)
    skipped = ran & now.ids("skipped")
    passed = now.ids("passed")
    return Comparison(
        fail_to_pass=_sorted(passed - without.ids("passed")),
        pass_to_pass=_sorted(baseline.ids("passed") & judged.ids("passed")),
        removed=_sorted(gone),
        skipped=_sorted(skipped),
        new=_sorted({test.id for test in now.tests} - {test.id for test in baseline.tests}),
        still_failing=_sorted(now.ids("failed")),
        doubts=tuple(_doubts(ran, gone, skipped, judged if base_side else NONE, bool(base_side))),
    )


def _loaded(baseline: TestReport, now: TestReport) -> set[str]:
    """Failures of the base that were no tests: a file, class or table of cases that did not load, and does now."""
    ids = {test.id for test in now.tests}
    lost = [test for test in baseline.tests if test.outcome == "failed" and test.id not in ids]
    return {test.id for test in lost if any(name.startswith(_within(test)) for name in ids)}


def _within(test: TestResult) -> tuple[str, ...]:
    """How the ids of tests begin that could not be collected: unittest names a module, others the file itself."""
    module = test.id.rpartition("unittest.loader._FailedTest.")[2]
    if module != test.id:
        return (f"{module}.", f"{module.replace('.', '/')}.py::", f"{module.replace('.', '/')}/")
    if test.file and test.id in (f"{test.file}::{test.file}", f"{test.file}::(file)"):
        return (f"{test.file}::", f"{test.file}/")
    return (f"{test.id}[", f"{test.id}::")


def _doubts(
    ran: frozenset[str], gone: frozenset[str], skipped: frozenset[str], judged: TestReport, two_sided: bool
) -> list[Doubt]:
    results = {test.id: test for test in judged.tests}
    doubts: list[Doubt] = []
    for test in sorted(ran):
        result = results.get(test)
        if two_sided and (result is None or result.outcome == "skipped"):
            doubts.append(Doubt(test, "not run", file=_file(test)))
        elif two_sided and result is not None and result.outcome == "failed":
            doubts.append(Doubt(test, "fails", result.detail, result.file or _file(test)))
        elif test in gone:
            doubts.append(Doubt(test, "removed", file=_file(test)))
        elif test in skipped:
            doubts.append(Doubt(test, "skipped", file=_file(test)))
    return doubts


def _file(test: str) -> str:
    return test.partition("::")[0] if "::" in test else ""


def _sorted(tests: Collection[str]) -> tuple[str, ...]:
    return tuple(sorted(tests))


def disagreement(report: TestReport | None, exit_code: int, counted_failures: int | None) -> str:
    """Why a command that ended with 0 is not believed; "" where report, summary and exit code agree."""
    if exit_code != 0 or report is None:
        return ""
    if report.altered:
        return "the report of its tests was changed, added or removed by something other than the test runner"
    if not report.complete:
        return "the test runner ended early, before it reported its result"
    failed = report.count("failed")
    if failed or report.failed:
        return f"it exited with 0, but its report says that {failed or 'some'} tests failed"
    if counted_failures:
        return f"it exited with 0, but its summary says that {counted_failures} tests failed"
    return ""
