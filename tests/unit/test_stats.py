"""Statistics: each number comes from the events of the runs, in text, JSON and the Prometheus format."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.histories.stored import read

from flyball.domain import events as e
from flyball.domain.messages import Land
from flyball.domain.settings import HOUR, SECOND
from flyball.state.fold import fold
from flyball.views import daily_brief
from flyball.views.measures import Measures, measure
from flyball.views.metrics import families, prometheus
from flyball.views.notices import Notices
from flyball.views.run_stats import Stats, facts, stats
from flyball.views.spans import RunSpans
from flyball.views.stats_text import lines
from flyball.views.task_record import record
from support import (
    FAIL,
    PASS,
    Played,
    Script,
    begun,
    failed_child,
    failing,
    judged,
    ok,
    passing,
    play,
    says,
    settings,
)

COST = e.Usage(cost_uusd=250_000, input_tokens=100, output_tokens=20)


def measured(played: Played, **more: Any) -> Measures:
    counts = measure(played.events, played.now, **more)
    assert counts is not None
    return counts


def recovery(kind: str, **data: Any) -> Any:
    return says(outcome=kind, data={"kind": kind, "guidance": "do it so", **data})


def task(**plays: Any) -> Played:
    return play(Script(**plays), begun("task", settings()))


def build(*turns: Any, **plays: Any) -> Played:
    return play(Script(**{"agent:coder": list(turns)} if turns else {}, **plays), begun("build", settings()))


def timed(result: e.TurnEnded, seconds: int) -> Any:
    return lambda run, act: judged(act, result, took_us=seconds * SECOND)


def test_turns_calls_time_and_cost_are_those_of_the_acts() -> None:
    turn = e.TurnEnded(verdict="ok", tree="t1", usage=COST, calls=7)
    counts = measured(build(timed(turn, 30), proof=passing))
    assert (counts.turns, counts.calls, counts.usage) == (3, 7, COST)  # planner, coder, critic
    assert (counts.act_us["agent"], counts.acts["agent"]) == (30 * SECOND, 3)
    assert counts.moves == {
        ("plan", "write"): 1,
        ("write", "test"): 1,
        ("test", "verify"): 1,
        ("verify", "complete"): 1,
    }
    assert (counts.end, counts.code, counts.verdicts) == ("success", "completed", {"allow": 3})


@pytest.mark.parametrize(
    ("turns", "repeats"),
    [
        ((ok("t1"), ok("t2"), ok("t3")), 0),
        ((ok("t1"), ok("t1"), ok("t2")), 1),
        ((ok("t1"), ok("t2"), ok("t1")), 0),
    ],
)
def test_a_turn_that_ends_like_the_one_before_is_counted(turns: Any, repeats: int) -> None:
    proof = [failing(3, fingerprint="a"), failing(3, fingerprint="b"), passing]
    assert measured(build(*turns, proof__test=proof)).same_results == repeats


@pytest.mark.parametrize(("errors", "repeats"), [("abc", 0), ("aab", 1), ("aaa", 2), ("aba", 0)])
def test_the_same_error_is_counted_from_the_second_time(errors: str, repeats: int) -> None:
    proof = [*(failing(3, fingerprint=one) for one in errors), passing]
    turns = [ok(f"t{n}") for n in range(1, 5)]
    assert measured(build(*turns, proof__test=proof)).same_errors == repeats


def test_fewer_failing_tests_and_states_left_forwards_are_milestones() -> None:
    proof = [failing(3), failing(1), passing]
    assert (
        measured(
            build(ok("t1"), ok("t2"), ok("t3"), proof__baseline=failing(3), proof__test=proof)
        ).milestones
        == 2
    )
    assert measured(task()).milestones == 9
    assert measured(task(planning=[FAIL, PASS])).milestones == 9  # back to the same state is none


def test_equal_calls_in_a_row_are_counted() -> None:
    look, write = e.Action(tool="Read", input="a", result="x"), e.Action(tool="Write", input="a")
    turn = e.TurnEnded(verdict="ok", tree="t1", calls=5, actions=(look, look, write, look, look))
    assert measured(build(turn)).same_calls == 2


RECOVERIES = {
    "none": ({}, {}),
    "simple": ({"planning": [FAIL, PASS]}, {"simple retry": (1, 1)}),
    "guided": (
        {"planning": [FAIL] * 3 + [PASS], "cto_intervention": recovery("retry")},
        {"simple retry": (2, 0), "guided retry": (1, 1)},
    ),
    "rollback": (
        {"testing": [failing()] * 3 + [passing], "cto_intervention": recovery("rollback", state="planning")},
        {"simple retry": (2, 0), "rollback": (1, 1)},
    ),
    "skip": (
        {"in_progress": failed_child(), "cto_intervention": recovery("skip")},
        {"simple retry": (2, 0), "skip": (1, 1)},
    ),
    "escalated": (
        {"planning": FAIL, "cto_intervention": recovery("escalate")},
        {"simple retry": (2, 0), "escalate": (1, 0)},
    ),
}


@pytest.mark.parametrize("name", RECOVERIES)
def test_the_last_recovery_before_completion_gets_the_credit(name: str) -> None:
    plays, expected = RECOVERIES[name]
    known = stats([measured(task(**plays))]).recoveries
    assert {kind: (one.used, one.completed) for kind, one in known.items()} == expected


def test_a_persons_retry_is_a_recovery() -> None:
    played = task(planning=[FAIL] * 3 + [PASS], cto_intervention=recovery("escalate"))
    played.answer("retry", "planning")
    one = stats([measured(played)]).recoveries["human retry"]
    assert (played.code, one.used, one.completed) == ("completed", 1, 1)


def test_only_what_happened_since_is_counted() -> None:
    played = build(timed(ok("t1", usage=COST), 30), proof=passing)
    half = played.now // 2
    late, all_of_it = measured(played, since=half), measured(played)
    assert 0 < late.turns < all_of_it.turns and late.moves.total() < all_of_it.moves.total()
    assert late.state_us.total() == played.now - half - (played.now - played.run.at)
    assert measured(played, since=played.now + 1).turns == 0


def family() -> Stats:
    """A task with a child run below it, a failed build, and a build that waits for an answer."""
    parent = measured(task())
    child = measured(build(ok("t1", usage=COST), proof=passing))
    child.run, child.parent, child.root, child.owner = "r2", "r1", "r1", False
    failed = measured(build(proof__test=failing(fingerprint="a")))
    waits = measured(build(ok("t1", usage=COST, ask="Which?")))
    failed.run, waits.run = "r3", 'odd"\\\n'
    return stats([parent, child, failed, waits])


def test_the_work_of_a_child_belongs_to_its_task() -> None:
    total = family()
    jobs = {job.run: job for job in total.jobs}
    assert set(jobs) == {"r1", "r3", 'odd"\\\n'}
    assert (jobs["r1"].turns, jobs["r1"].usage) == (1 + 3, COST)
    costs = {row["outcome"]: (row["tasks"], row["cost_usd"]) for row in facts(total)["cost_per_outcome"]}
    assert costs == {"completed": (1, 0.25), "limit.fix_attempts": (1, 0.0), "open": (1, 0.25)}
    assert facts(total)["questions"] == {"asked": 1, "open": 1}


def test_the_prometheus_text_is_read_by_its_own_parser() -> None:
    total = family()
    total.runs['odd"\\\n', "a\nb"] += 1  # a user names machines
    read = {family.name: family for family in text_string_to_metric_families(prometheus(families(total)))}
    assert set(read) == {family.name for family in families(total)}
    for family_ in families(total):
        samples = [(sample.labels, sample.value) for sample in read[family_.name].samples]
        assert samples == [(labels, pytest.approx(value)) for labels, value in family_.samples]
        assert read[family_.name].type == family_.kind
    spent = {sample.labels["outcome"]: sample.value for sample in read["flyball_cost_usd"].samples}
    assert spent == {"completed": 0.25, "limit.fix_attempts": 0.0, "open": 0.25}


def test_the_tables_say_the_same_as_the_json() -> None:
    total = family()
    text, known = "\n".join(lines(total)), facts(total)
    for row in known["transitions"][:3]:
        assert f"{row['from']} → {row['to']}" in text
    assert "$0.25" in text and "limit.fix_attempts" in text and "█" in text


def test_nothing_to_count_is_zeros() -> None:
    known = facts(stats([]))
    assert (known["tasks"], known["execution_s"]["median"], known["milestones"]["per_hour"]) == (0, 0, 0.0)
    assert list(text_string_to_metric_families(prometheus(families(stats([])))))


@pytest.mark.parametrize(
    "task", ["[a](http://x) **b**", "# Title", "<img src=x>", "`rm -rf`", "two\n\n# lines", "\x1b[2Jx"]
)
def test_no_task_changes_the_page_of_the_brief(task: str) -> None:
    total = family()
    for job in total.jobs:
        job.task = task
    text = daily_brief.lines(total, [], 0, 1)
    plain = daily_brief.lines(family(), [], 0, 1)
    assert len(text) == len(plain) and [line for line in text if line.startswith("#")] == [
        line for line in plain if line.startswith("#")
    ]
    assert not any(re.search(r"(?<!\\)(\]\(|<img)|\x1b", line) for line in text)


def test_landing_days_after_the_end_takes_no_time() -> None:
    played = build(timed(ok("t1"), 30), proof=passing)
    ended, played.now = played.now, played.now + 3 * 24 * HOUR
    played.write(Land(branch="main")).go_on()
    counts, known = measured(played), record(played.events, played.now)
    assert counts.landed and counts.updated_at <= ended and "complete" not in +counts.state_us
    assert sum(known["timeByState"].values()) == pytest.approx(known["totalTaskTime"], abs=0.1)


HISTORIES = sorted((Path(__file__).parents[1] / "histories").rglob("*.jsonl.gz"))


def test_runs_of_earlier_versions_are_counted_recorded_and_traced() -> None:
    """Whatever a journal holds: the counts agree with the fold, and no view of it fails."""
    assert HISTORIES
    rows: list[Measures] = []
    for file in HISTORIES:
        for entries in read(file)[1].values():
            events = [e.decode(entry.body) for entry in entries]
            run, told = fold(None, events), Notices()
            counts = measure(events, run.at)
            assert counts is not None
            rows.append(counts)
            known = record(events, run.at)
            assert known["currentState"] == run.state == counts.state
            assert sum(known["timeByState"].values()) == pytest.approx(known["totalTaskTime"], abs=0.1)
            spans = RunSpans()
            acts = [span for event in events for span in spans.of(event)]
            assert len({span.id for span in acts}) == len(acts)
            notices = [notice for event in events if (notice := told.of(run, event))]
            assert all(run.id in notice.title for notice in notices)
    total = stats(rows)
    assert total.moves.total() == sum(row.moves.total() for row in rows)
    assert lines(total) and facts(total)["tasks"] == len(total.tasks)
