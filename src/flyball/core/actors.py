"""Who is said to have made a transition: the strings of a ticket's life where the machine is `task`."""

from __future__ import annotations

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


def actor_of(run: Run, target: str, outcome: str) -> str:
    if run.machine.name != "task":
        return run.here.of or "flyball"
    if target == "cto_intervention":
        return "build orchestrator"
    return TASK.get(run.state) or f"human:{run.answered_by or 'unknown'}"
