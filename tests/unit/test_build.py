"""`build`: limits hold exactly, the gate is the only way in, breakpoints pause, and what a turn's words come to."""

from __future__ import annotations

from typing import Any

import pytest

from flyball.domain import events as e
from flyball.views.run_view import summary
from support import (
    FAIL,
    PASS,
    Case,
    Script,
    bad,
    check,
    failed_child,
    failing,
    ok,
    passing,
    play,
    says,
    writes,
)

WAY = "plan write test verify complete"
TWICE = "plan (write test verify)*2 complete"
broken = e.ProofEnded(tree="t1", passed=False, cannot_start="'prove' is gone.")
LACKING = e.ProofEnded(tree="base", passed=False, lacks="A module is not installed.")
refused = e.CommitEnded(outcome="refused", tree="t1", reason="hook says no")
conflict = e.CommitEnded(outcome="conflict", tree="t1", reason="main moved.")


def committed(run: Any, act: e.Act) -> e.CommitEnded:
    return e.CommitEnded(outcome="committed", tree=act.tree)


def merged(proof: e.ProofEnded | None, of: str = "t1") -> e.CommitEnded:
    """A commit of the merge `m` with a target that had moved; the target took it."""
    return e.CommitEnded(outcome="committed", tree="m", of=of, proof=proof, landed="main")


def landed(run: Any, act: e.Act) -> e.CommitEnded:
    return e.CommitEnded(outcome="committed", tree=act.tree, landed="main")


PROVED = e.ProofEnded(tree="m", passed=True)
NO_TESTS = {"require_test_pass": False}
NO_PROOF = {"proof": ()}
MERGE = {"commit": "merge"}
CONFLICT = "wait.conflict completed"
DOES = "agent:planner agent:coder proof:test agent:critic proof:gate commit"
LOOP = {"write": "loop"}
FIXES = {"test": [failing(), passing]}

PATHS = {
    "straight": Case(WAY, "completed", does="agent:planner agent:coder proof:test agent:critic proof:gate commit", turns=3),
    "repaired": Case("plan write (test fix)*2 test verify complete", "completed", {"test": [failing(2), failing(1), passing]}),
    "rejected once": Case(TWICE, "completed", {"verify": [FAIL, PASS]}, hears=(("agent:coder", 1, "not yet"),)),
    "rewritten": Case("plan write test fix write test verify complete", "completed", {**FIXES, "fix": writes(outcome="rewrite")}),
    "no tests required": Case("plan write verify complete", "completed", given=NO_TESTS, does="agent:planner agent:coder agent:critic proof:gate commit"),
    "no proof command": Case("plan write verify complete", "completed_unproven", given=NO_PROOF, does="agent:planner agent:coder agent:critic commit"),
    "a loop writes": Case("plan write test fix test verify complete", "completed", FIXES, given=LOOP, does="agent:planner run:loop proof:test run:loop proof:test agent:critic proof:gate commit"),
    "a parent's loop writes": Case(WAY, "completed", event={"options": LOOP, "owner": False, "tree": "base"}, does="agent:planner run:loop proof:test agent:critic"),
    "a loop writes, no proof": Case("plan write verify complete", "completed_unproven", given={**LOOP, **NO_PROOF}),
    "begun in the middle": Case("write test verify complete", "completed", limits={"iterations": 1}, event={"start": "write"}),
}  # fmt: skip


@pytest.mark.parametrize("name", PATHS)
def test_the_paths(name: str) -> None:
    check(PATHS[name])


