"""When a limit lifts, in whatever form it is written.

An instant that is written out (an epoch, an ISO time, a date with its year) is taken as it is, past or not. A clock
time without a date is the next such instant, or this very minute (seconds are not written); a date without a year is the one nearest to now; a duration counts from
now. A clock without a zone is read in the given zone, UTC unless told. Zone names are looked up in the inert zone data;
an unknown one is UTC.
"""

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from email.utils import parsedate_to_datetime
from zoneinfo import ZoneInfo

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_US = timedelta(microseconds=1)
_MINUTE = timedelta(minutes=1)

_KEY = r"(?:resets?[_ -]?(?:at|on|time)?|resetsAt|resetAt|reset_at|until|unlocks?_at|retry_at)"
_STAMP = re.compile(
    rf"(?:\||{_KEY}[\"']?\s*[:=]?\s*[\"']?|\bat\s+|@)(\d{{16}}|\d{{13}}|\d{{10}})(?!\d)", re.I
)
_ISO = re.compile(
    r"\b(\d{4})[-/](\d{2})[-/](\d{2})(?:(?:T|\s+at\s+|,?\s+)(\d{1,2}):(\d{2})(?::(\d{2})(?:\.\d+)?)?\s*(Z\b|UTC\b|GMT\b|[+-]\d{2}:?\d{2})?)?",
    re.I,
)
_LEAD = re.compile(
    r"(?:reset|return|again|until|after|access|available|retry|back|lift|renew|opens|starts)[^\n]{0,40}$",
    re.I,
)
_PLACES = re.compile(
    r"(?<!\S)(?:/|https?://)\S+|^\[?\d{4}-\d\d-\d\d[T ][\d:.,]+(?:Z|[+-]\d\d:?\d\d)?\]?", re.M
)
_SENT = re.compile(r"\b[A-Z][a-z]{2}, \d{1,2} [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d (?:GMT|UTC|[+-]\d{4})\b")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_HOUR = r"(?<=at )(?=\d{1,2}\s*(?:$|[.,;·()]|(?:UTC|GMT)\b))"  # `tomorrow at 9`
_CLOCK = rf"(\d{{1,2}})(?:[:.](\d{{2}}))?(?::\d{{2}})?\s*([ap])\.?m\b\.?|(?:{_HOUR}|(?=\d{{1,2}}:|\d\d\.\d\d(?!\d)))(\d{{1,2}})(?:[:.](\d{{2}}))?(?::\d{{2}})?(?!\d)|\b(noon|midnight)\b"
_MONTH = rf"({'|'.join(_MONTHS)})[a-z]*\.?"
_DATE = re.compile(
    rf"\b{_MONTH}\s+(\d{{1,2}})(?:st|nd|rd|th)?(?:,?\s+(\d{{4}}))?(?:,?\s*(?:at\s+)?(?:{_CLOCK}))?"
    rf"|\b(\d{{1,2}})(?:st|nd|rd|th)?(?:\s+of)?\s+{_MONTH}(?:,?\s+(\d{{4}}))?(?:,?\s*(?:at\s+)?(?:{_CLOCK}))?",
    re.I,
)
_SLASHED = re.compile(
    rf"\b(?:(?<=on |at |by |ts |il )(?=[\d/]{{3,5}}(?![\d/]))|(?=\d+/\d+/))(\d{{1,2}})/(\d{{1,2}})(?:/(\d{{4}}))?(?:,?\s*(?:at\s+)?(?:{_CLOCK}))?",
    re.I,
)
_DOTTED = re.compile(
    rf"\b(\d{{1,2}})\.(\d{{1,2}})\.(\d{{4}})?(?:,?\s*(?:(?:at|um)\s+)?(?:{_CLOCK}))?(?![\d.])", re.I
)
_WEEKDAY = re.compile(
    rf"\b(?:resets?|again|until|back|on)(?:\s+(?:at|on|next))?\s+(today|tomorrow|{'|'.join(_DAYS)})[a-z]*\.?(?:,?\s*(?:at\s+)?(?:{_CLOCK}))?",
    re.I,
)
_AT = re.compile(
    rf"\b(?:resets?|again|until|back|resum\w+|available|after|unlocks?|refresh\w*|renews?|returns?|opens|starts)(?:\s+(?:at|on|after|by|around)|(?:\s+[\w-]+){{1,4}}\s+at)?[\s:@]+(?:{_CLOCK})",
    re.I,
)
_UNITS = {"w": 604_800, "d": 86_400, "h": 3_600, "m": 60, "s": 1}
_NUMBERS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_NUMBER = re.compile(rf"\bhalf an hour\b|\b({'|'.join(_NUMBERS)})(?= (?:second|minute|hour|day|week))", re.I)
_AMOUNT = r"(\d+(?:[.,]\d+)?|an?(?=\s))\s*(milliseconds?|millis|msecs?|ms|weeks?|w|days?|d|hours?|hrs?|hr|h|minutes?|mins?|min|m|seconds?|secs?|sec|s)(?![a-z])"
_SPAN = re.compile(
    rf"{_AMOUNT}(?:\s*(?:,|and)?\s*{_AMOUNT})?(?:\s*(?:,|and)?\s*{_AMOUNT})?(?:\s*(?:,|and)?\s*{_AMOUNT})?",
    re.I,
)
_IN = re.compile(
    r"(?:\b(?:in|(?<!timed out )after|within|wait(?:ing)?(?: for)?)\s+(?:about\s+|around\s+|approximately\s+|less\s+than\s+|~\s*)?|(?:retry-?(?:delay|after)|ratelimit-reset[\w-]*)[\"']?\s*[:=]\s*[\"']?)(?=\d|an?\s)",
    re.I,
)
_STOPWATCH = re.compile(r"(\d{1,3}):(\d{2}):(\d{2})(?!\d)")
_SECONDS = re.compile(
    r"(?:retry[-_ ]?after(?:[-_ ](ms|seconds|secs?|millis\w*))?|(?:resets?|retry)_in_(seconds|ms)|retry_delay_(ms|seconds)|retryAfter(Ms|Seconds)?)"
    r"[\"']?\s*[:=]?\s*[\"']?(\d+(?:\.\d+)?)(?!\d|\s*[hmd])\s*(ms|s)?",
    re.I,
)
_ZONE = re.compile(
    r"\(\s*([A-Za-z]+(?:/[\w+-]+)*(?:[+-]\d{1,2}(?::?\d{2})?)?)\s*\)|\b((?:UTC|GMT)[+-]\d{1,2}(?::?\d{2})?)\b|\b([A-Z][a-z]+/[A-Z]\w+(?:/\w+)?)\b"
    r"|\b(UTC|GMT|Z|[PMCE]T|PST|PDT|MST|MDT|CST|CDT|EST|EDT|CET|CEST|BST|JST|KST|AEST|AEDT)\b"
)
_ABBREVIATED = {
    "PST": -8, "PDT": -7, "MST": -7, "MDT": -6, "CST": -6, "CDT": -5, "EST": -5, "EDT": -4, "CET": 1, "CEST": 2,
    "BST": 1, "JST": 9, "KST": 9, "AEST": 10, "AEDT": 11, "UTC": 0, "GMT": 0, "Z": 0,
}  # fmt: skip

