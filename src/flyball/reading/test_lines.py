"""Which tests ran, from the lines that a runner prints for each test: go test -v, cargo test, nextest, ctest.

These runners have no report that can be asked for through the environment, but they print one line a test and a
summary. Lines without a summary are an incomplete report.
"""

from __future__ import annotations

import re

from flyball.reading.terminal import plain
from flyball.reading.test_report import Outcome, TestReport, TestResult

TEXT_MOST = 8 << 20
_WORDS: dict[str, Outcome] = {
    **dict.fromkeys(("PASS", "ok", "Passed", "FLAKY", "LEAK"), "passed"),
    **dict.fromkeys(("SKIP", "ignored", "Skipped", "Not Run", "Disabled"), "skipped"),
}


def read_lines(output: str) -> TestReport | None:
    """The tests named in the output; None where no such runner printed anything."""
    lines = plain(output[-TEXT_MOST:]).splitlines()
    reports = [report for read in (_go, _cargo, _nextest, _ctest) if (report := read(lines)) is not None]
    if not reports:
        return None
    return TestReport(
        runners=tuple(name for report in reports for name in report.runners),
        tests=tuple(test for report in reports for test in report.tests),
        complete=all(report.complete for report in reports),
        failed=any(report.failed for report in reports),
    )


def _outcome(word: str) -> Outcome:
    return _WORDS.get(word, "failed")


_GO_TEST = re.compile(r"\s*--- (PASS|FAIL|SKIP): (\S+) \(([\d.]+)s\)")
_GO_PACKAGE = re.compile(r"(ok|FAIL|---)\s+(\S+)\s+(?:\(cached\)|[\d.]+s|\[[^\]]+\])")


def _go(lines: list[str]) -> TestReport | None:
    """Tests are named before the line of their package."""
    tests: list[TestResult] = []
    pending: list[tuple[str, Outcome, int]] = []
    failed = False
    for line in lines:
        test, package = _GO_TEST.match(line), _GO_PACKAGE.match(line)
        if test:
            pending.append((test[2], _outcome(test[1]), int(float(test[3]) * 1000)))
        elif package and package[1] != "---":
            failed = failed or package[1] == "FAIL"
            tests += [TestResult(f"{package[2]}::{name}", end, took_ms=took) for name, end, took in pending]
            pending = []
    if not tests and not pending:
        return None
    tests += [TestResult(name, end, took_ms=took) for name, end, took in pending]
    return TestReport(runners=("go test",), tests=tuple(tests), complete=not pending, failed=failed)


_CARGO_BINARY = re.compile(r"\s+Running (?:unittests )?(\S+) \(|\s+Doc-tests (\S+)")
_CARGO_TEST = re.compile(r"test (\S.*?)(?: \(line \d+\))?(?: - should panic)? \.\.\. (ok|FAILED|ignored)")
_CARGO_END = re.compile(r"test result: (ok|FAILED)\. ")


def _cargo(lines: list[str]) -> TestReport | None:
    tests: list[TestResult] = []
    binary, open_binaries, failed = "", 0, False
    for line in lines:
        if begins := _CARGO_BINARY.match(line):
            binary, open_binaries = begins[1] or f"doc {begins[2]}", open_binaries + 1
        elif test := _CARGO_TEST.match(line):
            tests.append(TestResult(f"{binary}::{test[1]}", _outcome(test[2])))
        elif end := _CARGO_END.match(line):
            open_binaries, failed = max(0, open_binaries - 1), failed or end[1] == "FAILED"
    if not tests:
        return None
    return TestReport(runners=("cargo test",), tests=tuple(tests), complete=open_binaries == 0, failed=failed)


_NEXTEST = re.compile(
    r"\s+(PASS|FAIL|SKIP|LEAK|FLAKY|SIGABRT|SIGSEGV|TIMEOUT|ABORT) \[[^\]]*\]\s+(?:\([^)]*\)\s+)?(\S.*)"
)
_NEXTEST_END = re.compile(r"\s+Summary \[")


def _nextest(lines: list[str]) -> TestReport | None:
    results = [(match[1], match[2].strip()) for line in lines if (match := _NEXTEST.match(line))]
    if not results:
        return None
    tests: dict[str, Outcome] = {name: _outcome(word) for word, name in results}
    return TestReport(
        runners=("cargo nextest",),
        tests=tuple(TestResult(name, outcome) for name, outcome in tests.items()),
        complete=any(_NEXTEST_END.match(line) for line in lines),
        failed="failed" in tests.values(),
    )


_CTEST = re.compile(
    r"\s*\d+/\d+ Test\s+#\d+: (\S.*?) \.*\s*(?:\*{3})?(Passed|Failed|Skipped|Not Run|Timeout|Exception|Disabled)"
)
_CTEST_END = re.compile(r"\d+% tests passed, (\d+) tests? failed out of \d+")


def _ctest(lines: list[str]) -> TestReport | None:
    tests = [TestResult(match[1], _outcome(match[2])) for line in lines if (match := _CTEST.match(line))]
    ends = [match for line in lines if (match := _CTEST_END.match(line))]
    if not tests:
        return None
    failed = any(end[1] != "0" for end in ends)
    return TestReport(runners=("ctest",), tests=tuple(tests), complete=bool(ends), failed=failed)
