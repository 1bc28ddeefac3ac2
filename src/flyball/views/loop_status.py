"""The Loop Status block and the loop state of an agent, in the shapes that seed 003 defines.

Reads the run, decides nothing. What is rendered here is never read back.
"""

from __future__ import annotations

from typing import Any

from flyball.domain.settings import INDICATORS
from flyball.state.run import Run
from flyball.views import reasons


def circuit(run: Run) -> str:
    """closed, half_open or open. Without a circuit of its own, a machine that a loop rule stopped counts as open."""
    if run.here.circuit:
        return run.here.circuit
    return "open" if run.stop is not None and run.stop.code.startswith("loop.") else "closed"


def task_status(run: Run) -> str:
    if run.status == "ended":
        return "complete" if run.end == "success" else "blocked"
    return "blocked" if run.status == "blocked" or run.question else "in_progress"


def decision(run: Run) -> str:
    if run.status == "ended":
        return "exit" if run.end == "success" else "stop"
    return "go on" if run.status == "running" else "wait"


def loop_state(run: Run) -> dict[str, Any]:
    """One entry of agents.json (LOOP-6)."""
    state = {
        "currentLoop": run.iteration or run.turn,
        "noProgressLoops": run.progress.idle,
        "repeatedErrorLoops": run.progress.errors,
        "lastProgress": run.progress.trees[-1][:8] if run.progress.trees else "",
        "circuitState": circuit(run),
        "exitSignal": run.talk.exit_signal,
        "completionIndicators": list(run.talk.indicators),
    }
    return {"id": run.id, "loopState": state}


def loop_status(run: Run) -> str:
    """The Loop Status block (LOOP-4)."""
    boxes = [f"- [{'x' if name in run.talk.indicators else ' '}] {name}" for name in INDICATORS]
    lines = [
        "## Loop Status",
        "",
        f"**Run**: {run.id} ({run.machine.name} · {run.state}, {run.status})",
        f"**Iteration**: {run.iteration or run.turn}",
        f"**Progress**: {run.talk.recent[-1] if run.talk.recent else 'no turn has finished yet'}",
        f"**Circuit State**: {circuit(run)}",
        f"**Task Status**: {task_status(run)}",
        "",
        "### Completion Indicators",
        *boxes,
        "",
        "### Exit Decision",
        f"EXIT_SIGNAL: {'true' if run.talk.exit_signal else 'false'}",
        "",
        f"**Decision**: {decision(run)}",
        f"**Reason**: {_reason(run)}",
    ]
    return "\n".join(lines) + "\n"


def _reason(run: Run) -> str:
    if run.stop is not None:
        return " ".join(" ".join(reasons.why(run)).split())
    missing = next((text for text in reversed(_messages(run)) if text.startswith("Not done yet: ")), "")
    if missing or run.talk.exit_signal:
        return " ".join(missing.split()) or "The agent says that it is done. This is being proved."
    return "The agent has not said that it is done."


def _messages(run: Run) -> tuple[str, ...]:
    return (*(run.act.told if run.act else ()), *run.talk.notes)
