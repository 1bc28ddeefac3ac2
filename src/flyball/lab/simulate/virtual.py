"""The production supervisor, sleeping in virtual time. Nothing that it decides or writes is changed."""

from __future__ import annotations

import os
import random
from collections.abc import Iterable
from typing import Any, Protocol

from flyball.core.decide import trigger
from flyball.domain import events as e
from flyball.journal import Journal
from flyball.lab.simulate.keepers import Keepers, SimulatedPerformer
from flyball.machines import shipped
from flyball.runtime.supervisor import Supervisor
from flyball.state.run import Run


class DriverWorld(Protocol):
    """What a driver needs from its world."""

    rng: random.Random
    keepers: Keepers
    living: set[str]

    def now(self) -> int: ...

    def new_id(self) -> str: ...

    def sleep(self, timeout_s: float | None) -> None: ...

    def check(self) -> None: ...


class Virtual(Supervisor):
    def __init__(self, around: DriverWorld, journal: Journal, name: str, stays: bool) -> None:
        self.around, self.stays = around, stays
        self.performer = SimulatedPerformer(around.keepers)
        super().__init__(
            journal,
            self.performer,
            around,
            driver=name,
            alive=lambda driver: driver in around.living,
            new_id=around.new_id,
            machine_table=_table,
        )

    def take_up(self, planned: Iterable[e.RunBegan]) -> None:
        """Start what has not begun, adopt what has not ended."""
        for event in planned:
            row = self.journal.row(event.run)
            if row is None:
                self.begin(event)
            elif row.status != "ended":
                self.performer.adopting = True
                self.adopt(event.run)
                self.performer.adopting = False
        self.performer.adopting = True
        self.adopt_abandoned()
        self.performer.adopting = False

    def tick(self) -> bool:
        went_on = super().tick()
        self.around.check()
        return went_on

    def _sleep(self, until: int | None = None) -> None:
        self.around.sleep(self._until_next(until))

    def trigger(self, run_id: str, outcome: str) -> None:
        """A trigger for a run that listens."""
        driven_run = self.driven.get(run_id)
        if (
            driven_run is None
            or driven_run.run.status != "running"
            or driven_run.run.here.act != "listen"
            or driven_run.run.act
        ):
            return
        if outcome in driven_run.run.here.on:
            self._note(run_id, trigger(driven_run.run, outcome, self.clock.now()))

    def scribble(self, run_id: str) -> None:
        """Write something, whichever driver has the run."""
        self._note(run_id, [e.Told(at=self.clock.now(), text="am I still there?", who="a zombie")])

    def done(self) -> bool:
        """As in a session: until each top-level run has ended, or waits for a person and nobody is there."""
        tops = [driven_run.run for driven_run in self.driven.values() if not driven_run.run.began.parent]
        return all(self._rests(run) for run in tops) and not self.ending

    def _rests(self, run: Run) -> bool:
        if run.status in ("running", "ended"):
            return run.status == "ended"
        if self._asks(run):
            return not self.stays
        return run.until is None

    def _asks(self, run: Run) -> bool:
        while run.question is None and run.child in self.driven:
            run = self.driven[run.child].run
        return run.question is not None

    def die(self) -> None:
        """The process has died; its leases stay as they are."""
        self._ears.close()
        os.close(self._wake_in)
        os.close(self._wake_out)


def _table(name: str, parent: Run) -> dict[str, Any]:
    return shipped(name).table
