import pytest
from spans import first_gap, merge, overlap, parse_span, parse_time, rooms_needed, show_time, subtract, total

DAY = (540, 1020)


@pytest.mark.parametrize(("text", "minutes"), [("0:00", 0), ("9:30", 570), ("14:05", 845), ("24:00", 1440)])
def test_times(text, minutes):
    assert parse_time(text) == minutes
    assert show_time(minutes) == text


@pytest.mark.parametrize("text", ["9:60", "24:01", "9:-1", "25:00", "-1:00"])
def test_bad_times(text):
    with pytest.raises(ValueError):
        parse_time(text)


def test_parse_span():
    assert parse_span("9:00-17:00") == DAY
    with pytest.raises(ValueError):
        parse_span("9:00-9:00")


def test_overlap():
    assert overlap((1, 5), (3, 9)) == (3, 5)
    assert overlap((1, 9), (3, 5)) == (3, 5)
    assert overlap((1, 3), (3, 5)) is None


def test_merge():
    assert merge([(5, 7), (1, 3), (2, 4)]) == [(1, 4), (5, 7)]
    assert merge([(1, 3), (3, 5)]) == [(1, 5)]
    assert merge([(1, 9), (2, 3)]) == [(1, 9)]
    assert merge([]) == []


def test_subtract():
    assert subtract(DAY, [(600, 660)]) == [(540, 600), (660, 1020)]
    assert subtract(DAY, [(500, 560), (1000, 1100)]) == [(560, 1000)]
    assert subtract(DAY, [(100, 200), (1020, 1030)]) == [DAY]
    assert subtract(DAY, [(540, 1020)]) == []


def test_first_gap():
    busy = [(540, 600), (630, 900)]
    assert first_gap(DAY, busy, 30) == (600, 630)
    assert first_gap(DAY, busy, 60) == (900, 960)
    assert first_gap(DAY, busy, 121) is None


def test_total():
    assert total([(0, 10), (5, 20), (30, 40)]) == 30


def test_rooms():
    assert rooms_needed([(1, 4), (2, 5), (3, 6)]) == 3
    assert rooms_needed([(1, 4), (4, 5)]) == 1
    assert rooms_needed([]) == 0
