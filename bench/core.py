"""Transitions in memory: what is due, the intent, what follows, and every fact folded into the run."""

from __future__ import annotations

from bench.figure import Beside, Figure
from bench.timing import Taken, rate
from bench.yard import began, finished
from flyball.core.decide import Do, due, react
from flyball.domain import events as e
from flyball.state.fold import apply, begin
from flyball.state.run import Run

GOAL = 150_000


def figures(quick: bool) -> list[Figure]:
    count, rounds = (2_000, 3) if quick else (10_000, 7)
    whole, turn = _decided("ring", count, rounds), _decided("loop", count // 4, rounds)
    folded, table = _folded(count, rounds), _table(count * 10, rounds)
    beside = (
        Beside("plain dict table step", table.wall),
        Beside("the same, `Moved` folded only", folded.wall),
    )
    return [
        Figure(
            name="core: transitions decided and folded in memory",
            value=whole.wall,
            cpu=whole.cpu,
            unit="/s",
            goal=GOAL,
            more_is_better=True,
            beside=beside,
        ),
        Figure(
            name="core: `Moved` checked and folded in memory",
            value=folded.wall,
            cpu=folded.cpu,
            unit="/s",
            goal=GOAL,
            more_is_better=True,
            beside=beside[:1],
        ),
        Figure(
            name="core: an agent's judged turn decided and folded",
            value=turn.wall,
            cpu=turn.cpu,
            unit="/s",
            more_is_better=True,
            beside=beside[:1],
        ),
    ]


def _decided(machine: str, count: int, rounds: int) -> Taken:
    run = begin(began("r1", machine))
    for now in range(600):  # a run with a past: as many trees as a run remembers
        run = step(run, now)

    def some(times: int) -> None:
        moving = run
        for now in range(times):
            moving = step(moving, now)

    return rate(some, count, rounds)


def step(run: Run, now: int) -> Run:
    """One whole transition, as the supervisor makes it, without a journal."""
    asked = due(run, now)
    assert isinstance(asked, Do)
    run = apply(run, e.ActStarted(at=now, act=asked.act))
    return react(run, finished(asked.act), now).run


def _folded(count: int, rounds: int) -> Taken:
    run = begin(began("r1", "ring"))
    there = e.Moved(at=1, source="here", target="there", outcome="ready")
    back = e.Moved(at=2, source="there", target="here", outcome="ready")

    def some(times: int) -> None:
        moving = run
        for _ in range(times // 2):
            moving = apply(apply(moving, there), back)

    return rate(some, count, rounds)


def _table(count: int, rounds: int) -> Taken:
    table = {("here", "ready"): "there", ("there", "ready"): "here"}

    def some(times: int) -> None:
        state = "here"
        for _ in range(times):
            state = table[state, "ready"]

    return rate(some, count, rounds)
