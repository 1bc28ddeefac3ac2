import unittest

from lru import LRU, cached


class LRUTest(unittest.TestCase):
    def test_it_keeps_and_gives(self):
        cache = LRU()
        cache.put("a", 1)
        self.assertEqual(cache.get("a"), 1)
        self.assertIsNone(cache.get("b"))
        self.assertEqual(cache.get("b", 7), 7)
        self.assertEqual(len(cache), 1)

    def test_the_oldest_goes(self):
        cache = LRU(2)
        for key in "abc":
            cache.put(key, key)
        self.assertEqual([key in cache for key in "abc"], [False, True, True])

    def test_use_keeps_alive(self):
        cache = LRU(2)
        cache.put("a", 1)
        cache.put("b", 2)
        cache.get("a")
        cache.put("c", 3)
        self.assertEqual(cache.order, ["a", "c"])

    def test_putting_again_replaces(self):
        cache = LRU(2)
        cache.put("a", 1)
        cache.put("b", 2)
        cache.put("a", 3)
        self.assertEqual(cache.get("a"), 3)
        self.assertEqual(len(cache), 2)

    def test_three_is_the_usual_size(self):
        cache = LRU()
        for key in range(5):
            cache.put(key, key)
        self.assertEqual(cache.order, [2, 3, 4])

    def test_old_values_are_gone(self):
        cache = LRU(2, lifetime=2)
        cache.put("a", 1)
        cache.tick()
        self.assertEqual(cache.get("a"), 1)
        cache.tick()
        self.assertNotIn("a", cache)
        self.assertIsNone(cache.get("a"))
        self.assertEqual(len(cache), 0)

    def test_rate(self):
        cache = LRU()
        self.assertEqual(cache.rate(), 0)
        cache.put("a", 1)
        cache.get("a")
        cache.get("a")
        cache.get("b")
        self.assertEqual(cache.rate(), 67)

    def test_resize(self):
        cache = LRU(3)
        for key in "abc":
            cache.put(key, key)
        cache.resize(1)
        self.assertEqual(cache.order, ["c"])

    def test_size(self):
        with self.assertRaises(ValueError):
            LRU(0)
        self.assertEqual(LRU(1).size, 1)

    def test_cached(self):
        calls = []
        double = cached(lambda x: calls.append(x) or x * 2)
        self.assertEqual([double(x) for x in (1, 1, 2, 3, 1)], [2, 2, 4, 6, 2])
        self.assertEqual(calls, [1, 2, 3, 1])
