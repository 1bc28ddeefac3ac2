"""A secret in a line of JSON is redacted inside its strings, so that the line stays valid JSON.

Law: if only the spans of `within_strings` are replaced, by letters, a line that was JSON stays JSON.
"""

import json
import re
from bisect import bisect_right
from collections.abc import Iterable
from itertools import pairwise
from typing import Any, NamedTuple

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
