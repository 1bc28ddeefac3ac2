"""GUARD-4: money and tokens of all runs together in a day and a week, and the share of a plan's window."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.e2e.helpers import FIXED, Ran, Yard

from flyball.runtime.app import App
from flyball.runtime.start import RunRequest, launch

PAID = {"cost_usd": 1.0, "input_tokens": 900, "output_tokens": 100}


@pytest.fixture
def yard(tmp_path: Path) -> Yard:
    return Yard(tmp_path)


def paid(yard: Yard, *sets: str, usage: dict[str, Any] = PAID) -> Ran:
    """A worker that is paid for its first turn and finishes with the second, for nothing."""
    turns = [
        {"write": {"calc.py": FIXED}, "usage": usage},
        {"finish": {"indicators": ["task complete", "all done"]}},
    ]
    words = [word for pair in sets for word in ("--set", pair)]
    return yard.play(yard.script(worker=turns), *words, machine="loop", proof=None)


def test_what_all_runs_spend_in_a_day_and_a_week_is_bounded(yard: Yard) -> None:
    """Each run pays for one turn, and one more is reserved before it."""
    assert paid(yard, "budget.day_usd=2").code == "completed_unproven"
    ran = paid(yard, "budget.day_usd=1.5", "budget.week_tokens=9000")
    assert (ran.exit, ran.code, ran.status) == (5, "limit.budget_usd", "waiting")
    evidence = ran.facts["stop_reason"]
    assert evidence["rule"] == "budget.day_usd" and "by all runs" in evidence["evidence"]["observed"]
    assert yard.flyball("answer", ran.question, "raise").returncode == 0
    assert yard.resume().code == "completed_unproven", "by the same again"


def test_a_share_of_the_plan_is_kept_and_the_next_window_is_waited_for(yard: Yard) -> None:
    used = {"plan_percent": 80, "plan_reset_in_s": 1}
    ran = paid(yard, "budget.plan_percent=80", usage=used)
    assert (ran.code, ran.turns) == ("completed_unproven", 2)
    facts = [json.loads(line) for line in yard.flyball("log", ran.run, "--json").stdout.splitlines()]
    stops = [fact["stop"] for fact in facts if fact["is"] == "Stopped"]
    assert {(stop["code"], stop["rule"]) for stop in stops} == {("wait.rate_limit", "budget.plan_percent")}


def test_the_tier_comes_from_task_and_change_and_is_shown(yard: Yard) -> None:
    """Without a budget of all runs nobody looks what the others spent."""
    ran = paid(yard)
    assert ran.facts["tier"] == "T3"
    assert "risk         low (tier T3)" in yard.flyball("show", ran.run).stdout
    kinds = [json.loads(line)["is"] for line in yard.flyball("log", ran.run, "--json").stdout.splitlines()]
    assert "WindowSeen" not in kinds
    words = ["run", "Rotate the production credentials", "--machine", "loop", "--set", "limits.turns=1"]
    told = json.loads(
        yard.flyball(*words, "--agent", yard.script(worker=[{"write": {"calc.py": FIXED}}]), "--json").stdout
    )
    assert told["tier"] == "T1"


@pytest.mark.parametrize(
    ("sets", "day", "week"),
    [((), 20_000_000, 100_000_000), (("budget.day_tokens=none", "budget.week_tokens=7"), None, 7)],
)
def test_where_nobody_watches_a_day_and_a_week_are_bounded(
    yard: Yard, sets: tuple[str, ...], day: int | None, week: int
) -> None:
    """CTO-4: under `up` unless somebody has said otherwise; other runs have no such limit."""
    with contextlib.closing(App(yard.env)) as app:
        request = RunRequest(task="x", repo=yard.repo, agents=("mechanic",), sets=sets, machine="cto")
        budget = launch(app, request, standing=True)[0].settings.budget
        assert (budget.day_tokens, budget.week_tokens) == (day, week)
        alone = launch(app, replace(request, machine="build", sets=()))[0].settings.budget
        assert (alone.day_tokens, alone.week_tokens) == (None, None)
