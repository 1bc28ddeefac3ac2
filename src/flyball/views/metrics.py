"""The statistics as metric families: one list that Prometheus text and OpenTelemetry both write out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from flyball.domain.settings import SECOND
from flyball.views.run_stats import Stats, by_outcome, sum_of

Sample = tuple[dict[str, str], float]


class Family(Struct, frozen=True):
    """One metric. `kind` is counter or gauge; the name of a counter has no `_total`."""

    name: str
    kind: str
    about: str
    samples: tuple[Sample, ...]


def families(total: Stats) -> list[Family]:
    return [*_activity(total), *_repeats(total), *_now(total)]


def _activity(total: Stats) -> list[Family]:
    spent = {name: sum_of(jobs) for name, jobs in by_outcome(total.jobs).items()}
    return [
        _counter("runs", "Runs by machine and outcome.", _by(total.runs.items(), "machine", "outcome")),
        _counter("turns", "Agent turns.", [({"machine": name}, n) for name, n in total.turns.items()]),
        _counter(
            "tool_calls", "Tool calls of agents.", [({"machine": m}, n) for m, n in total.calls.items()]
        ),
        _counter(
            "work_seconds", "Time spent in acts.", _by(total.work_us.items(), "machine", "act", scale=SECOND)
        ),
        _counter(
            "state_seconds",
            "Time spent in states.",
            _by(total.state_us.items(), "machine", "state", scale=SECOND),
        ),
        _counter(
            "transitions", "Transitions between states.", _by(total.moves.items(), "machine", "from", "to")
        ),
        _counter(
            "cost_usd",
            "Cost by outcome of the task, in dollars.",
            [({"outcome": name}, usage.cost_uusd / 1_000_000) for name, usage in spent.items()],
        ),
        _counter(
            "tokens",
            "Tokens by outcome of the task, without cache reads.",
            [({"outcome": name}, usage.tokens) for name, usage in spent.items()],
        ),
    ]


def _repeats(total: Stats) -> list[Family]:
    recoveries = [
        ({"kind": kind, "completed": label}, count)
        for kind, one in total.recoveries.items()
        for label, count in (("yes", one.completed), ("no", one.used - one.completed))
    ]
    return [
        _counter("same_action_turns", "Turns that ended like the turn before.", [({}, total.same_results)]),
        _counter("same_action_calls", "Tool calls that repeated the call before.", [({}, total.same_calls)]),
        _counter("same_error_turns", "Turns with the same error as before.", [({}, total.same_errors)]),
        _counter(
            "milestones",
            "Plan steps, task states left forwards, fewer failing tests.",
            [({}, total.milestones)],
        ),
        _counter("failures", "Failures counted in a state.", [({}, total.failures)]),
        _counter("recoveries", "Recoveries by kind, and whether the task then completed.", recoveries),
        _counter(
            "rulings",
            "Changes judged by the guard.",
            [({"verdict": v}, n) for v, n in total.verdicts.items()],
        ),
        _counter("questions", "Questions asked.", [({}, total.questions)]),
    ]


def _now(total: Stats) -> list[Family]:
    return [
        Family(
            "flyball_runs_now",
            "gauge",
            "Runs by status.",
            tuple(({"status": status}, float(n)) for status, n in sorted(total.status.items())),
        ),
        Family(
            "flyball_open_questions",
            "gauge",
            "Questions that wait for an answer.",
            (({}, total.open_questions),),
        ),
    ]


def _counter(name: str, about: str, samples: Sequence[Sample]) -> Family:
    ordered = sorted(samples, key=lambda sample: sorted(sample[0].items()))
    return Family(f"flyball_{name}", "counter", about, tuple(ordered))


def _by(rows: Iterable[tuple[tuple[str, ...], int]], *labels: str, scale: int = 1) -> list[Sample]:
    return [(dict(zip(labels, key, strict=True)), count / scale) for key, count in rows]


# ---- Prometheus ------------------------------------------------------------------------------------------


def prometheus(metrics: Iterable[Family]) -> str:
    """The text exposition format, version 0.0.4."""
    return "".join(f"{line}\n" for family in metrics for line in _exposition(family))


def _exposition(family: Family) -> list[str]:
    name = family.name + ("_total" if family.kind == "counter" else "")
    head = [f"# HELP {name} {family.about}", f"# TYPE {name} {family.kind}"]
    return [*head, *(f"{name}{_labels(labels)} {value:.15g}" for labels, value in family.samples)]


def _labels(labels: dict[str, str]) -> str:
    pairs = (f'{name}="{_escaped(value)}"' for name, value in labels.items())
    return f"{{{','.join(pairs)}}}" if labels else ""


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
