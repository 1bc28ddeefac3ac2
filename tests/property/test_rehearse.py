"""`rehearse` over any machine without a fault, outcome by outcome: the table says where each leads, limits included.

The model beside it reads the table and counts for itself; it knows nothing of runs and events.
"""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, assume, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from test_core import machines

from flyball.domain.faults import faults
from flyball.domain.machine import FAILING, WAITING_ACTS, edges, parse
from flyball.errors import FlyballError
from flyball.testing import rehearse


class Rehearsals(RuleBasedStateMachine):
    @initialize(table=machines())
    def begin(self, table: dict[str, Any]) -> None:
        self.machine = parse(table)
        assume(not faults(self.machine))
        self.said: list[str] = []
        self.path = [self.machine.start]
        self.origin, self.iterations = "", int(self.machine.start == self.machine.iteration)
        self.entries, self.failures = {self.machine.start: 1}, dict[str, int]()

    @property
    def state(self) -> str:
        return self.path[-1]

    # ---- the model

    def _leads(self, outcome: str) -> str:
        """The state that an outcome leads to; the same one where the table leaves it alone."""
        outcome = self._counted(outcome)
        target = self._named(self.machine.place(self.state, outcome))
        if target.startswith("@"):
            return self.state
        return self._exhausted() if self._used_up(target) else self._entered(target, outcome)

    def _counted(self, outcome: str) -> str:
        most = self.machine.most.get("failures")
        waits = self.machine.states[self.state].act in WAITING_ACTS
        placed = self.machine.place(self.state, "third_failure")
        if most is None or outcome not in FAILING or waits or not placed:
            return outcome
        self.failures[self.state] = min(self.failures.get(self.state, 0) + 1, most)
        return "third_failure" if self.failures[self.state] >= most else outcome

    def _named(self, target: str) -> str:
        if not target.startswith("any:"):
            return target
        named, choices = self.origin or self.machine.start, self.machine.targets(target)
        return named if named in choices else choices[0]

    def _used_up(self, target: str) -> bool:
        most, entries = self.machine.most, self.entries.get(target, 0)
        again = target == self.machine.iteration and self.iterations >= most.get("iterations", 99)
        return again or (target in most and entries >= most[target])

    def _exhausted(self) -> str:
        target = self.machine.place(self.state, "exhausted")
        if target.startswith("@") or self._used_up(
            target
        ):  # even the way out is used up: it fails where it is
            return self.state
        self.iterations, self.entries = 0, {}  # somebody can let it go on
        return self._entered(target, "exhausted")

    def _entered(self, target: str, outcome: str) -> str:
        to_cto = self.machine.states[target].do == "agent:cto"
        if to_cto or outcome not in (*FAILING, "error", "timeout"):
            self.failures[self.state] = 0
        if to_cto:
            self.origin = self.state
        if target == self.machine.iteration:
            self.iterations, self.entries = self.iterations + 1, {}
        self.entries[target] = self.entries.get(target, 0) + 1
        return target

    # ---- what is rehearsed

    @precondition(lambda self: hasattr(self, "machine") and not self.machine.states[self.state].end)
    @rule(data=st.data())
    def say(self, data: st.DataObject) -> None:
        outcome = data.draw(st.sampled_from(sorted(self.machine.states[self.state].on)))
        self.said.append(outcome)
        self.path.append(self._leads(outcome))
        assert rehearse(self.machine, *self.said) == self.path

    @precondition(lambda self: hasattr(self, "machine"))
    @rule()
    def say_nonsense(self) -> None:
        try:
            rehearse(self.machine, *self.said, "nonsense")
        except FlyballError as error:
            assert "nonsense" in str(error) and self.state in str(error)
        else:
            raise AssertionError("an outcome that the table does not know leads somewhere")

    @invariant()
    def every_step_is_an_edge(self) -> None:
        if hasattr(self, "path"):
            legal = edges(self.machine)
            steps = zip(self.path, self.path[1:], strict=False)
            assert all(a == b or (a, b) in legal for a, b in steps)


Rehearsals.TestCase.settings = settings(
    max_examples=80,
    stateful_step_count=12,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
)
TestRehearsals = Rehearsals.TestCase
