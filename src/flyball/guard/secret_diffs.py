"""A diff without the secrets in it.

What the guard refuses as a secret is not shown either, wherever a person sees the change.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence

from msgspec import Struct

from flyball.guard.secrets import COST_MOST, find_in_lines, find_secrets, redact


class ShownDiff(Struct, frozen=True):
    text: str
    redacted: int = 0  # lines in which something was replaced


_FILE = "diff --git "
_HUNK = re.compile(r"(@@ -\d+(?:,\d+)? \+\d+(?:,\d+)? @@ ?)(.*)", re.DOTALL)
_NEW_NAME, _OLD_NAME = "+++ b/", "--- a/"
WHOLE_LINE = 1 << 40
_MILLION, _COST_LEAST = 1_000_000, 2_000

Span = tuple[int, int, str]  # of a line: from, to, the rule that found a secret there


def redact_diff(text: str) -> ShownDiff:
    """The diff with every secret replaced by its rule. A line keeps its `+`, `-` or space, and no line is lost."""
    parts = [_redacted(lines, _cost(lines, len(text))) for lines in _files(text.split("\n"))]
    return ShownDiff("\n".join(part.text for part in parts), sum(part.redacted for part in parts))


def _files(lines: Sequence[str]) -> Iterable[list[str]]:
    start = 0
    for number, line in enumerate(lines):
        if line.startswith(_FILE) and number:
            yield list(lines[start:number])
            start = number
    yield list(lines[start:])


def _cost(lines: Sequence[str], whole: int) -> int:
    """The share of one file in what a whole diff may cost (see `COST_MOST`)."""
    share = COST_MOST * min(sum(map(len, lines)), _MILLION) // max(min(whole, _MILLION), 1)
    return max(share, _COST_LEAST)


def _redacted(lines: list[str], most: int) -> ShownDiff:
    """One file of a diff. Its old and its new text are searched as a whole, because a secret may take many lines."""
    first = next((number for number, line in enumerate(lines) if _HUNK.match(line)), len(lines))
    path = _path(lines[:first])
    head = redact("\n".join(lines[:first]))
    body = [_split(line) for line in lines[first:]]
    spans: dict[int, set[Span]] = defaultdict(set)
    for other in "+-":
        side = [(number, line) for number, (mark, line) in enumerate(body) if mark != other]
        for number, span in _spans(path, side, most):
            spans[number].add(span)
    clean_lines = [mark + _without(line, spans.get(number, ())) for number, (mark, line) in enumerate(body)]
    text = "\n".join(([head] if first else []) + clean_lines)
    return ShownDiff(text, head.count("[redacted ") + len(spans))


def _path(head: Sequence[str]) -> str:
    names = [line[len(_NEW_NAME) :] for line in head if line.startswith((_NEW_NAME, _OLD_NAME))]
    return names[-1].rstrip("\t") if names else ""


def _split(line: str) -> tuple[str, str]:
    """What git put before a line, and the line. A hunk's head ends in a line of the file."""
    hunk = _HUNK.match(line)
    return (hunk[1], hunk[2]) if hunk else (line[:1], line[1:])


def _spans(path: str, lines: Sequence[tuple[int, str]], most: int) -> Iterable[tuple[int, Span]]:
    """Every secret, by line. A line that the guard refuses is left out as a whole if no part of it stands out."""
    at, covered = 0, set[int]()
    secrets = iter(find_secrets("\n".join(line for _, line in lines), path, most=most))
    secret = next(secrets, None)
    for number, line in lines:
        while secret and secret.start <= at + len(line):
            first, last = max(secret.start - at, 0), min(secret.end - at, len(line))
            if first < last:
                covered.add(number)
                yield number, (first, last, secret.rule)
            if secret.end > at + len(line):
                break
            secret = next(secrets, None)
        at += len(line) + 1
    for number, rule in find_in_lines(path, lines):
        if number not in covered:
            yield number, (0, WHOLE_LINE, rule)


def _without(line: str, spans: Iterable[Span]) -> str:
    out, at = list[str](), 0
    for first, last, rule in sorted(spans):
        if first >= at:
            out += (line[at:first], f"[redacted {rule}]")
        at = max(at, last)
    return "".join((*out, line[at:]))
