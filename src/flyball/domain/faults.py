"""Check a machine before it runs: a list of what is wrong with its table; empty if it may run."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from flyball.domain.machine import (
    CHECKS,
    CIRCUIT,
    HEARING_ACTS,
    NAME,
    NEEDED,
    NEEDED_BY_ROLE,
    NO_SUCCESS,
    OURS,
    PLAIN_ACTS,
    READ_ONLY_ROLES,
    ROLES,
    SPECIAL,
    WAITING_ACTS,
    Machine,
    State,
    counts_as_failure,
    duration_us,
    edges,
)
from flyball.domain.results import CODES
from flyball.errors import MachineFault


def faults(machine: Machine) -> list[str]:
    """Every fault of a machine as a sentence. An empty list means that it may run."""
    problems = [*_line_faults(machine)]
    if problems:
        return problems  # the graph cannot be walked while its lines are wrong
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
        ("actors", machine.actors),
        ("run_states", machine.run_states),
    ):
        yield from (
            f"[{where}] names '{n}', which is not a state. Remove it or add the state."
            for n in spans
            if n not in machine.states
        )


def _grouped(machine: Machine) -> dict[str, None]:
    return dict.fromkeys(name for names in machine.groups.values() for name in names)


def _end_faults(state: State) -> Iterable[str]:
    if state.end not in ("success", "failure"):
        yield f"'{state.name}' neither does anything nor ends. Give it `do = …` or `end = \"success\"`."
    if state.do or state.on:
        yield f"'{state.name}' ends, so it cannot do anything or lead anywhere. Remove `do` and `on`."


def _act_faults(machine: Machine, state: State) -> Iterable[str]:
    if state.act == "agent" and state.of not in ROLES:
        yield f"'{state.name}' names the role '{state.of}', which does not exist. Roles: {', '.join(ROLES)}."
    elif state.act == "run" and not NAME.fullmatch(state.of):
        yield f"'{state.name}' must name the machine it runs, as in `do = \"run:build\"`."
    elif state.act not in ("agent", "run", *PLAIN_ACTS):
        yield f"'{state.name}' does '{state.do}', which does not exist. Acts: agent:ROLE, run:MACHINE, {', '.join(PLAIN_ACTS)}."
    elif state.act in PLAIN_ACTS and state.do != state.act:
        yield f"'{state.name}' does '{state.do}', but '{state.act}' takes no name. Write `do = \"{state.act}\"`."
    if state.act == "wait" and not _is_duration(str(state.options.get("for", "1m"))):
        yield f"'{state.name}' waits for '{state.options['for']}', which is not a duration. Write for example 10m."
    yield from _attribute_faults(state)
    if not state.on:
        yield f"'{state.name}' leads nowhere. Say where its outcomes lead: on = {{ … }}."
    for outcome, target in state.on.items():
        yield from _target_faults(machine, f"'{state.name}'", outcome, target)
    yield from _unplaced(machine, state)


def _attribute_faults(state: State) -> Iterable[str]:
    if state.loop and not (state.act == "agent" and re.fullmatch(f"run:{NAME.pattern}", state.loop)):
        yield f"'{state.name}': loop is '{state.loop}'. It stands for an agent's turn and names a machine, as in \"run:loop\"."
    if state.counts and f"limit.{state.counts}" not in CODES:
        limits = ", ".join(code[6:] for code in CODES if code.startswith("limit."))
        yield f"'{state.name}' counts '{state.counts}', which is not a limit. Known: {limits}."
    if state.circuit not in ("", *CIRCUIT) or (state.circuit == "open" and state.act != "ask"):
        yield f"'{state.name}': circuit is '{state.circuit}'. It is closed, half_open, or open in a state that asks."
    review, _, role = state.plan_review.partition(":")
    if state.plan_review and (state.act != "check" or review != "agent" or role not in READ_ONLY_ROLES):
        roles = ", ".join(READ_ONLY_ROLES)
        yield f"'{state.name}': plan_review is '{state.plan_review}'. In a state that checks it is agent:ROLE, with one of: {roles}."
    for name in state.checks:
        if name not in CHECKS or state.act != "check":
            yield f"'{state.name}' checks '{name}'. A state with `do = \"check\"` may check: {', '.join(CHECKS)}."


def _is_duration(text: str) -> bool:
    try:
        duration_us(text)
    except MachineFault:
        return False
    return True


def _unplaced(machine: Machine, state: State) -> Iterable[str]:
    ours = ("blocked", "cancel") if state.act in WAITING_ACTS else OURS
    roles = NEEDED_BY_ROLE.get(state.of, ()) if state.act == "agent" else ()
    for outcome in (*NEEDED.get(state.act, ()), *roles, *ours):
        if not machine.place(state.name, outcome):
            yield f"'{state.name}' does not say where '{outcome}' leads. Add it to {state.name}.on or [anywhere]."
    if state.do == "agent:cto" and not _escalates(machine, machine.place(state.name, "escalate")):
        yield f"'{state.name}': 'escalate' must lead to an end or to a state that asks, since the CTO's attempts run out."
    if state.act == "run" and not ({"success", "done"} & set(state.on)):
        yield f"'{state.name}' does not say where 'success' leads. Add it to {state.name}.on."
    led = {**machine.anywhere, **state.on}
    if any(_succeeds(machine, t) for t in led.values()) and "unproven" not in led:
        yield f"'{state.name}' leads to a success end, so it must say where 'unproven' leads. Add it to {state.name}.on."


def _escalates(machine: Machine, target: str) -> bool:
    return target in ("", "@fail", "@cancel") or (
        not target.startswith("@") and all(_halts(machine, name) for name in machine.targets(target))
    )


def _succeeds(machine: Machine, target: str) -> bool:
    """Whether this target can be a success end."""
    return any(n in machine.states and machine.states[n].end == "success" for n in machine.targets(target))


def _target_faults(machine: Machine, where: str, outcome: str, target: str) -> Iterable[str]:
    if target.startswith("@"):
        if target not in SPECIAL:
            yield f"{where}: '{outcome}' leads to '{target}', which does not exist. Known: {', '.join(SPECIAL)}."
    elif target.startswith("any:"):
        if not machine.groups.get(target[4:]):
            yield f"{where}: '{outcome}' leads to the group '{target[4:]}', which is missing or empty. Add it to [groups]."
    elif target not in machine.states:
        yield f"{where}: '{outcome}' leads to '{target}', which is not a state. Add the state or lead elsewhere."
    if outcome in NO_SUCCESS and _succeeds(machine, target):
        yield f"{where}: '{outcome}' leads to the success end '{target}', but it is not a success. Lead it elsewhere."
    if outcome == "exhausted" and target == "@back":
        yield f"{where}: 'exhausted' leads to '@back', but nothing is left to repeat. Lead it to an end, @fail, @ask or a state that asks."
    if outcome == "exhausted" and not all(_halts(machine, name) for name in machine.targets(target)):
        yield f"{where}: 'exhausted' leads to '{target}', which continues without a limit. Lead it to an end, @fail, @ask or a state that asks."
    if outcome in ("blocked", "cancel") and target != f"@{outcome}":
        yield f"{where}: '{outcome}' leads to '{target}', but a table cannot decide that. Write '@{outcome}'."


def _halts(machine: Machine, name: str) -> bool:
    state = machine.states.get(name)
    return state is None or bool(state.end) or state.act in HEARING_ACTS


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
    reached, todo = set(start), sorted(start)
    while todo:
        for name in sorted(following.get(todo.pop(), ())):
            if name not in reached:
                reached.add(name)
                todo.append(name)
    return reached


def _bound_faults(machine: Machine) -> Iterable[str]:
    """Every cycle must wait for a person or a trigger, or count against a limit; else it could run forever.

    A limit on entries to a state is reset in each iteration, so it does not bound a cycle through the iteration state.
    """
    back = next((s for s in machine.states.values() if _goes_back(machine, s)), None)
    if back:
        yield f"Nothing bounds the cycle {back.name} → {back.name}. Add a limit to [most], such as turns or failures."
    bounded = _bounded(machine)
    free = [p for p in _walks(machine) if not {*p} & bounded]
    limited = {name for name in machine.states if name in machine.most}
    cycle = _cycle([p for p in free if not {*p} & limited]) or _cycle_through(machine.iteration, free)
    if cycle:
        path = " → ".join([*cycle, cycle[0]])
        yield f"Nothing bounds the cycle {path}. Add a limit to [most], such as turns or iterations."


def _goes_back(machine: Machine, state: State) -> bool:
    """`@back` enters and leaves no state: only a limit on turns or failures, or a wait, can bound it."""
    led = {} if state.end or _uses_up(machine, state) else {**machine.anywhere, **state.on}
    return any(t == "@back" and not _fails(machine, state, o) for o, t in led.items())


def _uses_up(machine: Machine, state: State) -> bool:
    """Whether this state bounds a cycle: it waits for a person or a trigger, or takes one of a limited number of turns."""
    return state.act in HEARING_ACTS or ("turns" in machine.most and state.act in ("agent", "run"))


def _bounded(machine: Machine) -> set[str]:
    """The states that cannot be entered forever."""
    bounded = {s.name for s in machine.states.values() if _uses_up(machine, s)}
    return bounded | ({machine.iteration} if "iterations" in machine.most else set())


def _walks(machine: Machine) -> list[tuple[str, str]]:
    """The transitions that are bounded neither by a limit on failures nor by one on interventions."""
    transitions: list[tuple[str, str]] = []
    for state in machine.states.values():
        led = {} if state.end else {**machine.anywhere, **state.on}
        for outcome, target in led.items():
            if not _counts(machine, state, outcome):
                transitions += [(state.name, name) for name in machine.targets(target)]
    return list(dict.fromkeys(transitions))


def _counts(machine: Machine, state: State, outcome: str) -> bool:
    """Whether the outcome uses up a failure of its state, or one of the CTO's attempts."""
    return outcome != "escalate" if state.do == "agent:cto" else _fails(machine, state, outcome)


def _fails(machine: Machine, state: State, outcome: str) -> bool:
    limited = "failures" in machine.most and not machine.standing
    return limited and counts_as_failure(machine, state, outcome)


def _cycle_through(name: str, pairs: list[tuple[str, str]]) -> list[str]:
    following = {a: {y for x, y in pairs if x == a} for a, _ in pairs}
    reached = _closure(set(following.get(name, ())), following)
    return _cycle([(a, b) for a, b in pairs if {a, b} <= reached]) if name in reached else []


def _cycle(pairs: list[tuple[str, str]]) -> list[str]:
    """The states of some cycle, in order; empty if there is none."""
    following: dict[str, list[str]] = {}
    for a, b in pairs:
        following.setdefault(a, []).append(b)
    visited: set[str] = set()

    def walk(name: str, path: list[str]) -> list[str]:
        if name in path:
            return path[path.index(name) :]
        if name in visited:
            return []
        for target in following.get(name, ()):
            cycle = walk(target, [*path, name])
            if cycle:
                return cycle
        visited.add(name)
        return []

    for name in following:
        cycle = walk(name, [])
        if cycle:
            return cycle
    return []
