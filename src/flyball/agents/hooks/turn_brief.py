"""What the guard of tool calls knows about an act; written once for each act and pinned by its hash.

It is in the act's `hook` folder, which the agent's sandbox shows read-only. The hash is part of the command line that
the CLI was given, so that no other brief is accepted.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
from msgspec import Struct

from flyball.errors import ConfigError
from flyball.guard.policy import Policy

FOLDER, NAME = "hook", "brief.json"


class Brief(Struct, frozen=True, kw_only=True):
    """The workspace as the agent sees it, the policy as the run pinned it, and what this act may do."""

    workspace: str
    home: str
    policy: Policy
    state_dirs: tuple[str, ...] = ()
    network: str = "all"
    read_only: bool = False
    confined: bool = False  # in a PID namespace of its own, where the driver is a stranger without a number
    sandbox: str = "none"  # bwrap, landlock or none: commands are judged by where they run (EVID-6)
    defers: bool = False  # what a person must be asked about ends the turn, and the agent keeps the call
    late: str = ""  # where a ruling is noted that nobody was there to write down
    imports: tuple[str, ...] = ()  # where the guard's code is found


def write(folder: Path, brief: Brief) -> str:
    """Write the brief into the folder; returns its hash."""
    import hashlib

    data = msgspec.json.encode(brief)
    (folder / NAME).write_bytes(data)
    return hashlib.sha256(data).hexdigest()


def parse(data: bytes) -> Brief:
    try:
        return msgspec.json.decode(data, type=Brief)
    except msgspec.MsgspecError as broken:
        raise ConfigError(f"The hook's brief cannot be read: {broken}. Begin the turn again.") from None


def imports() -> tuple[str, ...]:
    """Where Python finds Flyball and what its guard needs."""
    import tree_sitter
    import tree_sitter_bash

    import flyball

    modules = (flyball, msgspec, tree_sitter, tree_sitter_bash)
    files = [Path(module.__file__ or "") for module in modules]
    return tuple(dict.fromkeys(str(file.resolve().parents[1]) for file in files))
