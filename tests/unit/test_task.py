"""A ticket's life: failures are counted by state, the CTO is called twice at most, then a person decides."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from flyball.core import events as e
from flyball.core.letters import Answer, Ask
from flyball.core.settings import Settings
from support import Played, Script, bad, failed_child, failing, ok, passing, play, start

NINE = [
    *("pending", "assigned", "planning", "validated", "in_progress", "testing", "quality_review"),
    *("approved", "committing"),
]
ACTORS = {
    "pending": "build orchestrator",
    "assigned": "@agent-solution-validator",
    "planning": "@agent-solution-validator",
    "validated": "@agent-fullstack-developer",
    "in_progress": "@agent-fullstack-developer",
    "testing": "@agent-fullstack-developer",
    "quality_review": "@agent-quality-monitor",
    "approved": "@agent-git-manager",
    "committing": "@agent-git-manager",
}


def settings(**more: Any) -> Settings:
    return Settings(**{"proof": ("prove",), "agents": {"default": "script:x"}, **more})


def task(cto: Any = None, given: Settings | None = None, **plays: Any) -> Played:
    if cto is not None:
        plays["cto_intervention"] = cto
    return play(Script(**plays), machine="task", settings=given or settings())


def recovery(kind: str, **data: Any) -> Any:
    return lambda run, act: ok(act.tree, outcome=kind, data={"kind": kind, "guidance": "do it so", **data})


def rejected(run: object, act: e.Act) -> e.TurnEnded:
    return ok(act.tree, signal="FAIL")


def approved(run: object, act: e.Act) -> e.TurnEnded:
    return ok(act.tree, signal="PASS")


def broken(run: object, act: e.Act) -> e.CheckEnded:
    return e.CheckEnded(outcome="failure", reason="not so")


ready = e.CheckEnded(outcome="ready")
refused = e.CommitEnded(outcome="refused", tree="", reason="hook says no")


def committed(run: object, act: e.Act) -> e.CommitEnded:
    return e.CommitEnded(outcome="committed", tree=act.tree)


def succeeded(run: object, act: e.Act) -> e.ChildEnded:
    return e.ChildEnded(run=act.child, end="success", stop=e.Stop(code="completed"), tree="tn", turns=1)


# state -> (a failure, a success)
PLAYS: dict[str, tuple[Any, Any]] = {
    "pending": (broken, ready),
    "assigned": (broken, ready),
    "planning": (rejected, approved),
    "validated": (broken, ready),
    "in_progress": (failed_child("limit.fix_attempts"), succeeded),
    "testing": (failing(), passing),
    "quality_review": (failed_child("failed.review"), succeeded),
    "approved": (broken, ready),
    "committing": (refused, committed),
}


def counts(played: Played, state: str) -> list[int]:
    return [c.count for c in played.of(e.FailureCounted) if c.state == state]


def test_the_way_through_with_its_actors() -> None:
    played = task()
    assert played.path == [*NINE, "completed"]
    assert [(m.source, m.actor) for m in played.of(e.Moved)] == list(ACTORS.items())
    assert played.code == "completed"


def test_children_are_run_as_the_table_says() -> None:
    played = task()
    assert [d for d in played.done if d.startswith("run:")] == ["run:build", "run:review"]
    assert played.run.machine.states["quality_review"].options["start"] == "reviewing"


@pytest.mark.parametrize("state", NINE)
def test_two_failures_in_a_state_are_its_own_and_are_forgotten_when_it_is_left(state: str) -> None:
    bad_play, good_play = PLAYS[state]
    played = task(**{state: [bad_play, bad_play, good_play]})
    assert counts(played, state) == [1, 2]
    assert (played.code, played.run.failures.get(state)) == ("completed", 0)
    assert "cto_intervention" not in played.path


@pytest.mark.parametrize("state", NINE)
def test_the_third_failure_in_a_state_calls_the_cto(state: str) -> None:
    bad_play, good_play = PLAYS[state]
    played = task(recovery("retry"), **{state: [bad_play] * 3 + [good_play]})
    assert counts(played, state) == [1, 2, 3]
    called = next(m for m in played.of(e.Moved) if m.target == "cto_intervention")
    assert (called.source, called.outcome, called.actor) == (state, "third_failure", "build orchestrator")
    back = next(m for m in played.of(e.Moved) if m.source == "cto_intervention")
    assert (back.target, back.actor) == (state, "@agent-cto")
    assert (played.code, played.run.cto_attempts) == ("completed", 1)


@pytest.mark.parametrize("state", ["pending", "assigned", "validated", "in_progress", "approved"])
def test_where_there_is_no_way_back_the_act_is_done_again_in_the_state(state: str) -> None:
    bad_play, good_play = PLAYS[state]
    played = task(**{state: [bad_play, good_play]})
    assert played.path == [*NINE, "completed"]
    assert counts(played, state) == [1]


@pytest.mark.parametrize("state", ["testing", "quality_review", "committing"])
def test_where_there_is_a_way_back_it_leads_to_in_progress(state: str) -> None:
    bad_play, good_play = PLAYS[state]
    played = task(**{state: [bad_play, good_play]})
    at = played.path.index(state)
    assert played.path[at : at + 2] == [state, "in_progress"]


def test_failures_of_one_state_are_not_those_of_another() -> None:
    played = task(testing=[failing(), failing(), passing], quality_review=[*[failed_child()] * 2, succeeded])
    assert "cto_intervention" not in played.path and played.code == "completed"


def test_a_state_left_forwards_between_its_failures_begins_anew() -> None:
    tests = [failing(), failing(), passing] * 3
    played = task(testing=tests, quality_review=[*[failed_child()] * 2, succeeded])
    assert "cto_intervention" not in played.path and played.code == "completed"


def test_the_limit_of_failures_can_be_set() -> None:
    given = settings(limits={"task": {"failures": 1}})
    played = task(recovery("retry"), given, planning=[rejected, approved])
    assert counts(played, "planning") == [1] and "cto_intervention" in played.path


# ---- the CTO ---------------------------------------------------------------------------------------------


def test_the_guidance_is_shown_in_the_next_turn() -> None:
    played = task(recovery("retry"), planning=[rejected] * 3 + [approved])
    after = [a for a in played.acts if a.do == "agent:validator"][3]
    assert any("do it so" in text for text in after.told)


def test_two_attempts_in_a_life_then_a_person() -> None:
    played = task(recovery("retry"), planning=rejected)
    assert (played.code, played.run.state, played.run.status) == (
        "wait.escalation",
        "human_escalation",
        "waiting",
    )
    assert played.done.count("agent:cto") == 2
    assert (played.run.cto_attempts, played.path.count("cto_intervention")) == (2, 3)
    assert played.of(e.Moved)[-1].actor == "@agent-cto"


def test_an_answer_does_not_renew_the_ctos_attempts() -> None:
    played = task(recovery("retry"), planning=rejected).answer("retry", "planning")
    assert (played.done.count("agent:cto"), played.path.count("cto_intervention")) == (2, 4)
    assert counts(played, "planning") == [1, 2, 3] * 4
    assert max(counts(played, "planning")) == 3


@pytest.mark.parametrize("given", [0, 1, 2])
def test_the_ctos_attempts_can_be_fewer(given: int) -> None:
    played = task(recovery("retry"), settings(limits={"task": {"cto": given}}), planning=rejected)
    assert played.done.count("agent:cto") == given
    assert played.run.state == "human_escalation"


def test_an_interrupted_or_limited_attempt_is_none() -> None:
    cto = [lambda r, a: "killed", bad("rate_limited"), recovery("retry"), recovery("retry")]
    played = task(cto, planning=rejected)
    assert (played.done.count("agent:cto"), played.run.cto_attempts) == (4, 2)


def test_a_rollback_goes_to_an_earlier_state() -> None:
    played = task(recovery("rollback", state="planning"), testing=[*[failing()] * 3, passing])
    at = played.path.index("cto_intervention")
    assert played.path[at : at + 2] == ["cto_intervention", "planning"]
    assert played.code == "completed"


@pytest.mark.parametrize(("state", "following"), list(itertools.pairwise(NINE)))
def test_a_skip_goes_to_the_next_state_and_is_recorded(state: str, following: str) -> None:
    played = task(recovery("skip"), **{state: [PLAYS[state][0]] * 3 + [PLAYS[state][1]]})
    skip = next(m for m in played.of(e.Moved) if m.source == "cto_intervention")
    assert (skip.outcome, skip.target) == ("skip", following)
    assert (played.code, played.done[-1]) == ("completed", "commit")


def test_a_skip_never_enters_completed() -> None:
    played = task(recovery("skip"), committing=refused)
    assert "completed" not in played.path
    assert (played.run.state, played.code) == ("human_escalation", "wait.escalation")


@pytest.mark.parametrize(
    "claim",
    [
        {"outcome": "retry", "data": {"kind": "banana"}},
        {"data": {"kind": ["retry"]}},
        {"outcome": "retry", "data": {"kind": "retry", "state": "nowhere"}},
        {"outcome": "retry", "data": {"kind": "retry", "state": "committing"}},
        {"outcome": "rollback", "data": {"kind": "rollback", "state": "committing"}},
        {"outcome": "rollback", "data": {"kind": "rollback"}},
        {"outcome": "rollback", "data": {"kind": "rollback", "state": "completed"}},
        {"outcome": "retry", "data": {"kind": "retry", "state": "cto_intervention"}},
        {"outcome": "complete"},
        {"outcome": "abandon"},
    ],
)
def test_a_recovery_that_does_not_fit_is_a_failed_turn_and_told(claim: dict[str, Any]) -> None:
    cto = [lambda r, a: ok(a.tree, **claim), recovery("retry")]
    played = task(cto, planning=[rejected] * 3 + [approved])
    turns = [a for a in played.acts if a.do == "agent:cto"]
    assert len(turns) == 2 and any("could not be used" in text for text in turns[1].told)
    assert (played.code, played.run.cto_attempts) == ("completed", 1)


@pytest.mark.parametrize("claim", [{}, {"outcome": "escalate"}, {"data": {"kind": "escalate"}}])
def test_no_claim_is_an_escalation(claim: dict[str, Any]) -> None:
    played = task(lambda r, a: ok(a.tree, **claim), planning=rejected)
    assert played.path[-2:] == ["cto_intervention", "human_escalation"]
    assert (played.run.cto_attempts, played.code) == (1, "wait.escalation")


@pytest.mark.parametrize("verdict", ["killed", "timeout"])
def test_a_cto_that_fails_escalates(verdict: str) -> None:
    played = task(bad(verdict), planning=rejected)
    assert played.path[-2:] == ["cto_intervention", "human_escalation"]


@pytest.mark.parametrize("verdict", ["killed", "hung", "timeout"])
def test_an_agent_that_fails_calls_the_cto_at_once(verdict: str) -> None:
    played = task(recovery("escalate"), planning=bad(verdict))
    assert counts(played, "planning") == []
    assert played.path[3:] == ["cto_intervention", "human_escalation"]
    assert played.of(e.Moved)[2].actor == "build orchestrator"


def test_a_cto_after_failed_turns_has_all_its_own_tries() -> None:
    played = task([bad("killed"), bad("killed"), recovery("retry")], planning=[*[bad("hung")] * 4, approved])
    assert played.code == "completed"


# ---- a person --------------------------------------------------------------------------------------------


def escalated(**plays: Any) -> Played:
    plays.setdefault("planning", [rejected] * 3 + [approved])
    return task(recovery("escalate"), **plays)


def test_a_person_may_retry_complete_or_abandon() -> None:
    played = escalated()
    assert played.run.question and played.run.question.verbs == ("retry", "complete", "abandon", "cancel")


@pytest.mark.parametrize("state", NINE)
def test_a_person_sends_it_to_any_working_state(state: str) -> None:
    played = escalated()
    played.write(Answer(question="r1.1", verb="retry", text=state, who="ann"))
    moved = played.of(e.Moved)[-1]
    assert (moved.target, moved.actor) == (state, "human:ann")
    assert played.go_on().code == "completed"


@pytest.mark.parametrize("state", ["nowhere", "completed", "cto_intervention", "@fail"])
def test_a_retry_of_no_working_state_is_refused(state: str) -> None:
    played = escalated()
    played.write(Answer(question="r1.1", verb="retry", text=state))
    assert "needs a state" in played.of(e.LetterRefused)[-1].reason
    assert played.run.state == "human_escalation" and played.run.question


def test_retry_alone_means_the_state_that_failed_and_its_count_begins_anew() -> None:
    played = escalated(planning=[rejected] * 5 + [approved]).answer("retry")
    assert counts(played, "planning") == [1, 2, 3, 1, 2]
    assert played.code == "completed"


def test_complete_goes_through_the_gate_and_the_commit() -> None:
    played = escalated()
    before = len(played.done)
    played.write(Answer(question="r1.1", verb="complete", who="ann"))
    played.go_on()
    assert played.done[before:] == ["commit"]  # the base tree was proved by the baseline
    assert played.path[-2:] == ["human_escalation", "completed"]
    assert (played.code, played.of(e.Moved)[-1].actor) == ("completed", "human:ann")


def test_complete_proves_a_tree_that_was_not_proved() -> None:
    def left_a_change(run: object, act: e.Act) -> e.ChildEnded:
        stop = e.Stop(code="failed.review")
        return e.ChildEnded(run=act.child, end="failure", stop=stop, tree="q", turns=1)

    played = escalated(planning=approved, quality_review=left_a_change)
    before = len(played.done)
    played.answer("complete")
    assert (played.done[before:], played.code) == (["proof:gate", "commit"], "completed")


def test_complete_with_a_failing_gate_goes_on_in_progress_and_shows_it() -> None:
    played = escalated(planning=approved, testing=[*[failing(summary="E 7")] * 3, passing])
    assert played.run.state == "human_escalation"
    at = len(played.acts)
    played.answer("complete")
    assert played.path[-6:] == [
        "in_progress",
        "testing",
        "quality_review",
        "approved",
        "committing",
        "completed",
    ]
    assert played.acts[at].do == "run:build"
    assert any("E 7" in t.text for t in played.of(e.Told))


def test_complete_asked_for_again_and_again_is_never_a_crash() -> None:
    played = escalated(planning=approved, testing=failing())
    for _ in range(5):
        assert played.run.state == "human_escalation"
        played.answer("complete")
    assert played.run.status == "waiting" and "completed" not in played.path


def test_a_refused_commit_of_complete_goes_on_in_progress() -> None:
    played = escalated()
    played.player.plays["commit"] = [refused, committed]  # type: ignore[attr-defined]
    played.answer("complete")
    assert "in_progress" in played.path[-6:]


def test_abandon_ends_in_failure() -> None:
    played = escalated().answer("abandon")
    assert (played.code, played.run.end, played.run.state) == (
        "failed.abandoned",
        "failure",
        "human_escalation",
    )


def test_cancel_ends_it_there_too() -> None:
    played = escalated().answer("cancel")
    assert (played.code, played.run.end) == ("cancelled", "cancelled")


# ---- the gate and children -------------------------------------------------------------------------------


def test_committing_proves_the_tree_that_is_committed() -> None:
    played = task(proof__gate=[failing(), passing])
    assert played.path[-7:] == [
        "committing",
        "in_progress",
        "testing",
        "quality_review",
        "approved",
        "committing",
        "completed",
    ]
    assert counts(played, "committing") == [1]


def test_without_a_proof_command_testing_is_passed_by_and_said() -> None:
    played = task(given=settings(proof=()))
    assert played.code == "completed_unproven"
    assert [s.what for s in played.of(e.Skipped)] == ["proof"]


def test_a_childs_failure_is_told_to_the_next_child_once() -> None:
    played = task(in_progress=[failed_child("limit.turns"), succeeded])
    reasons = [c.reason for c in played.of(e.FailureCounted)]
    assert "limit.turns" in reasons[0]
    assert played.run.told == ()


def in_child(script: Script | None = None) -> Played:
    """A task whose build runs; nothing has come of it yet."""
    played = start(script or Script(), machine="task", settings=settings())
    played.go_on(lambda run: run.state == "in_progress")
    from flyball.core.decide import Do, due

    found = due(played.run, played.now)
    assert isinstance(found, Do)
    act = e.Act(key=found.act.key, do=found.act.do, state=found.act.state, child="kid", tree=found.act.tree)
    played.note([e.ActStarted(at=played.now, act=act)])
    return played


def ends(played: Played, end: str, code: str) -> Played:
    from flyball.core.decide import Finished, react

    assert played.run.act is not None
    result = e.ChildEnded(run="kid", end=end, stop=e.Stop(code=code), tree="k1", turns=2)
    played.note(react(played.run, Finished(key=played.run.act.key, result=result), played.now))
    return played


@pytest.mark.parametrize(
    ("end", "code"), [("cancelled", "cancelled"), ("success", "completed"), ("failure", "failed.agent")]
)
def test_a_parent_that_is_asked_to_cancel_ends_cancelled_whatever_the_child_did(end: str, code: str) -> None:
    played = in_child().write(Ask(what="cancel")).go_on()
    assert played.run.status == "running"
    ends(played, end, code)
    assert (played.code, played.run.end, played.run.state) == ("cancelled", "cancelled", "in_progress")


def test_the_cancel_of_a_child_alone_is_its_failure() -> None:
    played = ends(in_child(), "cancelled", "cancelled")
    assert (played.run.status, counts(played, "in_progress")) == ("running", [1])


@pytest.mark.parametrize(
    ("status", "code"),
    [("waiting", "wait.question"), ("paused", "wait.breakpoint"), ("blocked", "blocked.guard.secrets")],
)
def test_a_childs_stop_is_the_parents_with_its_code(status: str, code: str) -> None:
    played = in_child()
    played.note([e.ChildStopped(at=5, run="kid", status=status, stop=e.Stop(code=code))])
    assert (played.run.status, played.code, played.run.state) == (status, code, "in_progress")
    assert played.run.question is None
    played.go_on()
    assert played.run.act is not None and played.run.act.child == "kid"
    played.note([e.ChildWentOn(at=6, run="kid")])
    assert (played.run.status, played.run.stop) == ("running", None)
    assert ends(played, "success", "completed").go_on().code == "completed"


def test_a_childs_stop_does_not_unsay_a_cancel() -> None:
    played = in_child().write(Ask(what="cancel"))
    played.note([e.ChildStopped(at=5, run="kid", status="waiting", stop=e.Stop(code="wait.question"))])
    played.note([e.ChildWentOn(at=6, run="kid")])
    assert ends(played, "failure", "failed.agent").code == "cancelled"


def test_what_a_child_used_up_is_charged() -> None:
    played = in_child()
    usage = e.Usage(input_tokens=5, output_tokens=2, cost_uusd=70)
    played.note([e.Charged(at=5, run="kid", usage=usage, turns=1, changed=("a.py",), took_us=9)])
    run = played.run
    assert (run.spent.cost_uusd, run.spent.tokens, run.turns - run.turn) == (70, 7, 1)
    assert (run.changed, run.wall_us) == (("a.py",), 9)


@pytest.mark.parametrize("state", [*NINE, "cto_intervention", "human_escalation"])
def test_cancel_ends_it_in_every_state(state: str) -> None:
    script = Script(committing=refused, cto_intervention=lambda r, a: ok(a.tree))
    played = start(script, machine="task", settings=settings()).go_on(lambda run: run.state == state)
    assert played.run.state == state
    played.write(Ask(what="cancel")).go_on()
    assert (played.code, played.run.state) == ("cancelled", state)
