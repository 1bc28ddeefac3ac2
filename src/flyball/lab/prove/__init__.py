"""`prove(machine)`: every reachable state of a machine, with the production rules, under everything that may happen.

The production rules (`due`, `react`, `hear`, `wake`, `apply`) are run on every result of every act, every
answer to every
question, a crash at every act, and a message at every point. Limits are small (two shows what ten would), trees are
symbols, and runs that no rule can tell apart are merged (see `key`). A child run is treated as an act that
ends, stops and
continues in every possible way: its own machine is proved separately (`run:M` counts as many turns as M's bound).
Then each machine is proved again together with each machine that it runs, both with their real rules (see `pairs`).

For what is not combined, see `premises` (one dimension at a time) and `results` (one deviation in each turn).

The bound is measured with the machine's own limits, from the start to the first wait, in agent turns. A turn
whose context
overflowed counts here, though it costs the run no turn; one that was ended by a limit does not, because the run
then waits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec import Struct
from msgspec.structs import replace

from flyball.domain.machine import Machine, State
from flyball.lab.prove import pairs
from flyball.lab.prove.explore import Broken, Exploration, Step, explore
from flyball.lab.prove.laws import LAWS, laws_of
from flyball.lab.prove.premises import Premise, at_own_limits, premises
from flyball.machines import SHIPPED, shipped

Find = Callable[[str], Machine]


class Proof(Struct, frozen=True):
    """What was explored of one machine, and the result."""

    machine: str
    laws: tuple[str, ...]
    explored: tuple[Exploration, ...]
    bound: int = 0  # turns between two waits, at the machine's own limits
    below: dict[str, int] = {}  # the bound of a run below, by its machine; it is in `bound` already
    broken: Broken | None = None

    @property
    def holds(self) -> bool:
        return self.broken is None

    @property
    def states(self) -> int:
        return sum(part.states for part in self.explored)

    @property
    def taken(self) -> frozenset[tuple[str, str]]:
        """The transitions of the table that occurred; no rule takes the others yet."""
        return frozenset[tuple[str, str]]().union(*(part.taken for part in self.explored))

    @property
    def transitions(self) -> int:
        return sum(part.transitions for part in self.explored)


def prove(machine: Machine, find: Find = shipped, only: Iterable[str] = ()) -> Proof:
    """Explore every premise (or only those named in `only`); report the shortest counterexample."""
    selected = [p for p in premises(machine, _parents()) if not only or p.name in only]
    nested = [two for two in _pairs(machine, find) if not only or two.name in only]
    if not selected and not nested:
        raise ValueError(f"no premise of '{machine.name}' is called {', '.join(only)}")
    explored: list[Exploration] = []
    broken: Broken | None = None
    for premise in selected:
        part = explore(premise, len(broken.steps) - 1 if broken else None)
        explored.append(part)
        broken = part.broken or broken
    for two in nested if broken is None else ():
        explored.append(pairs.explore(two))
        broken = broken or explored[-1].broken
    laws = tuple(laws_of(machine))
    if broken or only:
        return Proof(machine.name, laws, tuple(explored), broken=broken)
    below, bound = _bound(machine, None, find, ())
    return Proof(machine.name, laws, (*explored, bound), bound.bound, below, broken=bound.broken)


def _parents() -> list[Machine]:
    return [shipped(name) for name in SHIPPED]


def _pairs(machine: Machine, find: Find) -> list[pairs.Pair]:
    """Each state that runs another machine, with a real child run; and the first state that may write by a loop."""
    runners = [s for s in machine.states.values() if s.act == "run" and s.of != machine.name]
    runners += [replace(s, do=s.loop) for s in machine.states.values() if s.loop][:1]
    return [pairs.pair(machine, state, find(state.of)) for state in runners]


# ---- the bound -----------------------------------------------------------------------------------------------


def _bound(
    machine: Machine, state: State | None, find: Find, above: tuple[str, ...]
) -> tuple[dict[str, int], Exploration]:
    """Measured from the start to the first wait, with the machine's own limits; child runs count with their own
    bounds.
    """
    if machine.name in above:
        circle = " → ".join((*above, machine.name))
        says = f"a run inside itself has no bound: {circle}"
        return {}, Exploration("at its own limits", 0, 0, broken=Broken("BOUND", says, "at its own limits"))
    below: dict[str, int] = {}
    for runner in _runners(machine, state):
        _, inside = _bound(find(runner.of), runner, find, (*above, machine.name))
        if inside.broken:
            return below, inside
        below[runner.of] = max(below.get(runner.of, 0), inside.bound)
    return below, explore(at_own_limits(machine, below, state), from_start=True)


def _runners(machine: Machine, state: State | None) -> list[State]:
    """The states that run another machine, including those that write by a loop if the parent run is configured so."""
    loops = state is not None and state.options.get("write") == "loop"
    states = [replace(s, do=s.loop) if loops and s.loop else s for s in machine.states.values()]
    return [s for s in states if s.act == "run"]


__all__ = ["LAWS", "Broken", "Exploration", "Premise", "Proof", "Step", "explore", "premises", "prove"]
