"""Path patterns, as people know them from ignore files.

`name` is that file at any depth; `name/` that folder and all in it; a pattern with a slash inside counts from
the root of the workspace; `**/` is any depth; `*` and `?` stay within a name; `{a,b}` is either.
"""

import re
from collections.abc import Iterable
from functools import lru_cache


def matches(patterns: tuple[str, ...], path: str) -> bool:
    return bool(patterns) and either(patterns).fullmatch(path) is not None


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
    anchored = "/" in pattern.rstrip("/")
    body = pattern.removeprefix("/")
    folder = body.endswith(("/", "/**"))
    body = body.removesuffix("**").rstrip("/") if folder else body
    start = "" if anchored else "(?:.*/)?"
    return start + _regex(body) + ("(?:/.*)?" if folder else "")


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
    literal = re.split(r"[*?{]", pattern.removeprefix("/"), maxsplit=1)[0]
    return literal if literal.endswith("/") else literal + "/"
