"""How things look in words: times, spans, money, columns, and text from agents made harmless."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime

from flyball.reading.terminal import plain, whole

SECOND = 1_000_000
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def clean(text: str) -> str:
    """Text that cannot drive a terminal: escape sequences are gone, other controls are spelled out."""
    text = plain(whole(text)).replace("\r\n", "\n").replace("\r", "\n")
    return _CONTROLS.sub(lambda found: f"\\x{ord(found.group()):02x}", text)


def one_line(text: str, most: int = 160) -> str:
    words = " ".join(clean(text).split())
    return words if len(words) <= most else words[: most - 1].rstrip() + "…"


def typed(text: str) -> str:
    """What a person typed, whatever bytes it came as."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


# ---- time and counts -------------------------------------------------------------------------------------


def _local(at: int) -> datetime:
    return datetime.fromtimestamp(at / SECOND, UTC).astimezone()


def clock(at: int) -> str:
    return _local(at).strftime("%H:%M:%S")


def day_and_clock(at: int) -> str:
    return _local(at).strftime("%Y-%m-%d %H:%M:%S")


def iso(at: int) -> str:
    return datetime.fromtimestamp(at / SECOND, UTC).isoformat().replace("+00:00", "Z")


def many(count: int, thing: str) -> str:
    return f"{count} {thing}" if count == 1 else f"{count} {thing}s"


def some(names: Sequence[str], most: int = 5) -> str:
    """A few names, and how many more."""
    shown = ", ".join(one_line(name, 80) for name in names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown


# ---- columns ---------------------------------------------------------------------------------------------


def columns(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a table; the last column is as wide as it is."""
    widths = [max(len(row[n]) for row in (headers, *rows)) for n in range(len(headers))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in (headers, *rows)
    ]
