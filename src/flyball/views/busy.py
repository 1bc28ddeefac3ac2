"""Who works on what, and who takes what is next (LOOP-7). Reads the folds, decides nothing.

A run that is driven keeps its agent busy until it ends or waits for a person. A run that could go on but that nobody
drives is next: the agent it needs takes it when that one is free, the oldest first.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from flyball.core.run import Run
from flyball.views.loop_status import circuit, decision


class Part(Struct, frozen=True, kw_only=True):
    """One run in the orchestra. `next` is the run that its agent takes when this one exits."""

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


def orchestra(runs: Iterable[tuple[Run, bool]]) -> list[Part]:
    """The parts of all runs that have not ended, each with whether a process drives it; the oldest first."""
    going = sorted((pair for pair in runs if pair[0].status != "ended"), key=lambda pair: pair[0].began.at)
    parts = [_part(run, driven) for run, driven in going if not run.child]
    queue: dict[str, list[str]] = {}
    for part in parts:
        if part.status == "next":
            queue.setdefault(part.agent, []).append(part.run)
    return [_with_next(part, queue) for part in parts]


def _part(run: Run, driven: bool) -> Part:
    role = run.act.do.partition(":")[2] if run.act and run.act.agent else _role(run)
    return Part(
        agent=run.act.agent if run.act and run.act.agent else run.settings.agent_for(role),
        role=role,
        run=run.id,
        task=run.began.task,
        machine=run.machine.name,
        state=run.state,
        status="asks" if run.question else "working" if driven else "next",
        loop=run.iteration or run.turn,
        no_progress=run.no_progress,
        same_error=run.error_count,
        circuit=circuit(run),
        decision=decision(run),
    )


def _role(run: Run) -> str:
    """Whose turn it is; where no agent acts now, the role that writes in this machine."""
    acts = (run.here, *run.machine.states.values())
    return next((state.of for state in acts if state.act == "agent"), "")


def _with_next(part: Part, queue: dict[str, list[str]]) -> Part:
    waiting = queue.get(part.agent, [])
    return replace(part, next=waiting.pop(0)) if part.status == "working" and waiting else part
