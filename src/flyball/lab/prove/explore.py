"""Breadth first through everything that may happen, so the first violation found has the shortest path."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from flyball.core import decide, mail
from flyball.core.decide import Rest
from flyball.domain import events as e, messages
from flyball.errors import UserError
from flyball.lab.prove import graphs, laws
from flyball.lab.prove.after_end import wrong_landing
from flyball.lab.prove.key import key
from flyball.lab.prove.moves import Move, facts, moves
from flyball.lab.prove.premises import Premise
from flyball.lab.prove.witness import Witness, after_event, first
from flyball.state import fold as runs
from flyball.state.run import Run
from flyball.views.run_view import Timeline

LARGEST = 200_000  # states; a machine with more is too large to be explored


class Step(Struct, frozen=True):
    """One line of a counterexample."""

    says: str
    facts: tuple[str, ...]
    state: str
    status: str


class Broken(Struct, frozen=True):
    """A law that does not hold, and the shortest path to the violation."""

    law: str
    says: str
    premise: str
    steps: tuple[Step, ...] = ()


class Exploration(Struct, frozen=True):
    premise: str
    states: int
    transitions: int
    bound: int = 0  # turns between two waits, at most
    taken: frozenset[tuple[str, str]] = frozenset()  # the transitions between states
    broken: Broken | None = None


class _Breach(Exception):
    """A law is broken in the current step."""

    def __init__(self, law: str, says: str) -> None:
        super().__init__(says)
        self.law, self.says = law, says


class Graph:
    """What was reached, each node with the way by which it was reached first."""

    def __init__(self, premise: Premise) -> None:
        self.premise = premise
        self.index: dict[tuple[Any, ...], int] = {}
        self.nodes: list[tuple[Run, Witness]] = []
        self.reached: list[tuple[int, Move | None]] = []
        self.depth: list[int] = []
        self.edges: list[list[tuple[int, int]]] = []  # (to, turns)
        self.transitions = 0
        self.taken: set[tuple[str, str]] = set()

    def add(self, run: Run, witness: Witness, source: int, move: Move | None) -> int:
        name = key(run, witness, self.premise)
        existing = self.index.get(name)
        if existing is not None:
            return existing
        self.index[name] = len(self.nodes)
        self.nodes.append((run, witness))
        self.reached.append((source, move))
        self.depth.append(self.depth[source] + 1 if move else 0)
        self.edges.append([])
        return len(self.nodes) - 1

    def join(
        self, source: int, move: Move, run: Run, witness: Witness, facts: list[e.AnyEvent], turns: int
    ) -> None:
        self.transitions += 1
        self.edges[source].append((self.add(run, witness, source, move), turns))
        self.taken.update((fact.source, fact.target) for fact in facts if isinstance(fact, e.Moved))

    def path(self, node: int) -> list[Move]:
        moves: list[Move] = []
        while True:
            node, move = self.reached[node]
            if move is None:
                return moves[::-1]
            moves.append(move)


def explore(premise: Premise, within: int | None = None, from_start: bool = False) -> Exploration:
    """Everything within that many steps (None: everything), or only what comes before the first wait."""
    graph = Graph(premise)
    run = runs.begin(premise.began())
    graph.add(run, first(run, premise), 0, None)
    node = 0
    while node < len(graph.nodes):
        if within is not None and graph.depth[node] >= within:
            break
        if len(graph.nodes) > LARGEST:
            raise UserError(_too_large(premise))
        breach = None if from_start and _stays(graph.nodes[node][0]) else _expand(graph, node)
        if breach:
            return _explored(graph, broken=breach)
        node += 1
    return _measured(graph, from_start) if within is None else _explored(graph)


def _too_large(premise: Premise) -> str:
    return (
        f"'{premise.machine.name}' has more than {LARGEST} states under '{premise.name}'. "
        "Split it, or run a part of it as a machine of its own."
    )


def _stays(run: Run) -> bool:
    return waits(run) and (not listens(run) or run.turns > 0)


def _explored(graph: Graph, bound: int = 0, broken: Broken | None = None) -> Exploration:
    transitions = frozenset(graph.taken)
    return Exploration(graph.premise.name, len(graph.nodes), graph.transitions, bound, transitions, broken)


def _expand(graph: Graph, node: int) -> Broken | None:
    run, witness = graph.nodes[node]
    move: Move | None = None
    ways = 0
    try:
        if run.status == "ended":
            _rests(run)
            if wrong := wrong_landing(run):
                raise _Breach("HUMAN-3", wrong)
            return None
        for move in moves(run, graph.premise):
            step = take(graph.premise, run, witness, move)
            if step is not None:
                graph.join(node, move, *step, _turns(graph.premise, run, move))
                ways += int(not isinstance(move.message, messages.Ask))
        if not ways:
            raise _Breach("SYS-1", f"nothing leads on from '{run.state}' ({run.status})")
        return None
    except _Breach as breach:
        return _counterexample(graph, node, move, breach.law, breach.says)
    except RecursionError:
        return _counterexample(graph, node, move, "SYS-3", "the rules turn in a circle")
    except Exception as problem:  # any exception in the rules is a counterexample
        return _counterexample(graph, node, move, _law_of(problem), f"{type(problem).__name__}: {problem}")


def _law_of(problem: Exception) -> str:
    return "SYS-2" if type(problem).__name__ == "InvalidTransition" else "SYS-3"


def _rests(run: Run) -> None:
    """An ended run does nothing more."""
    if decide.due(run, run.at + 1) != Rest():
        raise _Breach("HUMAN-3", "something is due in a run that has ended")
    for what in ("pause", "cancel"):
        events = mail.hear(run, messages.encode(messages.Ask(what=what)), 1, run.at + 1)
        if not all(isinstance(fact, e.LetterRefused) for fact in events):
            raise _Breach("HUMAN-3", f"'{what}' does something to a run that has ended")


def take(
    premise: Premise, run: Run, witness: Witness, move: Move
) -> tuple[Run, Witness, list[e.AnyEvent]] | None:
    """The run and the witness after this move, and its events, with every law checked; None: the move has no effect."""
    events = facts(run, move)
    if not events:
        return None
    if premise.measures:
        return runs.fold(run, events), witness, events
    truth = move.finished.result if move.finished else None
    after, now = run, witness
    for fact in events:
        before, was = after, now
        after = runs.apply(before, fact)
        now = after_event(was, before, fact, truth, premise)
        breach = laws.broken(laws.Observation(premise, before, fact, after, was, now))
        if breach:
            raise _Breach(*breach)
    breach = laws.step_breaks(run, move, events, after, now)
    if breach:
        raise _Breach(*breach)
    return after, now, events


def _turns(premise: Premise, run: Run, move: Move) -> int:
    """Agent turns in this move; a child run takes as many as its own bound says."""
    result = move.finished.result if move.finished else None
    if isinstance(result, e.ChildEnded) and run.act is not None:
        return premise.below.get(run.act.role, 1)
    return int(isinstance(result, e.TurnEnded))


# ---- what only the whole graph shows ---------------------------------------------------------------------------------


def waits(run: Run) -> bool:
    """Whether it waits for a person, a trigger or a limit, or has ended."""
    return run.status != "running" or (run.act is None and run.here.act in ("listen", "wait"))


def _measured(graph: Graph, from_start: bool) -> Exploration:
    dead_end = None if from_start else _no_way_out(graph)
    if dead_end is not None:
        return _explored(
            graph, broken=_counterexample(graph, dead_end, None, "SYS-1", "from here no end can be reached")
        )
    order, loose = _sorted(graph)
    if loose:
        return _explored(graph, broken=_circle(graph, loose))
    longest = [0] * len(graph.nodes)
    for node in reversed(order):
        steps = graph.edges[node] if not waits(graph.nodes[node][0]) else ()
        longest[node] = max((turns + longest[there] for there, turns in steps), default=0)
    return _explored(graph, bound=max(longest))


def _no_way_out(graph: Graph) -> int | None:
    """The first node from which neither an end (except by cancelling) nor a wait for a trigger can be reached."""
    good = {n for n, (run, _) in enumerate(graph.nodes) if run.end or listens(run)}
    return graphs.lost([[there for there, _ in steps] for steps in graph.edges], good)


def listens(run: Run) -> bool:
    return run.machine.standing and run.here.act == "listen"


def _sorted(graph: Graph) -> tuple[list[int], list[int]]:
    """In the order of the steps between waits."""
    return graphs.in_order(
        [
            [there for there, _ in steps] if not waits(graph.nodes[node][0]) else []
            for node, steps in enumerate(graph.edges)
        ]
    )


def _circle(graph: Graph, loose: list[int]) -> Broken:
    """The shortest cycle through the first node that is in one."""
    inside = {n for n in loose if not waits(graph.nodes[n][0])}
    for start in sorted(inside, key=lambda n: graph.depth[n]):
        way = _back_to(graph, start, inside)
        if way:
            return _counterexample(graph, start, None, "BOUND", "it goes round for ever without a wait", way)
    return _counterexample(graph, loose[0], None, "BOUND", "it goes round for ever without a wait")


def _back_to(graph: Graph, start: int, inside: set[int]) -> list[int]:
    came: dict[int, int] = {}
    todo = [start]
    for node in todo:
        for there, _ in graph.edges[node]:
            if there == start:
                return _way(came, start, node)
            if there in inside and there not in came:
                came[there] = node
                todo.append(there)
    return []


def _way(came: dict[int, int], start: int, node: int) -> list[int]:
    way = [start]
    while node != start:
        way.insert(0, node)
        node = came[node]
    return way


# ---- a counterexample --------------------------------------------------------------------------------------------------


def _counterexample(
    graph: Graph, node: int, last: Move | None, law: str, says: str, way: Iterable[int] = ()
) -> Broken:
    steps = _replayed(graph, [*graph.path(node), *([last] if last else [])])
    return Broken(law, says, graph.premise.name, (*steps, *_round(graph, node, way)))


def _replayed(graph: Graph, path: list[Move]) -> list[Step]:
    run, steps = graph.nodes[0][0], list[Step]()
    for move in path:
        run, step = _line(run, move)
        steps.append(step)
    return steps


def _line(run: Run, move: Move) -> tuple[Run, Step]:
    words: list[str] = []
    try:
        for fact in facts(run, move):
            words.append(brief(run, fact))
            run = runs.apply(run, fact)
    except Exception as problem:  # the violation itself
        words.append(f"({type(problem).__name__})")
    return run, Step(move.says, tuple(words), run.state, run.status)


def _round(graph: Graph, node: int, way: Iterable[int]) -> list[Step]:
    steps: list[Step] = []
    for there in way:
        run, witness = graph.nodes[node]
        move = next(m for m in moves(run, graph.premise) if _leads(graph, run, witness, m, there))
        steps.append(_line(run, move)[1])
        node = there
    return steps


def _leads(graph: Graph, run: Run, witness: Witness, move: Move, there: int) -> bool:
    step = take(graph.premise, run, witness, move)
    return step is not None and graph.index.get(key(step[0], step[1], graph.premise)) == there


def brief(run: Run, fact: e.AnyEvent) -> str:
    """An event in words; `run` is the run before it."""
    timeline = Timeline()
    timeline.add(run)
    return timeline.line(run.id, fact).text
