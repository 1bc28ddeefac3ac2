"""Questions about the tasks of a repository (TASK-8), for Python, the command line and HTTP alike. Each is one indexed
query."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct

from flyball.domain import events as e
from flyball.domain.results import Trigger
from flyball.journal import Row
from flyball.machines import shipped
from flyball.runtime.app import App
from flyball.runtime.backlog import Ticket
from flyball.views.task_record import record
from flyball.views.text import iso
from flyball.workspace import inspect_repo

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


def state_fault(state: str) -> str:
    """Why no task can be in this state; "" if one can."""
    states = shipped(MACHINE).states
    return "" if state in states else f"'{state}' is not a state of a task. States: {', '.join(states)}."


class Active(Struct, frozen=True):
    """A task that a lane has taken and that no run carries out now: it is planned, waits for a person, or makes way."""

    id: str
    trigger: Trigger
    lane: Row
    interrupted: bool

    @property
    def state(self) -> str:
        return "interrupted" if self.interrupted else self.lane.state


class Listing(Struct, frozen=True):
    """Tasks, by how far they are."""

    waiting: tuple[Ticket, ...]
    active: tuple[Active, ...]
    started: tuple[Row, ...]

    def __bool__(self) -> bool:
        return bool(self.waiting or self.active or self.started)

    @property
    def facts(self) -> dict[str, Any]:
        return {
            "waiting": [*map(facts_of_ticket, self.waiting)],
            "active": [*map(facts_of_active, self.active)],
            "tasks": [*map(facts_of_task, self.started)],
        }


def listing(
    app: App, repo: Path, state: str | None = None, stuck: bool = False, failing: bool = False
) -> Listing:
    """The tasks that fit everything asked. What waits in the backlog is pending; what a lane has taken has no state."""
    late = app.clock.now() if stuck else None
    rows = app.journal.rows(
        repo=str(repo),
        machine=MACHINE,
        state=state,
        late_at=late,
        failures=FAILING if failing else None,
        limit=SHOWN,
    )
    narrowed = stuck or failing
    waits = app.backlog(repo).tickets if state in (None, "pending") and not narrowed else ()
    plans = () if narrowed or state else tuple(active(app, repo))
    return Listing(waits, plans, tuple(rows))


def active(app: App, repo: Path) -> Iterator[Active]:
    for lane in app.journal.rows(repo=str(repo), machine="cto"):
        if lane.status == "ended":
            continue
        plan = app.read(lane.run).plan
        for one in (plan, *plan.waiting):
            ticket = one.trigger.ticket if one.trigger else ""
            if one.trigger and all(row.status == "ended" for row in runs_of(app, repo, ticket)):
                yield Active(ticket, one.trigger, lane, one is not plan)


def imported_texts(app: App, repo: Path) -> set[str]:
    """The texts of tasks that an import does not add again: they wait, are worked on, or are done. An item of a
    check-list that is open although its result has landed is to be done again."""
    texts, git = {one.trigger.text for one in app.backlog(repo).tickets}, inspect_repo(repo).git
    for row in app.journal.rows(repo=str(repo), machine="cto"):
        events = [e.decode(entry.body) for entry in app.journal.read(row.run)]
        triggers = {one.trigger.ticket: one.trigger for one in events if isinstance(one, e.Triggered)}
        plan = app.read(row.run).plan
        plans = () if row.status == "ended" else (plan, *plan.waiting)
        texts |= {one.trigger.text for one in plans if one.trigger}
        for ticket, trigger in triggers.items():
            became, _, commit = plan.outcomes.get(ticket, "").partition(" ")
            landed = ("merge-base", "--is-ancestor", commit, "HEAD")
            if became == "done" and not (
                trigger.tick and commit and not git.ask(*landed, ok=(0, 1, 128)).code
            ):
                texts.add(trigger.text)
    return texts


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


def facts_of_active(one: Active) -> dict[str, Any]:
    return {
        "task": one.id,
        "run": one.lane.run,
        "state": one.state,
        "text": one.trigger.text,
        "priority": one.trigger.priority,
        "question": "" if one.interrupted else one.lane.question,
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
