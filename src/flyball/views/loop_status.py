"""How far a run is, in the seed's own shapes: the Loop Status block, and the loop state of an agent.

Reads the fold, decides nothing; what is rendered from here is never read back.
"""

from __future__ import annotations

from typing import Any

from flyball.core.run import Run
from flyball.core.settings import INDICATORS
from flyball.views import run_view


def circuit(run: Run) -> str:
    """closed, half_open or open; where a machine has no circuit, a loop rule that stopped it is an open one."""
    if run.state in ("closed", "half_open", "open"):
        return run.state
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
        "noProgressLoops": run.no_progress,
        "repeatedErrorLoops": run.error_count,
        "lastProgress": run.seen[-1][:8] if run.seen else "",
        "circuitState": circuit(run),
        "exitSignal": run.exit_signal,
        "completionIndicators": list(run.indicators),
    }
    return {"id": run.id, "loopState": state}


def loop_status(run: Run) -> str:
    """The Loop Status block (LOOP-4), as Flyball sees it."""
    boxes = [f"- [{'x' if name in run.indicators else ' '}] {name}" for name in INDICATORS]
    lines = [
        "## Loop Status",
        "",
        f"**Run**: {run.id} ({run.machine.name} · {run.state}, {run.status})",
        f"**Iteration**: {run.iteration or run.turn}",
        f"**Progress**: {run.lately[-1] if run.lately else 'no turn has ended yet'}",
        f"**Circuit State**: {circuit(run)}",
        f"**Task Status**: {task_status(run)}",
        "",
        "### Completion Indicators",
        *boxes,
        "",
        "### Exit Decision",
        f"EXIT_SIGNAL: {'true' if run.exit_signal else 'false'}",
        "",
        f"**Decision**: {decision(run)}",
        f"**Reason**: {_reason(run)}",
    ]
    return "\n".join(lines) + "\n"


def _reason(run: Run) -> str:
    if run.stop is not None:
        return " ".join(" ".join(run_view.why(run)).split())
    missing = next((text for text in reversed(_told(run)) if text.startswith("Not done yet: ")), "")
    if missing or run.exit_signal:
        return " ".join(missing.split()) or "It says that it is done; that is now proved."
    return "The agent has not said that it is done."


def _told(run: Run) -> tuple[str, ...]:
    return (*(run.act.told if run.act else ()), *run.told)
