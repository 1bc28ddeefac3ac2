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
_DANGEROUS = frozenset({"system"})
_ENDS = frozenset({";", "}", "\n", "{"})
_FILE_ENDS = frozenset({";", "}", "\n", ")", ""})

Hazard = tuple[str, str]


def hazards(program: str) -> list[Hazard]:
    """("run", …), ("write", path), ("read", path), ("unknown", …) and ("environment", …)."""
    marks = [*_marks(program), "", ""]
    rows: list[Hazard] = []
    printing, level, getting = False, 0, False
    for at, mark in enumerate(marks[:-2]):
        printing = mark in {"print", "printf"} or (printing and mark not in _ENDS)
        getting = mark == "getline" or (getting and mark not in _ENDS)
        level = _level(mark, level, printing)
        rows.extend(_hazard(mark, marks[at + 1 : at + 3], printing and level == 0, getting))
    return rows


def _level(mark: str, level: int, printing: bool) -> int:
    if mark in {"print", "printf"} or not printing:
        return 0
    return max(level + {"(": 1, ")": -1}.get(mark, 0), 0)


def _hazard(mark: str, after: list[str], printing: bool, getting: bool) -> list[Hazard]:
    if mark in _DANGEROUS or mark[0] == "@" or mark in {"|&", "|"}:
        return [("run", mark)]
    if mark in {"ENVIRON", "PROCINFO", "SYMTAB", "FUNCTAB"}:
        return [("environment", mark)]
    if mark == "<" and (getting or _is_text(after[0])):
        return [_file("read", after)]
    if mark in {">", ">>"} and printing:
        return [_file("write", after)]
    return _arguments(mark, after)


def _arguments(mark: str, after: list[str]) -> list[Hazard]:
    """`ARGV[1] = "x"` adds a file to read."""
    return [("unknown", mark)] if mark == "ARGV" and after[0] == "[" else []


def _file(use: str, after: list[str]) -> Hazard:
    """The file is known only if a single string names it."""
    plain = _is_text(after[0]) and "\\" not in after[0] and after[1] in _FILE_ENDS
    return (use, after[0][1:-1]) if plain else ("unknown", after[0])


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
