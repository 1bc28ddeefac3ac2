import unittest

from graph import components, hops, reachable, reversed_graph, shortest, topological

ROADS = {
    "a": {"b": 7, "c": 3},
    "b": {"d": 2},
    "c": {"b": 1, "d": 8},
    "d": {"e": 1},
    "e": {},
    "x": {"y": 1},
    "y": {},
}


class GraphTest(unittest.TestCase):
    def test_reversed(self):
        self.assertEqual(reversed_graph({"a": {"b": 4}, "b": {}}), {"a": {}, "b": {"a": 4}})

    def test_reachable(self):
        self.assertEqual(reachable(ROADS, "a"), ["a", "b", "c", "d", "e"])
        self.assertEqual(reachable(ROADS, "e"), ["e"])
        self.assertEqual(reachable({"a": {"b": 1}, "b": {"a": 1}}, "a"), ["a", "b"])

    def test_hops(self):
        self.assertEqual(hops(ROADS, "a", "e"), 3)
        self.assertEqual(hops(ROADS, "a", "a"), 0)
        self.assertEqual(hops(ROADS, "a", "x"), -1)

    def test_shortest(self):
        self.assertEqual(shortest(ROADS, "a", "b"), (4, ["a", "c", "b"]))
        self.assertEqual(shortest(ROADS, "a", "e"), (7, ["a", "c", "b", "d", "e"]))
        self.assertEqual(shortest(ROADS, "e", "e"), (0, ["e"]))
        self.assertIsNone(shortest(ROADS, "e", "a"))

    def test_topological(self):
        self.assertEqual(topological(ROADS), ["a", "x", "c", "y", "b", "d", "e"])

    def test_a_cycle_has_no_order(self):
        with self.assertRaises(ValueError):
            topological({"a": {"b": 1}, "b": {"a": 1}})

    def test_components(self):
        self.assertEqual(components(ROADS), [["a", "b", "c", "d", "e"], ["x", "y"]])
        self.assertEqual(components({"a": {}, "b": {}}), [["a"], ["b"]])
