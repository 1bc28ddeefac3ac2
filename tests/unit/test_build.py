"""Governed write-test-fix: the limits hold exactly, the gate is the only way in, a breakpoint pauses every visit."""

from __future__ import annotations

from typing import Any

import pytest

from flyball.core import events as e
from flyball.core.settings import Settings
from support import Played, Script, bad, failed_child, failing, ok, passing, play, ruled, start

AGENTS = {"default": "script:x"}


def settings(**more: Any) -> Settings:
    return Settings(**{"proof": ("prove",), "agents": AGENTS, **more})


def limits(**most: int) -> dict[str, dict[str, int]]:
    return {"build": most}


def rejecting(run: object, act: e.Act) -> e.TurnEnded:
    return ok(act.tree, signal="FAIL", message="not yet")


def test_the_way_through() -> None:
    played = play(Script())
    assert played.path == ["plan", "write", "test", "verify", "complete"]
    assert played.done == [
        "prepare",
        "proof:baseline",
        "agent:planner",
        "agent:coder",
        "proof:test",
        "agent:critic",
        "commit",
    ]
    assert (played.code, played.run.end, played.run.certificate) == ("completed", "success", "cert")
    assert played.run.turns == 3


def test_a_repaired_proof_goes_on_to_verify() -> None:
    played = play(Script(test=[failing(2), failing(1), passing]))
    assert played.path == ["plan", "write", "test", "fix", "test", "fix", "test", "verify", "complete"]
    assert played.code == "completed"


@pytest.mark.parametrize("most", [1, 2, 3, 7])
def test_fix_attempts_are_held_exactly(most: int) -> None:
    played = play(Script(test=failing()), settings=settings(limits=limits(fix=most)))
    assert played.path.count("fix") == most
    assert (played.code, played.run.status, played.run.end) == ("limit.fix_attempts", "ended", "failure")
    assert played.run.stop and (played.run.stop.threshold, played.run.stop.observed) == (
        str(most),
        str(most + 1),
    )


def test_without_fix_attempts_a_failing_proof_is_failed_tests() -> None:
    played = play(Script(test=failing()), settings=settings(limits=limits(fix=0)))
    assert (played.code, played.path) == ("failed.tests", ["plan", "write", "test"])


def test_the_fix_counter_begins_anew_with_each_iteration() -> None:
    tests = [failing(), failing(), failing(), passing]
    played = play(Script(test=[*tests, *tests], verify=[rejecting, lambda r, a: ok(a.tree, signal="PASS")]))
    assert played.path.count("fix") == 6
    assert played.code == "completed"


def test_a_rewrite_begins_an_iteration() -> None:
    script = Script(test=[failing(), passing], fix=lambda r, a: ok("t9", outcome="rewrite"))
    played = play(script)
    assert played.path == ["plan", "write", "test", "fix", "write", "test", "verify", "complete"]
    assert played.run.iteration == 2


@pytest.mark.parametrize("most", [1, 2, 10])
def test_iterations_are_held_exactly(most: int) -> None:
    played = play(Script(verify=rejecting), settings=settings(limits=limits(iterations=most)))
    assert played.path.count("write") == most
    assert (played.code, played.run.state) == ("limit.iterations", "verify")


def test_ten_iterations_are_allowed_unless_told() -> None:
    assert play(Script(verify=rejecting)).path.count("write") == 10


def test_work_that_completes_on_the_last_iteration_completes() -> None:
    verdicts = [rejecting, lambda r, a: ok(a.tree, signal="PASS")]
    played = play(Script(verify=verdicts), settings=settings(limits=limits(iterations=2)))
    assert (played.code, played.run.iteration) == ("completed", 2)


def test_no_iteration_allowed_is_no_write() -> None:
    played = play(Script(), settings=settings(limits=limits(iterations=0)))
    assert (played.code, played.path) == ("limit.iterations", ["plan"])


def test_the_gate_failing_in_the_last_iteration_is_failed_tests() -> None:
    script = Script(proof__gate=failing())
    played = play(script, settings=settings(limits=limits(iterations=2), require_test_pass=False))
    assert played.path == ["plan", "write", "verify", "write", "verify"]
    assert (played.code, played.run.end) == ("failed.tests", "failure")


def test_the_gate_failing_before_that_is_another_iteration_and_the_writer_is_told() -> None:
    script = Script(proof__gate=[failing(summary="E assert 1 == 2"), passing])
    played = play(script, settings=settings(require_test_pass=False))
    assert played.path == ["plan", "write", "verify", "write", "verify", "complete"]
    second = [a for a in played.acts if a.do == "agent:coder"][1]
    assert any("E assert 1 == 2" in text for text in second.told)


