def calls(m, rng):
    for _ in range(150):
        date = (rng.randint(1890, 2110), rng.randint(1, 12), rng.randint(1, 28))
        yield m.weekday, *date
        yield m.ordinal, *date
        yield m.add_days, date, rng.randint(-800, 800)
        yield m.is_valid, date[0], rng.randint(-1, 14), rng.randint(-1, 33)
        yield m.show, date
        yield m.days_between, date, (rng.randint(1890, 2110), rng.randint(1, 12), rng.randint(1, 28))
    for text in ("2024-02-29", "2023-02-29", "1-1-1", "2024-2", "", "a-b-c", "2024-12-31-1"):
        yield m.parse, text
