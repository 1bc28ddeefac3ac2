"""A value has a kind, and a kind says what it takes. Nothing is guessed, rounded or silently ignored.

Each kind reads a value in two forms: `read` takes data from TOML, `text` takes what stands in the environment
or after `--set`. Both raise `Wrong`, which says what is allowed; who asked adds the file, the key and the value.

At the end: who plays a role (`AgentSpec`), a name or a kind with what it needs after the colon.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Protocol, cast

from msgspec import Struct

from flyball.config.plugins import plugins
from flyball.domain.machine import ROLES as PLAYED
from flyball.domain.settings import DOLLAR, MAX_US, SECOND, parse_default, parse_duration, show_duration
from flyball.errors import ConfigError

Value = int | str | tuple[str, ...] | None
Shown = int | str | list[str]

NONE = "none"
MOST_DOLLARS = 1_000_000
WHOLE = re.compile(r"[0-9]{1,15}|[0-9]{1,3}(?:_[0-9]{3}){1,4}")
MONEY = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,20})?")


class BadValue(ValueError):
    """The value is not one of its kind; the message says what is allowed."""


class Kind(Protocol):
    """What a key takes."""

    @property
    def allowed(self) -> str: ...
    def read(self, data: object) -> Value: ...
    def text(self, text: str) -> Value: ...
    def show(self, value: Value) -> Shown: ...


class Count(Struct, frozen=True):
    """A whole number between two bounds; with `none`, also no limit at all."""

    least: int = 0
    most: int = 1_000_000
    none: bool = False

    @property
    def allowed(self) -> str:
        end = f', or "{NONE}" for no limit' if self.none else ""
        return f"a whole number from {self.least} to {self.most}{end}"

    def read(self, data: object) -> Value:
        if self.none and data == NONE:
            return None
        if isinstance(data, bool) or not isinstance(data, int) or not self.least <= data <= self.most:
            raise BadValue(self.allowed)
        return data

    def text(self, text: str) -> Value:
        return self.read(int(text) if WHOLE.fullmatch(text) else text)

    def show(self, value: Value) -> Shown:
        return NONE if value is None else cast("int", value)


class Money(Struct, frozen=True):
    """Dollars, kept as whole micro-dollars; a finer part is refused, never rounded."""

    @property
    def allowed(self) -> str:
        return f'dollars from 0 to {MOST_DOLLARS} with at most six decimals, such as 5.0, or "{NONE}" for no limit'

    def read(self, data: object) -> Value:
        if data == NONE:
            return None
        if isinstance(data, bool) or not isinstance(data, int | Decimal):
            raise BadValue(self.allowed)
        return self._micro(Decimal(data))

    def text(self, text: str) -> Value:
        return self.read(Decimal(text) if MONEY.fullmatch(text) else text)

    def _micro(self, dollars: Decimal) -> int:
        if not dollars.is_finite() or not 0 <= dollars <= MOST_DOLLARS:
            raise BadValue(self.allowed)
        if cast("int", dollars.as_tuple().exponent) < -30:  # bounds the integers that follow
            raise BadValue(self.allowed)
        top, bottom = dollars.as_integer_ratio()
        micro, rest = divmod(top * DOLLAR, bottom)
        if rest:
            raise BadValue(self.allowed)
        return micro

    def show(self, value: Value) -> Shown:
        return NONE if value is None else dollars(cast("int", value))


def dollars(uusd: int) -> str:
    """Micro-dollars as TOML would hold them: `5.0`, `0.25`."""
    whole, part = divmod(uusd, DOLLAR)
    return f"{whole}.{f'{part:06d}'.rstrip('0') or '0'}"


class Duration(Struct, frozen=True):
    """A span such as `1h30m`, kept in microseconds. `none` stands for `never` where that is allowed."""

    least: int = SECOND
    none: bool = False
    never: int | None = None

    @property
    def allowed(self) -> str:
        end = f', or "{NONE}"' if self.none else ""
        return f'a duration from {show_duration(self.least)} to {show_duration(MAX_US)} such as "90s", "10m", "4h" or "1h30m"{end}'

    def read(self, data: object) -> Value:
        if not isinstance(data, str):
            raise BadValue(self.allowed)
        return self.text(data)

    def text(self, text: str) -> Value:
        if self.none and text == NONE:
            return self.never
        length = parse_duration(text)
        if length is None or length < self.least:
            raise BadValue(self.allowed)
        return length

    def show(self, value: Value) -> Shown:
        return (
            NONE
            if value is None or (self.none and value == self.never)
            else show_duration(cast("int", value))
        )


class Flag(Struct, frozen=True):
    """True or false, spelled so."""

    allowed: str = "true or false"

    def read(self, data: object) -> Value:
        if not isinstance(data, bool):
            raise BadValue(self.allowed)
        return data

    def text(self, text: str) -> Value:
        return self.read({"true": True, "false": False}.get(text))

    def show(self, value: Value) -> Shown:
        return bool(value)


class Choice(Struct, frozen=True):
    """One of a few words."""

    words: tuple[str, ...]

    @property
    def allowed(self) -> str:
        return "one of " + ", ".join(self.words)

    def read(self, data: object) -> Value:
        if not isinstance(data, str) or data not in self.words:
            raise BadValue(self.allowed)
        return data

    def text(self, text: str) -> Value:
        return self.read(text)

    def show(self, value: Value) -> Shown:
        return cast("str", value)


Check = Callable[[str], str]


class Text(Struct, frozen=True):
    """One string that its `check` accepts; the check gives the string back as it is kept, or raises Wrong."""

    check: Check
    allowed: str

    def read(self, data: object) -> Value:
        if not isinstance(data, str):
            raise BadValue(self.allowed)
        return self.check(data)

    def text(self, text: str) -> Value:
        return self.check(text)

    def show(self, value: Value) -> Shown:
        return cast("str", value)


def address(text: str) -> str:
    if not text.strip():
        raise BadValue("a list of addresses, none of them empty")
    return text


def phrase(text: str) -> str:
    words = text.split()
    if len(words) < 2 or len(text) > 80 or not text.isprintable():
        raise BadValue("a list of phrases of two words or more, at most 80 characters each")
    return " ".join(words).lower()


def default_answer(text: str) -> str:
    try:
        parse_default(text)
    except ValueError as problem:
        raise BadValue(str(problem)) from None
    return text


class Texts(Struct, frozen=True):
    """A list of strings. As text: a TOML array, or the one item itself (with `comma`, items with commas between)."""

    check: Check
    items: str
    comma: bool = False

    @property
    def allowed(self) -> str:
        return f"a list of {self.items}"

    def read(self, data: object) -> Value:
        if not isinstance(data, list):
            raise BadValue(self.allowed)
        items = [self._item(item) for item in cast("list[object]", data)]
        if len(items) > 100 or len(set(items)) != len(items):
            raise BadValue(f"{self.allowed}, at most 100 and none of them twice")
        return tuple(items)

    def _item(self, item: object) -> str:
        if not isinstance(item, str):
            raise BadValue(self.allowed)
        return self.check(item)

    def text(self, text: str) -> Value:
        if text.startswith("["):
            return self.read(self._array(text))
        items = [part.strip() for part in text.split(",")] if self.comma else [text]
        return self.read([item for item in items if item])

    def _array(self, text: str) -> object:
        try:
            return tomllib.loads(f"it = {text}")["it"]
        except (ValueError, RecursionError):
            raise BadValue(f'{self.allowed}, written ["…", "…"] where it begins with a bracket') from None

    def show(self, value: Value) -> Shown:
        return list(cast("tuple[str, ...]", value))


def matching(pattern: str, allowed: str, *, but: tuple[str, ...] = ()) -> Text:
    """A string of this shape."""
    shape = re.compile(pattern)

    def check(text: str) -> str:
        if not shape.fullmatch(text) or text in but:
            raise BadValue(allowed)
        return text

    return Text(check, allowed)


def command(text: str) -> str:
    """A shell command: not blank, no NUL."""
    if not text.strip() or "\0" in text or len(text) > 10_000:
        raise BadValue("a list of commands, none of them blank")
    return text


VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
HOST = re.compile(r"(?:(?:\*\.)?[a-z0-9][a-z0-9._-]{0,252}|\[[0-9a-f:.]{2,45}\])(?::([0-9]{1,5}))?")


def variable(text: str) -> str:
    """The name of an environment variable that an agent may get: not one that Flyball sets itself."""
    if not VARIABLE.fullmatch(text) or text in ("HOME", "PATH", "TMPDIR") or text.startswith("FLYBALL_"):
        raise BadValue("a list of names of environment variables, without HOME, PATH, TMPDIR and FLYBALL_…")
    return text


def place(text: str) -> str:
    """A path outside the checkout, without '..'; never a whole home or the whole disk."""
    parts = text.rstrip("/").split("/")
    if (
        "\0" in text
        or parts[0] not in ("", "~")
        or len(parts) < 2
        or any(p in ("", ".", "..") for p in parts[1:])
    ):
        raise BadValue("a list of absolute paths or paths beginning with ~/, without '..'")
    return "/".join(parts)


def host(text: str) -> str:
    """A host, with a port where it is not 443 or 80; `*.` before a domain means every host in it."""
    name = text.lower()
    match = HOST.fullmatch(name)
    if match is None or ".." in name or not 1 <= int(match[1] or 1) <= 65535:
        raise BadValue("a list of hosts such as example.com, *.example.com or example.com:8443")
    return name


def inside(text: str) -> str:
    """A path that stays in the repository, without a trailing slash."""
    parts = text.rstrip("/").split("/")
    if not text or text.startswith("/") or "\0" in text or any(p in ("", ".", "..", ".git") for p in parts):
        raise BadValue("a list of paths inside the repository, such as .venv, without '..' and not absolute")
    return "/".join(parts)


NAMED = ("claude", "codex", "mechanic")
WITH = {"acp": "COMMAND", "command": "COMMAND", "script": "FILE"}
KNOWN = "claude, codex, acp:COMMAND, command:COMMAND, script:FILE, mechanic"
SPOKEN = {"gemini": "acp:gemini --acp", "opencode": "acp:opencode acp"}  # agents that speak ACP, by name
ROLES = (*PLAYED, "default")


class AgentSpec(Struct, frozen=True):
    """`kind` is the adapter; `arg` the command or file that it needs, "" for a named agent."""

    kind: str
    arg: str = ""

    def __str__(self) -> str:
        return f"{self.kind}:{self.arg}" if self.arg else self.kind

    @property
    def is_program(self) -> bool:
        """Whether the text itself says what is run."""
        return self.kind in WITH or bool(self.arg)


def parse_agent(text: str, base: Path | None = None) -> AgentSpec:
    """The agent that `text` names; a relative script file is taken from the folder `base`."""
    kind, colon, arg = text.partition(":")
    arg = arg.strip()
    if kind in NAMED and not colon:
        return AgentSpec(kind)
    if kind not in WITH and kind not in NAMED and kind in plugins():
        return AgentSpec(kind, arg)
    if kind not in WITH:
        raise ConfigError(_unknown(text, kind))
    if not arg or "\0" in arg:
        raise ConfigError(f"The agent '{text}' lacks its {WITH[kind].lower()}; write {kind}:{WITH[kind]}.")
    return AgentSpec(kind, _anchored(arg, base) if kind == "script" else arg)


def _unknown(text: str, kind: str) -> str:
    if text in SPOKEN:
        return f"'{text}' is not an agent's name here; it speaks ACP, so write '{SPOKEN[text]}'."
    if kind in NAMED:
        return f"The agent '{kind}' takes nothing after its name, but '{text}' was given; write '{kind}'."
    return f"There is no agent '{text}'{nearest(kind, (*NAMED, *WITH))}; known are {KNOWN}."


def _anchored(file: str, base: Path | None) -> str:
    return str(base / file) if base else file


def parse_role(text: str) -> str:
    if text not in ROLES:
        raise ConfigError(f"There is no role '{text}'{nearest(text, ROLES)}; known are {', '.join(ROLES)}.")
    return text


def split_role(text: str) -> tuple[str, str]:
    """`ROLE=X` as (role, X); a plain X as ("", X). A command may itself hold an equals sign."""
    left, equals, right = text.partition("=")
    if equals and left.replace("_", "").isalnum():
        return parse_role(left), right
    return "", text


def nearest(word: str, choices: Sequence[str], start: str = "") -> str:
    """` (did you mean 'X'?)` or nothing: the part of a sentence that helps with a slip."""
    close = difflib.get_close_matches(word, choices, n=1, cutoff=0.6)
    return f" (did you mean '{start}{close[0]}'?)" if close else ""