LIMITS = {
    **{f"{n} fixes": Case(f"plan write (test fix)*{n} test", "limit.fix_attempts", {"test": failing()}, limits={"fix": n}, numbers=f"{n} {n + 1}") for n in (1, 2, 7)},
    "three fixes unless told": Case("plan write (test fix)*3 test", "limit.fix_attempts", {"test": failing(summary="E 1")}, numbers="3 4", turns=5),
    "fixes that change nothing are proved once": Case("plan write (test fix)*3 test", "limit.fix_attempts", {"fix": says(), "test": failing(summary="E 1")}, does="agent:planner agent:coder (proof:test agent:coder)*2 agent:coder", hears=(("agent:coder", 2, "E 1"), ("agent:coder", 3, "E 1"))),
    "a write that changes nothing is proved once": Case("plan write (test fix)*3 test", "limit.fix_attempts", {"write": says(), "fix": says(), "test": failing(), "proof__baseline": failing()}, does="agent:planner agent:coder proof:test agent:coder*3"),
    "it was chance": Case("plan write test fix test verify complete", "completed", {"fix": says(), "test": [failing(), passing]}),
    "another change is proved": Case("plan write (test fix)*3 test", "limit.fix_attempts", {"fix": [says(), says(), writes()], "test": failing()}, does="agent:planner agent:coder (proof:test agent:coder)*2 agent:coder proof:test"),
    "no fixes": Case("plan write test", "failed.tests", {"test": failing(summary="x" + "y" * 500)}, limits={"fix": 0}, numbers="0 1"),
    "fixes of a loop": Case("plan write (test fix)*2 test", "limit.fix_attempts", {"test": failing()}, limits={"fix": 2}, given=LOOP),
    "fixes count per iteration": Case("plan (write (test fix)*3 test verify)*2 complete", "completed", {"test": [*[failing()] * 3, passing] * 2, "verify": [FAIL, PASS]}),
    **{f"{n} iterations": Case(f"plan (write test verify)*{n}", "limit.iterations", {"verify": FAIL}, limits={"iterations": n}, numbers=f"{n} {n + 1}") for n in (1, 2)},
    "ten iterations unless told": Case("plan (write test verify)*10", "limit.iterations", {"verify": FAIL}, numbers="10 11"),
    "the last iteration completes": Case(TWICE, "completed", {"verify": [FAIL, PASS]}, limits={"iterations": 2}),
    "a rewrite is an iteration": Case("plan write test fix", "limit.iterations", {"test": failing(), "fix": writes(outcome="rewrite")}, limits={"iterations": 1}),
    "no iterations": Case("plan", "limit.iterations", limits={"iterations": 0}),
    "the gate fails in the last": Case("plan (write verify)*2", "failed.tests", {"proof__gate": failing()}, limits={"iterations": 2}, given=NO_TESTS),
    "turns": Case("plan write test verify", "limit.turns", limits={"turns": 2}, turns=2, numbers="2 2"),
    "no turns": Case("plan", "limit.turns", limits={"turns": 0}, turns=0, numbers="0 0"),
    "a stall asks where a limit is set": Case("plan write (test fix)*4", "loop.no_progress loop.no_progress", {"write": says(), "fix": says(), "test": failing()}, limits={"no_progress": 2, "fix": 9}, answers=("go-on",), turns=5),
    "a phase timeout": Case("plan write", "timeout.phase", {"write": bad("timeout")}, turns=2),
    "a proof over its phase": Case("plan write test", "timeout.phase", {"test": e.ProofEnded(tree="t1", passed=False, invalid="phase timeout")}),
    **{f"a loop fails: {code}": Case("plan write", code, {"run": failed_child(code)}, given=LOOP) for code in ("limit.turns", "timeout.idle", "failed.agent")},
}  # fmt: skip


@pytest.mark.parametrize("name", LIMITS)
def test_limits_are_held_exactly(name: str) -> None:
    check(LIMITS[name])


def test_a_cancelled_loop_fails_the_build() -> None:
    played = play(
        Script(run=failed_child("cancelled", "cancelled")),
        machine="build",
        settings=check(PATHS["a loop writes"]).run.settings,
    )
    assert (played.code, played.run.end, played.run.state) == ("cancelled", "failure", "write")


