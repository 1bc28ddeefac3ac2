"""One parser and one printer: machine tables and configuration agree on every text."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from flyball.config.values import BadValue, Duration
from flyball.domain.machine import duration_us
from flyball.domain.settings import (
    DAY,
    HOUR,
    MAX_US,
    MINUTE,
    SECOND,
    elapsed,
    parse_duration,
    rough,
    show_duration,
)
from flyball.errors import MachineFault

READ = {
    "90s": 90 * SECOND,
    "10m": 10 * MINUTE,
    "1h30m": 90 * MINUTE,
    "30m1h": 90 * MINUTE,
    "2d": 48 * HOUR,
    "366d": MAX_US,
}
REFUSED = (
    *("", "10", "m", "-1m", "1.5h", "10M", " 10m", "10m ", "10m\n", "5 m", "1h-30m", "soon", "٣m"),
    *("367d", "366d1s", "999999999d", "1" * 10 + "s"),
)


@pytest.mark.parametrize(("text", "length"), READ.items())
def test_machines_and_configuration_read_the_same(text: str, length: int) -> None:
    assert [parse_duration(text), duration_us(text), Duration().text(text)] == [length] * 3


@pytest.mark.parametrize("text", REFUSED)
def test_machines_and_configuration_refuse_the_same(text: str) -> None:
    assert parse_duration(text) is None
    with pytest.raises(MachineFault, match="is not a duration"):
        duration_us(text)
    with pytest.raises(BadValue, match="a duration from 1s to 366d"):
        Duration().text(text)


@given(st.integers(0, MAX_US // SECOND))
def test_what_is_printed_is_read_back(seconds: int) -> None:
    assert parse_duration(show_duration(seconds * SECOND)) == seconds * SECOND


@pytest.mark.parametrize(
    ("us", "text"),
    [
        (0, "0s"),
        (48 * HOUR, "2d"),
        (36 * HOUR, "1d12h"),
        (DAY + 2 * HOUR + 3 * MINUTE + 4 * SECOND, "1d2h3m4s"),
    ],
)
def test_an_exact_duration(us: int, text: str) -> None:
    assert show_duration(us) == text


@pytest.mark.parametrize(
    ("us", "text"),
    [
        (-5, "0.0s"),
        (449_999, "0.4s"),
        (10 * SECOND - 1, "9.9s"),
        (59 * SECOND, "59s"),
        (190 * SECOND, "3m10s"),
        (HOUR + 59, "1h"),
        (2 * HOUR + 5 * MINUTE + 9 * SECOND, "2h5m"),
        (2 * DAY + 30 * MINUTE, "2d"),
        (50 * HOUR, "2d2h"),
    ],
)
def test_an_elapsed_time_has_two_units_at_most(us: int, text: str) -> None:
    assert elapsed(us) == text


@pytest.mark.parametrize(
    ("us", "text"), [(-1, "0s"), (9_900_000, "9s"), (61 * MINUTE, "1h1m"), (49 * HOUR, "2d1h")]
)
def test_an_age_has_whole_seconds(us: int, text: str) -> None:
    assert rough(us) == text
