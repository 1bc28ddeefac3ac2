"""Author and reviewer: DONE needs a proof, PASS needs a proof, FAIL fails, anything else goes round."""

from __future__ import annotations

from typing import Any

import pytest

from flyball.core import events as e
from flyball.core.settings import Settings
from support import Played, Script, bad, failing, ok, passing, play


def settings(**more: Any) -> Settings:
    agents = {"default": "script:x", "author": "script:a", "reviewer": "script:r"}
    return Settings(**{"proof": ("prove",), "agents": agents, **more})


def review(author: Any, reviewer: Any = None, given: Settings | None = None, **more: Any) -> Played:
    plays = {k.replace("__", ":"): more.pop(k) for k in list(more) if k.startswith("proof")}
    script = Script(**{"agent:author": author}, **plays)
    if reviewer is not None:
        script.plays["agent:reviewer"] = reviewer if isinstance(reviewer, list) else [reviewer]
    return play(script, machine="review", settings=given or settings(), **more)


def says(signal: str, message: str = "") -> Any:
    return lambda run, act: ok(act.tree, signal=signal, message=message)


def works(signal: str = "") -> Any:
    return lambda run, act: ok(f"t{run.turn + 1}", signal=signal)


def test_done_with_a_passing_proof_completes() -> None:
    played = review(works("DONE"))
    assert (played.code, played.path) == ("completed", ["init", "working", "complete"])


def test_done_with_a_failing_proof_goes_to_the_reviewer_who_is_shown_it() -> None:
    played = review(
        [works("DONE"), works("DONE")], says("", "look here"), proof__gate=[failing(summary="E 1"), passing]
    )
    assert played.path == ["init", "working", "reviewing", "working", "complete"]
    reviewer = next(a for a in played.acts if a.do == "agent:reviewer")
    assert any("E 1" in text for text in reviewer.told)


def test_done_without_a_proof_command_goes_to_the_reviewer_and_pass_completes() -> None:
    played = review(works("DONE"), says("PASS"), settings(proof=()))
    assert played.path == ["init", "working", "reviewing", "complete"]
    assert played.code == "completed_unproven"


def test_always_reviewed_sends_done_to_the_reviewer() -> None:
    played = review(works("DONE"), says("PASS"), settings(review="always"))
    assert played.path == ["init", "working", "reviewing", "complete"]


def test_inside_another_checkout_done_completes_without_a_proof() -> None:
    played = review(works("DONE"), owner=False, tree="base")
    assert (played.path, played.done) == (["init", "working", "complete"], ["check", "agent:author"])


def test_pass_with_a_failing_proof_goes_back() -> None:
    played = review(works(), says("PASS"), proof__gate=[failing(), passing])
    assert played.path == ["init", "working", "reviewing", "working", "reviewing", "complete"]


@pytest.mark.parametrize(
    ("author", "reviewer", "state"),
    [(works("FAIL"), None, "working"), (works(), says("FAIL"), "reviewing")],
)
def test_fail_from_either_fails(author: Any, reviewer: Any, state: str) -> None:
    played = review(author, reviewer)
    assert (played.code, played.run.state, played.run.end) == ("failed.review", "failed", "failure")
    assert played.path[-2] == state


@pytest.mark.parametrize("signal", ["", "DONE", "LGTM"])
def test_anything_else_from_the_reviewer_goes_back_with_its_findings(signal: str) -> None:
    played = review(works(), [says(signal, "line 3 is wrong"), says("PASS")])
    assert played.path == ["init", "working", "reviewing", "working", "reviewing", "complete"]
    second = [a for a in played.acts if a.do == "agent:author"][1]
    assert any("line 3 is wrong" in text for text in second.told)


@pytest.mark.parametrize("signal", ["PASS", "", "done"])
def test_only_done_is_done(signal: str) -> None:
    assert review(works(signal), says("PASS")).path[1:3] == ["working", "reviewing"]


def test_an_outcome_in_words_is_not_read_here() -> None:
    played = review(
        lambda r, a: ok("t1", outcome="done"),
        [lambda r, a: ok(a.tree, outcome="passed"), says("PASS")],
    )
    assert played.path == ["init", "working", "reviewing", "working", "reviewing", "complete"]


@pytest.mark.parametrize("most", [1, 3, 10])
def test_iterations_are_held_exactly(most: int) -> None:
    given = settings(limits={"review": {"iterations": most}})
    played = review(works(), says(""), given)
    assert played.path.count("working") == most
    assert (played.code, played.run.state, played.run.end) == ("limit.iterations", "failed", "failure")


def test_ten_iterations_unless_told() -> None:
    assert review(works(), says("")).path.count("working") == 10


def test_a_pass_on_the_last_iteration_completes() -> None:
    given = settings(limits={"review": {"iterations": 2}})
    assert review(works(), [says(""), says("PASS")], given).code == "completed"


def test_a_failing_gate_on_the_last_iteration_is_failed_tests() -> None:
    given = settings(limits={"review": {"iterations": 1}})
    played = review(works(), says("PASS"), given, proof__gate=failing())
    assert (played.code, played.run.state) == ("failed.tests", "failed")


def test_begun_at_reviewing_it_is_the_first_iteration() -> None:
    options = {"review": "always", "iterations": 3}
    played = review(works(), says(""), owner=False, start="reviewing", options=options, tree="base")
    assert played.path == ["reviewing", "working", "reviewing", "working", "reviewing", "failed"]
    assert played.code == "limit.iterations"


