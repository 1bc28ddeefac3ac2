"""The runs of a simulated world and their settings, drawn at random."""

from __future__ import annotations

import random

from msgspec.structs import replace

from flyball.domain import events as e
from flyball.domain.machine import Machine
from flyball.domain.settings import DOLLAR, HOUR, MINUTE, SECOND, Budget, Settings
from flyball.lab.prove.premises import Premise
from flyball.machines import SHIPPED, shipped

OFTEN = {"build": 30, "loop": 20, "review": 20, "task": 22, "cto": 8}
LIMITS: dict[str, tuple[int, ...]] = {  # what a configuration may say
    **dict.fromkeys(("iterations", "turns", "no_progress", "same_error"), (1, 2, 3, 5)),
    **dict.fromkeys(("fix", "retries"), (0, 1, 2, 5)),
    "failures": (1, 2, 3),
    "cto": (0, 1, 2),
}


def drawn_runs(rng: random.Random, machine: str, now: int) -> list[e.RunBegan]:
    """One or two top-level runs."""
    names = list(OFTEN)
    machines = [
        machine or rng.choices(names, list(OFTEN.values()))[0] for _ in range(rng.choice((1, 1, 1, 2)))
    ]
    return [_began(rng, shipped(name), f"top{n}", now) for n, name in enumerate(machines, 1)]


def _began(rng: random.Random, machine: Machine, name: str, now: int) -> e.RunBegan:
    return _top(machine, name, _settings(rng, machine), now)


def began(premise: Premise, now: int) -> e.RunBegan:
    """A top-level run under a premise of `prove`."""
    overrides = {key: value for key, value in premise.options.items() if key in Settings.__struct_fields__}
    return _top(premise.machine, "top1", replace(premise.settings, **overrides), now)


def _top(machine: Machine, name: str, settings: Settings, now: int) -> e.RunBegan:
    return e.RunBegan(
        at=now,
        run=name,
        machine=machine.name,
        table=machine.table,
        settings=settings,
        task="mend it",
        rules=e.RULES,
        root=name,
        repo="somewhere",
    )


def _settings(rng: random.Random, machine: Machine) -> Settings:
    return Settings(
        agents={"default": rng.choice(("a", "a", "script:x"))},
        proof=("prove",) if rng.random() < 0.85 else (),
        write="loop" if rng.random() < 0.25 else "turn",
        breakpoints=_breakpoints(rng, machine),
        require_test_pass=rng.random() < 0.9,
        review=rng.choice(("unless-done", "unless-done", "always")),
        consensus=rng.random() < 0.15,
        limits={name: _limits(rng) for name in SHIPPED},
        timeouts_us={name: _timeouts(rng) for name in SHIPPED},
        budget=_budget(rng),
        fallback=rng.choice(((), (), ("b",), ("b", "c"))),
        commit=rng.choice(("branch", "branch", "branch", "merge")),
    )


def _breakpoints(rng: random.Random, machine: Machine) -> tuple[str, ...]:
    phases = [state.name for state in machine.states.values() if state.do]
    return tuple(sorted(rng.sample(phases, rng.randrange(1, 3)))) if rng.random() < 0.2 else ()


def _limits(rng: random.Random) -> dict[str, int]:
    """Some limits are set, mostly to small values."""
    often = {"no_progress": 0.4}
    return {key: rng.choice(values) for key, values in LIMITS.items() if rng.random() < often.get(key, 0.12)}


def _timeouts(rng: random.Random) -> dict[str, int]:
    timeouts: dict[str, int] = {}
    if rng.random() < 0.08:
        timeouts["phase_timeout"] = rng.choice((5 * MINUTE, 15 * MINUTE))
    if rng.random() < 0.3:
        timeouts["cooldown"] = rng.choice((10 * SECOND, HOUR))
    return timeouts


def _budget(rng: random.Random) -> Budget:
    return Budget(
        uusd=rng.choice((None, None, 0, DOLLAR, 4 * DOLLAR)),
        tokens=rng.choice((None, None, None, 0, 60_000)),
        wall_us=rng.choice((None, None, None, HOUR, 8 * HOUR)),
    )
