"""A tool call that is asked about: from the CLI's shell to the verdict, beside Python that does nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from bench.figure import Beside, Figure
from bench.timing import in_turns, usual
from flyball.acts.run_files import shipped_policies
from flyball.agents.hooks import action_log, cli_settings, turn_brief
from flyball.agents.hooks.server import HookServer
from flyball.agents.hooks.turn_brief import Brief

GOAL = 60.0


def figures(folder: Path, quick: bool) -> list[Figure]:
    rounds = 5 if quick else 25
    watched, alone = _line(folder / "watched"), _line(folder / "alone")
    deeds = {
        "python": lambda: _run([sys.executable, "-c", "pass"], b""),
        "watched": lambda: _run(["/bin/sh", "-c", watched], _payload(folder / "watched")),
        "alone": lambda: _run(["/bin/sh", "-c", alone], _payload(folder / "alone")),
    }
    place = folder / "watched"
    with HookServer(place / "hook", action_log.Record(place), place):
        in_turns(deeds, 2)
        ms = {name: usual(taken) * 1e3 for name, taken in in_turns(deeds, rounds).items()}
    beside = (Beside("python -c pass", ms["python"]),)
    return [
        Figure(
            name="hook: a tool call asked about", value=ms["watched"], unit="ms", goal=GOAL, beside=beside
        ),
        Figure(
            name="hook: the same, with no driver to answer",
            value=ms["alone"],
            unit="ms",
            beside=beside,
            note="the guard's own code is loaded for this one call",
        ),
    ]


def _line(place: Path) -> str:
    hook = place / "hook"
    hook.mkdir(parents=True)
    brief = Brief(
        workspace=str(place),
        home="/home/ann",
        policy=shipped_policies().get(),
        late=str(place / "late"),
        imports=turn_brief.imports(),
    )
    sha256 = turn_brief.write(hook, brief)
    server = cli_settings.server_line(hook, "token", confined=True)
    cli_settings.write(hook, hook / turn_brief.NAME, sha256, server)
    return cli_settings.command_line("claude", "pre", hook / "program.py", hook / turn_brief.NAME, sha256)


def _payload(place: Path) -> bytes:
    asked = {"tool_name": "Bash", "tool_input": {"command": "git diff HEAD~1 -- src | head -100"}}
    return json.dumps({"hook_event_name": "PreToolUse", "cwd": str(place), **asked}).encode()


def _run(argv: list[str], data: bytes) -> None:
    subprocess.run(argv, input=data, check=True, capture_output=True)
