"""Many lines judged: never a fault, never slow, never more memory than a bound."""

from __future__ import annotations

import gc
import resource
import time
from collections import Counter
from collections.abc import Iterator

import msgspec
from tests.fuzz.lines import Lines

from flyball.guard.commands import default_policy, judge_command

POLICY = default_policy("/w/repo", "/home/dev")
SLOWEST_MS = 50.0
GROWTH_MB = 200
BUCKETS = 2_000  # of 0.05 ms each; the last one holds everything slower


class Judged(msgspec.Struct):
    """What a stretch of lines came to. `faults` and `slow` must be empty."""

    count: int = 0
    words: dict[str, int] = {}
    faults: list[str] = []
    slow: list[tuple[float, str]] = []
    worst_ms: float = 0.0
    worst: str = ""
    times: dict[int, int] = {}
    memory_mb: int = 0

    def percentile(self, share: float) -> float:
        left = share * self.count
        for bucket in sorted(self.times):
            left -= self.times[bucket]
            if left <= 0:
                return (bucket + 1) * 0.05
        return self.worst_ms

    def join(self, other: Judged) -> None:
        self.count += other.count
        self.words = dict(Counter(self.words) + Counter(other.words))
        self.times = dict(Counter(self.times) + Counter(other.times))
        self.faults += other.faults
        self.slow += other.slow
        self.memory_mb = max(self.memory_mb, other.memory_mb)
        if other.worst_ms > self.worst_ms:
            self.worst_ms, self.worst = other.worst_ms, other.worst


def stretch(seed: int, count: int, deadline: float = 0.0) -> Judged:
    """`count` lines of one seed. Time is the processor's for this thread: a busy machine changes nothing."""
    _warm()
    found, before = Judged(), _memory()
    for line in _lines(seed, count, deadline):
        taken, word, rule = _timed(line)
        if taken > SLOWEST_MS:  # a page fault or a garbage run is not the guard's; the second time is
            taken = min(taken, _timed(line)[0])
        found.count += 1
        found.words[word] = found.words.get(word, 0) + 1
        bucket = min(int(taken / 0.05), BUCKETS)
        found.times[bucket] = found.times.get(bucket, 0) + 1
        if rule == "guard-error":
            found.faults.append(line)
        if taken > SLOWEST_MS:
            found.slow.append((taken, line))
        if taken > found.worst_ms:
            found.worst_ms, found.worst = taken, line
    found.memory_mb = _memory() - before
    return found


def _lines(seed: int, count: int, deadline: float) -> Iterator[str]:
    lines = Lines(seed)
    for _ in range(count):
        if deadline and time.monotonic() > deadline:
            return
        yield lines.line()


def _timed(line: str) -> tuple[float, str, str]:
    start = time.thread_time()
    verdict = judge_command(line, POLICY)
    return (time.thread_time() - start) * 1e3, verdict.verdict, verdict.rule


def _warm() -> None:
    """Profiles are read from their files once; that is no line's fault."""
    lines = Lines(0)
    for _ in range(400):
        judge_command(lines.line(), POLICY)
    gc.collect()


def _memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
