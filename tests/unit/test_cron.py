"""Cron lines: when they fire, in UTC, and which are refused."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from flyball.config import cron
from flyball.config.values import BadValue

NOW = "2026-01-30 12:30"  # a Friday
NEXT = {
    "* * * * * x": "2026-01-30 12:31",
    "30 12 * * * x": "2026-01-31 12:30",  # the minute itself is over
    "*/20 * * * * x": "2026-01-30 12:40",
    "0 3 * * 1 x": "2026-02-02 03:00",
    "0 3 * * 1-5 x": "2026-02-02 03:00",
    "15,45 9-17 * * 5 x": "2026-01-30 12:45",
    "0 0 29 2 * x": "2028-02-29 00:00",
    "0 0 1 * 0 x": "2026-02-01 00:00",
    "0 0 13 * 5 x": "2026-02-06 00:00",  # either day is enough, as cron has it
    "0 0 * * 7 x": "2026-02-01 00:00",  # 7 is Sunday, too
    "@weekly x": "2026-02-01 00:00",
    "@nightly x": "2026-01-31 03:00",
}


def instant(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * 1_000_000


@pytest.mark.parametrize("line", NEXT)
def test_when_a_line_fires_next(line: str) -> None:
    parsed = cron.parse(line)
    assert parsed.text == "x" and cron.following(parsed, instant(NOW)) == instant(NEXT[line])


@pytest.mark.parametrize("line", ["0 0 30 2 * x", "0 0 31 4,6,9,11 * x", "0 0 31 2 * x"])
def test_a_line_that_never_fires_is_refused(line: str) -> None:
    with pytest.raises(BadValue, match=r"never does"):
        cron.line(line)


@pytest.mark.parametrize(
    "line",
    [
        *(
            "",
            "x",
            "0 3 * *",
            "0 3 * * *",
            "60 * * * * x",
            "* 24 * * * x",
            "* * 0 * * x",
            "* * * 13 * x",
            "* * * * 8 x",
        ),
        *("a * * * * x", "5-1 * * * * x", "*/0 * * * * x", ",1 * * * * x", "@never x", "-1 * * * * x"),
    ],
)
def test_what_is_no_cron_line_is_refused(line: str) -> None:
    with pytest.raises(BadValue):
        cron.line(line)
