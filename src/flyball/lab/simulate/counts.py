"""What a run and all its descendants spent together, counted independently."""

from __future__ import annotations

from collections.abc import Callable

from flyball.domain import events as e
from flyball.state.run import Run


class Breach(Exception):
    """A law does not hold."""

    def __init__(self, law: str, says: str) -> None:
        super().__init__(f"{law}: {says}")
        self.law, self.says = law, says


class Family:
    """What each run's own acts used; a run and its descendants add up."""

    def __init__(self) -> None:
        self.usage: dict[str, e.Usage] = {}
        self.time: dict[str, int] = {}
        self.below: dict[str, list[str]] = {}
        self.above: dict[str, str] = {}
        self.paid: dict[str, tuple[int, int]] = {}  # what was spent when the budget was last raised

    def begins(self, event: e.RunBegan) -> None:
        self.usage[event.run], self.time[event.run], self.below[event.run] = e.Usage(), 0, []
        self.paid[event.run] = (0, 0)
        if event.parent:
            self.below[event.parent].append(event.run)
            self.above[event.run] = event.parent

    def add_event(self, before: Run, event: e.AnyEvent) -> None:
        if isinstance(event, e.ActFinished):
            self.time[before.id] += event.took_us
            if isinstance(event.result, e.TurnEnded):
                self.usage[before.id] = self.usage[before.id].plus(event.result.usage)
        raised = before.stop is not None and before.stop.code.startswith("limit.budget")
        if isinstance(event, e.Answered | e.ChildWentOn) and raised:
            self.paid[before.id] = (before.spent.cost_uusd, before.spent.tokens)

    def spent(self, run_id: str) -> e.Usage:
        total = self.usage[run_id]
        for child in self.below[run_id]:
            total = total.plus(self.spent(child))
        return total

    def took(self, run_id: str) -> int:
        return self.time[run_id] + sum(self.took(child) for child in self.below[run_id])

    def covered(self, run_of: Callable[[str], Run], run: Run) -> None:
        """No turn starts if its run or one above has spent more than its budget; it may be exceeded by one turn's
        cost.
        """
        run_id = run.id
        while run_id:
            now = run_of(run_id)
            if now.machine.supervises:  # here the budget is that of each child run
                return
            budget, (cost, tokens) = now.settings.budget, self.paid[run_id]
            if budget.uusd is not None and now.spent.cost_uusd - cost > budget.uusd:
                over = now.spent.cost_uusd - cost
                raise Breach("GUARD-4", f"a turn of {run.id} begins; {run_id} spent {over} of {budget.uusd}")
            if budget.tokens is not None and now.spent.tokens - tokens > budget.tokens:
                raise Breach("GUARD-4", f"a turn of {run.id} begins; {run_id} is out of tokens")
            run_id = self.above.get(run_id, "")
