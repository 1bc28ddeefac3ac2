"""What a simulation reached: which outcomes in which states, which faults in which states, which of both together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from msgspec import Struct, field

from flyball.core import events as e
from flyball.core.machine import Machine
from flyball.core.run import Run

Pair = tuple[str, str, str]  # machine, state, outcome or fault
CODES = {
    "limit": "exhausted",
    "failed.tests": "exhausted",
    "timeout.phase": "timeout",
    "timeout.idle": "error",
    "failed.agent": "error",
    "failed.start": "error",
    "loop": "stalled",
    "blocked": "blocked",
    "cancelled": "cancel",
}


class Coverage(Struct):
    outcomes: Counter[Pair] = field(default_factory=Counter[Pair])
    faults: Counter[Pair] = field(default_factory=Counter[Pair])
    triples: Counter[tuple[str, str, str, str]] = field(default_factory=Counter[tuple[str, str, str, str]])
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

    def heard(self, before: Run, event: e.AnyEvent, faults: Iterable[str]) -> None:
        outcome = _outcome(before, event)
        if not outcome:
            return
        machine, state = before.machine.name, before.state
        self.outcomes[machine, state, outcome] += 1
        for name in faults:
            self.triples[machine, state, outcome, name] += 1


def _outcome(before: Run, event: e.AnyEvent) -> str:
    """The outcome that a fact stands for; "" if for none."""
    match event:
        case e.Moved():
            return event.outcome
        case e.FailureCounted() if before.machine.place(before.state, "failure") == "@back":
            return "failure"
        case e.Ended() if not before.machine.states[before.state].end:
            return _by_code(before, event.stop)
        case e.Stopped() if before.here.act != "ask":
            return _by_code(before, event.stop)
        case _:
            return ""


def _by_code(run: Run, stop: e.Stop) -> str:
    code = stop.rule if stop.code == "wait.escalation" else stop.code
    if code.startswith("limit.budget") or code == "limit.actions" or code == "loop.same_action":
        return ""
    known = CODES.get(code) or CODES.get(code.partition(".")[0])
    return known or (stop.rule if stop.rule in run.here.on else "")


# ---- what there is to reach ----------------------------------------------------------------------------------------


def reachable(machine: Machine, taken: frozenset[tuple[str, str]] | None = None) -> set[Pair]:
    """Every outcome that the table places in each state; with `taken`, without edges that no rule takes."""
    found: set[Pair] = set()
    for state in machine.states.values():
        for outcome, target in ({} if state.end else {**machine.anywhere, **state.on}).items():
            targets = machine.targets(target)
            if taken is None or not targets or any((state.name, name) in taken for name in targets):
                found.add((machine.name, state.name, outcome))
    return found
