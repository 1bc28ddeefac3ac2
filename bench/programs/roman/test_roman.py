import pytest
from roman import add, from_roman, sort_key, to_roman


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (1, "I"),
        (4, "IV"),
        (9, "IX"),
        (14, "XIV"),
        (40, "XL"),
        (90, "XC"),
        (400, "CD"),
        (1994, "MCMXCIV"),
        (3999, "MMMCMXCIX"),
    ],
)
def test_both_ways(number, text):
    assert to_roman(number) == text
    assert from_roman(text) == number


@pytest.mark.parametrize("number", [0, -1, 4000])
def test_numbers_out_of_range(number):
    with pytest.raises(ValueError):
        to_roman(number)


@pytest.mark.parametrize("text", ["", "IIII", "VX", "IC", "A", "MMMM"])
def test_bad_numerals(text):
    with pytest.raises(ValueError):
        from_roman(text)


def test_lower_case_is_read():
    assert from_roman("xlii") == 42


def test_add():
    assert add("IX", "IV") == "XIII"
    assert add("M", "M") == "MM"


def test_kings_in_order():
    kings = ["Louis XVI", "Henry IV", "Louis IX", "Cher", "Henry II"]
    assert sorted(kings, key=sort_key) == ["Cher", "Henry II", "Henry IV", "Louis IX", "Louis XVI"]
