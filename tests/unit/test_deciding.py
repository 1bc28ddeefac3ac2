"""Rules that a search once found unguarded: each a case that fails when the rule is made wrong."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from flyball.core import events as e
from flyball.core.decide import INTERRUPTIONS, Finished, Note, Rest, due
from flyball.core.letters import Answer, Ask, HandBack, Rollback, Tell, decode, encode, for_who_works, hear
from flyball.core.limits import so_far
from flyball.core.run import Run, apply
from flyball.core.settings import Budget, Settings
from flyball.core.stops import spent_up
from flyball.core.tally import LATELY, after_proof, after_turn
from flyball.core.transition import enter
from flyball.core.turns import solutions
from flyball.reading.calls import Call, CallLimits, CallWatch, fired, observe
from support import Played, Script, anywhere, begun, ok, start

# ---- a person takes over -----------------------------------------------------------------------------------------


def interrupted(times: int = 1) -> Script:
    """The worker's first turns are cut off."""
    return Script(agent__worker=[*["its keeper was killed"] * times, ok("t1"), ok("t2")])


def test_a_half_made_change_is_put_back_before_a_person_takes_over() -> None:
    """Else what the agent half did would be handed back as the person's own, unjudged."""
    played = start(interrupted(), begun("loop"))
    played.go_on(lambda run: run.interruptions == 1)
    assert played.run.todo is not None
    played.write(Ask(what="take-over", who="anna")).go_on()
    assert (played.code, played.run.todo) == ("wait.take_over", None)
    assert played.done[-1] == "restore:putback"


def test_what_keeps_failing_is_asked_about_before_a_take_over_tries_it_again() -> None:
    played = start(interrupted(INTERRUPTIONS + 1), begun("loop")).go_on()
    assert (played.code, played.run.todo is not None) == ("wait.infrastructure", True)
    played.write(Ask(what="take-over", who="anna"))
    assert played.run.question is None and played.run.asked == "take-over"
    assert played.go_on().code == "wait.infrastructure"


def approved() -> Played:
    """A refused change that a person let stand a moment ago."""
    overreach = e.Ruling(
        verdict="deny", rule="radius", tree="t1", diff="base>t1", policy="p", policy_hash="h"
    )

    def denied(run: Run, act: e.Act) -> Finished:
        return Finished(key=act.key, result=ok(act.tree), ruling=overreach)

    played = start(Script(agent__coder=[denied, ok("t2")]), begun("build")).go_on()
    question = played.run.question
    assert played.run.status == "blocked" and question is not None
    return played.write(Answer(question=question.id, verb="approve", shown=question.shown))


def test_what_was_held_is_dropped_by_a_take_over_and_the_act_is_done_again() -> None:
    played = approved()
    assert played.run.held is not None and played.run.held.until == "taken"
    played.write(Ask(what="take-over", who="anna")).go_on()
    assert (played.code, played.run.held, played.run.tree) == ("wait.take_over", None, "t1")
    played.write(HandBack(who="anna")).go_on()
    assert len([act for act in played.acts if act.do == "agent:coder"]) >= 2


# ---- letters ---------------------------------------------------------------------------------------------------------


def waiting() -> Played:
    return start(Script(agent__worker=[ok("t1"), ok("t1", ask="Which?"), ok("t2")]), begun("loop")).go_on()


def test_a_rollback_is_ordered_told_and_done_while_the_run_waits() -> None:
    played = waiting()
    assert played.code == "wait.question"
    played.write(Rollback(turn=1, tree="t1", who="anna"))
    ordered = played.of(e.RestoreOrdered)[-1]
    assert (ordered.tree, ordered.why, ordered.since) == ("t1", "rollback", "1")
    assert "after turn 1" in played.of(e.Told)[-1].text and played.of(e.Told)[-1].who == "anna"
    played.go_on()
    assert (played.done[-1], played.code) == ("restore:rollback", "wait.question")


def test_a_rollback_is_refused_only_while_an_act_is_in_flight() -> None:
    idle = hear(waiting().run, encode(Rollback(turn=1, tree="t1")), 1, 99)
    assert not any(isinstance(fact, e.LetterRefused) for fact in idle)
    acting = waiting().run
    act = e.Act(key="r1-9", do="agent:worker", state="closed", turn=9)
    busy = hear(replace(acting, act=act), encode(Rollback(turn=1, tree="t1")), 7, 99)
    assert [
        (fact.letter, "is at work" in fact.reason) for fact in busy if isinstance(fact, e.LetterRefused)
    ] == [(7, True)]


@pytest.mark.parametrize(
    ("letter", "works"),
    [
        (Tell(text="x"), True),
        (HandBack(), True),
        (Ask(what="pause"), False),
        (Rollback(turn=1, tree="t"), False),
        (Answer(question="q", verb="go-on"), False),
    ],
)
def test_only_what_is_told_or_handed_back_reaches_who_works(letter: Any, works: bool) -> None:
    assert for_who_works(encode(letter)) is works
    assert decode(encode(letter)) == letter
    assert for_who_works(b"nonsense") is False


