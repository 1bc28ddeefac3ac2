"""What people write to a run: an answer is bound to what was shown, renews what ran out, and is heard once."""

from __future__ import annotations

from typing import Any

import pytest

from flyball.core import events as e
from flyball.core.decide import Finished
from flyball.core.letters import Answer, Ask, Tell, decode, encode, hear, wake
from flyball.core.settings import Budget, Settings
from flyball.journal import Draft, Row, Write
from flyball.journal.memory import MemoryJournal
from flyball.runtime.spending import DAY_US, windows
from support import Played, Script, anywhere, bad, failing, finish, ok, passing, play, ruled, start

DOLLAR = 1_000_000


def settings(**more: Any) -> Settings:
    return Settings(**{"proof": ("prove",), "agents": {"default": "script:x"}, **more})


# ---- the guard's ask and deny ----------------------------------------------------------------------------


def build(**plays: Any) -> Played:
    return play(Script(**plays), settings=settings())


@pytest.mark.parametrize(("verdict", "code"), [("ask", "wait.approval"), ("deny", "blocked.guard.protected")])
def test_approve_lets_the_change_stand_and_its_outcome_follows(verdict: str, code: str) -> None:
    played = build(write=ruled(verdict, "t1"))
    assert (played.code, played.run.state) == (code, "write")
    played.answer("approve")
    assert [(a.why, a.tree) for a in played.acts if a.do == "restore"] == [("approved", "t1")]
    assert played.path == ["plan", "write", "test", "verify", "complete"]
    assert [a.tree for a in played.acts if a.why == "test"] == ["t1"]
    assert (played.run.iteration, played.done.count("agent:coder")) == (1, 1)
    assert played.run.waived == ("diff-t1",)


@pytest.mark.parametrize("verb", ["reject", "retry", "redirect"])
@pytest.mark.parametrize("verdict", ["ask", "deny"])
def test_anything_else_puts_it_back_and_does_the_same_act_again(verdict: str, verb: str) -> None:
    played = build(write=[ruled(verdict, "t1"), ok("t2")]).answer(verb, "not there")
    assert played.path == ["plan", "write", "test", "verify", "complete"]
    again = [a for a in played.acts if a.do == "agent:coder"][1]
    assert again.tree == "base"
    assert "not there" in again.told and any("It touches a protected path." in text for text in again.told)
    assert (played.run.iteration, played.run.entries.get("fix", 0)) == (1, 0)
    assert [a.tree for a in played.acts if a.do == "restore"] == (["base"] if verdict == "ask" else [])


def test_a_refused_fix_is_no_fix_attempt() -> None:
    script = Script(test=[failing(), passing], fix=[ruled("deny", "t5"), ruled("deny", "t6"), ok("t7")])
    played = play(script, settings=settings(limits={"build": {"fix": 1}}))
    assert played.answer("reject").answer("reject").code == "completed"
    assert played.path.count("fix") == 1


@pytest.mark.parametrize("verdict", ["ask", "deny"])
def test_what_cannot_be_waived_takes_no_approve(verdict: str) -> None:
    played = build(write=ruled(verdict, "t1", waivable=verdict == "ask"))
    assert played.run.question
    assert ("approve" in played.run.question.verbs) == (verdict == "ask")


def test_tampering_is_blocked_before_all_else_even_a_cancel() -> None:
    script = Script(write=ruled("deny", "t1", rule="tampering", waivable=False))
    played = start(script, settings=settings()).go_on(lambda run: run.state == "write")

    def cancelled_meanwhile(run: Any, act: e.Act) -> Any:
        played.note([e.Asked(at=1, what="cancel")])
        return ruled("deny", "t1", rule="tampering", waivable=False)(run, act)

    script.plays["write"] = [cancelled_meanwhile]
    played.go_on(lambda run: run.status == "blocked")
    assert (played.code, played.run.status) == ("blocked.tampering", "blocked")
    assert played.go_on().code == "cancelled"


