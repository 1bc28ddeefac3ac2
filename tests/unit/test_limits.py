"""Limits cost neither a turn nor a failure; budgets of a run, a day, a week and a plan's window; clocks."""

from __future__ import annotations

from itertools import groupby
from typing import Any

import pytest
from msgspec.structs import replace

from flyball.core.decide import Do, Rest, due
from flyball.domain import events as e
from flyball.domain.settings import DOLLAR, HOUR, MINUTE, SECOND, Budget
from flyball.journal import Draft, Row, Write
from flyball.journal.memory import MemoryJournal
from flyball.journal.records import DAY_US, windows
from flyball.state.fold import begin
from support import Case, Played, Script, bad, begun, check, finish, judged, ok, play, settings, start, writes

DONE = finish("t2")
NOW = 1_000 * HOUR


def at_noon(run: str = "r1", **given: Any) -> Played:
    """A loop at work at a late hour, its first turn in flight."""
    played = start(Script(**{"agent:worker": DONE}), replace(begun("loop", settings(**given)), run=run))
    played.now = NOW
    played.begin_act("agent:worker")
    return played


def waits(turn: e.TurnEnded, run: str = "r1", **given: Any) -> int:
    """How long a turn that ends so is waited for."""
    played = at_noon(run, **given)
    now = played.now
    played.finish_act(turn)
    assert (played.code, played.run.question) == ("wait.rate_limit", None) and played.run.until is not None
    return played.run.until - now


def limited(kind: str = "plan_limit", in_us: int | None = None) -> e.TurnEnded:
    """A limit that is over so long after noon; the clock of the harness is a few ticks later."""
    return e.TurnEnded(verdict=kind, reset_at=None if in_us is None else _noon() + in_us)


def _noon() -> int:
    return at_noon().now


SPANS = {
    "a short plan limit": (limited(in_us=10 * SECOND - 1), 10 * SECOND - 1),
    "a plan limit that is over": (limited(in_us=0), 0),
    "a plan limit long over": (limited(in_us=-HOUR), 0),
    "a plan limit without a time": (limited(), MINUTE),
    "a rate limit": (limited("rate_limited", HOUR), HOUR),
    "a rate limit without a time": (limited("rate_limited"), MINUTE),
    "overloaded": (limited("overloaded"), MINUTE),
    "the network": (limited("network"), MINUTE),
}


@pytest.mark.parametrize("name", SPANS)
def test_a_limit_is_waited_for_exactly(name: str) -> None:
    turn, span = SPANS[name]
    assert waits(turn) == span
    assert span != MINUTE or waits(turn, retry_every_us=7 * SECOND) == 7 * SECOND


