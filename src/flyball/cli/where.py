"""What several commands need: which repository is meant, facts as JSON, a table, JSON lines from standard input."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import click
import msgspec

from flyball.errors import UserError
from flyball.workspace.git import reading_user, text

EXAMPLE = "\b\nExample:\n  "


def root_of(place: Path) -> Path | None:
    """The top of the repository the place is in; None if it is in none."""
    if not place.is_dir():
        raise UserError(f"{place} is not a folder. Name a folder of a git repository.")
    told = reading_user(place, "rev-parse", "--show-toplevel", ok=range(256))
    return Path(text(told.out).rstrip("\n")).resolve() if told.code == 0 and told.out else None


def need_root(place: Path) -> Path:
    root = root_of(place)
    if root is None:
        raise UserError(
            f"{place.absolute()} is not in a git repository. Go to one, or name it with --repo DIR."
        )
    return root


def print_json(facts: Any) -> None:
    """Pretty for a person's eyes, one value for a program."""
    data = msgspec.json.encode(facts)
    click.echo(msgspec.json.format(data, indent=2) if sys.stdout.isatty() else data)


def print_table(rows: Sequence[Sequence[str]]) -> None:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        cells = (f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True))
        click.echo("  ".join(cells).rstrip())


def screen_width() -> int:
    """Of the terminal, within reason; in a pipe a hundred."""
    return min(max(shutil.get_terminal_size((100, 24)).columns, 60), 140) if sys.stdout.isatty() else 100


def json_lines(lines: Iterable[bytes]) -> Iterator[tuple[int, dict[str, Any] | str]]:
    """Line number and row of each line that is not empty; what cannot be read comes as a sentence."""
    for number, line in enumerate(lines, 1):
        if line.strip():
            yield number, _row(number, line)


def _row(number: int, line: bytes) -> dict[str, Any] | str:
    try:
        return msgspec.json.decode(line, type=dict[str, Any])
    except (msgspec.MsgspecError, ValueError, RecursionError) as broken:
        return f"Line {number} is not a JSON object ({broken})."
