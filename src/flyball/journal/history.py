"""What the events in the journal add up to: a run, the row that queries read of it, and what all runs spent."""

from __future__ import annotations

import msgspec

from flyball.core.stops import alert_time_us
from flyball.domain import events as e
from flyball.domain.settings import HOUR
from flyball.errors import NotFound
from flyball.journal.types import Journal, Row
from flyball.state.fold import fold, thaw
from flyball.state.run import Run

DAY_US = 24 * HOUR
WEEK_US = 7 * DAY_US


def load(journal: Journal, run_id: str) -> tuple[Run, int]:
    """A run as its events add up to now, and its place; from the last snapshot if that is still of these rules."""
    kept = journal.latest_snapshot(run_id)
    run, seq = (thaw(kept.body), kept.seq) if kept and kept.rules == e.RULES else (None, 0)
    for entry in journal.read(run_id, seq):
        run, seq = fold(run, [e.decode(entry.body)]), entry.seq
    if run is None:
        raise NotFound(f"There is no run '{run_id}'. `flyball ls` lists the runs.")
    return run, seq


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
