"""A machine is a table: what is done in each state, and where each outcome leads. It holds no conditions.

A target is a state, `any:GROUP` (the outcome's data names one state of the group), or one of
`@ask @blocked @fail @cancel @back`, which are not states: they stop, end or repeat, and leave the state alone.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import Any, cast

import msgspec
from msgspec import Struct

from flyball.core.settings import HOUR, MINUTE, SECOND
from flyball.errors import InvalidTransition, MachineFault

SPECIAL = ("@ask", "@blocked", "@fail", "@cancel", "@back")
WAITING_ACTS = ("ask", "listen", "wait")  # acts that wait for a human, a trigger or a time
PLAIN_ACTS = ("proof", "check", "commit", *WAITING_ACTS)
WRITING_ROLES = ("planner", "coder", "worker", "author", "developer")
JUDGING_ROLES = ("validator", "critic", "quality", "reviewer")
ROLES = (*WRITING_ROLES, *JUDGING_ROLES, "cto", "git")
READ_ONLY_ROLES = ("planner", "validator", "critic", "quality", "reviewer", "cto")
FAILING = (
    "rejected",
    "failed",
    "refused",
    "failure",
    "unproven",
)  # outcomes that count against [most] failures
OURS = ("blocked", "exhausted", "timeout", "error", "cancel")  # outcomes that Flyball gives in any state
NEEDED = {"proof": ("passed", "failed"), "commit": ("committed", "refused"), "check": ("ready",)}
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")


class State(Struct, frozen=True):
    """One line of the table."""

    name: str
    do: str = ""
    on: dict[str, str] = {}
    end: str = ""  # "success" | "failure" | ""
    options: dict[str, Any] = {}  # the table's `with`

    @property
    def act(self) -> str:
        """`agent`, `run`, or the plain act."""
        return self.do.partition(":")[0]

    @property
    def of(self) -> str:
        """The role of an agent, or the machine of a child run."""
        return self.do.partition(":")[2]


class Machine(Struct, frozen=True):
    name: str
    start: str
    states: dict[str, State]
    anywhere: dict[str, str] = {}
    most: dict[str, int] = {}
    within_us: dict[str, int] = {}
    alert_us: dict[str, int] = {}
    groups: dict[str, tuple[str, ...]] = {}
    iteration: str = ""
    standing: bool = False
    table: dict[str, Any] = {}  # as it was written: what a run pins
    ways: dict[str, dict[str, tuple[str, ...]]] = {}  # from -> to -> outcomes, made from the rest

    def place(self, state: str, outcome: str) -> str:
        """Where this outcome leads from this state; "" if the table does not say."""
        return self.states[state].on.get(outcome) or self.anywhere.get(outcome, "")

    def targets(self, target: str) -> tuple[str, ...]:
        """The states that a target may stand for."""
        if target.startswith("any:"):
            return self.groups.get(target[4:], ())
        return () if target.startswith("@") else (target,)

    def allows(self, source: str, target: str) -> bool:
        return target in self.ways.get(source, ())

    def check(self, source: str, target: str) -> None:
        """Refuse a transition that the table does not have."""
        if not self.allows(source, target):
            raise InvalidTransition(self.name, source, target)

    @property
    def digest(self) -> str:
        return hashlib.sha256(msgspec.json.encode(self.table, order="deterministic")).hexdigest()


def edges(machine: Machine) -> dict[tuple[str, str], tuple[str, ...]]:
    """(from, to) -> the outcomes that lead there, shorthand expanded."""
    return {(a, b): outcomes for a, to in machine.ways.items() for b, outcomes in to.items()}


def _expanded(machine: Machine) -> dict[str, dict[str, tuple[str, ...]]]:
    found: dict[str, dict[str, tuple[str, ...]]] = {}
    for state in machine.states.values():
        ways = found.setdefault(state.name, {})
        for outcome, target in ({} if state.end else {**machine.anywhere, **state.on}).items():
            for name in machine.targets(target):
                ways[name] = (*ways.get(name, ()), outcome)
    return found


# ---- reading a table ------------------------------------------------------------------------------------


def parse(table: Mapping[str, Any]) -> Machine:
    """A machine from its table. What cannot even be read is refused here; `faults` judges the rest."""
    known = {
        "name",
        "start",
        "states",
        "anywhere",
        "most",
        "within",
        "alert",
        "groups",
        "from",
        "iteration",
        "standing",
    }
    for key in table:
        if key not in known:
            raise MachineFault(f"A machine has no '{key}'. It may have: {', '.join(sorted(known))}.")
    name, start = _text(table, "name"), _text(table, "start")
    groups = {k: _names(v, f"groups.{k}") for k, v in _mapping(table, "groups").items()}
    states = {k: _state(k, v) for k, v in _mapping(table, "states").items()}
    states = _spread(states, groups, _mapping(table, "from"))
    machine = Machine(
        name=name,
        start=start,
        states=states,
        anywhere=_outcomes(_mapping(table, "anywhere").get("on", {}), "anywhere"),
        most={k: _count(v, f"most.{k}") for k, v in _mapping(table, "most").items()},
        within_us=_durations(_mapping(table, "within"), "within"),
        alert_us=_durations(_mapping(table, "alert"), "alert"),
        groups=groups,
        iteration=str(table.get("iteration", "")),
        standing=table.get("standing") is True,
        table=msgspec.json.decode(msgspec.json.encode(table)),
    )
    return msgspec.structs.replace(machine, ways=_expanded(machine))


def _state(name: str, line: Any) -> State:
    if not isinstance(line, dict):
        raise MachineFault(
            f"State '{name}' must be a table such as {{ do = \"agent:coder\", on = {{ … }} }}."
        )
    fields = cast("dict[str, Any]", line)
    for key in fields:
        if key not in ("do", "on", "end", "with"):
            raise MachineFault(f"State '{name}' has no '{key}'. It may have: do, on, end, with.")
    options = fields.get("with", {})
    if not isinstance(options, dict):
        raise MachineFault(f"State '{name}': 'with' must be a table of options.")
    on = _outcomes(fields.get("on", {}), name)
    return State(
        name, str(fields.get("do", "")), on, str(fields.get("end", "")), cast("dict[str, Any]", options)
    )


def _spread(
    states: dict[str, State], groups: Mapping[str, tuple[str, ...]], shared: Mapping[str, Any]
) -> dict[str, State]:
    """`[from.GROUP] on = …` is written once and holds for every state of the group."""
    result = dict(states)
    for group, line in shared.items():
        if group not in groups:
            raise MachineFault(f"[from.{group}] names no group. Add it to [groups].")
        on = _outcomes(cast("dict[str, Any]", line).get("on", {}), f"from.{group}")
        for name in groups[group]:
            if name in result:
                state = result[name]
                result[name] = msgspec.structs.replace(
                    state, on={**state.on, **{k: v for k, v in on.items() if k not in state.on}}
                )
    return result


def _outcomes(value: Any, where: str) -> dict[str, str]:
    if not isinstance(value, dict) or not all(
        isinstance(v, str) for v in cast("dict[str, Any]", value).values()
    ):
        raise MachineFault(f"'{where}': 'on' must be a table from outcome to state.")
    return cast("dict[str, str]", value)


def _mapping(table: Mapping[str, Any], key: str) -> dict[str, Any]:
    value = table.get(key, {})
    if not isinstance(value, dict):
        raise MachineFault(f"[{key}] must be a table.")
    return cast("dict[str, Any]", value)


def _text(table: Mapping[str, Any], key: str) -> str:
    value = table.get(key)
    if not isinstance(value, str) or not NAME.fullmatch(value):
        raise MachineFault(f"A machine needs a '{key}' made of letters, digits, '_' and '-'.")
    return value


def _names(value: Any, where: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(v, str) for v in cast("list[Any]", value)):
        raise MachineFault(f"{where} must be a list of states.")
    return tuple(cast("list[str]", value))


def _count(value: Any, where: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise MachineFault(f"{where} must be a whole number, zero or more, not {value!r}.")
    return value


def _durations(table: Mapping[str, Any], where: str) -> dict[str, int]:
    return {name: duration_us(span, where) for span, names in table.items() for name in _names(names, where)}


_UNITS = {"s": SECOND, "m": MINUTE, "h": HOUR, "d": 24 * HOUR}


def duration_us(text: str, where: str = "duration") -> int:
    """`90s`, `10m`, `1h30m` in microseconds."""
    parts = re.findall(r"(\d+)([smhd])", text)
    if not parts or "".join(n + u for n, u in parts) != text:
        raise MachineFault(
            f"'{text}' in [{where}] is not a duration. Write for example 90s, 10m, 4h or 1h30m."
        )
    return sum(int(n) * _UNITS[u] for n, u in parts)


# ---- judging a table ------------------------------------------------------------------------------------


def faults(machine: Machine) -> list[str]:
    """Every fault of a machine, each a sentence; none means that it may run."""
    found = [*_line_faults(machine)]
    if found:
        return found  # the graph cannot be walked while its lines are wrong
    return [*_entry_faults(machine), *_exit_faults(machine), *_bound_faults(machine)]


def _line_faults(machine: Machine) -> Iterable[str]:
    if machine.start not in machine.states:
        yield f"The start '{machine.start}' is not a state. Add it to [states] or start elsewhere."
    if machine.iteration and machine.iteration not in machine.states:
        yield f"The iteration state '{machine.iteration}' is not a state. Add it to [states]."
    for state in machine.states.values():
        yield from _end_faults(state) if state.end or not state.do else _act_faults(machine, state)
    for outcome, target in machine.anywhere.items():
        yield from _target_faults(machine, "[anywhere]", outcome, target)
    for where, spans in (
        ("within", machine.within_us),
        ("alert", machine.alert_us),
        ("groups", _grouped(machine)),
    ):
        yield from (
            f"[{where}] names '{n}', which is not a state. Remove it or add the state."
            for n in spans
            if n not in machine.states
        )


def _grouped(machine: Machine) -> dict[str, int]:
    return {name: 0 for names in machine.groups.values() for name in names}


def _end_faults(state: State) -> Iterable[str]:
    if state.end not in ("success", "failure"):
        yield f"'{state.name}' neither does anything nor ends. Give it `do = …` or `end = \"success\"`."
    if state.do or state.on:
        yield f"'{state.name}' ends, so it cannot do anything or lead anywhere. Remove `do` and `on`."


def _act_faults(machine: Machine, state: State) -> Iterable[str]:
    if state.act == "agent" and state.of not in ROLES:
        yield f"'{state.name}' names the role '{state.of}', which there is not. Roles: {', '.join(ROLES)}."
    elif state.act == "run" and not NAME.fullmatch(state.of):
        yield f"'{state.name}' must name the machine it runs, as in `do = \"run:build\"`."
    elif state.act not in ("agent", "run", *PLAIN_ACTS):
        yield f"'{state.name}' does '{state.do}', which there is not. Acts: agent:ROLE, run:MACHINE, {', '.join(PLAIN_ACTS)}."
    if not state.on:
        yield f"'{state.name}' leads nowhere. Say where its outcomes lead: on = {{ … }}."
    for outcome, target in state.on.items():
        yield from _target_faults(machine, f"'{state.name}'", outcome, target)
    yield from _unplaced(machine, state)


def _unplaced(machine: Machine, state: State) -> Iterable[str]:
    ours = ("blocked", "cancel") if state.act in WAITING_ACTS else OURS
    for outcome in (*NEEDED.get(state.act, ()), *ours):
        if not machine.place(state.name, outcome):
            yield f"'{state.name}' does not say where '{outcome}' leads. Add it to {state.name}.on or [anywhere]."
    if state.act == "run" and not ({"success", "done"} & set(state.on)):
        yield f"'{state.name}' does not say where 'success' leads. Add it to {state.name}.on."
    ends = [o for o, t in state.on.items() if t in machine.states and machine.states[t].end == "success"]
    if ends and not machine.place(state.name, "unproven"):
        yield f"'{state.name}' leads to a success end, so it must say where 'unproven' leads. Add it to {state.name}.on."


def _target_faults(machine: Machine, where: str, outcome: str, target: str) -> Iterable[str]:
    if target.startswith("@"):
        if target not in SPECIAL:
            yield f"{where}: '{outcome}' leads to '{target}', which there is not. Known: {', '.join(SPECIAL)}."
    elif target.startswith("any:"):
        if target[4:] not in machine.groups:
            yield f"{where}: '{outcome}' leads to the group '{target[4:]}', which is missing. Add it to [groups]."
    elif target not in machine.states:
        yield f"{where}: '{outcome}' leads to '{target}', which is not a state. Add the state or lead elsewhere."


def _entry_faults(machine: Machine) -> Iterable[str]:
    reached = _closure({machine.start}, {s: {b for a, b in edges(machine) if a == s} for s in machine.states})
    for name in machine.states:
        if name not in reached:
            yield f"'{name}' is never entered. Lead an outcome to it or remove it."


def _exit_faults(machine: Machine) -> Iterable[str]:
    ends = {s.name for s in machine.states.values() if s.end}
    if machine.standing:
        return
    if not any(s.end == "success" for s in machine.states.values()):
        yield 'No state ends in success. Add one: done = { end = "success" }.'
    back = {s: {a for a, b in edges(machine) if b == s} for s in machine.states}
    leading = _closure(ends, back)
    for name in machine.states:
        if name not in leading:
            yield f"'{name}' has no way to an end. Lead one of its outcomes towards an end."


def _closure(start: set[str], following: Mapping[str, set[str]]) -> set[str]:
    seen, todo = set(start), sorted(start)
    while todo:
        for name in sorted(following.get(todo.pop(), ())):
            if name not in seen:
                seen.add(name)
                todo.append(name)
    return seen


def _bound_faults(machine: Machine) -> Iterable[str]:
    """Every cycle must wait for somebody or count against a limit; else it could run for ever."""
    waits = {s.name for s in machine.states.values() if s.act in WAITING_ACTS}
    agents = {s.name for s in machine.states.values() if s.act in ("agent", "run")}
    counted = set(agents) if "turns" in machine.most else set[str]()
    free = [
        pair for pair, outcomes in edges(machine).items() if not _counts_as_failure(machine, pair, outcomes)
    ]
    named = {name for name in machine.states if name in machine.most}
    iterated = {machine.iteration} if machine.iteration and "iterations" in machine.most else set[str]()
    for gone in (waits | counted | named | iterated, waits | counted | iterated):
        cycle = _cycle([(a, b) for a, b in free if a not in gone and b not in gone])
        if cycle and (gone >= named or machine.iteration in cycle):
            path = " → ".join([*cycle, cycle[0]])
            yield f"Nothing bounds the cycle {path}. Add a limit to [most], such as turns or iterations."
            return


def _counts_as_failure(machine: Machine, pair: tuple[str, str], outcomes: Iterable[str]) -> bool:
    if "failures" not in machine.most or machine.standing:
        return False
    return (
        all(o in (*FAILING, "third_failure", "error", "timeout") for o in outcomes)
        or pair[0] == "cto_intervention"
    )


def _cycle(pairs: list[tuple[str, str]]) -> list[str]:
    """The states of some cycle, in order; empty if there is none."""
    following: dict[str, list[str]] = {}
    for a, b in pairs:
        following.setdefault(a, []).append(b)
    done: set[str] = set()

    def walk(name: str, path: list[str]) -> list[str]:
        if name in path:
            return path[path.index(name) :]
        if name in done:
            return []
        for target in following.get(name, ()):
            found = walk(target, [*path, name])
            if found:
                return found
        done.add(name)
        return []

    for name in following:
        found = walk(name, [])
        if found:
            return found
    return []