# ---- proofs ----------------------------------------------------------------------------------------------


def test_require_test_pass_off_skips_the_test_phase_not_the_gate() -> None:
    played = play(Script(), settings=settings(require_test_pass=False))
    assert played.path == ["plan", "write", "verify", "complete"]
    assert played.done[-3:] == ["agent:critic", "proof:gate", "commit"]
    assert [s.reason for s in played.of(e.Skipped)] == ["require_test_pass is off"]
    assert played.code == "completed"


def test_without_a_proof_command_the_end_is_unproven() -> None:
    played = play(Script(), settings=settings(proof=()))
    assert played.path == ["plan", "write", "verify", "complete"]
    assert not [d for d in played.done if d.startswith("proof")]
    assert [s.reason for s in played.of(e.Skipped)] == ["no proof command is configured"]
    assert (played.code, played.run.end) == ("completed_unproven", "success")


def test_a_proof_of_this_very_tree_is_not_made_twice() -> None:
    played = play(Script(verify=lambda r, a: ok(a.tree, signal="PASS")))
    assert [d for d in played.done if d.startswith("proof")] == ["proof:baseline", "proof:test"]


def test_a_critic_that_moves_the_tree_is_proved_again() -> None:
    played = play(Script(verify=lambda r, a: ok("moved", signal="PASS")))
    assert "proof:gate" in played.done


@pytest.mark.parametrize(
    "proof",
    [
        lambda r, a: e.ProofEnded(tree=a.tree, passed=True, invalid="It changed the tree."),
        lambda r, a: e.ProofEnded(tree="another", passed=True),
    ],
)
def test_a_proof_that_changed_the_tree_or_proved_another_is_none(proof: Any) -> None:
    played = play(Script(test=proof), settings=settings(limits=limits(fix=0)))
    assert played.code == "failed.tests"


def test_a_proof_that_cannot_start_ends_before_the_first_turn() -> None:
    broken = e.ProofEnded(tree="base", passed=False, cannot_start="'prove' is not there.")
    played = play(Script(proof__baseline=broken))
    assert (played.code, played.run.turns, played.run.status) == ("error.config", 0, "ended")


def test_a_proof_that_cannot_start_later_asks_and_is_made_again() -> None:
    broken = e.ProofEnded(tree="t1", passed=False, cannot_start="'prove' is gone.")
    played = play(Script(test=[broken, passing]))
    assert (played.code, played.run.status) == ("error.config", "waiting")
    assert played.answer("retry").code == "completed"


def test_a_checkout_that_cannot_be_made_ends_the_run() -> None:
    played = play(Script(prepare=e.Prepared(error="No space.", code="error.git")))
    assert (played.code, played.run.status, played.acts[-1].do) == ("error.git", "ended", "prepare")


def test_a_refused_commit_is_unproven_and_told() -> None:
    refused = e.CommitEnded(outcome="refused", tree="t1", reason="hook says no")
    played = play(Script(commit=[refused, lambda r, a: e.CommitEnded(outcome="committed", tree=a.tree)]))
    assert played.path == ["plan", "write", "test", "verify", "write", "test", "verify", "complete"]
    second = [a for a in played.acts if a.do == "agent:coder"][1]
    assert any("hook says no" in text for text in second.told)


def test_a_commit_of_another_tree_is_refused() -> None:
    other = e.CommitEnded(outcome="committed", tree="another")
    played = play(Script(commit=other), settings=settings(limits=limits(iterations=1)))
    assert (played.run.end, played.code) == ("failure", "failed.tests")


@pytest.mark.parametrize("verb", ["retry", "go-on"])
def test_a_conflict_waits_and_the_commit_is_made_again(verb: str) -> None:
    conflict = e.CommitEnded(outcome="conflict", tree="t1", reason="main moved.")
    played = play(Script(commit=[conflict, lambda r, a: e.CommitEnded(outcome="committed", tree=a.tree)]))
    assert (played.code, played.run.status) == ("wait.conflict", "waiting")
    assert played.answer(verb).code == "completed"
    assert played.done.count("commit") == 2


# ---- claims ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["untested", "unproven", "blocked", "cancel", "complete", "nonsense", "passed"]
)
def test_what_flyball_gives_itself_cannot_be_claimed(name: str) -> None:
    played = play(Script(write=lambda r, a: ok("t1", outcome=name)))
    assert played.path == ["plan", "write", "test", "verify", "complete"]


