"""Colours of a change on the terminal."""

from __future__ import annotations

import click

COLOURS = (
    ("diff --git", "", True),
    ("+++", "", True),
    ("---", "", True),
    ("@@", "cyan", False),
    ("+", "green", False),
    ("-", "red", False),
)


def coloured(line: str) -> str:
    for start, colour, bold in COLOURS:
        if line.startswith(start):
            return click.style(line, fg=colour or None, bold=bold or None)
    return line
