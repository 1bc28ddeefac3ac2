"""The daily brief, as Markdown: what waits for a person, what was done, what failed, and what it cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from flyball.domain.results import CODES, code_of
from flyball.domain.settings import elapsed, rough
from flyball.views.run_stats import LANE, OPEN, Job, Stats, by_outcome, free, known_usd, sum_of
from flyball.views.text import cost, day_and_clock, one_line, plural


class Waiting(Struct, frozen=True, kw_only=True):
    """Something that only a person can settle. `since`: microseconds; `what`: why it waits; `how`: what to type."""

    run: str
    question: str
    task: str
    what: str
    how: str
    since: int


def facts(total: Stats, waiting: Sequence[Waiting], since: int, now: int) -> dict[str, Any]:
    """The object that `--json` prints."""
    return {
        "since": since,
        "until": now,
        "waiting": [
            {"run": one.run, "question": one.question, "what": one.what, "how": one.how} for one in waiting
        ],
        "tasks": [
            {
                "run": job.run,
                "task": job.task,
                "outcome": job.outcome,
                "status": job.status,
                "turns": job.turns,
                "cost_usd": known_usd([job], job.usage.cost_uusd),
                "landed": job.landed,
            }
            for job in total.tasks
        ],
        "cost_usd": known_usd(total.jobs, total.usage.cost_uusd),
        "tokens": total.usage.tokens,
    }


def lines(total: Stats, waiting: Sequence[Waiting], since: int, now: int, frame: str = "") -> list[str]:
    """`frame`: the time in words, such as "Since yesterday"."""
    dates = f"{day_and_clock(since)[:16]} to {day_and_clock(now)[:16]}"
    completed = [job for job in total.tasks if job.outcome.startswith("completed")]
    failed = [job for job in total.tasks if job.outcome != OPEN and job not in completed]
    asking = {one.run for one in waiting}
    going = [job for job in total.tasks if job.outcome == OPEN and not job.asks and job.run not in asking]
    return [
        f"# {frame}: {dates}" if frame else f"# {dates}",
        "",
        *_section("Waiting for you", [_waiting(one, now) for one in waiting], "Nothing."),
        *_section("Done", [_done(job) for job in completed], "Nothing was completed."),
        *_section("Failed", [_failed(job) for job in failed]),
        *_section("Still open", [f"{_name(job)}: {job.status}" for job in going]),
        *_cost(total),
    ]


def _section(title: str, rows: Sequence[str], empty: str = "") -> list[str]:
    if not rows:
        return [f"## {title}", "", empty, ""] if empty else []
    return [f"## {title} ({len(rows)})", "", *(f"- {row}" for row in rows), ""]


def _waiting(one: Waiting, now: int) -> str:
    return f"**{markdown(one.task)}** ({one.run}), for {rough(now - one.since)}: {markdown(one.what)}. `{one.how}`"


def _done(job: Job) -> str:
    where = "landed" if job.landed else f"on branch `flyball/{job.run}`"
    unproved = ", not proved" if job.outcome == "completed_unproven" else ""
    return f"{_name(job)}: {where}{unproved}; {_effort(job)}"


def _failed(job: Job) -> str:
    code = job.outcome
    says = f"{code_of(code).says} ({code})" if code in CODES and code != "cancelled" else code
    return f"{_name(job)}: {says}; {_effort(job)}. `flyball why {job.run}`"


def _name(job: Job) -> str:
    return f"**{markdown(job.task)}** ({job.run})"


def _effort(job: Job) -> str:
    return f"{plural(job.turns, 'turn')}, {elapsed(job.work_us)} of work, {_spent([job])}"


def _cost(total: Stats) -> list[str]:
    rows = [
        f"{name}: {plural(len(jobs), 'lane' if name == LANE else 'task')}, {_spent(jobs, with_tokens=True)}"
        for name, jobs in by_outcome(total.jobs).items()
    ]
    head = f"{plural(sum(total.turns.values()), 'turn')}, {_spent(total.jobs, with_tokens=True)}."
    return ["## Cost", "", head, *(["", *(f"- {row}" for row in rows)] if len(rows) > 1 else [])]


def _spent(jobs: Sequence[Job], with_tokens: bool = False) -> str:
    usage = sum_of(jobs)
    money = cost(usage.cost_uusd, free(jobs), unknown="cost unknown")
    return f"{money}, {usage.tokens:,} tokens" if with_tokens and usage.tokens else money


def markdown(text: str) -> str:
    """A person's or an agent's text on one line, so that it cannot change the page around it."""
    line = one_line(text.strip().partition("\n")[0], 120)
    return "".join(f"\\{char}" if char in "\\`*_[]<>#|!" else char for char in line)
