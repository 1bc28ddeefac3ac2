"""Text with parts left out, and where its places are in the whole text.

A secret may be cut by colour codes, by characters that nobody sees, by escapes or by joined strings.
"""

import json
import re
from bisect import bisect_right
from collections.abc import Iterable
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

INVISIBLE = re.compile(
    "\x1b\\[[0-?]*[ -/]*[@-~]|\x1b\\][^\x07\x1b\n]{0,2000}(?:\x07|\x1b\\\\)"
    "|[\x00\u00ad\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff]"
)
"""Colours and titles of a terminal, NULs (UTF-16 read as bytes), and characters without width."""


class Pieces:
    """What is left of a text between its seams."""

    def __init__(self, text: str, seams: list[tuple[int, int]]) -> None:
        self.kept = [(a, b) for (_, a), (b, _) in pairwise([(0, 0), *seams, (len(text), 0)]) if a < b]
        self.begins = [0, *accumulate(end - start for start, end in self.kept)][:-1]
        self.text = "".join(text[start:end] for start, end in self.kept)

    def at(self, place: int) -> int:
        """Which piece a place of the shortened text is in."""
        return bisect_right(self.begins, place) - 1

    def span(self, start: int, end: int) -> tuple[int, int]:
        """The same part in the whole text."""
        first, last = self.at(start), self.at(end - 1)
        return self.kept[first][0] + start - self.begins[first], self.kept[last][0] + end - self.begins[last]


def visible(text: str) -> Pieces | None:
    """The text without what cannot be seen; None where all of it can."""
    seams = [match.span() for match in INVISIBLE.finditer(text)]
    return Pieces(text, seams) if seams else None


# --- lines of JSON: if only spans inside their strings are replaced, by letters, they stay JSON

Span = tuple[int, int]

_STRING = re.compile(r"\"((?:[^\"\\]|\\.)*+)\"")
_ESCAPE = re.compile(r"\\(?:u[0-9A-Fa-f]{4}|.)")


class _Line(NamedTuple):
    """A line of a text: from where to where, and in it the strings and the escapes, if it is JSON."""

    start: int
    end: int
    strings: list[Span] | None = None
    escapes: list[Span] | None = None


def within_strings(text: str, spans: Iterable[Span]) -> list[list[Span]]:
    """For each span, in order, the parts of it that can be replaced."""
    line = _Line(0, -1)
    parts: list[list[Span]] = []
    for start, end in spans:
        parts.append([])
        at = start
        while at < end:
            line = line if at <= line.end else _line_at(text, at)
            parts[-1] += _parts(line, at, min(end, line.end + 1))
            at = line.end + 1
        if _joined(parts[-1]):
            parts[-1] = [(parts[-1][0][0], parts[-1][-1][1])]
    return parts


def _joined(parts: list[Span]) -> bool:
    """Is there nothing between the parts? Then none of their lines was JSON, and they are one."""
    return len(parts) > 1 and all(a[1] == b[0] for a, b in pairwise(parts))


def _line_at(text: str, at: int) -> _Line:
    start, end = text.rfind("\n", 0, at) + 1, text.find("\n", at)
    end = len(text) if end < 0 else end
    line = text[start:end]
    if not _is_json(line):
        return _Line(start, end)
    strings = [(start + m.start(1), start + m.end(1)) for m in _STRING.finditer(line)]
    return _Line(start, end, strings, [(start + m.start(), start + m.end()) for m in _ESCAPE.finditer(line)])


def _is_json(line: str) -> bool:
    if line.lstrip()[:1] not in ("{", "[", '"'):
        return False
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def _parts(line: _Line, start: int, end: int) -> Iterable[Span]:
    if line.strings is None or line.escapes is None:
        yield start, end
        return
    first = max(0, bisect_right(line.strings, start, key=_start_of) - 1)
    for at in range(first, bisect_right(line.strings, end - 1, key=_start_of)):
        begin, close = max(start, line.strings[at][0]), min(end, line.strings[at][1])
        if begin < close:
            yield _around(line.escapes, begin)[0], _around(line.escapes, close - 1)[1]


def _start_of(span: Span) -> Any:
    return span[0]


def _around(escapes: list[Span], at: int) -> Span:
    """The escape in which this place is, or the place alone."""
    before = bisect_right(escapes, at, key=_start_of) - 1
    return escapes[before] if before >= 0 and escapes[before][1] > at else (at, at + 1)
