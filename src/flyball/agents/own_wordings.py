"""Wordings of limits that a user adds: `limits.toml` beside Flyball's own configuration.

plan_limit = ["your seat has no tokens left"]     # a statement that begins so, whatever the case
billing    = ["prepaid balance exhausted"]
"""

from __future__ import annotations

import tomllib
from functools import lru_cache
from pathlib import Path
from typing import Any, cast, get_args

from flyball.agents.limit_patterns import Kind
from flyball.errors import ConfigError
from flyball.state_dir import environment, paths

KINDS: tuple[Kind, ...] = get_args(Kind)


def file() -> Path:
    return paths(environment()).config_file.with_name("limits.toml")


@lru_cache(1)
def own_wordings() -> tuple[tuple[Kind, str], ...]:
    """(kind, beginning in lower case), in the order written; none from a file that cannot be read."""
    try:
        return parse(file().read_text("utf-8"))
    except (OSError, UnicodeDecodeError, ConfigError):
        return ()


def parse(text: str) -> tuple[tuple[Kind, str], ...]:
    try:
        table: dict[str, Any] = tomllib.loads(text)
    except tomllib.TOMLDecodeError as broken:
        raise ConfigError(f"limits.toml is not TOML: {broken}.") from None
    wordings: list[tuple[Kind, str]] = []
    for name, phrases in table.items():
        if name not in KINDS:
            raise ConfigError(f"limits.toml: unknown kind '{name}'; known kinds: {', '.join(KINDS)}.")
        kind: Kind = KINDS[KINDS.index(name)]
        entries: list[object] = cast("list[object]", phrases) if isinstance(phrases, list) else [None]
        if not all(isinstance(phrase, str) and phrase.strip() for phrase in entries):
            raise ConfigError(f"limits.toml: '{name}' must be a list of texts.")
        wordings.extend((kind, str(phrase).strip().lower()) for phrase in entries)
    return tuple(wordings)
