"""A cache that forgets what was not used for longest, and what is too old."""


class LRU:
    def __init__(self, size=3, lifetime=None):
        if size < 1:
            raise ValueError("a cache holds at least one value")
        self.size = size
        self.lifetime = lifetime
        self.values = {}
        self.order = []
        self.hits = 0
        self.misses = 0
        self.now = 0

    def __len__(self):
        return len(self.values)

    def __contains__(self, key):
        return key in self.values and not self._is_old(key)

    def _is_old(self, key):
        if self.lifetime is None:
            return False
        return self.now - self.values[key][1] >= self.lifetime

    def _use(self, key):
        if key in self.order:
            self.order.remove(key)
        self.order.append(key)

    def put(self, key, value):
        if key not in self.values and len(self.values) >= self.size:
            self.forget(self.order[0])
        self.values[key] = (value, self.now)
        self._use(key)

    def get(self, key, default=None):
        if key not in self:
            self.misses += 1
            if key in self.values:
                self.forget(key)
            return default
        self.hits += 1
        self._use(key)
        return self.values[key][0]

    def forget(self, key):
        del self.values[key]
        self.order.remove(key)

    def tick(self, time=1):
        self.now += time

    def rate(self):
        """The share of hits, in percent."""
        asked = self.hits + self.misses
        if asked == 0:
            return 0
        return round(100 * self.hits / asked)

    def resize(self, size):
        self.size = size
        while len(self.values) > self.size:
            self.forget(self.order[0])


def cached(function, size=2):
    """The function with a cache for its results."""
    cache = LRU(size)

    def call(argument):
        if argument in cache:
            return cache.get(argument)
        result = function(argument)
        cache.put(argument, result)
        return result

    return call
