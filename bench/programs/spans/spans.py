"""Spans of time on one day, in minutes from midnight: (start, end), the end not included."""


def parse_time(text):
    """Minutes from 9:30 or 14:05."""
    hours, _, minutes = text.partition(":")
    value = int(hours) * 60 + int(minutes)
    if not 0 <= int(minutes) < 60 or not 0 <= value <= 24 * 60:
        raise ValueError(f"{text!r} is not a time")
    return value


def show_time(minutes):
    return f"{minutes // 60}:{minutes % 60:02d}"


def parse_span(text):
    start, end = (parse_time(part) for part in text.split("-"))
    if end <= start:
        raise ValueError(f"{text!r} ends before it starts")
    return (start, end)


def length(span):
    return span[1] - span[0]


def overlap(one, other):
    """What two spans share, or None."""
    start = max(one[0], other[0])
    end = min(one[1], other[1])
    return (start, end) if start < end else None


def merge(spans):
    """The same time with as few spans as possible, in order."""
    out = []
    for start, end in sorted(spans):
        if out and start <= out[-1][1]:
            out[-1] = (out[-1][0], max(out[-1][1], end))
        else:
            out.append((start, end))
    return out


def subtract(span, busy):
    """What is left of a span when the busy ones are taken out."""
    free = []
    at = span[0]
    for start, end in merge(busy):
        if end <= at or start >= span[1]:
            continue
        if start > at:
            free.append((at, start))
        at = end
    if at < span[1]:
        free.append((at, span[1]))
    return free


def first_gap(day, busy, minutes):
    """The earliest free span of this length, or None."""
    for free in subtract(day, busy):
        if length(free) >= minutes:
            return (free[0], free[0] + minutes)
    return None


def total(spans):
    return sum(length(span) for span in merge(spans))


def rooms_needed(spans):
    """How many spans run at the same time at most."""
    changes = [(start, 1) for start, _ in spans] + [(end, -1) for _, end in spans]
    now = most = 0
    for _, change in sorted(changes):
        now += change
        most = max(most, now)
    return most
