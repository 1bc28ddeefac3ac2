"""A turn is believed only as far as it fits: what stops it, what its words come to, what the next one is told."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from flyball.core import events as e
from flyball.core.run import Run, begin
from flyball.core.settings import Settings
from flyball.core.turns import (
    call_limits,
    claimable,
    first_outcome,
    fitted,
    misfit,
    missing_for_exit,
    outcome_of,
    recovery_state,
    solutions,
    stalled,
    unjudged,
    unproven,
    warned,
)
from support import PROOF, anywhere, begun, finish, ok

AGENTS = {"default": "script:x"}
NOW = 77


def settings(**more: Any) -> Settings:
    return Settings(**{"proof": PROOF, "agents": AGENTS, **more})


def at(machine: Any, state: str, given: Settings | None = None, **more: Any) -> Run:
    """A run in this state, its checkout at tree `t`."""
    run = begin(begun(machine, given or settings()))
    return replace(run, **{"state": state, "tree": "t", "prepared": True, "baselined": True, **more})


def act(do: str = "agent:worker", tree: str = "t") -> e.Act:
    return e.Act(key="r1-1", do=do, state="s", turn=1, tree=tree)


# ---- what is believed ----------------------------------------------------------------------------------------------------


def proved(**more: Any) -> e.ProofEnded:
    return e.ProofEnded(**{"tree": "m", "passed": True, **more})


def merged(**more: Any) -> e.CommitEnded:
    """A commit of the merge `m` of the run's own tree `t` with a target that had moved."""
    return e.CommitEnded(**{"outcome": "committed", "tree": "m", "of": "t", "proof": proved(), **more})


@pytest.mark.parametrize(
    ("done", "believed"),
    [
        (e.CommitEnded(outcome="committed", tree="t"), True),
        (e.CommitEnded(outcome="committed", tree="u"), False),
        (merged(), True),
        (merged(proof=None), False),
        (merged(proof=proved(passed=False)), False),
        (merged(proof=proved(tree="t")), False),
        (merged(of="u"), False),
        (merged(of="u", tree="t"), False),
    ],
)
def test_a_merge_is_believed_only_with_a_passing_proof_of_that_very_tree(
    done: e.CommitEnded, believed: bool
) -> None:
    run = at("build", "verify")
    said = fitted(run, act("commit"), done)
    assert isinstance(said, e.CommitEnded)
    assert (said.outcome, said.reason) == (
        ("committed", "") if believed else ("refused", "The commit holds another tree.")
    )


def test_where_nothing_proves_a_merge_of_the_own_tree_is_believed() -> None:
    unproved = at("build", "verify", settings(proof=()))
    for done, outcome in ((merged(proof=None), "committed"), (merged(of="u"), "refused")):
        said = fitted(unproved, act("commit"), done)
        assert isinstance(said, e.CommitEnded) and said.outcome == outcome
    conflict = e.CommitEnded(outcome="conflict", tree="u", reason="a.py")
    assert fitted(unproved, act("commit"), conflict) is conflict
    told = fitted(unproved, act("commit"), e.CommitEnded(outcome="committed", tree="u", reason="why"))
    assert isinstance(told, e.CommitEnded) and told.reason == "why"


@pytest.mark.parametrize(
    ("proof", "passed", "invalid"),
    [
        (proved(tree="t"), True, ""),
        (proved(tree="u"), False, "It proved another tree."),
        (proved(tree="t", invalid="it changed the tree"), False, "it changed the tree"),
        (proved(tree="u", invalid="it changed the tree"), False, "it changed the tree"),
        (proved(tree="u", passed=False), False, ""),
    ],
)
def test_a_proof_is_believed_only_of_the_tree_that_was_to_be_proved(
    proof: e.ProofEnded, passed: bool, invalid: str
) -> None:
    said = fitted(at("build", "test"), act("proof"), proof)
    assert isinstance(said, e.ProofEnded) and (said.passed, said.invalid) == (passed, invalid)


