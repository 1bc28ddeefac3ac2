"""How a stop is put: its evidence, who comes first when several hold, and what a person is offered."""

from __future__ import annotations

from typing import Any

import pytest

from flyball.core import events as e
from flyball.core.decide import Do, Finished, Rest, due, react
from flyball.core.run import begin
from flyball.core.settings import Budget, Settings
from flyball.core.stops import VERBS, dollars, p90
from flyball.errors import FlyballError
from support import (
    Script,
    anywhere,
    bad,
    begun,
    failed_child,
    failing,
    finish,
    judged,
    ok,
    play,
    ruled,
    start,
)

AGENTS = {"default": "script:x"}


def settings(**more: Any) -> Settings:
    return Settings(**{"proof": ("prove",), "agents": AGENTS, **more})


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((), 0),
        ((7,), 7),
        ((1, 9), 9),
        (tuple(range(1, 11)), 9),
        (tuple(range(1, 101)), 90),
        (tuple(range(100, 0, -1)), 90),
    ],
)
def test_the_ninetieth_percentile(values: tuple[int, ...], expected: int) -> None:
    assert p90(values) == expected


@pytest.mark.parametrize(
    ("uusd", "text"),
    [(0, "$0.00"), (1, "$0.000001"), (1_500_000, "$1.50"), (12_345_600, "$12.3456"), (-2_000_000, "-$2.00")],
)
def test_money_is_written_without_floats(uusd: int, text: str) -> None:
    assert dollars(uusd) == text


def test_a_stop_carries_its_evidence() -> None:
    seen = play(Script(test=failing(summary="E 1"))).run.stop
    assert seen == e.Stop(
        code="limit.fix_attempts", rule="fix", threshold="3", observed="4", turn=5, detail="E 1"
    )


def test_a_block_says_rule_place_and_what_would_have_happened() -> None:
    seen = play(Script(write=ruled("deny", "t1"))).run.stop
    assert seen == e.Stop(
        code="blocked.guard.protected",
        rule="protected",
        threshold="policy default",
        observed="a.py:3",
        turn=2,
        otherwise="the change would have stood and 'written' would have been followed",
        detail="It touches a protected path.",
    )


@pytest.mark.parametrize("kind", VERBS)
def test_everything_that_is_asked_can_be_cancelled(kind: str) -> None:
    assert "cancel" in VERBS[kind]


# ---- who comes first -------------------------------------------------------------------------------------


def both(turn: e.TurnEnded, ruling: e.Ruling | None) -> Any:
    return lambda run, act: Finished(key=act.key, result=turn, ruling=ruling)


DENY = e.Ruling(verdict="deny", rule="secrets", diff="d", tree="t1", waivable=False)
TAMPER = e.Ruling(verdict="deny", rule="tampering", diff="d", tree="t1", waivable=False)
ALLOW = e.Ruling(verdict="allow")
DONE = finish("base")
DEAR = settings(budget=Budget(uusd=0))
ONE = settings(limits={"loop": {"turns": 1, "no_progress": 1}})
COSTLY = e.TurnEnded(verdict="ok", tree="base", usage=e.Usage(cost_uusd=5))
ORDER: dict[str, tuple[e.TurnEnded, e.Ruling, Settings, str]] = {
    "tampering before a failed process": (bad("killed"), TAMPER, settings(), "blocked.tampering"),
    "a deny before a failed process": (bad("killed"), DENY, settings(), "blocked.guard.secrets"),
    "a deny before completion": (DONE, DENY, settings(), "blocked.guard.secrets"),
    "a failed process before completion": (
        e.TurnEnded(verdict="timeout", tree="base", claim=DONE.claim),
        ALLOW,
        settings(),
        "timeout.phase",
    ),
    "completion before the budget": (
        e.TurnEnded(verdict="ok", tree="base", claim=DONE.claim, usage=COSTLY.usage),
        ALLOW,
        DEAR,
        "completed",
    ),
    "completion before a limit and a loop rule": (DONE, ALLOW, ONE, "completed"),
    "the budget before a limit": (
        COSTLY,
        ALLOW,
        settings(budget=Budget(uusd=0), limits={"loop": {"turns": 1}}),
        "limit.budget_usd",
    ),
    "the budget before a loop rule": (
        COSTLY,
        ALLOW,
        settings(budget=Budget(uusd=0), limits={"loop": {"no_progress": 1}}),
        "limit.budget_usd",
    ),
    "a limit before a loop rule": (ok("base"), ALLOW, ONE, "limit.turns"),
}


