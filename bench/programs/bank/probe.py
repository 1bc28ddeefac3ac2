def calls(m, rng):
    for _ in range(50):
        bank = m.Bank()
        for name in "ab":
            yield (lambda *a: bank.open(*a).balance), name, rng.randint(-50, 3000), rng.choice([0, 300])
        for _ in range(15):
            one, other = rng.choice("ab"), rng.choice("ab")
            deed = rng.randrange(6)
            account = bank.accounts.get(one)
            if deed == 0:
                yield bank.transfer, one, other, rng.randint(-5, 900)
            elif deed == 1:
                yield bank.interest, rng.randint(0, 9), rng.choice([100, 1000])
            elif deed == 2 and account:
                yield account.withdraw, rng.randint(-2, 2000)
            elif deed == 3 and account:
                yield (account.statement,)
            elif deed == 4:
                yield bank.richest, rng.randint(0, 3)
            else:
                yield (bank.total,)
        yield bank.close, "a"
        yield bank.interest, 5