def test_a_turn_that_ends_in_no_known_way_has_failed_and_says_how() -> None:
    run = at("loop", "closed")
    odd = fitted(run, act(), e.TurnEnded(verdict="banana"))
    assert isinstance(odd, e.TurnEnded)
    assert (odd.verdict, odd.error) == ("unknown", "an unknown end: banana")
    told = fitted(run, act(), e.TurnEnded(verdict="banana", error="peel"))
    assert isinstance(told, e.TurnEnded) and told.error == "peel"
    plain = ok("u", outcome="done")
    assert fitted(run, act(), plain) is plain


def test_a_turn_cut_by_its_own_limit_claims_nothing() -> None:
    cut = fitted(at("loop", "closed"), act(), replace(finish("u"), verdict="turn_limit"))
    assert isinstance(cut, e.TurnEnded) and (cut.verdict, cut.claim) == ("turn_limit", e.Claim())


def test_data_that_do_not_fit_are_a_failed_turn_and_the_agent_is_told() -> None:
    run, planner = at("build", "plan"), act("agent:planner")
    wrong = replace(ok("", data={"steps": "no"}), notes=("first",))
    said = fitted(run, planner, wrong)
    assert isinstance(said, e.TurnEnded) and said.verdict == "unknown"
    assert said.error.startswith("a plan is") and said.notes == (
        "first",
        f"Your claim could not be used: {said.error}",
    )
    failed = replace(wrong, verdict="killed")
    assert fitted(run, planner, failed) is failed  # nobody believes it anyway


@pytest.mark.parametrize(
    ("data", "fits"),
    [
        ({}, True),
        ({"steps": [{"title": "a"}]}, True),
        ({"steps": [{"title": "a"}], "tier": "T1"}, True),
        ({"steps": [{"title": "a"}], "tier": "T9"}, False),
        ({"steps": [{"title": "a"}, {"title": 3}]}, False),
        ({"steps": [{"title": "a"}, "b"]}, False),
        ({"steps": []}, True),
        ({"tier": "T1"}, False),
    ],
)
def test_a_plan_has_steps_with_titles_and_a_tier_that_there_is(data: dict[str, Any], fits: bool) -> None:
    found = misfit(at("build", "plan"), "planner", e.Claim(data=data))
    assert (found == "") is fits
    assert misfit(at("build", "write"), "coder", e.Claim(data=data)) == ""


def test_only_a_change_that_nobody_judged_is_refused_for_that() -> None:
    assert unjudged(act(), ok("")) is None and unjudged(act(), ok("t")) is None
    assert unjudged(act(), proved(tree="u")) is None
    refused = unjudged(act(), ok("u"))
    assert refused is not None
    assert (refused.verdict, refused.rule, refused.tree, refused.diff) == ("deny", "unjudged", "u", "u")
    assert refused.waivable


# ---- what is claimed -------------------------------------------------------------------------------------------------------


def test_the_first_outcome_is_claimable_and_of_the_others_those_that_are_not_given() -> None:
    assert claimable(at("build", "fix")) == ["fixed", "rewrite"]
    assert claimable(at("build", "write")) == ["written"]
    assert claimable(at("review", "reviewing")) == ["passed", "rejected", "failed"]
    assert claimable(at("loop", "half_open")) == ["progressed", "done"]


def test_a_writer_is_untested_only_where_there_is_no_test_phase() -> None:
    for proof, required, outcome in (
        (PROOF, True, "written"),
        (PROOF, False, "untested"),
        ((), True, "untested"),
    ):
        given = settings(proof=proof, require_test_pass=required)
        assert first_outcome(at("build", "write", given)) == outcome
        assert first_outcome(at("build", "fix", given)) == "fixed"
        assert outcome_of(at("build", "write", given), act("agent:coder"), ok("u"))[0] == outcome
        assert (
            outcome_of(at("build", "fix", given), act("agent:coder"), ok("u", outcome="rewrite"))[0]
            == "rewrite"
        )


def cto(**more: Any) -> Run:
    return at("task", "cto_intervention", **{"origin": "testing", **more})


