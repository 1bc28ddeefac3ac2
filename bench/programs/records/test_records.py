import unittest

from records import convert, group_by, join_fields, mean, parse, split_line, top, where

TEXT = """name, city, age
Ann, Rome, 31

Bob, "Paris, TX", 28
Cid, Rome,
Dan, Oslo, 44.5
"""


class RecordsTest(unittest.TestCase):
    def setUp(self):
        self.records = parse(TEXT)

    def test_split(self):
        self.assertEqual(split_line("a,b,,c"), ["a", "b", "", "c"])
        self.assertEqual(split_line('"a,b",c'), ["a,b", "c"])
        self.assertEqual(split_line('"say ""hi""",x'), ['say "hi"', "x"])
        self.assertEqual(split_line("a;b", ";"), ["a", "b"])
        self.assertEqual(split_line(""), [""])

    def test_an_open_quote(self):
        with self.assertRaises(ValueError):
            split_line('"a,b')

    def test_join(self):
        self.assertEqual(join_fields(["a", 1, "x,y", 'q"r']), 'a,1,"x,y","q""r"')
        self.assertEqual(join_fields(["a", "b"], ";"), "a;b")

    def test_convert(self):
        self.assertEqual([convert(t) for t in ("7", " 2.5", "", "x ")], [7, 2.5, None, "x"])
        self.assertIsInstance(convert("7"), int)

    def test_parse(self):
        self.assertEqual(len(self.records), 4)
        self.assertEqual(self.records[0], {"name": "Ann", "city": "Rome", "age": 31})
        self.assertEqual(self.records[1]["city"], "Paris, TX")
        self.assertIsNone(self.records[2]["age"])
        self.assertEqual(parse("\n\n"), [])

    def test_a_short_line_is_named(self):
        with self.assertRaisesRegex(ValueError, "line 3 has 1 fields, not 2"):
            parse("a,b\n1,2\n3")

    def test_where(self):
        self.assertEqual([r["name"] for r in where(self.records, city="Rome")], ["Ann", "Cid"])
        self.assertEqual([r["name"] for r in where(self.records, city="Rome", age=31)], ["Ann"])
        self.assertEqual(where(self.records, shoe=3), [])

    def test_group_by(self):
        groups = group_by(self.records, "city")
        self.assertEqual(
            {city: len(rows) for city, rows in groups.items()}, {"Rome": 2, "Paris, TX": 1, "Oslo": 1}
        )

    def test_mean(self):
        self.assertAlmostEqual(mean(self.records, "age"), 34.5)
        self.assertIsNone(mean([], "age"))

    def test_top(self):
        self.assertEqual([r["name"] for r in top(self.records, "age", 2)], ["Dan", "Ann"])
        self.assertEqual(len(top(self.records, "age")), 3)
