"""What can be reached: every (state, outcome, fault) that `prove` finds, and the shortest path to each.

The exploration is that of `prove` (the production rules, every result, answer, crash and message), without its witness.
Faults that `prove` knows (what agents, proofs and people do, a lost act) are found on its paths. Faults that
only a world
has are reachable where a path leaves room for them: a disk, driver or clock fault wherever something is written between
entering a state and its outcome; an act in doubt wherever one with a process ends; an answer wherever one is given.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from msgspec import Struct, field
from msgspec.structs import replace

from flyball.domain import events as e, messages
from flyball.domain.machine import Machine
from flyball.lab.prove.key import key
from flyball.lab.prove.moves import Move, facts, moves
from flyball.lab.prove.premises import Premise, premises
from flyball.lab.prove.witness import first
from flyball.lab.simulate.fault_kinds import AGENTS, KEPT, PROOFS, WORLD, faults_of, outcome_of
from flyball.machines import SHIPPED, shipped
from flyball.state import fold as runs
from flyball.state.fold import BY_A_PERSON
from flyball.state.run import Run

ROOM = {  # what leaves room for faults that only a world has
    "an append": tuple(WORLD),
    "an act": ("act not begun", "act goes on", "act ended alone"),
    "act lost": ("act lost", "act orphaned"),
    "an answer": ("late answer", "second answer"),
    "a question": ("wrong answer",),
}
KNOWN = (*AGENTS, *PROOFS, "pause")  # what the paths of `prove` contain
BITS = {name: 1 << n for n, name in enumerate((*KNOWN, *ROOM))}
NEWS = (
    "finished",
    "interrupted",
    "below",
)  # what a driver receives, and continues from in the same transaction

Pair = tuple[str, str]  # state, outcome


class Route(Struct, frozen=True, array_like=True):
    """How to get somewhere: a premise, and which of the possible moves is made at each step."""

    premise: str
    steps: tuple[int, ...]


class Reachable(Struct):
    """What can be reached in one machine."""

    machine: str
    faults: dict[Pair, set[str]] = field(default_factory=dict[Pair, set[str]])
    ways: dict[tuple[str, str, str], Route] = field(
        default_factory=dict[tuple[str, str, str], Route]
    )  # "": any

    @property
    def triples(self) -> list[tuple[str, str, str]]:
        return [(*pair, fault) for pair in sorted(self.faults) for fault in sorted(self.faults[pair])]


class Edge(Struct, frozen=True):
    to: int
    step: int  # which move
    adds: int  # the faults, as bits, of the visit that continues after it
    keeps: bool  # it is the same visit as before
    outcomes: tuple[tuple[str, str, int, bool], ...]  # state, outcome, faults of this edge, with those before


def reachable(machine: Machine) -> Reachable:
    result = Reachable(machine.name)
    parents = [shipped(name) for name in SHIPPED]
    selected = premises(machine, parents)
    for premise in sorted(selected, key=lambda p: not p.owner):  # those that a world can reproduce come first
        _Explored(replace(premise, measures=True)).tell(result)
    return result


class _Explored:
    def __init__(self, premise: Premise) -> None:
        self.premise = premise
        run = runs.begin(premise.began())
        self.witness = first(run, premise)
        self.index = {key(run, self.witness, premise): 0}
        self.nodes: list[Run] = [run]
        self.came: list[tuple[int, int]] = [(0, -1)]
        self.edges: list[list[Edge]] = []
        node = 0
        while node < len(self.nodes):
            self.edges.append(list(self._expand(node)))
            node += 1
        self.mask = [0] * len(self.nodes)
        self.since: dict[tuple[int, int], tuple[int, int, bool]] = {}  # node, bit -> from, step, came with it
        self._spread()

    def _expand(self, node: int) -> Iterator[Edge]:
        run = self.nodes[node]
        if run.status == "ended":
            return
        for step, move in enumerate(moves(run, self.premise)):
            events = written(run, move) if _may_be(run, move) else []
            if events:
                yield self._edge(node, step, move, events)

    def _edge(self, node: int, step: int, move: Move, events: list[e.AnyEvent]) -> Edge:
        run = before = self.nodes[node]
        adds, keeps, outcomes = _room(run, move), True, list[tuple[str, str, int, bool]]()
        for fact in events:
            for name in faults_of(before, fact):
                adds |= BITS[name]
            outcome = outcome_of(before, fact)
            if outcome:
                outcomes.append((before.state, outcome, adds, keeps))
            if isinstance(fact, e.Moved):
                adds, keeps = 0, False
            before = runs.apply(before, fact)
        return Edge(self._add(before, node, step), step, adds, keeps, tuple(outcomes))

    def _add(self, run: Run, source: int, step: int) -> int:
        name = key(run, self.witness, self.premise)
        number = self.index.get(name)
        if number is None:
            number = self.index[name] = len(self.nodes)
            self.nodes.append(run)
            self.came.append((source, step))
        return number

    def _spread(self) -> None:
        """Faults of a visit stay with it until a transition starts another visit."""
        todo = deque(range(len(self.nodes)))
        while todo:
            node = todo.popleft()
            for edge in self.edges[node]:
                came = edge.adds | (self.mask[node] if edge.keeps else 0)
                fresh = came & ~self.mask[edge.to]
                if fresh:
                    self.mask[edge.to] |= fresh
                    todo.append(edge.to)
                    for bit in _bits(fresh):
                        self.since[edge.to, bit] = (node, edge.step, bool(edge.adds & bit))

    # ---- what was found ----

    def tell(self, result: Reachable) -> None:
        for node, steps in enumerate(self.edges):
            for edge in steps:
                for state, outcome, adds, keeps in edge.outcomes:
                    rooms = result.faults.setdefault((state, outcome), set())
                    self._way(result, (state, outcome, ""), (*self._path(node), edge.step))
                    for name, bit in BITS.items():
                        if adds & bit:
                            self._note(result, rooms, (state, outcome, name), (*self._path(node), edge.step))
                        elif keeps and self.mask[node] & bit:
                            self._note(
                                result, rooms, (state, outcome, name), (*self._path(node, bit), edge.step)
                            )

    def _note(
        self, result: Reachable, rooms: set[str], triple: tuple[str, str, str], steps: tuple[int, ...]
    ) -> None:
        rooms |= {*ROOM.get(triple[2], (triple[2],))}
        self._way(result, triple, steps)

    def _way(self, result: Reachable, triple: tuple[str, str, str], steps: tuple[int, ...]) -> None:
        if triple not in result.ways and self.premise.owner:
            result.ways[triple] = Route(self.premise.name, steps)

    def _path(self, node: int, bit: int = 0) -> tuple[int, ...]:
        steps: list[int] = []
        while bit:
            node, step, created = self.since[node, bit]
            steps.append(step)
            bit = 0 if created else bit
        while node:
            node, step = self.came[node]
            steps.append(step)
        return tuple(reversed(steps))


def _may_be(run: Run, move: Move) -> bool:
    """An act without a process cannot be lost: a new driver does it again. No world loses the files that acts need."""
    cut = next((fact for fact in move.events if isinstance(fact, e.ActInterrupted)), None)
    if cut is None or cut.reason == BY_A_PERSON:
        return True
    return not cut.gone and run.act is not None and run.act.do.partition(":")[0] in KEPT


def written(run: Run, move: Move) -> list[e.AnyEvent]:
    """The events of one transaction: a driver that receives something also writes what is due then."""
    events = facts(run, move)
    if move.kind not in NEWS or not events:
        return events
    after = runs.fold(run, events)
    return [*events, *facts(after, Move(says="", kind="due", at=move.at))]


def _room(run: Run, move: Move) -> int:
    """What may have happened between the previous transaction and this one."""
    room = BITS["an append"]
    if move.kind == "finished" and run.act and not run.act.child and run.act.do.partition(":")[0] in KEPT:
        room |= BITS["an act"]
    if run.question is not None:
        room |= BITS["a question"]
        room |= BITS["an answer"] if isinstance(move.message, messages.Answer) else 0
    return room


def _bits(mask: int) -> Iterable[int]:
    return (bit for bit in BITS.values() if mask & bit)
