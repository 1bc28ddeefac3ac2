"""How many tests fail is what the runner's own summary says, and nothing where no summary is known.

Each runner is a row: what its summary looks like and how it counts. Several summaries in one output (packages,
modules, two runners behind one `make test`) add up.
"""

import re
from collections.abc import Callable, Iterable

from flyball.reading.lazy import Lazy
from flyball.reading.terminal import plain

_LONGEST = 1_000_000
_NAMES_KEPT = 200


def failing(output: str) -> int | None:
    """The number of failing tests that the runners report; None where no runner's summary is found."""
    text = _bounded(output)
    counts = [count for count in (reader(text) for reader in _READERS) if count is not None]
    return sum(counts) if counts else None


def failing_names(output: str) -> tuple[str, ...]:
    """The names of failing tests as the runners print them, each once, in order, at most 200."""
    text = _bounded(output)
    found: dict[tuple[int, str], None] = {}
    for pattern in _NAMES:
        for match in pattern.finditer(text):
            name = next(group for group in match.groups() if group is not None)
            found[match.start(), name.strip()] = None
    named = dict.fromkeys(name for _, name in sorted(found) if name)
    return tuple(named)[:_NAMES_KEPT]


def _bounded(output: str) -> str:
    """The end of the output without colours, with plain line ends: summaries stand at the end."""
    return plain(output[-_LONGEST:]).replace("\r\n", "\n").replace("\r", "\n")


# ── readers ─────────────────────────────────────────────────────────────────────────────────────────────────

Reader = Callable[[str], int | None]


def _sum(pattern: str) -> Reader:
    """A runner whose summary lines each carry their counts in groups: all of them add up."""
    compiled = Lazy(pattern, re.M)

    def read(text: str) -> int | None:
        found = list(compiled.finditer(text))
        return sum(int(group) for match in found for group in match.groups() if group) if found else None

    return read


_PYTEST = Lazy(
    r"^(?:=+ )?((?:\d+ [a-z]+(?: [a-z]+)?, )*\d+ [a-z]+(?: [a-z]+)?) in \d[\d.]*\s?s\b[^\n]*$", re.M
)


def _pytest(text: str) -> int | None:
    found = [match.group(1) for match in _PYTEST.finditer(text)]
    found = [
        summary
        for summary in found
        if re.search(r"\d (?:passed|failed|error|skipped|xfailed|deselected)", summary)
    ]
    return sum(map(_pytest_failures, found)) if found else None


def _pytest_failures(summary: str) -> int:
    return sum(int(count) for count in re.findall(r"(\d+) (?:failed|errors?)\b", summary))


_UNITTEST = Lazy(r"^Ran \d+ tests? in [\d.]+s\n+(?:(OK|NO TESTS RAN)\b|FAILED(?: \(([^)]*)\))?)", re.M)


def _unittest(text: str) -> int | None:
    found = [match for match in _UNITTEST.finditer(text) if match.group(1) != "NO TESTS RAN"]
    return sum(_unittest_failures(match.group(2) or "") for match in found) if found else None


def _unittest_failures(detail: str) -> int:
    return sum(int(n) for n in re.findall(r"(?:failures|errors|unexpected successes)=(\d+)", detail))


_JEST = Lazy(r"^\s*Tests:?\s{2,}([^\n]*?\d[^\n]*)$", re.M)
_JEST_SUITES = Lazy(r"^\s*Test (?:Suites:|Files)\s+(\d+) failed", re.M)


def _jest(text: str) -> int | None:
    """Jest and Vitest: failed tests, or failed files where a file did not even load."""
    found = [
        match.group(1)
        for match in _JEST.finditer(text)
        if re.search(r"total|passed|failed|skipped|todo", match.group(1))
    ]
    suites = sum(int(n) for n in _JEST_SUITES.findall(text))
    if not found and not suites:
        return None
    tests = sum(int(n) for summary in found for n in re.findall(r"(\d+) failed", summary))
    return tests or suites


_MOCHA = Lazy(r"^\s*(\d+) (passing|failing)\b", re.M)


def _mocha(text: str) -> int | None:
    found = _MOCHA.findall(text)
    return sum(int(count) for count, word in found if word == "failing") if found else None


_GO = Lazy(
    r"^(?:(--- FAIL: )|(ok)\s+\S+\s+(?:\(cached\)|[\d.]+s)|(FAIL)\s+\S+(?:\s+(?:[\d.]+s|\[[^\]]+\]))|(\?)\s+\S+\s+\[no test files\])",
    re.M,
)


def _go(text: str) -> int | None:
    """A package that failed without naming a test (it did not build, or it panicked) counts as one."""
    total, named, seen = 0, 0, False
    for test, fine, package, _ in _GO.findall(text):
        seen = seen or bool(fine or package)
        named += bool(test)
        if fine or package:
            total, named = total + (max(named, 1) if package else named), 0
    return total + named if seen else None


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
    found = _MAVEN.findall(text) or _MAVEN_CLASS.findall(text)
    return sum(int(failures) + int(errors) for failures, errors in found) if found else None


_PHPUNIT = Lazy(r"^(?:OK \(\d+ tests?,|Tests: \d+, Assertions: \d+([^\n]*))", re.M)


def _phpunit(text: str) -> int | None:
    found = [match.group(1) or "" for match in _PHPUNIT.finditer(text)]
    return (
        sum(int(n) for rest in found for n in re.findall(r"(?:Failures|Errors): (\d+)", rest))
        if found
        else None
    )


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
        r"^\s*Summary \[[^\]]*\]\s+\d+(?:/\d+)? tests? run: \d+ passed(?:[^\n]*?, (\d+) failed)?"
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
    r"^(?:FAILED|ERROR) ([^\s:]+(?:::[^\n]*?)?\S)(?= - |$)",  # pytest
    r"^(?:FAIL|ERROR): (\w+ \([\w.<>]+\))",  # unittest
    r"^\s*--- FAIL: (\S+)",  # go
    r"^test (\S[^\n]*?) \.\.\. FAILED",  # cargo
    r"^\s+FAIL \[[^\]]*\] ([^\n]+)$",  # nextest
    r"^rspec (\S+)",
    r"^\s+● ([^\n]+ › [^\n]+)$",  # jest
    r"^ ?(?:FAIL|×)\s{1,2}([^\n]+? > [^\n]+?)(?: \d+ms)?$",  # vitest
    r"^not ok \d+ (?:- )?([^\n#]+?)(?:\s*$)",  # TAP
    r"^\s*✖ ([^\n]+?) \([\d.]+ms\)$",  # node:test
    r"^\d+\) (\w[\w\\]*::\w+)",  # phpunit
    r"^\s+Failed (\S+) \[",  # dotnet
    r"^(?:\[ERROR\] )?([\w.$]+) .*<<< (?:FAILURE|ERROR)!",  # surefire
    r"^\s+\d+ - (\S+) \((?:Failed|Timeout|SEGFAULT|Not Run)",  # ctest
    r"^(\w[\w.]* > [^\n]+) FAILED$",  # gradle
))  # fmt: skip
