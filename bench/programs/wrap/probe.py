def calls(m, rng):
    for _ in range(120):
        words = ["x" * rng.randint(1, 9) for _ in range(rng.randint(0, 9))]
        text, width = " ".join(words), rng.randint(3, 25)
        yield m.wrap, text, width
        yield m.paragraph, text, width + 9
        yield m.shorten, text, width
        yield m.center, text, width, rng.choice(" *")
        yield m.indent, text.replace(" ", "\n"), rng.randint(0, 5), rng.choice([None, 0, 3])
        yield m.table, [(word, rng.choice([len(word), word, 12345])) for word in words]