@pytest.mark.parametrize(
    ("claim", "fits"),
    [
        ({}, True),
        ({"outcome": "escalate"}, True),
        ({"outcome": "retry"}, True),
        ({"outcome": "retry", "data": {"state": "testing"}}, True),
        ({"outcome": "retry", "data": {"state": "planning"}}, True),
        ({"outcome": "retry", "data": {"state": "quality_review"}}, False),
        ({"outcome": "retry", "data": {"state": "completed"}}, False),
        ({"outcome": "rollback", "data": {"state": "planning"}}, True),
        ({"outcome": "rollback", "data": {"state": "testing"}}, False),
        ({"outcome": "rollback", "data": {"state": "approved"}}, False),
        ({"outcome": "skip"}, True),
        ({"outcome": "banana"}, False),
        ({"data": {"kind": "banana"}}, False),
        ({"data": {"kind": "retry"}}, True),
        ({"outcome": "skip", "data": {"kind": "rollback"}}, False),
    ],
)
def test_a_recovery_goes_back_or_to_the_next_state_and_nowhere_else(
    claim: dict[str, Any], fits: bool
) -> None:
    assert (misfit(cto(), "cto", e.Claim(**claim)) == "") is fits


def test_who_came_from_no_working_state_is_sent_to_any() -> None:
    for state in ("planning", "committing"):
        assert misfit(cto(origin=""), "cto", e.Claim(outcome="retry", data={"state": state})) == ""
    assert misfit(cto(origin=""), "cto", e.Claim(outcome="skip")) != ""
    assert misfit(cto(origin=""), "cto", e.Claim(outcome="retry")) != ""


ONLY_RETRY = {
    "name": "mine",
    "start": "help",
    "states": {
        "help": {"do": "agent:cto", "on": {"retry": "help", "escalate": "person", "unproven": "help"}},
        "person": {"do": "ask", "on": {"answered": "done", "unproven": "help"}},
        "done": {"end": "success"},
    },
    "anywhere": anywhere(),
    "most": {"turns": 5},
}


def test_a_recovery_that_the_table_does_not_have_is_an_escalation() -> None:
    run = at(ONLY_RETRY, "help")
    for kind in ("rollback", "skip", "escalate"):
        claim = e.Claim(outcome=kind, data={"state": "nowhere"})
        assert misfit(run, "cto", claim) == ""
        assert outcome_of(run, act("agent:cto"), ok("t", outcome=kind, data={"state": "x"})) == (
            "escalate",
            {},
            (),
        )
    assert recovery_state(run, e.Claim(outcome="retry", data={"state": "person"})) == "help"
    assert outcome_of(run, act("agent:cto"), ok("t", outcome="retry"))[0] == "retry"


def test_where_a_recovery_leads() -> None:
    assert recovery_state(cto(), e.Claim(outcome="retry")) == "testing"
    assert recovery_state(cto(), e.Claim(outcome="retry", data={"state": "planning"})) == "planning"
    assert recovery_state(cto(), e.Claim(outcome="skip", data={"state": "planning"})) == "quality_review"
    assert recovery_state(cto(origin=""), e.Claim(outcome="skip")) == ""
    assert recovery_state(cto(), e.Claim(outcome="escalate")) == "human_escalation"


def test_what_the_cto_says_is_passed_on_with_where_to() -> None:
    claimed = ok("t", outcome="retry", data={"guidance": "Try b."}, message="long")
    assert outcome_of(cto(), act("agent:cto"), claimed) == (
        "retry",
        {"state": "testing"},
        ("The CTO says: Try b.",),
    )
    worded = ok("t", outcome="retry", message="Try c.")
    assert outcome_of(cto(), act("agent:cto"), worded)[2] == ("The CTO says: Try c.",)
    assert outcome_of(cto(), act("agent:cto"), ok("t", outcome="retry"))[2] == ()
    assert outcome_of(cto(), act("agent:cto"), ok("t", message="?")) == ("escalate", {}, ())


