"""The statistics as tables with small bars, for people."""

from __future__ import annotations

from collections.abc import Sequence

from flyball.domain.settings import elapsed
from flyball.views.run_stats import OPEN, Job, Stats, by_outcome, free, median, sum_of
from flyball.views.text import columns, cost, plural, tokens

BAR = 20
TRANSITIONS = 15  # the most frequent ones; `--json` has all


def lines(total: Stats) -> list[str]:
    parts = [_jobs(total), _costs(total), _moves(total), _times(total), _loops(total), _recoveries(total)]
    return [line for part in parts if part for line in (*part, "")][:-1]


def bar(value: float, most: float) -> str:
    """At least a thin bar for anything above zero."""
    return "█" * max(round(BAR * value / most), int(value > 0)) if most else ""


def _jobs(total: Stats) -> list[str]:
    machines = sorted({job.machine for job in total.tasks})
    rows = [_job_row(name, [job for job in total.tasks if job.machine == name]) for name in machines]
    headers = ("MACHINE", "TASKS", "COMPLETED", "FAILED", "OPEN", "TURNS", "CALLS", "WORK", "COST")
    return [
        "Tasks (turns, tool calls, working time and cost are medians of those that ended)",
        *columns(headers, rows),
    ]


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


def _costs(total: Stats) -> list[str]:
    groups = by_outcome(total.jobs)
    spent = {name: sum_of(jobs) for name, jobs in groups.items()}
    most = max(usage.cost_uusd for usage in spent.values())
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
    return ["Cost per outcome", *columns(("OUTCOME", "TASKS", "COST", "EACH", "TOKENS", ""), rows)]


def _moves(total: Stats) -> list[str]:
    common = total.moves.most_common()
    if not common:
        return []
    rows = [
        [machine, f"{source} → {target}", str(count), bar(count, common[0][1])]
        for (machine, source, target), count in common[:TRANSITIONS]
    ]
    title = f"Transitions (the {TRANSITIONS} most frequent of {len(common)})"
    title = title if len(common) > TRANSITIONS else "Transitions"
    return [title, *columns(("MACHINE", "FROM → TO", "COUNT", ""), rows)]


def _times(total: Stats) -> list[str]:
    longest = [row for row in total.state_us.most_common(TRANSITIONS) if row[1]]
    if not longest:
        return []
    rows = [[machine, state, elapsed(us), bar(us, longest[0][1])] for (machine, state), us in longest]
    return ["Time by state", *columns(("MACHINE", "STATE", "TIME", ""), rows)]


def _loops(total: Stats) -> list[str]:
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
    return ["Progress and repeats", *columns(("WHAT", "COUNT"), rows)]


def _verdicts(total: Stats) -> str:
    names = {"allow": "allowed", "ask": "asked about", "deny": "refused"}
    counts = sorted(total.verdicts.items())
    return ", ".join(f"{count} {names.get(verdict, verdict)}" for verdict, count in counts) or "0"


def _recoveries(total: Stats) -> list[str]:
    rows = [
        [kind, str(one.used), plural(one.completed, "task")] for kind, one in sorted(total.recoveries.items())
    ]
    headers = ("RECOVERY", "USED", "LAST BEFORE COMPLETION OF")
    return ["Recoveries", *columns(headers, rows)] if rows else []