GATE = {
    "shown and written again": Case("plan (write verify)*2 complete", "completed", {"proof__gate": [failing(summary="E boom"), passing]}, given=NO_TESTS, hears=(("agent:coder", 1, "E boom"),)),
    "a tree is proved once": Case(WAY, "completed", {"verify": PASS}, does="agent:planner agent:coder proof:test agent:critic proof:gate commit"),
    "a critic that moves the tree": Case(WAY, "completed", {"verify": ok("moved", signal="PASS")}, does="agent:planner agent:coder proof:test agent:critic proof:gate commit"),
    "the base fails and nothing changes": Case("plan write verify", "failed.tests", {"write": says(), "proof__baseline": failing()}, limits={"iterations": 1}, given=NO_TESTS, does="agent:planner agent:coder agent:critic"),
    "it changed the tree": Case("plan write test", "failed.tests", {"test": lambda r, a: e.ProofEnded(tree=a.tree, passed=True, invalid="It changed the tree.")}, limits={"fix": 0}),
    "it proved another tree": Case("plan write test", "failed.tests", {"test": e.ProofEnded(tree="other", passed=True)}, limits={"fix": 0}),
    "it cannot start at first": Case("plan", "error.config", {"proof__baseline": broken}, turns=0),
    "it cannot start later": Case(WAY, "error.config completed", {"test": [broken, passing]}, answers=("retry",)),
    "its tests cannot run at first": Case("plan", "wait.infrastructure", {"proof__baseline": LACKING}, turns=0),
    "… and run after a retry": Case(WAY, "wait.infrastructure completed", {"proof__baseline": [LACKING, failing()]}, answers=("retry",)),
    "… and still do not": Case("plan", "wait.infrastructure*2", {"proof__baseline": LACKING}, answers=("retry",), turns=0),
    "… and the work starts without": Case(WAY, "wait.infrastructure completed", {"proof__baseline": LACKING}, answers=("go-on",)),
    "an invalid baseline is only noted": Case(WAY, "completed", {"proof__baseline": e.ProofEnded(tree="base", passed=False, invalid="It changed the tree.")}),
    "no checkout": Case("plan", "error.git", {"prepare": e.Prepared(error="No space.", code="error.git")}, turns=0),
    "no checkout, no code": Case("plan", "error.config", {"prepare": e.Prepared(error="No space.")}, turns=0),
    "a refused commit": Case(TWICE, "completed", {"commit": [refused, committed]}, hears=(("agent:coder", 1, "hook says no"),)),
    "a commit of another tree": Case("plan write test verify", "failed.tests", {"commit": e.CommitEnded(outcome="committed", tree="other")}, limits={"iterations": 1}),
    "it lands": Case(WAY, "completed", given=MERGE, does=f"{DOES} land"),
    "a proved merge": Case(WAY, "completed", {"land": merged(PROVED)}, given=MERGE, does=f"{DOES} land"),
    "an unproved merge": Case(WAY, CONFLICT, {"land": [merged(None), landed]}, given=MERGE, answers=("retry",), does=f"{DOES} land*2"),
    "a merge with a failing proof": Case(WAY, CONFLICT, {"land": [merged(e.ProofEnded(tree="m", passed=False)), landed]}, given=MERGE, answers=("retry",)),
    "a merge, its proof of another tree": Case(WAY, CONFLICT, {"land": [merged(e.ProofEnded(tree="t1", passed=True)), landed]}, given=MERGE, answers=("retry",)),
    "a merge of another tree": Case(WAY, CONFLICT, {"land": [merged(PROVED, of="other"), landed]}, given=MERGE, answers=("go-on",)),
    "a merge where nothing proves": Case("plan write verify complete", "completed_unproven", {"land": merged(None)}, given={**NO_PROOF, **MERGE}),
    "another's merge where nothing proves": Case("plan write verify complete", "wait.conflict completed_unproven", {"land": [merged(None, of="other"), landed]}, given={**NO_PROOF, **MERGE}, answers=("retry",)),
    "a conflict, retried": Case(WAY, CONFLICT, {"land": [conflict, landed]}, given=MERGE, answers=("retry",), does=f"{DOES} land*2"),
    "a conflict, cancelled": Case("plan write test verify", "wait.conflict cancelled", {"land": conflict}, given=MERGE, answers=("cancel",)),
    "a landing, interrupted": Case(WAY, "completed", {"land": ["killed", landed]}, given=MERGE, does=f"{DOES} land*2"),
    "a child does not land": Case(WAY, "completed", given=MERGE, event={"owner": False, "tree": "base"}, does="agent:planner agent:coder proof:test agent:critic"),
    "a breakpoint before it": Case(WAY, "wait.breakpoint completed", given={**MERGE, "breakpoints": ("verify",)}, answers=("go-on",), does=f"{DOES} land"),
    "a loop's tree is proved": Case(WAY, "completed", given=LOOP, does="agent:planner run:loop proof:test agent:critic proof:gate commit"),
    "another's checkout": Case(WAY, "completed", event={"owner": False, "tree": "base"}, does="agent:planner agent:coder proof:test agent:critic"),
}  # fmt: skip


