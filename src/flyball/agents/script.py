"""The script agent: reads turns from a file and lets `player` perform them. For tests, demonstrations and rehearsals.

A file has `turns: [turn, …]` (one sequence, whichever role is next) or `roles: {ROLE: [turn, …]}`, and
`repeat: last|none`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, cast

from flyball.agents.adapter import AgentResult, Call, Launch, TurnRequest, ended_badly
from flyball.agents.process import Exit
from flyball.domain.events import Claim, Finding, Usage
from flyball.domain.machine import ROLES
from flyball.errors import ConfigError, FlyballError, reason
from flyball.reading.terminal import as_object

Turn = dict[str, Any]  # checked: only KEYS, of the kinds they name

PLAYER = Path(__file__).with_name("player.py")
BEYOND_EXIT = 1
WRITERS = ("write", "edit", "delete", "bash")


class ScriptAgent:
    hooked = False

    def __init__(self, file: str) -> None:
        self.file = Path(file)

    def missing(self) -> str:
        try:
            self._script()
        except (OSError, UnicodeDecodeError) as problem:
            return f"Cannot read the script {self.file}: {reason(problem)}. Check the path."
        except FlyballError as problem:
            return str(problem)
        return ""

    def _script(self) -> Script:
        return load(self.file.read_text("utf-8"), str(self.file))

    def launch(self, request: TurnRequest) -> Launch:
        script = self._script()
        place = request.place_in_file if script.roles is None else request.place
        turn = turn_for(script, request.role, place)
        if turn == "beyond":
            turn = {
                "error": f"'{self.file}' has no turn {place + 1} for {request.role}.",
                "exit": BEYOND_EXIT,
            }
        file = request.prompt_file.with_name("script-turn.json")
        file.write_text(json.dumps(turn or {}), "utf-8")
        return Launch(argv=tuple(command(file)), reads=(str(file),))

    def doing(self, line: str) -> Call | None:
        row = as_object(line) or {}
        return _call(row) if row.get("type") == "action" else None

    def spent(self) -> tuple[Usage, str]:
        return Usage(), ""

    def read(self, out: str, err: str, exit: Exit) -> AgentResult:  # noqa: A002
        rows = [as_object(line) or {} for line in out.splitlines()]
        verdict = ended_badly(exit) or _limited(rows) or ("ok" if exit.code == 0 else "unknown")
        wait = _of(rows, "limited").get("reset_in_s")
        return AgentResult(
            verdict=verdict,
            message=str(_of(rows, "message").get("text", "")),
            usage=_usage(rows),
            claim=_claim(rows),
            reset_in_us=_us(wait),
            plan_percent=cast("int | None", _of(rows, "usage").get("plan_percent")),
            plan_reset_in_us=_us(_of(rows, "usage").get("plan_reset_in_s")),
            error=_error(rows, err, exit, verdict),
            calls=tuple(_call(row) for row in rows if row.get("type") == "action"),
        )


def command(turn_file: str | Path) -> list[str]:
    """How to start the player, by its file: the package would bring every adapter along.

    -P: a module in the checkout must not stand in for one of ours."""
    return [sys.executable, "-P", str(PLAYER), str(turn_file)]


def _us(seconds: Any) -> int | None:
    return int(float(seconds) * 1_000_000) if seconds is not None else None


def _of(rows: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    nothing: dict[str, Any] = {}
    return next((row for row in reversed(rows) if row.get("type") == kind), nothing)


def _limited(rows: list[dict[str, Any]]) -> str:
    """The limit that the script reports; without one, the exit code decides."""
    kind = str(_of(rows, "limited").get("kind", ""))
    return "" if kind == "ok" else kind


def _usage(rows: list[dict[str, Any]]) -> Usage:
    row = _of(rows, "usage")
    return Usage(
        input_tokens=int(row.get("input_tokens", 0)),
        output_tokens=int(row.get("output_tokens", 0)),
        cost_uusd=round(float(row.get("cost_usd", 0)) * 1_000_000),
    )


def _claim(rows: list[dict[str, Any]]) -> Claim:
    outcome, finish = _of(rows, "outcome"), _of(rows, "finish")
    return Claim(
        outcome=str(outcome.get("name") or ""),
        data=cast("dict[str, Any]", outcome.get("data") or {}),
        finished=bool(finish),
        indicators=tuple(str(i) for i in finish.get("indicators", ())),
        findings=tuple(_finding(row) for row in rows if row.get("type") == "finding"),
        ask=str(_of(rows, "ask").get("text", "")),
    )


def _finding(row: dict[str, Any]) -> Finding:
    return Finding(
        id=str(row.get("id", "")),
        file=str(row.get("file", "")),
        line=_line(row.get("line")),
        severity=str(row.get("severity", "medium")),
        kind=str(row.get("kind", "")),
        status=str(row.get("status", "open")),
        text=str(row.get("text", "")),
        evidence=str(row.get("evidence", "")),
    )


def _line(value: Any) -> int:
    """An agent may name a line in any way; what is not a number is not a line."""
    return int(value) if isinstance(value, int) or (isinstance(value, str) and value.isdecimal()) else 0


def _call(row: dict[str, Any]) -> Call:
    tool = str(row.get("tool", ""))
    input_ = row.get("input", "")
    return Call(
        tool=tool,
        input=input_ if isinstance(input_, str) else json.dumps(input_, sort_keys=True),
        result=str(row.get("result", "")),
        error=bool(row.get("error", False)),
        writes=tool.lower() in WRITERS,
    )


def _error(rows: list[dict[str, Any]], err: str, exit: Exit, verdict: str) -> str:  # noqa: A002
    if verdict == "ok":
        return ""
    if _limited(rows) == verdict:
        return f"the agent reports {verdict}"
    text = str(_of(rows, "error").get("text", "")) or exit.error or (err.strip().splitlines() or [""])[-1]
    return text or f"exited with {exit.code}"


# ---- the file ------------------------------------------------------------------------------------------


class Script(NamedTuple):
    """A checked script. `roles` is None where one sequence serves every role."""

    turns: tuple[Turn, ...] = ()
    roles: dict[str, tuple[Turn, ...]] | None = None
    repeat: Literal["last", "none"] = "last"


def turn_for(script: Script, role: str, place: int) -> Turn | Literal["beyond"] | None:
    """The turn at this place. None: the script has nothing for this role. "beyond": the script has ended."""
    turns = script.turns if script.roles is None else script.roles.get(role)
    if turns is None:
        return None
    if place < len(turns):
        return turns[place]
    if script.repeat == "none":
        return "beyond"
    return turns[-1] if turns else None


def load(text: str, name: str = "script") -> Script:
    """A script from YAML or JSON. `name` is what the error calls it."""
    top = _table(_parsed(text, name), name, "a script is a table with `turns` or `roles`")
    if unknown := sorted(set(top) - {"turns", "roles", "repeat"}):
        raise ConfigError(f"'{name}': unknown key '{unknown[0]}'; a script has turns or roles, and repeat.")
    if ("turns" in top) == ("roles" in top):
        raise ConfigError(f"'{name}' needs either `turns` or `roles`, and has {_count(top)}.")
    if top.get("repeat", "last") not in ("last", "none"):
        raise ConfigError(f"'{name}': `repeat` is last or none, not {_shown(top['repeat'])}.")
    roles = _table(top.get("roles", {}), name, "`roles` is a table of role to turns")
    for role in roles:
        _check_role(role, name)
    return Script(
        turns=_turns(top.get("turns", []), name, "turn"),
        roles={role: _turns(turns, name, f"{role}, turn") for role, turns in roles.items()}
        if "roles" in top
        else None,
        repeat=top.get("repeat", "last"),
    )


def _check_role(role: str, name: str) -> None:
    """A role that no machine can have would never be played."""
    if role not in ROLES:
        from flyball.config.values import nearest

        raise ConfigError(
            f"'{name}': there is no role '{role}'{nearest(role, ROLES)}; known are {', '.join(ROLES)}."
        )


def _count(top: Turn) -> str:
    return "both" if "turns" in top else "neither"


def _parsed(text: str, name: str) -> object:
    """JSON is tried first: it is the stricter of the two, and quicker."""
    try:
        return json.loads(text)
    except ValueError as fault:
        if text.lstrip().startswith("{") and name.endswith(".json"):
            raise ConfigError(f"'{name}' is not JSON: {fault}.") from fault
    return _yaml(text, name)


def _yaml(text: str, name: str) -> object:
    import yaml

    class Plain(yaml.SafeLoader):  # dates stay text: a script's data is JSON
        yaml_implicit_resolvers: ClassVar = {
            first: [rule for rule in rules if rule[0] != "tag:yaml.org,2002:timestamp"]
            for first, rules in yaml.SafeLoader.yaml_implicit_resolvers.items()
        }

    try:
        return cast(object, yaml.load(text, Loader=Plain))
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as fault:
        problem = " ".join(str(fault).split())
        raise ConfigError(f"'{name}' is neither YAML nor JSON: {problem}.") from fault


def _table(value: object, name: str, law: str) -> Turn:
    if not isinstance(value, dict):
        raise ConfigError(f"'{name}': {law}, not {_shown(value)}.")
    table = cast(dict[object, Any], value)
    if odd := [key for key in table if not isinstance(key, str)]:
        raise ConfigError(f"'{name}': {law}, and its names are text, not {_shown(odd[0])}.")
    return cast(Turn, table)


def _turns(value: object, name: str, what: str) -> tuple[Turn, ...]:
    if not isinstance(value, list):
        raise ConfigError(f"'{name}': {what}s are a list, not {_shown(value)}.")
    return tuple(
        _turn(turn, name, f"{what} {n}") for n, turn in enumerate(cast(list[object], value), start=1)
    )


def _turn(value: object, name: str, what: str) -> Turn:
    turn = _table({} if value is None else value, name, f"{what} is a table")
    for key, content in turn.items():
        if key not in KEYS:
            raise ConfigError(f"'{name}', {what}: unknown key '{key}'; a turn takes {' '.join(KEYS)}.")
        fits, kind = KEYS[key]
        if not (fits(content) and _is_json(content)):
            raise ConfigError(f"'{name}', {what}: `{key}` is {kind}, not {_shown(content)}.")
    return turn


def _shown(value: object) -> str:
    text = json.dumps(value, default=repr, ensure_ascii=False) if _is_json(value) else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _is_json(value: object) -> bool:
    try:
        json.dumps(value)
    except (TypeError, ValueError, RecursionError):
        return False
    return True


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e12


def _is_whole(value: object) -> bool:
    return _is_number(value) and isinstance(value, int)


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and all(map(_is_text, cast(list[object], value)))


def _is_files(value: object) -> bool:
    return isinstance(value, dict) and all(map(_is_text, [*value, *value.values()]))  # type: ignore[reportUnknownArgumentType]


def _is_data(value: object) -> bool:
    return isinstance(value, dict) and all(map(_is_text, value))  # type: ignore[reportUnknownArgumentType]


def _fields(needed: dict[str, Callable[[object], bool]], extra: dict[str, Callable[[object], bool]]):
    """A table with these fields and no others, each as its test wants it."""
    allowed = {**needed, **extra}

    def fits(value: object) -> bool:
        if not _is_data(value):
            return False
        table = cast(dict[str, object], value)
        return set(needed) <= set(table) <= set(allowed) and all(allowed[key](table[key]) for key in table)

    return fits


def _is_actions(value: object) -> bool:
    return isinstance(value, list) and all(map(_is_action, cast(list[object], value)))


def _anything(value: object) -> bool:
    return True


def _is_flag(value: object) -> bool:
    return isinstance(value, bool)


def _is_seconds(value: object) -> bool:
    """From now; a time that is past is below 0."""
    return value is None or _is_number(value) or (isinstance(value, int | float) and _is_number(-value))


def _is_finish(value: object) -> bool:
    return _is_data(value) and _is_texts(cast(dict[str, object], value).get("indicators", []))


_is_action = _fields({"tool": _is_text}, {"input": _anything, "result": _anything, "error": _is_flag})
_is_usage = _fields(
    {},
    {
        "input_tokens": _is_whole,
        "output_tokens": _is_whole,
        "cost_usd": _is_number,
        "plan_percent": _is_whole,
        "plan_reset_in_s": _is_seconds,
    },
)
_is_limited = _fields({"kind": _is_text}, {"reset_in_s": _is_seconds})

# What a turn may have, in the order in which it is played.
KEYS: dict[str, tuple[Callable[[object], bool], str]] = {
    "sleep_s": (_is_number, "a number of seconds"),
    "write": (_is_files, "a table of path to text"),
    "delete": (_is_texts, "a list of paths"),
    "run": (_is_text, "a command as text"),
    "actions": (
        _is_actions,
        "a list of {tool, input, result, error}, tool being text and error true or false",
    ),
    "usage": (
        _is_usage,
        "{input_tokens, output_tokens, cost_usd, plan_percent, plan_reset_in_s}, tokens whole and none below 0",
    ),
    "finding": (_is_data, "a table"),
    "ask": (_is_text, "text"),
    "finish": (_is_finish, "a table with `indicators`, a list of texts"),
    "outcome": (_is_text, "an outcome's name"),
    "data": (_is_data, "a table"),
    "say": (_is_text, "text"),
    "limited": (_is_limited, "{kind, reset_in_s}, kind being text and reset_in_s seconds"),
    "hang": (_is_flag, "true or false"),
    "exit": (lambda value: _is_whole(value) and cast(int, value) < 256, "a code from 0 to 255"),
}
