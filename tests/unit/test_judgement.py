"""What becomes of the change that a turn left: a table of the guard's ruling, the agent's end, the role and a waiver."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from flyball.core.turns import judgement
from flyball.domain import events as e
from flyball.state.fold import begin
from flyball.state.run import Run
from support import begun

ALARM = e.Action(tool="Bash", input="cat key", verdict="deny", rule="commands/secrets", reason="It is a key.")
#   role, ruling, agent's end, waived, alarm -> what the checkout holds, then undo checkpoint publish counts
CASES = {
    "allowed": ("coder allow ok - -", "new -- checkpoint publish counts"),
    "allowed, though the turn failed": ("coder allow killed - -", "new -- checkpoint publish counts"),
    "asked about": ("coder ask ok - -", "new -- checkpoint -- --"),
    "asked about, and the turn failed": ("coder ask killed - -", "old undo -- -- --"),
    "asked about, and a limit ended the turn": ("coder ask rate_limited - -", "new -- checkpoint -- --"),
    "denied": ("coder deny ok - -", "old undo -- -- --"),
    "denied, but waived": ("coder deny ok waived -", "new -- checkpoint publish counts"),
    "asked about, but waived": ("coder ask killed waived -", "new -- checkpoint publish counts"),
    "a judge's own change": ("critic allow ok - -", "old undo -- -- --"),
    "a judge's change that is denied": ("critic deny ok - -", "old undo -- -- --"),
    "a call that ends the turn": ("coder allow killed - alarm", "old undo -- -- --"),
    "such a call of a judge": ("critic allow killed - alarm", "old undo -- -- --"),
    "such a call, denied already": ("coder deny killed - alarm", "old undo -- -- --"),
}


def at(role: str, waived: bool) -> tuple[Run, e.Act]:
    run = begin(begun("build", owner=False, tree="old"))
    waivers = ("diff",) if waived else ()
    run = replace(run, evidence=replace(run.evidence, waivers=waivers))
    return run, e.Act(key="r1-1", do=f"agent:{role}", state="write", tree="old")


@pytest.mark.parametrize("name", CASES)
def test_what_becomes_of_a_change(name: str) -> None:
    given, expected = CASES[name]
    role, verdict, ended, waived, alarm = given.split()
    run, act = at(role, waived == "waived")
    ruling = e.Ruling(verdict=verdict, rule="radius", reason="It is large.", diff="diff", tree="new")
    word = judgement(run, act, ended, ruling, "new", True, ALARM if alarm == "alarm" else None)
    flags = ("undo", "checkpoint", "publish", "counts")
    assert [word.tree, *(flag if getattr(word, flag) else "--" for flag in flags)] == expected.split()
    assert word.read_only == (role == "critic" and verdict != "deny" and alarm == "-")
    assert word.error == (word.ruling.reason if word.ruling.call else "")


def test_a_turn_that_changed_nothing_leaves_nothing_to_do() -> None:
    for role in ("coder", "critic"):
        run, act = at(role, waived=False)
        word = judgement(run, act, "ok", e.Ruling(verdict="allow", tree="old"), "old", False)
        assert (word.tree, word.undo, word.checkpoint, word.publish, word.read_only) == ("old", *[False] * 4)


def test_files_that_no_tree_holds_are_undone_too() -> None:
    run, act = at("coder", waived=False)
    assert judgement(run, act, "ok", e.Ruling(verdict="deny", tree="old"), "old", True).undo


def test_a_call_that_ends_the_turn_is_what_is_asked_about() -> None:
    run, act = at("coder", waived=False)
    asked = e.Ruling(verdict="ask", reason="It is sensitive.", file="ci.yml", diff="diff", tree="new")
    word = judgement(run, act, "killed", asked, "new", True, ALARM)
    assert (word.ruling.verdict, word.ruling.rule, word.ruling.waivable) == ("deny", "secrets", True)
    assert "cat key" in word.ruling.reason and "It is sensitive. (ci.yml)" in word.ruling.reason
    assert word.ruling.diff != "diff" and word.ruling.tree == "new"
    run, act = at("critic", waived=False)
    assert judgement(run, act, "killed", asked, "new", True, ALARM).ruling.tree == "old"
