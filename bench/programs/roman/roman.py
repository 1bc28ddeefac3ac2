"""Roman numerals, both ways."""

VALUES = [
    (1000, "M"),
    (900, "CM"),
    (500, "D"),
    (400, "CD"),
    (100, "C"),
    (90, "XC"),
    (50, "L"),
    (40, "XL"),
    (10, "X"),
    (9, "IX"),
    (5, "V"),
    (4, "IV"),
    (1, "I"),
]


def to_roman(number):
    """The numeral of a number from 1 to 3999."""
    if not 1 <= number <= 3999:
        raise ValueError(f"{number} has no Roman numeral")
    parts = []
    for value, letters in VALUES:
        count = number // value
        parts.append(letters * count)
        number -= value * count
    return "".join(parts)


def from_roman(text):
    """The number of a numeral; a numeral that is not written the usual way is refused."""
    digits = {letters: value for value, letters in VALUES if len(letters) == 1}
    total = 0
    largest = 0
    for letter in reversed(text.upper()):
        if letter not in digits:
            raise ValueError(f"{letter!r} is not a Roman digit")
        value = digits[letter]
        if value < largest:
            total -= value
        else:
            total += value
            largest = value
    if total == 0 or to_roman(total) != text.upper():
        raise ValueError(f"{text!r} is not a Roman numeral")
    return total


def add(one, other):
    """The sum of two numerals, as a numeral."""
    return to_roman(from_roman(one) + from_roman(other))


def sort_key(title):
    """Kings in order: name first, then number."""
    name, _, numeral = title.rpartition(" ")
    try:
        return (name, from_roman(numeral))
    except ValueError:
        return (title, 0)
