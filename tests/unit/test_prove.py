"""`flyball prove`: what it explores, what it prints, and that its abstractions do not hide anything."""

from __future__ import annotations

import json
import tomllib
from functools import cache
from pathlib import Path

import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from flyball.cli.prove import as_text, facts, prove as command
from flyball.domain.machine import Machine, edges, parse
from flyball.errors import MachineFault
from flyball.lab.prove import Broken, Proof, Step, explore, premises, prove
from flyball.lab.prove.key import FIELDS, READ, UNREAD
from flyball.lab.prove.premises import at_own_limits
from flyball.machines import shipped
from flyball.state.run import Run

OWN = """
name = "mine"
start = "work"

[states]
work = { do = "agent:coder", on = { written = "look" } }
look = { do = "agent:critic", on = { accepted = "done", rejected = "work", unproven = "work" } }
done = { end = "success" }

[anywhere]
on = { blocked = "@blocked", exhausted = "@fail", timeout = "@fail", error = "@fail", cancel = "@cancel" }

[most]
turns = 2
"""
FEW = {  # the premises that take every transition; all of them, and the other two machines: `flyball prove`, in .ci/run
    "loop": ("every result", "cooldown", "errors and failing tests"),
    "build": ("every result", "crashes", "tests not required", "write by a loop", "tokens"),
    "review": ("every result", "take-over", "consensus", "findings"),
}


def mine(**changes: str) -> Machine:
    text = OWN
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    return parse(tomllib.loads(text))


@cache
def own() -> Proof:
    return prove(mine())


# ---- the machines that ship ------------------------------------------------------------------------------------


@pytest.mark.sampled(0)
@pytest.mark.parametrize("name", FEW)
def test_every_law_holds_of_the_machines_that_ship(name: str) -> None:
    """Every transition of the table is taken: a law about one that is never taken would hold of anything."""
    proof = prove(shipped(name), only=FEW[name])
    assert proof.broken is None
    assert proof.states > 10_000
    assert set(edges(shipped(name))) - proof.taken == set()


@pytest.mark.sampled(0)
def test_the_longest_way_is_from_the_start_and_made_of_results_that_go_on() -> None:
    """So the bound, measured that way at a machine's own limits, is the bound of everything."""
    machine = shipped("review")
    everything, *_ = premises(machine)
    short = replace(everything, results="onward", measures=True)
    assert explore(short, from_start=True).bound == explore(everything).bound


def test_the_bound_grows_with_the_limits() -> None:
    machine = shipped("review")
    large = explore(at_own_limits(machine, {}), from_start=True).bound
    halved = replace(machine, most={"iterations": 5})
    table = {**machine.table, "most": {"iterations": 5}}
    small = explore(at_own_limits(replace(halved, table=table), {}), from_start=True).bound
    assert large == 2 * small > 0


@pytest.mark.sampled(0)
def test_the_bound_of_a_run_below_multiplies() -> None:
    inner = mine()
    outer = parse(
        tomllib.loads(
            OWN.replace("mine", "outer").replace(
                '"agent:coder", on = { written', '"run:mine", on = { success'
            )
        )
    )
    alone, around = own(), prove(outer, find=lambda name: inner)
    assert around.holds
    assert around.below["mine"] > alone.bound // 2
    assert around.bound > around.below["mine"]


# ---- a user's own machine --------------------------------------------------------------------------------------


def test_a_machine_of_ones_own_is_proved() -> None:
    proof = own()
    assert proof.broken is None
    assert "ALO-1" in proof.laws
    assert "PAIR-1" not in proof.laws
    assert proof.bound >= 2


def test_a_machine_that_turns_for_ever_is_shown_going_round() -> None:
    proof = prove(mine(**{"turns = 2": "no_progress = 3"}), only=["crashes"])
    assert proof.broken is not None
    assert proof.broken.law == "BOUND"
    assert {step.state for step in proof.broken.steps[-4:]} == {"work", "look"}


def test_a_machine_that_runs_itself_has_no_bound() -> None:
    machine = mine(**{'"agent:coder", on = { written': '"run:mine", on = { success'})
    proof = prove(machine, find=lambda name: machine)
    assert proof.broken is not None
    assert (proof.broken.law, "mine → mine" in proof.broken.says) == ("BOUND", True)


def test_a_state_that_waits_for_a_trigger_is_no_dead_end() -> None:
    machine = mine(
        **{
            '"agent:coder", on = { written': '"listen", on = { written',
            'name = "mine"': 'name = "mine"\nstanding = true',
        }
    )
    assert prove(machine, only=["crashes"]).holds


# ---- the abstraction -------------------------------------------------------------------------------------------


def test_every_field_that_the_key_speaks_of_is_a_field_of_the_run() -> None:
    """A field that is renamed must not silently drop out of the key."""
    assert {*READ, *UNREAD} <= set(FIELDS) and {name.partition(".")[0] for name in FIELDS} == set(
        Run.__struct_fields__
    )
    assert not {*READ} & {*UNREAD}


def test_an_exploration_finds_the_same_each_time() -> None:
    premise = premises(shipped("review"))[1]
    assert explore(premise) == explore(premise)


def test_an_unknown_premise_is_refused() -> None:
    with pytest.raises(ValueError, match="no premise"):
        prove(mine(), only=["nothing"])


# ---- the command -----------------------------------------------------------------------------------------------


def test_the_command_prints_states_laws_and_the_bound(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(OWN)
    said = CliRunner().invoke(command, [str(file)])
    assert said.exit_code == 0, said.output
    first, laws, bound = said.output.splitlines()
    assert first.startswith("mine: ") and "ALO-1" in laws and "4 turns" in bound


def test_the_command_prints_facts_for_programs(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(OWN)
    said = CliRunner().invoke(command, [str(file), "--json"])
    (fact,) = json.loads(said.output)
    assert (fact["machine"], fact["holds"], fact["counterexample"]) == ("mine", True, None)
    assert fact["states"] > 100
    assert sum(p["transitions"] for p in fact["premises"]) == fact["transitions"]


def test_a_file_with_a_fault_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "bad.toml"
    file.write_text(OWN.replace('start = "work"', 'start = "nowhere"'))
    said = CliRunner().invoke(command, [str(file)])
    assert isinstance(said.exception, MachineFault)


def test_a_counterexample_is_a_table_of_steps() -> None:
    step = Step("the guard denies", ("ruled deny radius",), "work", "running")
    proof = Proof("mine", ("ALO-9",), (), broken=Broken("ALO-9", "a deny goes on", "every result", (step,)))
    said = list(as_text(mine(), proof, 0.1))
    assert said[0].startswith("mine: ALO-9 ") and "0 states" in said[0]
    assert said[-1].split() == ["1", "the", "guard", "denies", "work", "running", "ruled", "deny", "radius"]
    told = facts(mine(), proof, 0.1)["counterexample"]
    assert told["steps"][0]["facts"] == ["ruled deny radius"]
