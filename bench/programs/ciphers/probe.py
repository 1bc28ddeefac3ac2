def calls(m, rng):
    for _ in range(120):
        text = "".join(rng.choice("abcXYZ e.,") for _ in range(rng.randint(0, 14)))
        yield m.caesar, text, rng.randint(-30, 30)
        yield m.vigenere, text, rng.choice(["key", "Q", "lemon"]), rng.random() < 0.5
        yield m.to_morse, text
        yield m.from_morse, " ".join(rng.choice([".-", "...", "/", "---", "....."]) for _ in range(5))
        yield m.run_length, text
        yield m.expand, f"{rng.randint(0, 12)}x{rng.randint(1, 3)}y"
        yield m.rail_fence, text, rng.randint(0, 4)
        yield m.likely_shift, text
