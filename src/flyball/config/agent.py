"""Who plays a role, as it is written: a name, or a kind with what it needs after the colon."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from flyball.config.plugins import plugins
from flyball.domain.machine import ROLES as PLAYED
from flyball.errors import ConfigError

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


def nearest(word: str, known: Sequence[str], start: str = "") -> str:
    """` (did you mean 'X'?)` or nothing: the part of a sentence that helps with a slip."""
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    return f" (did you mean '{start}{close[0]}'?)" if close else ""
