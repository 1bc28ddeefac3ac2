"""What test runners print: how many tests failed, which tests ran, and what their environment lacks.

Each runner has a pattern for its summary lines and a way to count. Several summaries in one output (packages, modules,
two runners behind one `make test`) add up. Where no summary is recognised the count is unknown. go test -v, cargo test,
nextest and ctest leave no report, but print one line a test; without a summary these lines are an incomplete report.

Patterns never look beyond a line or two, so the work grows with the output's length and no faster.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from msgspec import Struct

from flyball.reading.terminal import Lazy, last_lines, plain
from flyball.reading.test_report import Outcome, TestReport, TestResult

_LONGEST, _WIDEST = 1_000_000, 2_000  # summaries are short lines near the end
_NAMES_KEPT = 200


def failing(output: str) -> int | None:
    """The number of failing tests that the runners report; None where no runner's summary is found."""
    text = last_lines(output, _LONGEST, _WIDEST)
    counts = [count for count in (reader(text) for reader in _READERS) if count is not None]
    return sum(counts) if counts else None


def passing(output: str) -> int | None:
    """The number of tests that passed; None where the runner does not say."""
    text = last_lines(output, _LONGEST, _WIDEST)
    counts = [count for count in (reader(text) for reader in _PASSED) if count is not None]
    return sum(counts) if counts else None


def failing_names(output: str) -> tuple[str, ...]:
    """The names of failing tests as the runners print them, each once, in order, at most 200."""
    text = last_lines(output, _LONGEST, _WIDEST)
    places = {
        (match.start(), next(group for group in match.groups() if group is not None).strip())
        for pattern in _NAMES
        for match in pattern.finditer(text)
    }
    names = dict.fromkeys(name for _, name in sorted(places) if name)
    return tuple(names)[:_NAMES_KEPT]


# ── readers ─────────────────────────────────────────────────────────────────────────────────────────────────

Reader = Callable[[str], int | None]


def _sum(pattern: str) -> Reader:
    """A runner whose summary lines each carry their counts in groups: all of them add up."""
    compiled = Lazy(pattern, re.M)

    def read(text: str) -> int | None:
        matches = list(compiled.finditer(text))
        return sum(int(group) for match in matches for group in match.groups() if group) if matches else None

    return read


_PYTEST = Lazy(
    r"^(?:=+ )?((?:\d+ [a-z]+(?: [a-z]+)?, )*\d+ [a-z]+(?: [a-z]+)?) in \d[\d.]*\s?s\b[^\n]*$", re.M
)


def _pytest(text: str) -> int | None:
    lines = (match.group(1) for match in _PYTEST.finditer(text))
    words = r"\d (?:passed|failed|error|skipped|xfailed|deselected)"
    summaries = [line for line in lines if re.search(words, line)]
    return _total(r"(\d+) (?:failed|errors?)\b", summaries) if summaries else None


def _total(count: str, summaries: Iterable[str]) -> int:
    return sum(int(number) for summary in summaries for number in re.findall(count, summary))


_UNITTEST = Lazy(r"^Ran \d+ tests? in [\d.]+s\n+(?:(OK|NO TESTS RAN)\b|FAILED(?: \(([^)\n]*)\))?)", re.M)


def _unittest(text: str) -> int | None:
    runs = [match for match in _UNITTEST.finditer(text) if match.group(1) != "NO TESTS RAN"]
    details = (match.group(2) or "" for match in runs)
    return _total(r"(?:failures|errors|unexpected successes)=(\d+)", details) if runs else None


_JEST = Lazy(r"^\s*Tests:?[^\S\n]{2,}(\S[^\n]*)$", re.M)
_JEST_SUITES = Lazy(r"^\s*Test (?:Suites:|Files)\s+(\d+) failed", re.M)


def _jest(text: str) -> int | None:
    """Jest and Vitest: failed tests, or failed files where a file did not even load."""
    summaries = [
        match.group(1)
        for match in _JEST.finditer(text)
        if re.search(r"\d", match.group(1)) and re.search(r"total|passed|failed|skipped|todo", match.group(1))
    ]
    suites = sum(int(n) for n in _JEST_SUITES.findall(text))
    if not summaries and not suites:
        return None
    return _total(r"(\d+) failed", summaries) or suites


