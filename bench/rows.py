"""A hundred thousand tasks: every question that is asked of them, beside the smallest SELECT there is."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw

from bench.figure import Beside, Figure
from bench.timing import Taken, both, median
from flyball.domain import events as e
from flyball.journal import Draft, Row, Write
from flyball.journal.sqlite import SqliteJournal
from flyball.runtime.app import App, WallClock
from flyball.system import tasks
from flyball.system.webhook import SECRET, Webhook

GOAL = 50.0
REPO = Path("/repo/3")
LISTINGS: dict[str, dict[str, Any]] = {
    "": {},
    "--state testing": {"state": "testing"},
    "--stuck": {"stuck": True},
    "--escalated": {"state": "human_escalation"},
    "--failing": {"failing": True},
    "--cto": {"state": "cto_intervention"},
}
HOUR = 3_600_000_000
NOW = 1_000_000 * HOUR
LIVE = (
    *("pending", "assigned", "planning", "validated", "in_progress", "testing"),
    *("quality_review", "approved", "committing", "cto_intervention", "human_escalation"),
)


class Then(WallClock):
    def now(self) -> int:
        return NOW


def figures(folder: Path, quick: bool) -> list[Figure]:
    count = 20_000 if quick else 100_000
    env = {**os.environ, "FLYBALL_STATE_DIR": str(folder / "state"), SECRET: "s" * 40}
    app = App(env)
    app.clock = Then()
    app.state_dir.mkdir(mode=0o700)
    journal = SqliteJournal(app.dirs.journal)
    for start in range(0, count, 2_000):
        _fill(journal, app.dirs.journal, range(start, start + 2_000))
    least = Beside("one row by its id", _ms(lambda: journal.row("t77")).wall)
    webhook = Webhook("127.0.0.1:0", REPO, env)
    questions = [*_questions(journal), *_listings(app), *_over_http(webhook)]
    found = {name: _ms(ask) for name, ask in questions}
    webhook.close()
    app.close()
    journal.close()
    slowest = max(found, key=lambda name: found[name].cpu)
    return [
        Figure(
            name=f"{count:,} tasks: the slowest query ({slowest})",
            value=found[slowest].wall,
            cpu=found[slowest].cpu,
            unit="ms",
            goal=GOAL,
            beside=(least,),
            parts={name: taken.wall for name, taken in found.items()},
        )
    ]


def _ms(ask: Callable[[], object]) -> Taken:
    taken = [both(ask) for _ in range(9)]
    return Taken(median([one.wall for one in taken]) * 1e3, median([one.cpu for one in taken]) * 1e3)


def _questions(journal: SqliteJournal) -> Iterator[tuple[str, Callable[[], object]]]:
    """TASK-8 and what the command line asks. A list for people is cut at 100; `all` is not cut."""
    yield "tasks_by_state, 100", lambda: journal.rows(machine="task", state="testing", limit=100)
    yield "tasks_by_state, all", lambda: journal.rows(machine="task", state="testing")
    yield "completed tasks, 100", lambda: journal.rows(machine="task", state="completed", limit=100)
    yield "tasks_exceeding_timeout", lambda: journal.rows(machine="task", late_at=NOW)
    yield "tasks_under_cto_review", lambda: journal.rows(machine="task", state="cto_intervention")
    yield "tasks_with_multiple_failures", lambda: journal.rows(machine="task", failures=2)
    yield "task_history", lambda: list(journal.read("t77"))
    yield "tally by state", lambda: journal.tally(machine="task")
    yield "ls", lambda: journal.rows(repo="/repo/3", parent="", limit=100)
    yield "ls --all --status waiting", lambda: journal.rows(status="waiting", parent="", limit=100)
    yield "inbox", lambda: journal.rows(open_question=True)
    yield "a run by its prefix", lambda: journal.resolve("t7777")


def _listings(app: App) -> Iterator[tuple[str, Callable[[], object]]]:
    """What `flyball task ls --json` does once it has started."""
    for words, asked in LISTINGS.items():
        yield (
            f"task ls {words}",
            lambda asked=asked: json.dumps(
                [tasks.facts_of_task(row) for row in tasks.listing(app, REPO, **asked).started]
            ),
        )


def _over_http(webhook: Webhook) -> Iterator[tuple[str, Callable[[], object]]]:
    token = f"Bearer {'s' * 40}"
    for query in ("", "state=testing", "failing=1"):
        yield f"GET /tasks?{query}", lambda query=query: json.dumps(webhook.tasks("", query, token))


def _fill(journal: SqliteJournal, path: Path, numbers: range) -> None:
    """Leases are put there by hand: taking them one by one is a commit each."""
    leases = apsw.Connection(str(path))
    with leases:
        sql = "INSERT INTO lease (run, driver, fence) VALUES (?, 'bench', 1)"
        leases.executemany(sql, [(f"t{n}",) for n in numbers])
    leases.close()
    journal.append([_task(n) for n in numbers])


def _task(n: int) -> Write:
    """One in twenty still lives, spread over the states of `task`."""
    live = n % 20 == 0
    at = NOW - (100_000 - n) * 60_000_000
    state = LIVE[n // 20 % len(LIVE)] if live else "completed"
    row = Row(
        run=f"t{n}",
        root=f"t{n}",
        repo=f"/repo/{n % 10}",
        machine="task",
        task=f"Task {n}: the parser drops the last line of a file without an end of line",
        state=state,
        status=("waiting" if state == "human_escalation" else "running") if live else "ended",
        code="" if live else "completed",
        end="" if live else "success",
        question=f"t{n}.1" if state == "human_escalation" else "",
        failures=n // 20 % 4 if live else 0,
        created_at=at,
        updated_at=at,
        entered_at=at,
        alert_at=at + HOUR if live else 0,
    )
    drafts = (
        Draft(at, "Told", e.encode(e.Told(at=at, text=row.task))),
        Draft(
            at,
            "Moved",
            e.encode(e.Moved(at=at, source="pending", target=state, outcome="ready", actor="flyball")),
        ),
    )
    return Write(run=row.run, after=0, drafts=drafts, row=row, fence=1)
