"""Two texts of a Python module without what cannot matter to their difference; lines keep their numbers.

A function or class at the top of the module is left out of both texts if it is the same in both, uses nothing that
changed, by whatever way, and is used by nothing that is kept. Where the texts cannot be surely cut, both are whole.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from itertools import pairwise

import msgspec

_HEAD = re.compile(r"(?:async\s+def|def|class)\s+(\w+)")
_DECORATED = re.compile(r"^(?:async\s+def|def|class)\s+(\w+)", re.MULTILINE)
_WORD = re.compile(r"\w+")
_MARGIN = re.compile(r"^[^\s#)\]}]", re.MULTILINE)
SMALL = 1_500
"""Shorter texts are read whole: cutting would cost more than it saves."""


class Part(msgspec.Struct, frozen=True):
    """A piece of a module; `name` is '' where it is no function or class."""

    text: str
    name: str

    def words(self) -> frozenset[str]:
        return frozenset(_WORD.findall(self.text))


def reduced(old: str, new: str) -> tuple[str, str]:
    """Both texts, with blank lines for what is the same and does not matter."""
    if min(len(old), len(new)) < SMALL:
        return old, new
    parts, others = _parts(old), _parts(new)
    if parts is None or others is None:
        return old, new
    left_out = _left_out(parts, others)
    return _without(parts, left_out), _without(others, left_out)


def _parts(text: str) -> list[Part] | None:
    """The pieces of a module; None if a text in triple quotes could be cut in two."""
    starts = [0, *(match.start() for match in _MARGIN.finditer(text) if match.start())]
    runs_on = any(mark in text for mark in ('"""', "'''", "\\\n"))
    found: list[Part] = []
    for start, end in pairwise([*starts, len(text)]):
        piece = text[start:end]
        if found and found[-1].text.startswith("@") and not found[-1].name:
            piece = found.pop().text + piece
        if runs_on and (piece.count('"""') % 2 or piece.count("'''") % 2 or piece.endswith("\\\n")):
            return None
        match = _DECORATED.search(piece) if piece[:1] == "@" else _HEAD.match(piece)
        found.append(Part(piece, match[1] if match else ""))
    return found


def _left_out(old: list[Part], new: list[Part]) -> frozenset[str]:
    """Names of parts that are the same in both and touch nothing that is not."""
    seen = Counter(part.name for part in old), Counter(part.name for part in new)
    there = {part.name: part.text for part in new}
    same = {
        part.name: part
        for part in old
        if part.name and seen[0][part.name] == seen[1][part.name] == 1 and there[part.name] == part.text
    }
    kept = [part for part in (*old, *new) if part.name not in same]
    common = {part.text for part in old} & {part.text for part in new}
    _affected(same, _defined(part for part in kept if part.text not in common))
    words = {word for part in (*kept, *(p for p in old if p.name not in same)) for word in part.words()}
    while used := words & same.keys():
        words = {word for name in used for word in same.pop(name).words()}
    return frozenset(same)


def _affected(same: dict[str, Part], touched: set[str]) -> None:
    """Takes out what uses something touched; what is taken out is touched in turn."""
    while touched:
        text = "\n".join(part.text for part in same.values())
        near = [re.escape(word) for word in sorted(touched) if word in text]
        if not near:
            return
        pattern = re.compile(rf"\b(?:{'|'.join(near)})\b")
        touched = {name for name, part in same.items() if pattern.search(part.text)}
        for name in touched:
            del same[name]


def _defined(parts: Iterable[Part]) -> set[str]:
    """The names that parts give to the rest of the module; all their words where they are no function or class."""
    return {word for part in parts for word in ((part.name,) if part.name else part.words())}


def _without(parts: list[Part], left_out: frozenset[str]) -> str:
    return "".join("\n" * part.text.count("\n") if part.name in left_out else part.text for part in parts)
