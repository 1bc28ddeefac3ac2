def calls(m, rng):
    for _ in range(60):
        n, k = rng.randint(1, 4), rng.randint(1, 4)
        a = [[rng.randint(-4, 9) for _ in range(k)] for _ in range(n)]
        b = [[rng.randint(-4, 9) for _ in range(n)] for _ in range(k)]
        s = [[rng.randint(0, 2) for _ in range(n)] for _ in range(n)]
        yield m.transpose, a
        yield m.multiply, a, b
        yield m.add, a, b
        yield m.scale, a, rng.randint(-2, 3)
        yield m.power, s, rng.randint(0, 6)
        yield m.determinant, s
        yield m.determinant, a
        yield m.is_symmetric, s
        yield m.trace, s
        yield m.spiral, a
