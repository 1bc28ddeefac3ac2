#!/usr/bin/env python3
"""Write the generated parts of the documentation, or with --check say which of them are out of date.

A generated part stands between `<!-- NAME: … -->` and `<!-- end -->`.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import click

from flyball.cli import SECTIONS, cli
from flyball.config.schema import documentation
from flyball.domain.results import BROKEN, CODES, GUARDED, NOT_EMITTED

ROOT = Path(__file__).resolve().parents[1]


def settings() -> str:
    rows = [f"| `{key}` | {f'`{value}`' if value else '–'} | {doc} |" for key, value, doc in documentation()]
    return "\n".join(["| key | default | what it does |", "|---|---|---|", *rows])


def stops() -> str:
    families = {"blocked.guard.RULE": GUARDED, "error.WHAT": BROKEN}
    rows: list[str] = []
    for name, code in {**CODES, **families}.items():
        meaning = f"{code.says} (not emitted yet)" if name in NOT_EMITTED else code.says
        rows.append(f"| `{name}` | {code.status} | {code.exit} | {meaning} | {code.alo or '–'} |")
    return "\n".join(["| code | status | exit | meaning | ALO code |", "|---|---|---|---|---|", *rows])


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
