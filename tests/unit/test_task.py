"""`task`: failures are counted by state, the CTO is called twice at most, then a person decides; nested runs."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from flyball.domain import events as e
from flyball.domain.messages import Answer, Ask
from flyball.domain.settings import Budget
from flyball.machines import shipped
from flyball.state.fold import fold
from support import (
    FAIL,
    PASS,
    Case,
    Played,
    Script,
    bad,
    begun,
    check,
    failed_child,
    failing,
    passing,
    play,
    says,
    settings,
    start,
)

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
NINE = list(ACTORS)
WAY = " ".join([*NINE, "completed"])
CTO, HUMAN = "cto_intervention", "human_escalation"
broken = e.CheckEnded(outcome="failure", reason="not so")
ready = e.CheckEnded(outcome="ready")
refused = e.CommitEnded(outcome="refused", tree="", reason="hook says no")


def committed(run: object, act: e.Act) -> e.CommitEnded:
    return e.CommitEnded(outcome="committed", tree=act.tree)


def succeeded(run: object, act: e.Act) -> e.ChildEnded:
    return e.ChildEnded(run=act.child, end="success", stop=e.Stop(code="completed"), tree="tn", turns=1)


PLAYS: dict[str, tuple[Any, Any]] = {  # state -> a failure, a success
    **dict.fromkeys(("pending", "assigned", "validated", "approved"), (broken, ready)),
    "planning": (FAIL, PASS),
    "in_progress": (failed_child("limit.fix_attempts"), succeeded),
    "testing": (failing(), passing),
    "quality_review": (failed_child("failed.review"), succeeded),
    "committing": (refused, committed),
}
BACK = ("testing", "quality_review", "committing")  # a failure there leads back to in_progress


def fails(state: str, times: int, then: str = "") -> str:
    """The path of a task whose `state` fails so often, then goes on as told, then passes."""
    there, rest = NINE[: NINE.index(state) + 1], NINE[NINE.index(state) + 1 :]
    loop = (
        NINE[NINE.index("in_progress") : NINE.index(state) + 1]
        if state in BACK
        else [state]
        if state == "planning"
        else []
    )
    return " ".join([*there, *loop * (times - bool(then)), *then.split(), *rest, "completed"])


def recovery(kind: str, **data: Any) -> Any:
    return says(outcome=kind, data={"kind": kind, "guidance": "do it so", **data})


def counts(played: Played, state: str) -> list[int]:
    return [c.count for c in played.of(e.FailureCounted) if c.state == state]


def test_the_way_through_with_its_actors_and_children() -> None:
    played = check(Case(WAY, "completed", machine="task"))
    assert [(m.source, m.actor) for m in played.of(e.Moved)] == list(ACTORS.items())
    assert [(a.do, a.why) for a in played.acts if a.child] == [
        ("run:build", "child"),
        ("run:review", "child"),
    ]


@pytest.mark.parametrize("state", NINE)
def test_two_failures_in_a_state_are_its_own(state: str) -> None:
    failure, success = PLAYS[state]
    played = check(Case(fails(state, 2), "completed", {state: [failure, failure, success]}, "task"))
    assert counts(played, state) == [1, 2]


@pytest.mark.parametrize("state", NINE)
def test_the_third_failure_in_a_state_calls_the_cto(state: str) -> None:
    failure, success = PLAYS[state]
    plays = {state: [*[failure] * 3, success], CTO: recovery("retry")}
    played = check(Case(fails(state, 3, f"{CTO} {state}"), "completed", plays, "task"))
    assert counts(played, state) == [1, 2, 3]
    called, back = (m for m in played.of(e.Moved) if CTO in (m.source, m.target))
    assert (called.outcome, called.actor) == ("third_failure", "build orchestrator")
    assert (back.outcome, back.actor) == ("retry", "@agent-cto")


@pytest.mark.parametrize(("state", "following"), list(itertools.pairwise(NINE)))
def test_a_skip_goes_to_the_next_state_and_is_recorded(state: str, following: str) -> None:
    plays = {state: [PLAYS[state][0]] * 3 + [PLAYS[state][1]], CTO: recovery("skip")}
    played = check(Case(fails(state, 3, CTO), "completed", plays, "task"))
    skip = next(m for m in played.of(e.Moved) if m.source == CTO)
    assert (skip.outcome, skip.target, played.done[-1]) == ("skip", following, "commit")


TO_PLANNING = "pending assigned planning"
THRICE = f"{TO_PLANNING}*3"
LATER = "validated in_progress testing quality_review approved committing completed"
TESTED = "in_progress testing"
REST = "quality_review approved committing completed"
REFUSE = {"planning": [FAIL] * 3 + [PASS]}
STUCK = {"planning": FAIL}
KILLED = bad("killed")
STATES = {
    "one state's failures are not another's": Case(f"{TO_PLANNING} validated ({TESTED})*3 quality_review ({TESTED} quality_review)*2 approved committing completed", "completed", {"testing": [failing(), failing(), passing], "quality_review": [*[failed_child()] * 2, succeeded]}),
    "left forwards, it counts anew": Case(f"{TO_PLANNING} validated (({TESTED})*3 quality_review)*3 approved committing completed", "completed", {"testing": [failing(), failing(), passing] * 3, "quality_review": [*[failed_child()] * 2, succeeded]}),
    "one failure is allowed": Case(f"{TO_PLANNING} {CTO} planning {LATER}", "completed", {"planning": [FAIL, PASS], CTO: recovery("retry")}, limits={"failures": 1}),
    "guidance is heard": Case(f"{THRICE} {CTO} planning {LATER}", "completed", {**REFUSE, CTO: recovery("retry")}, hears=(("agent:validator", 3, "do it so"),)),
    "words are guidance too": Case(f"{THRICE} {CTO} planning {LATER}", "completed", {**REFUSE, CTO: says("", "try c", outcome="retry")}, hears=(("agent:validator", 3, "try c"),)),
    "a rollback": Case(f"{TO_PLANNING} validated ({TESTED})*3 {CTO} planning {LATER}", "completed", {"testing": [*[failing()] * 3, passing], CTO: recovery("rollback", state="planning")}),
    "a retry of an earlier state": Case(f"{TO_PLANNING} validated ({TESTED})*3 {CTO} planning {LATER}", "completed", {"testing": [*[failing()] * 3, passing], CTO: recovery("retry", state="planning")}),
    "a skip of the last is none": Case(f"{TO_PLANNING} validated {TESTED} quality_review approved committing ({TESTED} quality_review approved committing)*2 {CTO} {HUMAN}", "wait.escalation", {"committing": refused, CTO: recovery("skip")}),
    "two attempts in a life": Case(f"{THRICE} {CTO} planning*3 {CTO} planning*3 {CTO} {HUMAN}", "wait.escalation", {**STUCK, CTO: recovery("retry")}),
    **{f"{n} attempts": Case(f"{THRICE} ({CTO} planning*3)*{n} {CTO} {HUMAN}", "wait.escalation", {**STUCK, CTO: recovery("retry")}, limits={"cto": n}) for n in (1, 3)},
    "no attempts": Case(f"{THRICE} {CTO} {HUMAN}", "wait.escalation", {**STUCK, CTO: recovery("retry")}, limits={"cto": 0}),
    "interrupted and limited attempts are none": Case(f"{THRICE} ({CTO} planning*3)*2 {CTO} {HUMAN}", "wait.escalation", {**STUCK, CTO: [lambda r, a: "killed", bad("rate_limited"), recovery("retry")]}),
    "an answer renews no attempt": Case(f"{THRICE} ({CTO} planning*3)*2 {CTO} {HUMAN} planning*3 {CTO} {HUMAN}", "wait.escalation*2", {**STUCK, CTO: recovery("retry")}, answers=("retry planning",)),
    **{f"no claim: {claim}": Case(f"{THRICE} {CTO} {HUMAN}", "wait.escalation", {**STUCK, CTO: says(**claim)}) for claim in ({}, {"outcome": "escalate"}, {"data": {"kind": "escalate"}}, {"message": "?"})},
    **{f"the cto's turn: {verdict}": Case(f"{THRICE} {CTO} {HUMAN}", "wait.escalation", {**STUCK, CTO: bad(verdict)}) for verdict in ("killed", "timeout")},
    **{f"an agent's turn: {verdict}": Case(f"{TO_PLANNING} {CTO} {HUMAN}", "wait.escalation", {"planning": bad(verdict), CTO: recovery("escalate")}) for verdict in ("killed", "hung", "timeout")},
    "the cto has its own retries": Case(f"{TO_PLANNING} {CTO} planning {LATER}", "completed", {"planning": [*[bad("hung")] * 4, PASS], CTO: [KILLED, KILLED, recovery("retry")]}),
    "entering the cto begins the count anew": Case(f"{TO_PLANNING}*3 {CTO} planning*3 {LATER}", "completed", {"planning": [FAIL, FAIL, *[KILLED] * 4, FAIL, FAIL, PASS], CTO: recovery("retry")}),
    "errors count no failure": Case(f"{TO_PLANNING}*3 {CTO} planning {LATER}", "completed", {"planning": [FAIL, FAIL, *[KILLED] * 4, PASS], CTO: recovery("retry")}),
    "no proof command": Case(WAY, "completed_unproven", given={"proof": ()}),
    "committing proves": Case(f"{TO_PLANNING} validated ({TESTED} quality_review approved committing)*2 completed", "completed", {"proof__gate": [failing(), passing]}),
    "a conflict": Case(WAY, "wait.conflict completed", {"commit": [e.CommitEnded(outcome="conflict", tree="t"), committed]}, answers=("retry",)),
}  # fmt: skip


@pytest.mark.parametrize("name", STATES)
def test_the_states_of_a_ticket(name: str) -> None:
    check(STATES[name], "task")


def test_a_refused_commit_is_told_once() -> None:
    case = Case(fails("committing", 1), "completed", {"committing": [refused, committed]})
    events = check(case, "task").events
    moved = next(n for n, one in enumerate(events) if isinstance(one, e.Moved) and one.outcome == "refused")
    notes = fold(None, events[: moved + 1]).talk.notes
    assert [note for note in notes if "hook says no" in note] == ["The commit was refused:\nhook says no"]


@pytest.mark.parametrize(
    ("path", "plays"),
    [
        (f"{TO_PLANNING} validated", {"validated": [broken] * 3}),
        (THRICE, {"planning": says("", "not so", outcome="rejected")}),
    ],
)
def test_a_person_who_must_decide_is_given_the_last_failure(path: str, plays: dict[str, Any]) -> None:
    case = Case(f"{path} {CTO} {HUMAN}", "wait.escalation", {**plays, CTO: recovery("escalate")})
    (asked,) = check(case, "task").of(e.Stopped)
    assert asked.question is not None and asked.question.text.count("not so") == 1
    assert asked.stop.detail == "not so"


def test_two_attempts_of_the_cto_are_allowed_where_no_limit_is_set() -> None:
    table = {**shipped("task").table, "most": {"failures": 3}}
    case = STATES["two attempts in a life"]
    check(Case(case.path, case.codes, case.plays, table))


def test_counts_begin_anew_after_the_cto_and_after_a_person() -> None:
    played = check(STATES["an answer renews no attempt"], "task")
    assert (counts(played, "planning"), played.done.count("agent:cto")) == ([1, 2, 3] * 4, 2)
    skipped = check(STATES["no proof command"], "task").of(e.Skipped)
    assert [s.what for s in skipped] == ["proof"]


MISFITS: dict[str, dict[str, Any]] = {
    "an unknown kind": {"outcome": "retry", "data": {"kind": "banana"}},
    "a kind that is a list": {"data": {"kind": ["retry"]}},
    "no such state": {"outcome": "retry", "data": {"kind": "retry", "state": "nowhere"}},
    "a later state": {"outcome": "retry", "data": {"kind": "retry", "state": "committing"}},
    "a rollback forwards": {"outcome": "rollback", "data": {"kind": "rollback", "state": "committing"}},
    "a rollback to nowhere": {"outcome": "rollback", "data": {"kind": "rollback"}},
    "a rollback to itself": {"outcome": "rollback", "data": {"kind": "rollback", "state": "planning"}},
    "a rollback to the end": {"outcome": "rollback", "data": {"kind": "rollback", "state": "completed"}},
    "the cto itself": {"outcome": "retry", "data": {"kind": "retry", "state": CTO}},
    "data beats the outcome": {"outcome": "skip", "data": {"kind": "rollback"}},
    "a person's outcome": {"outcome": "complete"},
    "abandon": {"outcome": "abandon"},
}


@pytest.mark.parametrize("name", MISFITS)
def test_a_recovery_that_does_not_fit_is_a_failed_turn_and_told(name: str) -> None:
    plays = {**REFUSE, CTO: [says(**MISFITS[name]), recovery("retry")]}
    check(Case(f"{THRICE} {CTO} planning {LATER}", "completed", plays, "task", hears=(("agent:cto", 1, "could not be used"),)))  # fmt: skip


# ---- a person --------------------------------------------------------------------------------------------------

UP = f"{THRICE} {CTO} {HUMAN}"
GIVES_UP = {**REFUSE, CTO: recovery("escalate")}
TESTS_FAIL = f"{TO_PLANNING} validated ({TESTED})*3 {CTO} {HUMAN}"


def left_a_change(run: object, act: e.Act) -> e.ChildEnded:
    return e.ChildEnded(run=act.child, end="failure", stop=e.Stop(code="failed.review"), tree="q", turns=1)


PERSON = {
    **{f"retry {state}": Case(f"{UP} {' '.join(NINE[NINE.index(state):])} completed", "wait.escalation completed", GIVES_UP, answers=(f"retry {state}",)) for state in NINE},
    "retry": Case(f"{UP} planning*3 {LATER}", "wait.escalation completed", {**GIVES_UP, "planning": [FAIL] * 5 + [PASS]}, answers=("retry",)),
    "complete": Case(f"{UP} completed", "wait.escalation completed", GIVES_UP, answers=("complete",)),
    "complete a tree not proved": Case(f"{TO_PLANNING} validated {TESTED} quality_review ({TESTED} quality_review)*2 {CTO} {HUMAN} completed", "wait.escalation completed", {"quality_review": left_a_change, CTO: recovery("escalate")}, answers=("complete",)),
    "complete, the gate fails": Case(f"{TESTS_FAIL} {TESTED} {REST}", "wait.escalation completed", {"testing": [*[failing(summary="E 7")] * 3, passing], CTO: recovery("escalate")}, answers=("complete",)),
    "complete, the commit is refused": Case(f"{UP} {TESTED} {REST}", "wait.escalation completed", {**GIVES_UP, "commit": [refused, committed]}, answers=("complete",)),
    "complete, again and again": Case(f"{TESTS_FAIL} (({TESTED})*3 {CTO} {HUMAN})*3", "wait.escalation*4", {"testing": failing(), CTO: recovery("escalate")}, limits={"cto": 9}, answers=("complete",) * 3),
    "abandon": Case(UP, "wait.escalation failed.abandoned", GIVES_UP, answers=("abandon",)),
    "cancel": Case(UP, "wait.escalation cancelled", GIVES_UP, answers=("cancel",)),
}  # fmt: skip


@pytest.mark.parametrize("name", PERSON)
def test_a_person_may_retry_complete_or_abandon(name: str) -> None:
    check(PERSON[name], "task")


def test_a_persons_choices_and_their_actor() -> None:
    played = play(Script(**GIVES_UP), machine="task")
    assert played.run.question and played.run.question.verbs == ("retry", "complete", "abandon", "cancel")
    played.write(Answer(question="r1.1", verb="retry", text="testing", who="ann"))
    assert (played.of(e.Moved)[-1].actor, played.of(e.Answered)[-1].text) == ("human:ann", "")
    wordy = play(Script(**GIVES_UP), machine="task")
    wordy.write(Answer(question="r1.1", verb="retry", text="Mind b.", data={"state": "planning"}))
    assert (
        wordy.go_on().told("agent:validator") == "Message from a person: Mind b."
        and "unknown" in wordy.of(e.Moved)[6].actor
    )


def test_to_abandon_is_a_persons_decision_alone() -> None:
    """What an agent said last is not why."""
    stopped = check(PERSON["abandon"], "task").run.stop
    assert stopped is not None and (stopped.code, stopped.detail) == ("failed.abandoned", "")


def test_complete_goes_through_the_gate_and_the_commit() -> None:
    assert check(PERSON["complete"], "task").done[-1] == "commit"  # the baseline proved the tree
    assert check(PERSON["complete a tree not proved"], "task").done[-2:] == ["proof:gate", "commit"]
    failed = check(PERSON["complete, the gate fails"], "task")
    assert any("E 7" in told.text for told in failed.of(e.Told))


@pytest.mark.parametrize("state", [*NINE, CTO, HUMAN])
def test_cancel_ends_it_in_every_state(state: str) -> None:
    script = Script(committing=refused, cto_intervention=says())
    played = start(script, begun("task")).go_on(lambda run: run.state == state)
    assert played.run.state == state
    played.write(Ask(what="cancel")).go_on()
    assert (played.code, played.run.state) == ("cancelled", state)


# ---- nested runs ---------------------------------------------------------------------------------------------------


def in_child(**given: Any) -> Played:
    """A task whose build is in flight."""
    played = start(Script(), begun("task", settings(**given)))
    played.begin_act("run:build")
    return played


def ended(played: Played, end: str, code: str, tree: str = "k1", turns: int = 2) -> Played:
    kid = played.run.child
    result = e.ChildEnded(run=kid, end=end, stop=e.Stop(code=code, detail="why"), tree=tree, turns=turns)
    return played.finish_act(result)


def test_a_childs_tree_is_the_runs() -> None:
    played = ended(in_child(), "success", "completed")
    assert (played.run.tree, played.run.child, played.run.state) == ("k1", "", "testing")
    assert ended(in_child(), "failure", "failed.agent", tree="").run.tree == "base"


@pytest.mark.parametrize(
    ("end", "code"), [("cancelled", "cancelled"), ("success", "completed"), ("failure", "failed.agent")]
)
def test_a_parent_that_is_cancelled_ends_so_whatever_the_child_did(end: str, code: str) -> None:
    played = in_child().write(Ask(what="cancel")).go_on()
    assert played.run.status == "running"
    ended(played, end, code)
    assert (played.code, played.run.end, played.run.state) == ("cancelled", "cancelled", "in_progress")


def test_the_end_of_a_child_alone_is_its_failure_and_is_told() -> None:
    for end, code in (("cancelled", "cancelled"), ("failure", "limit.turns")):
        played = ended(in_child(), end, code)
        assert (played.run.status, counts(played, "in_progress")) == ("running", [1])
        assert (
            code in played.of(e.FailureCounted)[-1].reason and "why" in played.of(e.FailureCounted)[-1].reason
        )


STOPS = [("waiting", "wait.question"), ("paused", "wait.breakpoint"), ("blocked", "blocked.guard.secrets")]


@pytest.mark.parametrize(("status", "code"), STOPS)
def test_a_childs_stop_is_the_parents_with_its_code(status: str, code: str) -> None:
    played = in_child()
    kid = played.run.child
    played.note([e.ChildStopped(at=5, run=kid, status=status, stop=e.Stop(code=code), until=77)])
    assert (played.run.status, played.code, played.run.question, played.run.until) == (status, code, None, 77)
    played.go_on()
    assert played.run.act and played.run.act.child == kid == played.run.child
    played.note([e.ChildWentOn(at=6, run=kid)])
    assert (played.run.status, played.run.stop, played.run.until) == ("running", None, None)
    assert ended(played, "success", "completed").go_on().code == "completed"


def test_a_childs_stop_does_not_unsay_a_cancel_but_settles_a_pause() -> None:
    for order, code in (("cancel", "cancelled"), ("pause", "completed")):
        played = in_child().write(Ask(what=order))
        stop = e.Stop(code="wait.question")
        played.note([e.ChildStopped(at=5, run=played.run.child, status="waiting", stop=stop)])
        played.note([e.ChildWentOn(at=6, run=played.run.child)])
        assert ended(played, "success", "completed").go_on().code == code


def charge(uusd: int = 0, turns: int = 1, **more: Any) -> e.Charged:
    usage = e.Usage(input_tokens=5, output_tokens=2, cost_uusd=uusd)
    return e.Charged(at=5, run="kid", usage=usage, turns=turns, **more)


def test_what_a_child_used_up_is_charged() -> None:
    played = in_child()
    before = played.run.turns
    played.note([charge(70), charge(30, changed=("a.py",))])
    spent = played.run.spent
    assert (spent.cost_uusd, spent.tokens, played.run.turns - before) == (100, 14, 2)


CHARGES: dict[str, tuple[dict[str, Any], e.Charged, str]] = {
    "money": ({"budget": Budget(uusd=50)}, charge(70), "limit.budget_usd"),
    "tokens": ({"budget": Budget(tokens=6)}, charge(), "limit.budget_tokens"),
    "time": ({"budget": Budget(wall_us=8)}, charge(took_us=9), "limit.time"),
    "turns": ({"limits": {"task": {"turns": 5}}}, charge(turns=4), "limit.turns"),
    "nothing": ({"limits": {"task": {"turns": 6}}}, charge(turns=4), "completed"),
}


@pytest.mark.parametrize("name", CHARGES)
def test_what_a_child_used_up_counts_against_the_parents_limits(name: str) -> None:
    given, fact, code = CHARGES[name]
    played = in_child(**given)
    played.note([fact])
    assert ended(played, "success", "completed").go_on().code == code


def test_a_budget_that_a_child_had_raised_is_raised_for_the_parent_too() -> None:
    played = in_child(budget=Budget(uusd=50))
    played.note([charge(70)])
    stop = e.Stop(code="limit.budget_usd", rule="budget.usd")
    played.note([e.ChildStopped(at=6, run=played.run.child, status="waiting", stop=stop)])
    played.note([e.ChildWentOn(at=7, run=played.run.child)])
    assert ended(played, "success", "completed").go_on().code == "completed"


def test_children_that_never_take_a_turn_use_up_the_turns() -> None:
    def barren(run: Any, act: e.Act) -> e.ChildEnded:
        return e.ChildEnded(run=act.child, end="failure", stop=e.Stop(code="failed.agent"))

    given = settings(limits={"task": {"turns": 5, "failures": 9}})
    played = play(Script(in_progress=barren), machine="task", settings=given)
    assert (played.code, played.done.count("run:build"), played.run.turns) == ("limit.turns", 4, 1)


# ---- TASK-5: a plan file ---------------------------------------------------------------------------------

PLANNED = {"plan_file": "docs/plan.md"}
REVIEW = "agent:cto:plan-review"
NO, YES = says("", "the code is elsewhere", outcome="rejected"), says("PASS", "begin with a.py")
UNCLEAR = says("", "well")
REVIEWS = {
    "the code base is reviewed first": Case(WAY, "completed", {REVIEW: YES}, given=PLANNED, hears=(("agent:validator", 0, "begin with a.py"),), turns=2),
    "without a plan file nobody is asked": Case(WAY, "completed", {REVIEW: NO}, turns=1),
    "of several steps only the first": Case(WAY, "completed", {REVIEW: NO}, event={"options": {"plan_file": "p.md", "step": 2}}, turns=1),
    "a rejected plan is a failure, and told": Case(WAY, "completed", {REVIEW: [NO, YES]}, given=PLANNED, hears=(("agent:cto", 1, "the code is elsewhere"),), turns=3),
    "the third calls the cto, as everywhere": Case(f"pending {CTO} pending {' '.join(NINE[1:])} completed", "completed", {REVIEW: [NO, NO, NO, YES], CTO: recovery("retry")}, given=PLANNED),
    "no verdict is asked for again, once": Case(WAY, "completed", {REVIEW: [UNCLEAR, YES]}, given=PLANNED, hears=(("agent:cto", 1, "OUTCOME: approved"),)),
    "a recovery is no verdict": Case(WAY, "completed", {REVIEW: [recovery("skip"), YES]}, given=PLANNED),
    "a killed review is taken again": Case(WAY, "completed", {REVIEW: [KILLED, YES]}, given=PLANNED),
}  # fmt: skip


WRONG = says(outcome="accepted")
WRONG_NAME = "'accepted' is not one of approved, rejected"
WRONG_NAMES = {
    "the agent is told, and may say it again": (Case(f"{TO_PLANNING} {LATER}", "completed", {"planning": [WRONG, PASS]}, hears=(("agent:validator", 1, WRONG_NAME),)), "Asking again."),
    "the second time it is a rejection": (Case(f"{TO_PLANNING}*2 {LATER}", "completed", {"planning": [WRONG, WRONG, PASS]}, hears=(("agent:validator", 2, WRONG_NAME),)), "counts as 'rejected'"),
    "also of a plan file": (Case(WAY, "completed", {REVIEW: [WRONG, WRONG, YES]}, given=PLANNED, hears=(("agent:cto", 1, WRONG_NAME),)), "counts as 'rejected'"),
    "and a person": (Case(f"{THRICE} {CTO} {HUMAN}", "wait.escalation", {"planning": WRONG, CTO: recovery("escalate")}), "counts as 'rejected'"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG_NAMES)
def test_a_verdict_of_a_name_that_is_not_listed_is_told(name: str) -> None:
    case, then = WRONG_NAMES[name]
    played = check(case, "task")
    assert WRONG_NAME in played.of(e.Warned)[-1].text and then in played.of(e.Warned)[-1].text
    if question := played.run.question:
        assert WRONG_NAME in question.text and "'planning'" in question.text


@pytest.mark.parametrize("name", REVIEWS)
def test_a_task_with_a_plan_file_is_reviewed_before_anything_else(name: str) -> None:
    played = check(REVIEWS[name], "task")
    wanted = played.run.plan_file and played.run.began.options.get("step", 1) == 1
    assert len(played.of(e.PlanReviewed)) == bool(wanted)
    assert played.run.path.interventions == played.path.count(CTO)
