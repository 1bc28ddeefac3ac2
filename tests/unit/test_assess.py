"""CTO-4: what a plan will cost, from the tasks that ended here before."""

from __future__ import annotations

import pytest

from flyball.acts.assess import DEFAULT_TOKENS, DEFAULT_UUSD, ENOUGH, estimate
from flyball.journal import Row


def ended(*costs: int) -> list[Row]:
    return [Row(cost_uusd=cost, tokens=10 * cost) for cost in costs]


@pytest.mark.parametrize(
    ("rows", "steps", "cost", "tokens"),
    [
        ([], 1, DEFAULT_UUSD, DEFAULT_TOKENS),
        (ended(*range(1, ENOUGH)), 3, 3 * DEFAULT_UUSD, 3 * DEFAULT_TOKENS),
        (ended(*range(1, 11)), 1, 9, 90),
        (ended(*range(10, 0, -1)), 2, 18, 180),
        (ended(*[1] * 9, 1000), 1, 1, 10),
        (ended(*[1] * 8, 1000, 1000), 1, 1000, 10_000),
    ],
    ids=["nothing ended", "too few", "p90", "any order and each step", "one outlier", "two outliers"],
)
def test_an_estimate_is_the_p90_of_what_ended_here_for_each_step(
    rows: list[Row], steps: int, cost: int, tokens: int
) -> None:
    assert estimate(rows, steps)[:2] == (cost, tokens)
    assert ("default" in estimate(rows, steps)[2]) == (len(rows) < ENOUGH)
