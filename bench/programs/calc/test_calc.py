import pytest
from calc import BadInput, Calculator, tokens


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1 + 2", 3),
        ("7 - 2 - 1", 4),
        ("2 + 3 * 4", 14),
        ("(2 + 3) * 4", 20),
        ("8 / 4 / 2", 1),
        ("2 ^ 3 ^ 2", 512),
        ("-3 + 5", 2),
        ("-2 ^ 2", -4),
        ("2 * -3", -6),
        ("1.5 * 2", 3),
        ("pi", 3.14159),
        ("((4))", 4),
    ],
)
def test_values(text, value):
    assert Calculator().run(text) == pytest.approx(value)


def test_names():
    calculator = Calculator()
    assert calculator.run("x1 = 2 + 3") == 5
    assert calculator.run("x1 * x1") == 25


@pytest.mark.parametrize("text", ["", "1 +", "(1", "1 2", "1 / 0", "y", "2 $ 3", ")", "x ="])
def test_bad_input(text):
    with pytest.raises(BadInput):
        Calculator().run(text)


def test_tokens():
    assert tokens("a = 10*(b2-.5)") == [
        ("name", "a"),
        ("=", "="),
        ("number", 10.0),
        ("*", "*"),
        ("(", "("),
        ("name", "b2"),
        ("-", "-"),
        ("number", 0.5),
        (")", ")"),
    ]
    assert tokens("  ") == []


def test_the_place_of_an_error():
    with pytest.raises(BadInput, match="at 2"):
        tokens("1 ?")
