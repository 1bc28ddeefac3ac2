"""Runs in the journal: loading one, writing down what changed in some, and what all of them spent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Struct

from flyball.core.family import Changed, Family
from flyball.core.stops import alert_time_us
from flyball.domain import events as e
from flyball.domain.settings import HOUR
from flyball.errors import NotFound
from flyball.journal.types import Draft, Journal, Row, Write
from flyball.state.fold import fold, freeze, thaw
from flyball.state.run import Run

DAY_US = 24 * HOUR
WEEK_US = 7 * DAY_US
SNAPSHOT_EVERY = 64


def load(journal: Journal, run_id: str) -> tuple[Run, int]:
    """A run as its events add up to now, and its place; from the last snapshot if that is still of these rules."""
    kept = journal.latest_snapshot(run_id)
    run, seq = (thaw(kept.body), kept.seq) if kept and kept.rules == e.RULES else (None, 0)
    for entry in journal.read(run_id, seq):
        run, seq = fold(run, [e.decode(entry.body)]), entry.seq
    if run is None:
        raise NotFound(f"There is no run '{run_id}'. `flyball ls` lists the runs.")
    return run, seq


# ---- writing down what changed -----------------------------------------------------------------------------------


class DrivenRun(Struct):
    """A run in its driver's memory: the fold, its position in the journal, and the lease."""

    run: Run
    seq: int
    fence: int


class Messages(Struct):
    """The messages that a run takes, and from whose mailbox if it is not its own."""

    taken: list[int]
    mailbox: str = ""


class Batch(Family):
    """What one transaction will hold: the events of one or many runs, and the messages that they take."""

    def __init__(self, driven: Mapping[str, DrivenRun]) -> None:
        super().__init__(driven)
        self._driven = driven
        self._new: dict[str, int] = {}  # the leases of the runs that begin
        self._messages: dict[str, Messages] = {}

    def start(self, event: e.RunBegan, fence: int) -> None:
        """A run begins, under this lease."""
        self.begin(event)
        self._new[event.run] = fence

    def take(self, run_id: str, messages: Sequence[int], mailbox: str = "") -> None:
        """The run takes messages, from its own mailbox or a shared one."""
        self.touch(run_id)
        mine = self._messages.setdefault(run_id, Messages([]))
        mine.taken.extend(messages)
        mine.mailbox = mailbox or mine.mailbox

    def writes(self) -> list[Write]:
        changed = self.changed.items()
        return [self._write(name, one) for name, one in changed if one.events or name in self._messages]

    def after(self) -> dict[str, DrivenRun]:
        """The runs as they are once all of it is written."""
        return {name: self._after(name, one) for name, one in self.changed.items()}

    def _after(self, run_id: str, changed: Changed) -> DrivenRun:
        seq, fence = self._before(run_id)
        return DrivenRun(changed.run, seq + len(changed.events), fence)

    def _before(self, run_id: str) -> tuple[int, int]:
        if run_id in self._new:
            return 0, self._new[run_id]
        driven = self._driven[run_id]
        return driven.seq, driven.fence

    def _write(self, run_id: str, changed: Changed) -> Write:
        seq, fence = self._before(run_id)
        messages = self._messages.get(run_id)
        drafts = tuple(
            Draft(at=event.at, kind=e.kind(event), body=e.encode(event)) for event in changed.events
        )
        after = seq + len(drafts)
        due = after // SNAPSHOT_EVERY > seq // SNAPSHOT_EVERY
        return Write(
            run=run_id,
            after=seq,
            drafts=drafts,
            row=row_of(changed.run),
            fence=fence,
            messages=tuple(messages.taken) if messages else (),
            mailbox=messages.mailbox if messages else "",
            snapshot=freeze(changed.run) if due else b"",
            rules=e.RULES if due else "",
        )


def row_of(run: Run) -> Row:
    """The run's row for queries."""
    began = run.began
    alert = alert_time_us(run) if run.status != "ended" else 0
    return Row(
        run=run.id,
        root=began.root or run.id,
        parent=began.parent,
        repo=began.repo,
        machine=run.machine.name,
        task=began.task[:200],
        state=run.state,
        status=run.status,
        code=run.stop.code if run.stop else "",
        end=run.end,
        question=run.question.id if run.question else "",
        agent=run.act.agent if run.act else "",
        actor=run.here.of,
        turns=run.turns,
        cost_uusd=run.spent.cost_uusd,
        tokens=run.spent.tokens,
        failures=run.path.failures.get(run.state, 0),
        cto_attempts=run.path.interventions,
        created_at=began.at,
        updated_at=run.at,
        entered_at=run.entered_at,
        alert_at=run.entered_at + alert if alert else 0,
        ticket=str(began.options.get("ticket", "")),
    )


# ---- what all runs spent (GUARD-4) -----------------------------------------------------------------------------


class _Result(msgspec.Struct):
    kind: str = ""
    usage: e.Usage = e.Usage()


class _Finished(msgspec.Struct):
    at: int
    result: _Result


_decoder = msgspec.json.Decoder(_Finished)


def windows(journal: Journal, now: int, since: int = 0) -> e.WindowSeen:
    """In the last day and week, to this moment, but not before `since`.

    What a child used is counted where it was used, once.
    """
    day, week = e.Usage(), e.Usage()
    acts = (_decoder.decode(body) for body in journal.finished(max(now - WEEK_US, since)))
    for act in (act for act in acts if act.result.kind == "turn"):
        week = week.plus(act.result.usage)
        if act.at >= now - DAY_US:
            day = day.plus(act.result.usage)
    return e.WindowSeen(
        at=now,
        day_uusd=day.cost_uusd,
        day_tokens=day.tokens,
        week_uusd=week.cost_uusd,
        week_tokens=week.tokens,
    )
