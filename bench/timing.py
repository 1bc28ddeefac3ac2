"""Clocks and medians. The machine may be shared: repeat, take turns with what stands beside, take the median.

One rule for every figure, whatever it gives: the value is a median by the clock on the wall (a p99 is over all
that was measured), and it alone is held against the goal. CPU time and calm moments stand beside it.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

Deed = Callable[[], object]


def seconds(deed: Deed) -> float:
    began = time.perf_counter()
    deed()
    return time.perf_counter() - began


class Taken(NamedTuple):
    """The same deed by two clocks."""

    wall: float
    cpu: float


def both(deed: Deed) -> Taken:
    wall, cpu = time.perf_counter(), time.process_time()
    deed()
    return Taken(time.perf_counter() - wall, time.process_time() - cpu)


def median(values: Sequence[float]) -> float:
    return statistics.median(values)


def percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def in_turns(deeds: Mapping[str, Deed], rounds: int, each: int = 1) -> dict[str, list[list[float]]]:
    """Every deed `each` times, then all of it again, `rounds` times: what disturbs one disturbs the others."""
    taken: dict[str, list[list[float]]] = {name: [] for name in deeds}
    for _ in range(rounds):
        for name, deed in deeds.items():
            taken[name].append([seconds(deed) for _ in range(each)])
    return taken


def calm(rounds: Sequence[Sequence[float]]) -> float:
    """The lowest twentieth of all: what it takes in the moments when nobody else has the core or the disk."""
    return percentile([value for taken in rounds for value in taken], 0.05)


def usual(rounds: Sequence[Sequence[float]]) -> float:
    """The median of all."""
    return median([value for taken in rounds for value in taken])


def rate(deed: Callable[[int], object], count: int, rounds: int) -> Taken:
    """How many a second, by each clock: the median over the rounds of `deed(count)`, which does it `count` times."""
    taken = [both(lambda: deed(count)) for _ in range(rounds)]
    return Taken(count / median([one.wall for one in taken]), count / median([one.cpu for one in taken]))