_WITH_SUMMER_TIME = {
    "PT": "America/Los_Angeles", "MT": "America/Denver", "CT": "America/Chicago", "ET": "America/New_York",
}  # fmt: skip


def reset_at(text: str, now_us: int, zone: str = "UTC") -> int | None:
    """The instant, in microseconds since 1970, at which the text says that the limit lifts; None where it does not say."""
    text = _PLACES.sub("", text[:4000]).replace("\u202f", " ").replace("\xa0", " ")
    text = _NUMBER.sub(_in_digits, text)
    now = _EPOCH + now_us * _US
    for reader in (_stamp, _sent, _iso, _dated, _by_weekday, _counted, _spanned, _clocked):
        try:
            moment = reader(text, now, _zone_in(text) or _zone(zone))
        except (ValueError, OverflowError):
            continue
        if moment is not None:
            return (moment - _EPOCH) // _US
    return None


def _in_digits(number: re.Match[str]) -> str:
    word = number.group(1)
    return str(_NUMBERS.index(word.lower()) + 1) if word else "30 minutes"


def _stamp(text: str, now: datetime, zone: tzinfo) -> datetime | None:
    match = _STAMP.search(text)
    if not match:
        return None
    digits = match.group(1)
    return _EPOCH + int(digits) * 10 ** (16 - len(digits)) * _US


