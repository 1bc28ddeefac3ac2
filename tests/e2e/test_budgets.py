"""GUARD-4: money and tokens of all runs together in a day and a week, and the share of a plan's window."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.yard import ACCEPT, GOOD, WORSE, Ran, Yard

PAID = {"cost_usd": 1.0, "input_tokens": 900, "output_tokens": 100}


@pytest.fixture
def yard(tmp_path: Path) -> Yard:
    return Yard(tmp_path)


def paid(yard: Yard, *sets: str, usage: dict[str, Any] = PAID) -> Ran:
    """A planner, a coder whose first try fails and a critic; each turn of the coder is paid for."""
    turns = [{"write": {"calc.py": text}, "usage": usage} for text in (WORSE, GOOD)]
    words = [word for pair in sets for word in ("--set", pair)]
    return yard.run(yard.script(coder=turns, critic=ACCEPT), *words)


@pytest.mark.parametrize(
    ("key", "most", "code"),
    [
        ("budget.day_usd", "3.5", "limit.budget_usd"),
        ("budget.week_tokens", "3500", "limit.budget_tokens"),
    ],
)
def test_what_all_runs_spend_in_a_day_and_a_week_is_bounded(
    yard: Yard, key: str, most: str, code: str
) -> None:
    assert paid(yard, f"{key}={most}").code == "completed", "two spent and one reserved of three and a half"
    ran = paid(yard, f"{key}={most}")
    assert (ran.exit, ran.code, ran.status) == (5, code, "waiting")
    evidence = ran.facts["stop_reason"]
    assert evidence["rule"] == key and "by all runs" in evidence["evidence"]["observed"]
    assert yard.flyball("answer", ran.question, "raise").returncode == 0
    assert yard.resume().code == "completed", "by the same again"


def test_without_such_a_budget_nobody_looks(yard: Yard) -> None:
    ran = paid(yard)
    kinds = [json.loads(line)["is"] for line in yard.flyball("log", ran.run, "--json").stdout.splitlines()]
    assert ran.code == "completed" and "WindowSeen" not in kinds


def test_a_share_of_the_plan_is_kept_and_the_next_window_is_waited_for(yard: Yard) -> None:
    used = {"plan_percent": 80, "plan_reset_in_s": 2}
    ran = paid(yard, "budget.plan_percent=80", usage=used)
    assert (ran.code, ran.turns) == ("completed", 4)
    facts = [json.loads(line) for line in yard.flyball("log", ran.run, "--json").stdout.splitlines()]
    stops = [fact["stop"] for fact in facts if fact["is"] == "Stopped"]
    assert {(stop["code"], stop["rule"]) for stop in stops} == {("wait.rate_limit", "budget.plan_percent")}
    assert paid(yard, "budget.plan_percent=81", usage=used).code == "completed"


def test_the_tier_comes_from_task_and_change_and_is_shown(yard: Yard) -> None:
    ran = paid(yard)
    assert ran.facts["tier"] == "T3"
    assert "risk         T3" in yard.flyball("show", ran.run).stdout
    agent = yard.script(coder=[{"write": {"calc.py": GOOD}}], critic=ACCEPT)
    words = ["run", "Rotate the production credentials", "--agent", agent, "--json"]
    told = json.loads(yard.flyball(*words).stdout)
    assert told["tier"] == "T1"
