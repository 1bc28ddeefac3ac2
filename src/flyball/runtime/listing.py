"""A run in a list, from its row in the journal: for `ls` and the web page. Nothing here loads the rules of runs."""

from __future__ import annotations

from typing import Any

import msgspec

from flyball.journal import Row
from flyball.journal.records import Records
from flyball.views.text import cost, is_free, iso

STATUSES = ("running", "waiting", "paused", "blocked", "ended")


def row_facts(records: Records, row: Row) -> dict[str, Any]:
    return {
        **msgspec.to_builtins(row),
        "cost_usd": row.cost_uusd / 1_000_000 if is_cost_known(records, row) else None,
        "created": iso(row.created_at),
        "updated": iso(row.updated_at),
        "driven": records.driven(row.run),
    }


def is_cost_known(records: Records, row: Row) -> bool:
    """Whether its cost is known, even if it is nothing."""
    if row.cost_uusd or row.tokens:
        return row.cost_uusd > 0
    from flyball.domain import events as e  # a list of runs with costs needs none

    first = next(records.journal.read(row.run), None)
    began = e.decode(first.body) if first else None
    return isinstance(began, e.RunBegan) and is_free(began.settings.agents.values())


def task_of(records: Records, row: Row) -> str:
    """What it works on; a lane of `up` on a task after the other."""
    return records.read(row.run).task if row.machine == "cto" and row.status != "ended" else row.task


def status_of(records: Records, row: Row) -> str:
    if row.status == "running":
        return "running" if records.driven(row.run) else "not running"
    return row.code or row.status


def tone_of(status: str, end: str, asks: bool) -> str:
    """The tone of a run, by its status."""
    if status == "ended":
        return "good" if end == "success" else "bad"
    return "run" if status == "running" else "ask" if asks else "wait"


def shown_row(records: Records, row: Row) -> dict[str, Any]:
    """The facts of a row, with what `ls` shows in words."""
    tone = tone_of(row.status, row.end, bool(row.question))
    columns = {"label": status_of(records, row), "tone": tone, "task": task_of(records, row)}
    return {**row_facts(records, row), **columns, "cost": cost(row.cost_uusd, is_cost_known(records, row))}
