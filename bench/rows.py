"""A hundred thousand tasks: every question that is asked of them, beside the smallest SELECT there is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import apsw

from bench.figure import Beside, Figure
from bench.timing import Taken, both, median
from flyball.domain import events as e
from flyball.journal import Draft, Row, Write
from flyball.journal.sqlite import SqliteJournal

GOAL = 50.0
HOUR = 3_600_000_000
NOW = 1_000_000 * HOUR
LIVE = (
    *("pending", "assigned", "planning", "validated", "in_progress", "testing"),
    *("quality_review", "approved", "committing", "cto_intervention", "human_escalation"),
)


def figures(folder: Path, quick: bool) -> list[Figure]:
    count = 20_000 if quick else 100_000
    journal = SqliteJournal(folder / "journal.db")
    for start in range(0, count, 2_000):
        _fill(journal, folder / "journal.db", range(start, start + 2_000))
    least = Beside("one row by its id", _ms(lambda: journal.row("t77")).wall)
    found = {name: _ms(ask) for name, ask in _questions(journal)}
    journal.close()
    slowest = max(found, key=lambda name: found[name].wall)
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
