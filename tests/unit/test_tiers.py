"""Tiers: T0 reads, T3 can be undone, T2 is built on by others, T1 is real."""

from __future__ import annotations

from pathlib import Path

import pytest

import flyball.guard
from flyball.guard.changes import judge_tier
from flyball.guard.policy import Tier, exceeds, needs_approval, needs_rollback_note, parse, raise_to, tier_of

POLICY = parse((Path(flyball.guard.__file__).parent / "policies" / "default.toml").read_text("utf-8")).get()


@pytest.mark.parametrize(
    ("paths", "text", "tier"),
    [
        ([], "Explain how the parser works", "T3"),
        (["src/parser.py"], "Fix the parser", "T3"),
        (["src/parser.py"], "Bump the dependency on httpx", "T2"),
        (["pyproject.toml"], "Tidy up", "T2"),
        (["uv.lock"], "", "T2"),
        ([".github/workflows/ci.yml"], "", "T2"),
        (["app/migrations/0002_x.py"], "", "T2"),
        (["Makefile"], "", "T2"),
        (["api/openapi.yaml"], "", "T2"),
        (["infra/main.tf"], "", "T1"),
        (["src/parser.py"], "Rotate the API key in production", "T1"),
        (["src/auth/login.py"], "", "T1"),
        (["config/.env"], "", "T1"),
        (["../elsewhere.py"], "", "T1"),
        (["src/specifics.py"], "Precious reproductions of civility", "T3"),
    ],
)
def test_the_tier_comes_from_paths_and_words(paths: list[str], text: str, tier: Tier) -> None:
    assert tier_of(paths, text, POLICY)[0] == tier


def test_a_task_that_only_reads_is_t0() -> None:
    assert tier_of([], "How is security done in production?", POLICY, writes=False)[0] == "T0"
    assert tier_of(["src/x.py"], "", POLICY, writes=False)[0] == "T3"


def test_an_estimate_over_the_threshold_is_t2() -> None:
    assert tier_of(["src/x.py"], "", POLICY, over_cost=True)[0] == "T2"


def test_the_reasons_are_those_of_the_tier() -> None:
    tier, why = tier_of(["Makefile", "infra/main.tf"], "", POLICY)
    assert tier == "T1"
    assert len(why) == 1 and "infra/main.tf" in why[0]


def test_the_order_of_tiers_is_settled() -> None:
    order: list[Tier] = ["T0", "T3", "T2", "T1"]
    assert [raise_to("T3", tier) for tier in order] == ["T3", "T3", "T2", "T1"]
    assert exceeds("T1", "T2") and exceeds("T2", "T3") and not exceeds("T3", "T2") and not exceeds("T2", "T2")


def test_the_higher_tiers_wait_for_a_person() -> None:
    assert [needs_approval(tier) for tier in ("T0", "T3", "T2", "T1")] == [False, False, True, True]
    assert [needs_rollback_note(tier) for tier in ("T0", "T3", "T2", "T1")] == [False, False, False, True]


@pytest.mark.parametrize(
    ("paths", "approved", "verdict"),
    [
        (["src/parser.py"], "T3", "allow"),
        (["src/parser.py"], None, "allow"),
        (["uv.lock"], "T3", "ask"),
        (["uv.lock"], "T2", "allow"),
        (["uv.lock"], None, "allow"),
        (["src/auth/login.py"], "T2", "ask"),
        ([], "T3", "allow"),
    ],
)
def test_a_change_below_a_plan_is_no_riskier_than_what_was_approved(
    paths: list[str], approved: Tier | None, verdict: str
) -> None:
    judged = judge_tier(paths, POLICY, approved, "/w")
    assert (judged.verdict, judged.file) == (verdict, paths[0] if verdict == "ask" else judged.file)
