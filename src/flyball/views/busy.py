"""Which agent works on which run, and which run it takes next (LOOP-7). Reads the runs, decides nothing.

A run that a process runs keeps its agent busy until it ends or waits for a person. A run that could continue but has
no process is next: the agent that it needs takes it when it is free, oldest run first. Below a lane of `flyball up`
the next task of the backlog follows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

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
    status: str  # working | idle | waiting | paused | blocked | next | asks
    loop: int
    no_progress: int
    same_error: int
    circuit: str
    decision: str
    next: str = ""


def assignments(
    runs: Iterable[tuple[Run, bool]], backlogs: Mapping[str, list[str]] | None = None
) -> list[Assignment]:
    """The runs that have not ended, oldest first, each given with whether a process runs it. `backlogs`: repository ->
    the tasks that can start there, the most urgent first."""
    active = sorted((pair for pair in runs if pair[0].status != "ended"), key=lambda pair: pair[0].began.at)
    parents = {run.id: run for run, _ in active}
    rows = [(run, _assignment(run, driven)) for run, driven in active if not run.child]
    queue: dict[str, list[str]] = {}
    for _, row in rows:
        if row.status == "next":
            queue.setdefault(row.agent, []).append(row.run)
    tasks = {repo: [*names] for repo, names in (backlogs or {}).items()}
    return [
        _with_next(
            row, queue.get(row.agent) or (_from_lane(run, parents) and tasks.get(run.began.repo)) or []
        )
        for run, row in rows
    ]


def _from_lane(run: Run, parents: Mapping[str, Run]) -> bool:
    above = parents.get(run.began.parent)
    return run.machine.standing if above is None else _from_lane(above, parents)


def _assignment(run: Run, driven: bool) -> Assignment:
    role = run.act.role if run.act and run.act.agent else _role(run)
    return Assignment(
        agent=run.act.agent if run.act and run.act.agent else run.settings.agent_for(role),
        role=role,
        run=run.id,
        task=run.task,
        machine=run.machine.name,
        state=run.state,
        status=_status(run, driven),
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


def _status(run: Run, driven: bool) -> str:
    if run.question:
        return "asks"
    if not driven:
        return "next"
    at_work = "idle" if run.here.act == "listen" and run.act is None else "working"
    return at_work if run.status == "running" else run.status


def _with_next(row: Assignment, waiting: list[str]) -> Assignment:
    return replace(row, next=waiting.pop(0)) if row.status == "working" and waiting else row
