"""`flyball doctor`: check this machine, the state directory and this repository."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from flyball.cli import JSON, examples, open_app, paint, print_json, repository_of, terminal_width
from flyball.system.health import Line, examine
from flyball.views.text import clean, fields

MARGIN = 6
TONES = {"ok": "good", "warn": "warn", "bad": "bad"}


@click.command(epilog=examples("flyball doctor", "flyball doctor --json"))
@JSON
def doctor(as_json: bool) -> int:
    """Check what Flyball needs and say what to do.

    Looks at git, sandbox, agents and logins, disk space, the state directory, leftovers of killed processes, and the
    settings and branches of the repository you are in. Nothing is changed.

    Exit codes: 0 usable (there may be warnings), 1 something is wrong.
    """
    with open_app() as app:
        lines = examine(app, repository_of(Path.cwd()))
    if as_json:
        print_json([msgspec.to_builtins(line) for line in lines])
    else:
        for line in lines:
            click.echo(_as_text(line))
    return 1 if any(line.level == "bad" for line in lines) else 0


def _as_text(line: Line) -> str:
    """The finding; below it what to do."""
    rows = [(line.topic, clean(line.text)), *([("", f"→ {clean(line.cure)}")] if line.cure else [])]
    first, *more = fields(rows, max(terminal_width() - MARGIN, 0), indent="")
    return "\n".join(
        (f"{paint(TONES[line.level], f'{line.level:<4}')}  {first}", *(" " * MARGIN + part for part in more))
    )