@pytest.mark.parametrize(
    ("outcome", "code"),
    [("cannot_start", "failed.start"), ("failure", "failed.start"), ("ready", "completed")],
)
def test_a_check_that_fails_ends_in_failed(outcome: str, code: str) -> None:
    script = Script(init=e.CheckEnded(outcome=outcome, reason="no agent"))
    played = play(script, machine="review", settings=settings())
    assert played.code == code


def test_an_agent_that_fails_ends_in_the_state_failed_with_its_own_code() -> None:
    played = review(bad("hung"))
    assert (played.code, played.run.state, played.run.end) == ("timeout.idle", "failed", "failure")


def test_under_consensus_done_never_completes_alone() -> None:
    given = settings(consensus=True)
    played = review(works("DONE"), says("PASS"), given)
    assert played.path == ["init", "working", "reviewing", "complete"]


def test_under_consensus_pass_needs_the_authors_done_on_the_same_tree() -> None:
    given = settings(consensus=True)
    played = review([works(), works("DONE")], says("PASS"), given)
    assert played.path == ["init", "working", "reviewing", "working", "reviewing", "complete"]


def test_under_consensus_the_agents_change_places_each_iteration() -> None:
    given = settings(consensus=True)
    played = review(works("DONE"), [says(""), says(""), says("PASS")], given)
    agents = [(a.do, a.agent) for a in played.acts if a.do.startswith("agent:")]
    assert agents == [
        ("agent:author", "script:a"),
        ("agent:reviewer", "script:r"),
        ("agent:author", "script:r"),
        ("agent:reviewer", "script:a"),
        ("agent:author", "script:a"),
        ("agent:reviewer", "script:r"),
    ]


def test_each_agent_goes_on_in_its_own_session() -> None:
    def author(run: Any, act: e.Act) -> e.TurnEnded:
        return e.TurnEnded(verdict="ok", tree=f"t{run.turn + 1}", session="sa")

    def reviewer(run: Any, act: e.Act) -> e.TurnEnded:
        signal = "PASS" if act.resume else ""
        return e.TurnEnded(verdict="ok", tree=act.tree, session="sr", claim=e.Claim(signal=signal))

    played = review(author, reviewer)
    sessions = [a.session for a in played.acts if a.do.startswith("agent:")]
    assert sessions == ["", "", "sa", "sr"]


# ---- the findings ledger ---------------------------------------------------------------------------------


def found(status: str = "open", name: str = "", severity: str = "medium", evidence: str = "") -> e.Finding:
    return e.Finding(
        id=name, file="a.py", line=3, severity=severity, status=status, text="x", evidence=evidence
    )


def notes(*findings: e.Finding, signal: str = "") -> Any:
    return lambda run, act: ok(act.tree, signal=signal, findings=findings)


def writes(*findings: e.Finding) -> Any:
    return lambda run, act: ok(f"t{run.turn + 1}", findings=findings)


@pytest.mark.parametrize(
    ("second", "complete"),
    [
        (notes(found("fixed", "F1")), True),
        (notes(found("accepted", "F1")), True),
        (notes(), False),
        (notes(found("open", "F1")), False),
        (notes(found("fixed", "F1"), found("open", "F2")), False),
        (notes(found("disputed", "F1")), False),
    ],
)
def test_a_round_that_closes_all_that_was_open_is_read_as_pass(second: Any, complete: bool) -> None:
    given = settings(limits={"review": {"iterations": 2}})
    played = review(writes(), [notes(found()), second], given)
    assert (played.code == "completed") == complete


def test_the_reviewer_is_shown_the_ledger_each_round() -> None:
    played = review(writes(), [notes(found()), notes(found("fixed", "F1"))])
    reviewers = [a for a in played.acts if a.do == "agent:reviewer"]
    assert [any("F1 medium open a.py:3" in text for text in a.told) for a in reviewers] == [False, True]


@pytest.mark.parametrize(
    ("said", "status"),
    [
        (found("fixed", "F1"), "open"),
        (found("fixed", "F1", evidence="test_x passes"), "fixed"),
        (found("accepted", "F1", evidence="trust me"), "open"),
        (found("disputed", "F1"), "disputed"),
    ],
)
def test_only_the_reviewer_or_evidence_closes_a_finding(said: e.Finding, status: str) -> None:
    played = review([writes(), writes(said)], [notes(found()), notes(signal="FAIL")])
    assert [f.status for f in played.run.findings] == [status]


def test_the_same_finding_disputed_twice_goes_to_a_person() -> None:
    dispute = writes(found("disputed", "F1"))
    played = review(
        [writes(), dispute, dispute, writes()], [notes(found()), notes(found("open", "F1")), says("PASS")]
    )
    assert (played.code, played.run.state) == ("wait.question", "working")
    assert played.run.question and "F1: disputed twice" in played.run.question.text
    assert played.answer("answer", "the reviewer is right").code == "completed"


def test_an_open_high_finding_keeps_a_loop_from_its_end() -> None:
    from support import finish

    raised = ok("t1", findings=(found(severity="high"),))
    closed = e.TurnEnded(
        verdict="ok",
        tree="t3",
        claim=e.Claim(
            finished=True, indicators=("a", "b"), findings=(found("fixed", "F1", evidence="seen"),)
        ),
    )
    script = Script(**{"agent:worker": [raised, finish("t2"), closed]})
    played = play(script, machine="loop", settings=settings())
    assert (played.code, played.run.turns) == ("completed", 3)
    assert "A high finding is still open." in " ".join(played.acts[4].told)
