"""A machine as JSON, as a table for one screen, and as a Mermaid diagram. `drawing` has the SVG.

`facts` and `mermaid` have every edge of the machine. The table and the drawing show an edge that all states of a
group share once, for the group.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from flyball.domain.machine import Machine, State, edges
from flyball.domain.settings import show_duration

ARROW = "→"
MEANINGS = {
    "@ask": "asks a person",
    "@back": "repeats the step",
    "@blocked": "stops until a person approves",
    "@cancel": "ends as cancelled",
    "@fail": "ends in failure",
}


def facts(machine: Machine) -> dict[str, Any]:
    """What `flyball machines show --json` prints: edges between states only, shorthand expanded."""
    return {
        "name": machine.name,
        "start": machine.start,
        "states": list(machine.states),
        "edges": [
            {"from": a, "to": b, "on": own_first(machine, a, on)} for (a, b), on in edges(machine).items()
        ],
        "anywhere": dict(machine.anywhere),
        "most": dict(machine.most),
        "within": {state: show_duration(us) for state, us in machine.within_us.items()},
        "alert": {state: show_duration(us) for state, us in machine.alert_us.items()},
    }


def own_first(machine: Machine, state: str, outcomes: Iterable[str]) -> list[str]:
    """The outcomes in the order of the state's own line, then those from [anywhere]."""
    own = list(machine.states[state].on)
    return sorted(outcomes, key=lambda o: (o not in own, own.index(o) if o in own else 0))


# ---- groups ---------------------------------------------------------------------------------------------


class Way(Struct, frozen=True):
    """An edge of a picture. A name that starts with `any:` is a group."""

    source: str
    target: str
    on: tuple[str, ...]


def shared(machine: Machine, group: Sequence[str]) -> dict[str, str]:
    """Outcome -> target, as far as it is the same for every state of the group."""
    lines = [machine.states[name].on for name in group if name in machine.states]
    if len(lines) < 2:
        return {}
    return {o: t for o, t in lines[0].items() if all(line.get(o) == t for line in lines)}


def folded(machine: Machine, groups: Mapping[str, Sequence[str]]) -> list[Way]:
    """The edges, with those that all states of a group share drawn once, from or to the group."""
    pairs: dict[tuple[str, str], list[str]] = {}
    for (source, target), outcomes in edges(machine).items():
        for outcome in own_first(machine, source, outcomes):
            pair = _pair(machine, source, target, outcome, groups)
            if outcome not in pairs.setdefault(pair, []):
                pairs[pair].append(outcome)
    return [Way(a, b, tuple(on)) for (a, b), on in pairs.items()]


def _pair(
    machine: Machine, source: str, target: str, outcome: str, groups: Mapping[str, Sequence[str]]
) -> tuple[str, str]:
    for name, members in groups.items():
        if source in members and outcome in shared(machine, members):
            return f"any:{name}", target
        if machine.place(source, outcome) == f"any:{name}":
            return source, f"any:{name}"
    return source, target


# ---- the table ------------------------------------------------------------------------------------------


def table(machine: Machine, width: int = 100) -> str:
    """The machine as text for one screen: a line for each state, then what applies to all of them."""
    rows = [("state", "step", "outcome → next state"), *_state_rows(machine)]
    first, second = (max(len(row[column]) for row in rows) for column in (0, 1))
    lines = [line for row in rows for line in _lines(row, first, second, width)]
    notes = [line for row in _notes(machine) for line in _lines((row[0], "", row[1]), first, 0, width)]
    return "\n".join([_heading(machine), "", *lines, "", *notes]) + "\n"


def _heading(machine: Machine) -> str:
    parts = [f"starts in {machine.start}"]
    if machine.iteration:
        parts.append(f"each entry to {machine.iteration} starts an iteration")
    if machine.standing:
        parts.append("never ends; waits for triggers and people")
    return f"{machine.name}: {'; '.join(parts)}"


def _state_rows(machine: Machine) -> Iterator[tuple[str, str, str]]:
    for state in machine.states.values():
        if state.end:
            yield state.name, f"ends: {state.end}", ""
        else:
            yield state.name, state.do, leads(_own(machine, state))


