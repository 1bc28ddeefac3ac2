"""An onlooker's own counts: what a run has used up since a person last renewed it, and what a family spent."""

from __future__ import annotations

from collections.abc import Callable

from flyball.core.run import BY_A_PERSON, Run
from flyball.domain import events as e

FAILED = ("killed", "hung", "unknown", "refused", "cannot_start", "context")
FREE = ("rate_limited", "plan_limit", "overloaded", "network", "auth", "billing", "context")
RENEWING = ("limit.turns", "limit.fix_attempts", "limit.iterations", "failed.tests")
INTERRUPTIONS = 5
RETRIES = 3
INTERVENTIONS = 2


class Breach(Exception):
    """A law does not hold."""

    def __init__(self, law: str, says: str) -> None:
        super().__init__(f"{law}: {says}")
        self.law, self.says = law, says


class Counts:
    """Of one run."""

    def __init__(self, run: Run) -> None:
        start, machine = run.state, run.machine
        self.iterations = int(run.iteration > 0)
        self.entries: dict[str, int] = {start: 1}
        self.turns, self.failed, self.cut, self.interventions = 0, 0, 0, 0
        self.machine = machine

    def may_start(self, run: Run, act: e.Act) -> None:
        """Before an act begins."""
        if self.cut >= INTERRUPTIONS and act.why != "rollback":
            raise Breach("SYS-5", f"{act.key} begins after {self.cut} interruptions in a row")
        if not act.do.startswith(("agent:", "run:")):
            return
        most = run.most("turns")
        if most is not None and not self.machine.standing and self.turns >= most:
            raise Breach("LOOP-1", f"{act.key} begins after {self.turns} of {most} turns")
        retries = run.most("retries")
        retries = RETRIES if retries is None else retries
        if self.failed > retries:
            raise Breach("RETRY", f"{act.key} begins after {self.failed} failed turns of {retries} retries")

    def heard(self, before: Run, event: e.AnyEvent, after: Run) -> None:
        match event:
            case e.ActFinished():
                self._finished(event, after.turn > before.turn)
            case e.ActInterrupted():
                self.cut += int(event.reason != BY_A_PERSON)
            case e.Charged():
                self.turns += event.turns
            case e.Moved():
                self._moved(event, after)
            case e.Answered():
                self._answered(before)
            case e.Stopped() if event.stop.code == "wait.take_over":
                self.failed = 0  # a person has it in hand
            case _:
                pass

    def _finished(self, event: e.ActFinished, counted: bool) -> None:
        self.cut = self.cut if isinstance(event.result, e.Restored) else 0
        match event.result:
            case e.TurnEnded() as turn:
                self.turns += int(counted)
                if counted:
                    self.failed = self.failed + 1 if turn.verdict in FAILED else 0
            case e.ChildEnded() as child:
                self.turns += int(child.turns == 0)
            case _:
                pass

    def _moved(self, event: e.Moved, after: Run) -> None:
        if event.outcome == "exhausted":
            self._renew(event.reason)
        if event.source == "cto_intervention" and event.outcome in ("retry", "rollback", "skip"):
            self.interventions += 1
        self.failed = 0
        if event.target == self.machine.iteration:
            self.iterations, self.entries = self.iterations + 1, {}
        self.entries[event.target] = self.entries.get(event.target, 0) + 1
        self._allowed(event, after)

    def _allowed(self, event: e.Moved, run: Run) -> None:
        iterations = run.most("iterations")
        if event.target == self.machine.iteration and iterations is not None and self.iterations > iterations:
            raise Breach("ALO-7", f"iteration {self.iterations} of {iterations} begins in {run.id}")
        most = run.most(event.target) if event.target in self.machine.most else None
        if most is not None and self.entries[event.target] > most:
            count = self.entries[event.target]
            raise Breach("ALO-3", f"entry {count} of {most} to '{event.target}' of {run.id}")
        cto = run.most("cto")
        if self.interventions > (INTERVENTIONS if cto is None else cto):
            raise Breach("TASK-9", f"the CTO intervenes {self.interventions} times in {run.id}")

    def _answered(self, before: Run) -> None:
        stop = before.stop
        if stop is None or stop.code.startswith("limit.budget"):
            return
        self.failed = self.cut = 0
        if stop.code == "wait.escalation":
            self._renew(stop.rule)

    def _renew(self, code: str) -> None:
        if code in RENEWING:
            self.turns, self.iterations, self.entries = 0, 0, {}


# ---- families --------------------------------------------------------------------------------------------------------


class Family:
    """What each run's own acts used; a run and all below it add up."""

    def __init__(self) -> None:
        self.usage: dict[str, e.Usage] = {}
        self.time: dict[str, int] = {}
        self.below: dict[str, list[str]] = {}
        self.above: dict[str, str] = {}
        self.paid: dict[str, tuple[int, int]] = {}  # spent when the budget was last raised

    def begins(self, event: e.RunBegan) -> None:
        self.usage[event.run], self.time[event.run], self.below[event.run] = e.Usage(), 0, []
        self.paid[event.run] = (0, 0)
        if event.parent:
            self.below[event.parent].append(event.run)
            self.above[event.run] = event.parent

    def heard(self, before: Run, event: e.AnyEvent) -> None:
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
        """No turn begins where it or one above has spent more than its budget: one turn's cost goes over at most."""
        run_id = run.id
        while run_id:
            now = run_of(run_id)
            budget, (cost, tokens) = now.settings.budget, self.paid[run_id]
            if budget.uusd is not None and now.spent.cost_uusd - cost > budget.uusd:
                over = now.spent.cost_uusd - cost
                raise Breach("GUARD-4", f"a turn of {run.id} begins; {run_id} spent {over} of {budget.uusd}")
            if budget.tokens is not None and now.spent.tokens - tokens > budget.tokens:
                raise Breach("GUARD-4", f"a turn of {run.id} begins; {run_id} is out of tokens")
            run_id = self.above.get(run_id, "")
