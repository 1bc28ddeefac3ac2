"""Cron lines: five fields in UTC, and what is to be done then. Numbers, `*`, lists, ranges and steps."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache

from msgspec import Struct

from flyball.config.values import BadValue

FIELDS = (
    ("minute", 0, 59),
    ("hour", 0, 23),
    ("day of the month", 1, 31),
    ("month", 1, 12),
    ("weekday", 0, 7),
)
SHORTHAND = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@nightly": "0 3 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
}
DAYS_MOST = 4 * 366 + 1  # in so many days every date that exists has come


class Line(Struct, frozen=True):
    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]  # 0 is Sunday
    either: bool  # both days are limited: one of them is enough, as cron has it
    text: str


@lru_cache(maxsize=256)
def parse(line_text: str) -> Line:
    """The line, or Wrong with what it should have been."""
    words = line_text.split()
    if words and words[0] in SHORTHAND:
        words = [*SHORTHAND[words[0]].split(), *words[1:]]
    if len(words) < 6:
        raise BadValue("five cron fields and a task, such as '0 3 * * 1 Update the dependencies'")
    sets = [_field(word, *about) for word, about in zip(words[:5], FIELDS, strict=True)]
    weekdays = frozenset(day % 7 for day in sets[4])
    either = words[2] != "*" and words[4] != "*"
    line = Line(sets[0], sets[1], sets[2], sets[3], weekdays, either, " ".join(words[5:]))
    if following(line, 0) is None:
        raise BadValue(f"a cron line that matches some date ('{' '.join(words[:5])}' never does)")
    return line


def _field(word: str, name: str, least: int, most: int) -> frozenset[int]:
    numbers: set[int] = set()
    for part in word.split(","):
        span, _, step = part.partition("/")
        first, dash, last = span.partition("-")
        try:
            low, high = (least, most) if span == "*" else (int(first), int(last) if dash else int(first))
            high = most if step and not dash and span != "*" else high
            every = int(step) if step else 1
        except ValueError:
            raise BadValue(f"a cron line ('{part}' is not a {name})") from None
        if not least <= low <= high <= most or every < 1:
            raise BadValue(f"a cron line whose {name} is from {least} to {most}, not '{part}'")
        numbers |= set(range(low, high + 1, every))
    return frozenset(numbers)


def line(text: str) -> str:
    """The line as it was written, if it is one."""
    parse(text)
    return text


def following(cron: Line, after_us: int) -> int | None:
    """The first minute after this instant at which it fires, as an instant; None: it never does."""
    moment = datetime.fromtimestamp(after_us // 1_000_000, UTC).replace(second=0) + timedelta(minutes=1)
    day = moment.replace(hour=0, minute=0)
    for _ in range(DAYS_MOST):
        if _fires_on(cron, day):
            for hour in sorted(cron.hours):
                for minute in sorted(cron.minutes):
                    at = day.replace(hour=hour, minute=minute)
                    if at >= moment:
                        return int(at.timestamp()) * 1_000_000
        day += timedelta(days=1)
    return None


def _fires_on(cron: Line, day: datetime) -> bool:
    if day.month not in cron.months:
        return False
    of_month, of_week = day.day in cron.days, (day.weekday() + 1) % 7 in cron.weekdays
    return of_month or of_week if cron.either else of_month and of_week
