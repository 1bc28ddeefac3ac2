"""The guard's rulings: what may stand, what is put back, what a person may let stand, and which stop comes first."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from flyball.core.decide import Finished
from flyball.core.family import child_of
from flyball.domain import events as e
from flyball.domain.settings import Budget
from flyball.machines import shipped
from support import (
    ALLOW,
    Case,
    Played,
    Script,
    bad,
    begun,
    check,
    failing,
    finish,
    ok,
    passing,
    play,
    ruled,
    says,
    settings,
    start,
    writes,
)

WAY = "plan write test verify complete"
ASK, DENY = ruled("ask", "t1"), ruled("deny", "t1")
BLOCKED = "blocked.guard.protected"
SAID = "not there"
ONCE = "agent:planner agent:coder restore:approved proof:test agent:critic proof:gate commit"
AGAIN = "agent:planner agent:coder*2 proof:test agent:critic proof:gate commit"
BACK = "agent:planner agent:coder restore:putback agent:coder proof:test agent:critic proof:gate commit"
KILLED = bad("killed")


def again(first: Any, codes: str, verb: str, does: str, **more: Any) -> Case:
    """The first write is ruled on; after the answer the same act is done again in the same state."""
    hears = (("agent:coder", 1, SAID), ("agent:coder", 1, "protected path"))
    return Case(WAY, f"{codes} completed", {"write": [first, writes()]}, answers=(f"{verb} {SAID}",), does=does, hears=hears, **more)  # fmt: skip


RULED = {
    "ask, approved": Case(WAY, "wait.approval completed", {"write": ASK}, answers=("approve",), does=ONCE, restores="approved:t1"),
    "deny, approved": Case(WAY, f"{BLOCKED} completed", {"write": DENY}, answers=("approve",), does=ONCE, restores="approved:t1"),
    **{f"ask, {verb}": again(ASK, "wait.approval", verb, BACK, restores="putback:base") for verb in ("reject", "retry", "redirect")},
    **{f"deny, {verb}": again(DENY, BLOCKED, verb, AGAIN) for verb in ("reject", "retry", "redirect")},
    "deny, cancelled": Case("plan write", f"{BLOCKED} cancelled", {"write": DENY}, answers=("cancel",)),
    "a denied fix is no attempt": Case("plan write test fix test verify complete", f"{BLOCKED}*2 completed", {"test": [failing(), passing], "fix": [DENY, DENY, writes()]}, limits={"fix": 1}, answers=("reject", "reject")),
    "asked twice": Case(WAY, "wait.approval*2 completed", {"write": [ASK, ruled("ask", "t2"), writes()]}, answers=("reject", "approve")),
    "a breakpoint comes after": Case(WAY, "wait.approval wait.breakpoint completed", {"write": ASK}, given={"breakpoints": ("write",)}, answers=("approve", "go-on")),
    "not judged": Case(WAY, "blocked.guard.unjudged completed", {"write": [lambda r, a: Finished(key=a.key, result=ok("t1")), writes()]}, answers=("reject",), restores="putback:base"),
    "not judged, not changed": Case(WAY, "completed", {"write": lambda r, a: Finished(key=a.key, result=ok(a.tree))}),
    "not judged, no tree": Case(WAY, "completed", {"write": lambda r, a: Finished(key=a.key, result=ok(""))}),
    "waived, the same change stands": Case("plan write test fix test verify complete", f"{BLOCKED} completed", {"write": DENY, "fix": DENY, "test": [failing(), passing]}, answers=("approve",)),
    "waived, asked about no more": Case("plan write test fix test verify complete", "wait.approval completed", {"write": ASK, "fix": ASK, "test": [failing(), passing]}, answers=("approve",)),
    "waived, another change does not": Case("plan write test fix", f"{BLOCKED}*2", {"write": DENY, "fix": ruled("deny", "t2"), "test": failing()}, answers=("approve",)),
    "put back, it is not waived": Case("plan write", f"{BLOCKED}*2", {"write": DENY}, answers=("retry",)),
    "deny, tests off": Case("plan write", BLOCKED, {"write": DENY}, given={"require_test_pass": False}),
    "a failed turn, denied and approved": Case(WAY, f"{BLOCKED} completed", {"write": [ruled("deny", "t1", turn=KILLED), writes()]}, answers=("approve",), does="agent:planner agent:coder restore:approved agent:coder proof:test agent:critic proof:gate commit", restores="approved:t1"),
    "a question, denied and approved": Case(WAY, f"{BLOCKED} completed", {"write": [ruled("deny", "t1", ask="What now?"), writes()]}, answers=("approve",), does="agent:planner agent:coder restore:approved agent:coder proof:test agent:critic proof:gate commit"),
    "a halted turn, asked about and approved": Case(WAY, "wait.approval completed", {"write": [ruled("ask", "t1", turn=e.TurnEnded(verdict="ok", halted="loop.same_action")), writes()]}, answers=("approve",), does="agent:planner agent:coder restore:approved agent:coder proof:test agent:critic proof:gate commit"),
    "a failed turn, its change put back": Case(WAY, "completed", {"write": [ruled("ask", "t1", turn=bad("killed", tree="base")), writes()]}, does=AGAIN),
    "a failed turn, asked about": Case(WAY, "wait.approval completed", {"write": [ruled("ask", "t1", turn=KILLED), writes()]}, answers=("reject",), restores="putback:base"),
    "a limited turn, asked about": Case(WAY, "wait.approval completed", {"write": [ruled("ask", "t1", turn=bad("rate_limited")), writes()]}, answers=("reject",), restores="putback:base"),
}  # fmt: skip


@pytest.mark.parametrize("name", RULED)
def test_what_a_ruling_and_its_answer_lead_to(name: str) -> None:
    played = check(RULED[name])
    assert played.run.iteration == 1
    proved = [act.tree for act in played.acts if act.why == "test"]
    assert RULED[name].does != ONCE or proved == ["t1"]


@pytest.mark.parametrize(("verdict", "tree"), [("ask", "base"), ("deny", "")])
def test_a_change_that_was_never_approved_goes_with_the_run(verdict: str, tree: str) -> None:
    played = play(Script(write=ruled(verdict, "t1"))).answer("cancel")
    ordered = [order.tree for order in played.of(e.RestoreOrdered)]
    assert (played.code, ordered) == ("cancelled", [tree] if tree else [])
    last = play(
        Script(write=ruled(verdict, "t1", turn=KILLED)), settings=settings(limits={"build": {"retries": 0}})
    )
    if verdict == "ask":
        assert (last.code, [order.tree for order in last.of(e.RestoreOrdered)]) == ("failed.agent", ["base"])
    else:
        assert last.code == BLOCKED


LOOP = {
    "an approved change closes the circuit": Case("closed*5 open half_open closed complete", f"loop.no_progress {BLOCKED} completed", {"agent:worker": [*[says()] * 5, DENY, finish("t2")]}, answers=("go-on", "approve")),
    "one that was asked about too": Case("closed*5 open half_open closed complete", "loop.no_progress wait.approval completed", {"agent:worker": [*[says()] * 5, ASK, finish("t2")]}, answers=("go-on", "approve")),
    "one that brings nothing new does not": Case("closed*6 open half_open open", f"loop.no_progress {BLOCKED} loop.no_progress", {"agent:worker": [ok("t0"), *[says()] * 5, ruled("deny", "base")]}, limits={"probe": 0}, answers=("go-on", "approve")),
    "an approved change ends the row of still turns": Case("closed*11 open", f"{BLOCKED} loop.no_progress", {"agent:worker": [*[says()] * 4, DENY, says()], "proof:probe": failing(3)}, limits={"no_progress": 5}, answers=("approve",), turns=10, does="agent:worker*5 restore:approved agent:worker*5 proof:probe"),
}  # fmt: skip


@pytest.mark.parametrize("name", LOOP)
def test_an_approved_change_is_progress(name: str) -> None:
    check(LOOP[name], "loop")


# ---- what a person is shown --------------------------------------------------------------------------------


def shown(played: Played) -> tuple[e.Stop, e.Question]:
    assert played.run.stop and played.run.question
    return played.run.stop, played.run.question


def test_a_block_names_its_rule_its_place_and_what_would_have_happened() -> None:
    for play_, status in ((DENY, "blocked"), (ASK, "waiting")):
        played = play(Script(write=play_))
        stop, question = shown(played)
        assert (played.run.status, played.run.state, stop.rule, stop.turn) == (
            status,
            "write",
            "protected",
            2,
        )
        assert "a.py" in stop.observed and "a.py" in question.text and "protected path" in stop.detail
        assert "written" in stop.otherwise and question.tree == played.run.tree
        assert "cancel" in question.verbs and "approve" in question.verbs
    assert shown(play(Script(write=DENY)))[0].observed == "a.py:3"
    halted = shown(play(Script(write=ruled("deny", "t1", turn=KILLED))))[0]
    assert "written" not in halted.otherwise


def test_what_cannot_be_waived_takes_no_approve_and_a_place_need_not_be_known() -> None:
    _, question = shown(play(Script(write=ruled("deny", "t1", waivable=False))))
    assert "approve" not in question.verbs and "reject" in question.verbs

    def elsewhere(run: Any, act: e.Act) -> Finished:
        finished = DENY(run, act)
        assert finished.ruling
        return replace(finished, ruling=replace(finished.ruling, file="", line=0, call="rm -rf /"))

    stop, question = shown(play(Script(write=elsewhere)))
    assert stop.observed == "" and "protected path" in question.text


def test_what_is_shown_differs_with_the_tree_and_the_change() -> None:
    plays = [ruled("deny", "t1"), ruled("deny", "t2"), ruled("ask", "t1"), ruled("ask", "t2")]
    seen = {shown(play(Script(write=given)))[1].shown for given in plays}
    assert len(seen) == 4 and {len(hash_) for hash_ in seen} == {16}


# ---- which comes first -------------------------------------------------------------------------------------

TAMPER = e.Ruling(verdict="deny", rule="tampering", diff="d", tree="t1", waivable=False)
SECRET = e.Ruling(verdict="deny", rule="secrets", diff="d", tree="t1", waivable=False)
DONE, COST = finish("base"), e.Usage(cost_uusd=5)
BROKE, STILL, SPENT = {"budget": Budget(uusd=0)}, {"no_progress": 1}, ok("base", usage=COST)
ORDER: dict[str, tuple[e.TurnEnded, e.Ruling, dict[str, Any], dict[str, int], str]] = {
    "tampering before a failed process": (KILLED, TAMPER, {}, {}, "blocked.tampering"),
    "a deny before a failed process": (KILLED, SECRET, {}, {}, "blocked.guard.secrets"),
    "a deny before completion": (DONE, SECRET, {}, {}, "blocked.guard.secrets"),
    "a failed process before completion": (replace(DONE, verdict="timeout"), ALLOW, {}, {}, "timeout.phase"),
    "completion before the budget": (replace(DONE, usage=COST), ALLOW, BROKE, {}, "completed"),
    "completion before a limit and a loop rule": (DONE, ALLOW, {}, {"turns": 1, **STILL}, "completed"),
    "the budget before a limit": (SPENT, ALLOW, BROKE, {"turns": 1}, "limit.budget_usd"),
    "the budget before a loop rule": (SPENT, ALLOW, BROKE, STILL, "limit.budget_usd"),
    "a limit before a loop rule": (ok("base"), ALLOW, {}, {"turns": 1, **STILL}, "limit.turns"),
}


@pytest.mark.parametrize("name", ORDER)
def test_when_several_hold_the_first_decides(name: str) -> None:
    turn, ruling, given, limits, code = ORDER[name]
    script = Script(**{"agent:worker": lambda r, a: Finished(key=a.key, result=turn, ruling=ruling)})
    assert play(script, machine="loop", settings=settings(**given, limits={"loop": limits})).code == code


def test_after_the_budget_the_loop_rule_still_asks() -> None:
    check(Case("closed open", "limit.budget_usd loop.no_progress", {"agent:worker": SPENT}, "loop", STILL, BROKE, answers=("raise",), turns=1))  # fmt: skip


CANCELLED = {
    "tampering": (TAMPER, "blocked.tampering"),
    "a deny": (SECRET, "cancelled"),
    "an allow": (ALLOW, "cancelled"),
}


@pytest.mark.parametrize("name", CANCELLED)
def test_tampering_comes_before_a_cancel_and_a_cancel_before_all_else(name: str) -> None:
    ruling, code = CANCELLED[name]
    played = start(Script(), begun())
    act = played.begin_act("agent:coder")
    played.note([e.Asked(at=played.now, what="cancel")])
    played.finish_act(Finished(key=act.key, result=ok("t1"), ruling=ruling))
    assert (played.code, played.of(e.RestoreOrdered)) == (code, [])


def test_a_change_that_is_asked_about_goes_with_a_cancel() -> None:
    for left, ordered in (("t1", ["base"]), ("base", [])):
        played = start(Script(), begun())
        act = played.begin_act("agent:coder")
        played.note([e.Asked(at=played.now, what="cancel")])
        ruling = ruled("ask", "t1")(played.run, act).ruling
        played.finish_act(Finished(key=act.key, result=ok(left), ruling=ruling))
        assert (played.code, [order.tree for order in played.of(e.RestoreOrdered)]) == ("cancelled", ordered)


# ---- permissions -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("verb", "grants"), [("approve", ("fp",)), ("grant", ("once:fp",)), ("reject", ()), ("answer", ())]
)
def test_a_permission_is_granted_for_the_call_that_asked(verb: str, grants: tuple[str, ...]) -> None:
    wants = e.TurnEnded(verdict="needs_approval", error="rm x", wanted="fp")
    plays = {"agent:worker": [wants, finish("t2")]}
    played = play(Script(**plays), machine="loop")
    stop, question = shown(played)
    assert (stop.call, stop.grants(verb)) == ("fp", grants) and "rm x" in question.text
    assert "rm x" in question.text and played.answer(verb, "please").code == "completed"
    told = played.told("agent:worker")
    assert "please" in told and ("rm x" in told) is (verb != "answer")
    kept = tuple(name for name in grants if not name.startswith("once:"))
    assert played.run.evidence.grants == kept, "what was allowed once is over after the turn"
    assert replace(stop, call="").grants("approve") == () == replace(stop, code="x").grants("approve")


def test_what_a_person_let_stand_is_not_counted_against_the_run_below() -> None:
    touched = {"write": ruled("ask", "t1", turn=e.TurnEnded(verdict="ok", changed=("a.py",), lines=7))}
    played = play(
        Script(**touched, test=failing(), fix=ok("t2")), settings=settings(limits={"build": {"fix": 1}})
    )
    for answered, told in ((False, ["a.py"]), (True, [])):
        if answered:
            played.answer("approve")
        below = child_of(played.run, e.Act(key="k", do="run:loop", state="write"), shipped("loop").table, 1)
        assert below.options["changed"] == told
