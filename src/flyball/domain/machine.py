"""A machine is a table: what is done in each state, and where each outcome leads. It holds no conditions.

A target is a state, `any:GROUP` (the outcome's data names one state of the group), or one of
`@ask @blocked @fail @cancel @back`, which are not states: they stop, end or repeat, and leave the state alone.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any, cast

import msgspec
from msgspec import Struct

from flyball.domain.settings import parse_duration
from flyball.errors import InvalidTransition, MachineFault

SPECIAL = ("@ask", "@blocked", "@fail", "@cancel", "@back")
HEARING_ACTS = ("ask", "listen")  # acts that wait for a human or a trigger
WAITING_ACTS = (*HEARING_ACTS, "wait")  # and for a time, which bounds nothing
PLAIN_ACTS = ("proof", "check", "commit", *WAITING_ACTS)
WRITING_ROLES = ("planner", "coder", "worker", "author", "developer")
JUDGING_ROLES = ("validator", "critic", "quality", "reviewer")
WORKERS = ("coder", "worker", "author", "developer")  # whose turns must make progress
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
NO_SUCCESS = (*OURS, "unproven", "stalled", "third_failure")  # what can never lead to a success end
NEEDED = {"proof": ("passed", "failed"), "commit": ("committed", "refused"), "check": ("ready",)}
NEEDED_BY_ROLE = {**dict.fromkeys(JUDGING_ROLES, ("rejected",)), "cto": ("escalate",)}
CIRCUIT = ("closed", "half_open", "open")
CHECKS = ("agents", "checkout", "dependencies", "base", "plan", "change")  # `acts` says which it can make
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
COUNT_MAX = 1_000_000


class State(Struct, frozen=True):
    """One line of the table."""

    name: str
    do: str = ""
    on: dict[str, str] = {}
    end: str = ""  # "success" | "failure" | ""
    options: dict[str, Any] = {}  # the table's `with`
    loop: str = ""  # the child run that stands for the turn where `[run] write = "loop"`, as "run:NAME"
    counts: str = ""  # what its entries are called: the code of its limit is `limit.` and this
    circuit: str = ""  # closed | half_open | open: the part that the state has in a circuit (LOOP-3)
    checks: tuple[str, ...] = ()  # what `do = "check"` looks at
    called_by: str = ""  # who is recorded for each transition into the state
    plan_review: str = ""  # the turn that comes first where the task carries out a plan file, as "agent:ROLE"
    act: str = ""  # of `do`: agent, run, or the plain act
    of: str = ""  # of `do`: the role of an agent, or the machine of a child run

    def __post_init__(self) -> None:
        act, _, of = self.do.partition(":")
        msgspec.structs.force_setattr(self, "act", act)
        msgspec.structs.force_setattr(self, "of", of)


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
    supervises: bool = False  # the limit on turns applies to its child runs, not to itself (GUARD-4)
    actors: dict[str, str] = {}  # state -> who is recorded for leaving it (TASK-1)
    run_states: dict[str, str] = {}  # state -> what outside tools call it (PAIR-5)
    table: dict[str, Any] = {}  # as it was written: what a run pins
    ways: dict[str, dict[str, tuple[str, ...]]] = {}  # from -> to -> outcomes, made from the rest

    def place(self, state: str, outcome: str) -> str:
        """Where this outcome leads from this state; "" if the table does not say."""
        return self.states[state].on.get(outcome) or self.anywhere.get(outcome, "")

    def targets(self, target: str) -> tuple[str, ...]:
        """The states that a target can lead to."""
        if target.startswith("any:"):
            return self.groups.get(target[4:], ())
        return () if target.startswith("@") else (target,)

    def check(self, source: str, target: str) -> None:
        """Refuse a transition that the table does not have."""
        if target not in self.ways.get(source, ()):
            raise InvalidTransition(self.name, source, target)

    @property
    def digest(self) -> str:
        return hashlib.sha256(msgspec.json.encode(self.table)).hexdigest()


def counts_as_failure(machine: Machine, state: State, outcome: str) -> bool:
    """TASK-2: whether the outcome is a failed act, in a table that says where a third failure leads. A person's
    answer does not count.
    """
    failing = outcome in FAILING and state.act not in WAITING_ACTS
    return failing and bool(machine.place(state.name, "third_failure"))


def edges(machine: Machine) -> dict[tuple[str, str], tuple[str, ...]]:
    """(from, to) -> the outcomes that lead there, shorthand expanded."""
    return {(a, b): outcomes for a, to in machine.ways.items() for b, outcomes in to.items()}


def _expanded(machine: Machine) -> dict[str, dict[str, tuple[str, ...]]]:
    result: dict[str, dict[str, tuple[str, ...]]] = {}
    for state in machine.states.values():
        ways = result.setdefault(state.name, {})
        for outcome, target in ({} if state.end else {**machine.anywhere, **state.on}).items():
            for name in machine.targets(target):
                ways[name] = (*ways.get(name, ()), outcome)
    return result


# ---- reading a table ------------------------------------------------------------------------------------


KEYS = (
    *("actors", "alert", "anywhere", "from", "groups", "iteration", "most", "name", "run_states"),
    *("standing", "start", "states", "supervises", "within"),
)
STATE_KEYS = ("do", "on", "end", "with", "loop", "counts", "circuit", "checks", "called_by", "plan_review")


def parse(table: Mapping[str, Any]) -> Machine:
    """A machine from its table. A table that cannot be read is refused here; `faults` checks everything else."""
    for key in table:
        if key not in KEYS:
            raise MachineFault(f"A machine has no '{key}'. It may have: {', '.join(KEYS)}.")
    name, start = _text(table, "name"), _text(table, "start")
    _readable(table)
    groups = {k: _names(v, f"groups.{k}") for k, v in _mapping(table, "groups").items()}
    states = {k: _state(k, v) for k, v in _mapping(table, "states").items()}
    states = _spread(states, groups, _mapping(table, "from"))
    machine = Machine(
        name=name,
        start=start,
        states=states,
        anywhere=_only_on(_mapping(table, "anywhere"), "anywhere"),
        most={k: _count(v, f"most.{k}") for k, v in _mapping(table, "most").items()},
        within_us=_durations(_mapping(table, "within"), "within"),
        alert_us=_durations(_mapping(table, "alert"), "alert"),
        groups=groups,
        iteration=str(table.get("iteration", "")),
        standing=_flag(table, "standing"),
        supervises=_flag(table, "supervises"),
        actors=_by_state(_mapping(table, "actors"), "actors"),
        run_states=_by_state(_mapping(table, "run_states"), "run_states"),
        table=msgspec.json.decode(msgspec.json.encode(table)),
    )
    return msgspec.structs.replace(machine, ways=_expanded(machine))


def _readable(table: Mapping[str, Any]) -> None:
    """A run pins its table, so values that a journal or snapshot cannot hold are refused here."""
    try:
        msgspec.msgpack.encode(table)
    except (OverflowError, TypeError, ValueError, RecursionError) as problem:
        raise MachineFault(f"The table holds a value that cannot be kept: {problem}.") from None


def _state(name: str, line: Any) -> State:
    if not NAME.fullmatch(name):
        raise MachineFault(f"'{name}' cannot name a state. Use letters, digits, '_' and '-'.")
    if not isinstance(line, dict):
        raise MachineFault(
            f"State '{name}' must be a table such as {{ do = \"agent:coder\", on = {{ … }} }}."
        )
    fields = cast("dict[str, Any]", line)
    for key, value in fields.items():
        if key not in STATE_KEYS:
            raise MachineFault(f"State '{name}' has no '{key}'. It may have: {', '.join(STATE_KEYS)}.")
        if key not in ("on", "with", "checks") and not isinstance(value, str):
            raise MachineFault(f"State '{name}': '{key}' must be a text, not {value!r}.")
    options = fields.get("with", {})
    if not isinstance(options, dict):
        raise MachineFault(f"State '{name}': 'with' must be a table of options.")
    words = {key: value for key, value in fields.items() if key not in ("on", "with", "checks")}
    return State(
        name,
        on=_outcomes(fields.get("on", {}), name),
        options=cast("dict[str, Any]", options),
        checks=_names(fields.get("checks", []), f"State '{name}': 'checks'"),
        **words,
    )


def _spread(
    states: dict[str, State], groups: Mapping[str, tuple[str, ...]], shared: Mapping[str, Any]
) -> dict[str, State]:
    """`[from.GROUP] on = …` is written once and holds for every state of the group."""
    result = dict(states)
    for group, line in shared.items():
        if group not in groups:
            raise MachineFault(f"[from.{group}] names no group. Add it to [groups].")
        on = _only_on(line, f"from.{group}")
        for name in groups[group]:
            if name in result:
                state = result[name]
                result[name] = msgspec.structs.replace(
                    state, on={**state.on, **{k: v for k, v in on.items() if k not in state.on}}
                )
    return result


def _only_on(line: Any, where: str) -> dict[str, str]:
    if not isinstance(line, dict) or set(cast("dict[str, Any]", line)) - {"on"}:
        raise MachineFault(f'[{where}] takes only `on = {{ outcome = "state" }}`. Put its outcomes there.')
    return _outcomes(cast("dict[str, Any]", line).get("on", {}), where)


def _outcomes(value: Any, where: str) -> dict[str, str]:
    if not isinstance(value, dict) or not all(
        isinstance(v, str) for v in cast("dict[str, Any]", value).values()
    ):
        raise MachineFault(f"'{where}': 'on' must be a table from outcome to state.")
    outcomes = cast("dict[str, str]", value)
    for outcome in outcomes:
        if not NAME.fullmatch(outcome):
            raise MachineFault(
                f"'{where}': '{outcome}' cannot name an outcome. Use letters, digits, '_' and '-'."
            )
    return outcomes


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


def _flag(table: Mapping[str, Any], key: str) -> bool:
    value = table.get(key, False)
    if not isinstance(value, bool):
        raise MachineFault(f"'{key}' is true or false, not {value!r}.")
    return value


def _names(value: Any, where: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(v, str) for v in cast("list[Any]", value)):
        raise MachineFault(f"{where} must be a list of names.")
    return tuple(cast("list[str]", value))


def _by_state(table: Mapping[str, Any], where: str) -> dict[str, str]:
    """`[actors] name = ["state", …]` as state -> name."""
    return {state: text for text, names in table.items() for state in _names(names, f"{where}.{text}")}


def _count(value: Any, where: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= COUNT_MAX:
        raise MachineFault(f"{where} must be a whole number from 0 to {COUNT_MAX}, not {value!r}.")
    return value


def _durations(table: Mapping[str, Any], where: str) -> dict[str, int]:
    return {name: duration_us(text, where) for text, names in table.items() for name in _names(names, where)}


def duration_us(text: str, where: str = "duration") -> int:
    length = parse_duration(text)
    if length is None:
        raise MachineFault(
            f"'{text}' in [{where}] is not a duration of at most a year. Write for example 90s, 10m, 4h or 1h30m."
        )
    return length
