"""What stops a turn before its outcome counts: the guard, a cancel, a failure, a question; in this order."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from flyball.core import events as e
from flyball.core.run import Run, begin
from flyball.core.settings import Budget, Settings
from flyball.core.turns import stopped_by
from support import PROOF, bad, begun, ok

NOW = 77


def settings(**more: Any) -> Settings:
    return Settings(**{"proof": PROOF, "agents": {"default": "script:x"}, **more})


def at(machine: Any, state: str, given: Settings | None = None, **more: Any) -> Run:
    """A run in this state, its checkout at tree `t`."""
    run = begin(begun(machine, given or settings()))
    return replace(run, **{"state": state, "tree": "t", "prepared": True, "baselined": True, **more})


def act(do: str = "agent:worker", tree: str = "t") -> e.Act:
    return e.Act(key="r1-1", do=do, state="s", turn=1, tree=tree)


def ruling(verdict: str = "ask", **more: Any) -> e.Ruling:
    told = {"rule": "protected", "reason": "No.", "diff": "d", "tree": "u", "policy": "p", "file": "a.py"}
    return e.Ruling(verdict=verdict, **{**told, **more})


def stops(
    run: Run, turn: e.TurnEnded, word: e.Ruling | None = None, do: str = "agent:worker"
) -> list[Any] | None:
    found = stopped_by(run, act(do), turn, word, NOW)
    return None if found is None else list(found)


def kinds(found: list[Any] | None) -> list[str]:
    return [type(fact).__name__ for fact in found or ()]


def test_an_ordinary_turn_is_not_stopped() -> None:
    run = at("loop", "closed")
    assert stops(run, ok("t")) is None
    assert stops(run, ok("t"), ruling("allow")) is None
    for word in ("ask", "deny"):
        assert stops(replace(run, waived=("d",)), ok("t"), ruling(word)) is None


@pytest.mark.parametrize(("verdict", "until"), [("deny", "block"), ("ask", "approval")])
def test_a_change_that_may_not_stand_is_held_until_a_person_said(verdict: str, until: str) -> None:
    changed = at("build", "write", tree="u" if verdict == "ask" else "t")
    found = stops(changed, ok("u"), ruling(verdict), "agent:coder")
    assert kinds(found) == ["Held", "Stopped"] and found is not None
    held, stopped = found
    assert (held.outcome, held.until, held.at) == ("written", until, NOW)
    assert held.data == ({"before": "t"} if verdict == "ask" else {})
    assert stopped.question.kind == until and "approve" in stopped.question.verbs
    assert "'written' would have been followed" in stopped.stop.otherwise
    assert stopped.stop.code == ("blocked.guard.protected" if verdict == "deny" else "wait.approval")
    assert "(a.py)" in stopped.question.text


def test_a_refusal_names_its_place_as_far_as_it_is_known() -> None:
    run = at("build", "write")
    for word, place, shown in (
        (ruling("deny", line=3), "a.py:3", "(a.py)"),
        (ruling("deny"), "a.py", "(a.py)"),
        (ruling("deny", file=""), "", "(the change as a whole)"),
    ):
        found = stops(run, ok("u"), word, "agent:coder")
        assert found is not None and found[1].stop.observed == place and shown in found[1].question.text
    asked = stops(replace(run, tree="u"), ok("u"), ruling(file=""), "agent:coder")
    assert asked is not None and "(the change as a whole)" in asked[1].question.text


def test_what_cannot_be_waived_is_not_offered() -> None:
    found = stops(at("build", "write"), ok("u"), ruling("deny", waivable=False), "agent:coder")
    assert found is not None and "approve" not in found[1].question.verbs


@pytest.mark.parametrize(
    "turn",
    [
        bad("killed"),
        ok("u", ask="Which?"),
        replace(ok("u"), halted="loop.same_action"),
        bad("needs_approval"),
    ],
)
def test_a_turn_without_an_outcome_holds_none_for_a_person_to_let_go_on(turn: e.TurnEnded) -> None:
    found = stops(at("build", "write", tree="u"), turn, ruling(), "agent:coder")
    assert kinds(found) == ["Held", "Stopped"] and found is not None
    assert (found[0].outcome, found[0].until) == ("", "approval")
    assert "tried again" in found[1].stop.otherwise


def test_what_an_approved_change_would_come_to_is_reckoned_as_if_it_stood() -> None:
    """A tree never seen is progress: the circuit closes once the change may stand."""
    strict = settings(limits={"loop": {"no_progress": 1}})
    stuck = at("loop", "closed", strict, tree="u", seen=("t",), no_progress=1)
    found = stops(stuck, ok("u"), ruling())
    assert found is not None and found[0].outcome == "worked"  # the row of turns without progress ends
    run = at("loop", "half_open", tree="u", seen=("t",), progressed=False, no_progress=5)
    found = stops(run, ok("u"), ruling())
    assert found is not None and found[0].outcome == "progressed"
    for known in (replace(run, seen=("t", "u")), run):
        word = ruling() if known is not run else ruling(tree="")
        found = stops(known, ok("u"), word)
        assert found is not None and found[0].outcome == "stalled"


def test_tampering_comes_before_a_cancel_and_a_cancel_before_all_else() -> None:
    cancelling = at("build", "write", asked="cancel")
    tampered = stops(cancelling, ok("u"), ruling("deny", rule="tampering"), "agent:coder")
    assert tampered is not None and tampered[1].stop.code == "blocked.tampering"
    assert kinds(stops(cancelling, ok("u"), ruling("deny"))) == ["Ended"]
    asked = stops(replace(cancelling, tree="u"), ok("u"), ruling())
    assert kinds(asked) == ["RestoreOrdered", "Ended"] and asked is not None
    assert (asked[0].tree, asked[0].why, asked[1].end) == ("t", "putback", "cancelled")
    assert kinds(stops(cancelling, ok("t"), ruling())) == ["Ended"]  # nothing was changed
    allowed = stops(replace(cancelling, tree="u"), ok("u"), ruling("allow"))
    assert kinds(allowed) == ["Ended"]


def test_a_failed_turn_with_a_change_to_ask_about_asks_first_unless_it_ends_the_run() -> None:
    run = at("loop", "closed", tree="u", retries=1)
    assert kinds(stops(run, bad("killed"), ruling())) == ["Held", "Stopped"]
    assert kinds(stops(replace(run, tree="t"), bad("killed"), ruling())) == ["Warned"]
    ends = stops(replace(run, retries=4), bad("killed"), ruling())
    assert kinds(ends) == ["RestoreOrdered", "Ended"]


def test_a_halted_turn_asks_and_so_does_one_that_must() -> None:
    run = at("loop", "closed")
    halted = stops(run, replace(ok("t", ask="Which?"), halted="loop.same_action", halted_why="Six times."))
    assert halted is not None and (halted[0].stop.code, halted[0].question.kind) == (
        "loop.same_action",
        "loop",
    )
    assert halted[0].question.text.startswith("Six times.")
    asks = stops(run, ok("t", ask="Which?"))
    assert asks is not None and (asks[0].stop.code, asks[0].question.text) == ("wait.question", "Which?")


@pytest.mark.parametrize(
    ("claim", "text"),
    [
        ({"reading": "blocked", "message": "No key."}, "No key."),
        ({"reading": "blocked"}, "The agent says that it is blocked."),
        ({"reading": "complete", "message": "Done."}, None),
        ({"ask": "Which?", "message": "Long."}, "Which?"),
    ],
)
def test_who_says_that_it_cannot_go_on_is_asked_about(claim: dict[str, Any], text: str | None) -> None:
    found = stops(at("loop", "closed"), ok("t", **claim))
    assert (found[0].question.text if found else None) == text


def test_a_finding_disputed_twice_asks_who_is_right() -> None:
    run = at("review", "working")
    assert stops(replace(run, disputes={"F1": 1}), ok("t"), do="agent:author") is None
    found = stops(replace(run, disputes={"F1": 2, "F2": 1, "F3": 3}), ok("t"), do="agent:author")
    assert found is not None and found[0].question.text == "F1, F3: disputed twice. Who is right?"
    assert found[0].stop.detail == "F1, F3"


def test_a_permission_is_asked_for_with_the_call_that_needs_it() -> None:
    run = at("loop", "closed")
    for error, text in (
        ("rm x", "The agent asks for a permission: rm x"),
        ("", "The agent asks for a permission."),
    ):
        found = stops(run, e.TurnEnded(verdict="needs_approval", error=error, wanted="fp"))
        assert found is not None and (found[0].question.text, found[0].stop.call) == (text, "fp")
        assert found[0].question.kind == "permission"


@pytest.mark.parametrize(
    ("verdict", "code", "kind"),
    [
        ("auth", "wait.auth", "limit"),
        ("billing", "wait.billing", "limit"),
        ("budget_limit", "limit.budget_usd", "budget"),
    ],
)
def test_what_an_agent_cannot_work_without_is_asked_for(verdict: str, code: str, kind: str) -> None:
    found = stops(at("loop", "closed"), bad(verdict))
    assert kinds(found) == ["Stopped"] and found is not None
    assert (found[0].stop.code, found[0].question.kind) == (code, kind)
    assert found[0].stop.detail == f"it was {verdict}"
    silent = stops(at("loop", "closed"), e.TurnEnded(verdict=verdict))
    assert silent is not None and (kind == "budget" or verdict in silent[0].question.text)


def test_a_full_context_begins_afresh_twice_and_is_then_a_failed_turn() -> None:
    run = at("loop", "closed")
    for contexts, found in ((1, ["Told"]), (2, ["Warned"])):
        assert kinds(stops(replace(run, contexts=contexts), bad("context"))) == found


def test_time_that_ran_out_is_the_phases_unless_the_runs_own_has() -> None:
    run = at(
        "loop", "closed", settings(budget=Budget(wall_us=10_000_000)), wall_us=13_000_000, wall_base=3_000_000
    )
    spent = stops(run, bad("timeout"))
    assert spent is not None
    assert (spent[0].stop.code, spent[0].stop.threshold, spent[0].stop.observed) == (
        "limit.time",
        "10s",
        "10s",
    )
    left = stops(replace(run, wall_base=3_000_001), bad("timeout"))
    assert left is not None and (left[0].stop.code, left[0].stop.detail) == (
        "timeout.phase",
        "it was timeout",
    )
    never = at("loop", "closed", settings(budget=Budget(wall_us=None)), wall_us=99)
    endless = stops(never, bad("timeout"))
    assert endless is not None and endless[0].stop.code == "timeout.phase"


@pytest.mark.parametrize(
    ("most", "retries", "ends"),
    [(None, 3, False), (None, 4, True), (0, 0, False), (0, 1, True), (5, 5, False)],
)
def test_a_failed_turn_is_tried_again_so_often(most: int | None, retries: int, ends: bool) -> None:
    given = settings(limits={} if most is None else {"loop": {"retries": most}})
    found = stops(at("loop", "closed", given, retries=retries, turn=retries), bad("killed"))
    assert kinds(found) == (["Ended"] if ends else ["Warned"]) and found is not None
    assert ends or found[0].text == "it was killed"
    assert not ends or (found[0].stop.threshold, found[0].stop.observed) == (
        str(3 if most is None else most),
        str(retries),
    )


@pytest.mark.parametrize(
    ("verdict", "turn", "code"),
    [
        ("hung", 4, "timeout.idle"),
        ("cannot_start", 4, "failed.start"),
        ("cannot_start", 5, "failed.agent"),
        ("killed", 4, "failed.agent"),
        ("hung", 5, "timeout.idle"),
    ],
)
def test_the_last_failure_names_the_end(verdict: str, turn: int, code: str) -> None:
    """An agent that once started has not failed to start."""
    found = stops(at("loop", "closed", retries=4, turn=turn), bad(verdict))
    assert found is not None and found[0].stop.code == code
    silent = stops(at("loop", "closed", retries=1), e.TurnEnded(verdict=verdict))
    assert silent is not None and silent[0].text == verdict


def test_a_way_of_ending_that_stops_nothing_stops_nothing() -> None:
    assert stops(at("loop", "closed"), e.TurnEnded(verdict="turn_limit")) is None
