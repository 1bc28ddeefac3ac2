"""Clocks and medians. The machine may be shared: repeat, take turns with what stands beside, take the median."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence

Deed = Callable[[], object]


def seconds(deed: Deed) -> float:
    began = time.perf_counter()
    deed()
    return time.perf_counter() - began


def median(values: Sequence[float]) -> float:
    return statistics.median(values)


def percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def in_turns(deeds: Mapping[str, Deed], rounds: int, each: int = 1) -> dict[str, list[float]]:
    """Every deed `each` times, then all of it again, `rounds` times: what disturbs one disturbs the others."""
    taken: dict[str, list[float]] = {name: [] for name in deeds}
    for _ in range(rounds):
        for name, deed in deeds.items():
            taken[name] += [seconds(deed) for _ in range(each)]
    return taken


def rate(deed: Callable[[int], object], count: int, rounds: int) -> float:
    """How many a second: the median over the rounds of `deed(count)`, which does it `count` times."""
    return count / median([seconds(lambda: deed(count)) for _ in range(rounds)])
