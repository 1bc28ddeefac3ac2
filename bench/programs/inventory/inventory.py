"""A small stock book: articles, prices in cents, orders."""


class OutOfStock(Exception):
    pass


class Inventory:
    def __init__(self, minimum=5):
        self.minimum = minimum
        self.stock = {}
        self.prices = {}

    def receive(self, name, count, price=None):
        """Put articles on the shelf; the first delivery must name a price."""
        if count <= 0:
            raise ValueError("receive at least one")
        if price is None and name not in self.prices:
            raise KeyError(name)
        if price is not None:
            self.prices[name] = price
        self.stock[name] = self.stock.get(name, 0) + count

    def available(self, name):
        return self.stock.get(name, 0)

    def sell(self, name, count=1):
        """Take articles off the shelf; what they cost."""
        if self.available(name) < count:
            raise OutOfStock(name)
        self.stock[name] -= count
        if self.stock[name] == 0:
            del self.stock[name]
        return self.total(name, count)

    def total(self, name, count):
        """Ten or more of one article are a tenth cheaper."""
        price = self.prices[name] * count
        if count >= 10:
            price -= price // 10
        return price

    def value(self):
        return sum(self.prices[name] * count for name, count in self.stock.items())

    def to_order(self):
        """What runs short, the scarcest first."""
        short = [name for name in self.prices if self.available(name) < self.minimum]
        return sorted(short, key=lambda name: (self.available(name), name))

    def order(self, wanted):
        """Sell a whole order or nothing at all."""
        for name, count in wanted.items():
            if self.available(name) < count:
                raise OutOfStock(name)
        return sum(self.sell(name, count) for name, count in wanted.items())

    def most_valuable(self):
        if not self.stock:
            return None
        return max(self.stock, key=lambda name: self.prices[name] * self.stock[name])
