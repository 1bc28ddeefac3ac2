"""How a proof's room is dressed. The result of a proof must not depend on it.

In a plain room the code under test sees an ordinary program: no test runner among its modules, arguments, callers and
variables (`runners/probes/plain`), and other process numbers. Code that behaves only while it is tested fails there.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from msgspec import Struct

LUCKY_REPEATS = 6
LUCKY_US = 20_000_000  # time for the repeats of code that depends on luck
QUICK_US = 30_000_000  # a proof that takes longer is not repeated
ARGUMENTS = (("-c",), ("main.py", "run"))
_CHANCE = r"\b(?:random\w*|randint|secrets|uuid\w*|urandom|getpid|getppid|getRandomValues|rand|RANDOM)\b|process\.pid\b|\$\$"
_CLOCK = r"\b(?:time(?:_ns)?|perf_counter\w*|monotonic\w*|now|hrtime|date|nanoTime|hash|id)\b"
_LUCK = re.compile(rf"{_CHANCE}|{_CLOCK}.*[%&]")  # a clock is a source of chance only by its last digits


class Room(Struct, frozen=True):
    """The default is an ordinary room."""

    source: tuple[str, ...] = ()  # files that see an ordinary program
    argv: tuple[str, ...] = ()  # its arguments
    ci: bool = True  # the variable CI is set
    numbers: int = 0  # process numbers that are used up before the command starts
    only: tuple[str, ...] = ()  # the tests to run, where the runner can leave others out
    files: tuple[str, ...] = ()  # or the test files
    times: int = 1  # how often each test runs, where the runner can repeat it
    one_failure: bool = False  # the first failing test ends it


SELECTING = frozenset(("pytest", "unittest"))  # the probes of these can run some tests alone, several times
SHOWING = SELECTING | {"doctest", "node:test", "mocha"}  # what these load sees a plain program


class Repeats(Struct, frozen=True):
    """How often a proof has to pass again: in so many rooms, each test so many times."""

    rooms: int
    times: int = 1


def repeats(source: Iterable[str], tests: Iterable[str], count: Repeats, *, node: bool) -> list[Room]:
    """Rooms to pass these tests in again, each dressed differently. Tools of Node that find no CI may wait for a
    person."""
    files, only = tuple(source), tuple(sorted(tests))
    return [
        Room(files, ARGUMENTS[n % len(ARGUMENTS)], node, 1 + 3 * n, only, times=count.times)
        for n in range(count.rooms)
    ]


def repeat_count(
    passes: int,
    done: int,
    took_us: int,
    lines: Iterable[str],
    tests_us: int | None = None,
    runners: Collection[str] = (),
) -> Repeats:
    """`done` of the wanted passes are there already; `lines` are those of the change: if one of them depends on
    chance, time or a process number, one lucky pass says little. `tests_us` is what the tests in question took, None
    where the runner cannot run them alone: then one room has to do. Where no room is plain to the code that these
    `runners` load, it would run as it did before: only luck is a reason to repeat it."""
    lucky = is_lucky(lines)
    if took_us > QUICK_US or (passes < 2 and not lucky):
        return Repeats(0)
    if lucky:
        return Repeats(max(passes - done, int(passes > 1), min(LUCKY_REPEATS, LUCKY_US // max(took_us, 1))))
    if not SHOWING.issuperset(runners):
        return Repeats(0)
    affordable = 1 if tests_us is None else took_us // 2 // max(tests_us, 1)
    return Repeats(1, max(1, min(passes - done, affordable)))


def is_lucky(lines: Iterable[str]) -> bool:
    return any(map(_LUCK.search, lines))
