"""Durations as people write them (`90s`, `1h30m`, `2d`) and money: one parser and one printer for the whole program.

A duration is a whole number of microseconds. Any order of units is read, since a journal may hold a table that was
written so; the printed form has the largest unit first. Money is a whole number of micro-dollars.
"""

from __future__ import annotations

import re

SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR
MAX_US = 366 * DAY
UNITS = {"d": DAY, "h": HOUR, "m": MINUTE, "s": SECOND}
_PART = re.compile(r"([0-9]{1,9})([dhms])")
_WHOLE = re.compile(rf"(?:{_PART.pattern})+")


def parse_duration(text: str) -> int | None:
    """Microseconds; None if the text is not a duration of at most 366 days."""
    if not _WHOLE.fullmatch(text):
        return None
    length = sum(int(count) * UNITS[unit] for count, unit in _PART.findall(text))
    return length if length <= MAX_US else None


def show_duration(us: int) -> str:
    """Exact to the second: `1d2h3m4s`. `parse_duration` reads it back."""
    parts: list[str] = []
    for unit, size in UNITS.items():
        count, us = divmod(us, size)
        parts += [f"{count}{unit}"] if count else []
    return "".join(parts) or "0s"


def elapsed(us: int) -> str:
    """How long something took: `0.4s`, `42s`, `3m10s`, `2d4h`."""
    return f"{max(us, 0) // 100_000 / 10:.1f}s" if us < 10 * SECOND else rough(us)


def rough(us: int) -> str:
    """Whole seconds, in at most two units: for ages and countdowns."""
    us = max(us, 0)
    smallest = next((size // step for size, step in ((DAY, 24), (HOUR, 60)) if us >= size), SECOND)
    return show_duration(us - us % smallest)


def dollars(uusd: int) -> str:
    """`$0.021`: at least two decimals, and all that matter."""
    whole, rest = divmod(abs(uusd), 1_000_000)
    cents = f"{rest:06d}".rstrip("0").ljust(2, "0")
    return f"{'-' if uusd < 0 else ''}${whole}.{cents}"