def _sent(text: str, now: datetime, zone: tzinfo) -> datetime | None:
    """As an HTTP header has it: `Thu, 19 Nov 2026 04:46:40 GMT`."""
    match_ = next((match for match in _SENT.finditer(text) if _LEAD.search(text, 0, match.start())), None)
    return parsedate_to_datetime(match_.group()).astimezone(UTC) if match_ else None


def _iso(text: str, now: datetime, zone: tzinfo) -> datetime | None:
    match_ = next((match for match in _ISO.finditer(text) if _LEAD.search(text, 0, match.start())), None)
    if not match_:
        return None
    year, month, day, hour, minute, second, offset = match_.groups()
    offset_zone = _offset(offset) if offset else (zone if hour else UTC)
    return datetime(
        int(year),
        int(month),
        int(day),
        int(hour or 0),
        int(minute or 0),
        int(second or 0),
        tzinfo=offset_zone,
    )


def _offset(text: str) -> tzinfo:
    match = re.fullmatch(r"([+-])(\d{2}):?(\d{2})", text)
    if not match:
        return UTC
    sign = 1 if match.group(1) == "+" else -1
    return timezone(sign * timedelta(hours=int(match.group(2)), minutes=int(match.group(3))))


def _dated(text: str, now: datetime, zone: tzinfo) -> datetime | None:
    dotted = (match for match in _DOTTED.finditer(text) if _LEAD.search(text, 0, match.start()))
    if hit := _SLASHED.search(text):
        month, day, year, *clock = hit.groups()
    elif hit := next(dotted, None):
        day, month, year, *clock = hit.groups()
    elif hit := _DATE.search(text):
        month, day, year, *clock = hit.groups()[:9] if hit.group(1) else _day_first(hit.groups()[9:])
        month = _MONTHS.index(month[:3].lower()) + 1
    else:
        return None
    if year:
        return _moment(int(year), int(month), int(day), clock, zone)
    return _nearest(int(month), int(day), clock, zone, now)


def _day_first(groups: tuple[str, ...]) -> tuple[str, ...]:
    day, month, *rest = groups
    return (month, day, *rest)


def _nearest(month: int, day: int, clock: list[str], zone: tzinfo, now: datetime) -> datetime:
    year = now.astimezone(zone).year
    choices = [
        _moment(y, month, day, clock, zone) for y in (year - 1, year, year + 1) if _exists(y, month, day)
    ]
    return min(choices, key=lambda moment: abs(moment - now))


def _exists(year: int, month: int, day: int) -> bool:
    try:
        return bool(datetime(year, month, day, tzinfo=UTC))
    except ValueError:
        return False


def _moment(year: int, month: int, day: int, clock: list[str], zone: tzinfo) -> datetime:
    hour, minute = _clock(clock) or (0, 0)
    return datetime(year, month, day, hour, minute, tzinfo=zone)


def _clock(groups: list[str] | tuple[str, ...]) -> tuple[int, int] | None:
    """Hour and minute out of the six groups of a clock time."""
    hour12, minute12, half, hour24, minute24, word = groups
    if half:
        return int(hour12) % 12 + (12 if half.lower() == "p" else 0), int(minute12 or 0)
    if word:
        return (12, 0) if word.lower() == "noon" else (0, 0)
    return (int(hour24), int(minute24 or 0)) if hour24 else None


