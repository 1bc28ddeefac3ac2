"""What people write to a run: orders, take-overs, rollbacks, answers bound to what was shown. Each is heard once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from flyball.core.decide import Finished
from flyball.core.mail import hear, refusal, settles, wake
from flyball.domain import events as e
from flyball.domain.messages import (
    Answer,
    AnyMessage,
    Ask,
    HandBack,
    Land,
    Rollback,
    Tell,
    contradiction,
    decode,
    encode,
    for_who_works,
    replaces,
)
from flyball.state.run import Run
from support import Played, Script, begun, failing, finish, ok, play, ruled, says, settings, start, writes

# ---- runs in every kind of rest ------------------------------------------------------------------------------


def fresh() -> Played:
    return start(Script(), begun())


def running() -> Played:
    return fresh().go_on(lambda run: run.state == "write")


def acting() -> Played:
    played = running()
    played.begin_act("agent:coder")
    return played


def asked() -> Played:
    return play(Script(write=[ok("t1", ask="Which?"), writes()]))


def blocked() -> Played:
    return play(Script(write=[ruled("deny", "t1"), writes()]))


def unapproved() -> Played:
    return play(Script(write=[ruled("ask", "t1"), writes()]))


def at_breakpoint() -> Played:
    return play(Script(), settings=settings(breakpoints=("write",)))


def limited() -> Played:
    """Waiting for a rate limit."""
    played = start(Script(), begun())
    played.begin_act("agent:coder")
    return played.finish_act(e.TurnEnded(verdict="rate_limited", reset_at=played.now + 1000))


def paused() -> Played:
    return running().write(Ask(what="pause")).go_on()


def taken() -> Played:
    return asked().write(Ask(what="take-over", who="anna"))


def unmade() -> Played:
    """Taken over before there is a checkout."""
    return fresh().write(Ask(what="take-over", who="anna")).go_on()


def escalated() -> Played:
    script = Script(planning=says("FAIL"), cto_intervention=says(outcome="escalate"))
    return play(script, machine="task")


def interrupted(times: int = 1) -> Played:
    """The worker's first turns are cut off; what they left is to be put back."""
    played = start(Script(**{"agent:worker": ["killed"] * times + [ok("t1"), finish("t2")]}), begun("loop"))
    return played.go_on(lambda run: run.act is None and played.done.count("agent:worker") == times)


def ended() -> Played:
    return play(Script())


Made = Callable[[], Played]

# ---- landing after the end -------------------------------------------------------------------------------------


def declined(run: Run, act: e.Act) -> Finished:
    result = e.CommitEnded(outcome="conflict", tree="t1", reason="It does not merge.")
    return Finished(key=act.key, result=result, ruling=e.Ruling(verdict="deny", rule="protected"))


LANDINGS: dict[str, tuple[list[Any], dict[str, str], str]] = {  # plays, landings, facts after the end
    "it lands": ([], {"main": "c"}, "LandOrdered ActStarted ActFinished Landed"),
    "it does not": ([declined], {}, "LandOrdered ActStarted ActFinished Ruled Dropped"),
    "it is interrupted": (["killed"], {}, "LandOrdered ActStarted ActInterrupted"),
}


@pytest.mark.parametrize("name", LANDINGS)
def test_an_ended_run_lands_when_told_and_does_nothing_else(name: str) -> None:
    plays, landings, kinds = LANDINGS[name]
    played = play(Script(**({"land": plays} if plays else {})))
    before, count = played.run, len(played.events)
    played.write(Land(branch="main", who="anna")).go_on()
    after, facts = played.run, played.events[count:]
    assert [e.kind(fact) for fact in facts] == kinds.split()
    assert after.checkout.landings == landings
    assert (after.status, after.end, after.state, after.stop) == (
        "ended",
        "success",
        before.state,
        before.stop,
    )
    again = played.write(Land(branch="other")).go_on()
    assert again.acts[-1].branch == "other"


UNLANDABLE: dict[str, tuple[Made, str]] = {
    "it has not ended": (running, "has not ended"),
    "it failed": (lambda: play(Script(verify=says("FAIL"))), "limit.iterations"),
    "it was cancelled": (lambda: asked().write(Ask(what="cancel")).go_on(), "cancelled"),
    "it lands already": (lambda: ended().write(Land(branch="main")), "already being merged into 'main'"),
    "it is another's": (lambda: play(Script(), begun(owner=False, tree="base", root="r0")), "part of run r0"),
}


