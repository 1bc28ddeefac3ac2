"""What Flyball finds out about a plan before it is executed (CTO-2 to CTO-4): estimate, tier, approval, blockers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import flyball.guard
from flyball.acts.assess import (
    DEFAULT_TOKENS,
    DEFAULT_UUSD,
    ENOUGH,
    MISSING,
    STEPS_MOST,
    EndedTask,
    assessed,
    estimate,
)
from flyball.domain import events as e
from flyball.domain.settings import Settings
from flyball.guard.policy import parse
from flyball.state.fold import begin
from flyball.state.run import Plan
from support import begun

POLICY = parse((Path(flyball.guard.__file__).parent / "policies" / "default.toml").read_text("utf-8")).get()


def ended(*costs: int, agent: str = "a", files: int = 0) -> list[EndedTask]:
    return [EndedTask(cost_uusd=cost, tokens=10 * cost, agent=agent, files=files) for cost in costs]


FEW, OTHER = [1] * ENOUGH, [500] * ENOUGH


@pytest.mark.parametrize(
    ("tasks", "steps", "cost", "median", "basis"),
    [
        pytest.param([], 1, DEFAULT_UUSD, DEFAULT_UUSD, "a default", id="nothing ended"),
        pytest.param(ended(*FEW[1:]), 3, 3 * DEFAULT_UUSD, 3 * DEFAULT_UUSD, "a default", id="too few"),
        pytest.param(ended(*range(1, 11)), 1, 9, 5, "10 tasks of this size and agent", id="p90 and median"),
        pytest.param(ended(*range(10, 0, -1)), 2, 18, 10, "10 tasks", id="any order and each step"),
        pytest.param(ended(*[1] * 9, 1000), 1, 1, 1, "10 tasks", id="one outlier"),
        pytest.param(ended(*[1] * 8, 1000, 1000), 1, 1000, 1, "10 tasks", id="two outliers"),
        pytest.param(
            [*ended(*FEW), *ended(*OTHER, agent="b"), *ended(*OTHER, files=9)],
            1, 1, 1, "5 tasks of this size and agent", id="like tasks alone",
        ),
        pytest.param(
            [*ended(*FEW[1:]), *ended(*OTHER, agent="b"), *ended(*OTHER, files=9)],
            1, 500, 500, "9 tasks of this agent", id="too few of this size",
        ),
        pytest.param(
            [*ended(*FEW[1:]), *ended(*OTHER, agent="b")],
            1, 500, 500, "9 tasks here", id="too few of this agent",
        ),
    ],
)  # fmt: skip
def test_an_estimate_is_that_of_like_tasks_that_ended_here(
    tasks: list[EndedTask], steps: int, cost: int, median: int, basis: str
) -> None:
    found = estimate(tasks, "a", 1, steps)
    assert (found.cost_uusd, found.median_uusd) == (cost, median) and basis in found.basis
    if tasks and "default" not in basis:
        assert (found.tokens, found.median_tokens) == (10 * cost, 10 * median)
    else:
        assert found.tokens == found.median_tokens == DEFAULT_TOKENS * steps


@pytest.mark.parametrize(("files", "like"), [(1, 0), (2, 2), (5, 2), (6, 6), (99, 6)])
def test_sizes_are_one_file_a_few_and_many(files: int, like: int) -> None:
    tasks = [
        one for number, size in enumerate((0, 2, 6)) for one in ended(*[number + 1] * ENOUGH, files=size)
    ]
    assert estimate(tasks, "a", files, 1).cost_uusd == (0, 2, 6).index(like) + 1


def plan(*paths: str, **more: Any) -> dict[str, Any]:
    return {"steps": [{"title": "Do it", "paths": list(paths)}], **more}


def found(data: dict[str, Any], governance: dict[str, str] | None = None, **settings: Any) -> e.Assessment:
    run = begin(begun("cto", Settings(**settings)))
    return assessed(run, data, POLICY, (), governance or {}, "/workspace")


@pytest.mark.parametrize(
    ("settings", "asks"),
    [
        ({"approve_uusd": DEFAULT_UUSD}, False),
        ({"approve_uusd": DEFAULT_UUSD - 1}, True),
        ({"approve_tokens": DEFAULT_TOKENS}, False),
        ({"approve_tokens": DEFAULT_TOKENS - 1}, True),
        ({"approve_uusd": None, "approve_tokens": None}, False),
    ],
)
def test_a_plan_over_the_threshold_waits_and_one_at_it_does_not(settings: dict[str, Any], asks: bool) -> None:
    plain = found(plan("src/a.py"), **settings)
    assert (bool(plain.reasons), plain.tier) == ((True, "T2") if asks else (False, "T3"))


TIERS = [
    ("T3", plan("src/a.py")),
    ("T2", plan("src/a.py", tier="T2")),
    ("T2", plan("pyproject.toml")),
    ("T2", plan("pyproject.toml", tier="T3")),
    ("T2", plan("pyproject.toml", tier="T0")),
    ("T1", plan("src/auth/login.py", tier="T3")),
]


@pytest.mark.parametrize(("tier", "data"), TIERS)
def test_a_planner_may_raise_the_tier_and_never_lowers_it(tier: str, data: dict[str, Any]) -> None:
    plan_found = found(data)
    assert plan_found.tier == tier and bool(plan_found.approval) == (tier in ("T1", "T2"))


def test_that_ci_fails_does_not_make_a_repair_a_change_of_ci() -> None:
    for kind, tier in (("ci", "T3"), ("task", "T2")):
        run = begin(begun("cto", Settings()))
        run = replace(run, plan=Plan(trigger=e.Trigger(kind=kind, text="CI fails: mend add()")))
        assert assessed(run, {}, POLICY, (), {}, "/workspace").tier == tier
    run = replace(run, plan=Plan(trigger=e.Trigger(kind="ci", text="CI fails: bump the dependencies")))
    assert assessed(run, {}, POLICY, (), {}, "/workspace").tier == "T2"


RISKY = "src/auth/login.py"
BLOCKED: list[tuple[str, dict[str, Any], dict[str, str], str]] = [
    ("a T1 plan without a rollback note", plan(RISKY), {}, "roll it back"),
    ("with one", plan(RISKY, rollback="Revert the commit."), {}, ""),
    ("a T2 plan needs none", plan("pyproject.toml"), {}, ""),
    ("a governance file that is missing", plan("src/a.py"), {"RULES.md": MISSING, "b": "1"}, "RULES.md"),
    ("what the guard denies", plan(".git/config"), {}, ".git/config"),
    ("what the planner says", plan("src/a.py", blockers="The key is missing."), {}, "The key is missing."),
]


@pytest.mark.parametrize(
    ("data", "governance", "says"), [row[1:] for row in BLOCKED], ids=[r[0] for r in BLOCKED]
)
def test_what_blocks_a_plan_waits_for_a_person(
    data: dict[str, Any], governance: dict[str, str], says: str
) -> None:
    one = found(data, governance)
    assert [says in text for text in one.blockers] == [True] * bool(says) and set(one.blockers) <= set(
        one.reasons
    )
    assert one.governance == governance


def test_a_plan_has_its_steps_with_paths_and_criteria_or_is_one_step() -> None:
    rows = [{"title": "One", "paths": "a.py", "criteria": ["It works."]}] * (STEPS_MOST + 1)
    steps = found({"steps": rows}).steps
    assert len(steps) == STEPS_MOST
    assert steps[0] == e.PlanStep(title="One", paths=("a.py",), criteria=("It works.",))
    assert found({}).steps == (e.PlanStep(title="fix it"),)
