"""Settings of the command guard: where the workspace is, what is protected, what a project adds."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from flyball.guard.policy import Commands


class Rule(msgspec.Struct, frozen=True):
    """A project's own rule for commands that start with these words, e.g. `["./scripts/check.sh"]`."""

    words: tuple[str, ...]
    reason: str = ""


class CommandPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """All paths are absolute and normalized. `declared` commands are allowed with known arguments inside the workspace."""

    workspace: str
    home: str
    protected_branches: tuple[str, ...] = ("main", "master", "trunk", "production", "release")
    remotes: tuple[str, ...] = ("origin",)
    declared: tuple[Rule, ...] = ()
    state_dirs: tuple[str, ...] = ()
    trusted_dirs: tuple[str, ...] = (
        "/bin",
        "/usr/bin",
        "/usr/local/bin",
        "/sbin",
        "/usr/sbin",
        "/opt/homebrew/bin",
    )
    harmless_env: tuple[str, ...] = ()
    allow: tuple[Rule, ...] = ()
    ask: tuple[Rule, ...] = ()
    deny: tuple[Rule, ...] = ()
    length_most: int = 32_000
    sandbox: str = "none"
    """Where the command runs: `bwrap`, `landlock` or `none`."""

    @property
    def contained(self) -> bool:
        """Does a sandbox keep what the command does in the checkout, the private home and /tmp?"""
        return self.sandbox != "none"


def default_policy(workspace: str, home: str) -> CommandPolicy:
    """The policy of a project without configuration."""
    return CommandPolicy(
        workspace=workspace.rstrip("/") or "/",
        home=home.rstrip("/") or "/",
        state_dirs=(
            f"{home}/.local/state/flyball",
            f"{home}/.config/flyball",
            f"{home}/.local/share/flyball",
        ),
    )


def project_policy(
    workspace: str, home: str, commands: Commands, state_dirs: tuple[str, ...] = (), sandbox: str = "none"
) -> CommandPolicy:
    """The default policy with what the project's policy file says about commands."""
    plain = default_policy(workspace, home)
    return msgspec.structs.replace(
        plain,
        declared=tuple(Rule(words=tuple(shlex.split(line))) for line in commands.declared),
        protected_branches=tuple(dict.fromkeys([*plain.protected_branches, *commands.protected_branches])),
        remotes=commands.remotes,
        state_dirs=tuple(dict.fromkeys([*plain.state_dirs, *state_dirs])),
        sandbox=sandbox,
    )