@pytest.mark.parametrize("name", GATE)
def test_success_is_entered_only_through_the_gate(name: str) -> None:
    check(GATE[name])


def test_a_success_names_its_certificate_and_a_failure_none() -> None:
    ends = [play(Script(**plays)).of(e.Ended)[-1] for plays in ({}, {"verify": FAIL})]
    assert [(end.end, end.certificate) for end in ends] == [("success", "cert"), ("failure", "")]


def test_a_failure_is_shown_with_the_end_of_its_error() -> None:
    for name in ("no fixes", "three fixes unless told"):
        stop = check(LIMITS[name]).run.stop
        assert stop and stop.detail == ("y" * 500 if name == "no fixes" else "E 1")


def test_what_is_left_out_is_journaled_with_its_reason() -> None:
    played = check(PATHS["no tests required"])
    assert ["require_test_pass" in s.reason for s in played.of(e.Skipped)] == [True]
    assert [s.what for s in check(PATHS["no proof command"]).of(e.Skipped)] == ["test"]
    assert [s.what for s in check(PATHS["straight"]).of(e.Skipped)] == []


def test_the_tree_that_a_loop_left_is_what_is_proved() -> None:
    assert [a.tree for a in check(PATHS["a loop writes"]).acts if a.do == "proof"] == [
        "base",
        "t1",
        "t2",
        "t2",
    ]


# ---- claims ----------------------------------------------------------------------------------------------


PLAIN = {"agents": {"default": "command:agent"}}


def says_tree(run: Any, act: e.Act) -> e.TurnEnded:
    """Writes the same files in every turn."""
    return ok("same")


def judge(ends: str, **claim: Any) -> Case:
    path = {"accepted": WAY, "rejected": "plan write test verify"}[ends]
    code = {"accepted": "completed", "rejected": "limit.iterations"}[ends]
    return Case(path, code, {"verify": says(**claim)}, limits={"iterations": 1})


def plan(fits: bool, data: dict[str, Any]) -> Case:
    """Data that do not fit make a failed turn, and the agent is told."""
    does = f"agent:planner*{1 if fits else 2} agent:coder proof:test agent:critic proof:gate commit"
    hears = () if fits else (("agent:planner", 1, "could not be used"),)
    return Case(WAY, "completed", {"plan": [says(data=data), says()]}, does=does, hears=hears)


