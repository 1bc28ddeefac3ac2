"""Calendar arithmetic without the standard library."""

DAYS_IN_MONTH = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
NAMES = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]


def is_leap(year):
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def days_in(year, month):
    if month == 2 and is_leap(year):
        return 29
    return DAYS_IN_MONTH[month - 1]


def is_valid(year, month, day):
    if not 1 <= month <= 12:
        return False
    return 1 <= day <= days_in(year, month)


def day_of_year(year, month, day):
    total = day
    for earlier in range(1, month):
        total += days_in(year, earlier)
    return total


def ordinal(year, month, day):
    """Days since the day before 1 January of year 1."""
    before = year - 1
    leaps = before // 4 - before // 100 + before // 400
    return before * 365 + leaps + day_of_year(year, month, day)


def days_between(one, other):
    return abs(ordinal(*other) - ordinal(*one))


def weekday(year, month, day):
    return NAMES[(ordinal(year, month, day) - 1) % 7]


def add_days(date, count):
    year, month, day = date
    day += count
    while day > days_in(year, month):
        day -= days_in(year, month)
        month += 1
        if month > 12:
            month = 1
            year += 1
    while day < 1:
        month -= 1
        if month < 1:
            month = 12
            year -= 1
        day += days_in(year, month)
    return (year, month, day)


def parse(text):
    """A date from 2024-02-29."""
    parts = text.strip().split("-")
    if len(parts) != 3:
        raise ValueError(f"{text!r} is not a date")
    year, month, day = (int(part) for part in parts)
    if not is_valid(year, month, day):
        raise ValueError(f"{text!r} is not in the calendar")
    return (year, month, day)


def show(date):
    year, month, day = date
    return f"{year:04d}-{month:02d}-{day:02d}"