@pytest.mark.parametrize("case", ORDER)
def test_when_several_hold_the_first_decides(case: str) -> None:
    turn, ruling, given, code = ORDER[case]
    assert play(Script(**{"agent:worker": both(turn, ruling)}), machine="loop", settings=given).code == code


def test_after_the_budget_the_loop_rule_still_asks() -> None:
    given = settings(budget=Budget(uusd=0), limits={"loop": {"no_progress": 1}})
    played = play(Script(**{"agent:worker": COSTLY}), machine="loop", settings=given)
    assert (played.code, played.run.state) == ("limit.budget_usd", "open")
    played.answer("raise")
    assert (played.code, played.run.state, played.run.turns) == ("loop.no_progress", "open", 1)


# ---- time ------------------------------------------------------------------------------------------------


def test_a_used_up_wall_clock_ends_before_the_next_turn() -> None:
    def slow(run: Any, act: e.Act) -> Finished:
        return judged(act, ok(f"t{run.turn}"), took_us=4)

    given = settings(budget=Budget(wall_us=10))
    played = play(Script(**{"agent:worker": slow}), machine="loop", settings=given)
    assert (played.code, played.run.end, played.run.turns) == ("limit.time", "failure", 3)


def test_a_turn_cut_short_by_the_wall_clock_is_limit_time() -> None:
    def cut(run: Any, act: e.Act) -> Finished:
        return judged(act, bad("timeout"), took_us=10)

    given = settings(budget=Budget(wall_us=10))
    assert play(Script(**{"agent:worker": cut}), machine="loop", settings=given).code == "limit.time"