def _by_weekday(text: str, now: datetime, zone: tzinfo) -> datetime | None:
    match = _WEEKDAY.search(text)
    if not match:
        return None
    here, name = now.astimezone(zone), match.group(1).lower()
    ahead = {"today": 0, "tomorrow": 1}.get(name)
    ahead = (_DAYS.index(name) - here.weekday()) % 7 if ahead is None else ahead
    day = here + timedelta(days=ahead)
    moment = _moment(day.year, day.month, day.day, list(match.groups()[1:]), zone)
    return moment + timedelta(days=7) if name in _DAYS and moment < now else moment


def _counted(text: str, now: datetime, zone: tzinfo) -> datetime | None:
    """`retry-after: 30` and its like: a bare number, of seconds unless it says otherwise."""
    match = _SECONDS.search(text)
    if not match:
        return None
    *units, amount, suffix = match.groups()
    unit = next((unit for unit in (suffix, *units) if unit), "s").lower()
    return now + _amount(amount, 1_000 if unit.startswith(("ms", "milli")) else 1_000_000)


def _spanned(text: str, now: datetime, zone: tzinfo) -> datetime | None:
    """`in 2 hours 14 minutes`, `after 8h36m13s`, `in 3 days`, `in 02:14:00`."""
    for lead in _IN.finditer(text):
        if clock := _STOPWATCH.match(text, lead.end()):
            hours, minutes, seconds = map(int, clock.groups())
            return now + timedelta(hours=hours, minutes=minutes, seconds=seconds)
        hit = _SPAN.match(text, lead.end())
        if hit:
            pairs = zip(hit.groups()[::2], hit.groups()[1::2], strict=True)
            return now + sum((_amount(n, _micros(unit)) for n, unit in pairs if n), timedelta())
    return None


def _micros(unit: str) -> int:
    unit = unit.lower()
    return 1_000 if unit.startswith(("ms", "milli")) else _UNITS[unit[0]] * 1_000_000


def _amount(number: str, micros: int) -> timedelta:
    whole, _, part = ("1" if number[0] in "aA" else number.replace(",", ".")).partition(".")
    part = part[:9]
    return timedelta(
        microseconds=int(whole) * micros + (int(part) * micros // 10 ** len(part) if part else 0)
    )


def _clocked(text: str, now: datetime, zone: tzinfo) -> datetime | None:
    match = _AT.search(text)
    clock = _clock(match.groups()) if match else None
    if clock is None:
        return None
    here = now.astimezone(zone)
    moment = here.replace(hour=clock[0], minute=clock[1], second=0, microsecond=0, fold=0)
    if moment <= now - _MINUTE:
        day = here + timedelta(days=1)
        moment = datetime(day.year, day.month, day.day, *clock, tzinfo=zone)
    return moment.astimezone(UTC)


def _zone_in(text: str) -> tzinfo | None:
    for hit in _ZONE.finditer(text):
        name = next(group for group in hit.groups() if group)
        if (
            "/" in name
            or name.upper() in (*_ABBREVIATED, *_WITH_SUMMER_TIME)
            or re.match(r"(?:UTC|GMT)[+-]", name, re.I)
        ):
            return _zone(name)
    return None


def _zone(name: str) -> tzinfo:
    if name.upper() in _ABBREVIATED:
        return timezone(timedelta(hours=_ABBREVIATED[name.upper()]))
    if match := re.fullmatch(r"(?:UTC|GMT)([+-])(\d{1,2})(?::?(\d{2}))?", name, re.I):
        ahead = timedelta(hours=int(match.group(2)), minutes=int(match.group(3) or 0))
        return timezone(ahead if match.group(1) == "+" else -ahead)
    try:
        return ZoneInfo(_WITH_SUMMER_TIME.get(name.upper(), name))
    except (KeyError, ValueError, OSError):
        return UTC