CLAIMS = {
    **{f"a writer says {name}": Case(WAY, "completed", {"write": writes(outcome=name)}) for name in ("written", "untested", "unproven", "blocked", "cancel", "complete", "nonsense", "passed")},
    **{f"a critic says {name or 'nothing'}": judge("rejected", outcome=name) for name in ("unproven", "complete", "nonsense", "", "rejected")},
    "a critic passes": judge("accepted", signal="PASS"),
    "a critic accepts": judge("accepted", outcome="accepted"),
    "a critic accepts and fails": judge("rejected", outcome="accepted", signal="FAIL"),
    "a critic rejects and passes": judge("rejected", outcome="rejected", signal="PASS"),
    "a critic passes what it cannot claim": judge("accepted", outcome="unproven", signal="PASS"),
    "a critic fails": judge("rejected", signal="FAIL"),
    "a critic is done": judge("rejected", signal="DONE"),
    "a plan": plan(True, {"steps": [{"title": "a"}], "tier": "T1"}),
    "a plan without steps": plan(True, {"steps": []}),
    "steps are no list": plan(False, {"steps": "all"}),
    "a step is a number": plan(False, {"steps": [{"title": "a"}, 1]}),
    "a step has no title": plan(False, {"steps": [{}]}),
    "there is no such tier": plan(False, {"steps": [], "tier": "T9"}),
    "only a tier": plan(False, {"tier": "T1"}),
    "others may say anything": Case(WAY, "completed", {"write": writes(data={"steps": "all"})}, does="agent:planner agent:coder proof:test agent:critic proof:gate commit"),
    "a turn limit claims nothing": Case("plan write test fix test verify complete", "completed", {**FIXES, "fix": e.TurnEnded(verdict="turn_limit", tree="t9", claim=e.Claim(outcome="rewrite"))}),
    "a critic without a verdict is asked again": Case(WAY, "completed", {"verify": [says(), PASS]}, turns=4, hears=(("agent:critic", 1, "no readable verdict"),)),
    "a critic without a verdict twice rejects": Case(TWICE, "completed", {"write": writes(), "verify": [says(), says(message="hm"), PASS]}, turns=6, hears=(("agent:coder", 1, "hm"),)),
    "each visit may be asked again": Case(TWICE, "completed", {"write": writes(), "verify": [says(), FAIL, says(), PASS]}, turns=7),
    "a planner that says nothing is asked again": Case(WAY, "completed", {"plan": [says(), says(message="A plan.")]}, given=PLAIN, turns=4, hears=(("agent:planner", 1, "no plan"),)),
    "a planner that says nothing twice": Case(WAY, "completed", {"plan": says()}, given=PLAIN, turns=4),
    "a script's silent planner": Case(WAY, "completed", {"plan": says()}, turns=3),
    "the same tree is rejected twice": Case("plan (write test verify)*2 complete", "wait.question completed", {"write": says_tree, "verify": [FAIL, FAIL, PASS]}, answers=("answer it is fine",), hears=(("agent:critic", 2, "it is fine"),)),
    "… with a new finding": Case("plan (write test verify)*3 complete", "completed", {"write": says_tree, "verify": [FAIL, says("FAIL", findings=(e.Finding(text="and this"),)), PASS]}),
    "… after a change": Case("plan (write test verify)*3 complete", "completed", {"write": writes(), "verify": [FAIL, FAIL, PASS]}),
    "… the base, with nothing done": Case("plan (write test verify)*3 complete", "completed", {"write": says(), "verify": [FAIL, FAIL, PASS]}),
    "an unknown end is a failed turn": Case(WAY, "completed", {"write": [e.TurnEnded(verdict="banana"), writes()]}, turns=4),
}  # fmt: skip


@pytest.mark.parametrize("name", CLAIMS)
def test_what_the_words_of_a_turn_come_to(name: str) -> None:
    check(CLAIMS[name])


# ---- breakpoints -----------------------------------------------------------------------------------------

ROUND = {"test": [failing(), passing, failing(), passing], "verify": [FAIL, PASS]}
VISITS = {"plan": 1, "write": 2, "test": 4, "fix": 2, "verify": 2}


