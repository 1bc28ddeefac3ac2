def calls(m, rng):
    for _ in range(200):
        line = "".join(rng.choice('ab,"; 1.') for _ in range(rng.randint(0, 9)))
        yield m.split_line, line
        yield m.split_line, line, ";"
        yield m.join_fields, list(line), rng.choice(",;")
        yield m.convert, line
    for _ in range(80):
        rows = [
            {"k": rng.choice("xyz"), "v": rng.choice([None, 1, 2, 3.5, 9])} for _ in range(rng.randint(0, 6))
        ]
        yield m.where, rows, rng.choice("kv")
        yield m.group_by, rows, "k"
        yield m.mean, rows, "v"
        yield m.top, rows, "v", rng.randint(0, 4)
        yield m.top, rows, "v"
        yield m.parse, "a,b\n" + "\n".join(f"{row['k']},{row['v']}" for row in rows)
