"""How a proof's room is dressed. The result of a proof must not depend on it.

In a plain room the code under test sees an ordinary program: no test runner among its modules, arguments, callers and
variables (`runners/probes/plain`), and other process numbers. Code that behaves only while it is tested fails there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

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


def repeats(source: Iterable[str], tests: Iterable[str], count: int, *, node: bool) -> list[Room]:
    """Rooms to pass these tests in again, each dressed differently. Tools of Node that find no CI may wait for a
    person."""
    files, only = tuple(source), tuple(sorted(tests))
    return [Room(files, ARGUMENTS[n % len(ARGUMENTS)], node, 1 + 3 * n, only) for n in range(count)]


def repeat_count(passes: int, done: int, took_us: int, lines: Iterable[str]) -> int:
    """How often a proof has to pass again. `done` passes are there already; `lines` are those of the change: if one
    of them depends on chance, time or a process number, one lucky pass says little."""
    if took_us > QUICK_US:
        return 0
    wanted = max(passes - done, int(passes > 1))  # at least once in a plain room
    if any(map(_LUCK.search, lines)):
        wanted = max(wanted, min(LUCKY_REPEATS, LUCKY_US // max(took_us, 1)))
    return max(wanted, 0)
