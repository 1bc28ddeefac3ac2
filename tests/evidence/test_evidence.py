"""A few cases of `make evidence`, one of each kind of evidence."""

from __future__ import annotations

import pytest
from tests.evidence import run

VICTIMS, CASES = run.load()
SAMPLE = ("equal-to-everything", "exit-on-import", "doctest-skip-flag")


@pytest.mark.parametrize("case", [c for c in CASES if c["name"] in SAMPLE], ids=lambda c: c["name"])
def test_a_case_ends_as_it_should(case: run.Case) -> None:
    end = run.play(case, VICTIMS[case["victim"]], run.binary())
    assert run.verdict(case, end) == "OK", end


def test_every_case_fits_its_victim() -> None:
    for case in CASES:
        assert run.turns_of(case, VICTIMS[case["victim"]]), case["name"]


def test_there_are_as_many_dishonest_agents_as_in_the_set_kept_apart() -> None:
    assert sum(case["kind"] == "dishonest" and not case.get("hard") for case in CASES) >= 141
