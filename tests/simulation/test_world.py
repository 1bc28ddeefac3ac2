"""The production code in seeded worlds: every law holds, and a seed is a journal, byte for byte."""

from __future__ import annotations

import os
import subprocess
import sys

import msgspec
import pytest

from flyball.lab.simulate.campaign import BY_LOT, Campaign, aim, aimed, simulate, traced
from flyball.lab.simulate.coverage import reach
from flyball.lab.simulate.fault_kinds import DOUBTS, FAULTS, WORLD
from flyball.lab.simulate.goals import goals_of, reach_of
from flyball.lab.simulate.world import SQLITE_EVERY, World
from flyball.machines import SHIPPED, shipped

SEEDS = 80
SAME = (5, 6, BY_LOT, SQLITE_EVERY, 301, 302, 303)  # aimed, by lot, on disk
ON_DISK = tuple(range(0, 10 * SQLITE_EVERY, SQLITE_EVERY))
ONCE_FAILED = [  # machine, seed: what it found
    ("", 8),  # a run taken over below another stayed taken over after the hand-back
    ("", 73),  # a hand-back before there was a checkout restored one that was not there
    ("cto", 1009),  # a message to a run that the message before had ended broke the driver
    ("cto", 1066),
    ("task", 1054),  # a cancelled child left a half-made turn in its parent's checkout
    ("cto", 1064),  # a child that ended while the guard asked about its change handed the change up
    ("cto", 1071),
    ("cto", 1073),
    ("loop", 1073),
    ("", 3008),
    ("", 323),  # a run that ends while a rollback is under way
    ("", 21682),  # a breakpoint in a phase without an act: each answer led straight back to it
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
    assert campaign.events > 30 * SEEDS


def test_the_worlds_are_full_of_trouble(campaign: Campaign) -> None:
    """A simulation in which nothing goes wrong shows nothing."""
    assert [name for name in FAULTS if not campaign.coverage.kinds[name]] == []
    assert {end.split()[0] for end, count in campaign.coverage.ends.items() if count} == {
        "success",
        "failure",
        "cancelled",
    }
    reached, there = reach("build", campaign.coverage).outcomes
    assert reached > there // 2


@pytest.mark.parametrize(("machine", "seed"), ONCE_FAILED)
def test_a_seed_that_once_failed_holds(machine: str, seed: int) -> None:
    found = simulate([seed], machine, by_lot=True)
    assert found.good, told(found)


def test_a_run_that_is_set_aside_is_not_resumed_past_its_lane() -> None:
    found = simulate([3863])  # it was, then given up before a crash, and never ended
    assert found.good, told(found)


def test_what_a_failing_disk_acknowledged_is_there() -> None:
    found = simulate(ON_DISK)
    assert found.good, told(found)


# ---- the same again ------------------------------------------------------------------------------------------------


def bytes_of(seed: int) -> list[bytes]:
    world = World(seed, goal=aim(seed))
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
        "from flyball.lab.simulate.campaign import aim\n"
        "from flyball.lab.simulate.world import World\n"
        f"print([World(seed, goal=aim(seed)).play().digest for seed in {SAME}])"
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
    assert runs_[0] == f"{[World(seed, goal=aim(seed)).play().digest for seed in SAME]}\n"


# ---- what is reached -----------------------------------------------------------------------------------------------


def test_what_is_aimed_for_is_reached() -> None:
    """A third of a machine's goals; all goals of all five machines are played in .ci/run."""
    found = simulate(range(len(goals_of("loop")) // 3), "loop")
    reached = reach("loop", found.coverage)
    assert found.good, told(found)
    assert reached.no_outcomes == () and reached.triples[0] * 2 > reached.triples[1]


@pytest.mark.parametrize("machine", SHIPPED)
def test_what_can_be_reached_is_of_the_table_as_it_is(machine: str) -> None:
    found = reach_of(machine)
    assert found.table == shipped(machine).digest, "run `make reach`"
    assert {state for state, _ in found.pairs} == {s.name for s in shipped(machine).states.values() if s.do}
    assert {fault for *_, fault in found.triples} <= {*FAULTS}


@pytest.mark.parametrize("fault", [*DOUBTS, *WORLD, "late answer", "second answer", "wrong answer"])
def test_a_world_lets_happen_what_its_goal_says(fault: str) -> None:
    aims = [(machine, goal) for machine, goal in goals_of("") if fault in goal.faults][:12]
    worlds = [(aim, World(seed, goal=aim).play()) for seed, aim in enumerate(aims)]
    assert [played.broken for _, played in worlds if played.broken] == []
    met = [
        (machine, goal.state, goal.outcome, fault) in played.coverage.triples
        for (machine, goal), played in worlds
    ]
    assert sum(met) * 2 > len(met), met


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
    world = World(4, "loop", aim(4, "loop")).play()
    assert said.returncode == 0 and said.stdout.startswith(f"seed 4: {aimed(4, 'loop')}\n")
    assert [line for line in traced(world.lines) if line not in said.stdout] == []
