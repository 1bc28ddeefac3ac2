"""Random user machines without a fault, with every `@…` in every place, proved with the real rules under small bounds."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from flyball.domain.faults import faults
from flyball.domain.machine import Machine, parse
from flyball.lab.prove import explore, premises

OUTCOMES = {
    "agent:coder": ["written", "again"],
    "agent:planner": ["planned"],
    "agent:worker": ["worked", "done", "stalled"],
    "agent:author": ["worked", "done", "failed"],
    "agent:critic": ["accepted", "rejected"],
    "agent:reviewer": ["passed", "rejected", "failed"],
    "agent:cto": ["retry", "rollback", "escalate"],
    "run:loop": ["success", "failure"],
    "proof": ["passed", "failed"],
    "check": ["ready", "failure", "cannot_start"],
    "commit": ["committed", "refused"],
    "ask": ["yes", "no"],
    "wait": ["over"],
}
SPECIAL = ["@ask", "@blocked", "@fail", "@cancel", "@back"]
RULES = ["exhausted", "timeout", "error", "stalled", "third_failure"]
SEEDS = range(24)


def table(random: Random) -> dict[str, Any]:
    """A chain of states to an end; every other outcome leads anywhere, what the rules give too."""
    names = [f"s{n}" for n in range(random.choice((1, 1, 2, 2, 3)))]
    places = [*names, "lost", *SPECIAL, "any:all"]
    states: dict[str, Any] = {}
    for at, name in enumerate(names):
        do = random.choice(sorted(OUTCOMES))
        first, *others = OUTCOMES[do]
        on = {first: names[at + 1] if at + 1 < len(names) else "done"}
        on |= {outcome: random.choice(places) for outcome in [*others, "unproven"]}
        if random.random() < 0.5:
            on[random.choice(RULES)] = random.choice(places)
        states[name] = {"do": do, "on": on}
    _answers_lead_on(states)
    states |= {"done": {"end": "success"}, "lost": {"end": "failure"}}
    anywhere = {outcome: random.choice(places) for outcome in RULES}
    often = {"turns": 0.7, "iterations": 0.7, "failures": 0.5, "no_progress": 0.5, names[-1]: 0.5}
    most = {key: random.randint(1, 3) for key, share in often.items() if random.random() < share}
    return {
        "name": "mine",
        "start": "s0",
        "iteration": random.choice(["", *names]),
        "states": states,
        "anywhere": {"on": {**anywhere, "blocked": "@blocked", "cancel": "@cancel"}},
        "groups": {"all": names},
        "most": most,
    }


def _answers_lead_on(states: dict[str, Any]) -> None:
    """An answer that leads straight to the same question is for `prove` to show, not for a rule to prevent."""
    asks = {name for name, state in states.items() if state["do"] in ("ask", "agent:cto")}
    for name in asks:
        if states[name]["do"] == "ask":
            on = states[name]["on"]
            back = (*asks, "@back", "@ask", "@blocked", "any:all")
            states[name]["on"] = {k: "lost" if to in back else to for k, to in on.items()}


def fault_free(seed: int) -> Machine:
    random = Random(seed)
    while True:
        machine = parse(table(random))
        if not faults(machine):
            return machine


@pytest.mark.sampled(6)
@pytest.mark.parametrize("seed", SEEDS)
def test_every_law_holds_of_a_machine_without_a_fault(seed: int) -> None:
    machine = fault_free(seed)
    every = premises(machine)
    for premise in (every[0], every[1 + seed % (len(every) - 1)]):
        found = explore(premise)
        assert found.broken is None, (machine.table, found.broken)