@pytest.mark.parametrize("phase", VISITS)
def test_a_breakpoint_pauses_in_every_phase_at_every_visit(phase: str) -> None:
    n, path = VISITS[phase], "plan (write test fix test verify)*2 complete"
    codes = f"wait.breakpoint*{n} completed"
    check(Case(path, codes, ROUND, given={"breakpoints": (phase,)}, answers=("go-on",) * n))


AT_WRITE = {"breakpoints": ("write",)}
AFTER = "agent:coder proof:test agent:critic proof:gate commit"
BREAKPOINTS = {
    "approved": Case(WAY, "wait.breakpoint completed", given=AT_WRITE, answers=("approve",), does=f"agent:planner {AFTER}"),
    "rejected": Case("plan write", "wait.breakpoint wait.breakpoint", given=AT_WRITE, answers=("reject otherwise",), does="agent:planner agent:coder*2", hears=(("agent:coder", 1, "otherwise"),)),
    "redirected": Case("plan write", "wait.breakpoint wait.breakpoint", given=AT_WRITE, answers=("redirect otherwise",), does="agent:planner agent:coder*2", hears=(("agent:coder", 1, "otherwise"),)),
    "cancelled": Case("plan write", "wait.breakpoint cancelled", given=AT_WRITE, answers=("cancel",)),
    "a loop's fix": Case("plan write (test fix)*2 test", "wait.breakpoint*2 limit.fix_attempts", {"test": failing()}, limits={"fix": 2}, given={**LOOP, "breakpoints": ("fix",)}, answers=("go-on", "go-on")),
    "a gate that fails does not pause again": Case("plan (write verify)*2 complete", "wait.breakpoint*2 completed", {"proof__gate": [failing(), passing]}, given={**NO_TESTS, "breakpoints": ("verify",)}, answers=("go-on", "go-on")),
    "a refused commit does not pause again": Case(TWICE, "wait.breakpoint*2 completed", {"commit": [refused, committed]}, given={"breakpoints": ("verify",)}, answers=("go-on", "go-on")),
    "a skipped phase is not paused": Case("plan write verify complete", "completed_unproven", given={**NO_PROOF, "breakpoints": ("test",)}),
}  # fmt: skip


@pytest.mark.parametrize("name", BREAKPOINTS)
def test_the_answer_to_a_breakpoint(name: str) -> None:
    check(BREAKPOINTS[name])


def test_a_breakpoint_comes_after_the_ruling_and_resume_passes_it() -> None:
    played = check(Case("plan write", "wait.breakpoint", given=AT_WRITE))
    assert played.run.question and played.run.question.verbs[0] == "go-on"
    assert {"ActFinished", "Ruled"} <= {e.kind(event) for event in played.events[-4:]}
    assert played.wake().code == "completed"
    assert played.of(e.Answered)[-1].how == "resume"


def test_all_changed_files_are_kept_over_all_iterations() -> None:
    def changes(name: str) -> Any:
        return lambda r, a: e.TurnEnded(verdict="ok", tree=name, changed=(name, "a.py"))

    plays = {"write": [changes("w1"), changes("w2")], "fix": changes("f1"), "verify": [FAIL, PASS]}
    played = play(Script(**plays, test=[failing(), passing]))
    assert summary(played.run)["changed"] == ["w1", "a.py", "f1", "w2"]


@pytest.mark.parametrize(
    ("data", "plan"),
    [
        ({}, "Do it."),
        ({"steps": [{"title": "a", "paths": ["x.py"], "criteria": ["it adds"]}]}, "Do it.\n\n1. a (x.py)\n   - it adds"),
        ({"steps": [{"title": "a", "paths": 7, "criteria": "one"}]}, "Do it.\n\n1. a\n   - one"),
    ],
)  # fmt: skip
def test_the_plan_is_the_planners_words_and_steps(data: dict[str, Any], plan: str) -> None:
    played = check(Case(WAY, "completed", {"plan": says(message="Do it.", data=data)}))
    assert played.run.talk.plan == plan