def test_an_act_is_bound_by_the_tightest_clock() -> None:
    hour = 3_600_000_000
    cases = [
        (settings(), 0, hour),
        (settings(budget=Budget(wall_us=hour // 2)), 0, hour // 2),
        (settings(timeouts_us={"loop": {"phase_timeout": 5_000_000}}), 0, 5_000_000),
        (settings(), 7_000_000, 7_000_000),
    ]
    for given, within, expected in cases:
        event = begun("loop", given, owner=False, tree="base", within_us=within)
        found = due(begin(event), 1)
        assert isinstance(found, Do) and found.act.wall_us == expected
        assert found.act.idle_us == 600_000_000


def test_a_wait_is_over_when_its_time_is() -> None:
    table = {
        "name": "patient",
        "start": "sleep",
        "states": {
            "sleep": {"do": "wait", "with": {"for": "10m"}, "on": {"over": "done", "unproven": "sleep"}},
            "done": {"end": "success"},
        },
        "anywhere": {"on": {"blocked": "@blocked", "cancel": "@cancel"}},
    }
    event = begun(table, settings(proof=()), owner=False, tree="base")
    assert due(begin(event), 5) == Rest(600_000_000)
    assert play(Script(), event).code == "completed_unproven"


# ---- what is not believed --------------------------------------------------------------------------------


def test_the_result_of_an_act_that_is_not_in_flight_is_not_believed() -> None:
    run = begin(begun())
    with pytest.raises(FlyballError, match="no act r1-9 in flight"):
        react(run, Finished(key="r1-9", result=ok()), 1)


def test_no_two_acts_have_the_same_key() -> None:
    played = play(Script(test=failing()))
    keys = [act.key for act in played.acts]
    assert len(set(keys)) == len(keys)


def test_an_ended_run_has_nothing_due() -> None:
    played = play(Script())
    assert due(played.run, 10**15) == Rest()


def test_while_an_act_is_in_flight_nothing_is_due() -> None:
    played = start(Script())
    found = due(played.run, 1)
    assert isinstance(found, Do)
    played.note([e.ActStarted(at=1, act=found.act)])
    assert due(played.run, 2) == Rest()


# ---- a user's machine ------------------------------------------------------------------------------------


def custom(**states: Any) -> dict[str, Any]:
    return {
        "name": "mine",
        "start": "work",
        "states": {**states, "done": {"end": "success"}, "lost": {"end": "failure"}},
        "anywhere": anywhere(exhausted="lost", timeout="lost", error="lost"),
        "most": {"turns": 9},
    }


ENDS: dict[str, tuple[dict[str, Any], Any, str]] = {
    "a failing proof": (
        {"work": {"do": "proof", "on": {"passed": "done", "failed": "lost", "unproven": "lost"}}},
        failing(),
        "failed.tests",
    ),
    "a judge that rejects": (
        {"work": {"do": "agent:critic", "on": {"good": "done", "rejected": "lost", "unproven": "lost"}}},
        ok("base"),
        "failed.review",
    ),
    "a child that fails": (
        {"work": {"do": "run:build", "on": {"success": "done", "failure": "lost", "unproven": "lost"}}},
        failed_child("limit.fix_attempts"),
        "limit.fix_attempts",
    ),
    "a child that fails, without a place for it": (
        {"work": {"do": "run:build", "on": {"success": "done", "unproven": "lost"}}},
        failed_child("timeout.idle"),
        "timeout.idle",
    ),
    "an agent that gives up": (
        {"work": {"do": "agent:coder", "on": {"fine": "done", "hopeless": "lost", "unproven": "lost"}}},
        ok("base", outcome="hopeless"),
        "failed.agent",
    ),
    "a worker without a circuit": (
        {"work": {"do": "agent:worker", "on": {"fine": "done", "unproven": "lost"}}},
        ok("base"),
        "completed",
    ),
    "an author and no reviewer": (
        {"work": {"do": "agent:author", "on": {"drafted": "done", "unproven": "lost"}}},
        ok("base", signal="FAIL"),
        "completed",
    ),
    "a reviewer that passes": (
        {"work": {"do": "agent:reviewer", "on": {"good": "done", "rejected": "lost", "unproven": "lost"}}},
        ok("base", signal="PASS"),
        "completed",
    ),
    "a judge whose first outcome is passed": (
        {"work": {"do": "agent:critic", "on": {"passed": "done", "rejected": "lost", "unproven": "lost"}}},
        ok("base", outcome="passed"),
        "completed",
    ),
}


@pytest.mark.parametrize("case", ENDS)
def test_a_users_machine_ends_with_a_fitting_code(case: str) -> None:
    states, work, code = ENDS[case]
    played = play(Script(work=work), machine=custom(**states), settings=settings())
    assert played.code == code
    assert (played.run.end == "success") == (code == "completed")


def test_an_unproven_that_goes_back_does_the_act_again() -> None:
    table = custom(work={"do": "agent:coder", "on": {"written": "done", "unproven": "@back"}})
    played = play(
        Script(proof__gate=failing(), proof__baseline=failing()), machine=table, settings=settings()
    )
    assert (played.code, played.done.count("agent:coder")) == ("limit.turns", 9)


def test_a_claim_that_must_name_a_state_is_a_failed_turn_without_one() -> None:
    table = custom(
        work={"do": "agent:coder", "on": {"written": "done", "again": "any:all", "unproven": "work"}}
    )
    table["groups"] = {"all": ["work"]}
    claims = [ok("t1", outcome="again"), ok("t2", outcome="again", data={"state": 3}), ok("t3")]
    played = play(Script(work=claims), machine=table, settings=settings())
    assert (played.code, len(played.of(e.Warned)), played.run.turns) == ("completed", 2, 3)


def test_children_that_never_take_a_turn_use_up_the_turns() -> None:
    table = custom(
        work={"do": "run:build", "on": {"success": "done", "failure": "@back", "unproven": "work"}}
    )

    def barren(run: Any, act: e.Act) -> e.ChildEnded:
        return e.ChildEnded(run=act.child, end="failure", stop=e.Stop(code="failed.agent"))

    played = play(Script(work=barren), machine=table, settings=settings())
    assert (played.code, played.done.count("run:build")) == ("limit.turns", 9)