_MOCHA = Lazy(r"^\s*(\d+) (passing|failing)\b", re.M)


def _mocha(text: str) -> int | None:
    counts = _MOCHA.findall(text)
    return sum(int(count) for count, word in counts if word == "failing") if counts else None


_GO = Lazy(
    r"^(?:(--- FAIL: )|(ok)\s+\S+\s+(?:\(cached\)|[\d.]+s)|(FAIL)\s+\S+(?:\s+(?:[\d.]+s|\[[^\]\n]+\]))|(\?)\s+\S+\s+\[no test files\])",
    re.M,
)


def _go(text: str) -> int | None:
    """A package that failed without naming a test (it did not build, or it panicked) counts as one."""
    total, tests, packages = 0, 0, False
    for test, fine, package, _ in _GO.findall(text):
        tests += bool(test)
        if fine or package:
            total, tests = total + (max(tests, 1) if package else tests), 0
            packages = True
    return total + tests if packages else None


_TAP = Lazy(r"^(not )?ok \d+(?:[^\n#]|\\#)*(#\s*(?:todo|skip))?", re.M | re.I)
_TAP_PLAN = Lazy(r"^1\.\.\d+", re.M)
_NODE = Lazy(r"^(?:#|ℹ) (?:fail|cancelled) (\d+)$", re.M)


def _tap(text: str) -> int | None:
    """TAP, and node:test, which prints its own count below its TAP."""
    counts = _NODE.findall(text)
    if counts:
        return sum(map(int, counts))
    if not _TAP_PLAN.search(text):
        return None
    return sum(1 for bad, excuse in _TAP.findall(text) if bad and not excuse)


_MAVEN = Lazy(r"^(?:\[\w+\]\s+)?Tests run: \d+, Failures: (\d+), Errors: (\d+), Skipped: \d+\s*$", re.M)
_MAVEN_CLASS = Lazy(
    r"^(?:\[\w+\]\s+)?Tests run: \d+, Failures: (\d+), Errors: (\d+),[^\n]*Time elapsed", re.M
)


def _maven(text: str) -> int | None:
    """Surefire prints a line for each class and one for all; the latter where it is there."""
    lines = _MAVEN.findall(text) or _MAVEN_CLASS.findall(text)
    return sum(int(failures) + int(errors) for failures, errors in lines) if lines else None


_PHPUNIT = Lazy(r"^(?:OK \(\d+ tests?,|Tests: \d+, Assertions: \d+([^\n]*))", re.M)


def _phpunit(text: str) -> int | None:
    summaries = [match.group(1) or "" for match in _PHPUNIT.finditer(text)]
    return _total(r"(?:Failures|Errors): (\d+)", summaries) if summaries else None


_READERS: tuple[Reader, ...] = (
    _pytest,
    _unittest,
    _jest,
    _mocha,
    _go,
    _tap,
    _maven,
    _phpunit,
    _sum(r"^test result: \w+\. \d+ passed; (\d+) failed;"),  # cargo test
    _sum(
        r"^\s*Summary \[[^\]\n]*\]\s+\d+(?:/\d+)? tests? run: \d+ passed(?:[^\n]*?, (\d+) failed)?"
    ),  # cargo nextest
    _sum(
        r"^\d+ examples?, (\d+) failures?(?:, \d+ pending)?(?:, (\d+) errors? occurred outside of examples)?"
    ),  # rspec
    _sum(r"^\d+ (?:runs|tests), \d+ assertions, (\d+) failures, (\d+) errors"),  # minitest
    _sum(r"^\s*(?:\d+ (?:doctests?|properties|property), )*\d+ tests?, (\d+) failures?"),  # ExUnit
    _sum(r"^(?:Passed|Failed)!\s+- Failed:\s+(\d+), Passed:"),  # dotnet test
    _sum(r"^Total tests: \d+\n(?:\s+Passed: \d+\n)?(?:\s+Failed: (\d+))?"),  # dotnet vstest
    _sum(r"^\d+% tests passed, (\d+) tests? failed out of \d+"),  # ctest
    _sum(r"^\d+ tests? completed, (\d+) failed"),  # gradle
    _sum(r"^(?:ok|FAILED) \| \d+ passed[^|\n]*\| (\d+) failed"),  # deno
    _sum(r"^\s*Executed \d+ tests?, with (?:\d+ tests? skipped and )?(\d+) failures?"),  # XCTest
)


