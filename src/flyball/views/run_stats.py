"""What all runs add up to (CTO-15): per machine, per outcome, per transition, and which recovery helped (TASK-3)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Struct, field

from flyball.domain import events as e
from flyball.domain.settings import HOUR, SECOND
from flyball.views.measures import Measures
from flyball.views.text import is_free

OPEN = "open"  # the outcome of a job that has not ended
LANE = "planning"  # … of a lane of `up`, which is no task: what its plans cost


class Job(Struct):
    """One task as a person sees it: a run with its own checkout, and its child runs."""

    run: str
    machine: str
    task: str
    outcome: str
    began_at: int
    updated_at: int
    status: str = ""
    asks: bool = False
    landed: bool = False
    turns: int = 0
    calls: int = 0
    work_us: int = 0
    usage: e.Usage = e.Usage()
    agents: set[str] = field(default_factory=set[str])

    @property
    def took_us(self) -> int:
        return self.updated_at - self.began_at


class Recovery(Struct):
    """How often a kind of recovery was used, and how often it was the last one before the task completed."""

    used: int = 0
    completed: int = 0


class Stats(Struct):
    """`runs` counts by machine and outcome, `moves` by machine, source and target."""

    jobs: list[Job] = field(default_factory=list[Job])
    runs: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    status: Counter[str] = field(default_factory=Counter[str])
    turns: Counter[str] = field(default_factory=Counter[str])
    calls: Counter[str] = field(default_factory=Counter[str])
    work_us: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    moves: Counter[tuple[str, str, str]] = field(default_factory=Counter[tuple[str, str, str]])
    state_us: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    verdicts: Counter[str] = field(default_factory=Counter[str])
    recoveries: dict[str, Recovery] = field(default_factory=dict[str, Recovery])
    usage: e.Usage = e.Usage()
    same_results: int = 0
    same_errors: int = 0
    same_calls: int = 0
    milestones: int = 0
    failures: int = 0
    questions: int = 0
    open_questions: int = 0

    @property
    def tasks(self) -> list[Job]:
        return [job for job in self.jobs if job.outcome != LANE]

    @property
    def milestones_per_hour(self) -> float:
        work = self.work_us.total()
        return round(self.milestones * HOUR / work, 2) if work else 0.0


def stats(measures: Iterable[Measures]) -> Stats:
    rows = list(measures)
    total = Stats(jobs=_jobs(rows))
    for one in rows:
        _add(total, one)
    return total


def _add(total: Stats, one: Measures) -> None:
    total.runs[one.machine, outcome(one)] += 1
    total.status[one.status] += 1
    total.turns[one.machine] += one.turns
    total.calls[one.machine] += one.calls
    total.usage = total.usage.plus(one.usage)
    total.verdicts.update(one.verdicts)
    for kind, us in one.act_us.items():
        total.work_us[one.machine, kind] += us
    for (source, target), count in one.moves.items():
        total.moves[one.machine, source, target] += count
    for state, us in one.state_us.items():
        total.state_us[one.machine, state] += us
    for number, kind in enumerate(one.recoveries, 1):
        recovery = total.recoveries.setdefault(kind, Recovery())
        recovery.used += 1
        recovery.completed += int(number == len(one.recoveries) and one.end == "success")
    for name in ("same_results", "same_errors", "same_calls", "milestones", "failures", "questions"):
        setattr(total, name, getattr(total, name) + getattr(one, name))
    total.open_questions += int(one.asks)


def outcome(one: Measures) -> str:
    """The code that it ended with; a run that waits may still succeed, so its code is not its outcome."""
    if one.standing:
        return LANE
    return (one.code or one.end) if one.status == "ended" else OPEN


def _jobs(rows: Sequence[Measures]) -> list[Job]:
    """Newest first. The work of a run is added to the nearest run above it that owns a checkout."""
    by_run, jobs = {one.run: one for one in rows}, dict[str, Job]()
    for one in rows:
        owner = one
        while not owner.owner and owner.parent in by_run:
            owner = by_run[owner.parent]
        job = jobs.setdefault(owner.run, _job(owner))
        job.turns += one.turns
        job.calls += one.calls
        job.work_us += one.work_us
        job.usage = job.usage.plus(one.usage)
        job.agents |= one.agents
        job.asks = job.asks or one.asks
    return sorted(jobs.values(), key=lambda job: (-job.began_at, job.run))


def _job(owner: Measures) -> Job:
    return Job(
        run=owner.run,
        machine=owner.machine,
        task=owner.task,
        outcome=outcome(owner),
        began_at=owner.began_at,
        updated_at=owner.updated_at,
        status=owner.status,
        landed=owner.landed,
    )


# ---- as JSON ---------------------------------------------------------------------------------------------


def facts(total: Stats) -> dict[str, Any]:
    """The object that `--json` prints."""
    ended = [job for job in total.tasks if job.outcome != OPEN]
    return {
        "tasks": len(total.tasks),
        "runs": [{"machine": m, "outcome": o, "count": n} for (m, o), n in sorted(total.runs.items())],
        "actions_per_task": {
            "turns": _spread([job.turns for job in ended]),
            "tool_calls": _spread([job.calls for job in ended]),
        },
        "execution_s": _spread([job.work_us / SECOND for job in ended]),
        "elapsed_s": _spread([job.took_us / SECOND for job in ended]),
        "transitions": [
            {"machine": m, "from": a, "to": b, "count": n} for (m, a, b), n in sorted(total.moves.items())
        ],
        "time_by_state_s": [
            {"machine": m, "state": s, "seconds": us / SECOND}
            for (m, s), us in sorted(total.state_us.items())
        ],
        "same_action": {"turns": total.same_results, "tool_calls": total.same_calls},
        "same_error": total.same_errors,
        "milestones": {"count": total.milestones, "per_hour": total.milestones_per_hour},
        "cost_per_outcome": [_cost_facts(name, jobs) for name, jobs in by_outcome(total.jobs).items()],
        "recoveries": {
            kind: {"used": one.used, "completed": one.completed}
            for kind, one in sorted(total.recoveries.items())
        },
        "guard": dict(sorted(total.verdicts.items())),
        "failures": total.failures,
        "questions": {"asked": total.questions, "open": total.open_questions},
        "cost_usd": known_usd(total.jobs, total.usage.cost_uusd),
        "tokens": total.usage.tokens,
    }


def by_outcome(jobs: Iterable[Job]) -> dict[str, list[Job]]:
    groups: dict[str, list[Job]] = {}
    for job in jobs:
        groups.setdefault(job.outcome, []).append(job)
    return dict(sorted(groups.items()))


def _cost_facts(name: str, jobs: Sequence[Job]) -> dict[str, Any]:
    usage = sum_of(jobs)
    return {
        "outcome": name,
        "tasks": len(jobs),
        "cost_usd": known_usd(jobs, usage.cost_uusd),
        "cost_usd_each": known_usd(jobs, round(usage.cost_uusd / len(jobs))),
        "tokens": usage.tokens,
    }


def free(jobs: Iterable[Job]) -> bool:
    """Whether nothing reported means that nothing was spent."""
    return all(not job.turns or is_free(job.agents, job.usage.tokens) for job in jobs)


def known_usd(jobs: Iterable[Job], uusd: int) -> float | None:
    return uusd / 1_000_000 if uusd or free(jobs) else None


def sum_of(jobs: Iterable[Job]) -> e.Usage:
    usage = e.Usage()
    for job in jobs:
        usage = usage.plus(job.usage)
    return usage


def median(values: Iterable[float]) -> float:
    """The median."""
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def _spread(values: Sequence[float]) -> dict[str, float]:
    """Median, mean and most; zeros where there is nothing to count."""
    if not values:
        return {"median": 0, "mean": 0, "max": 0}
    mean = round(sum(values) / len(values), 3)
    return {"median": median(values), "mean": mean, "max": max(values)}
