import unittest

from ciphers import caesar, expand, from_morse, likely_shift, rail_fence, run_length, to_morse, vigenere


class CiphersTest(unittest.TestCase):
    def test_caesar(self):
        self.assertEqual(caesar("Hello, xyz!", 3), "Khoor, abc!")
        self.assertEqual(caesar(caesar("Attack", 7), -7), "Attack")

    def test_vigenere(self):
        self.assertEqual(vigenere("attack at dawn", "Lemon"), "lxfopv ef rnhr")
        self.assertEqual(vigenere("lxfopv ef rnhr", "lemon", decode=True), "attack at dawn")

    def test_morse(self):
        self.assertEqual(to_morse("Send gold"), "... . -. -.. / --. --- .-.. -..")
        self.assertEqual(from_morse("... --- ... / .. -. / .... .- --"), "sos in ham")
        self.assertEqual(from_morse("... ......"), "s?")
        self.assertEqual(to_morse("so?"), "... ---")

    def test_run_length(self):
        self.assertEqual(run_length("aaabccd"), "3a1b2c1d")
        self.assertEqual(run_length(""), "")

    def test_expand(self):
        self.assertEqual(expand("3a1b12c"), "aaabcccccccccccc")
        self.assertEqual(expand(run_length("hello")), "hello")

    def test_rail_fence(self):
        self.assertEqual(rail_fence("wearediscovered", 3), "wecrerdsoeeaivd")
        self.assertEqual(rail_fence("abc", 1), "abc")
        self.assertEqual(rail_fence("abcd", 2), "acbd")

    def test_likely_shift(self):
        self.assertEqual(likely_shift(caesar("we need these green trees", 5)), 5)
        self.assertEqual(likely_shift("..."), 0)
        self.assertEqual(likely_shift("aab"), 22)