_RAN = Lazy(r"^Ran (\d+) tests? in [\d.]+s\n+(?:OK|FAILED)(?: \(([^)\n]*)\))?", re.M)


def _unittest_passed(text: str) -> int | None:
    runs = _RAN.findall(text)
    return (
        sum(int(count) for count, _ in runs) - _total(r"=(\d+)", [words for _, words in runs])
        if runs
        else None
    )


_PASSED: tuple[Reader, ...] = (
    _sum(r"^(?:=+ )?(?:\d+ [a-z]+, )*(\d+) passed\b[^\n]* in \d[\d.]*\s?s\b"),  # pytest
    _unittest_passed,
    _sum(r"^\s*Tests:?[^\S\n]{2,}(?=\S)(?:[^\n]*\D)?(\d+) passed\b"),  # jest, vitest
    _sum(r"^\s*(\d+) passing\b"),  # mocha
    _sum(r"^(?:#|ℹ) pass (\d+)$"),  # node:test
    _sum(r"^test result: \w+\. (\d+) passed;"),  # cargo test
)


def _compiled(patterns: Iterable[str]) -> tuple[Lazy, ...]:
    return tuple(Lazy(pattern, re.M) for pattern in patterns)


_NAMES = _compiled((
    r"^(?:FAILED|ERROR) ([^\s:(][^\s:]*(?:::[^\n]*?)?\S)(?= - |$)",  # pytest
    r"^(?:FAIL|ERROR): (\w+ \([\w.<>]+\))",  # unittest
    r"^\s*--- FAIL: (\S+)",  # go
    r"^test (\S[^\n]*?) \.\.\. FAILED",  # cargo
    r"^\s+FAIL \[[^\]\n]*\] ([^\n]+)$",  # nextest
    r"^rspec (\S+)",
    r"^\s+● ([^\n]+ › [^\n]+)$",  # jest
    r"^ ?(?:FAIL|×)\s{1,2}([^\n]+? > [^\n]+?)(?: \d+ms)?$",  # vitest
    r"^not ok \d+ (?:- )?([^\n#]+?)(?: # time=\S+)?$",  # TAP
    r"^\s*✖ ([^\n]+?) \([\d.]+ms\)$",  # node:test
    r"^\d+\) (\w[\w\\]*::\w+)",  # phpunit
    r"^\s+Failed (\S+) \[",  # dotnet
    r"^(?:\[ERROR\] )?([\w.$]+) .*<<< (?:FAILURE|ERROR)!",  # surefire
    r"^\s+\d+ - (\S+) \((?:Failed|Timeout|SEGFAULT|Not Run)",  # ctest
    r"^(\w[\w.]* > [^\n]+) FAILED$",  # gradle
))  # fmt: skip


# ---- one line a test ---------------------------------------------------------------------------------------


TEXT_MOST = 8 << 20
_WORDS: dict[str, Outcome] = {
    **dict.fromkeys(("PASS", "ok", "Passed", "FLAKY", "LEAK"), "passed"),
    **dict.fromkeys(("SKIP", "ignored", "Skipped", "Not Run", "Disabled"), "skipped"),
}


def read_lines(output: str) -> TestReport | None:
    """The tests named in the output; None where no such runner printed anything."""
    lines = [line for line in plain(output[-TEXT_MOST:]).splitlines() if line and not line.isspace()]
    reports = [
        report
        for reader in (_go_lines, _cargo_lines, _nextest, _ctest)
        if (report := reader(lines)) is not None
    ]
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


