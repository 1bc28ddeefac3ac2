def calls(m, rng):
    def span():
        start = rng.randint(0, 30)
        return (start, start + rng.randint(1, 9))

    for _ in range(150):
        spans = [span() for _ in range(rng.randint(0, 6))]
        yield m.merge, spans
        yield m.subtract, (5, 30), spans
        yield m.first_gap, (5, 30), spans, rng.randint(1, 9)
        yield m.total, spans
        yield m.rooms_needed, spans
        yield m.overlap, span(), span()
        yield m.parse_time, f"{rng.randint(-1, 26)}:{rng.randint(-2, 62)}"
        yield (
            m.parse_span,
            f"{rng.randint(8, 12)}:{rng.randint(10, 59)}-{rng.randint(8, 12)}:{rng.randint(10, 59)}",
        )
        yield m.show_time, rng.randint(0, 1440)
