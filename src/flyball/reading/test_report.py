"""Which tests a runner ran, by id, from the report that it left. Pure: bytes in, a report out.

Three forms are read: JSON lines of our own probes, the JSON of jest and vitest, and JUnit XML. A report that does
not say that the runner came to its end is incomplete: the process ended early, so nothing it says is enough.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal, cast
from xml.parsers import expat

import msgspec
from msgspec import Struct

from flyball.reading.terminal import as_object

Outcome = Literal["passed", "failed", "skipped"]
DETAIL_MOST = 300
TESTS_MOST = 200_000
ALONE = "fails without its runner"


class TestResult(Struct, frozen=True, omit_defaults=True):
    """One test: its id is the file (where known), `::` and the name that the runner gives it."""

    __test__ = False  # not a test class of pytest's

    id: str
    outcome: Outcome
    file: str = ""
    detail: str = ""
    took_ms: int = 0
    skips: int = 0  # subtests of it that were skipped, where its runner tells
    opened: tuple[str, ...] = ()  # files of the project that it read, besides code; where its runner tells
    bitten: bool = False  # it also ran with wrong assertions, without its runner, and failed


_NUMBERED = re.compile(r"(?<![^\W_])([^\W\d]\w*?)\d+(?=[-\]])")


def without_numbers(test: str) -> str:
    """The id of a test without the numbers that pytest gives to parameters it has no words for (`[3-expected12]`).
    Where the parameters stand in a set, they are others each time."""
    name, bracket, parameters = test.partition("[")
    return name + bracket + _NUMBERED.sub(r"\1", parameters)


class TestReport(Struct, frozen=True):
    """What the runners of one command reported. `complete`: every runner that began also said that it ended."""

    __test__ = False

    runners: tuple[str, ...] = ()
    tests: tuple[TestResult, ...] = ()
    complete: bool = True
    failed: bool = False  # a runner said that it failed, whatever its tests say
    deselected: int = 0
    altered: bool = False  # the report is not as its runner wrote it

    def ids(self, outcome: str) -> frozenset[str]:
        return frozenset(test.id for test in self.tests if test.outcome == outcome)

    def count(self, outcome: str) -> int:
        return sum(test.outcome == outcome for test in self.tests)


def read_reports(files: Mapping[str, bytes], root: str) -> TestReport | None:
    """The reports of one command, by file name, put together; None where there is none. Paths become relative to `root`."""
    reports = [
        report for name in sorted(files) if (report := _read(name, files[name], root, files)) is not None
    ]
    if not reports:
        return None
    alone, bitten = _rows_of(files, root, "alone"), _rows_of(files, root, "bitten")
    tests = [
        msgspec.structs.replace(test, outcome="failed", detail=ALONE)
        if test.id in alone
        else msgspec.structs.replace(test, bitten=True)
        if test.id in bitten
        else test
        for report in reports
        for test in report.tests
    ]
    return TestReport(
        runners=tuple(dict.fromkeys(name for report in reports for name in report.runners)),
        tests=tuple(_distinct(tests[:TESTS_MOST])),
        complete=all(report.complete for report in reports) and len(tests) <= TESTS_MOST,
        failed=any(report.failed for report in reports),
        deselected=sum(report.deselected for report in reports),
    )


def _read(name: str, data: bytes, root: str, names: Mapping[str, bytes]) -> TestReport | None:
    if name.endswith(".jsonl"):
        return _probe_lines(data, root)
    if name.endswith(".json.begun"):
        return TestReport(runners=(name.partition("-")[0],), complete=name.removesuffix(".begun") in names)
    if name == "rspec.json":
        return _rspec(data)
    if name.endswith(".json"):
        return _jest(data, root, name.partition("-")[0])
    return _junit(data, root) if name.endswith((".xml", ".trx")) else None


def _distinct(tests: Iterable[TestResult]) -> Iterable[TestResult]:
    """Two tests of one name are told apart by their number; a second result of one test keeps the worse."""
    counts: dict[str, int] = {}
    for test in tests:
        counts[test.id] = counts.get(test.id, 0) + 1
        number = counts[test.id]
        yield test if number == 1 else msgspec.structs.replace(test, id=f"{test.id} #{number}")


# ---- probes ----


def _probe_lines(data: bytes, root: str) -> TestReport | None:
    rows = [row for line in data.splitlines() if (row := as_object(line))]
    if not any(row.get("kind") not in ("open", "close", "helper", "alone", "bitten") for row in rows):
        kinds = [
            row.get("kind") for row in rows
        ]  # a process that began no tests; without "close" it ended early
        return None if kinds != ["open"] else TestReport(complete=False)
    tests = [_from_row(row, root) for row in rows if row.get("kind") == "test"]
    ends = [row for row in rows if row.get("kind") == "end"]
    begins = [row for row in rows if row.get("kind") == "begin"]
    return TestReport(
        runners=tuple(dict.fromkeys(str(row.get("runner", "")) for row in begins)),
        tests=tuple(_merged(tests) if any(row.get("runner") == "unittest" for row in begins) else tests),
        complete=len(ends) == len(begins),
        failed=any(row.get("exit") not in (0, 5, None) for row in ends),
        deselected=sum(int(row.get("deselected") or 0) for row in ends),
    )


def _rows_of(files: Mapping[str, bytes], root: str, kind: str) -> set[str]:
    """Tests that failed where their runner was not loaded: as they are (`alone`), or with wrong assertions (`bitten`)."""
    lines = (line for name, data in files.items() if name.endswith(".jsonl") for line in data.splitlines())
    return {_from_row(row, root).id for line in lines if (row := as_object(line)) and row.get("kind") == kind}


def _from_row(row: dict[str, Any], root: str) -> TestResult:
    file, name, outcome = (
        _relative(str(row.get("file", "")), root),
        str(row.get("id", "")),
        row.get("outcome"),
    )
    if file and "::" not in name and not name.startswith(_module(file)):
        name = f"{file}::{name}"
    took = row.get("took")
    return TestResult(
        id=name,
        outcome=outcome if outcome in ("passed", "skipped") else "failed",
        file=file,
        detail=str(row.get("detail", ""))[:DETAIL_MOST],
        took_ms=int(took * 1000) if isinstance(took, int | float) else 0,
        skips=skips if isinstance(skips := row.get("skips"), int) else 0,
        opened=tuple(_relative(str(path), root) for path in row.get("opened") or ()),
    )


def _merged(tests: list[TestResult]) -> list[TestResult]:
    """unittest reports failed and skipped subtests under their test's id: the worst of them is the test's."""
    order = {"passed": 0, "skipped": 1, "failed": 2}
    worst: dict[str, TestResult] = {}
    for test in tests:
        before = worst.get(test.id, test)
        skips = test.skips + before.skips if test.id in worst else test.skips
        worse = test if order[test.outcome] > order[before.outcome] else before
        worst[test.id] = msgspec.structs.replace(worse, skips=skips)
    return list(worst.values())


def _module(file: str) -> str:
    return file.removesuffix(".py").replace("/", ".")


def _relative(path: str, root: str) -> str:
    prefix = root.rstrip("/") + "/"
    return posixpath.normpath(path.removeprefix(prefix)) if path else ""


# ---- jest and vitest ----


def _jest(data: bytes, root: str, runner: str) -> TestReport | None:
    try:
        report = msgspec.json.decode(data, type=_JestReport)
    except msgspec.MsgspecError:
        return TestReport(runners=(runner,), complete=False)
    tests: list[TestResult] = []
    for suite in report.testResults:
        file = _relative(suite.name, root)
        tests += [_from_jest(test, file) for test in suite.assertionResults]
        if suite.status == "failed" and not suite.assertionResults:  # the file did not even load
            tests.append(TestResult(f"{file}::(file)", "failed", file, suite.message[:DETAIL_MOST]))
    return TestReport(runners=(runner,), tests=tuple(tests), failed=not report.success)


class _JestTest(Struct):
    title: str = ""
    ancestorTitles: list[str] = []  # noqa: N815
    status: str = ""
    duration: float | None = None
    failureMessages: list[str] | None = None  # noqa: N815


class _JestSuite(Struct):
    name: str = ""
    status: str = ""
    message: str = ""
    assertionResults: list[_JestTest] = []  # noqa: N815


class _JestReport(Struct):
    success: bool = False
    testResults: list[_JestSuite] = []  # noqa: N815


def _from_jest(test: _JestTest, file: str) -> TestResult:
    outcome: Outcome = (
        "passed" if test.status == "passed" else "failed" if test.status == "failed" else "skipped"
    )
    detail = (
        (test.failureMessages or [""])[0]
        if outcome == "failed"
        else test.status
        if outcome == "skipped"
        else ""
    )
    name = " > ".join((*test.ancestorTitles, test.title))
    return TestResult(f"{file}::{name}", outcome, file, detail[:DETAIL_MOST], int(test.duration or 0))


# ---- RSpec ----


class _Example(Struct):
    full_description: str = ""
    file_path: str = ""
    status: str = ""


class _RspecReport(Struct):
    examples: list[_Example] = []


def _rspec(data: bytes) -> TestReport:
    try:
        report = msgspec.json.decode(data, type=_RspecReport)
    except msgspec.MsgspecError:
        return TestReport(runners=("rspec",), complete=False)
    outcomes: dict[str, Outcome] = {"passed": "passed", "pending": "skipped"}
    tests = tuple(
        TestResult(f"{file}::{one.full_description}", outcomes.get(one.status, "failed"), file)
        for one in report.examples
        if (file := one.file_path.removeprefix("./")) is not None
    )
    return TestReport(runners=("rspec",), tests=tests, failed=any(test.outcome == "failed" for test in tests))


# ---- JUnit XML: pytest's own, Maven, Gradle, ctest, RSpec, PHPUnit, nextest; and dotnet's TRX ----


class _Xml:
    """Collects test cases while the XML is parsed. Entities are not expanded: a document that defines any is refused."""

    def __init__(self, root: str) -> None:
        self.root, self.tests, self.suite = root, list[TestResult](), ""
        self.case: TestResult | None = None
        self.text = ""

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        tag = tag.rpartition(":")[2]
        if tag == "testsuite":
            self.suite = attributes.get("file", "")
        elif tag == "testcase":
            self.case, self.text = _from_junit(attributes, self.suite, self.root), ""
        elif tag == "UnitTestResult":
            outcome = {"Passed": "passed", "Failed": "failed"}.get(attributes.get("outcome", ""), "skipped")
            self.tests.append(TestResult(attributes.get("testName", ""), cast("Outcome", outcome)))
        elif self.case is not None and tag in ("failure", "error", "rerunFailure"):
            self._outcome("failed", attributes.get("message", ""))
        elif self.case is not None and tag == "skipped" and self.case.outcome != "failed":
            self._outcome("skipped", attributes.get("message", "") or attributes.get("type", ""))

    def _outcome(self, outcome: Outcome, detail: str) -> None:
        if self.case is not None:
            self.case = msgspec.structs.replace(self.case, outcome=outcome, detail=detail[:DETAIL_MOST])

    def end(self, tag: str) -> None:
        if tag.rpartition(":")[2] == "testcase" and self.case is not None:
            self.tests.append(self.case)
            self.case = None


def _from_junit(attributes: dict[str, str], suite_file: str, root: str) -> TestResult:
    file = _relative(attributes.get("file", "") or suite_file, root)
    classname, name = attributes.get("classname", ""), attributes.get("name", "")
    outcome: Outcome = (
        "skipped" if attributes.get("status") in ("notrun", "disabled", "skipped") else "passed"
    )
    if file.endswith(".py"):  # pytest's classname is the module and the classes: make it the node id again
        inner = classname.removeprefix(_module(file)).strip(".").replace(".", "::")
        name = "::".join(part for part in (file, inner, name) if part)
    elif classname and not name.startswith(classname):
        name = f"{classname}::{name}"
    took = attributes.get("time", "0").replace(",", "")
    took_ms = int(float(took) * 1000) if re.fullmatch(r"\d{1,9}(\.\d+)?", took) else 0
    return TestResult(name, outcome, file, took_ms=took_ms)


def _junit(data: bytes, root: str) -> TestReport | None:
    handler, parser = _Xml(root), expat.ParserCreate()
    parser.StartElementHandler, parser.EndElementHandler = handler.start, handler.end

    def refuse(*_: object) -> None:
        raise ValueError("a report defines no entities")

    parser.EntityDeclHandler = refuse
    try:
        parser.Parse(data, True)
    except (expat.ExpatError, ValueError):
        return TestReport(runners=("junit",), complete=False)
    failed = any(test.outcome == "failed" for test in handler.tests)
    return TestReport(runners=("junit",), tests=tuple(handler.tests), failed=failed)
