"""Accounts, transfers and interest; money in cents."""


class NotEnough(Exception):
    pass


class Account:
    def __init__(self, owner, balance=0, overdraft=0):
        self.owner = owner
        self.balance = balance
        self.overdraft = overdraft
        self.entries = []

    def deposit(self, amount):
        if amount <= 0:
            raise ValueError("an amount is positive")
        self.balance += amount
        self.entries.append(("in", amount))

    def withdraw(self, amount):
        if amount <= 0:
            raise ValueError("an amount is positive")
        if self.balance - amount < -self.overdraft:
            raise NotEnough(self.owner)
        self.balance -= amount
        self.entries.append(("out", amount))

    def statement(self):
        lines = []
        for kind, amount in self.entries:
            sign = "+" if kind == "in" else "-"
            lines.append(f"{sign}{amount // 100}.{amount % 100:02d}")
        return lines


class Bank:
    def __init__(self):
        self.accounts = {}

    def open(self, owner, balance=0, overdraft=0):
        if owner in self.accounts:
            raise KeyError(owner)
        self.accounts[owner] = Account(owner, balance, overdraft)
        return self.accounts[owner]

    def transfer(self, source, target, amount):
        if source == target:
            raise ValueError("to whom?")
        giver, taker = self.accounts[source], self.accounts[target]
        giver.withdraw(amount)
        taker.deposit(amount)

    def total(self):
        return sum(account.balance for account in self.accounts.values())

    def interest(self, percent, minimum=1000):
        """Pay interest on every balance that is large enough; how much was paid."""
        paid = 0
        for account in self.accounts.values():
            if account.balance >= minimum:
                gain = account.balance * percent // 100
                account.deposit(gain)
                paid += gain
        return paid

    def richest(self, count=1):
        ranked = sorted(self.accounts.values(), key=lambda a: (-a.balance, a.owner))
        return [account.owner for account in ranked[:count]]

    def close(self, owner):
        account = self.accounts[owner]
        if account.balance != 0:
            raise ValueError("the account is not empty")
        del self.accounts[owner]
