def calls(m, rng):
    for _ in range(200):
        yield m.to_roman, rng.randint(-5, 4100)
    for _ in range(200):
        yield m.from_roman, "".join(rng.choice("IVXLCDMivQ") for _ in range(rng.randint(0, 6)))
    for _ in range(50):
        yield m.sort_key, f"{rng.choice('ABC')} {rng.choice(['I', 'IV', 'X', 'foo', ''])}"
