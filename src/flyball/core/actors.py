"""Who is said to have made a transition: the strings of a ticket's life where the machine is `task`."""

from __future__ import annotations

from flyball.core import events as e
from flyball.core.run import Run

TASK = {
    "pending": "build orchestrator",
    "assigned": "@agent-solution-validator",
    "planning": "@agent-solution-validator",
    "validated": "@agent-fullstack-developer",
    "in_progress": "@agent-fullstack-developer",
    "testing": "@agent-fullstack-developer",
    "quality_review": "@agent-quality-monitor",
    "approved": "@agent-git-manager",
    "committing": "@agent-git-manager",
    "cto_intervention": "@agent-cto",
}


def actor_of(run: Run, target: str, cause: e.Stop | None) -> str:
    """`cause`: a rule of Flyball's own made the transition."""
    if run.machine.name != "task":
        return "flyball" if cause else run.here.of or "flyball"
    if target == "cto_intervention":
        return "build orchestrator"
    return TASK.get(run.state) or f"human:{run.answered_by or 'unknown'}"
