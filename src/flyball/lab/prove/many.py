"""Several machines proved in parallel, one process for each."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from flyball.domain.machine import Machine
from flyball.lab.prove import Find, Proof, prove

Proved = tuple[Machine, Proof, float]  # how long it took, in seconds


def proofs(pairs: Sequence[tuple[Machine, Find]]) -> Iterator[Proved]:
    """In the given order; the largest are started first."""
    if len(pairs) < 2:
        yield from ((table, *timed(table, finding)) for table, finding in pairs)
        return
    with ProcessPoolExecutor(min(len(pairs), os.cpu_count() or 1), get_context("spawn")) as pool:
        largest = sorted(pairs, key=lambda each: -len(each[0].states))
        waiting = [pool.submit(timed, *each) for each in largest]
        results = {
            proof.machine: (proof, took_s) for proof, took_s in (future.result() for future in waiting)
        }
    yield from ((table, *results[table.name]) for table, _ in pairs)


def timed(table: Machine, finding: Find) -> tuple[Proof, float]:
    start = time.perf_counter()
    proof = prove(table, finding)
    return proof, time.perf_counter() - start
