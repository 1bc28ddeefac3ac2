"""Questions about the tasks of a repository (TASK-8), for Python, the command line and HTTP alike. Each is one indexed
query."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from flyball.domain import events as e
from flyball.journal import Row
from flyball.runtime.app import App
from flyball.runtime.backlog import Ticket
from flyball.views.task_record import record
from flyball.views.text import iso

MACHINE = "task"
SHOWN = 200
FAILING = 2  # so often in one state
AT_WORK = ("active", "interrupted")


def tasks_by_state(app: App, repo: Path, state: str | None = None, limit: int = SHOWN) -> list[Row]:
    """Newest first; without a state, all."""
    return app.journal.rows(repo=str(repo), machine=MACHINE, state=state, limit=limit)


def tasks_exceeding_timeout(app: App, repo: Path, limit: int = SHOWN) -> list[Row]:
    """Those that are longer in their state than its alert time."""
    return app.journal.rows(repo=str(repo), machine=MACHINE, late_at=app.clock.now(), limit=limit)


def tasks_under_cto_review(app: App, repo: Path, limit: int = SHOWN) -> list[Row]:
    return tasks_by_state(app, repo, "cto_intervention", limit)


def tasks_with_multiple_failures(app: App, repo: Path, least: int = FAILING, limit: int = SHOWN) -> list[Row]:
    """Those that failed so often, at least, in their present state."""
    return app.journal.rows(repo=str(repo), machine=MACHINE, failures=least, limit=limit)


def runs_of(app: App, repo: Path, ticket: str) -> list[Row]:
    """The runs that carry out a task of the backlog, oldest first: one for each step of its plan."""
    return app.journal.rows(repo=str(repo), machine=MACHINE, ticket=ticket)[::-1]


def records_of(app: App, repo: Path, name: str) -> list[dict[str, Any]]:
    """The records (TASK-7) of the runs of a task, or of one run."""
    runs = [row.run for row in runs_of(app, repo, name)] or [app.find(name)]
    histories = [[e.decode(entry.body) for entry in app.journal.read(run)] for run in runs]
    return [record(history, app.clock.now()) for history in histories]


def task_history(app: App, run: str) -> list[dict[str, Any]]:
    """Every transition of a task: from, to, when, why and by whom."""
    events = (e.decode(entry.body) for entry in app.journal.read(run))
    moves = [event for event in events if isinstance(event, e.Moved)]
    return [
        {
            "from": move.source,
            "to": move.target,
            "at": iso(move.at),
            "reason": move.reason,
            "actor": move.actor,
        }
        for move in moves
    ]


def listing(
    app: App, repo: Path, state: str | None = None, stuck: bool = False, failing: bool = False
) -> tuple[list[Row], tuple[Ticket, ...]]:
    """The tasks that fit everything asked, and those that still wait in the backlog."""
    late = app.clock.now() if stuck else None
    rows = app.journal.rows(
        repo=str(repo),
        machine=MACHINE,
        state=state,
        late_at=late,
        failures=FAILING if failing else None,
        limit=SHOWN,
    )
    waits = app.backlog(repo).tickets if state in (None, "pending") and not (stuck or failing) else ()
    return rows, waits


def facts_of_ticket(one: Ticket) -> dict[str, Any]:
    trigger = one.trigger
    return {
        "task": one.id,
        "state": "pending",
        "text": trigger.text,
        "priority": trigger.priority,
        "after": list(trigger.after),
        "later": trigger.later,
        "added": iso(one.at),
    }


def facts_of_task(row: Row) -> dict[str, Any]:
    return {
        "run": row.run,
        "task": row.ticket,
        "state": row.state,
        "status": row.status,
        "end": row.end,
        "text": row.task,
        "failures": row.failures,
        "cto_attempts": row.cto_attempts,
        "created": iso(row.created_at),
        "updated": iso(row.updated_at),
        "in_state_s": max(0, row.updated_at - row.entered_at) // 1_000_000,
    }


def started(app: App, repo: Path) -> dict[str, str]:
    """Ticket -> what became of it or does now, of those that a lane has taken."""
    outcomes: dict[str, str] = {}
    for row in app.journal.rows(repo=str(repo), machine="cto"):
        plan = app.read(row.run).plan
        outcomes |= {ticket: became.partition(" ")[0] for ticket, became in plan.outcomes.items()}
        for one in (plan, *plan.waiting):
            if one.trigger and one.trigger.ticket:
                outcomes[one.trigger.ticket] = _standing(row, one is plan)
    return outcomes


def _standing(lane: Row, current: bool) -> str:
    if lane.status == "ended":
        return lane.end
    return AT_WORK[0] if current else AT_WORK[1]