@pytest.mark.parametrize("name", UNLANDABLE)
def test_what_cannot_land_says_why(name: str) -> None:
    made, reason = UNLANDABLE[name]
    played = made().write(Land(branch="main", who="anna"))
    assert reason in played.of(e.LetterRefused)[-1].reason


# ---- orders ----------------------------------------------------------------------------------------------------

ORDERS: dict[str, tuple[Made, str, str, str]] = {  # run, order, code, the code after `flyball resume`
    "pause": (running, "pause", "wait.paused", "completed"),
    "stop": (running, "stop", "wait.paused", "completed"),
    "interrupt": (running, "interrupt", "interrupted", "completed"),
    "pause while it waits for a limit": (limited, "pause", "wait.paused", "completed"),
    "take over": (running, "take-over", "wait.take_over", "wait.take_over"),
    "take over while it asks": (asked, "take-over", "wait.take_over", "wait.take_over"),
    "take over a blocked run": (blocked, "take-over", "wait.take_over", "wait.take_over"),
    "cancel": (running, "cancel", "cancelled", "cancelled"),
    "cancel while it asks": (asked, "cancel", "cancelled", "cancelled"),
    "cancel a blocked run": (blocked, "cancel", "cancelled", "cancelled"),
    "cancel at a breakpoint": (at_breakpoint, "cancel", "cancelled", "cancelled"),
    "cancel a paused run": (paused, "cancel", "cancelled", "cancelled"),
    "cancel while it waits for a limit": (limited, "cancel", "cancelled", "cancelled"),
    "cancel a run that was taken over": (taken, "cancel", "cancelled", "cancelled"),
    "pause while it asks": (asked, "pause", "wait.question", "wait.question"),
    "pause while it is blocked": (blocked, "pause", "blocked.guard.protected", "blocked.guard.protected"),
}


@pytest.mark.parametrize("name", ORDERS)
def test_an_order_takes_effect_at_the_next_boundary(name: str) -> None:
    made, order, code, after = ORDERS[name]
    played = made()
    state = played.run.state
    played.write(Ask(what=order, who="anna")).go_on()
    assert (played.code, played.run.state) == (code, state)
    assert played.wake().code == after


@pytest.mark.parametrize("order", ["pause", "stop", "interrupt", "take-over"])
def test_an_order_waits_for_the_act_in_flight(order: str) -> None:
    played = acting().write(Ask(what=order)).go_on()
    assert played.run.status == "running" and played.run.act
    played.finish_act(ok("t1")).go_on()
    assert (played.run.status, played.run.state, played.run.tree) == ("paused", "test", "t1")


def test_a_question_meanwhile_does_not_unsay_a_pause() -> None:
    played = acting().write(Ask(what="pause")).finish_act(ok("t1", ask="Which?")).go_on()
    assert played.code == "wait.question"
    assert played.answer("answer", "b").code == "completed"


@pytest.mark.parametrize("order", ["interrupt", "pause", "stop"])
def test_an_order_whose_driver_died_is_taken_back_by_resuming(order: str) -> None:
    assert running().write(Ask(what=order)).wake().code == "completed"
    assert running().write(Ask(what="cancel")).wake().code == "cancelled"


def test_a_cancel_is_never_unsaid() -> None:
    played = asked().write(Ask(what="cancel"))
    played.write(Answer(question="r1.1", verb="answer", text="the first"))
    assert played.go_on().code == "cancelled"
    played = acting().write(Ask(what="cancel")).write(Ask(what="cancel"))
    assert played.finish_act(ok("t1")).code == "cancelled"


@pytest.mark.parametrize("phase", ["plan", "write", "test", "verify"])
def test_cancel_ends_it_anywhere(phase: str) -> None:
    played = fresh().go_on(lambda run: run.state == phase).write(Ask(what="cancel")).go_on()
    assert (played.code, played.run.end, played.run.state) == ("cancelled", "cancelled", phase)


@pytest.mark.parametrize("made", [fresh, acting])
def test_cancel_ends_it_before_and_after_any_act(made: Made) -> None:
    played = made().write(Ask(what="cancel")).go_on()
    act = played.run.act
    assert (act is None) == (played.code == "cancelled")
    if act:
        assert played.finish_act("killed").go_on().code == "cancelled"
        proof = start(Script(), begun())
        proof.begin_act("proof")
        proof.write(Ask(what="cancel")).finish_act(e.ProofEnded(tree="base", passed=True))
        assert proof.code == "cancelled"


# ---- a person works in the checkout ------------------------------------------------------------------------------


