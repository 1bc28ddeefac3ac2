"""A hundred runs in one process: durable transitions a second by group commit, beside LangGraph's checkpointer."""

from __future__ import annotations

import time
from pathlib import Path

from bench.figure import Beside, Figure
from bench.peers import peer
from bench.timing import median, seconds
from bench.yard import began, close, go_round, supervisor

RUNS = 100
GOAL = 20_000


def figures(folder: Path, quick: bool) -> list[Figure]:
    ticks, rounds = (20, 2) if quick else (60, 4)
    taken: dict[str, list[float]] = {"ring": [], "loop": [], "ring cpu": [], "loop cpu": [], "peer": []}
    for number in range(rounds):  # taking turns: what disturbs one disturbs the others
        for machine in ("ring", "loop"):
            wall, cpu = _rate(folder / f"{machine}{number}", machine, ticks)
            taken[machine].append(wall)
            taken[f"{machine} cpu"].append(cpu)
        if found := peer("langgraph_loops", str(folder / f"lg{number}.db"), "100", "6" if quick else "12"):
            taken["peer"].append(float(found["per_second"]))
    beside = (Beside("LangGraph SQLite, sync, 100 loops", median(taken["peer"])),) if taken["peer"] else ()
    note = "" if beside else "LangGraph is not installed in bench/.venv"
    return [
        Figure(
            name="100 runs: durable transitions",
            value=median(taken["ring"]),
            unit="/s",
            goal=GOAL,
            more_is_better=True,
            beside=beside,
            cpu=median(taken["ring cpu"]),
            note=note,
        ),
        Figure(
            name="100 runs: durable agents' turns, judged",
            value=median(taken["loop"]),
            unit="/s",
            more_is_better=True,
            beside=beside,
            cpu=median(taken["loop cpu"]),
        ),
    ]


def _rate(folder: Path, machine: str, ticks: int) -> tuple[float, float]:
    """Transitions a second on the clock, and a second of CPU."""
    folder.mkdir()
    driving = supervisor(folder)
    for number in range(RUNS):
        driving.begin(began(f"r{number}", machine))
    go_round(driving)

    def work() -> None:
        for _ in range(ticks):
            go_round(driving)

    cpu = time.process_time()
    taken = seconds(work)
    cpu = time.process_time() - cpu
    close(driving)
    return RUNS * ticks / taken, RUNS * ticks / cpu
