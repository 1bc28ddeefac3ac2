"""One event as a law sees it."""

from __future__ import annotations

from msgspec import Struct

from flyball.domain import events as e
from flyball.domain.machine import OURS
from flyball.lab.prove.premises import Premise
from flyball.lab.prove.witness import Witness
from flyball.state.run import Run

OF_THE_RULES = (*OURS, "stalled", "third_failure", "escalate", "halted", "paused")  # need no turn


class Observation(Struct, frozen=True):
    """One event, with the run and the witness before and after it."""

    premise: Premise
    before: Run
    event: e.AnyEvent
    after: Run
    was: Witness
    now: Witness
