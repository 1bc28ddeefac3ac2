"""`python -m tests.fuzz --count N --traced N [--seconds S] [--seed N]`: the whole campaign, and one line of figures each."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from itertools import islice
from pathlib import Path
from typing import TypeVar

from tests.fuzz import judged, room, traced

STRETCH = 5_000
Work = tuple[int, int, float]
Done = TypeVar("Done")


def main() -> int:
    asked = _asked()
    deadline = time.monotonic() + asked.seconds if asked.seconds else 0.0
    with ProcessPoolExecutor(asked.jobs) as pool:
        bad = _judge(pool, asked, deadline and time.monotonic() + asked.seconds / 2)
        return int(_trace(pool, asked, deadline) or bad)


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make fuzz")
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--traced", type=int, default=20_000)
    parser.add_argument("--seconds", type=float, default=0.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1))
    return parser.parse_args()


def _judge(pool: ProcessPoolExecutor, asked: argparse.Namespace, deadline: float) -> bool:
    total = judged.Judged()
    for part in _spread(pool, _stretch, _seeds(asked.count, STRETCH, asked.seed, deadline)):
        total.join(part)
    words = ", ".join(f"{total.words.get(word, 0):,} {word}" for word in ("allow", "ask", "deny"))
    print(
        f"judged  {total.count:,} lines: {words}; {len(total.faults)} faults; {len(total.slow)} over {judged.SLOWEST_MS:g} ms"
    )
    print(
        f"        p50 {total.percentile(0.5):.2f} ms, p99 {total.percentile(0.99):.2f} ms, longest {total.worst_ms:.1f} ms"
        f" of processor time; {total.memory_mb} MB more memory than at the start"
    )
    for line in [*total.faults[:10], *(line for _, line in total.slow[:10])]:
        print(f"        {line[:300]!r}")
    return bool(total.faults or total.slow or total.memory_mb > judged.GROWTH_MB)


def _trace(pool: ProcessPoolExecutor, asked: argparse.Namespace, deadline: float) -> bool:
    problem = room.can_run() if asked.traced else "No line was asked to be run."
    if problem:
        print(f"traced  {problem}")
        return False
    total = traced.Traced()
    for part in _spread(
        pool, _traced, _seeds(asked.traced, traced.BATCH * 5, asked.seed + 1_000_000, deadline)
    ):
        total.join(part)
    print(
        f"traced  {total.ran:,} allowed lines run: {total.executed:,} programs, {total.written:,} changes of files;"
        f" {len(total.escapes)} escapes"
    )
    for escape in total.escapes[:40]:
        print(f"        {escape.command[:300]!r}\n            {escape.what[:300]}")
    return bool(total.escapes)


def _seeds(count: int, size: int, seed: int, deadline: float) -> Iterator[Work]:
    """Pieces of work, each with a seed of its own; with a deadline as many as fit."""
    pieces = range(10**9) if deadline else range(-(-count // size))
    for number in pieces:
        if deadline and time.monotonic() > deadline:
            return
        yield seed + number, size if deadline else min(size, count - number * size), deadline


def _spread(pool: ProcessPoolExecutor, deed: Callable[[Work], Done], work: Iterator[Work]) -> Iterator[Done]:
    """A few pieces at a time, so that work that never ends can be begun."""
    waiting: set[Future[Done]] = set()
    for piece in work:
        waiting.add(pool.submit(deed, piece))
        if len(waiting) > 3:
            done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
            yield from (future.result() for future in done)
    yield from (future.result() for future in waiting)


def _stretch(work: Work) -> judged.Judged:
    return judged.stretch(*work)


def _traced(work: Work) -> traced.Traced:
    seed, count, deadline = work
    total = traced.Traced()
    with tempfile.TemporaryDirectory(prefix="flyball-fuzz-") as name:
        folder = Path(name)
        project = room.build(folder)
        lines = traced.allowed(seed, count)
        while batch := list(islice(lines, traced.BATCH)):
            total.join(traced.batch(batch, project, folder))
            if deadline and time.monotonic() > deadline:
                break
    return total


if __name__ == "__main__":
    sys.exit(main())
