"""What an awk program does besides filtering: run commands, use other files, read the environment."""

from __future__ import annotations

import re

_MARK = re.compile(
    r'"(?:[^"\\]|\\.)*"|#[^\n]*|/(?:[^/\\\n\[]|\\.|\[(?:[^\]\\]|\\.)*\])+/|[A-Za-z_@]\w*|\|&|\|\||&&|>>|>=|<=|[0-9.]+|\s+|.',
    re.DOTALL,
)
_REGEX_MAY_FOLLOW = frozenset(
    {"(", ",", "!", "~", "&&", "||", "{", ";", "\n", "}", "", "|", "?", ":", "=", "print"}
)
_DANGEROUS = frozenset({"system", "@load", "@include", "@eval"})

Hazard = tuple[str, str]


def hazards(program: str) -> list[Hazard]:
    """("run", …), ("write", path), ("read", path), ("unknown", …) and ("environment", …)."""
    marks = _marks(program)
    found: list[Hazard] = []
    printing, level = False, 0
    for at, mark in enumerate(marks):
        printing = mark in {"print", "printf"} or (printing and mark not in {";", "}", "\n"})
        level = _level(mark, level, printing, marks, at)
        follower = marks[at + 1] if at + 1 < len(marks) else ""
        found.extend(_hazard(mark, follower, printing and level == 0))
    return found


def _level(mark: str, level: int, printing: bool, marks: list[str], at: int) -> int:
    if mark in {"print", "printf"} or not printing:
        return 0
    return max(level + {"(": 1, ")": -1}.get(mark, 0), 0)


def _hazard(mark: str, follower: str, printing: bool) -> list[Hazard]:
    if mark in _DANGEROUS or mark == "|&" or mark == "|":
        return [("run", mark)]
    if mark == "ENVIRON":
        return [("environment", mark)]
    if mark == "<" and _is_text(follower):
        return [("read", follower[1:-1])]
    if mark in {">", ">>"} and printing:
        return [_written(follower)]
    if mark == "getline" and follower == "<":
        return []
    return []


def _written(follower: str) -> Hazard:
    return ("write", follower[1:-1]) if _is_text(follower) else ("unknown", follower)


def _is_text(mark: str) -> bool:
    return len(mark) > 1 and mark[0] == mark[-1] == '"'


def _marks(program: str) -> list[str]:
    """Words and marks without blanks, comments and regular expressions."""
    marks: list[str] = []
    at = 0
    while at < len(program):
        match = _MARK.match(program, at)
        mark = match.group() if match else program[at]
        before = marks[-1] if marks else ""
        if len(mark) > 1 and mark[0] == "/" and before not in _REGEX_MAY_FOLLOW:
            mark = "/"  # a division, not a regular expression
        at += len(mark)
        if mark[0] == "#" or (len(mark) > 1 and mark[0] == "/"):
            continue
        if not mark.isspace():
            marks.append(mark)
        elif "\n" in mark:
            marks.append("\n")
    return marks