def test_a_cancel_beats_a_deny() -> None:
    script = Script()
    played = start(script, settings=settings())

    def cancelled_meanwhile(run: Any, act: e.Act) -> Any:
        played.note([e.Asked(at=1, what="cancel")])
        return ruled("deny", "t1")(run, act)

    script.plays["write"] = [cancelled_meanwhile]
    assert played.go_on().code == "cancelled"


def dressed(verdict: str, turn: e.TurnEnded) -> Any:
    """A turn that failed, and whose change the guard does not simply allow."""

    def finished(run: Any, act: e.Act) -> Finished:
        ruling = ruled(verdict, "t1")(run, act).ruling
        return Finished(key=act.key, result=turn, ruling=ruling)

    return finished


@pytest.mark.parametrize("turn", [bad("killed", tree="base"), ok("base", ask="What now?")])
def test_approving_the_change_of_a_turn_without_an_outcome_does_the_act_again(turn: e.TurnEnded) -> None:
    played = build(write=[dressed("deny", turn), ok("t2")])
    assert played.code == "blocked.guard.protected"
    played.answer("approve")
    assert played.done.count("agent:coder") == 2
    assert [a for a in played.acts if a.do == "agent:coder"][1].tree == "t1"
    assert played.code == "completed"


def test_a_failed_turn_whose_change_was_put_back_is_simply_tried_again() -> None:
    played = build(write=[dressed("ask", bad("killed", tree="base")), ok("t2")])
    assert (played.code, played.of(e.Stopped)) == ("completed", [])


def test_a_limited_turn_does_not_carry_a_change_past_the_guard() -> None:
    played = build(write=[dressed("ask", bad("rate_limited", tree="t1")), ok("t2")])
    assert played.code == "wait.approval"
    assert played.answer("reject").code == "completed"
    assert [a.tree for a in played.acts if a.do == "restore"] == ["base"]


def test_an_approved_change_is_progress() -> None:
    script = Script(**{"agent:worker": [*[ok("base")] * 5, ruled("deny", "t1"), finish("t2")]})
    played = play(script, machine="loop", settings=settings())
    played.answer("go-on")
    assert (played.code, played.run.state) == ("blocked.guard.protected", "half_open")
    played.answer("approve")
    assert played.path[-3:] == ["half_open", "closed", "complete"]


# ---- what an answer is bound to --------------------------------------------------------------------------


def asked() -> Played:
    return build(write=[ok("t1", ask="Which?"), ok("t2")])


