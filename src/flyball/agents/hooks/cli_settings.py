"""How Claude Code, Codex and Gemini are told to ask us before each tool call, and to tell us after it.

The line that a CLI runs ends in `|| exit 2`: a program that is missing, crashes or is killed then refuses, where the
CLI would have taken its failure for a yes. A CLI that waits no longer takes that for a yes as well, so its timeout
lies well above the program's own patience. The first word of a session is a heartbeat: an agent whose hooks were
skipped (Codex skips untrusted ones in silence) is known by its absence.

Where each one goes, as tried: Claude Code takes `--settings claude.json`. Codex takes `codex_options` on its command
line, or `hooks.json` in CODEX_HOME, and needs `--dangerously-bypass-hook-trust`. Gemini reads only
`~/.gemini/settings.json` for sure (a system file must lie in folders that are root's alone), and the workspace
must be trusted (`GEMINI_CLI_TRUST_WORKSPACE=true`). What lies in the agent's home has to be written anew for each turn.
"""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Any, cast

from flyball.agents.hooks.payload import Agent

TIMEOUT_S = 120
PROGRAM = Path(__file__).with_name("program.py")
FORWARDER = Path(__file__).parents[1] / "mcp" / "forwarder.py"
MCP = "mcp.json"
FILES: dict[Agent, str] = {"claude": "claude.json", "codex": "codex/hooks.json", "gemini": "gemini.json"}
EVENTS: dict[Agent, dict[str, str]] = {  # event -> moment
    "claude": {
        "PreToolUse": "pre",
        "PostToolUse": "post",
        "PostToolUseFailure": "post",
        "SessionStart": "note",
    },
    "codex": {"PreToolUse": "pre", "PostToolUse": "post", "SessionStart": "note"},
    "gemini": {"BeforeTool": "pre", "AfterTool": "post", "SessionStart": "note"},
}


def command_line(agent: Agent, moment: str, program: Path, brief: Path, sha256: str) -> str:
    """What the CLI's shell runs."""
    words = (sys.executable, "-X", "utf8", "-I", "-S", str(program), moment, agent, str(brief), sha256)
    return shlex.join(words) + (" || exit 2" if moment == "pre" else " || exit 0")


def configuration(agent: Agent, program: Path, brief: Path, sha256: str) -> dict[str, Any]:
    """The hooks as that CLI reads them: for every tool, with our timeout (Gemini counts milliseconds)."""
    hooks = {
        event: [_entry(agent, event, command_line(agent, moment, program, brief, sha256))]
        for event, moment in EVENTS[agent].items()
    }
    if agent == "claude":
        return {"disableAllHooks": False, "hooks": hooks}
    if agent == "gemini":
        return {"hooksConfig": {"enabled": True}, "hooks": hooks}
    return {"hooks": hooks}


def codex_options(program: Path, brief: Path, sha256: str) -> tuple[str, ...]:
    """The same for Codex's command line, where no agent can write: `-c hooks.EVENT=…` for each event."""
    hooks = configuration("codex", program, brief, sha256)["hooks"]
    return tuple(
        word for event, entries in hooks.items() for word in ("-c", f"hooks.{event}={_toml(entries)}")
    )


def server_line(folder: Path, token: str, confined: bool) -> tuple[str, ...]:
    """How a CLI starts the MCP server of this act."""
    how = "confined" if confined else "open"
    return (sys.executable, "-X", "utf8", "-I", "-S", str(folder / FORWARDER.name), token, how)


def codex_server(line: tuple[str, ...]) -> tuple[str, ...]:
    """The MCP server for Codex's command line: its tools are not asked about, and it is up before the first request."""
    more = {"required": True, "default_tools_approval_mode": "approve"}
    return ("-c", f"mcp_servers.flyball={_toml({'command': line[0], 'args': list(line[1:]), **more})}")


def _toml(value: Any) -> str:
    """Inline TOML; its strings are JSON's."""
    match value:
        case dict():
            table = cast("dict[str, Any]", value)
            return "{" + ", ".join(f"{name} = {_toml(one)}" for name, one in table.items()) + "}"
        case list():
            return "[" + ", ".join(_toml(one) for one in cast("list[Any]", value)) + "]"
        case _:
            return json.dumps(value, ensure_ascii=False)


def _entry(agent: Agent, event: str, line: str) -> dict[str, Any]:
    timeout = TIMEOUT_S * 1000 if agent == "gemini" else TIMEOUT_S
    hook: dict[str, Any] = {"type": "command", "command": line, "timeout": timeout}
    if agent == "gemini":
        hook["name"] = f"flyball-{event}"
    return {"hooks": [hook]} if event == "SessionStart" else {"matcher": "*", "hooks": [hook]}


def write(folder: Path, brief: Path, sha256: str, server: tuple[str, ...]) -> None:
    """Into the act's hook folder: the programs themselves, and a file for each CLI.

    The programs are copies: where Flyball works on its own source, the installed one lies in the agent's checkout.
    """
    program = folder / PROGRAM.name
    for source in (PROGRAM, FORWARDER):
        (folder / source.name).write_bytes(source.read_bytes())
    entry = {"type": "stdio", "command": server[0], "args": server[1:], "alwaysLoad": True}
    (folder / MCP).write_text(json.dumps({"mcpServers": {"flyball": entry}}, indent=1) + "\n", "utf-8")
    for agent, name in FILES.items():
        (folder / name).parent.mkdir(mode=0o700, exist_ok=True)
        text = json.dumps(configuration(agent, program, brief, sha256), indent=1)
        (folder / name).write_text(text + "\n", "utf-8")
