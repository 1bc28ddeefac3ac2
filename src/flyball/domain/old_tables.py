"""Upgrade tables from journals written under rules "1", when the code knew some machines and states by name.

Today the table says everything. This is the only place that knows a machine or a state by name: it adds the attributes
that such a table did not have yet.
"""

from __future__ import annotations

from msgspec.structs import replace

from flyball.domain.machine import CIRCUIT, Machine

ACTORS = {
    "pending": "build orchestrator",
    **dict.fromkeys(("assigned", "planning"), "@agent-solution-validator"),
    **dict.fromkeys(("validated", "in_progress", "testing"), "@agent-fullstack-developer"),
    "quality_review": "@agent-quality-monitor",
    **dict.fromkeys(("approved", "committing"), "@agent-git-manager"),
    "cto_intervention": "@agent-cto",
    "human_escalation": "human",
}
RUN_STATES = {
    "init": "submitted",
    "complete": "completed",
    **{name: name for name in ("working", "reviewing", "failed")},
}
STATES = {
    "build": {"fix": {"counts": "fix_attempts"}},
    "loop": {name: {"circuit": name} for name in CIRCUIT},
    "review": {"init": {"checks": ("agents",)}},
    "task": {"cto_intervention": {"called_by": "build orchestrator"}},
}


def upgraded(machine: Machine) -> Machine:
    """The machine with the attributes that its name used to imply."""
    states = dict(machine.states)
    for name, attributes in STATES.get(machine.name, {}).items():
        if name in states:
            states[name] = replace(states[name], **attributes)
    match machine.name:
        case "build":
            coders = {k: replace(s, loop="run:loop") for k, s in states.items() if s.do == "agent:coder"}
            return replace(machine, states={**states, **coders})
        case "task":
            return replace(machine, states=states, actors=ACTORS)
        case "review":
            return replace(machine, states=states, run_states=RUN_STATES)
        case "cto":
            return replace(machine, supervises=True)
        case _:
            return replace(machine, states=states)
