"""How a stop is put: what it certifies, what it offers, where it leads, and when money stops a turn."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from flyball.core import events as e
from flyball.core.run import Run, begin
from flyball.core.settings import Budget, Settings
from flyball.core.stops import (
    INTERRUPTIONS,
    NOBODY,
    ask,
    ended,
    exhausted,
    infrastructure,
    let_go,
    spent_up,
    unapproved,
    verbs_for,
)
from flyball.core.stops import stop as put
from support import PROOF, anywhere, begun

NOW = 77


def settings(**more: Any) -> Settings:
    return Settings(**{"proof": PROOF, "agents": {"default": "script:x"}, **more})


def at(machine: Any = "loop", state: str = "", given: Settings | None = None, **more: Any) -> Run:
    run = begin(begun(machine, given or settings()))
    return replace(run, **{"state": state or run.state, **more})


def test_only_a_success_is_certified() -> None:
    run = at(certificate="cert")
    for end, certificate in (("success", "cert"), ("failure", ""), ("cancelled", "")):
        assert ended(run, end, put(run, "completed"), NOW).certificate == certificate


def test_a_question_has_its_own_name_its_kinds_words_and_the_tree_it_is_bound_to() -> None:
    run = at(questions=2, tree="t")
    found = ask(run, put(run, "wait.question"), "block", "Really?", NOW)
    assert found.question is not None
    assert (found.question.id, found.question.tree, len(found.question.shown)) == ("r1.3", "t", 16)
    assert (found.status, found.at) == ("waiting", NOW)
    assert "approve" in found.question.verbs
    strict = ask(run, put(run, "wait.question"), "block", "Really?", NOW, "blocked", waivable=False)
    assert strict.question is not None and (strict.status, "approve" in strict.question.verbs) == (
        "blocked",
        False,
    )
    assert set(strict.question.verbs) == set(found.question.verbs) - {"approve"}


def test_a_state_that_asks_offers_its_own_outcomes_and_what_people_call_them() -> None:
    assert verbs_for(at("task", "human_escalation"), "escalation", True) == (
        "retry",
        "complete",
        "abandon",
        "cancel",
    )
    assert verbs_for(at("loop", "open"), "escalation", True) == ("answered", "answer", "cancel")
    assert verbs_for(at("loop", "closed"), "escalation", True) == ("retry", "go-on", "answer", "cancel")
    assert verbs_for(at("loop", "open"), "loop", True) == ("go-on", "answer", "redirect", "retry", "cancel")


def test_infrastructure_that_is_gone_or_keeps_failing_is_asked_about_with_what_is_known() -> None:
    gone = infrastructure(at(gone=True, cut="the disk is full", interruptions=1), NOW)
    assert (gone.stop.rule, gone.stop.detail, gone.stop.threshold) == ("gone", "the disk is full", "")
    assert gone.question is not None and "Nothing can be done: the disk is full" in gone.question.text
    cut = infrastructure(at(interruptions=6, cut="killed"), NOW)
    assert (cut.stop.rule, cut.stop.threshold, cut.stop.observed) == ("interruptions", "5", "6")
    assert INTERRUPTIONS == 5 and cut.question is not None and "interrupted: killed." in cut.question.text
    unknown = infrastructure(at(interruptions=6), NOW)
    assert unknown.question is not None and "no reason is known" in unknown.question.text


def test_what_is_exhausted_ends_moves_or_asks_as_the_table_says() -> None:
    loop = at(turn=3)
    assert [type(f) for f in exhausted(loop, put(loop, "limit.turns"), NOW)] == [e.Ended]
    review = at("review", "working")
    moves, ends = exhausted(review, put(review, "limit.turns"), NOW)
    assert isinstance(moves, e.Moved) and isinstance(ends, e.Ended)
    assert (moves.target, moves.actor, moves.reason, ends.end) == (
        "failed",
        "flyball",
        "limit.turns",
        "failure",
    )
    task = at("task", "planning")
    (called,) = exhausted(task, put(task, "failed.agent"), NOW, "error")
    assert isinstance(called, e.Moved) and (called.target, called.actor) == (
        "cto_intervention",
        "build orchestrator",
    )
    nowhere = exhausted(at("build", "write"), put(loop, "failed.agent"), NOW, "banana")
    assert [type(f) for f in nowhere] == [e.Ended]


ASKS = {
    "name": "mine",
    "start": "work",
    "states": {
        "work": {"do": "agent:coder", "on": {"written": "done", "unproven": "work"}},
        "done": {"end": "success"},
    },
    "anywhere": anywhere(exhausted="@ask", timeout="@ask", error="@ask"),
    "most": {"turns": 5},
}


def test_what_would_have_ended_the_run_asks_under_the_code_that_ends() -> None:
    run = at(ASKS, held=e.Held(at=1, outcome="written", until="gate"))
    dropped, asked = exhausted(run, put(run, "limit.turns", "turns", 5, 5), NOW)
    assert isinstance(dropped, e.Dropped) and isinstance(asked, e.Stopped)
    assert (asked.stop.code, asked.stop.rule, asked.stop.observed) == ("wait.escalation", "limit.turns", "5")
    assert asked.question is not None and asked.question.kind == "escalation"
    assert "limit.turns" in asked.question.text and asked.status == "waiting"
    (kept,) = exhausted(replace(run, held=None), put(run, "loop.no_progress", "r"), NOW)
    assert isinstance(kept, e.Stopped) and (kept.stop.code, kept.stop.rule) == ("loop.no_progress", "r")


@pytest.mark.parametrize(
    ("held", "tree"),
    [
        (e.Held(at=1, outcome="x", until="approval", data={"before": "t"}), "t"),
        (e.Held(at=1, outcome="x", until="block", data={"before": "t"}), "t"),
        (e.Held(at=1, outcome="x", until="gate", data={"before": "t"}), ""),
        (e.Held(at=1, outcome="x", until="approval"), ""),
        (None, ""),
    ],
)
def test_a_change_that_was_never_approved_goes_with_the_run(held: e.Held | None, tree: str) -> None:
    found = unapproved(at(held=held), NOW)
    assert [(f.tree, f.why, f.at) for f in found if isinstance(f, e.RestoreOrdered)] == (
        [(tree, "putback", NOW)] if tree else []
    )
    assert [type(f) for f in let_go(at(held=held), NOW)] == ([e.Dropped] if held else [])


@pytest.mark.parametrize(
    ("cost", "tokens", "code"),
    [
        ((80, (20,)), (0, ()), ""),
        ((81, (20,)), (0, ()), "limit.budget_usd"),
        ((0, ()), (30, (10,)), ""),
        ((0, ()), (31, (10,)), "limit.budget_tokens"),
        ((110, (20,)), (0, ()), "limit.budget_usd"),
    ],
)
def test_a_budget_covers_what_is_spent_since_it_was_renewed_and_the_next_turn(
    cost: tuple[int, tuple[int, ...]], tokens: tuple[int, tuple[int, ...]], code: str
) -> None:
    base = e.Usage(cost_uusd=10, input_tokens=10)
    used = e.Usage(cost_uusd=10 + cost[0], input_tokens=10 + tokens[0])
    given = settings(budget=Budget(uusd=100, tokens=40))
    run = at(given=given, spent=used, spent_base=base, turn_costs=cost[1], turn_tokens=tokens[1])
    found = spent_up(run)
    assert (found.code if found else "") == code
    unlimited = replace(run, settings=settings(budget=Budget(uusd=None, tokens=None)))
    assert spent_up(unlimited) is None


@pytest.mark.parametrize("span", ["day", "week"])
def test_what_all_runs_spend_in_a_span_covers_the_next_turn_too(span: str) -> None:
    for coin, costs in (("uusd", {"turn_costs": (5,)}), ("tokens", {"turn_tokens": (5,)})):
        budget = Budget(uusd=None, tokens=None, **{f"{span}_{coin}": 100})
        run = at(given=settings(budget=budget), **costs)
        for used, stops in ((95, False), (96, True)):
            found = spent_up(replace(run, window=e.WindowSeen(at=1, **{f"{span}_{coin}": used})))
            assert (found is not None) is stops
        assert spent_up(run) is None and NOBODY.day_uusd == NOBODY.at == 0