@pytest.mark.parametrize("name", ["unproven", "complete", "nonsense", ""])
def test_a_judge_that_claims_nothing_of_its_state_has_rejected(name: str) -> None:
    played = play(
        Script(verify=lambda r, a: ok(a.tree, outcome=name)), settings=settings(limits=limits(iterations=1))
    )
    assert played.code == "limit.iterations"


@pytest.mark.parametrize(
    ("claim", "end"),
    [
        ({"signal": "PASS"}, "complete"),
        ({"outcome": "accepted"}, "complete"),
        ({"outcome": "rejected"}, "verify"),
        ({"outcome": "accepted", "signal": "FAIL"}, "verify"),
        ({"signal": "FAIL"}, "verify"),
        ({"signal": "DONE"}, "verify"),
    ],
)
def test_a_judge_must_claim(claim: dict[str, str], end: str) -> None:
    played = play(
        Script(verify=lambda r, a: ok(a.tree, **claim)), settings=settings(limits=limits(iterations=1))
    )
    assert played.run.state == end


def test_the_next_writer_is_told_what_the_critic_said() -> None:
    played = play(Script(verify=[rejecting, lambda r, a: ok(a.tree, signal="PASS")]))
    second = [a for a in played.acts if a.do == "agent:coder"][1]
    assert any("not yet" in text for text in second.told)


@pytest.mark.parametrize(
    "data", [{"steps": "all"}, {"steps": [1]}, {"steps": [{}]}, {"steps": [], "tier": "T9"}]
)
def test_a_plan_that_does_not_fit_is_a_failed_turn_and_told(data: dict[str, Any]) -> None:
    played = play(Script(plan=[ok("base", data=data), ok("base")]))
    assert played.done.count("agent:planner") == 2
    assert any("could not be used" in text for text in played.acts[3].told)
    assert played.code == "completed"


def test_an_agents_own_turn_limit_is_a_turn_without_a_claim() -> None:
    limited = e.TurnEnded(verdict="turn_limit", tree="t1", claim=e.Claim(outcome="rewrite"))
    played = play(Script(test=[failing(), passing], fix=limited))
    assert played.path == ["plan", "write", "test", "fix", "test", "verify", "complete"]


# ---- breakpoints -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("phase", ["plan", "write", "test", "fix", "verify"])
def test_a_breakpoint_pauses_in_every_phase_at_every_visit(phase: str) -> None:
    script = Script(
        test=[failing(), passing, failing(), passing],
        verify=[rejecting, lambda r, a: ok(a.tree, signal="PASS")],
    )
    played = play(script, settings=settings(breakpoints=(phase,)))
    visits = 0
    while played.run.status == "paused":
        assert (played.code, played.run.state) == ("wait.breakpoint", phase)
        visits += 1
        played.answer("go-on")
    assert played.path.count(phase) == visits
    assert (played.code, visits) == ("completed", {"plan": 1, "test": 4}.get(phase, 2))


def test_a_breakpoint_comes_after_the_act_and_its_ruling() -> None:
    played = play(Script(), settings=settings(breakpoints=("write",)))
    kinds = [e.kind(event) for event in played.events[-4:]]
    assert kinds == ["ActFinished", "Ruled", "Held", "Stopped"]


@pytest.mark.parametrize("verb", ["reject", "redirect"])
def test_a_breakpoint_answered_no_does_the_act_again(verb: str) -> None:
    played = play(Script(), settings=settings(breakpoints=("write",))).answer(verb, "otherwise")
    assert (played.code, played.run.iteration, played.done.count("agent:coder")) == ("wait.breakpoint", 1, 2)
    assert played.acts[-1].told == ("otherwise",)


def test_a_breakpoint_follows_an_approval() -> None:
    script = Script(write=[ruled("ask", "t1"), lambda r, a: ok("t2")])
    played = play(script, settings=settings(breakpoints=("write",)))
    assert played.code == "wait.approval"
    assert played.answer("approve").code == "wait.breakpoint"
    assert played.answer("go-on").code == "completed"


# ---- the guard -------------------------------------------------------------------------------------------


def test_a_deny_blocks_in_the_phase_and_never_goes_on_to_test() -> None:
    played = play(Script(write=ruled("deny", "t1")))
    assert (played.code, played.run.status, played.run.state) == (
        "blocked.guard.protected",
        "blocked",
        "write",
    )
    assert "proof:test" not in played.done


