"""No name decides anything: the five machines with every state and machine renamed behave as they did."""

from __future__ import annotations

from random import Random
from typing import Any, cast

import pytest
from msgspec.structs import replace
from test_core import Chance, holds, lived, tuned

from flyball.domain import events as e
from flyball.domain.faults import faults
from flyball.domain.machine import parse
from flyball.machines import SHIPPED, shipped
from flyball.state.fold import begin
from flyball.state.run import Run
from flyball.views.loop_status import circuit
from flyball.views.run_view import summary
from support import Played, begun


def state(name: str) -> str:
    return f"x{name[::-1]}"


def machine(name: str) -> str:
    return f"my-{name}"


def _target(target: str) -> str:
    return target if target.startswith(("@", "any:")) else state(target)


def _line(line: dict[str, Any]) -> dict[str, Any]:
    new = dict(line)
    for key in ("do", "loop"):
        if str(new.get(key, "")).startswith("run:"):
            new[key] = "run:" + machine(new[key][4:])
    if "on" in new:
        new["on"] = {outcome: _target(target) for outcome, target in new["on"].items()}
    if "start" in new.get("with", {}):
        new["with"] = {**new["with"], "start": state(new["with"]["start"])}
    return new


def renamed(table: dict[str, Any]) -> dict[str, Any]:
    """The same table, with other names for its states, its machine and the machines it runs."""
    new = {**table, "name": machine(table["name"]), "start": state(table["start"])}
    new["states"] = {state(name): _line(line) for name, line in table["states"].items()}
    for key in ("groups", "within", "alert", "actors", "run_states"):
        if key in table:
            new[key] = {k: [state(name) for name in names] for k, names in table[key].items()}
    if "iteration" in table:
        new["iteration"] = state(table["iteration"])
    if "from" in table:
        new["from"] = {group: _line(line) for group, line in table["from"].items()}
    new["anywhere"] = _line(table["anywhere"])
    known = table["states"]
    new["most"] = {state(key) if key in known else key: most for key, most in table["most"].items()}
    return new


class Renamed(Chance):
    """Chance that speaks of the renamed states."""

    def claim(self, run: Run) -> e.Claim:
        said = super().claim(run)
        named = said.data.get("state")
        return replace(said, data={**said.data, "state": state(named)}) if isinstance(named, str) else said


def behaviour(played: Played, name: Any, of: Any) -> list[Any]:
    """Everything that was decided, names aside."""
    facts: list[Any] = []
    for event in played.events[1:]:
        match event:
            case e.Moved():
                actor = of(event.actor) if event.actor in SHIPPED else event.actor
                facts.append((name(event.source), name(event.target), event.outcome, actor))
            case e.Stopped() | e.Ended():
                asked = event.question if isinstance(event, e.Stopped) else None
                threshold = event.stop.threshold
                threshold = name(threshold) if threshold in played.run.machine.states else threshold
                facts.append((event.stop.code, threshold, asked.verbs if asked else ()))
            case e.ActStarted():
                kind, _, what = event.act.do.partition(":")
                facts.append((kind, of(what) if kind == "run" else what, event.act.why, event.act.wall_us))
            case _:
                facts.append(e.kind(event))
    shown = summary(played.run).get("run_state")
    return [*facts, circuit(played.run), shown, played.run.turns, played.run.iteration]


@pytest.mark.parametrize("name", SHIPPED)
def test_a_renamed_machine_has_no_fault(name: str) -> None:
    assert faults(parse(renamed(shipped(name).table))) == []


@pytest.mark.sampled(40)
@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("name", SHIPPED)
def test_a_renamed_machine_behaves_as_it_did(name: str, seed: int) -> None:
    given = tuned(Random(seed))
    table, now = shipped(name).table, seed % 3 == 0
    options = cast("dict[str, Any]", {"owner": False, "tree": "base"} if now else {})
    if name == "cto":
        options["start"] = "PLANNING"
    one = lived(begun(table, given, **options), seed)
    other = replace(given, breakpoints=tuple(state(n) for n in given.breakpoints))
    options |= {"start": state(options["start"])} if "start" in options else {}
    two = lived(begun(renamed(table), other, **options), seed, chance=Renamed)
    holds(two)
    assert behaviour(one, state, machine) == behaviour(two, str, str)


@pytest.mark.parametrize("name", [name for name in SHIPPED if name != "cto"])
def test_a_table_of_the_first_rules_behaves_as_the_shipped_one(name: str) -> None:
    """Its journal could not say yet what code knew by name; `old_tables` says it."""
    new = ("loop", "counts", "circuit", "checks", "called_by")
    table = {k: v for k, v in shipped(name).table.items() if k not in ("actors", "run_states")}
    table["states"] = {
        key: {k: v for k, v in line.items() if k not in new} for key, line in table["states"].items()
    }
    for seed in range(20):
        given = tuned(Random(seed))
        one, two = (
            lived(event, seed) for event in (begun(shipped(name), given), begun(table, given, rules="1"))
        )
        assert behaviour(one, str, str) == behaviour(two, str, str)


def test_a_table_of_today_is_taken_at_its_word() -> None:
    table = {**shipped("cto").table, "supervises": False}
    assert begin(begun(table, rules="1")).machine.supervises and not begin(begun(table)).machine.supervises