# ---- judges, authors and reviewers -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("claim", "outcome", "told"),
    [
        ({"signal": "PASS"}, "accepted", False),
        ({"signal": "FAIL"}, "rejected", True),
        ({}, "rejected", True),
        ({"outcome": "accepted"}, "accepted", False),
        ({"outcome": "accepted", "signal": "FAIL"}, "rejected", True),
        ({"outcome": "rejected", "signal": "PASS"}, "rejected", True),
        ({"outcome": "unproven", "signal": "PASS"}, "accepted", False),
    ],
)
def test_a_judge_passes_only_what_it_says_it_passes(claim: dict[str, Any], outcome: str, told: bool) -> None:
    found = outcome_of(
        at("build", "verify"), act("agent:critic"), ok("t", message="No.", data={"k": 1}, **claim)
    )
    assert found == (outcome, {"k": 1}, ("The reviewer says:\nNo.",) if told else ())
    silent = outcome_of(at("build", "verify"), act("agent:critic"), ok("t", **claim))
    assert silent[2] == ()


@pytest.mark.parametrize(
    ("given", "signal", "outcome"),
    [
        ({}, "DONE", "done"),
        ({}, "", "worked"),
        ({}, "PASS", "worked"),
        ({}, "FAIL", "failed"),
        ({"review": "always"}, "DONE", "worked"),
        ({"consensus": True}, "DONE", "worked"),
        ({"proof": ()}, "DONE", "worked"),
    ],
)
def test_an_author_is_done_alone_only_where_a_proof_stands_in_for_the_reviewer(
    given: dict[str, Any], signal: str, outcome: str
) -> None:
    run = at("review", "working", settings(**given))
    found = outcome_of(run, act("agent:author"), ok("t", signal=signal, message="Here."))
    told = () if outcome == "failed" else ("The author says:\nHere.",)
    assert found == (outcome, {}, told)
    assert outcome_of(run, act("agent:author"), ok("t", signal=signal))[2] == ()


def test_inside_another_checkout_no_proof_is_needed_for_done() -> None:
    run = at("review", "working", settings(proof=()))
    inner = replace(run, began=replace(run.began, owner=False))
    assert outcome_of(inner, act("agent:author"), ok("t", signal="DONE"))[0] == "done"


def test_under_consensus_a_pass_counts_for_the_tree_of_which_the_author_said_done() -> None:
    said = ok("t", signal="PASS")
    both = at("review", "reviewing", settings(consensus=True))
    assert outcome_of(replace(both, done_tree="t"), act("agent:reviewer"), said) == ("passed", {}, ())
    outcome, _, told = outcome_of(replace(both, done_tree="u"), act("agent:reviewer"), said)
    assert (outcome, len(told)) == ("rejected", 1) and "has not said" in told[0]
    alone = at("review", "reviewing", done_tree="u")
    assert outcome_of(alone, act("agent:reviewer"), said)[0] == "passed"


def test_a_reviewer_rejects_with_what_it_found_or_passes_what_it_closed() -> None:
    run = at("review", "reviewing")
    assert outcome_of(run, act("agent:reviewer"), ok("t", message="F1.")) == (
        "rejected",
        {},
        ("The reviewer says:\nF1.",),
    )
    closed = (e.Finding(id="F1", status="fixed"),)
    assert outcome_of(run, act("agent:reviewer"), ok("t", findings=closed))[0] == "passed"


# ---- a worker ------------------------------------------------------------------------------------------------------------------


def test_a_worker_is_done_with_the_signal_and_two_indicators_and_no_high_finding() -> None:
    run, turn = at("loop", "closed"), finish("u")
    assert outcome_of(run, act(), turn) == ("done", {}, ())
    assert missing_for_exit(run, turn.claim) == []
    high = e.Finding(id="F1", severity="high", status="open")
    for finding, missing in (
        (high, ["A high finding is still open."]),
        (replace(high, status="fixed"), []),
        (replace(high, severity="low"), []),
    ):
        assert missing_for_exit(replace(run, findings=(finding,)), turn.claim) == missing
    assert missing_for_exit(run, replace(turn.claim, missing=("Say it.",))) == ["Say it."]
    unsaid = missing_for_exit(run, replace(turn.claim, finished=False))
    assert unsaid == ["The exit signal is not set."]


