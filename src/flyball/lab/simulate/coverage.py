"""What a simulation reached, compared with what can be reached: outcomes in states, faults in states, and both
together.

See `faults` for the faults and `reachable` for what can be reached; a child run counts for its own machine.
"""

from __future__ import annotations

from collections import Counter

from msgspec import Struct, field

from flyball.domain import events as e
from flyball.lab.simulate.fault_kinds import faults_of, outcome_of
from flyball.lab.simulate.goals import reach_of
from flyball.state.run import Run

Pair = tuple[str, str, str]  # machine, state, outcome or fault
Triple = tuple[str, str, str, str]  # machine, state, outcome, fault


class Coverage(Struct):
    outcomes: Counter[Pair] = field(default_factory=Counter[Pair])
    faults: Counter[Pair] = field(default_factory=Counter[Pair])
    triples: Counter[Triple] = field(default_factory=Counter[Triple])
    ends: Counter[str] = field(default_factory=Counter[str])
    kinds: Counter[str] = field(default_factory=Counter[str])

    def add(self, other: Coverage) -> None:
        self.outcomes.update(other.outcomes)
        self.faults.update(other.faults)
        self.triples.update(other.triples)
        self.ends.update(other.ends)
        self.kinds.update(other.kinds)

    def fault(self, name: str, run: Run) -> None:
        self.kinds[name] += 1
        self.faults[run.machine.name, run.state, name] += 1

    def add_event(self, before: Run, event: e.AnyEvent, visit: dict[str, None]) -> None:
        """An event of a run, and the faults of its visit so far; faults that the event shows are added to them."""
        for name in faults_of(before, event):
            self.fault(name, before)
            visit[name] = None
        outcome = outcome_of(before, event)
        if outcome:
            machine, state = before.machine.name, before.state
            self.outcomes[machine, state, outcome] += 1
            for name in visit:
                self.triples[machine, state, outcome, name] += 1


class CoverageShare(Struct, frozen=True):
    """How much of a machine was reached, of how much there is, and what was not reached."""

    machine: str
    outcomes: tuple[int, int]
    faults: tuple[int, int]
    triples: tuple[int, int]
    no_outcomes: tuple[Pair, ...]
    no_faults: tuple[Pair, ...]
    no_triples: tuple[Triple, ...]

    @property
    def share(self) -> float:
        return self.triples[0] / self.triples[1] if self.triples[1] else 1.0


def reach(name: str, coverage: Coverage) -> CoverageShare:
    there = reach_of(name)
    triples = [(name, *triple) for triple in there.triples]
    faults = dict.fromkeys((name, state, fault) for _, state, _, fault in triples)
    no_outcomes = tuple((name, *pair) for pair in there.pairs if (name, *pair) not in coverage.outcomes)
    no_faults = tuple(pair for pair in faults if pair not in coverage.faults)
    no_triples = tuple(triple for triple in triples if triple not in coverage.triples)
    return CoverageShare(
        name,
        (len(there.pairs) - len(no_outcomes), len(there.pairs)),
        (len(faults) - len(no_faults), len(faults)),
        (len(triples) - len(no_triples), len(triples)),
        no_outcomes,
        no_faults,
        no_triples,
    )
