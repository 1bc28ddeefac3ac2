import unittest

from dates import (
    add_days,
    day_of_year,
    days_between,
    days_in,
    is_leap,
    is_valid,
    ordinal,
    parse,
    show,
    weekday,
)


class DatesTest(unittest.TestCase):
    def test_leap_years(self):
        self.assertEqual([y for y in (1900, 1999, 2000, 2004, 2100) if is_leap(y)], [2000, 2004])

    def test_days_in_month(self):
        self.assertEqual([days_in(2023, month) for month in (1, 2, 4, 12)], [31, 28, 30, 31])
        self.assertEqual(days_in(2024, 2), 29)

    def test_valid(self):
        self.assertTrue(is_valid(2024, 2, 29))
        for date in ((2023, 2, 29), (2023, 0, 1), (2023, 13, 1), (2023, 1, 0), (2023, 4, 31)):
            self.assertFalse(is_valid(*date))
        self.assertTrue(is_valid(2023, 12, 31))

    def test_day_of_year(self):
        self.assertEqual(day_of_year(2023, 1, 1), 1)
        self.assertEqual(day_of_year(2023, 12, 31), 365)
        self.assertEqual(day_of_year(2024, 3, 1), 61)

    def test_ordinal(self):
        self.assertEqual(ordinal(1, 1, 1), 1)
        self.assertEqual(ordinal(1970, 1, 1), 719163)
        self.assertEqual(ordinal(2000, 1, 1), 730120)

    def test_days_between(self):
        self.assertEqual(days_between((2024, 1, 1), (2024, 12, 31)), 365)
        self.assertEqual(days_between((2024, 3, 1), (2024, 2, 28)), 2)

    def test_weekday(self):
        self.assertEqual(weekday(2024, 1, 1), "Monday")
        self.assertEqual(weekday(2000, 1, 1), "Saturday")
        self.assertEqual(weekday(1969, 7, 20), "Sunday")

    def test_add_days(self):
        self.assertEqual(add_days((2024, 2, 28), 2), (2024, 3, 1))
        self.assertEqual(add_days((2023, 12, 31), 1), (2024, 1, 1))
        self.assertEqual(add_days((2024, 1, 1), -1), (2023, 12, 31))
        self.assertEqual(add_days((2024, 3, 31), -31), (2024, 2, 29))
        self.assertEqual(add_days((2023, 1, 31), 365), (2024, 1, 31))

    def test_parse_and_show(self):
        self.assertEqual(parse(" 2024-02-29 "), (2024, 2, 29))
        self.assertEqual(show((7, 2, 9)), "0007-02-09")

    def test_bad_texts(self):
        for text in ("2024-02", "2023-02-29", "2023-13-01", "x-y-z"):
            with self.assertRaises(ValueError):
                parse(text)
