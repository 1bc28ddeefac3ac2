"""The premises under which a machine is explored: its settings, small limits, and what may happen.

Dimensions that are independent are not combined. Each premise opens one of them (crashes and messages, breakpoints,
money, no proof, a child run in its parent's checkout …) and fixes the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from flyball.domain import events as e
from flyball.domain.machine import Machine, State
from flyball.domain.settings import SECOND, Budget, Settings

SOON = 4  # microseconds after which a limit has cleared
SMALL = 2  # the value of limits; larger ones only repeat what two shows
UNIT = 1_000_000  # the cost of a turn where the premise is about money
NO_BUDGET = Budget(uusd=None, tokens=None, wall_us=None)
MONEY = Budget(uusd=3 * UNIT, tokens=None, wall_us=None)
TOKENS = Budget(uusd=None, tokens=3 * UNIT, wall_us=None)
TIME = Budget(uusd=None, tokens=None, wall_us=4 * SECOND)
COUNTED_APART = ("failures", "cto")  # one is enough where the premise is not about it
SMALL_BY_KEY = {
    **dict.fromkeys(COUNTED_APART, 1),
    "turns": 3,  # enough to open a circuit and probe
    "probe": 0,  # under a premise of its own
}


class Premise(Struct, frozen=True, kw_only=True, dict=True):
    name: str
    machine: Machine
    settings: Settings
    options: dict[str, Any] = {}
    start: str = ""
    owner: bool = True
    results: str = "few"  # all | few | onward: which results of acts are tried
    crashes: int = 0  # interruptions in a row that are tried
    messages: tuple[str, ...] = ()  # what people may ask for at any point
    plans: bool = False  # planners give steps, which may need approval
    findings: bool = False  # judges find things, authors dispute them
    counts: bool = False  # failing tests are counted, and an error may come again
    cost_uusd: int = 0  # of a turn
    tokens: int = 0  # that a turn uses
    took_us: int = 0  # by a turn
    measures: bool = False  # only the bound is measured: laws are checked under the other premises
    below: dict[str, int] = {}  # machine -> turns that one of its runs may take between two waits
    origins: tuple[str, ...] = ()  # states in which it still matters which state called the CTO

    def most(self, key: str) -> int | None:
        """A limit as it was set, without asking the run."""
        if key not in self._limits:
            self._limits[key] = self._most(key)
        return self._limits[key]

    @cached_property
    def _limits(self) -> dict[str, int | None]:
        return {}

    def _most(self, key: str) -> int | None:
        option = self.options.get(key)
        if isinstance(option, int) and not isinstance(option, bool):
            return option
        return self.settings.limit(self.machine.name, key, self.machine.most.get(key))

    def option(self, key: str) -> Any:
        return self.options.get(key, getattr(self.settings, key, None))

    @cached_property
    def circuit(self) -> bool:
        """Whether progress makes a difference here."""
        probes = any("progressed" in state.on for state in self.machine.states.values())
        return probes or self.most("no_progress") is not None

    @cached_property
    def blames(self) -> bool:
        """Whether an end of this run depends on how its child run failed."""
        states = self.machine.states.values()
        led = [self.machine.place(s.name, o) for s in states for o in ("failure", "third_failure")]
        return any(t == "@fail" or (t in self.machine.states and self.machine.states[t].end) for t in led)

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
            rules=e.RULES,
            start=self.start,
            owner=self.owner,
            options=self.options,
            parent="" if self.owner else "p",
            tree="" if self.owner else "t0",
            base_tree="" if self.owner else "t0",
        )


def premises(
    machine: Machine, parents: Iterable[Machine] = (), below: Mapping[str, int] = {}
) -> list[Premise]:
    """Every premise that makes a difference to this machine."""
    plain = Premise(
        name="", machine=machine, settings=_settings(machine), below=dict(below), origins=origins(machine)
    )
    return [
        replace(plain, name="every result", results="all"),
        replace(plain, name="crashes", crashes=9, results="onward"),
        replace(plain, name="pause and cancel", messages=("pause", "cancel")),
        replace(plain, name="stop and interrupt", messages=("stop", "interrupt"), results="onward"),
        replace(plain, name="breakpoints", settings=_with(plain, breakpoints=_phases(machine))),
        replace(plain, name="money", settings=_with(plain, budget=MONEY), cost_uusd=UNIT, results="onward"),
        replace(plain, name="tokens", settings=_with(plain, budget=TOKENS), tokens=UNIT, results="onward"),
        *([] if machine.supervises else [replace(plain, name="take-over", messages=("take-over",))]),
        replace(plain, name="time", settings=_with(plain, budget=TIME), took_us=SECOND, results="onward"),
        replace(plain, name="no proof", settings=_with(plain, proof=())),
        replace(
            plain,
            name="fallback",
            settings=_with(plain, fallback=("b",), retry_every_us=SOON),
            results="onward",
        ),
        replace(
            plain, name="merge", settings=_with(plain, commit="merge"), messages=("cancel",), results="onward"
        ),
        replace(plain, name="pr", settings=_with(plain, commit="pr"), results="onward"),
        *_by_table(plain),
        *_nested(plain, parents),
    ]


def _with(plain: Premise, **changes: Any) -> Settings:
    return replace(plain.settings, **changes)


def origins(machine: Machine) -> tuple[str, ...]:
    """The states that read who called the CTO, and those that lead there without calling it again."""
    reading = {s.name for s in machine.states.values() if any(t.startswith("any:") for t in s.on.values())}
    states: set[str] = set()
    while reading - states:
        states |= reading
        reading = {a for a, to in machine.ways.items() if any(_passes_on(machine, b, states) for b in to)}
    return tuple(sorted(states))


def _passes_on(machine: Machine, target: str, live: set[str]) -> bool:
    return target in live and machine.states[target].do != "agent:cto"


def _settings(machine: Machine) -> Settings:
    limits = {machine.name: small_limits(machine)}
    return Settings(proof=("prove",), budget=NO_BUDGET, limits=limits, agents={"default": "a"})


def small_limits(machine: Machine) -> dict[str, int]:
    small = {key: min(value, SMALL_BY_KEY.get(key, SMALL)) for key, value in machine.most.items()}
    return {"retries": 1, **small}


def _phases(machine: Machine) -> tuple[str, ...]:
    return tuple(
        s.name for s in machine.states.values() if not s.end and s.act not in ("ask", "listen", "wait")
    )


def _by_table(plain: Premise) -> Iterable[Premise]:
    """Premises for tables that have the states for them."""
    machine, limits = plain.machine, plain.settings.limits[plain.machine.name]
    outcomes = {outcome for state in machine.states.values() for outcome in state.on}
    roles = {state.of for state in machine.states.values() if state.act == "agent"}
    if not any(
        state.act == "run" for state in machine.states.values()
    ):  # child runs cover part of the combinations
        crossed = replace(plain, messages=("take-over",), crashes=5, results="onward")
        yield replace(crossed, name="take-over and crashes")
    if machine.supervises:
        yield replace(plain, name="plans", results="onward", plans=True)
    if "untested" in outcomes:
        yield replace(plain, name="tests not required", settings=_with(plain, require_test_pass=False))
    if any(state.loop for state in machine.states.values()):
        yield replace(plain, name="write by a loop", options={"write": "loop"})
    if {"author", "reviewer"} <= roles:
        yield replace(plain, name="review always", settings=_with(plain, review="always"))
        yield replace(plain, name="consensus", settings=_with(plain, consensus=True))
        yield replace(plain, name="findings", findings=True)
    if "answered" in outcomes:
        timeouts = {machine.name: {"cooldown": SECOND}}
        yield replace(plain, name="cooldown", settings=_with(plain, timeouts_us=timeouts))
    if plain.circuit:
        yield replace(plain, name="errors and failing tests", counts=True)
    if machine.most.get("probe"):
        often = {machine.name: {**limits, "probe": 1, "same_error": 9}}
        yield replace(plain, name="probes", settings=_with(plain, limits=often), counts=True)
    if COUNTED_APART[0] in machine.most:
        more = {machine.name: {**limits, **dict.fromkeys(COUNTED_APART, SMALL)}}
        yield replace(plain, name="failures", settings=_with(plain, limits=more), results="onward")
    if any(state.plan_review for state in machine.states.values()):
        settings = _with(plain, plan_file="plan.md")
        yield replace(plain, name="a plan file", settings=settings, messages=("cancel",))
    for key in machine.most:
        if key in machine.states:
            none = {machine.name: {**limits, key: 0}}
            yield replace(plain, name=f"{key} = 0", settings=_with(plain, limits=none))


def _nested(plain: Premise, parents: Iterable[Machine]) -> Iterable[Premise]:
    """As a child run in its parent's checkout, as started by each table that runs this machine."""
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
    """Nothing stops and every turn makes progress: the longest possible run. `state`: the state of the parent that
    runs it.
    """
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
        measures=True,
        below=dict(below),
        origins=origins(machine),
    )
