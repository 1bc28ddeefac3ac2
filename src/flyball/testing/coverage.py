"""What a simulation reached: which outcomes in which states, which faults in which states, which of both together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from msgspec import Struct, field

from flyball.core import events as e
from flyball.core.machine import Machine, State
from flyball.core.run import WORKERS, Run
from flyball.machines import shipped
from flyball.testing.players import MANNERS

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


WORLD = (  # faults that may meet a run in any state
    *("crash before append", "crash after append", "kill", "power cut", "disk", "taken for dead"),
    *("zombie", "second driver", "clock forward", "clock back"),
)
DOUBTS = ("never begun", "still alive", "ended meanwhile", "keeper lost", "orphaned", "stopped")
IN_DOUBT = ("agent", "proof", "commit")  # acts with a process of their own
PROOFS = ("proof_dirty", "proof_other", "proof_cannot", "proof_slow")


class Reach(Struct, frozen=True):
    """How much of a machine was reached, of how much there is; and what was not."""

    machine: str
    outcomes: tuple[int, int]
    faults: tuple[int, int]
    triples: tuple[int, int]
    no_outcomes: tuple[Pair, ...]
    no_faults: tuple[Pair, ...]


def reach(name: str, coverage: Coverage) -> Reach:
    machine = shipped(name)
    outcomes, faults = reachable(machine), possible(machine)
    here = [(m, s, o, f) for m, s, o in outcomes for x, t, f in faults if (m, s) == (x, t)]
    no_outcomes = tuple(pair for pair in outcomes if pair not in coverage.outcomes)
    no_faults = tuple(pair for pair in faults if pair not in coverage.faults)
    return Reach(
        name,
        (len(outcomes) - len(no_outcomes), len(outcomes)),
        (len(faults) - len(no_faults), len(faults)),
        (sum(four in coverage.triples for four in here), len(here)),
        no_outcomes,
        no_faults,
    )


def reachable(machine: Machine) -> list[Pair]:
    """The outcomes that the table places in each state and that some rule gives there."""
    return [
        (machine.name, state.name, outcome)
        for state in machine.states.values()
        for outcome in ({} if state.end else {**machine.anywhere, **state.on})
        if _given(machine, state, outcome)
    ]


def _given(machine: Machine, state: State, outcome: str) -> bool:
    """Whether some rule gives this outcome here; what agents and people say is always possible."""
    fails = bool({"failure", "cannot_start", "halted"} & {*state.on})  # what goes wrong has a name of its own
    match outcome:
        case "approval" | "interrupt" | "replan" if machine.standing and state.act != "ask":
            return False  # no rule of this version gives them
        case "stalled":
            return state.act == "agent" and state.of in WORKERS
        case "blocked":
            return state.act == "agent"
        case "error":
            return state.act == "agent" or (state.act in ("check", "run") and not fails)
        case "timeout":
            return state.act in ("agent", "proof") or (state.act == "run" and not fails)
        case "failure":
            return state.act in ("check", "run") or "failures" in machine.most
        case "exhausted":
            return state.act in ("agent", "run") or _limited(machine, state)
        case "third_failure":
            return state.act != "ask"
        case _:
            return True


def _limited(machine: Machine, state: State) -> bool:
    """It leads to a state that can be entered so many times only."""
    first = state.name == machine.start  # the first iteration is always allowed
    bounded = {*machine.most, machine.iteration if "iterations" in machine.most and not first else ""}
    return bool(bounded & set(machine.ways.get(state.name, ())))


def possible(machine: Machine) -> list[Pair]:
    """The faults that may meet a run in each state."""
    found: list[Pair] = []
    for state in machine.states.values():
        names = () if state.end else WORLD
        names += DOUBTS if state.act in IN_DOUBT else ()
        names += tuple(MANNERS) if state.act == "agent" else ()
        names += PROOFS if state.act == "proof" else ()
        found += [(machine.name, state.name, name) for name in names]
    return found