@pytest.mark.parametrize(
    ("indicators", "count"),
    [((), 0), (("all done",), 1), (("all done", "all done"), 1), (("all done", "task complete"), 2)],
)
def test_indicators_are_counted_once_each(indicators: tuple[str, ...], count: int) -> None:
    missing = missing_for_exit(at("loop", "closed"), e.Claim(finished=True, indicators=indicators))
    assert [text.partition(" distinct")[0] for text in missing] == ([f"{count} of 2"] if count < 2 else [])


@pytest.mark.parametrize(
    ("claim", "told"),
    [
        ({}, False),
        ({"indicators": ("all done",)}, False),
        ({"indicators": ("all done", "all done")}, False),
        ({"indicators": ("all done", "task complete")}, True),
        ({"finished": True}, True),
    ],
)
def test_who_tried_to_be_done_is_told_what_is_missing(claim: dict[str, Any], told: bool) -> None:
    outcome, _, notes = outcome_of(at("loop", "closed"), act(), ok("u", **claim))
    assert (outcome, bool(notes)) == ("worked", told)
    assert not told or notes[0].startswith("Not done yet: ")


@pytest.mark.parametrize(
    ("state", "fields", "outcome"),
    [
        ("closed", {"no_progress": 4}, "worked"),
        ("closed", {"no_progress": 5}, "stalled"),
        ("closed", {"error_count": 10}, "stalled"),
        ("half_open", {"progressed": True, "no_progress": 9}, "progressed"),
        ("half_open", {"progressed": False}, "stalled"),
    ],
)
def test_a_worker_that_is_not_done_goes_on_or_has_stalled(
    state: str, fields: dict[str, Any], outcome: str
) -> None:
    assert outcome_of(at("loop", state, **fields), act(), ok("u"))[0] == outcome


NO_CIRCUIT = {
    **ONLY_RETRY,
    "start": "work",
    "states": {
        "work": {"do": "agent:worker", "on": {"worked": "work", "done": "end", "unproven": "work"}},
        "end": {"end": "success"},
    },
    "most": {"turns": 9, "no_progress": 2},
}


def table(do: str, *outcomes: str) -> Run:
    """A machine of one working state with these outcomes."""
    on = {outcome: "end" if at == 0 else "work" for at, outcome in enumerate(outcomes)}
    states = {"work": {"do": do, "on": {**on, "unproven": "work"}}, "end": {"end": "success"}}
    return at({**ONLY_RETRY, "start": "work", "states": states}, "work")


def test_a_role_is_read_by_its_own_rules_whatever_its_outcomes_are_called() -> None:
    """A critic that says nothing has not passed, and a coder that claims to be done has claimed it."""
    critic = table("agent:critic", "passed", "rejected")
    assert outcome_of(critic, act("agent:critic"), ok("t"))[0] == "rejected"
    coder = table("agent:coder", "written", "done")
    assert outcome_of(coder, act("agent:coder"), ok("t", outcome="done"))[0] == "done"
    author = table("agent:author", "drafted", "again")
    assert outcome_of(author, act("agent:author"), ok("t", outcome="again", signal="DONE"))[0] == "again"
    reviewer = table("agent:reviewer", "good", "rejected")
    assert outcome_of(reviewer, act("agent:reviewer"), ok("t", outcome="good"))[0] == "good"
    worker = table("agent:worker", "fine", "again")
    assert outcome_of(worker, act(), ok("t", outcome="again"))[0] == "again"


def test_where_the_table_places_no_stall_a_worker_goes_on() -> None:
    assert outcome_of(at(NO_CIRCUIT, "work", no_progress=9), act(), ok("u"))[0] == "worked"