def test_what_a_person_made_is_theirs_and_the_act_is_done_again() -> None:
    played = taken().write(HandBack(who="anna"))
    assert played.run.status == "running"
    played.go_on()
    assert (played.restores(), played.code) == ([("hand-back", "t1")], "completed")
    assert played.done.count("agent:coder") == 2
    assert unmade().write(HandBack()).go_on().restores() == []


def test_a_rollback_ordered_before_a_hand_back_is_not_lost() -> None:
    played = taken().write(Rollback(turn=0, tree="base")).write(HandBack(who="anna")).go_on()
    assert (played.restores(), played.code) == ([("rollback", "base")], "completed")


def test_a_half_made_change_is_put_back_before_a_person_takes_over() -> None:
    """Else what the agent half did would be handed back as the person's own, unjudged."""
    played = interrupted().write(Ask(what="take-over", who="anna")).go_on()
    assert (played.code, played.done[-1]) == ("wait.take_over", "restore:putback")
    played = interrupted(6 - 1).go_on()
    assert played.code == "wait.infrastructure"
    played.write(Ask(what="take-over", who="anna"))
    assert played.run.question is None and played.go_on().code == "wait.infrastructure"


@pytest.mark.parametrize(("made", "tree"), [(blocked, "base"), (unapproved, "t1"), (at_breakpoint, "t1")])
def test_what_was_asked_is_dropped_by_a_take_over(made: Made, tree: str) -> None:
    played = made().write(Ask(what="take-over"))
    assert (played.code, played.run.question, played.run.tree) == ("wait.take_over", None, tree)
    played.write(HandBack(who="anna")).go_on()
    assert played.done.count("agent:coder") == 2


def test_an_approved_change_is_brought_back_before_a_take_over() -> None:
    played = blocked()
    played.write(Answer(question="r1.1", verb="approve")).write(Ask(what="take-over")).go_on()
    assert (played.code, played.run.tree, played.restores()) == ("wait.take_over", "t1", [("approved", "t1")])
    assert played.write(HandBack()).go_on().done.count("agent:coder") == 2


@pytest.mark.parametrize(
    ("made", "code"), [(asked, "wait.question"), (paused, "wait.paused"), (taken, "wait.take_over")]
)
def test_a_rollback_is_done_and_told_while_the_run_waits(made: Made, code: str) -> None:
    played = made()
    played.write(Rollback(turn=1, tree="base", who="anna")).go_on()
    assert (played.restores()[-1], played.code) == (("rollback", "base"), code)
    assert (played.run.tree, [a.since for a in played.acts if a.why == "rollback"]) == ("base", ["1"])
    assert "1" in played.of(e.Told)[-1].text and played.of(e.Told)[-1].who == "anna"


def test_a_rollback_lets_go_of_what_was_held() -> None:
    played = at_breakpoint().write(Rollback(turn=1, tree="base")).go_on()
    assert played.run.tree == "base"
    assert played.wake().done.count("agent:coder") == 2


def test_the_attempts_to_mend_what_was_rolled_back_do_not_count() -> None:
    played = start(Script(test=failing()), settings=settings(limits={"build": {"fix": 3}}))
    played.go_on(lambda run: run.state == "test" and run.path.entries.get("fix") == 2)
    assert played.write(Rollback(turn=0, tree="base")).run.state == "test"
    played.go_on()
    assert (played.code, sum(act.state == "fix" for act in played.acts)) == ("limit.fix_attempts", 2 + 3)


# ---- what is told ------------------------------------------------------------------------------------------------


def test_what_is_told_is_heard_in_the_next_turn_and_once() -> None:
    played = fresh().go_on(lambda run: run.state == "test")
    played.write(Tell(text="mind the gap", who="ann")).go_on()
    assert [(a.do, text) for a in played.acts for text in a.told] == [
        ("agent:critic", "Message from a person: mind the gap")
    ]


def test_what_people_write_is_kept_as_far_as_it_may_be_long() -> None:
    played = running().write(Tell(text="x" * 20_001)).go_on()
    assert played.told("agent:coder").count("x") == 20_000
    assert asked().answer("answer", "x" * 20_001).told("agent:coder", 1).count("x") == 20_000


# ---- what is refused -----------------------------------------------------------------------------------------------


def says_(verb: str = "answer", question: str = "r1.1", **more: Any) -> Answer:
    return Answer(question=question, verb=verb, **more)


