"""For tests of machines and of Flyball itself: rehearse a table without running anything."""

from __future__ import annotations

from flyball.core.decide import trigger
from flyball.domain.events import RULES, RunBegan
from flyball.domain.machine import Machine
from flyball.domain.settings import Settings
from flyball.state.fold import begin

__all__ = ["rehearse"]


def rehearse(machine: Machine, *outcomes: str, **data: str) -> list[str]:
    """The states that these outcomes lead through, by the rules that a real run follows."""
    run = begin(
        RunBegan(
            at=0,
            run="rehearsal",
            machine=machine.name,
            table=machine.table,
            settings=Settings(),
            task="",
            rules=RULES,
            owner=False,
        )
    )
    states = [run.state]
    for outcome in outcomes:
        run = trigger(run, outcome, 0, dict(data)).run
        states.append(run.state)
    return states
