def calls(m, rng):
    for _ in range(60):
        nodes = "abcdef"[: rng.randint(1, 6)]
        forward = rng.random() < 0.5
        pairs = [
            (a, b) for a in nodes for b in nodes if (a < b if forward else a != b) and rng.random() < 0.35
        ]
        graph = {a: {b: rng.randint(1, 9) for x, b in pairs if x == a} for a in nodes}
        start, goal = rng.choice(nodes), rng.choice(nodes)
        yield m.reachable, graph, start
        yield m.hops, graph, start, goal
        yield (lambda *a: (m.shortest(*a) or [None])[0]), graph, start, goal
        yield m.topological, graph
        yield m.components, graph
        yield m.reversed_graph, graph