REFUSED: dict[str, tuple[Answer, str]] = {
    "another question": (Answer(question="r1.9", verb="answer"), "Question r1.9 is not open"),
    "another verb": (Answer(question="r1.1", verb="approve"), "cannot be answered with 'approve'"),
    "no verb": (Answer(question="r1.1", verb=""), "cannot be answered with ''"),
    "what was shown has changed": (
        Answer(question="r1.1", verb="answer", shown="0000"),
        "has changed since",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_an_answer_that_cannot_be_used_is_refused_and_changes_nothing(case: str) -> None:
    letter, reason = REFUSED[case]
    played = asked()
    before = played.run
    played.write(letter)
    assert reason in played.of(e.LetterRefused)[-1].reason
    assert played.run == before.__class__(**{**_fields(before), "at": played.run.at})


def _fields(run: Any) -> dict[str, Any]:
    return {name: getattr(run, name) for name in run.__struct_fields__}


def test_an_answer_bound_to_what_is_shown_is_taken_with_who_and_how() -> None:
    played = asked()
    assert played.run.question
    played.answer("answer", "the first", shown=played.run.question.shown, who="ann", how="cli")
    told = played.of(e.Answered)[0]
    assert (told.verb, told.text, told.who, told.how) == ("answer", "the first", "ann", "cli")
    assert played.code == "completed"


def test_an_answer_is_heard_once() -> None:
    played = asked().answer("answer", "the first")
    heard = [text for act in played.acts for text in act.told]
    assert heard.count("the first") == 1
    again = hear(played.run, encode(Answer(question="r1.1", verb="answer")), 2, 99)
    assert [e.kind(event) for event in again] == ["LetterRefused"]


def test_what_is_shown_differs_with_the_tree_and_the_change() -> None:
    shown = {
        build(write=ruled("deny", tree, waivable=waivable)).run.question.shown  # type: ignore[union-attr]
        for tree in ("t1", "t2")
        for waivable in (True,)
    }
    assert len(shown) == 2


@pytest.mark.parametrize(
    "body", [b"", b"{}", b"[]", b"\xff", b'{"is":"Answer"}', b'{"is":"Order","what":"go"}']
)
def test_a_letter_that_cannot_be_read_is_refused_as_a_fact(body: bytes) -> None:
    facts = hear(asked().run, body, 7, 9)
    assert [type(fact) for fact in facts] == [e.LetterRefused]
    assert isinstance(facts[0], e.LetterRefused) and facts[0].letter == 7


def test_an_ended_run_hears_nothing() -> None:
    run = build().run
    for letter in (Answer(question="r1.1", verb="go-on"), Tell(text="x"), Ask(what="cancel")):
        facts = hear(run, encode(letter), 1, 9)
        assert [e.kind(fact) for fact in facts] == ["LetterRefused"]


def test_a_letter_survives_its_own_record() -> None:
    for letter in (
        Answer(question="q", verb="answer", data={"state": "x"}),
        Tell(text="é"),
        Ask(what="stop"),
    ):
        assert decode(encode(letter)) == letter


def test_an_unknown_order_is_refused() -> None:
    facts = hear(asked().run, encode(Ask(what="explode")), 1, 9)
    assert isinstance(facts[0], e.LetterRefused) and "explode" in facts[0].reason


# ---- what an answer renews -------------------------------------------------------------------------------


def costing(uusd: int = 0, tokens: int = 0) -> Any:
    def turn(run: Any, act: e.Act) -> e.TurnEnded:
        usage = e.Usage(output_tokens=tokens, cost_uusd=uusd)
        return ok(f"t{run.turn + 1}", usage=usage)

    return turn


@pytest.mark.parametrize(
    ("budget", "turn", "code"),
    [
        (Budget(uusd=5 * DOLLAR), costing(2 * DOLLAR), "limit.budget_usd"),
        (Budget(tokens=500), costing(0, 200), "limit.budget_tokens"),
    ],
)
def test_a_turn_is_reserved_before_it_and_raising_renews_the_budget(
    budget: Budget, turn: Any, code: str
) -> None:
    script = Script(**{"agent:worker": turn})
    played = play(script, machine="loop", settings=settings(budget=budget))
    assert (played.code, played.run.status, played.run.turns) == (code, "waiting", 2)
    assert played.answer("raise").run.turns == 4
    assert played.code == code


def test_a_turn_dearer_than_the_whole_budget_still_asks_once_a_turn() -> None:
    script = Script(**{"agent:worker": costing(9 * DOLLAR)})
    played = play(script, machine="loop", settings=settings(budget=Budget(uusd=DOLLAR)))
    assert played.run.turns == 1
    assert [played.answer("raise").run.turns for _ in range(3)] == [2, 3, 4]


def test_a_day_used_up_by_all_runs_asks_and_raising_begins_it_anew() -> None:
    script = Script(**{"agent:worker": costing(9 * DOLLAR)})
    played = play(script, machine="loop", settings=settings(budget=Budget(uusd=None, day_uusd=DOLLAR)))
    assert played.run.stop and played.run.stop.rule == "budget.day_usd"
    assert played.run.turns == 1, "nobody had looked yet; then nine are reserved"
    before = played.run.turns
    assert played.answer("raise").run.turns == before + 1, "also where one turn is dearer than the day"
    assert played.run.window_from > 0 and played.run.window is None
    seen = e.WindowSeen(at=played.now, day_uusd=2 * DOLLAR)
    played.note([seen])
    assert played.answer("raise").run.turns == before + 2


def test_what_was_spent_lately_is_added_up_from_finished_turns() -> None:
    journal, now = MemoryJournal(), 9 * DAY_US
    spent = e.TurnEnded(verdict="ok", usage=e.Usage(cost_uusd=3, input_tokens=5, cache_read_tokens=9))
    child = e.ChildEnded(run="c", end="success", stop=e.Stop(code="completed"), usage=e.Usage(cost_uusd=100))
    results: list[tuple[int, e.AnyResult]] = [
        (now - 8 * DAY_US, spent),
        (now - 2 * DAY_US, spent),
        (now - 1, spent),
        (now, child),
    ]
    drafts = tuple(
        Draft(at, "ActFinished", e.encode(e.ActFinished(at=at, key="k", result=result)))
        for at, result in results
    )
    fence = journal.acquire("a", "d", lambda _: True)
    journal.append([Write("a", 0, drafts, Row(run="a"), fence)])
    assert windows(journal, now) == e.WindowSeen(
        at=now, day_uusd=3, day_tokens=5, week_uusd=6, week_tokens=10
    )
    assert windows(journal, now, since=now) == e.WindowSeen(at=now)


def test_no_budget_is_no_limit_and_completion_beats_the_budget() -> None:
    free = settings(budget=Budget(uusd=None, tokens=None, wall_us=None))
    script = Script(**{"agent:worker": costing(99 * DOLLAR, 10**9)})
    assert play(script, machine="loop", settings=free).code == "limit.turns"
    dear = e.TurnEnded(
        verdict="ok",
        tree="t1",
        usage=e.Usage(cost_uusd=99 * DOLLAR),
        claim=e.Claim(finished=True, indicators=("a", "b")),
    )
    assert play(Script(closed=dear), machine="loop", settings=settings()).code == "completed"


def test_cached_reads_are_not_charged_against_the_tokens() -> None:
    usage = e.Usage(input_tokens=10, cache_write_tokens=20, cache_read_tokens=10**9, output_tokens=30)
    script = Script(**{"agent:worker": [ok("t1", usage=usage), finish("t2")]})
    played = play(script, machine="loop", settings=settings())
    assert (played.code, played.run.spent.tokens) == ("completed", 60)


ASKING = {
    "name": "asking",
    "start": "work",
    "iteration": "work",
    "states": {
        "work": {"do": "agent:coder", "on": {"written": "judge"}},
        "judge": {
            "do": "agent:critic",
            "on": {
                "accepted": "done",
                "rejected": "work",
                "unproven": "work",
                "lost": "@ask",
                "over": "@blocked",
            },
        },
        "done": {"end": "success"},
    },
    "anywhere": anywhere(exhausted="@ask", timeout="@ask", error="@ask"),
    "most": {"iterations": 2, "turns": 40},
}


def asking(given: Settings | None = None, **plays: Any) -> Played:
    return play(Script(**plays), machine=ASKING, settings=given or settings())


def rejecting(run: Any, act: e.Act) -> e.TurnEnded:
    return ok(act.tree, signal="FAIL")


def test_iterations_that_ran_out_are_renewed_by_an_answer() -> None:
    played = asking(judge=rejecting)
    assert (played.code, played.run.status, played.path.count("work")) == ("wait.escalation", "waiting", 2)
    assert played.run.stop and played.run.stop.rule == "limit.iterations"
    assert played.answer("go-on").path.count("work") == 4


def test_turns_that_ran_out_are_renewed_by_an_answer() -> None:
    given = settings(limits={"asking": {"turns": 3, "iterations": 99}})
    played = asking(given, judge=rejecting)
    assert (played.code, played.run.turns) == ("wait.escalation", 3)
    assert played.answer("go-on").run.turns == 6


def test_time_that_ran_out_is_renewed_by_an_answer() -> None:
    def slow(run: Any, act: e.Act) -> Finished:
        return Finished(key=act.key, result=ok(act.tree, signal="FAIL"), took_us=11)

    given = settings(budget=Budget(wall_us=10), limits={"asking": {"iterations": 99}})
    played = asking(given, judge=slow)
    assert (played.code, played.run.status) == ("wait.escalation", "waiting")
    assert played.run.stop and played.run.stop.rule == "limit.time"
    turns = played.run.turns
    assert played.answer("go-on").run.turns > turns


def test_retries_that_ran_out_are_renewed_by_an_answer() -> None:
    played = asking(work=bad("killed"))
    assert (played.code, played.done.count("agent:coder")) == ("wait.escalation", 4)
    assert played.answer("retry").done.count("agent:coder") == 8


def test_an_outcome_that_asks_waits_and_its_answer_does_the_act_again() -> None:
    played = asking(judge=[lambda r, a: ok(a.tree, outcome="lost"), lambda r, a: ok(a.tree, signal="PASS")])
    assert (played.code, played.run.status, played.run.state) == ("wait.escalation", "waiting", "judge")
    assert played.answer("answer", "there").code == "completed"


def test_an_outcome_that_blocks_is_blocked() -> None:
    played = asking(judge=lambda r, a: ok(a.tree, outcome="over"))
    assert (played.code, played.run.status) == ("blocked.guard.over", "blocked")


def test_an_outcome_that_asks_behind_a_breakpoint_lets_go_of_it() -> None:
    given = settings(breakpoints=("judge",))
    lost, passed = (lambda r, a: ok(a.tree, outcome="lost")), (lambda r, a: ok(a.tree, signal="PASS"))
    played = asking(given, judge=[lost, passed])
    assert played.answer("go-on").code == "wait.escalation"
    assert played.answer("retry").code == "wait.breakpoint"
    assert played.answer("go-on").code == "completed"


# ---- orders ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("order", "code"), [("pause", "wait.paused"), ("stop", "wait.paused"), ("interrupt", "interrupted")]
)
def test_an_order_takes_effect_at_the_next_boundary_and_can_be_resumed(order: str, code: str) -> None:
    played = start(Script(), settings=settings()).go_on(lambda run: run.state == "write")
    played.write(Ask(what=order)).go_on()
    assert (played.code, played.run.status, played.run.state) == (code, "paused", "write")
    played.note(wake(played.run, played.now))
    assert played.go_on().code == "completed"


def test_resume_passes_a_breakpoint_but_no_open_question() -> None:
    played = play(Script(), settings=settings(breakpoints=("write",)))
    played.note(wake(played.run, played.now))
    assert played.go_on().code == "completed"
    waiting = asked()
    assert wake(waiting.run, 9) == []


def test_a_cancel_is_not_unsaid_by_an_answer() -> None:
    played = asked().write(Ask(what="cancel"))
    played.write(Answer(question="r1.1", verb="answer", text="the first"))
    assert played.go_on().code == "cancelled"


def test_what_is_told_is_heard_in_the_next_turn_and_once() -> None:
    played = start(Script(), settings=settings()).go_on(lambda run: run.state == "test")
    played.write(Tell(text="mind the gap", who="ann")).go_on()
    heard = [(act.do, text) for act in played.acts for text in act.told]
    assert heard == [("agent:critic", "mind the gap")]


def test_a_persons_cancel_of_a_question_ends_it() -> None:
    assert asked().answer("cancel").code == "cancelled"


# ---- plans (cto) -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("verb", "target"),
    [
        ("proceed", "EXECUTING"),
        ("approve", "EXECUTING"),
        ("go-on", "EXECUTING"),
        ("replan", "PLANNING"),
        ("redirect", "PLANNING"),
        ("drop", "IDLE"),
        ("reject", "IDLE"),
    ],
)
def test_a_plan_is_approved_replanned_or_dropped(verb: str, target: str) -> None:
    played = start(
        Script(), machine="cto", settings=settings(proof=()), start="WAITING_FOR_HUMAN", owner=False
    )
    played.go_on()
    assert played.code == "wait.escalation"
    question = played.run.question
    assert question
    played.write(Answer(question=question.id, verb=verb))
    assert played.run.state == target
