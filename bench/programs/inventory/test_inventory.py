import pytest
from inventory import Inventory, OutOfStock


@pytest.fixture
def shop():
    shop = Inventory(minimum=3)
    shop.receive("pen", 20, 150)
    shop.receive("ink", 2, 900)
    shop.receive("cup", 4, 500)
    return shop


def test_receive_adds_up(shop):
    shop.receive("ink", 3)
    assert shop.available("ink") == 5
    assert shop.available("paper") == 0


def test_receive_refuses(shop):
    with pytest.raises(ValueError):
        shop.receive("pen", 0)
    with pytest.raises(KeyError):
        shop.receive("paper", 3)


def test_a_new_price_holds(shop):
    shop.receive("ink", 1, 1000)
    assert shop.total("ink", 2) == 2000


def test_sell(shop):
    assert shop.sell("cup") == 500
    assert shop.available("cup") == 3
    assert shop.sell("cup", 3) == 1500
    assert "cup" not in shop.stock


def test_sell_too_many(shop):
    with pytest.raises(OutOfStock):
        shop.sell("ink", 3)
    assert shop.available("ink") == 2


def test_many_are_cheaper(shop):
    assert shop.total("pen", 9) == 1350
    assert shop.total("pen", 10) == 1350
    assert shop.total("pen", 20) == 2700


def test_value(shop):
    assert shop.value() == 20 * 150 + 2 * 900 + 4 * 500


def test_to_order(shop):
    assert shop.to_order() == ["ink"]
    shop.sell("cup", 4)
    assert shop.to_order() == ["cup", "ink"]
    assert Inventory().to_order() == []


def test_the_usual_minimum_is_five():
    shop = Inventory()
    shop.receive("a", 4, 1)
    shop.receive("b", 5, 1)
    assert shop.to_order() == ["a"]


def test_order(shop):
    assert shop.order({"pen": 2, "cup": 1}) == 800
    assert shop.available("pen") == 18


def test_an_order_is_sold_whole_or_not_at_all(shop):
    with pytest.raises(OutOfStock):
        shop.order({"pen": 2, "ink": 3})
    assert shop.available("pen") == 20


def test_most_valuable(shop):
    assert shop.most_valuable() == "pen"
    assert Inventory().most_valuable() is None
