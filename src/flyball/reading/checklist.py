"""Markdown check-lists: `- [ ] what has to be done`."""

from __future__ import annotations

import re
from collections.abc import Iterator

ITEM = re.compile(
    r"(?P<before>\s*(?:[-*+]|\d+[.)]) \[)(?P<tick>[ xX])(?P<after>\]\s+(?P<text>\S[^\r\n]*)\s*)"
)


NEARLY = re.compile(r"\s*(?:[-*+]|\d+[.)])\s*\[\s*[^\s\d\]]?\s*\](?!\().*")  # a digit is a reference


def unreadable(text: str) -> int:
    """The number of the first line that looks like an item of a check-list but is not one; 0: there is none."""
    lines = enumerate(text.splitlines(), 1)
    return next((n for n, line in lines if NEARLY.fullmatch(line) and not ITEM.fullmatch(line)), 0)


def items(text: str) -> Iterator[tuple[str, bool]]:
    """The text of each item, and whether it is ticked."""
    for line in text.splitlines():
        if match := ITEM.fullmatch(line):
            yield match["text"].strip(), match["tick"] != " "


def tick(text: str, item: str) -> str:
    """The list with the first open item of this text ticked; unchanged if there is none."""
    lines = text.splitlines(keepends=True)
    for number, line in enumerate(lines):
        match = ITEM.fullmatch(line)
        if match and match["tick"] == " " and match["text"].strip() == item:
            lines[number] = f"{match['before']}x{match['after']}"
            return "".join(lines)
    return text