def _own(machine: Machine, state: State) -> dict[str, str]:
    """The state's own outcomes; those of its groups are shown once, for the group."""
    common: dict[str, str] = {}
    for name, members in machine.groups.items():
        common |= _written(machine, name) if state.name in members else {}
    return {o: t for o, t in state.on.items() if common.get(o) != t}


def _written(machine: Machine, group: str) -> dict[str, str]:
    """The outcomes in `[from.GROUP]`."""
    return dict(machine.table.get("from", {}).get(group, {}).get("on", {}))


def leads(on: Mapping[str, str]) -> str:
    """`a, b → x · c → y`: outcomes by target."""
    by_target: dict[str, list[str]] = {}
    for outcome, target in on.items():
        by_target.setdefault(target, []).append(outcome)
    return " · ".join(f"{', '.join(outcomes)} {ARROW} {target}" for target, outcomes in by_target.items())


def _notes(machine: Machine) -> Iterator[tuple[str, str]]:
    for state in machine.states.values():
        if state.options:
            options = " · ".join(f"{key} = {value}" for key, value in state.options.items())
            yield state.name, f"with {options}"
    for name, members in machine.groups.items():
        yield f"any:{name}", " ".join(members)
        if common := _written(machine, name):
            yield f"from {name}", leads(common)
    if machine.anywhere:
        yield "anywhere", leads(machine.anywhere)
    if machine.most:
        yield "at most", " · ".join(f"{count} {name}" for name, count in machine.most.items())
    for title, spans in (("within", machine.within_us), ("alert", machine.alert_us)):
        if spans:
            yield title, " · ".join(_by_span(spans))
    used = {*machine.anywhere.values(), *(t for s in machine.states.values() for t in s.on.values())}
    if meanings := [f"{name} {meaning}" for name, meaning in MEANINGS.items() if name in used]:
        yield "meaning", " · ".join(meanings)


def _by_span(spans: Mapping[str, int]) -> Iterator[str]:
    by_length: dict[int, list[str]] = {}
    for state, us in spans.items():
        by_length.setdefault(us, []).append(state)
    return (f"{show_duration(us)} {' '.join(states)}" for us, states in by_length.items())


def _lines(row: tuple[str, str, str], first: int, second: int, width: int) -> list[str]:
    """One row, with its last column wrapped under itself, at the dots if possible."""
    head = f"{row[0]:<{first}}  " + (f"{row[1]:<{second}}  " if second else "")
    body = _wrapped(row[2], max(width - len(head), 24))
    return [(head if n == 0 else " " * len(head)) + part for n, part in enumerate(body)] or [head.rstrip()]


def _wrapped(text: str, width: int) -> list[str]:
    lines: list[str] = []
    for part in text.split(" · ") if text else []:
        if lines and len(lines[-1]) + 3 + len(part) <= width:
            lines[-1] += f" · {part}"
        else:
            lines += textwrap.wrap(part, width, break_long_words=False, break_on_hyphens=False)
    return lines


# ---- Mermaid --------------------------------------------------------------------------------------------

PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
RESERVED = frozenset(
    [
        "class",
        "classdef",
        "choice",
        "direction",
        "end",
        "fork",
        "join",
        "hide",
        "note",
        "state",
        "statediagram",
        "style",
        "to",
    ]
)


def mermaid(machine: Machine) -> str:
    """A Mermaid state diagram with every edge of the machine."""
    names = {name: _alias(name, number) for number, name in enumerate(machine.states)}
    lines = [f'    state "{name}" as {alias}' for name, alias in names.items() if alias != name]
    lines += [f"    [*] --> {names[machine.start]}"]
    for (source, target), outcomes in edges(machine).items():
        label = ", ".join(own_first(machine, source, outcomes))
        lines.append(f"    {names[source]} --> {names[target]} : {label}")
    lines += [f"    {names[state.name]} --> [*]" for state in machine.states.values() if state.end]
    return "\n".join(["stateDiagram-v2", *lines]) + "\n"


def _alias(name: str, number: int) -> str:
    """The name itself, if Mermaid accepts it."""
    return name if PLAIN.fullmatch(name) and name.lower() not in RESERVED else f"s{number}"