@pytest.mark.parametrize(
    ("wait", "most"), [(10 * SECOND, SECOND // 10), (MINUTE, 6 * SECOND // 10), (5 * HOUR, 2 * SECOND)]
)
def test_a_plan_limit_is_waited_for_with_a_little_jitter(wait: int, most: int) -> None:
    """So that many runs do not come back in the same instant; the same run always waits the same."""
    late = [waits(limited(in_us=wait), f"r{n}") - wait for n in range(40)]
    assert all(0 <= span <= most for span in late) and max(late) > most // 2 and len(set(late)) > 30
    assert late[7] == waits(limited(in_us=wait), "r7") - wait


@pytest.mark.parametrize("verdict", ["rate_limited", "plan_limit", "overloaded", "network"])
def test_a_limit_costs_nothing(verdict: str) -> None:
    turns = [ok("t1"), *[bad(verdict)] * 7, DONE]
    case = Case(
        "closed*2 complete", "completed", {"agent:worker": turns}, "loop", {"turns": 2, "no_progress": 2}
    )
    played = check(case)
    stops = played.of(e.Stopped)
    assert [(s.stop.code, s.question) for s in stops] == [("wait.rate_limit", None)] * 7
    assert played.run.turns == 2 and all(s.until == s.at + MINUTE for s in stops)


def test_a_reset_that_is_past_is_tried_at_once_but_only_once() -> None:
    turns = [bad("rate_limited", reset_at=1)] * 3 + [ok("t1"), bad("rate_limited", reset_at=1), DONE]
    played = play(Script(**{"agent:worker": turns}), machine="loop")
    spans = [(s.until or 0) - s.at for s in played.of(e.Stopped)]
    assert (spans, played.code) == ([0, MINUTE, MINUTE, 0], "completed")


def agents(*turns: Any, fallback: tuple[str, ...] = ("b", "c")) -> Played:
    given = settings(agents={"default": "a"}, fallback=fallback)
    return play(Script(**{"agent:worker": list(turns)}), machine="loop", settings=given)


def limit(agent_until: int = 10**6) -> Any:
    return lambda r, a: bad("rate_limited", reset_at=agent_until)


FALLBACKS: dict[str, tuple[list[Any], str, list[int]]] = {  # turns, who plays them in turn, waits
    "none is limited": ([ok("t1"), DONE], "a", []),
    "the first is limited": ([limit(), ok("t1"), DONE], "a b", []),
    "two are limited": ([limit(), limit(), DONE], "a b c", []),
    "all are limited": ([limit(900), limit(500), limit(700), DONE], "a b c b", [500]),
    "the own one returns": ([limit(12), *[ok(f"t{n}") for n in range(9)], DONE], "a b a", []),
}


@pytest.mark.parametrize("name", FALLBACKS)
def test_another_agent_stands_in_while_a_limit_lasts(name: str) -> None:
    turns, who, waited = FALLBACKS[name]
    played = agents(*turns)
    players = [agent for agent, _ in groupby(a.agent for a in played.acts if a.do == "agent:worker")]
    assert [s.until for s in played.of(e.Stopped) if s.stop.code == "wait.rate_limit"] == waited
    assert (players, played.code) == (who.split(), "completed")


def test_who_stands_in_is_told_once_what_was_done() -> None:
    """However often agents change, the account does not grow."""
    limits = [bad("rate_limited", reset_at=10**9)] * 2
    first = e.TurnEnded(verdict="ok", tree="t1", changed=("a.py",), message="I began.")
    played = agents(first, *limits, finish("t2"))
    accounts = [played.told("agent:worker", n).count("I began.") for n in range(4)]
    assert accounts == [0, 0, 1, 1]
    assert [limit.agent for limit in played.of(e.Limited)] == ["a", "b"]


# ---- budgets -----------------------------------------------------------------------------------------------


def costing(uusd: int = 0, tokens: int = 0) -> Any:
    return writes(usage=e.Usage(output_tokens=tokens, cost_uusd=uusd))


NONE = {"uusd": None, "tokens": None, "wall_us": None}
BUDGETS: dict[
    str, tuple[dict[str, Any], Any, str, list[int]]
] = {  # budget, turn, code, turns after each raise
    "dollars": ({"uusd": 5}, costing(2), "limit.budget_usd", [2, 4, 6]),
    "exactly enough": ({"uusd": 4}, costing(2), "limit.budget_usd", [2, 4, 6]),
    "not quite enough": ({"uusd": 3}, costing(2), "limit.budget_usd", [1, 2, 3]),
    "none at all": ({"uusd": 0}, costing(1), "limit.budget_usd", [1, 2, 3]),
    "a dear turn": ({"uusd": 1}, costing(9), "limit.budget_usd", [1, 2, 3]),
    "tokens": ({"tokens": 500}, costing(0, 200), "limit.budget_tokens", [2, 4, 6]),
    "exactly enough tokens": ({"tokens": 400}, costing(0, 200), "limit.budget_tokens", [2, 4, 6]),
    "not enough tokens": ({"tokens": 399}, costing(0, 200), "limit.budget_tokens", [1, 2, 3]),
    "no budget": ({}, costing(99 * DOLLAR, 10**9), "limit.turns", [50]),
}


@pytest.mark.parametrize("name", BUDGETS)
def test_a_turn_is_reserved_before_it_and_raising_renews_the_budget(name: str) -> None:
    budget, turn, code, turns = BUDGETS[name]
    given = settings(budget=Budget(**{**NONE, **budget}))
    played = play(Script(**{"agent:worker": turn}), machine="loop", settings=given)
    seen, before = [played.run.turns], ""
    for _ in turns[1:]:
        assert played.run.question and played.run.question.verbs[0] == "raise"
        text = played.run.question.text
        seen.append(played.answer("raise").run.turns)
        amount = played.run.stop.threshold if played.run.stop else ""
        assert f" to {amount}" in text and amount != before
        before = amount
    assert (seen, played.code) == (turns, code)


def test_the_ninetieth_percentile_of_a_turn_is_reserved() -> None:
    """Of ten turns the ninth: nine cheap ones and a dear one reserve a cheap one; two dear ones a dear one."""
    for costs, code in (([1] * 9 + [50], "completed"), ([1] * 8 + [50] * 2, "limit.budget_usd")):
        given = settings(budget=Budget(**{**NONE, "uusd": sum(costs) + 1}))
        turns = [*map(costing, costs), DONE]
        played = play(Script(**{"agent:worker": turns}), machine="loop", settings=given)
        assert (played.code, played.run.turns) == (code, len(costs) + int(code == "completed"))


def test_only_the_last_hundred_turns_say_what_one_costs() -> None:
    given = settings(budget=Budget(**{**NONE, "uusd": 4131}), limits={"loop": {"turns": 999}})
    turns = [*[costing(40)] * 100, *[costing(1)] * 130, DONE]
    played = play(Script(**{"agent:worker": turns}), machine="loop", settings=given)
    assert (played.code, played.run.turns, played.run.spent.cost_uusd) == ("completed", 231, 4130)


def test_cached_reads_are_not_charged_against_the_tokens() -> None:
    usage = e.Usage(input_tokens=10, cache_write_tokens=20, cache_read_tokens=10**9, output_tokens=30)
    turns = [ok("t1", usage=usage), finish("t2")]
    played = check(Case("closed*2 complete", "completed", {"agent:worker": turns}, "loop"))
    assert (played.run.spent.tokens, played.run.spent.cache_read_tokens) == (60, 10**9)


@pytest.mark.parametrize("span", ["day", "week"])
@pytest.mark.parametrize(("coin", "code"), [("uusd", "limit.budget_usd"), ("tokens", "limit.budget_tokens")])
def test_what_all_runs_spend_in_a_day_and_a_week_is_bounded(span: str, coin: str, code: str) -> None:
    given = settings(budget=Budget(**{**NONE, f"{span}_{coin}": 100}))
    cost = e.Usage(**{"cost_uusd" if coin == "uusd" else "output_tokens": 5})

    def spent_by_all(*amounts: int) -> Played:
        played = start(Script(**{"agent:worker": writes(usage=cost)}), begun("loop", given))
        for amount in amounts:
            played.go_on(lambda run, n=played.run.turns: run.turns > n)
            played.note([e.WindowSeen(at=played.now, **{f"{span}_{coin}": amount})])
        return played.go_on()

    assert spent_by_all(95).code == "limit.turns"  # five more are covered
    played = spent_by_all(50, 96)
    assert (played.code, played.run.turns) == (code, 2)
    assert played.run.stop and span in played.run.stop.rule
    assert played.answer("raise").code == "limit.turns"  # what was spent before counts no more


def test_a_day_that_was_raised_asks_again_only_for_what_is_spent_after() -> None:
    given = settings(budget=Budget(**{**NONE, "day_uusd": DOLLAR}))
    played = play(Script(**{"agent:worker": costing(9 * DOLLAR)}), machine="loop", settings=given)
    assert (played.code, played.run.turns) == ("limit.budget_usd", 1)
    assert [played.answer("raise").run.turns for _ in range(3)] == [2, 3, 4]
    played.answer("raise").note([e.WindowSeen(at=played.now, day_uusd=2 * DOLLAR)])
    assert (played.go_on().code, played.run.turns) == ("limit.budget_usd", 5)


def test_what_was_spent_lately_is_added_up_from_finished_turns() -> None:
    journal, now = MemoryJournal(), 9 * DAY_US
    spent = e.TurnEnded(verdict="ok", usage=e.Usage(cost_uusd=3, input_tokens=5, cache_read_tokens=9))
    child = e.ChildEnded(run="c", end="success", stop=e.Stop(code="completed"), usage=e.Usage(cost_uusd=100))
    results = [(now - 8 * DAY_US, spent), (now - 2 * DAY_US, spent), (now - 1, spent), (now, child)]
    drafts = tuple(
        Draft(at, "ActFinished", e.encode(e.ActFinished(at=at, key="k", result=result)))
        for at, result in results
    )
    fence = journal.acquire("a", "d", lambda _: True)
    journal.append([Write("a", 0, drafts, Row(run="a"), fence)])
    seen = e.WindowSeen(at=now, day_uusd=3, day_tokens=5, week_uusd=6, week_tokens=10)
    assert (windows(journal, now), windows(journal, now, since=now)) == (seen, e.WindowSeen(at=now))


PLANS: dict[str, tuple[int | None, e.TurnEnded, int | None]] = {  # percent allowed, the turn, waited until
    "used up": (80, e.TurnEnded(verdict="ok", tree="t1", plan_percent=80, plan_reset_at=900), 900),
    "nearly": (80, e.TurnEnded(verdict="ok", tree="t1", plan_percent=79, plan_reset_at=900), None),
    "no share is set": (
        None,
        e.TurnEnded(verdict="ok", tree="t1", plan_percent=100, plan_reset_at=900),
        None,
    ),
    "the window is new": (80, e.TurnEnded(verdict="ok", tree="t1", plan_percent=90, plan_reset_at=1), None),
    "no reset is told": (80, e.TurnEnded(verdict="ok", tree="t1", plan_percent=90), 5 * HOUR),
    "nothing is told": (0, ok("t1"), None),
}


@pytest.mark.parametrize("name", PLANS)
def test_a_share_of_the_plan_is_kept_and_the_next_window_is_waited_for(name: str) -> None:
    percent, turn, until = PLANS[name]
    played = play(Script(**{"agent:worker": [turn, DONE]}), machine="loop", settings=settings(budget=Budget(plan_percent=percent)))  # fmt: skip
    stops = played.of(e.Stopped)
    assert (played.code, [s.stop.code for s in stops]) == ("completed", ["wait.rate_limit"] if until else [])
    assert until is None or abs((stops[0].until or 0) - until) < 20


# ---- clocks ------------------------------------------------------------------------------------------------


def slow(turn: Any, took_us: int) -> Any:
    return lambda run, act: judged(act, turn(run, act) if callable(turn) else turn, took_us=took_us)


TIMES = {
    "used up between turns": ([slow(writes(), 4)], 10, "limit.time", 3),
    "cut short by it": ([slow(bad("timeout"), 10)], 10, "limit.time", 1),
    "cut short before it": ([slow(bad("timeout"), 9)], 10, "timeout.phase", 1),
    "no such clock": ([slow(bad("timeout"), 99)], None, "timeout.phase", 1),
    "done in time": ([slow(finish("t1"), 99)], 10, "completed", 1),
}


@pytest.mark.parametrize("name", TIMES)
def test_a_used_up_wall_clock_ends_before_the_next_turn(name: str) -> None:
    turns, wall, code, count = TIMES[name]
    played = play(Script(**{"agent:worker": turns}), machine="loop", settings=settings(budget=Budget(wall_us=wall)))  # fmt: skip
    assert (played.code, played.run.turns) == (code, count)


CLOCKS = {
    "the phase's": ({}, 0, HOUR),
    "the run's": ({"budget": Budget(wall_us=HOUR // 2)}, 0, HOUR // 2),
    "a second at least": ({"budget": Budget(wall_us=5)}, 0, SECOND),
    "the configured": ({"timeouts_us": {"loop": {"phase_timeout": 5 * SECOND}}}, 0, 5 * SECOND),
    "the parent's": ({}, 7 * SECOND, 7 * SECOND),
}


@pytest.mark.parametrize("name", CLOCKS)
def test_an_act_is_bound_by_the_tightest_clock(name: str) -> None:
    given, within, bound = CLOCKS[name]
    step = due(begin(begun("loop", settings(**given), owner=False, tree="base", within_us=within)), 1)
    assert isinstance(step, Do) and (step.act.wall_us, step.act.idle_us) == (bound, 10 * MINUTE)


def test_the_runs_clock_binds_agents_alone_and_only_what_is_left_of_it() -> None:
    given = settings(budget=Budget(wall_us=10 * SECOND), timeouts_us={"loop": {"idle_timeout": 3}})
    played = play(
        Script(**{"agent:worker": [slow(writes(), 4 * SECOND), DONE]}), machine="loop", settings=given
    )
    clocks = [
        (a.do, a.wall_us, a.idle_us) for a in played.acts if a.do in ("agent:worker", "commit", "proof")
    ]
    worker = [("agent:worker", 10 * SECOND, 3), ("agent:worker", 6 * SECOND, 3)]
    assert clocks == [("proof", 0, 0), *worker, ("proof", HOUR, 0), ("commit", HOUR, 0)]


def test_acts_have_their_own_keys_and_know_their_turn() -> None:
    played = play(Script(**{"agent:worker": [ok("t1"), ok("t2"), DONE]}), machine="loop")
    assert [a.turn for a in played.acts] == [1, 1, 1, 2, 3, 4, 4]
    assert len({a.key for a in played.acts}) == len(played.acts)
    assert due(played.run, 10**15) == Rest()


def test_while_an_act_is_in_flight_nothing_is_due() -> None:
    assert due(at_noon().run, NOW * 2) == Rest()


@pytest.mark.parametrize(
    ("uusd", "text"), [(0, "$0.00"), (1, "$0.000001"), (1_500_000, "$1.50"), (12_345_600, "$12.3456")]
)
def test_money_is_shown_without_floats(uusd: int, text: str) -> None:
    budget = Budget(**{**NONE, "uusd": uusd})
    played = play(
        Script(**{"agent:worker": costing(99 * DOLLAR)}), machine="loop", settings=settings(budget=budget)
    )
    assert played.run.stop and played.run.stop.threshold == text and "$99.00" in played.run.stop.observed
