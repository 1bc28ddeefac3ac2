"""The script agent: plays one turn of a file, as an agent would, without a model. For tests and demos.

    python -P player.py FILE --role coder --place 0        (command() says it in full)

A file has `turns: [turn, …]` (one sequence for whichever role comes next) or `roles: {ROLE: [turn, …]}`, and
`repeat: last|none`. Its turn is played in the current folder; what happens is told on stdout, a JSON line
each. What a turn says is done, also where it is unwise: guarding is not the player's business.
It is started anew for every turn, so what only some turns need is imported by those.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, cast

from flyball.errors import ConfigError

Turn = dict[str, Any]  # checked: only KEYS, of the kinds they name
BEYOND_EXIT = 1
UNREADABLE_EXIT = 2
OUTPUT_MOST = 1 << 16


class Script(NamedTuple):
    """A checked script. `roles` is None where one sequence serves every role."""

    turns: tuple[Turn, ...] = ()
    roles: dict[str, tuple[Turn, ...]] | None = None
    repeat: Literal["last", "none"] = "last"


def turn_for(script: Script, role: str, place: int) -> Turn | Literal["beyond"] | None:
    """The turn at this place. None: nothing is said of this role. "beyond": the script is over."""
    turns = script.turns if script.roles is None else script.roles.get(role)
    if turns is None:
        return None
    if place < len(turns):
        return turns[place]
    if script.repeat == "none":
        return "beyond"
    return turns[-1] if turns else None


# ---- reading


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
    return Script(
        turns=_turns(top.get("turns", []), name, "turn"),
        roles={role: _turns(turns, name, f"{role}, turn") for role, turns in roles.items()}
        if "roles" in top
        else None,
        repeat=top.get("repeat", "last"),
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
        said = " ".join(str(fault).split())
        raise ConfigError(f"'{name}' is neither YAML nor JSON: {said}.") from fault


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
    for key, given in turn.items():
        if key not in KEYS:
            raise ConfigError(f"'{name}', {what}: unknown key '{key}'; a turn takes {' '.join(KEYS)}.")
        fits, wanted = KEYS[key]
        if not (fits(given) and _is_json(given)):
            raise ConfigError(f"'{name}', {what}: `{key}` is {wanted}, not {_shown(given)}.")
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


def _text(value: object) -> bool:
    return isinstance(value, str)


def _number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e12


def _whole(value: object) -> bool:
    return _number(value) and isinstance(value, int)


def _texts(value: object) -> bool:
    return isinstance(value, list) and all(map(_text, cast(list[object], value)))


def _files(value: object) -> bool:
    return isinstance(value, dict) and all(map(_text, [*value, *value.values()]))  # type: ignore[reportUnknownArgumentType]


def _data(value: object) -> bool:
    return isinstance(value, dict) and all(map(_text, value))  # type: ignore[reportUnknownArgumentType]


def _fields(needed: dict[str, Callable[[object], bool]], extra: dict[str, Callable[[object], bool]]):
    """A table with these fields and no others, each as its test wants it."""
    known = {**needed, **extra}

    def fits(value: object) -> bool:
        if not _data(value):
            return False
        table = cast(dict[str, object], value)
        return set(needed) <= set(table) <= set(known) and all(known[key](table[key]) for key in table)

    return fits


def _actions(value: object) -> bool:
    return isinstance(value, list) and all(map(_action, cast(list[object], value)))


def _anything(value: object) -> bool:
    return True


def _flag(value: object) -> bool:
    return isinstance(value, bool)


def _seconds(value: object) -> bool:
    """From now; a time that is past is below 0."""
    return value is None or _number(value) or (isinstance(value, int | float) and _number(-value))


def _finish(value: object) -> bool:
    return _data(value) and _texts(cast(dict[str, object], value).get("indicators", []))


_action = _fields({"tool": _text}, {"input": _anything, "result": _anything, "error": _flag})
_usage = _fields(
    {},
    {
        "input_tokens": _whole,
        "output_tokens": _whole,
        "cost_usd": _number,
        "plan_percent": _whole,
        "plan_reset_in_s": _seconds,
    },
)
_limited = _fields({"kind": _text}, {"reset_in_s": _seconds})

# What a turn may have, in the order in which it is played.
KEYS: dict[str, tuple[Callable[[object], bool], str]] = {
    "sleep_s": (_number, "a number of seconds"),
    "write": (_files, "a table of path to text"),
    "delete": (_texts, "a list of paths"),
    "run": (_text, "a command as text"),
    "actions": (_actions, "a list of {tool, input, result, error}, tool being text and error true or false"),
    "usage": (
        _usage,
        "{input_tokens, output_tokens, cost_usd, plan_percent, plan_reset_in_s}, tokens whole and none below 0",
    ),
    "finding": (_data, "a table"),
    "ask": (_text, "text"),
    "finish": (_finish, "a table with `indicators`, a list of texts"),
    "outcome": (_text, "an outcome's name"),
    "data": (_data, "a table"),
    "say": (_text, "text"),
    "limited": (_limited, "{kind, reset_in_s}, kind being text and reset_in_s seconds"),
    "hang": (_flag, "true or false"),
    "exit": (lambda value: _whole(value) and cast(int, value) < 256, "a code from 0 to 255"),
}


# ---- playing


def command(file: str | Path, role: str, place: int) -> list[str]:
    """How to start the player, by its file: the package would bring every adapter along.

    -P: a module in the checkout must not stand in for one of ours."""
    return [sys.executable, "-P", __file__, str(file), "--role", role, "--place", str(place)]


def play(turn: Turn) -> int:
    """Play a turn in the current folder; the exit code it asks for."""
    time.sleep(turn.get("sleep_s", 0))
    for path, text in turn.get("write", {}).items():
        _try("write", path, lambda path=path, text=text: _write(Path(path), text))
    for path in turn.get("delete", []):
        _try("delete", path, lambda path=path: _delete(Path(path)))
    if "run" in turn:
        _run(turn["run"])
    _tell(turn)
    if turn.get("hang"):
        signal.pause()
    return turn.get("exit", 0)


def _try(tool: str, path: str, deed: Callable[[], None]) -> None:
    """What cannot be done is an action that failed, as it is for any agent; the turn continues."""
    try:
        deed()
    except (OSError, ValueError) as fault:
        _emit("action", tool=tool, input={"path": path}, result=str(fault), error=True)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="")


def _delete(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        from flyball.state_dir import remove

        remove(path)
    else:
        path.unlink(missing_ok=True)


def _run(line: str) -> None:
    """The output goes to a file, not a pipe: what the command leaves running must not keep us waiting."""
    import subprocess
    import tempfile

    with tempfile.TemporaryFile() as output:
        done = subprocess.run(["/bin/sh", "-c", line], stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        output.seek(max(0, output.seek(0, os.SEEK_END) - OUTPUT_MOST))
        said = output.read().decode(errors="replace")
    failed = done.returncode != 0
    _emit("action", tool="bash", input={"command": line}, result=said, exit=done.returncode, error=failed)


def _tell(turn: Turn) -> None:
    for action in turn.get("actions", []):
        _emit("action", **action)
    for key in ("usage", "finding"):
        if key in turn:
            _emit(key, **turn[key])
    if "ask" in turn:
        _emit("ask", text=turn["ask"])
    if "finish" in turn:
        _emit("finish", **turn["finish"])
    if "outcome" in turn or "data" in turn:
        _emit("outcome", name=turn.get("outcome"), data=turn.get("data", {}))
    _emit("message", text=turn.get("say", ""))
    if "limited" in turn:
        _emit("limited", **turn["limited"])


def _emit(kind: str, /, **fields: Any) -> None:
    line = json.dumps({"type": kind} | fields | {"type": kind})  # a finding may have a `type` of its own
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main(argv: list[str] | None = None) -> int:
    import argparse

    parser = argparse.ArgumentParser(prog="flyball-player", description="Plays one turn of an agent script.")
    parser.add_argument("file", type=Path)
    parser.add_argument("--role", required=True)
    parser.add_argument("--place", type=int, required=True)
    given = parser.parse_args(argv)
    try:
        script = load(given.file.read_text(encoding="utf-8"), str(given.file))
    except (ConfigError, OSError, UnicodeDecodeError) as fault:
        sys.stderr.write(f"{fault}\n")
        return UNREADABLE_EXIT
    turn = turn_for(script, given.role, given.place)
    if turn == "beyond":
        _emit("error", text=f"'{given.file}' has no turn {given.place + 1} for {given.role}.")
        return BEYOND_EXIT
    return 0 if turn is None else play(turn)


if __name__ == "__main__":
    sys.exit(main())