@pytest.mark.parametrize(
    ("fields", "code", "numbers"),
    [
        ({"no_progress": 4}, "", ()),
        ({"no_progress": 5}, "loop.no_progress", ("5", "5")),
        ({"no_progress": 6, "moved_tree": True}, "loop.oscillation", ("5", "6")),
        ({"error_count": 9}, "", ()),
        ({"error_count": 10}, "loop.same_error", ("10", "10")),
        ({"no_progress": 5, "error_count": 10}, "loop.no_progress", ("5", "5")),
    ],
)
def test_a_circuit_opens_at_its_limits(fields: dict[str, Any], code: str, numbers: tuple[str, ...]) -> None:
    seen = stalled(at("loop", "closed", last_error="boom", **fields))
    assert (seen.code if seen else "") == code
    assert seen is None or ((seen.threshold, seen.observed), seen.detail) == (numbers, "boom")
    assert stalled(at("build", "write", **fields)) is None  # it has no such limits


@pytest.mark.parametrize(
    ("machine", "state", "fields", "outcome"),
    [
        ("loop", "closed", {}, "unproven"),
        ("loop", "closed", {"no_progress": 5}, "stalled"),
        ("loop", "half_open", {"progressed": True, "no_progress": 5}, "progressed"),
        ("loop", "half_open", {"progressed": False, "no_progress": 5}, "unproven"),
        ("build", "verify", {"no_progress": 9}, "unproven"),
    ],
)
def test_a_claim_that_failed_the_gate_is_an_ordinary_turn(
    machine: str, state: str, fields: dict[str, Any], outcome: str
) -> None:
    assert unproven(at(machine, state, **fields)) == outcome


@pytest.mark.parametrize(
    ("target", "outcome"),
    [("end", "unproven"), ("work", "progressed"), ("lost", "progressed"), ("@ask", "progressed")],
)
def test_progress_stands_for_a_failed_gate_only_where_it_does_not_end_in_success(
    target: str, outcome: str
) -> None:
    """Else a claim that was not proved would complete the run."""
    on = {"done": "end", "progressed": target, "unproven": "work"}
    states = {
        "work": {"do": "agent:worker", "on": on},
        "end": {"end": "success"},
        "lost": {"end": "failure"},
    }
    run = at({**ONLY_RETRY, "start": "work", "states": states}, "work", progressed=True)
    assert unproven(run) == outcome


def test_a_circuit_that_opens_is_told_with_the_end_of_its_error_and_the_last_turns() -> None:
    run = at("loop", "closed", last_error="x" + "y" * 300, lately=("turn 1 (worker)", "turn 2 (worker)"))
    said = solutions(run, e.Stop(code="loop.no_progress", threshold="5", observed="6"))
    assert "loop.no_progress (6 of 5)" in said and "turn 1 (worker); turn 2 (worker)." in said
    assert "y" * 300 in said and "xy" not in said
    assert "The last turns" not in solutions(at("loop", "closed"), e.Stop(code="loop.no_progress"))


# ---- tool calls ----------------------------------------------------------------------------------------------------------------


def loop_of(**limits: int) -> Run:
    return at("loop", "closed", settings(limits={"loop": limits}))


@pytest.mark.parametrize(
    ("limits", "halt", "warn", "same"),
    [
        ({}, 600, 300, 3),
        ({"calls": 100}, 100, 50, 3),
        ({"calls": 2000}, 2000, 300, 3),
        ({"same_action": 7}, 600, 300, 7),
    ],
)
def test_calls_of_a_turn_are_limited_as_configured(
    limits: dict[str, int], halt: int, warn: int, same: int
) -> None:
    found = call_limits(loop_of(**limits))
    assert (found.halt, found.warn, found.same_call) == (halt, warn, same)


def test_a_warning_is_due_above_half_the_calls_unless_the_turn_was_halted() -> None:
    run = loop_of(calls=100)
    many = e.TurnEnded(verdict="ok", calls=51)
    found = warned(run, many, NOW)
    assert len(found) == 1 and isinstance(found[0], e.Warned)
    assert (found[0].code, found[0].at) == ("limit.actions", NOW)
    assert "51 tool calls" in found[0].text and "above 50" in found[0].text
    assert warned(run, replace(many, calls=50), NOW) == []
    assert warned(run, replace(many, halted="loop.same_action"), NOW) == []
    assert warned(run, proved(), NOW) == []
