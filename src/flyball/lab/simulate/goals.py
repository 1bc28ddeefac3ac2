"""What seeds aim for: a goal each, with the path to it and the faults to cause there.

`reach/MACHINE.json` holds what `reachable` finds for each shipped machine, so that a seed needs no exploration. It is
written by `python -m flyball.lab.simulate.goals`; a test fails if it no longer is what `prove` finds.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from importlib import resources
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from flyball.lab.simulate.fault_kinds import FAULTS
from flyball.lab.simulate.reachable import KNOWN, ROOM, Reachable, Route, reachable
from flyball.machines import SHIPPED, shipped

CRASHING = (  # faults after which another driver continues: several of them fit into one visit
    *("crash before write", "crash after write", "killed", "power cut", "write fails", "sync fails"),
    *(
        "disk full",
        "taken for dead",
        "zombie",
        *(fault for room in ("an act", "act lost") for fault in ROOM[room]),
    ),
)
CRASHES, OTHERS = 2, 3  # of those, how many go with one goal


class Goal(Struct, frozen=True, array_like=True):
    """This outcome in this state, by this path; and the faults to cause while the run is in the state."""

    state: str
    outcome: str
    way: Route
    faults: tuple[str, ...] = ()


class Reach(Struct, frozen=True):
    """What can be reached in one machine, and the goals that lead there."""

    machine: str
    table: str  # the digest of its table
    faults: dict[str, dict[str, tuple[str, ...]]]  # state -> outcome -> faults
    goals: tuple[Goal, ...]

    @property
    def pairs(self) -> list[tuple[str, str]]:
        return [(state, outcome) for state, outcomes in self.faults.items() for outcome in outcomes]

    @property
    def triples(self) -> list[tuple[str, str, str]]:
        return [(state, outcome, f) for state, outcome in self.pairs for f in self.faults[state][outcome]]


@cache
def reach_of(machine: str) -> Reach:
    resource = resources.files("flyball.lab.simulate").joinpath("reach", f"{machine}.json")
    return msgspec.json.decode(resource.read_bytes(), type=Reach)


@cache
def goals_of(machine: str) -> tuple[tuple[str, Goal], ...]:
    """(machine, goal); if no machine is named, those of all machines, mixed."""
    pairs = [(name, goal) for name in ([machine] if machine else SHIPPED) for goal in reach_of(name).goals]
    return tuple(sorted(pairs, key=_mixed))


def _mixed(pair: tuple[str, Goal]) -> str:
    return hashlib.sha256(msgspec.json.encode(pair)).hexdigest()


# ---- making them -----------------------------------------------------------------------------------------------------


def made(reachable_states: Reachable) -> Reach:
    faults: dict[str, dict[str, tuple[str, ...]]] = {}
    for (state, outcome), names in sorted(reachable_states.faults.items()):
        faults.setdefault(state, {})[outcome] = tuple(name for name in FAULTS if name in names)
    goals = [goal for pair in sorted(reachable_states.faults) for goal in _goals(reachable_states, *pair)]
    return Reach(reachable_states.machine, shipped(reachable_states.machine).digest, faults, tuple(goals))


def _goals(reachable_states: Reachable, state: str, outcome: str) -> Iterator[Goal]:
    """A goal for each path to this pair, and more of them until each fault is part of one."""
    ways = {name: reachable_states.ways.get((state, outcome, name)) for name in ("", *KNOWN, *ROOM)}
    there = dict.fromkeys(way for way in ways.values() if way)
    todo = {
        room: list(ROOM[room]) if room in _rooms(reachable_states, state, outcome) else [] for room in ROOM
    }
    for way in there:
        fits = [room for room in ROOM if _fits(ways, room, way)]
        yield Goal(state, outcome, way, tuple(_taken(todo, fits)))
    for room, way in ((room, ways[room]) for room in ROOM):
        while way and todo[room]:
            yield Goal(state, outcome, way, tuple(_taken(todo, [room])))


def _rooms(reachable_states: Reachable, state: str, outcome: str) -> list[str]:
    return [room for room, names in ROOM.items() if {*names} & reachable_states.faults[state, outcome]]


def _fits(ways: dict[str, Route | None], room: str, way: Route) -> bool:
    """Whether this path is known to allow these faults: the path that was found for them does, and so does a
    longer one.
    """
    shortest = ways[room]
    return shortest is not None and (
        way == shortest or (room == "an append" and len(way.steps) > len(shortest.steps))
    )


def _taken(todo: dict[str, list[str]], rooms: Iterable[str]) -> Iterator[str]:
    crashes, others = CRASHES, OTHERS
    for room in rooms:
        for fault in list(todo[room]):
            remaining = crashes if fault in CRASHING else others
            if not remaining:
                continue
            crashes, others = crashes - (fault in CRASHING), others - (fault not in CRASHING)
            todo[room].remove(fault)
            yield fault


def text_of(machine: str) -> bytes:
    """One goal in each line, so that a diff shows what changed."""
    reach = made(reachable(shipped(machine)))
    head = msgspec.json.encode(replace(reach, goals=())).removesuffix(b"[]}")
    return head + b"[\n" + b",\n".join(msgspec.json.encode(goal) for goal in reach.goals) + b"\n]}\n"


def main(args: Sequence[str]) -> int:
    """Write them; with `--check` only say which are no longer what `prove` finds."""
    folder, stale = Path(__file__).parent / "reach", list[str]()
    for name in SHIPPED:
        path, text = folder / f"{name}.json", text_of(name)
        if "--check" not in args:
            path.write_bytes(text)
        elif path.read_bytes() != text:
            stale.append(path.name)
    if stale:
        sys.stderr.write(f"{', '.join(stale)}: no longer what `flyball prove` finds. Run `make reach`.\n")
    return 1 if stale else 0


__all__ = ["Goal", "Reach", "goals_of", "made", "reach_of"]

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
