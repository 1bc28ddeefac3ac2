"""Where a user's state and configuration are. Imports next to nothing, since every command needs it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from flyball.errors import ConfigError


class Paths(Struct, frozen=True):
    """Where a user's state and configuration are."""

    state_dir: Path
    config_file: Path


def environment() -> dict[str, str]:
    """The process's environment. Nothing else reads it."""
    return dict(os.environ)


def paths(env: Mapping[str, str]) -> Paths:
    state = _xdg(env, "XDG_STATE_HOME", ".local/state") / "flyball"
    config = _xdg(env, "XDG_CONFIG_HOME", ".config") / "flyball" / "config.toml"
    return Paths(_absolute(env, "FLYBALL_STATE_DIR") or state, config)


def _xdg(env: Mapping[str, str], name: str, default: str) -> Path:
    """By the XDG rules a relative or empty value counts for nothing."""
    given = env.get(name, "")
    return Path(given) if given.startswith("/") else _home(env) / default


def _home(env: Mapping[str, str]) -> Path:
    given = env.get("HOME", "")
    if given.startswith("/"):
        return Path(given)
    try:
        return Path("~").expanduser()
    except RuntimeError:
        raise ConfigError("There is no home folder; set HOME or FLYBALL_STATE_DIR.") from None


def _absolute(env: Mapping[str, str], name: str) -> Path | None:
    given = env.get(name, "")
    if given and not given.startswith("/"):
        raise ConfigError(f"{name} is '{given}', but must be an absolute path; correct or unset it.")
    return Path(given) if given else None
