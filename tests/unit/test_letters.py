"""What a letter does: which are refused and why, and what follows from one that is heard."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from flyball.core import events as e
from flyball.core.letters import (
    TEXT_MAX,
    Answer,
    AnyLetter,
    Ask,
    HandBack,
    Rollback,
    Tell,
    encode,
    hear,
    refusal,
    settles,
    wake,
)
from flyball.core.run import Run, Todo, begin
from flyball.core.settings import Settings
from support import PROOF, begun

NOW = 77
ACT = e.Act(key="r1-9", do="agent:worker", state="closed", turn=9)


def at(machine: str = "loop", state: str = "", **more: Any) -> Run:
    run = begin(begun(machine, Settings(proof=PROOF, agents={"default": "a"})))
    return replace(run, **{"state": state or run.state, "tree": "t", "prepared": True, **more})


def asked(kind: str, *verbs: str, run: Run | None = None, code: str = "wait.question", **more: Any) -> Run:
    question = e.Question(id="r1.1", kind=kind, text="?", verbs=(*verbs, "cancel"), shown="s")
    told = {"status": "waiting", "question": question, "stop": e.Stop(code=code, detail="rm x"), **more}
    return replace(run or at(), **told)


def heard(run: Run, letter: AnyLetter) -> list[Any]:
    return list(hear(run, encode(letter), 5, NOW))


def kinds(facts: list[Any]) -> list[str]:
    return [type(fact).__name__ for fact in facts]


def says(verb: str, **more: Any) -> Answer:
    return Answer(**{"question": "r1.1", "verb": verb, "who": "anna", **more})


# ---- what is refused -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("letter", "why"),
    [
        (says("go-on"), ""),
        (says("go-on", shown="s"), ""),
        (says("go-on", question="r1.0"), "is not open"),
        (says("go-on", shown="other"), "has changed since"),
        (says("banana"), "cannot be answered with 'banana'. It takes: go-on, cancel."),
        (Tell(text="x"), ""),
        (Ask(what="pause"), ""),
        (Ask(what="banana"), "There is no 'banana'."),
        (HandBack(), "was not taken over"),
        (Rollback(turn=1, tree="t"), ""),
    ],
)
def test_a_letter_that_cannot_be_used_is_refused_with_its_reason(letter: AnyLetter, why: str) -> None:
    found = refusal(asked("loop", "go-on"), letter)
    assert (why in found) if why else found == ""
    facts = heard(asked("loop", "go-on"), letter)
    assert (kinds(facts) == ["LetterRefused"]) is bool(why)
    assert not why or (facts[0].letter, facts[0].at, facts[0].reason) == (5, NOW, found)


def test_nothing_is_asked_so_nothing_is_answered_and_an_end_hears_nothing() -> None:
    assert "is not open" in refusal(at(), says("go-on"))
    over = at(status="ended", end="failure")
    assert refusal(over, Tell(text="x")) == "Run r1 has ended (failure)."
    assert "(failed.agent)" in refusal(replace(over, stop=e.Stop(code="failed.agent")), Tell(text="x"))
    assert refusal(at(stop=e.Stop(code="wait.take_over")), HandBack()) == ""
    assert refusal(at(), HandBack()) != ""
    assert "is at work" in refusal(at(act=ACT), Rollback(turn=1, tree="t"))


@pytest.mark.parametrize(
    ("state", "given", "origin", "fits"),
    [
        ("human_escalation", {"data": {"state": "planning"}}, "", True),
        ("human_escalation", {"text": "planning"}, "", True),
        ("human_escalation", {}, "testing", True),
        ("human_escalation", {}, "", False),
        ("human_escalation", {"text": "completed"}, "testing", False),
        ("human_escalation", {"data": {"state": "nowhere"}}, "testing", False),
        ("cto_intervention", {"text": "nowhere"}, "", True),
    ],
)
def test_an_answer_that_must_name_a_state_names_one_that_work_goes_on_in(
    state: str, given: dict[str, Any], origin: str, fits: bool
) -> None:
    run = asked("escalation", "retry", "complete", run=at("task", state, origin=origin))
    found = refusal(run, says("retry", **given))
    assert (found == "") is fits and (fits or "needs a state: one of pending" in found)
    assert refusal(run, says("complete", text="nowhere")) == ""


# ---- what is told and asked for ------------------------------------------------------------------------------------------------


def test_what_is_told_is_kept_as_far_as_it_may_be_long() -> None:
    assert TEXT_MAX == 20_000
    (told,) = heard(at(), Tell(text="x" * 20_001, who="anna"))
    assert (len(told.text), told.who, told.at) == (20_000, "anna", NOW)
    answered = heard(asked("loop", "go-on"), says("go-on", text="x" * 20_001))[0]
    assert len(answered.text) == 20_000


@pytest.mark.parametrize(
    ("run", "facts"),
    [
        (at(), ["Asked"]),
        (at(act=ACT), ["Asked"]),
        (asked("loop", act=ACT), ["Asked"]),
        (asked("loop"), ["Stopped"]),
        (asked("loop", held=e.Held(at=1, outcome="x", until="block")), ["Dropped", "Stopped"]),
        (asked("loop", todo=Todo("t", "putback")), ["Resumed", "Asked"]),
    ],
)
def test_a_run_that_waits_is_taken_over_at_once_and_one_that_works_after_its_act(
    run: Run, facts: list[str]
) -> None:
    found = heard(run, Ask(what="take-over", who="anna"))
    assert kinds(found) == facts
    last = found[-1]
    if isinstance(last, e.Stopped):
        assert (last.status, last.stop.code, last.stop.rule) == (
            "paused",
            "wait.take_over",
            "taken over by anna",
        )
    else:
        assert (last.what, last.who) == ("take-over", "anna")
    assert kinds(heard(run, Ask(what="pause"))) == ["Asked"]


def test_a_checkout_that_was_handed_back_is_looked_at_if_there_is_one() -> None:
    taken = at(status="paused", stop=e.Stop(code="wait.take_over"))
    resumed, ordered = heard(taken, HandBack(who="anna"))
    assert (resumed.why, ordered.tree, ordered.why) == ("handed back by anna", "t", "hand-back")
    assert kinds(heard(replace(taken, prepared=False), HandBack())) == ["Resumed"]


def test_a_rollback_lets_go_of_what_was_held() -> None:
    held = at(held=e.Held(at=1, outcome="x", until="gate"))
    assert kinds(heard(held, Rollback(turn=3, tree="u"))) == ["Dropped", "RestoreOrdered", "Told"]
    assert kinds(heard(at(), Rollback(turn=3, tree="u"))) == ["RestoreOrdered", "Told"]


# ---- what follows from an answer ---------------------------------------------------------------------------------------------------


def test_an_answer_says_what_was_said_but_for_the_name_of_a_state() -> None:
    run = asked("escalation", "retry", run=at("task", "human_escalation", origin="testing"))
    assert heard(run, says("retry", text="planning"))[0].text == ""
    assert heard(run, says("retry", data={"state": "planning"}, text="Mind b."))[0].text == "Mind b."
    elsewhere = asked("loop", "answer", run=at("task", "testing"))
    assert heard(elsewhere, says("answer", text="planning"))[0].text == "planning"
    answered = heard(run, says("retry", how="web", data={"state": "planning"}))[0]
    assert (answered.who, answered.how, answered.data) == ("anna", "web", {"state": "planning"})


def test_a_cancel_ends_it_and_an_unapproved_change_goes() -> None:
    held = e.Held(at=1, outcome="worked", until="approval", data={"before": "b"})
    assert kinds(heard(asked("loop"), says("cancel"))) == ["Answered", "Ended"]
    facts = heard(asked("approval", "approve", held=held), says("cancel"))
    assert kinds(facts) == ["Answered", "RestoreOrdered", "Ended"]
    assert (facts[1].tree, facts[2].end, facts[2].stop.rule) == ("b", "cancelled", "answer to r1.1")


@pytest.mark.parametrize(
    ("verb", "goes"), [("go-on", True), ("approve", True), ("reject", False), ("redirect", False)]
)
def test_a_breakpoint_is_passed_by_yes_and_its_act_done_again_by_anything_else(verb: str, goes: bool) -> None:
    held = e.Held(at=1, outcome="planned", until="breakpoint")
    run = asked("breakpoint", verb, run=at("build", "plan"), held=held)
    assert kinds(heard(run, says(verb))) == ["Answered", "Moved" if goes else "Dropped"]
    other = asked("budget", "raise", run=at("build", "plan"), held=held)
    assert kinds(heard(other, says("raise"))) == ["Answered"]  # what was held stays held


@pytest.mark.parametrize("until", ["approval", "block"])
def test_a_change_is_let_stand_or_put_back_by_the_answer_to_the_question_about_it(until: str) -> None:
    held = e.Held(at=1, outcome="worked", until=until, data={"before": "b", "k": 1})
    ruling = e.Ruling(verdict="ask", tree="u", reason="No.")
    run = asked(until, "approve", "reject", held=held, ruling=ruling)
    _, ordered, taken = heard(run, says("approve"))
    assert (ordered.tree, ordered.why, ordered.since) == ("u", "approved", "b")
    assert (taken.outcome, taken.until, taken.data) == ("worked", "taken", {"k": 1})
    _, back, told, dropped = heard(run, says("reject"))
    assert (back.tree, back.why, dropped.why) == ("b", "putback", "reject")
    assert told.text == "Your last change was not accepted and was put back. No."
    there = replace(run, held=replace(held, data={}))
    assert heard(there, says("approve"))[1].since == "t"
    assert kinds(heard(there, says("reject"))) == ["Answered", "Told", "Dropped"]
    unruled = heard(replace(run, ruling=None), says("reject"))
    assert unruled[2].text == "Your last change was not accepted and was put back."
    other = replace(run, question=replace(run.question, kind="budget", verbs=("approve", "raise")))
    assert kinds(heard(other, says("approve"))) == ["Answered"]


@pytest.mark.parametrize(
    ("verb", "said"),
    [
        ("approve", "A person allows: rm x"),
        ("grant", "A person allows, once: rm x"),
        ("reject", "A person does not allow: rm x"),
        ("answer", ""),
    ],
)
def test_who_asked_for_a_permission_is_told_what_a_person_said(verb: str, said: str) -> None:
    run = asked("permission", verb, code="wait.permission")
    facts = heard(run, says(verb))
    assert [fact.text for fact in facts[1:]] == ([said] if said else [])
    unnamed = heard(replace(run, stop=e.Stop(code="wait.permission")), says(verb))
    assert [fact.text for fact in unnamed[1:]] == (
        [said.replace("rm x", "what you asked for")] if said else []
    )
    other = asked("loop", verb)
    assert kinds(heard(other, says(verb))) == ["Answered"]


def test_a_state_that_asks_follows_the_answer_by_its_name_or_by_what_people_call_it() -> None:
    opened = asked("loop", "answer", "go-on", run=at("loop", "open"))
    for verb in ("answer", "go-on"):
        moved = heard(opened, says(verb))[-1]
        assert (moved.target, moved.outcome) == ("half_open", "answered")
    person = asked("escalation", "retry", "abandon", run=at("task", "human_escalation", origin="testing"))
    for given, target in (
        ({}, "testing"),
        ({"text": "planning"}, "planning"),
        ({"data": {"state": "assigned"}}, "assigned"),
    ):
        assert heard(person, says("retry", **given))[-1].target == target
    assert heard(person, says("abandon"))[-1].end == "failure"
    held = e.Held(at=1, outcome="complete", until="commit")
    assert kinds(heard(replace(person, held=held), says("retry"))) == ["Answered"]
    budget = asked("budget", "raise", run=at("loop", "open"))
    assert kinds(heard(budget, says("raise"))) == ["Answered"]
    works = asked("loop", "go-on", run=at("loop", "closed"))
    assert kinds(heard(works, says("go-on"))) == ["Answered"]


# ---- what a letter will do, and what waking means ----------------------------------------------------------------------------------------


def test_a_letter_on_its_way_settles_the_open_question_or_ends_the_run() -> None:
    run = asked("loop", "go-on")
    assert settles(run, encode(says("go-on"))) is True
    assert settles(run, encode(says("go-on", question="r1.0"))) is False
    assert settles(at(), encode(says("go-on"))) is False
    assert settles(run, encode(Ask(what="cancel"))) is True
    assert settles(run, encode(Ask(what="cancel")), cancelling=False) is False
    assert settles(run, encode(Ask(what="pause"))) is False
    assert settles(run, encode(Tell(text="x"))) is False
    assert settles(run, b"nonsense") is False


@pytest.mark.parametrize("what", ["interrupt", "pause", "stop"])
def test_an_order_whose_driver_died_is_taken_back_by_resuming(what: str) -> None:
    (back,) = wake(at(asked=what), NOW)
    assert isinstance(back, e.Asked) and (back.what, back.who) == ("", "resume")
    assert wake(asked("loop", asked=what), NOW) == []
    assert wake(at(asked="cancel"), NOW) == []


@pytest.mark.parametrize(
    ("status", "code", "question", "wakes"),
    [
        ("paused", "wait.paused", False, True),
        ("paused", "interrupted", False, True),
        ("paused", "wait.take_over", False, False),
        ("paused", "wait.paused", True, False),
        ("waiting", "wait.rate_limit", False, False),
        ("waiting", "wait.question", True, False),
        ("blocked", "blocked.guard.radius", True, False),
        ("running", "", False, False),
    ],
)
def test_resuming_ends_a_pause_and_leaves_a_question_open(
    status: str, code: str, question: bool, wakes: bool
) -> None:
    run = asked("loop", code=code, status=status)
    run = replace(run, question=run.question if question else None, stop=run.stop if code else None)
    assert kinds(wake(run, NOW)) == (["Resumed"] if wakes else [])
    assert wake(replace(run, stop=None), NOW) == []


def test_resuming_passes_a_breakpoint() -> None:
    held = e.Held(at=1, outcome="planned", until="breakpoint")
    run = asked(
        "breakpoint", "go-on", run=at("build", "plan"), held=held, status="paused", code="wait.breakpoint"
    )
    facts = wake(run, NOW)
    assert kinds(list(facts)) == ["Answered", "Moved"]
    assert isinstance(facts[0], e.Answered) and (facts[0].verb, facts[0].how) == ("go-on", "resume")
    assert kinds(list(wake(replace(run, question=None), NOW))) == ["Resumed"]