def test_a_change_that_was_not_judged_is_refused() -> None:
    from flyball.core.decide import Finished

    script = Script(write=[lambda r, a: Finished(key=a.key, result=ok("t1")), lambda r, a: ok("t2")])
    played = play(script)
    assert (played.code, played.run.status) == ("blocked.guard.unjudged", "blocked")
    assert played.answer("reject").code == "completed"
    assert [a.tree for a in played.acts if a.do == "restore"] == ["base"]


def test_all_changed_files_are_kept_over_all_iterations() -> None:
    def writes(name: str) -> Any:
        return lambda r, a: e.TurnEnded(verdict="ok", tree=name, changed=(name, "a.py"))

    script = Script(
        write=[writes("w1"), writes("w2")],
        test=[failing(), passing],
        fix=writes("f1"),
        verify=[rejecting, lambda r, a: ok(a.tree, signal="PASS")],
    )
    assert play(script).run.changed == ("w1", "a.py", "f1", "w2")


# ---- a loop that writes ----------------------------------------------------------------------------------

LOOP = settings(write="loop")


def test_write_and_fix_may_each_be_a_loop() -> None:
    played = play(Script(test=[failing(), passing]), settings=LOOP)
    assert played.path == ["plan", "write", "test", "fix", "test", "verify", "complete"]
    assert [(a.do, a.state) for a in played.acts if a.do.startswith("run:")] == [
        ("run:loop", "write"),
        ("run:loop", "fix"),
    ]
    assert "agent:coder" not in played.done and played.code == "completed"


def test_the_parents_option_says_so_too() -> None:
    played = play(Script(), options={"write": "loop"}, owner=False, tree="base")
    assert "run:loop" in played.done and "agent:coder" not in played.done


def test_a_loop_that_writes_is_untested_where_a_turn_would_be() -> None:
    played = play(Script(), settings=settings(write="loop", proof=()))
    assert played.path == ["plan", "write", "verify", "complete"]
    assert [s.reason for s in played.of(e.Skipped)] == ["no proof command is configured"]


@pytest.mark.parametrize("code", ["limit.turns", "timeout.idle", "failed.agent", "cancelled"])
def test_a_loop_that_fails_fails_the_build_with_its_code(code: str) -> None:
    played = play(Script(run=failed_child(code)), settings=LOOP)
    assert (played.code, played.run.end, played.run.state) == (code, "failure", "write")


def test_a_loop_that_writes_keeps_iterations_fixes_and_breakpoints() -> None:
    both = settings(write="loop", limits=limits(fix=2), breakpoints=("fix",))
    played = play(Script(test=failing()), settings=both)
    assert (played.code, played.run.state) == ("wait.breakpoint", "fix")
    played.answer("go-on").answer("go-on")
    assert (played.code, played.path.count("fix")) == ("limit.fix_attempts", 2)


def test_the_tree_that_the_loop_left_is_what_is_proved() -> None:
    played = play(Script(), settings=LOOP)
    assert [a.tree for a in played.acts if a.do == "proof"] == ["base", "t1"]


# ---- ends ------------------------------------------------------------------------------------------------


def test_a_phase_timeout_ends_at_once() -> None:
    played = play(Script(write=bad("timeout")))
    assert (played.code, played.run.turns) == ("timeout.phase", 2)


def test_a_proof_that_outlives_the_phase_is_a_phase_timeout() -> None:
    late = e.ProofEnded(tree="t1", passed=False, invalid="phase timeout")
    assert play(Script(test=late)).code == "timeout.phase"


def test_a_stall_limit_set_for_build_asks_before_the_next_write() -> None:
    script = Script(write=ok("base"), fix=ok("base"), test=failing())
    played = play(script, settings=settings(limits=limits(no_progress=2, fix=9)))
    assert (played.code, played.run.status, played.run.state) == ("loop.no_progress", "waiting", "fix")
    assert played.done.count("agent:coder") == 2
    played.answer("go-on")
    assert (played.code, played.done.count("agent:coder")) == ("loop.no_progress", 4)


def begun_at(phase: str) -> Played:
    return start(Script(), settings=settings()).go_on(lambda run: run.state == phase)


@pytest.mark.parametrize("phase", ["plan", "write", "test", "verify"])
def test_cancel_ends_it_anywhere(phase: str) -> None:
    played = begun_at(phase)
    played.note([e.Asked(at=5, what="cancel")])
    played.go_on()
    assert (played.code, played.run.end, played.run.state) == ("cancelled", "cancelled", phase)
