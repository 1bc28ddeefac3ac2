"""Several machines proved side by side, a processor each."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from flyball.domain.machine import Machine
from flyball.lab.prove import Find, Proof, prove

Proved = tuple[Machine, Proof, float]  # how long it took, in seconds


def proofs(chosen: Sequence[tuple[Machine, Find]]) -> Iterator[Proved]:
    """In their order; the largest are begun first."""
    if len(chosen) < 2:
        yield from ((table, *timed(table, finding)) for table, finding in chosen)
        return
    with ProcessPoolExecutor(min(len(chosen), os.cpu_count() or 1), get_context("spawn")) as pool:
        largest = sorted(chosen, key=lambda each: -len(each[0].states))
        waiting = [pool.submit(timed, *each) for each in largest]
        found = {proof.machine: (proof, took_s) for proof, took_s in (done.result() for done in waiting)}
    yield from ((table, *found[table.name]) for table, _ in chosen)


def timed(table: Machine, finding: Find) -> tuple[Proof, float]:
    began = time.perf_counter()
    proof = prove(table, finding)
    return proof, time.perf_counter() - began
