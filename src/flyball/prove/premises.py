"""Under which premises a machine is explored: its settings, small limits, and what may happen.

The dimensions that do not touch each other are not crossed. Each premise opens one of them (crashes and letters,
breakpoints, money, no proof, a run inside another's checkout …) and keeps the others still.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from flyball.core import events as e
from flyball.core.machine import Machine, State
from flyball.core.settings import SECOND, Budget, Settings

SMALL = 2  # what a limit is set to; larger ones only repeat what two show
UNIT = 1_000_000  # what a turn costs where money is a premise
NO_BUDGET = Budget(uusd=None, tokens=None, wall_us=None)
MONEY = Budget(uusd=3 * UNIT, tokens=None, wall_us=None)
TIME = Budget(uusd=None, tokens=None, wall_us=4 * SECOND)
FREE_OF_TURNS = ("cto", "failures")  # limits that count other things than turns


class Premise(Struct, frozen=True, kw_only=True):
    name: str
    machine: Machine
    settings: Settings
    options: dict[str, Any] = {}
    start: str = ""
    owner: bool = True
    results: str = "few"  # all | few | onward: how much may come of an act
    crashes: int = 0  # interruptions in a row that may happen
    letters: tuple[str, ...] = ()  # what people may ask for at any point
    cost_uusd: int = 0  # of a turn
    took_us: int = 0  # by a turn
    below: dict[str, int] = {}  # machine -> turns that one of its runs may take between two waits

    def most(self, key: str) -> int | None:
        """A limit as it was set, found without asking the run."""
        given = self.options.get(key)
        if isinstance(given, int) and not isinstance(given, bool):
            return given
        return self.settings.limit(self.machine.name, key, self.machine.most.get(key))

    def option(self, key: str) -> Any:
        return self.options.get(key, getattr(self.settings, key, None))

    @property
    def proves(self) -> bool:
        return bool(self.settings.proof)

    def began(self) -> e.RunBegan:
        return e.RunBegan(
            at=0,
            run="r",
            machine=self.machine.name,
            table=self.machine.table,
            settings=self.settings,
            task="the task",
            start=self.start,
            owner=self.owner,
            options=self.options,
            parent="" if self.owner else "p",
            tree="" if self.owner else "t0",
            base_tree="" if self.owner else "t0",
        )


def premises(machine: Machine, parents: Iterable[Machine] = (), below: Mapping[str, int] = {}) -> list[Premise]:
    """Every premise that makes a difference to this machine."""
    plain = Premise(name="", machine=machine, settings=_settings(machine), below=dict(below))
    found = [
        replace(plain, name="every result", results="all"),
        replace(plain, name="crashes", crashes=9, results="onward"),
        replace(plain, name="letters", letters=("pause", "stop", "cancel", "interrupt")),
        replace(plain, name="breakpoints", settings=replace(plain.settings, breakpoints=_phases(machine))),
        replace(plain, name="money", settings=replace(plain.settings, budget=MONEY), cost_uusd=UNIT),
        replace(plain, name="time", settings=replace(plain.settings, budget=TIME), took_us=SECOND),
        replace(plain, name="no proof", settings=replace(plain.settings, proof=())),
        *_by_table(plain),
        *_nested(plain, parents),
    ]
    return found


def _settings(machine: Machine) -> Settings:
    small = {key: min(value, SMALL) for key, value in machine.most.items()}
    return Settings(
        proof=("prove",), budget=NO_BUDGET, limits={machine.name: {"retries": 1, **small}}, agents={"default": "a"}
    )


def _phases(machine: Machine) -> tuple[str, ...]:
    return tuple(s.name for s in machine.states.values() if not s.end and s.act not in ("ask", "listen", "wait"))


def _by_table(plain: Premise) -> Iterable[Premise]:
    """What only tables with the states for it know."""
    machine, settings = plain.machine, plain.settings
    outcomes = {outcome for state in machine.states.values() for outcome in state.on}
    roles = {state.of for state in machine.states.values() if state.act == "agent"}
    if "untested" in outcomes:
        yield replace(plain, name="tests not required", settings=replace(settings, require_test_pass=False))
    if machine.name == "build":
        yield replace(plain, name="write by a loop", options={"write": "loop"})
    if {"author", "reviewer"} <= roles:
        yield replace(plain, name="review always", settings=replace(settings, review="always"))
        yield replace(plain, name="consensus", settings=replace(settings, consensus=True))
    if "answered" in outcomes:
        timeouts = {machine.name: {"cooldown": SECOND}}
        yield replace(plain, name="cooldown", settings=replace(settings, timeouts_us=timeouts))
    for key in machine.most:
        if key in machine.states:
            limits = {machine.name: {**settings.limits[machine.name], key: 0}}
            yield replace(plain, name=f"{key} = 0", settings=replace(settings, limits=limits))


def _nested(plain: Premise, parents: Iterable[Machine]) -> Iterable[Premise]:
    """Inside another's checkout, as each table that runs this machine starts it."""
    if plain.machine.standing:
        return
    yield nested(replace(plain, name="in another's checkout"), {})
    for parent in parents:
        for state in parent.states.values():
            if state.act == "run" and state.of == plain.machine.name and state.options:
                name = f"in '{state.name}' of {parent.name}"
                yield nested(replace(plain, name=name), state.options)


def nested(plain: Premise, options: Mapping[str, Any]) -> Premise:
    rest = dict(options)
    start = str(rest.pop("start", ""))
    return replace(plain, owner=False, start=start, options={k: _small(v) for k, v in rest.items()})


def _small(value: Any) -> Any:
    return min(value, SMALL) if isinstance(value, int) and not isinstance(value, bool) else value


# ---- the bound is measured at the machine's own limits -------------------------------------------------------


def at_own_limits(machine: Machine, below: Mapping[str, int], state: State | None = None) -> Premise:
    """Nothing stops and every turn makes progress: the longest way there is. `state`: the one that runs it."""
    settings = Settings(proof=("prove",), budget=NO_BUDGET, agents={"default": "a"})
    options = dict(state.options) if state else {}
    return Premise(
        name="at its own limits",
        machine=machine,
        settings=settings,
        start=str(options.pop("start", "")),
        options=options,
        owner=state is None,
        results="onward",
        below=dict(below),
    )
