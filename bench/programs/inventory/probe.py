def calls(m, rng):
    for _ in range(60):
        shop = m.Inventory(rng.randint(0, 6)) if rng.random() < 0.7 else m.Inventory()
        for _ in range(12):
            name = rng.choice("abc")
            deed = rng.randrange(6)
            if deed == 0:
                yield shop.receive, name, rng.randint(-1, 12), rng.choice([None, 10, 25, 99])
            elif deed == 1:
                yield shop.sell, name, rng.randint(1, 12)
            elif deed == 2:
                yield shop.order, {name: rng.randint(1, 4), "a": rng.randint(1, 3)}
            elif deed == 3:
                yield (shop.to_order,)
            elif deed == 4:
                yield (shop.most_valuable,)
            else:
                yield (shop.value,)
