def calls(m, rng):
    def text(depth):
        if depth == 0 or rng.random() < 0.3:
            return rng.choice(["1", "2", "3.5", "pi", "7", "-2", "q", "0"])
        one, other = text(depth - 1), text(depth - 1)
        return rng.choice(
            [f"{one} {rng.choice('+-*/')} {other}", f"({one})", f"2 ^ {rng.randint(0, 3)}", f"{one} {other}"]
        )

    for _ in range(300):
        yield m.Calculator().run, text(3)
        yield m.tokens, text(2)
