"""The statistics as tables with small bars, for people."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from flyball.domain.settings import elapsed
from flyball.views.run_stats import OPEN, Job, Stats, by_outcome, free, median, sum_of
from flyball.views.text import columns, cost, plural, tokens

BAR = 20
TRANSITIONS = 15  # the most frequent ones; `--json` has all


class Table(Struct, frozen=True):
    title: str
    headers: tuple[str, ...]
    rows: list[list[str]]


def tables(total: Stats) -> list[Table]:
    parts = (_jobs(total), _costs(total), _moves(total), _times(total), _loops(total), _recoveries(total))
    return [part for part in parts if part.rows]


def lines(total: Stats) -> list[str]:
    parts = [[part.title, *columns(part.headers, part.rows)] for part in tables(total)]
    return [line for part in parts for line in (*part, "")][:-1]


def bar(value: float, most: float) -> str:
    """At least a thin bar for anything above zero."""
    return "█" * max(round(BAR * value / most), int(value > 0)) if most else ""


def _jobs(total: Stats) -> Table:
    machines = sorted({job.machine for job in total.tasks})
    rows = [_job_row(name, [job for job in total.tasks if job.machine == name]) for name in machines]
    headers = ("MACHINE", "TASKS", "COMPLETED", "FAILED", "OPEN", "TURNS", "CALLS", "WORK", "COST")
    return Table(
        "Tasks (turns, tool calls, working time and cost are medians of those that ended)", headers, rows
    )


def _job_row(machine: str, jobs: Sequence[Job]) -> list[str]:
    ended = [job for job in jobs if job.outcome != OPEN]
    completed = [job for job in ended if job.outcome.startswith("completed")]
    middle = ended or jobs
    return [
        machine,
        str(len(jobs)),
        str(len(completed)),
        str(len(ended) - len(completed)),
        str(len(jobs) - len(ended)),
        f"{median(job.turns for job in middle):g}",
        f"{median(job.calls for job in middle):g}",
        elapsed(round(median(job.work_us for job in middle))),
        cost(round(median(job.usage.cost_uusd for job in middle)), free(middle)),
    ]


def _costs(total: Stats) -> Table:
    groups = by_outcome(total.jobs)
    spent = {name: sum_of(jobs) for name, jobs in groups.items()}
    most = max((usage.cost_uusd for usage in spent.values()), default=0)
    rows = [
        [
            name,
            str(len(jobs)),
            cost(spent[name].cost_uusd, free(jobs)),
            cost(round(spent[name].cost_uusd / len(jobs)), free(jobs)),
            tokens(spent[name].tokens, free(jobs)),
            bar(spent[name].cost_uusd, most),
        ]
        for name, jobs in groups.items()
    ]
    return Table("Cost per outcome", ("OUTCOME", "TASKS", "COST", "EACH", "TOKENS", ""), rows)


def _moves(total: Stats) -> Table:
    common = total.moves.most_common()
    rows = [
        [machine, f"{source} → {target}", str(count), bar(count, common[0][1])]
        for (machine, source, target), count in common[:TRANSITIONS]
    ]
    title = f"Transitions (the {TRANSITIONS} most frequent of {len(common)})"
    title = title if len(common) > TRANSITIONS else "Transitions"
    return Table(title, ("MACHINE", "FROM → TO", "COUNT", ""), rows)


def _times(total: Stats) -> Table:
    longest = [row for row in total.state_us.most_common(TRANSITIONS) if row[1]]
    rows = [[machine, state, elapsed(us), bar(us, longest[0][1])] for (machine, state), us in longest]
    return Table("Time by state", ("MACHINE", "STATE", "TIME", ""), rows)


def _loops(total: Stats) -> Table:
    rate = f"{total.milestones_per_hour:.1f} per hour of work"
    rows = [
        ["turns that ended like the turn before", str(total.same_results)],
        ["turns with the same error as before", str(total.same_errors)],
        ["tool calls that repeated the call before", str(total.same_calls)],
        ["milestones (completed runs and steps)", f"{total.milestones} ({rate})"],
        ["failed attempts in a state", str(total.failures)],
        ["questions", f"{total.questions} asked, {total.open_questions} open"],
        ["changes checked by the guard", _verdicts(total)],
    ]
    return Table("Progress and repeats", ("WHAT", "COUNT"), rows)


def _verdicts(total: Stats) -> str:
    names = {"allow": "allowed", "ask": "asked about", "deny": "refused"}
    counts = sorted(total.verdicts.items())
    return ", ".join(f"{count} {names.get(verdict, verdict)}" for verdict, count in counts) or "0"


def _recoveries(total: Stats) -> Table:
    rows = [
        [kind, str(one.used), plural(one.completed, "task")] for kind, one in sorted(total.recoveries.items())
    ]
    headers = ("RECOVERY", "USED", "LAST BEFORE COMPLETION OF")
    return Table("Recoveries", headers, rows)