def test_letters_cannot_be_changed_once_read() -> None:
    with pytest.raises(AttributeError):
        decode(encode(Rollback(turn=1, tree="t"))).turn = 2  # type: ignore[union-attr,misc]


# ---- calls of a turn ---------------------------------------------------------------------------------------------------


def watched(*calls: Call) -> CallWatch:
    watch = CallWatch()
    for call in calls:
        watch = observe(watch, call)
    return watch


def calls(count: int, **same: Any) -> list[Call]:
    """So many calls that differ, but for what is said."""
    told = {"tool": "Bash", "error": False, **same}
    return [
        Call(**{"input": f"i{n}", "result": f"r{chr(97 + n % 26) * (n + 1)}", **told}) for n in range(count)
    ]


@pytest.mark.parametrize(
    ("made", "code", "threshold"),
    [
        (calls(4, input="ls", result="a"), "loop.same_action", 3),
        (calls(6, result="No such file", error=True), "loop.same_error", 5),
        ([*calls(2)] * 5, "loop.same_action", 4),
        ([*calls(5)] * 5, "loop.same_action", 4),
    ],
)
def test_a_rule_on_calls_fires_at_one_more_than_its_limit(
    made: list[Call], code: str, threshold: int
) -> None:
    found = fired(watched(*made))
    assert found is not None and (found.code, found.level) == (code, "halt")
    assert (found.threshold, found.observed) == (threshold, threshold + 1)
    per_round = 2 if threshold == 4 and len(made) == 10 else 5 if threshold == 4 else 1
    assert fired(watched(*made[: len(made) - per_round])) is None


def test_calls_are_counted_to_a_warning_and_to_a_halt() -> None:
    limits = CallLimits()
    assert (limits.warn, limits.halt) == (300, 600)
    for count, level in ((300, None), (301, "warn"), (600, "warn"), (601, "halt")):
        found = fired(CallWatch(count=count))
        assert (found.level if found else None) == level


def test_a_write_begins_the_cycle_anew_and_waiting_is_none() -> None:
    write = Call("Edit", "x", "ok", writes=True)
    assert fired(watched(*[*calls(2)] * 4, write, *[*calls(2)] * 4)) is None
    waits = [Call("Bash", "sleep 5", "ok"), Call("Bash", "cat log", "same")]
    assert fired(watched(*waits * 9)) is None


def test_only_a_run_that_was_taken_over_is_handed_back() -> None:
    refused = hear(waiting().run, encode(HandBack(who="anna")), 3, 99)
    assert [type(fact) for fact in refused] == [e.LetterRefused]
    assert "was not taken over" in refused[0].reason  # type: ignore[union-attr]


# ---- what is due ---------------------------------------------------------------------------------------------------------

WAITS = {
    "name": "mine",
    "start": "rest",
    "states": {
        "rest": {"do": "wait", "with": {"for": "10s"}, "on": {"over": "look"}},
        "look": {"do": "check", "on": {"ready": "work"}},
        "work": {"do": "agent:coder", "on": {"written": "done", "unproven": "work"}},
        "done": {"end": "success"},
    },
    "anywhere": anywhere(error="@ask"),
    "most": {"turns": 5},
}


def test_a_wait_is_over_at_its_instant_and_not_before() -> None:
    run = start(Script(), begun(WAITS)).go_on(lambda run: run.baselined and run.act is None).run
    until = run.entered_at + 10_000_000
    assert due(run, until - 1) == Rest(until)
    assert isinstance(due(run, until), Note)


def test_a_check_that_fails_where_the_table_has_no_place_for_it_is_an_error() -> None:
    played = start(Script(check=e.CheckEnded(outcome="failure", reason="no base")), begun(WAITS)).go_on()
    assert played.run.status == "waiting" and played.run.stop is not None
    assert (played.run.stop.rule, played.run.stop.detail) == ("failed.start", "no base")
    assert played.run.question is not None and "failed.start" in played.run.question.text


def test_an_act_has_no_clock_where_none_is_set() -> None:
    played = start(
        Script(), begun(WAITS, Settings(agents={"default": "a"}, budget=Budget(wall_us=None)))
    ).go_on()
    assert {act.wall_us for act in played.acts} == {0}


def test_an_act_says_which_turn_it_is_part_of() -> None:
    """Turns are counted from one, and what is done between two belongs to the next."""
    played = start(Script(agent__worker=[ok("t1"), ok("t2"), ok("t2", ask="?")]), begun("loop")).go_on()
    assert [act.turn for act in played.acts if act.do == "agent:worker"] == [1, 2, 3]
    assert {act.turn for act in played.acts if act.do in ("prepare", "proof")} == {1}


def test_a_plan_is_dropped_for_a_reason() -> None:
    run = replace(start(Script(), begun("cto")).run, state="PLANNING", message="x" + "y" * 500)
    for outcome, target, reason in (("nothing", "IDLE", "y" * 500), ("planned", "EXECUTING", "")):
        moved = enter(run, target, outcome, 9)[-1]
        assert isinstance(moved, e.Moved) and moved.reason == reason
    told = enter(run, "IDLE", "nothing", 9, "It is done.")[-1]
    assert isinstance(told, e.Moved) and told.reason == "It is done."