def _go_lines(lines: list[str]) -> TestReport | None:
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
_CARGO_BEGIN = re.compile(r"running \d+ tests?$")
_CARGO_TEST = re.compile(r"test (\S.*?)(?: \(line \d+\))?(?: - should panic)? \.\.\. (ok|FAILED|ignored)")
_CARGO_END = re.compile(r"test result: (ok|FAILED)\. ")


def _cargo_lines(lines: list[str]) -> TestReport | None:
    """Cargo names the binaries on standard error, in the order of their blocks of tests on standard output."""
    binaries = [match[1] or f"doc {match[2]}" for line in lines if (match := _CARGO_BINARY.match(line))]
    tests: list[TestResult] = []
    started, ended, failed = 0, 0, False
    for line in lines:
        if _CARGO_BEGIN.match(line):
            started += 1
        elif test := _CARGO_TEST.match(line):
            binary = binaries[min(ended, len(binaries) - 1)] if binaries else ""
            tests.append(TestResult(f"{binary}::{test[1]}", _outcome(test[2])))
        elif end := _CARGO_END.match(line):
            ended, failed = ended + 1, failed or end[1] == "FAILED"
    if not tests:
        return None
    complete = ended >= max(started, len(binaries))
    return TestReport(runners=("cargo test",), tests=tuple(tests), complete=complete, failed=failed)


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


# ---- what the environment lacks ----------------------------------------------------------------------------


_LACK_LONGEST = 400_000
NOT_STARTED = (126, 127)  # what a shell ends with where a command is not there or cannot be run
NO_TESTS = 5  # of pytest and unittest
SAID = 200  # characters of a program's own words in a sentence
PLUGIN = " (a plugin of the test runner is not installed)"


class Lack(Struct, frozen=True):
    """What was missing: `kind` is runner, start, command, module, metadata, dependency or tests; `names` are those it asked
    for."""

    kind: str
    names: tuple[str, ...]

    @property
    def says(self) -> str:
        listed = ", ".join(self.names[:5])
        return {
            "runner": f"the test runner '{listed}' is not installed for this Python",
            "start": f"the test runner does not start: {listed.rstrip('.')}",
            "command": f"the command cannot start: {listed}",
            "module": f"these modules cannot be imported: {listed}",
            "metadata": f"these packages are not installed: {listed}",
            "dependency": f"these dependencies cannot be found: {listed}",
            "tests": "no tests were found",
        }[self.kind]


_RUNNER = Lazy(r"^\S*python[\d.]*: No module named (\S+?)(?:\.__main__)?[;.]?$", re.M)
_NO_START = (  # pytest's own words for what it cannot even begin with
    Lazy(r"^.{0,200}: error: (unrecognized arguments: .+)$", re.M),
    Lazy(r"^ERROR: (file or directory not found: .+)$", re.M),
    Lazy(
        r"^pluggy[\w.]*\.PluginValidationError: .+\nhookimpl definition: .+\n(Argument.+ not be found in the hookspec)",
        re.M,
    ),
    Lazy(r"^pluggy[\w.]*\.PluginValidationError: (.+)$", re.M),
    Lazy(r"^INTERNALERROR> (\w[\w.]*(?:Error|Exception|Warning): .+)$", re.M),
)
_MODULES = (
    Lazy(r"^(?:E\s+)?ModuleNotFoundError: No module named '([\w.]+)'", re.M),
    Lazy(r"^(?:E\s+)?ImportError: cannot import name '\w+' from '([\w.]+)' \(unknown location\)", re.M),
    Lazy(
        r"^(?:E\s+)?ImportError: cannot import name '(\w+)' from (?:partially initialized module )?'([\w.]+)'",
        re.M,
    ),
    Lazy(r"^(?:E\s+)?(?:\w+: )?Error importing plugin \"[^\"\n]+\": No module named '([\w.]+)'", re.M),
    Lazy(r"\bCannot find (?:module|package) '([^'\n]+)'"),
)
_METADATA = (
    Lazy(r"PackageNotFoundError: No package metadata was found for ([\w.-]+)"),
    Lazy(r"DistributionNotFound: The '([\w.-]+)"),
)
_DEPENDENCIES = (  # of cargo and Go
    Lazy(r"^error: no matching package named `([^`\n]+)` found", re.M),
    Lazy(r"^error: failed to get `([^`\n]+)` as a dependency of package", re.M),
    Lazy(r"^\S+\.go:\d+:\d+: no required module provides package ([\w.~/-]+);", re.M),
    Lazy(r"^\S+\.go:\d+:\d+: missing go.sum entry for module providing package ([\w.~/-]+)", re.M),
)
_FILES = Lazy(r"FileNotFoundError: \[Errno 2\] No such file or directory: (?:Posix)?(?:Path\()?'([^'\n]+)'")
_UNLOADED = (
    r"errors? during collection|^ImportError while (?:loading conftest|importing test module)|^ERROR collecting "
    r"|_ ERROR collecting |Failed to import test module|Test suite failed to run"
)
_UNCOLLECTED = Lazy(
    _UNLOADED
    + r"|Error importing plugin |Cannot find (?:module|package) '|^Traceback \(most recent call last\):",
    re.M,
)
_LOAD_ERROR = Lazy(_UNLOADED, re.M)
_SAME_NAME = Lazy(
    r"^import file mismatch:\n.+\n.+\n.+ not the same as the test file we want to collect:\n +(.+)$", re.M
)
_EMPTY = Lazy(r"^(?:=+ )?(?:no tests ran in |collected 0 items\s*$)|^Ran 0 tests in ", re.M)


