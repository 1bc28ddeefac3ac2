import pytest
from bank import Account, Bank, NotEnough


@pytest.fixture
def bank():
    bank = Bank()
    bank.open("ann", 5000)
    bank.open("bob", 900, overdraft=500)
    return bank


def test_deposit():
    account = Account("ann")
    account.deposit(250)
    assert account.balance == 250
    for amount in (0, -5):
        with pytest.raises(ValueError):
            account.deposit(amount)


def test_withdraw():
    account = Account("ann", 100)
    account.withdraw(100)
    assert account.balance == 0
    with pytest.raises(NotEnough):
        account.withdraw(1)
    with pytest.raises(ValueError):
        account.withdraw(0)


def test_overdraft(bank):
    bob = bank.accounts["bob"]
    bob.withdraw(1400)
    assert bob.balance == -500
    with pytest.raises(NotEnough):
        bob.withdraw(1)


def test_statement():
    account = Account("ann", 1000)
    account.deposit(205)
    account.withdraw(1150)
    assert account.statement() == ["+2.05", "-11.50"]


def test_open_twice(bank):
    with pytest.raises(KeyError):
        bank.open("ann")


def test_transfer(bank):
    bank.transfer("ann", "bob", 2000)
    assert (bank.accounts["ann"].balance, bank.accounts["bob"].balance) == (3000, 2900)
    assert bank.total() == 5900


def test_a_transfer_that_fails_changes_nothing(bank):
    with pytest.raises(NotEnough):
        bank.transfer("ann", "bob", 5001)
    with pytest.raises(ValueError):
        bank.transfer("ann", "ann", 1)
    assert bank.accounts["bob"].balance == 900


def test_interest(bank):
    bank.open("cid", 1000)
    assert bank.interest(3) == 150 + 30
    assert bank.accounts["ann"].balance == 5150
    assert bank.accounts["bob"].balance == 900


def test_interest_from_a_smaller_balance(bank):
    assert bank.interest(10, minimum=900) == 500 + 90


def test_richest(bank):
    bank.open("abe", 5000)
    assert bank.richest() == ["abe"]
    assert bank.richest(2) == ["abe", "ann"]


def test_close(bank):
    with pytest.raises(ValueError):
        bank.close("ann")
    bank.accounts["ann"].withdraw(5000)
    bank.close("ann")
    assert list(bank.accounts) == ["bob"]
