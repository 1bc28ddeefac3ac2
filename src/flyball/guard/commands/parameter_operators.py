"""`${x%y}`, `${x#y}`, `${x/y/z}`, `${x:1:2}`, `${x^^}` of a known value and a plain word."""

import re
from collections.abc import Callable

from flyball.guard.commands.args import VALUE_MOST

_PLAIN = re.compile(r"[\w./ :@=,+-]*")
_SPAN = re.compile(r" *(\d{1,6})(?::(\d{1,6}))? *")
_CASES: dict[str, Callable[[str], str]] = {
    "^^": str.upper,
    ",,": str.lower,
    "^": lambda text: text[:1].upper() + text[1:],
    ",": lambda text: text[:1].lower() + text[1:],
}


def transform(operator: str, value: str, word: str) -> str | None:
    """The new text, or None if a pattern or a letter outside ASCII makes it uncertain."""
    if not value.isascii() or not _PLAIN.fullmatch(word):
        return None
    if operator in _CASES:
        return None if word else _CASES[operator](value)
    if operator in {"%", "%%"}:
        return value.removesuffix(word)
    if operator in {"#", "##"}:
        return value.removeprefix(word)
    if operator in {"/", "//"}:
        return _replaced(value, word, everywhere=operator == "//")
    return _cut(value, word) if operator == ":" else None


def _replaced(value: str, word: str, everywhere: bool) -> str | None:
    old, _, new = word.partition("/")
    if not old or value.count(old) * len(new) > VALUE_MOST:
        return None
    return value.replace(old, new, -1 if everywhere else 1)


def _cut(value: str, word: str) -> str | None:
    span = _SPAN.fullmatch(word)
    if not span:
        return None
    start = int(span[1])
    return value[start : start + int(span[2])] if span[2] else value[start:]
