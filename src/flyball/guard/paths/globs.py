"""Path patterns, as in ignore files.

`name` is that file at any depth; `name/` that folder and all in it; a pattern with a slash inside counts from
the root of the workspace; `**/` is any depth; `*` and `?` stay within a name; `{a,b}` is either.

Most patterns are plain names, which are looked up: compiling hundreds into one regular expression is slow.
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from itertools import product

import msgspec


class PatternIndex(msgspec.Struct, frozen=True):
    """Patterns by the way they match."""

    names: frozenset[str]  # the last part of a path
    folders: frozenset[str]  # any part of a path
    paths: frozenset[str]  # a whole path
    below: tuple[str, ...]  # how a path begins
    rest: re.Pattern[str] | None


def matches(patterns: tuple[str, ...], path: str) -> bool:
    known, parts = _index(patterns), path.split("/")
    return (
        parts[-1] in known.names
        or path in known.paths
        or not known.folders.isdisjoint(parts)
        or path.startswith(known.below)
        or (known.rest is not None and known.rest.fullmatch(path) is not None)
    )


@lru_cache(maxsize=512)
def _index(patterns: tuple[str, ...]) -> PatternIndex:
    plain = {pattern: _plain(pattern) for pattern in patterns}
    rest = tuple(pattern for pattern in patterns if not plain[pattern])

    def those(anchored: bool, folder: bool) -> frozenset[str]:
        wanted = (p for p in patterns if _is_anchored(p) == anchored and _is_folder(p) == folder)
        return frozenset(body for pattern in wanted for body in plain[pattern])

    roots = those(anchored=True, folder=True)
    return PatternIndex(
        names=those(anchored=False, folder=False),
        folders=those(anchored=False, folder=True),
        paths=those(anchored=True, folder=False) | roots,
        below=tuple(f"{root}/" for root in sorted(roots)),
        rest=either(rest) if rest else None,
    )


def _plain(pattern: str) -> tuple[str, ...]:
    """What the pattern says, if that is a few names; nothing if it has a wildcard or its braces are not simple."""
    body = _body(pattern)
    if not _SIMPLE.fullmatch(body):
        return ()
    pieces = (piece.split(",") if at % 2 else (piece,) for at, piece in enumerate(re.split(r"[{}]", body)))
    return tuple("".join(choice) for choice in product(*pieces))


_SIMPLE = re.compile(r"[^*?{}]*(?:\{[^*?{}]*\}[^*?{}]*){0,2}")


def leads_into(patterns: Iterable[str], path: str) -> bool:
    """Is `path` a folder on the way to what a pattern counted from the root would match?"""
    parts = path.split("/")
    tails = ["/".join(parts[at:]) + "/" for at in range(len(parts))]
    return any(
        any(_prefix(pattern.removeprefix("**/")).startswith(tail) for tail in tails)
        if pattern.startswith("**/")
        else _prefix(pattern).startswith(tails[0])
        for pattern in patterns
    )


@lru_cache(maxsize=512)
def either(patterns: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{_whole(pattern)})" for pattern in patterns), re.DOTALL)


@lru_cache(maxsize=512)
def folded(patterns: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(pattern.casefold() for pattern in patterns)


def _whole(pattern: str) -> str:
    start = "" if _is_anchored(pattern) else "(?:.*/)?"
    return start + _regex(_body(pattern)) + ("(?:/.*)?" if _is_folder(pattern) else "")


def _is_anchored(pattern: str) -> bool:
    return "/" in pattern.rstrip("/")


def _is_folder(pattern: str) -> bool:
    return pattern.removeprefix("/").endswith(("/", "/**"))


def _body(pattern: str) -> str:
    body = pattern.removeprefix("/")
    return body.removesuffix("**").rstrip("/") if _is_folder(pattern) else body


def _regex(body: str) -> str:
    out: list[str] = []
    depth = at = 0
    while at < len(body):
        piece, used = _piece(body, at, depth)
        depth += {"{": 1, "}": -1}.get(body[at], 0) if used == 1 else 0
        out.append(piece)
        at += used
    return "".join(out)


def _piece(body: str, at: int, depth: int) -> tuple[str, int]:
    if body.startswith("**/", at):
        return "(?:.*/)?", 3
    if body.startswith("**", at):
        return ".*", 2
    char = body[at]
    plain = {"*": "[^/]*", "?": "[^/]", "{": "(?:", "}": ")" if depth else "\\}"}
    if char == "," and depth:
        return "|", 1
    return plain.get(char, re.escape(char)), 1


def _prefix(pattern: str) -> str:
    """The literal folders that a pattern counted from the root begins with."""
    if "/" not in pattern.rstrip("/"):
        return ""
    literal = re.split(r"[*?{]", pattern.removeprefix("/"))[0]
    return literal if literal.endswith("/") else literal + "/"