def lack(output: str, code: int) -> Lack | None:
    """What kept the tests from running; None where they ran, well or not."""
    text = last_lines(output, _LACK_LONGEST, _WIDEST)
    broken = code != 0 and "INTERNALERROR>" in text  # pytest then says that no tests ran
    empty = code == NO_TESTS and not re.search(r"\d (?:passed|failed|error)", text)
    if not broken and (empty or _EMPTY.search(text)):
        return Lack("tests", ())
    if code == 0:
        return None
    if runner := _RUNNER.findall(text):
        return Lack("runner", tuple(dict.fromkeys(runner)))
    if code in NOT_STARTED:
        return Lack("command", (_last_line(text)[:SAID] or f"exit code {code}",))
    if reason := next((words for pattern in _NO_START for words in pattern.findall(text)), ""):
        return Lack("start", (f"{reason[:SAID]}{PLUGIN if reason.startswith('unrecognized') else ''}",))
    if dependencies := _matches(_DEPENDENCIES, text):
        return Lack("dependency", dependencies)
    if not _UNCOLLECTED.search(text):
        return None
    if modules := _modules(text):
        return Lack("module", modules)
    metadata = _matches(_METADATA, text)
    return Lack("metadata", metadata) if metadata else None


def _matches(patterns: Iterable[Lazy], text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for pattern in patterns for name in pattern.findall(text)))


def cannot_load(output: str) -> bool:
    """Some test files could not be imported."""
    return _LOAD_ERROR.search(last_lines(output, _LACK_LONGEST, _WIDEST)) is not None


def _modules(text: str) -> tuple[str, ...]:
    """`cannot import name 'b' from 'a'` asks for a.b."""
    groups = (match.groups() for pattern in _MODULES for match in pattern.finditer(text))
    names = (words[0] if len(words) == 1 else f"{words[1]}.{words[0]}" for words in groups)
    return tuple(dict.fromkeys(names))


def same_names(output: str) -> tuple[str, ...]:
    """Test files that pytest cannot load because it has loaded another of the same name."""
    return tuple(dict.fromkeys(_SAME_NAME.findall(last_lines(output, _LACK_LONGEST, _WIDEST))))


def missing_names(output: str) -> tuple[str, ...]:
    """Every module, package and file that the output says is missing, wherever in the run."""
    text = last_lines(output, _LACK_LONGEST, _WIDEST)
    return tuple(dict.fromkeys((*_modules(text), *_matches(_METADATA, text), *_FILES.findall(text))))


def _last_line(text: str) -> str:
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")