def test_a_probe_that_failed_asks_with_what_it_was_allowed() -> None:
    run = replace(start(Script(), begun("loop")).run, state="open", prepared=True, baselined=True)
    found = due(run, 9)
    assert isinstance(found, Note) and isinstance(found.events[0], e.Stopped)
    stop = found.events[0].stop
    assert (stop.code, stop.rule, stop.threshold, stop.observed) == (
        "loop.no_progress",
        "half_open",
        "1",
        "1",
    )


def test_iterations_that_are_used_up_are_told_with_the_one_that_would_have_begun() -> None:
    run = replace(
        start(Script(), begun("build")).run,
        state="verify",
        iteration=12,
        iteration_base=2,
        last_error="x" + "y" * 500,
    )
    (ended,) = enter(run, "write", "rejected", 9)
    assert isinstance(ended, e.Ended)
    assert (ended.stop.code, ended.stop.threshold, ended.stop.observed) == ("limit.iterations", "10", "11")
    assert ended.stop.detail == "y" * 500


def test_a_failure_is_told_with_the_end_of_the_last_message() -> None:
    run = replace(start(Script(), begun("review")).run, state="working", message="x" + "y" * 500)
    ended = enter(run, "failed", "failed", 9)[-1]
    assert isinstance(ended, e.Ended) and (ended.stop.detail, ended.stop.rule) == ("y" * 500, "failed")


def test_findings_are_shown_to_the_reviewer_alone() -> None:
    found = e.Finding(id="F1", severity="high", text="It subtracts.")
    script = Script(
        author=[ok("t1"), ok("t2")], agent__reviewer=[ok("t1", findings=(found,)), ok("t2", signal="PASS")]
    )
    played = start(script, begun("review")).go_on()
    shown = {
        act.do: any("F1" in text for text in act.told)
        for act in played.acts[-4:]
        if act.do.startswith("agent:")
    }
    assert shown == {"agent:author": False, "agent:reviewer": True}


@pytest.mark.parametrize("span", ["day", "week"])
def test_what_all_runs_spent_counts_for_money_and_for_tokens(span: str) -> None:
    for coin, code in (("uusd", "limit.budget_usd"), ("tokens", "limit.budget_tokens")):
        budget = Budget(uusd=None, tokens=None, wall_us=None, **{f"{span}_{coin}": 10})
        run = start(Script(), begun("loop", Settings(agents={"default": "a"}, budget=budget))).run
        for used, stops in ((10, False), (11, True)):
            seen = replace(run, window=e.WindowSeen(at=1, **{f"{span}_{coin}": used}))
            found = spent_up(seen)
            assert (found is not None) is stops
            assert found is None or (found.code, found.rule.startswith(f"budget.{span}_")) == (code, True)


# ---- what turns add up to ------------------------------------------------------------------------------------------------


def test_the_last_five_turns_and_a_hundred_costs_are_kept() -> None:
    run = start(Script(), begun("loop")).run
    for n in range(120):
        act = e.Act(key=f"r1-{n}", do="agent:worker", state="closed", turn=n)
        run = after_turn(run, act, e.TurnEnded(verdict="ok", tree=f"t{n}", usage=e.Usage(cost_uusd=n)))
    assert (len(run.lately), run.lately[-1].partition(" (")[0]) == (5, "turn 120")
    assert (len(run.turn_costs), run.turn_costs[0], run.turn_costs[-1]) == (100, 20, 119)
    assert LATELY == 5


def test_the_fewest_failing_tests_only_fall() -> None:
    run = start(Script(), begun("loop")).run
    act = e.Act(key="r1-1", do="proof", state="closed", turn=1, why="gate")
    seen: list[int | None] = []
    for failing in (4, 6, 3, 3):
        run = after_proof(
            replace(run, progressed=False),
            act,
            e.ProofEnded(tree="t", passed=False, failing=failing, summary="s"),
        )
        seen.append(run.fewest)
    assert seen == [4, 4, 3, 3] and run.progressed is False
    invalid = after_proof(
        run, act, e.ProofEnded(tree="t", passed=False, invalid="it changed the tree", summary="s")
    )
    assert invalid.proof is not None and invalid.proof.summary == "it changed the tree"
    assert run.proof is not None and run.proof.summary == "s"


def test_an_error_is_told_only_where_there_is_one() -> None:
    run = start(Script(), begun("loop")).run
    assert "The last error" not in so_far(run)
    assert "The last error: boom" in so_far(replace(run, last_error="boom"))
    stop = e.Stop(code="loop.no_progress", threshold="5", observed="5")
    assert "The last error" not in solutions(run, stop)
    assert "The last error: boom" in solutions(replace(run, last_error="boom"), stop)


def test_a_pause_is_settled_by_the_stop_and_a_question_leaves_it() -> None:
    run = replace(waiting().run, asked="pause", status="running", question=None)
    paused = apply(run, e.Stopped(at=9, status="paused", stop=e.Stop(code="wait.paused")))
    asked = apply(run, e.Stopped(at=9, status="waiting", stop=e.Stop(code="wait.question")))
    assert (paused.asked, asked.asked) == ("", "pause")
