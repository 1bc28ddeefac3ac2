import unittest

from wrap import center, indent, justify, paragraph, shorten, table, wrap

TEXT = "the quick brown fox jumps over the lazy dog"


class WrapTest(unittest.TestCase):
    def test_wrap(self):
        self.assertEqual(wrap(TEXT, 15), ["the quick brown", "fox jumps over", "the lazy dog"])
        self.assertEqual(wrap(TEXT, 14), ["the quick", "brown fox", "jumps over the", "lazy dog"])

    def test_wrap_long_words_and_nothing(self):
        self.assertEqual(wrap("a extraordinary b", 4), ["a", "extraordinary", "b"])
        self.assertEqual(wrap("", 4), [])

    def test_justify(self):
        self.assertEqual(justify("a b c", 8), "a   b  c")
        self.assertEqual(justify("fox jumps over", 15), "fox  jumps over")
        self.assertEqual(justify("word", 9), "word")

    def test_paragraph(self):
        self.assertEqual(paragraph(TEXT, 15), "the quick brown\nfox  jumps over\nthe lazy dog")
        self.assertEqual(paragraph("", 15), "")

    def test_shorten(self):
        self.assertEqual(shorten("hello", 5), "hello")
        self.assertEqual(shorten("hello world", 9), "hello...")
        self.assertEqual(shorten("hello world", 6, "~"), "hello~")

    def test_center(self):
        self.assertEqual(center("ab", 6), "  ab  ")
        self.assertEqual(center("ab", 7, "*"), "**ab***")

    def test_table(self):
        self.assertEqual(table([("pear", 3), ("fig", 120)]), "pear    3\nfig   120")
        self.assertEqual(table([("a", "long one"), ("bcd", "x")]), "a    long one\nbcd  x")
        self.assertEqual(table([]), "")

    def test_indent(self):
        self.assertEqual(indent("a\n\nb"), "    a\n\n    b")
        self.assertEqual(indent("a\nb", 2, 0), "a\n  b")
