"""What a sed script does besides editing: run commands, read and write other files."""

from __future__ import annotations

import re

_ADDRESS = re.compile(r"[0-9]+(?:~[0-9]+)?|\$|~[0-9]+|\+[0-9]+")
_PLAIN = re.compile(r"[dDgGhHnNpPxzF=l]")
_LABEL = re.compile(r"[:btTvqQLl]\s*[^;}\n]*")
_TEXT = re.compile(r"[aic](?:[^\n\\]|\\.|\\\n)*", re.DOTALL)
_FILE = re.compile(r"[^\n]*")

Hazard = tuple[str, str]  # ("run", ""), ("read", path) or ("write", path)


def hazards(script: str) -> list[Hazard] | None:
    """Everything it reads, writes and runs, or None if the script cannot be parsed."""
    rows: list[Hazard] = []
    at = 0
    for _ in range(len(script) + 1):
        at = _blank(script, at)
        if at >= len(script):
            return rows
        step = _command(script, at, rows)
        if step is None or step <= at:
            return None
        at = step
    return None


def _blank(script: str, at: int) -> int:
    match = re.compile(r"(?:[\s;{}]|#[^\n]*)*").match(script, at)
    return match.end() if match else at


def _command(script: str, at: int, rows: list[Hazard]) -> int | None:
    start = _addresses(script, at)
    if start is None or start >= len(script):
        return None
    at, letter = start, script[start]
    if letter in "{}":
        return at + 1
    if letter == "s":
        return _substitute(script, at, rows)
    if letter == "y":
        return _delimited(script, at + 1, 2)
    if letter in "rRwW":
        return _file(script, at, rows, "read" if letter in "rR" else "write")
    if letter == "e":
        rows.append(("run", ""))
        return len(script)
    for pattern in (_PLAIN, _LABEL, _TEXT):
        match = pattern.match(script, at)
        if match:
            return match.end()
    return None


def _addresses(script: str, at: int) -> int | None:
    for _ in range(2):
        end = _address(script, at)
        if end is None:
            return None
        at = end
        comma = re.compile(r"\s*,\s*").match(script, at)
        if not comma:
            break
        at = comma.end()
    match = re.compile(r"[\s!]*").match(script, at)
    return match.end() if match else at


def _address(script: str, at: int) -> int | None:
    match = _ADDRESS.match(script, at)
    if match:
        return match.end()
    if script.startswith("/", at):
        return _flags(script, _delimited(script, at, 1))
    if script.startswith("\\", at):
        return _flags(script, _delimited(script, at + 1, 1))
    return at


def _flags(script: str, at: int | None) -> int | None:
    while at is not None and script[at : at + 1] in ("I", "M"):
        at += 1
    return at


def _delimited(script: str, at: int, count: int) -> int | None:
    """The end of `count` parts after the delimiter at `at`."""
    if at >= len(script) or script[at] in "\\\n":
        return None
    mark, at = script[at], at + 1
    inside = False
    while at < len(script) and count:
        char = script[at]
        if char == "\\":
            at += 1
        elif char == "[" and not inside:
            inside = "]" in script[at + 2 :]
        elif char == "]" and inside:
            inside = False
        elif char == mark and inside:
            return None  # seds differ on a delimiter inside brackets
        elif char == mark:
            count -= 1
        at += 1
    return None if count else at


def _substitute(script: str, at: int, rows: list[Hazard]) -> int | None:
    end = _delimited(script, at + 1, 2)
    if end is None:
        return None
    match = re.compile(r"[gpiImM0-9]*").match(script, end)
    end = match.end() if match else end
    if script[end : end + 1] == "e":
        rows.append(("run", ""))
        return len(script)
    if script[end : end + 1] == "w":
        return _file(script, end, rows, "write")
    return end if script[end : end + 1] in ("", ";", "\n", " ", "}", "\t", "#") else None


def _file(script: str, at: int, rows: list[Hazard], kind: str) -> int:
    match = _FILE.match(script, at + 1)
    name = match.group().strip() if match else ""
    rows.append((kind, name or "-"))
    return match.end() if match else len(script)
