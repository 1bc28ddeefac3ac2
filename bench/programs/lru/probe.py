def calls(m, rng):
    for _ in range(60):
        cache = m.LRU(rng.randint(1, 4), rng.choice([None, 1, 3])) if rng.random() < 0.8 else m.LRU()
        for _ in range(25):
            key, deed = rng.choice("abcde"), rng.randrange(7)
            if deed < 2:
                yield cache.put, key, rng.randrange(9)
            elif deed < 4:
                yield cache.get, key
            elif deed == 4:
                yield (cache.tick,)
            elif deed == 5:
                yield cache.__contains__, key
            else:
                yield (cache.rate,)
        yield cache.resize, rng.randint(1, 3)
        yield list, cache.order
