"""Which agent works on which run, and which run it takes next (LOOP-7). Reads the runs, decides nothing.

A run that a process runs keeps its agent busy until it ends or waits for a person. A run that could continue but has
no process is next: the agent that it needs takes it when it is free, oldest run first.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from flyball.state.run import Run
from flyball.views.loop_status import circuit, decision


class Assignment(Struct, frozen=True, kw_only=True):
    """One run and its agent. `next` is the run that the agent takes after this one."""

    agent: str
    role: str
    run: str
    task: str
    machine: str
    state: str
    status: str  # working | next | asks
    loop: int
    no_progress: int
    same_error: int
    circuit: str
    decision: str
    next: str = ""


def assignments(runs: Iterable[tuple[Run, bool]]) -> list[Assignment]:
    """The runs that have not ended, oldest first, each given with whether a process runs it."""
    active = sorted((pair for pair in runs if pair[0].status != "ended"), key=lambda pair: pair[0].began.at)
    rows = [_assignment(run, driven) for run, driven in active if not run.child]
    queue: dict[str, list[str]] = {}
    for row in rows:
        if row.status == "next":
            queue.setdefault(row.agent, []).append(row.run)
    return [_with_next(row, queue) for row in rows]


def _assignment(run: Run, driven: bool) -> Assignment:
    role = run.act.role if run.act and run.act.agent else _role(run)
    return Assignment(
        agent=run.act.agent if run.act and run.act.agent else run.settings.agent_for(role),
        role=role,
        run=run.id,
        task=run.task,
        machine=run.machine.name,
        state=run.state,
        status="asks" if run.question else "working" if driven else "next",
        loop=run.iteration or run.turn,
        no_progress=run.progress.idle,
        same_error=run.progress.errors,
        circuit=circuit(run),
        decision=decision(run),
    )


def _role(run: Run) -> str:
    """The role of the current state; if no agent acts there, the role that writes in this machine."""
    states = (run.here, *run.machine.states.values())
    return next((state.of for state in states if state.act == "agent"), "")


def _with_next(row: Assignment, queue: dict[str, list[str]]) -> Assignment:
    waiting = queue.get(row.agent, [])
    return replace(row, next=waiting.pop(0)) if row.status == "working" and waiting else row
