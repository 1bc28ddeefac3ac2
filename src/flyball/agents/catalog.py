"""The agents that Flyball knows by name: what is installed here, how it is logged in, what it can do (AGENT-6)."""

from __future__ import annotations

import contextlib
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from flyball.agents.accounts import Account, account_of, variables

VERSION_S = 15


class Known(Struct, frozen=True, kw_only=True):
    """An agent, its program, and what its command line can do."""

    agent: str
    program: str
    can: tuple[str, ...]


KNOWN = (
    Known(
        agent="claude",
        program="claude",
        can=("mcp", "hooks", "asks", "defers", "interrupt", "resume", "cost"),
    ),
    Known(agent="codex", program="codex", can=("mcp", "hooks", "resume", "tokens")),
    Known(agent="acp:gemini --acp", program="gemini", can=("mcp", "asks", "interrupt", "resume", "tokens")),
    Known(agent="acp:opencode acp", program="opencode", can=("mcp", "asks", "interrupt", "resume", "cost")),
)


def reports(agent: str) -> bool:
    """Whether it tells what it uses, in tokens or money. A script says what it is told to, and mechanic uses nothing."""
    kind, _, command = agent.partition(":")
    if kind in ("script", "mechanic"):
        return True
    program = Path((command.split() or [""])[0]).name if command else kind
    return any(known.program == program for known in KNOWN)


class Status(Struct, frozen=True, kw_only=True):
    agent: str
    program: str | None = None
    version: str | None = None
    login: str | None = None
    can: tuple[str, ...] = ()

    @property
    def problem(self) -> str:
        if self.program is None:
            return "not installed"
        return "" if self.login else "not logged in"


def status(known: Known, environment: Mapping[str, str]) -> Status:
    path = shutil.which(known.program, path=environment.get("PATH"))
    if path is None:
        return Status(agent=known.agent, can=known.can)
    account = account_of(known.agent)
    return Status(
        agent=known.agent,
        program=path,
        version=_version(path, environment),
        login=_login(account, environment) if account else None,
        can=known.can,
    )


def _version(path: str, environment: Mapping[str, str]) -> str | None:
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        done = subprocess.run(
            [path, "--version"],
            env=dict(environment),
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=VERSION_S,
        )
        number = re.search(rb"\d+\.\d+[\w.+-]*", done.stdout)
        return number[0].decode() if number else None
    return None


def _login(account: Account, environment: Mapping[str, str]) -> str | None:
    """Where it gets its login from, as Flyball would lend it; None if there is none."""
    keys = [name for name in variables(account, environment) if "KEY" in name or "TOKEN" in name]
    if keys:
        return keys[0]
    home = Path(environment.get("HOME", "/nonexistent"))
    for file in account.files:
        moved = environment.get(file.moved, "") if file.moved else ""
        path = Path(moved) / file.rest if moved else home / file.path
        if file.rotates and path.is_file():
            return str(path).replace(f"{home}/", "~/")
    return "apiKeyHelper" if account.helper and _has_helper(home, account.helper) else None


def _has_helper(home: Path, helper: tuple[str, str, str]) -> bool:
    with contextlib.suppress(OSError, UnicodeDecodeError):
        return f'"{helper[1]}"' in (home / helper[0]).read_text("utf-8")
    return False
