"""Count failing tests from the summaries that test runners print.

Each runner has a pattern for its summary lines and a way to count. Several summaries in one output (packages, modules,
two runners behind one `make test`) add up. Where no summary is recognised the count is unknown.

Patterns never look beyond a line or two, so the work grows with the output's length and no faster.
"""

import re
from collections.abc import Callable, Iterable

from flyball.reading.lazy import Lazy
from flyball.reading.terminal import last_lines

_LONGEST, _WIDEST = 1_000_000, 2_000  # summaries are short lines near the end
_NAMES_KEPT = 200


def failing(output: str) -> int | None:
    """The number of failing tests that the runners report; None where no runner's summary is found."""
    text = last_lines(output, _LONGEST, _WIDEST)
    counts = [count for count in (reader(text) for reader in _READERS) if count is not None]
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
    total, tests, packages = 0, 0, 0
    for test, fine, package, _ in _GO.findall(text):
        tests += bool(test)
        if fine or package:
            total, tests = total + (max(tests, 1) if package else tests), 0
            packages += 1
    return total + tests if packages else None


_TAP = Lazy(r"^(not )?ok \d+(?:[^\n#]|\\#)*(#\s*(?:todo|skip))?", re.M | re.I)
_TAP_PLAN = Lazy(r"^1\.\.\d+", re.M)
_NODE = Lazy(r"^(?:#|ℹ) (?:fail|cancelled) (\d+)$", re.M)


def _tap(text: str) -> int | None:
    """TAP, and node:test, which prints its own count below its TAP."""
    counted = _NODE.findall(text)
    if counted:
        return sum(map(int, counted))
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
    r"^not ok \d+ (?:- )?([^\n#]+)$",  # TAP
    r"^\s*✖ ([^\n]+?) \([\d.]+ms\)$",  # node:test
    r"^\d+\) (\w[\w\\]*::\w+)",  # phpunit
    r"^\s+Failed (\S+) \[",  # dotnet
    r"^(?:\[ERROR\] )?([\w.$]+) .*<<< (?:FAILURE|ERROR)!",  # surefire
    r"^\s+\d+ - (\S+) \((?:Failed|Timeout|SEGFAULT|Not Run)",  # ctest
    r"^(\w[\w.]* > [^\n]+) FAILED$",  # gradle
))  # fmt: skip
