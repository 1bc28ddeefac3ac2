"""What an awk program does besides filtering: run commands, use other files, read the environment."""

from __future__ import annotations

import re

_TOKEN = re.compile(
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
    tokens = _tokens(program)
    found: list[Hazard] = []
    printing, level = False, 0
    for at, token in enumerate(tokens):
        printing = token in {"print", "printf"} or (printing and token not in {";", "}", "\n"})
        level = _level(token, level, printing, tokens, at)
        follower = tokens[at + 1] if at + 1 < len(tokens) else ""
        found.extend(_hazard(token, follower, printing and level == 0))
    return found


def _level(token: str, level: int, printing: bool, tokens: list[str], at: int) -> int:
    if token in {"print", "printf"} or not printing:
        return 0
    return max(level + {"(": 1, ")": -1}.get(token, 0), 0)


def _hazard(token: str, follower: str, printing: bool) -> list[Hazard]:
    if token in _DANGEROUS or token == "|&" or token == "|":
        return [("run", token)]
    if token == "ENVIRON":
        return [("environment", token)]
    if token == "<" and _is_text(follower):
        return [("read", follower[1:-1])]
    if token in {">", ">>"} and printing:
        return [_written(follower)]
    if token == "getline" and follower == "<":
        return []
    return []


def _written(follower: str) -> Hazard:
    return ("write", follower[1:-1]) if _is_text(follower) else ("unknown", follower)


def _is_text(token: str) -> bool:
    return len(token) > 1 and token[0] == token[-1] == '"'


def _tokens(program: str) -> list[str]:
    """Words and marks without blanks, comments and regular expressions."""
    tokens: list[str] = []
    at = 0
    while at < len(program):
        match = _TOKEN.match(program, at)
        token = match.group() if match else program[at]
        before = tokens[-1] if tokens else ""
        if len(token) > 1 and token[0] == "/" and before not in _REGEX_MAY_FOLLOW:
            token = "/"  # a division, not a regular expression
        at += len(token)
        if token[0] == "#" or (len(token) > 1 and token[0] == "/"):
            continue
        if not token.isspace():
            tokens.append(token)
        elif "\n" in token:
            tokens.append("\n")
    return tokens