REFUSED: dict[
    str, tuple[Made, AnyMessage, str]
] = {  # run, message, a word of the reason; "" where it is taken
    "an answer": (asked, says_(), ""),
    "another question": (asked, says_(question="r1.9"), "r1.9"),
    "nothing is asked": (running, says_(), "r1.1"),
    "another verb": (asked, says_("approve"), "answer, redirect, cancel"),
    "no verb": (asked, says_(""), "answer, redirect, cancel"),
    "it has changed since": (asked, says_(shown="0000"), "changed"),
    "an unknown order": (asked, Ask(what="explode"), "explode"),
    "an order": (acting, Ask(what="pause"), ""),
    "a word": (acting, Tell(text="x"), ""),
    "hand back what was not taken": (asked, HandBack(), "take-over"),
    "hand back what runs": (running, HandBack(), "take-over"),
    "hand back": (taken, HandBack(), ""),
    "roll back": (asked, Rollback(turn=1, tree="base"), ""),
    "roll back what is at work": (acting, Rollback(turn=1, tree="base"), "flyball pause r1"),
    "tell an ended run": (ended, Tell(text="x"), "completed"),
    "cancel an ended run": (ended, Ask(what="cancel"), "completed"),
    "answer an ended run": (ended, says_(), "completed"),
    "retry nowhere": (escalated, says_("retry", text="nowhere"), "pending"),
    "retry an end": (escalated, says_("retry", data={"state": "completed"}), "pending"),
    "retry somewhere": (escalated, says_("retry", text="testing"), ""),
    "retry": (escalated, says_("retry"), ""),
    "complete with words": (escalated, says_("complete", text="nowhere"), ""),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_message_that_cannot_be_used_is_refused_with_its_reason_and_changes_nothing(name: str) -> None:
    made, message, word = REFUSED[name]
    run = made().run
    facts = hear(run, encode(message), 5, 99)
    assert (refusal(run, message) != "") is bool(word)
    if word:
        assert [type(fact) for fact in facts] == [e.LetterRefused]
        refused = facts[0]
        assert isinstance(refused, e.LetterRefused) and (refused.letter, refused.at) == (5, 99)
        assert word in refused.reason == refusal(run, message)
    else:
        assert not any(isinstance(fact, e.LetterRefused) for fact in facts)


@pytest.mark.parametrize(
    "body", [b"", b"{}", b"[]", b"\xff", b'{"is":"Answer"}', b'{"is":"Order"}', b"[" * 99_999]
)
def test_a_message_that_cannot_be_read_is_refused_as_a_fact(body: bytes) -> None:
    (refused,) = hear(asked().run, body, 7, 9)
    assert isinstance(refused, e.LetterRefused) and (refused.letter, refused.at) == (7, 9)
    assert not for_who_works(body) and not settles(asked().run, body)


def test_an_answer_bound_to_what_is_shown_is_taken_with_who_and_how_and_once() -> None:
    played = asked()
    assert played.run.question
    played.answer("answer", "the first", shown=played.run.question.shown, who="ann", how="cli")
    told = played.of(e.Answered)[0]
    assert (told.verb, told.text, told.who, told.how) == ("answer", "the first", "ann", "cli")
    answers = [text for a in played.acts for text in a.told if "the first" in text]
    assert answers == [
        "You asked: Which?\n\nThe answer: the first"
    ]  # the next agent may not be the one that asked
    assert (played.code, [q.id for s in played.of(e.Stopped) if (q := s.question)]) == ("completed", ["r1.1"])
    again = play(Script(write=[ok("t1", ask="a"), ok("t2", ask="b")])).answer("answer")
    assert again.run.question and again.run.question.id == "r1.2"


MESSAGES: dict[str, tuple[AnyMessage, bool, bool]] = {  # message, for who works, settles the open question
    "tell": (Tell(text="é"), True, False),
    "hand back": (HandBack(who="anna"), True, False),
    "pause": (Ask(what="pause"), False, False),
    "cancel": (Ask(what="cancel"), False, True),
    "roll back": (Rollback(turn=1, tree="t"), False, False),
    "answer": (says_(data={"state": "x"}), False, True),
    "another answer": (says_(question="r1.0"), False, False),
}


@pytest.mark.parametrize("name", MESSAGES)
def test_a_message_survives_its_record_and_is_known_for_what_it_will_do(name: str) -> None:
    message, works, settling = MESSAGES[name]
    body = encode(message)
    assert (decode(body), for_who_works(body), settles(asked().run, body)) == (message, works, settling)
    if isinstance(message, Ask):
        assert not settles(asked().run, body, cancelling=False)
    if isinstance(message, Answer):
        assert not settles(running().run, body)
    with pytest.raises(AttributeError):
        message.who = "mallory"  # type: ignore[misc,union-attr]


REPLACES: dict[str, tuple[AnyMessage, AnyMessage, bool]] = {  # a later message, an earlier one
    "another answer of the same person": (says_("cancel", who="ann"), says_("answer", who="ann"), True),
    "an answer of another person": (says_(who="bob"), says_(who="ann"), False),
    "an answer to another question": (says_(question="r1.2"), says_(), False),
    "a word after an answer": (Tell(text="x"), says_(), False),
    "an answer after an order": (says_(), Ask(what="pause"), False),
}


@pytest.mark.parametrize("name", REPLACES)
def test_an_answer_that_was_not_taken_may_be_replaced_by_its_author(name: str) -> None:
    later, earlier, expected = REPLACES[name]
    assert replaces(encode(later), encode(earlier)) is expected
    assert not replaces(b"nonsense", encode(earlier)) and not replaces(encode(later), b"nonsense")


RESUMED: dict[str, tuple[Made, str]] = {  # what `flyball resume` leads to
    "paused": (paused, "completed"),
    "a breakpoint": (at_breakpoint, "completed"),
    "a question stays open": (asked, "wait.question"),
    "a block stays": (blocked, "blocked.guard.protected"),
    "who took it over gives it back": (taken, "wait.take_over"),
    "an end stays": (ended, "completed"),
}


@pytest.mark.parametrize("name", RESUMED)
def test_resuming_ends_a_pause_and_leaves_a_question_open(name: str) -> None:
    made, code = RESUMED[name]
    played = made()
    assert played.wake().code == code
    assert wake(limited().run, 9) == [] == wake(running().run, 9)


# ---- plans (cto) -----------------------------------------------------------------------------------------------


PLANS = {
    **dict.fromkeys(("proceed", "approve", "go-on"), "EXECUTING"),
    **dict.fromkeys(("replan", "redirect"), "PLANNING"),
    **dict.fromkeys(("drop", "reject"), "IDLE"),
}


@pytest.mark.parametrize("verb", PLANS)
def test_a_plan_is_approved_replanned_or_dropped(verb: str) -> None:
    played = start(Script(), begun("cto", settings(proof=()), start="WAITING_FOR_HUMAN", owner=False)).go_on()
    assert (played.code, played.run.question and set(PLANS) < set(played.run.question.verbs)) == ("wait.escalation", True)  # fmt: skip
    played.write(Answer(question="r1.1", verb=verb))
    assert played.run.state == PLANS[verb]


def test_a_planner_that_finds_nothing_to_do_says_why() -> None:
    script = Script(PLANNING=[says("", "", outcome="nothing"), says("", "It is done.", outcome="nothing")])
    played = start(script, begun("cto", settings(proof=()), start="PLANNING", owner=False))
    played.go_on(lambda run: run.state != "PLANNING")
    assert [move.reason for move in played.of(e.Moved)] == ["It is done."]
    assert "needs a message that says why" in played.told("agent:planner", 1)


def test_a_plan_is_dropped_for_a_reason() -> None:
    for claim, reason in ((says("", "x" + "y" * 500, outcome="nothing"), "y" * 500), (says("", "z"), "")):
        played = start(
            Script(PLANNING=claim), begun("cto", settings(proof=()), start="PLANNING", owner=False)
        )
        played.go_on(lambda run: run.state != "PLANNING")
        assert played.of(e.Moved)[-1].reason == reason


ONE = Answer(question="q", verb="approve", who="ann")


@pytest.mark.parametrize(
    ("other", "who"),
    [
        (Answer(question="q", verb="reject", who="bob"), "ann answered approve and bob answered reject. "),
        (
            Answer(question="q", verb="approve", text="but", who="bob"),
            "ann answered approve and bob answered ",
        ),
        (Answer(question="q", verb="approve", who="bob"), ""),  # the same
        (Answer(question="q", verb="reject", who="ann"), ""),  # a later one of hers replaces it
        (Answer(question="p", verb="reject", who="bob"), ""),  # another question
        (Tell(text="no", who="bob"), ""),
    ],
)
def test_two_people_who_answer_differently_are_told_so(other: AnyMessage, who: str) -> None:
    messages = contradiction(encode(ONE), encode(other)), contradiction(encode(other), encode(ONE))
    assert [message.startswith(who) and bool(message) == bool(who) for message in messages] == [True, True]
