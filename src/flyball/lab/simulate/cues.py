"""The path to a goal, as cues: what the result of which act must be, what people must say, and when the driver
must die.

A path is a list of moves that `prove` found. It is replayed by the production rules, without a world, to see what each
move was; what happens by itself needs no cue.
"""

from __future__ import annotations

from functools import cache
from itertools import islice

from msgspec import Struct

from flyball.domain import events as e
from flyball.lab.prove.moves import Move, moves
from flyball.lab.prove.premises import Premise, premises
from flyball.lab.simulate.goals import Goal
from flyball.lab.simulate.reachable import written
from flyball.machines import SHIPPED, shipped
from flyball.state import fold as runs
from flyball.state.fold import BY_A_PERSON
from flyball.state.run import Run


class Cue(Struct, frozen=True):
    """One thing that must happen next."""

    kind: str  # finished | message | outcome | lost
    move: Move
    at: int  # the model's time
    do: str = ""  # of the act in flight
    why: str = ""
    tree: str = ""  # its name in the model


class Script(Struct, frozen=True):
    premise: Premise
    cues: tuple[Cue, ...]
    visit: int  # from this cue on the run is in the goal's state


def script_for(machine: str, goal: Goal) -> Script:
    premise = _premises(machine)[goal.way.premise]
    run, cues, visit = runs.begin(premise.began()), list[Cue](), 0
    for number, step in enumerate(goal.way.steps, 1):
        move = next(islice(moves(run, premise), step, None), None)
        if move is None:  # the rules have changed since the path was found
            break
        cue = _cue(run, move)
        cues += [cue] if cue else []
        events = written(run, move)
        run = runs.fold(run, events)
        if number < len(goal.way.steps) and any(isinstance(fact, e.Moved) for fact in events):
            visit = len(cues)
    return Script(premise, tuple(cues), visit)


@cache
def _premises(machine: str) -> dict[str, Premise]:
    parents = [shipped(name) for name in SHIPPED]
    return {premise.name: premise for premise in premises(shipped(machine), parents)}


def _cue(run: Run, move: Move) -> Cue | None:
    act = run.act
    match move.kind:
        case "finished" if act is not None:
            return Cue("finished", move, run.at, act.do, act.why, act.tree)
        case "interrupted" if act is not None and not _by_a_person(move):
            return Cue("lost", move, run.at, act.do, act.why, act.tree)
        case "message" | "outcome":
            return Cue(move.kind, move, run.at)
        case _:
            return None


def _by_a_person(move: Move) -> bool:
    return any(isinstance(fact, e.ActInterrupted) and fact.reason == BY_A_PERSON for fact in move.events)
