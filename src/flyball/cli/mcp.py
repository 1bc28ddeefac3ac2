"""`flyball mcp`: an MCP server for a person's own assistant. It starts runs and looks at them; it cannot answer.

A tool is a command of Flyball with `--json`, run as its own process: what the assistant reads is what a person would.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
from msgspec import Struct

from flyball.agents.mcp.protocol import Tool, ToolResult, answer
from flyball.cli import REPO, examples, require_repository
from flyball.runtime.listing import STATUSES

LINE_MOST = 1 << 20
WITHIN_S = 120
WORDS = {"type": "string"}
RUN_NAME = {"run": {**WORDS, "description": "The run's id, a unique prefix of it, or @last."}}


class Command(Struct, frozen=True):
    """A tool: its description, its arguments (the first `required` must be given), and the command that it stands for."""

    says: str
    argv: Callable[[dict[str, str]], list[str]]
    takes: dict[str, dict[str, Any]] = {}
    required: int = 0


def _start(arguments: dict[str, str]) -> list[str]:
    machine = ["--machine", arguments["machine"]] if "machine" in arguments else []
    task = arguments["task"]
    return [
        "run",
        "--detach",
        *machine,
        "--",
        f" {task}" if task.startswith("@") else task,
    ]  # never a file's name


def _list(arguments: dict[str, str]) -> list[str]:
    status = ["--status", arguments["status"]] if "status" in arguments else []
    return ["ls", *status, *(["--all"] if arguments.get("everywhere") == "True" else [])]


COMMANDS: dict[str, Command] = {
    "start_run": Command(
        "Start a run in the background: an agent works on the task in a checkout of its own until its tests pass "
        "or a person is needed. Returns the run's id. Agents, limits and rules are those of the configuration.",
        _start,
        {
            "task": {**WORDS, "description": "What is to be done, in plain words."},
            "machine": {"type": "string", "enum": ["build", "loop", "review", "task"]},
        },
        1,
    ),
    "list_runs": Command(
        "List the runs of this repository, newest first.",
        _list,
        {
            "status": {"type": "string", "enum": list(STATUSES)},
            "everywhere": {"type": "boolean", "description": "The runs of all repositories."},
        },
    ),
    "show_run": Command(
        "Show a run: state, result, proofs, cost and question.",
        lambda given: ["show", "--", given["run"]],
        RUN_NAME,
        1,
    ),
    "why": Command(
        "Say why a run stopped, with the evidence and what to do next.",
        lambda given: ["why", "--", given["run"]],
        RUN_NAME,
        1,
    ),
    "inbox": Command(
        "List the questions that wait for a person. They cannot be answered here: a person answers in a terminal, "
        "with `flyball inbox`.",
        lambda given: ["inbox"],
    ),
}
TOOLS = [
    Tool(
        name=name,
        description=command.says,
        input_schema={
            "type": "object",
            "properties": command.takes,
            "required": list(command.takes)[: command.required],
        },
    )
    for name, command in COMMANDS.items()
]


@click.command(epilog=examples("flyball mcp", "flyball mcp --repo ."))
@REPO
def mcp(repo: Path) -> None:
    """Let your own assistant start and follow runs, over MCP.

    It speaks the Model Context Protocol on standard input and output; add it to Claude Code with
    `claude mcp add flyball -- flyball mcp --repo DIR`. It can list questions, but only a person can answer them.
    """
    root = require_repository(repo)
    for line in _lines():
        reply = answer(line, TOOLS, lambda name, arguments: _call(root, name, arguments))
        if reply:
            sys.stdout.write(f"{reply}\n")
            sys.stdout.flush()


def _lines() -> Iterator[bytes]:
    """Each message. Of one that is too long only the beginning is read as one, which is then refused."""
    while line := sys.stdin.buffer.readline(LINE_MOST):
        whole = line
        while not whole.endswith(b"\n") and (whole := sys.stdin.buffer.readline(LINE_MOST)):
            pass
        if line.strip():
            yield line


def _call(root: Path, name: str, arguments: dict[str, Any]) -> ToolResult:
    command = COMMANDS.get(name)
    if command is None:
        return ToolResult(f"There is no tool '{name[:80]}'. Tools: {', '.join(COMMANDS)}.", failed=True)
    values = {
        key: str(value) for key, value in arguments.items() if key in command.takes and value is not None
    }
    missing = [key for key in list(command.takes)[: command.required] if not values.get(key)]
    if missing:
        return ToolResult(f"'{name}' needs '{missing[0]}'.", failed=True)
    verb, *rest = command.argv(values)
    return _ran([verb, "--json", *rest], root)


def _ran(words: list[str], root: Path) -> ToolResult:
    argv = [sys.executable, "-P", "-m", "flyball", *words]
    try:
        process = subprocess.run(
            argv, cwd=root, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=WITHIN_S
        )
    except subprocess.TimeoutExpired:
        return ToolResult(f"`flyball {words[0]}` did not end within {WITHIN_S} s.", failed=True)
    if process.returncode:
        return ToolResult(process.stderr.strip().removeprefix("flyball: ") or process.stdout, failed=True)
    return ToolResult(process.stdout.strip())
