"""Clocks and medians. The machine may be shared: repeat, take turns with what stands beside, take the median.

What only computes is timed by the CPU it uses; what waits for a disk or a process, by the clock on the wall.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence

Deed = Callable[[], object]


def seconds(deed: Deed) -> float:
    began = time.perf_counter()
    deed()
    return time.perf_counter() - began


def cpu_seconds(deed: Deed) -> float:
    began = time.process_time()
    deed()
    return time.process_time() - began


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
    """The median over the rounds of each round's lowest tenth: what it takes when nobody else has the core."""
    return median([percentile(taken, 0.1) for taken in rounds])


def usual(rounds: Sequence[Sequence[float]]) -> float:
    """The median of all."""
    return median([value for taken in rounds for value in taken])


def rate(deed: Callable[[int], object], count: int, rounds: int) -> float:
    """How many a second of CPU: the median over the rounds of `deed(count)`, which does it `count` times."""
    return count / median([cpu_seconds(lambda: deed(count)) for _ in range(rounds)])
