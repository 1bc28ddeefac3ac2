#!/usr/bin/env python3
"""Write the generated parts of the documentation, or with --check say which of them are out of date.

A generated part is between `<!-- NAME: … -->` and `<!-- end -->`.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import click

from flyball.cli import SECTIONS, cli
from flyball.config.schema import documentation
from flyball.domain.results import BROKEN, CODES, GUARDED, PLACED
from flyball.views.reasons import AFTER_FAILURE

ROOT = Path(__file__).resolve().parents[1]


def settings() -> str:
    rows = [f"| `{key}` | {_default(value)} | {doc} |" for key, value, doc in documentation()]
    return "\n".join(["| key | default | what it does |", "|---|---|---|", *rows])


def _default(value: str) -> str:
    return value if " " in value else f"`{value}`" if value else "–"


# What a person can do about a stop. Other failures: look, and retry. Other waits: answer.
TO_DO = {
    "completed": "`flyball diff RUN`, then `flyball land RUN`",
    "completed_unproven": "set `[proof] commands` (`flyball init` finds them); check `flyball diff RUN` yourself",
    "cancelled": "`flyball retry RUN` starts a new run from its files",
    "failed.start": "`flyball agents` says which agents are installed and logged in",
    "limit.turns": "`flyball retry RUN --set limits.turns=N` (or `limits.STATE`, which `flyball why` names)",
    "limit.budget_usd": "answer `raise`, or cancel",
    "limit.budget_tokens": "answer `raise`, or cancel",
    "wait.infrastructure": "fix what it names, then `flyball answer RUN go-on`",
    "wait.auth": "log in with the agent's own program, then `flyball answer RUN go-on`",
    "wait.billing": "add credit, then `flyball answer RUN go-on`",
    "wait.rate_limit": "nothing; it continues by itself after the reset",
    "wait.breakpoint": "`flyball resume RUN`",
    "wait.paused": "`flyball resume RUN`",
    "wait.take_over": "`flyball hand-back RUN`",
    "interrupted": "`flyball resume RUN`",
    "error.WHAT": "fix what it names, then `flyball answer RUN go-on`",
}
OTHERWISE = {
    "ended": "`flyball log RUN --output`, then `flyball retry RUN`",
    "waiting": "`flyball inbox`, then `flyball answer`",
    "blocked": "`flyball diff RUN`, then `flyball answer`",
}


def stops() -> str:
    families = {"blocked.guard.RULE": GUARDED, "blocked.table.OUTCOME": PLACED, "error.WHAT": BROKEN}
    rows: list[str] = []
    for name, code in {**CODES, **families}.items():
        limit, to_do = _limit(name), TO_DO.get(name, "")
        to_do = to_do or (f"`flyball retry RUN --set {limit}`" if limit else OTHERWISE[code.status])
        rows.append(f"| `{name}` | {code.status} | {code.exit} | {code.says} | {to_do} | {code.alo or '–'} |")
    head = ["| code | status | exit | meaning | what to do | ALO code |", "|---|---|---|---|---|---|"]
    return "\n".join([*head, *rows])


def _limit(name: str) -> str:
    """The setting that allows more, as in the command that `flyball why` proposes."""
    commands = [command for command, _ in AFTER_FAILURE.get(name, ()) if "--set" in command]
    values = {"id": "RUN", "rule": "STATE", "more": "N", "longer": "TIME"}
    return commands[0].format(**values).partition("--set ")[2] if commands else ""


def commands() -> str:
    parts: list[str] = []
    for title, names in SECTIONS.items():
        rows = [row for name in names for row in _command_rows(cli, name)]
        parts.append("\n".join([f"## {title}", "", "| command | what it does |", "|---|---|", *rows]))
    return "\n\n".join(parts)


def _command_rows(group: click.Group, *path: str) -> list[str]:
    command = group.get_command(click.Context(group), path[-1])
    if command is None:
        return []
    words = " ".join(("flyball", *path, *_arguments(command))).replace("|", "\\|")
    rows = [f"| `{words}` | {command.get_short_help_str(300)} |"]
    if isinstance(command, click.Group):
        for name in command.list_commands(click.Context(command)):
            rows += _command_rows(command, *path, name) if len(path) == 1 else []
    return rows


def _arguments(command: click.Command) -> list[str]:
    context = click.Context(command)
    arguments = [param for param in command.params if isinstance(param, click.Argument)]
    names = [param.make_metavar(context).replace("...", "").strip("[]{}") for param in arguments]
    return [name if param.required else f"[{name}]" for name, param in zip(names, arguments, strict=True)]


PARTS = {
    "commands": ("docs/commands.md", commands),
    "settings": ("docs/configuration.md", settings),
    "stops": ("docs/stops.md", stops),
}


def main() -> int:
    stale: list[str] = []
    for name, (file, text) in PARTS.items():
        path = ROOT / file
        before = path.read_text("utf-8")
        pattern = rf"(<!-- {name}: .*? -->\n).*?(<!-- end -->)"
        after = re.sub(
            pattern, lambda part, text=text: f"{part[1]}\n{text()}\n\n{part[2]}", before, flags=re.S
        )
        if after != before:
            stale.append(file)
            if "--check" not in sys.argv:
                path.write_text(after, "utf-8")
    if stale and "--check" in sys.argv:
        print(f"Out of date: {', '.join(stale)}. Run `make docs`.")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
