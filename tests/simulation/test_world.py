"""The production code in seeded worlds: every law holds, and a seed is a journal, byte for byte."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from flyball.batch import Batch
from flyball.core import decide, letters
from flyball.core import events as e
from flyball.core import run as runs
from flyball.journal.memory import MemoryJournal
from flyball.testing.campaign import Campaign, simulate, traced
from flyball.testing.coverage import DOUBTS, WORLD, reach
from flyball.testing.world import SQLITE_EVERY, World

SEEDS = 150
ON_DISK = tuple(range(0, 10 * SQLITE_EVERY, SQLITE_EVERY))
ONCE_FAILED = [  # machine, seed: what it found
    ("", 8),  # a run taken over below another stayed taken over after the hand-back
    ("", 73),  # a hand-back before there was a checkout restored one that was not there
    ("cto", 1009),  # a letter to a run that the letter before had ended broke the driver
    ("cto", 1066),
    ("task", 1054),  # a cancelled child left a half-made turn in its parent's checkout
    ("cto", 1064),  # a child that ended while the guard asked about its change handed the change up
    ("cto", 1071),
    ("cto", 1073),
    ("loop", 1073),
    ("", 3008),
    ("", 323),  # a run that ends while a rollback is under way
]


@pytest.fixture(scope="module")
def campaign() -> Campaign:
    return simulate(range(1, SEEDS + 1))


def told(found: Campaign) -> str:
    return "\n".join(
        line for one in found.failed for line in (f"{one.seed} {one.law} {one.broken}", *traced(one.lines))
    )


def test_every_law_holds_in_every_seed(campaign: Campaign) -> None:
    assert campaign.good, told(campaign)
    assert campaign.events > 50 * SEEDS


def test_the_worlds_are_full_of_trouble(campaign: Campaign) -> None:
    """A simulation in which nothing goes wrong shows nothing."""
    seen = campaign.coverage.kinds
    assert [name for name in (*WORLD, *DOUBTS) if not seen[name]] == []
    assert {end.split()[0] for end, count in campaign.coverage.ends.items() if count} == {
        "success",
        "failure",
        "cancelled",
    }
    reached, there = reach("build", campaign.coverage).outcomes
    assert reached > there // 2


@pytest.mark.parametrize(("machine", "seed"), ONCE_FAILED)
def test_a_seed_that_once_failed_holds(machine: str, seed: int) -> None:
    found = simulate([seed], machine)
    assert found.good, told(found)


def test_what_a_failing_disk_acknowledged_is_there() -> None:
    found = simulate(ON_DISK)
    assert found.good, told(found)


# ---- the same again ------------------------------------------------------------------------------------------------


def bytes_of(seed: int) -> list[bytes]:
    world = World(seed)
    kept: list[bytes] = []
    close, world.close = world.close, lambda: None
    try:
        assert not world.play().broken
        kept = world.bytes()
    finally:
        close()
    return kept


@pytest.mark.parametrize("seed", [3, 17, SQLITE_EVERY])
def test_a_seed_gives_the_same_journal_again(seed: int) -> None:
    first = bytes_of(seed)
    assert first == bytes_of(seed)
    assert first != bytes_of(seed + 1)


def test_a_seed_gives_the_same_journal_under_other_hashes() -> None:
    code = (
        "from flyball.testing.world import World\n"
        f"print([World(seed).play().digest for seed in {(5, 6, SQLITE_EVERY)}])"
    )
    runs_ = [
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": salt},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for salt in ("1", "2")
    ]
    assert runs_[0] == runs_[1]
    assert runs_[0] == f"{[World(seed).play().digest for seed in (5, 6, SQLITE_EVERY)]}\n"


# ---- it notices ----------------------------------------------------------------------------------------------------

Broken = Callable[[], dict[tuple[Any, str], Any]]


def no_gate() -> dict[tuple[Any, str], Any]:
    return {(decide, "_unproved"): lambda run: False, (decide, "_disproved"): lambda run: False}


def no_charge() -> dict[tuple[Any, str], Any]:
    return {(Batch, "_charge"): lambda self, before, event: None}


def any_answer() -> dict[tuple[Any, str], Any]:
    return {(letters, "_unanswerable"): lambda run, letter: ""}


def no_budget() -> dict[tuple[Any, str], Any]:
    return {(decide, "spent_up"): lambda run: None}


def two_drivers() -> dict[tuple[Any, str], Any]:
    acquire = MemoryJournal.acquire
    return {
        (MemoryJournal, "acquire"): lambda self, run, driver, alive: acquire(
            self, run, driver, lambda _: False
        )
    }


@pytest.mark.parametrize(
    ("broken", "law"),
    [
        (no_gate, "SYS-8"),
        (no_charge, "GUARD-4"),
        (any_answer, "HUMAN-2"),
        (no_budget, "GUARD-4"),
        (two_drivers, "SYS-15"),
    ],
)
def test_a_broken_rule_is_noticed(broken: Broken, law: str) -> None:
    places = broken()
    before = {place: getattr(*place) for place in places}
    try:
        for (where, name), rule in places.items():
            setattr(where, name, rule)
        assert law in {one.law for one in simulate(range(1, 25)).failed}
    finally:
        for (where, name), rule in before.items():
            setattr(where, name, rule)


def test_an_interruption_that_costs_a_turn_is_noticed() -> None:
    rule = runs._APPLY[e.ActInterrupted]
    try:
        runs._APPLY[e.ActInterrupted] = lambda run, event: replace(rule(run, event), turn=run.turn + 1)
        assert "SYS-5" in {one.law for one in simulate(range(1, 25)).failed}
    finally:
        runs._APPLY[e.ActInterrupted] = rule


# ---- the command -----------------------------------------------------------------------------------------------------


def flyball(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "flyball", "simulate", *args], capture_output=True, text=True
    )


def test_the_command_says_what_it_reached() -> None:
    said = flyball("--seeds", "3", "--json")
    facts = msgspec.json.decode(said.stdout)
    assert said.returncode == 0 and facts["good"] and facts["seeds"] == 3 and facts["events"] > 0
    assert [row["machine"] for row in facts["coverage"]] == ["build", "loop", "review", "task", "cto"]


def test_a_trace_tells_every_event() -> None:
    said = flyball("--seed", "4", "--machine", "loop", "--trace")
    world = World(4, "loop").play()
    assert said.returncode == 0
    assert [line for line in traced(world.lines) if line not in said.stdout] == []
    assert "virtual hours a minute" in said.stdout and "every law held" in said.stdout
