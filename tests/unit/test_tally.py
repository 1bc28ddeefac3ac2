"""What the end of an act adds to a run: turns, errors, progress, and what is known of a tree."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from flyball.core import events as e
from flyball.core.ledger import KEPT, disputed, entered, settled, shown
from flyball.core.limits import agent_for, candidates, ends_at, free, limited, plan_used_up, so_far
from flyball.core.run import Run, begin
from flyball.core.settings import HOUR, Settings
from flyball.core.tally import (
    TREES_KEPT,
    Proof,
    after_child,
    after_commit,
    after_prepare,
    after_proof,
    after_restore,
    after_turn,
    union,
    waits_for_answer,
)
from support import PROOF, bad, begun, ok

NOW = 77


def at(machine: str = "loop", given: Settings | None = None, **more: Any) -> Run:
    settings = given or Settings(proof=PROOF, agents={"default": "a"})
    return replace(begin(begun(machine, settings)), **{"tree": "t", "seen": ("t",), "at": NOW, **more})


def act(do: str = "agent:worker", **more: Any) -> e.Act:
    return e.Act(**{"key": "r1-1", "do": do, "state": "closed", "turn": 1, "tree": "t", "agent": "a", **more})


def turned(run: Run, turn: e.TurnEnded, do: str = "agent:worker", **more: Any) -> Run:
    return after_turn(run, act(do, **more), turn)


# ---- checkouts, commits and children -------------------------------------------------------------------------------------------


def test_a_prepared_checkout_is_at_its_base_or_where_the_run_before_left_it() -> None:
    run = at(changed=("x",), lines=1)
    fresh = after_prepare(run, e.Prepared(base_tree="b", sandbox="none"))
    assert (fresh.prepared, fresh.tree, fresh.base_tree, fresh.seen) == (True, "b", "b", ("b",))
    again = after_prepare(run, e.Prepared(base_tree="b", tree="c", changed=("y",), lines=2))
    assert (again.tree, again.seen, again.changed, again.lines) == ("c", ("b", "c"), ("x", "y"), 3)
    assert after_prepare(run, e.Prepared(error="no git")).prepared is False
    assert after_prepare(run, e.Prepared(error="no git")).seen == ()


def test_a_commit_is_kept_and_a_refused_one_is_told() -> None:
    run = at(certificate="old", told=("x",))
    done = e.CommitEnded(outcome="committed", tree="t", certificate="new")
    kept = after_commit(run, done)
    assert (kept.committed, kept.certificate, kept.told) == (done, "new", ("x",))
    assert after_commit(run, replace(done, certificate="")).certificate == "old"
    refused = after_commit(run, e.CommitEnded(outcome="refused", tree="t", reason="a hook"))
    assert (refused.committed, refused.certificate) == (None, "old")
    assert refused.told == ("x", "The commit was refused:\na hook")


def test_a_childs_tree_is_the_runs_and_its_failure_is_remembered() -> None:
    run, stop = at(child="c", barren=1), e.Stop(code="failed.agent")
    good = after_child(run, e.ChildEnded(run="c", end="success", stop=stop, tree="u", turns=1))
    assert (good.tree, good.below, good.barren, good.child) == ("u", None, 1, "")
    lost = after_child(run, e.ChildEnded(run="c", end="failure", stop=stop))
    assert (lost.tree, lost.below, lost.barren) == ("t", stop, 2)


@pytest.mark.parametrize("why", ["approved", "hand-back"])
def test_a_change_that_a_person_let_stand_or_made_is_excused_and_progress(why: str) -> None:
    run = at(changed=("x",), lines=3, deleted=2, progressed=False)
    back = after_restore(run, act("restore", why=why), e.Restored(tree="u", changed=("y", "x"), lines=4))
    assert (back.tree, back.todo, back.changed, back.lines) == ("u", None, ("x", "y"), 7)
    assert (back.excused, back.excused_lines, back.deleted) == (("x", "y"), 7, 0)
    assert (back.seen, back.progressed) == (("t", "u"), True)
    known = after_restore(run, act("restore", why=why), e.Restored(tree="t"))
    assert (known.seen, known.progressed, known.deleted) == (("t",), False, 0)


@pytest.mark.parametrize("why", ["putback", "rollback"])
def test_what_is_only_put_back_excuses_nothing(why: str) -> None:
    run = at(changed=("x",), deleted=2)
    for back in (act("restore", why=why), None):
        after = after_restore(run, back, e.Restored(tree="u"))
        assert (after.tree, after.excused, after.deleted, after.seen) == ("u", (), 2, ("t",))


def test_of_the_trees_the_last_are_kept() -> None:
    many = tuple(f"x{n}" for n in range(TREES_KEPT + 50))
    assert TREES_KEPT == 512
    assert len(turned(at(seen=many), ok("u")).seen) == TREES_KEPT + 1
    approved = after_restore(at(seen=many), act("restore", why="approved"), e.Restored(tree="u"))
    assert len(approved.seen) == TREES_KEPT + 1 and approved.seen[-1] == "u"


# ---- turns ---------------------------------------------------------------------------------------------------------------------


def test_a_turn_adds_what_it_used_changed_and_said() -> None:
    run = at(spent=e.Usage(cost_uusd=1), changed=("x",), lines=1, deleted=1, message="old", last_error="e")
    turn = e.TurnEnded(
        verdict="ok",
        tree="u",
        usage=e.Usage(cost_uusd=2, output_tokens=3),
        changed=("x", "y"),
        lines=4,
        deleted=5,
        message="new",
        session="s",
        notes=("n",),
    )
    after = turned(replace(run, told=("later",)), turn, told=("heard",))
    assert (after.spent.cost_uusd, after.changed, after.lines, after.deleted) == (3, ("x", "y"), 5, 6)
    assert (after.message, after.sessions, after.told) == ("new", {"a|worker": "s"}, ("later", "n"))
    assert (after.turn, after.turn_costs, after.turn_tokens, after.last_error) == (1, (2,), (3,), "e")
    silent = turned(replace(run, sessions={"a|worker": "s"}), ok(""))
    assert (silent.message, silent.tree, silent.sessions) == ("old", "t", {"a|worker": "s"})
    assert turned(after, ok("u")).played == {"a|worker": 2}


@pytest.mark.parametrize("verdict", ["killed", "rate_limited", "context"])
def test_what_was_told_to_a_turn_that_came_to_nothing_is_told_to_the_next(verdict: str) -> None:
    assert turned(at(told=("later",)), bad(verdict), told=("heard",)).told == ("heard", "later")


@pytest.mark.parametrize(
    ("claim", "said"),
    [
        ({"finished": True}, True),
        ({"signal": "DONE"}, True),
        ({"signal": "PASS"}, True),
        ({"signal": "FAIL"}, False),
        ({}, False),
    ],
)
def test_whether_the_last_turn_said_that_it_is_done_is_known(claim: dict[str, Any], said: bool) -> None:
    assert turned(at(exit_signal=not said), ok("u", **claim)).exit_signal is said


def test_a_grant_for_once_is_for_one_turn_and_a_limit_is_none() -> None:
    run = at(granted=("for good", "once:c"))
    assert turned(run, ok("u")).granted == ("for good",)
    assert turned(run, bad("rate_limited")).granted == ("for good", "once:c")


@pytest.mark.parametrize(
    ("verdict", "contexts", "after", "counts"),
    [
        ("ok", 1, 0, True),
        ("killed", 1, 0, True),
        ("rate_limited", 1, 1, False),
        ("auth", 1, 1, False),
        ("context", 0, 1, False),
        ("context", 1, 2, True),
    ],
)
def test_a_limit_costs_no_turn_and_a_context_that_overflows_twice_does(
    verdict: str, contexts: int, after: int, counts: bool
) -> None:
    run = turned(
        at(contexts=contexts, turn=4, sessions={"a|worker": "s", "b|x": "z"}), bad(verdict, tree="u")
    )
    assert (run.contexts, run.turn, run.tree) == (after, 5 if counts else 4, "u")
    assert run.sessions == ({"b|x": "z"} if verdict == "context" else {"a|worker": "s", "b|x": "z"})


def test_limits_in_a_row_are_counted_as_far_as_two_and_failures_until_a_good_turn() -> None:
    run = at()
    assert [(run := turned(run, bad("network"))).limits for _ in range(3)] == [1, 2, 2]
    assert turned(run, ok("u")).limits == 0
    run = at()
    assert [(run := turned(run, bad("killed"))).retries for _ in range(3)] == [1, 2, 3]
    assert (turned(run, ok("u")).retries, turned(run, bad("network")).retries) == (0, 3)
    assert turned(at(contexts=1), bad("context")).retries == 1


def test_the_same_error_is_counted_in_a_row_and_none_begins_anew() -> None:
    run = at()
    seen = []
    for print_ in ("x", "x", "y", "y", "", "y"):
        before = (run.error, run.error_count)
        run = turned(run, e.TurnEnded(verdict="ok", tree="t", fingerprint=print_))
        seen.append(run.error_count)
        assert run.error_before == before
    assert seen == [1, 2, 1, 2, 0, 1]


def test_the_plans_window_is_as_last_reported_and_of_the_usual_length() -> None:
    run = at(plan_percent=10, plan_reset_at=5)
    silent = turned(run, ok("u"))
    assert (silent.plan_percent, silent.plan_reset_at) == (10, 5)
    told = turned(run, e.TurnEnded(verdict="ok", plan_percent=20, plan_reset_at=9))
    assert (told.plan_percent, told.plan_reset_at) == (20, 9)
    usual = turned(run, e.TurnEnded(verdict="ok", plan_percent=0))
    assert (usual.plan_percent, usual.plan_reset_at) == (0, NOW + 5 * HOUR)


@pytest.mark.parametrize(
    ("turn", "line"),
    [
        (ok("u"), "turn 1 (worker) changed nothing"),
        (replace(ok("u"), changed=("a", "b", "c")), "turn 1 (worker) changed a, b, c"),
        (replace(ok("u"), changed=("a", "b", "c", "d")), "turn 1 (worker) changed a, b, c …"),
        (bad("killed"), "turn 1 (worker) changed nothing, ended as killed"),
        (replace(ok("u"), message="\n  Hi. \nMore"), "turn 1 (worker) changed nothing: “Hi.”"),
        (replace(ok("u"), message="x" * 130), f"turn 1 (worker) changed nothing: “{'x' * 120}”"),
    ],
)
def test_a_turn_is_told_in_a_line(turn: e.TurnEnded, line: str) -> None:
    assert turned(at(), turn).lately == (line,)


@pytest.mark.parametrize(
    ("do", "turn", "tree", "progressed", "no_progress", "moved"),
    [
        ("agent:worker", ok("u"), "u", True, 0, False),
        ("agent:worker", ok("t"), "t", False, 4, False),
        ("agent:worker", ok(""), "t", False, 4, False),
        ("agent:worker", ok("old"), "old", False, 4, True),
        ("agent:worker", ok("u", ask="?"), "u", False, 3, False),
        ("agent:worker", ok("u", reading="blocked"), "u", False, 3, False),
        ("agent:worker", bad("needs_approval", tree="u"), "u", False, 3, False),
        ("agent:reviewer", ok("u"), "u", False, 3, False),
    ],
)
def test_a_tree_never_seen_is_progress_and_words_are_none(
    do: str, turn: e.TurnEnded, tree: str, progressed: bool, no_progress: int, moved: bool
) -> None:
    run = turned(at(seen=("old", "t"), no_progress=3), turn, do)
    assert (run.tree, run.progressed, run.no_progress, run.moved_tree) == (
        tree,
        progressed,
        no_progress,
        moved,
    )
    assert run.seen == (("old", "t", "u") if progressed else ("old", "t"))


def test_going_back_and_forth_is_remembered_until_there_is_progress() -> None:
    run = turned(at(seen=("old", "t")), ok("old"))
    assert run.moved_tree and turned(run, ok("old")).moved_tree
    assert not turned(run, ok("new")).moved_tree
    assert waits_for_answer(ok("u")) is False


def test_done_counts_for_the_tree_of_which_the_author_said_it() -> None:
    run = turned(at("review"), ok("u", signal="DONE"), "agent:author")
    assert run.done_tree == "u"
    assert turned(run, ok("v"), "agent:author").done_tree == ""
    assert turned(run, ok("u", signal="PASS"), "agent:reviewer").done_tree == "u"
    assert turned(at(), ok("u", signal="DONE")).done_tree == ""


# ---- proofs --------------------------------------------------------------------------------------------------------------------


def proved(failing: int | None = 0, **more: Any) -> e.ProofEnded:
    return e.ProofEnded(**{"tree": "t", "passed": not failing, "failing": failing, **more})


def test_the_proof_before_the_first_turn_is_what_others_are_measured_by() -> None:
    run = after_proof(at(error="x", error_count=2), act("proof", why="baseline"), proved(3, summary="s"))
    assert (run.baselined, run.baseline, run.fewest, run.error) == (True, 3, 3, "x")
    assert run.proof == Proof("t", False, 3, "s", (), NOW, "")
    gate = after_proof(at(), act("proof", why="gate"), proved(3))
    assert (gate.baselined, gate.baseline) == (False, None)
    assert after_proof(at(), None, proved(3)).baselined is False


@pytest.mark.parametrize(
    ("fewest", "failing", "progress", "after"),
    [
        (None, 3, True, 3),
        (3, 2, True, 2),
        (3, 3, False, 3),
        (3, 4, False, 3),
        (3, None, False, 3),
        (1, 0, True, 0),
    ],
)
def test_fewer_failing_tests_are_progress(
    fewest: int | None, failing: int | None, progress: bool, after: int
) -> None:
    run = at(fewest=fewest, progressed=False, no_progress=4, moved_tree=True)
    run = after_proof(run, act("proof", why="gate"), proved(failing, passed=failing == 0))
    assert (run.fewest, run.progressed, run.no_progress) == (after, progress, 0 if progress else 4)
    assert run.moved_tree is not progress


def test_a_failing_proof_is_the_error_of_its_turn_and_a_passing_one_is_none() -> None:
    run = at(error="turn", error_count=1, error_before=("fp", 2), last_error="old")
    failed = after_proof(run, act("proof", why="gate"), proved(1, fingerprint="fp", summary="boom"))
    assert (failed.error, failed.error_count, failed.last_error) == ("fp", 3, "boom")
    other = after_proof(run, act("proof", why="gate"), proved(1, fingerprint="zz"))
    assert (other.error, other.error_count, other.last_error) == ("zz", 1, "old")
    passed = after_proof(run, act("proof", why="gate"), proved(0, fingerprint="fp", summary="fine"))
    assert (passed.error, passed.error_count, passed.last_error) == ("turn", 1, "old")


def test_what_is_changed_is_kept_once_and_in_order() -> None:
    assert union(("a", "b"), ("c", "a")) == ("a", "b", "c")
    assert union(("a", "a"), ()) == ("a", "a")


# ---- findings ------------------------------------------------------------------------------------------------------------------


def found(name: str = "", **more: Any) -> e.Finding:
    return e.Finding(id=name, **more)


def test_findings_are_numbered_and_matched_by_name_or_by_place_and_words() -> None:
    ledger = entered((), "reviewer", [found(text="a", file="x"), found(text="b", file="x")])
    assert [(f.id, f.text, f.status) for f in ledger] == [("F1", "a", "open"), ("F2", "b", "open")]
    same = entered(ledger, "reviewer", [found(text="a", file="x", status="fixed")])
    assert [f.status for f in same] == ["fixed", "open"]
    elsewhere = entered(ledger, "reviewer", [found(text="a", file="y")])
    assert [f.id for f in elsewhere] == ["F1", "F2", "F3"]
    gap = entered((found("F2", text="z"),), "reviewer", [found(text="a")])
    assert [f.id for f in gap] == ["F2", "F1"]
    named = entered(ledger, "reviewer", [found("Q", text="c", status="fixed")])
    assert (named[-1].id, named[-1].status) == ("Q", "open")  # nothing begins closed


@pytest.mark.parametrize(
    ("role", "said", "status"),
    [
        ("reviewer", {"status": "fixed"}, "fixed"),
        ("reviewer", {"status": "accepted"}, "accepted"),
        ("reviewer", {"status": "banana"}, "open"),
        ("author", {"status": "fixed"}, "open"),
        ("author", {"status": "fixed", "evidence": "e"}, "fixed"),
        ("author", {"status": "accepted", "evidence": "e"}, "open"),
        ("author", {"status": "disputed"}, "disputed"),
        ("author", {"status": "open"}, "open"),
    ],
)
def test_a_judge_or_evidence_closes_a_finding(role: str, said: dict[str, str], status: str) -> None:
    ledger = (found("F1", text="a", evidence="old"), found("F2", text="b"))
    after = entered(ledger, role, [found("F1", text="other", **said)])
    assert (after[0].status, after[0].text, after[1]) == (status, "a", ledger[1])
    assert after[0].evidence == (said.get("evidence", "old") if status != "open" else "old")


def test_who_is_no_judge_may_only_open_a_new_finding() -> None:
    assert len(entered((), "author", [found(text="a")])) == 1
    assert entered((), "author", [found(text="a", status="disputed")]) == ()
    assert len(entered((), "critic", [found(text="a", status="disputed")])) == 1


def test_the_ledger_is_bounded_and_the_newest_stay() -> None:
    many = [found(f"Q{n}", text=f"t{n}") for n in range(KEPT + 5)]
    ledger = entered((), "reviewer", many)
    assert (KEPT, len(ledger), ledger[-1].id) == (200, 200, f"Q{KEPT + 4}")


def test_disputes_are_counted_by_those_to_whom_the_finding_was_made() -> None:
    ledger = (found("F1", text="a"), found("F2", text="b"))
    said = [found("F1", status="disputed"), found("F2", status="fixed"), found("F9", status="disputed")]
    assert disputed({"F1": 1}, ledger, "author", said) == {"F1": 2}
    assert disputed({}, ledger, "author", said) == {"F1": 1}
    assert disputed({"F1": 1}, ledger, "reviewer", said) == {"F1": 1}
    assert disputed({"F2": 1}, ledger, "author", [found(text="b", status="disputed")]) == {"F2": 2}


def test_a_round_that_closes_everything_settles_and_silence_does_not() -> None:
    closed, open_ = found("F1", status="fixed"), found("F2")
    assert settled((), (closed,)) and settled((closed,), (found("F2", status="accepted"),))
    assert not settled((closed,), ()) and not settled((open_,), (closed,)) and not settled((), (open_,))
    line = "F2 high open a.py:3 Why."
    assert shown((found("F2", severity="high", file="a.py", line=3, text="Why."),)).splitlines()[1:] == [line]
    assert shown(()) == ""


# ---- limits that clear by themselves -----------------------------------------------------------------------------------------------


def with_fallback(**more: Any) -> Run:
    return at(given=Settings(agents={"default": "a"}, fallback=("b", "c")), **more)


def test_another_agent_goes_on_while_a_limit_lasts_and_is_told_what_was_done() -> None:
    turn = e.TurnEnded(verdict="rate_limited", reset_at=NOW + 10)
    noted, told = limited(with_fallback(), act(), turn, NOW)
    assert isinstance(noted, e.Limited) and (noted.agent, noted.until) == ("a", NOW + 10)
    assert isinstance(told, e.Told) and told.who == "flyball"
    both = with_fallback(limited={"b": NOW + 5, "c": NOW + 3})
    _, stopped = limited(both, act(), turn, NOW)
    assert isinstance(stopped, e.Stopped) and (stopped.until, stopped.status) == (NOW + 3, "waiting")
    (alone,) = limited(at(), act(), turn, NOW)
    assert isinstance(alone, e.Stopped) and alone.until == NOW + 10


def test_a_limit_holds_an_agent_until_its_instant() -> None:
    run = with_fallback(limited={"a": NOW, "b": NOW + 1})
    assert (free(run, "worker", NOW), free(run, "worker", NOW - 1)) == ("a", "c")
    none = with_fallback(limited={"a": 99, "b": 99, "c": 99})
    assert (free(none, "worker", 98), agent_for(none, "worker", 98)) == ("", "a")
    assert free(with_fallback(), "worker", 0) == "a"  # no limit was ever said
    assert candidates(run, "worker") == ["a", "b", "c"]


def test_under_consensus_author_and_reviewer_change_places_in_every_second_iteration() -> None:
    given = Settings(agents={"author": "x", "reviewer": "y"}, consensus=True)
    for iteration, agent in ((1, "x"), (2, "y"), (3, "x")):
        assert agent_for(at("review", given, iteration=iteration), "author", NOW) == agent
    plain = Settings(agents={"author": "x", "reviewer": "y"})
    assert agent_for(at("review", plain, iteration=2), "author", NOW) == "x"


@pytest.mark.parametrize(
    ("most", "percent", "reset", "waits"),
    [(80, 80, NOW + 1, True), (80, 79, NOW + 1, False), (80, 90, NOW, False), (None, 100, NOW + 1, False)],
)
def test_a_plans_share_that_is_used_up_is_waited_for(
    most: int | None, percent: int, reset: int, waits: bool
) -> None:
    run = at(plan_percent=percent, plan_reset_at=reset)
    run = replace(run, settings=replace(run.settings, budget=replace(run.settings.budget, plan_percent=most)))
    found = plan_used_up(run, NOW)
    assert (found is not None) is waits
    assert found is None or (found.until, found.stop.threshold, found.stop.observed) == (
        reset,
        "80 %",
        "80 %",
    )


@pytest.mark.parametrize(
    ("reset", "limits", "until"),
    [
        (None, 1, NOW + 60_000_000),
        (NOW + 5, 1, NOW + 5),
        (NOW + 5, 2, NOW + 5),
        (NOW, 1, NOW),
        (NOW - 5, 1, NOW),
        (NOW, 2, NOW + 60_000_000),
        (NOW - 5, 2, NOW + 60_000_000),
    ],
)
def test_a_reset_that_is_past_is_tried_at_once_but_only_once(
    reset: int | None, limits: int, until: int
) -> None:
    turn = e.TurnEnded(verdict="rate_limited", reset_at=reset)
    assert ends_at(at(limits=limits), turn, NOW) == until


def test_jitter_is_small_for_plans_alone_and_none_for_short_waits() -> None:
    second = 1_000_000

    def late(wait: int, **more: Any) -> int:
        turn = e.TurnEnded(verdict="plan_limit", reset_at=NOW + wait)
        return ends_at(at(**more), turn, NOW) - NOW - wait

    assert late(10 * second - 1) == 0
    drawn = [late(10 * second, turn=n) for n in range(50)]
    assert 0 < max(drawn) <= second // 10 and len(set(drawn)) > 40
    assert second // 10 < max(late(10_000 * second, turn=n) for n in range(50)) <= 2 * second


def test_who_begins_afresh_is_told_the_last_turns_the_files_and_the_error() -> None:
    files = tuple(f"f{n}" for n in range(60))
    told = so_far(at(lately=("turn 1", "turn 2"), changed=files, last_error="x" + "y" * 1000))
    assert "What was done so far:\n- turn 1\n- turn 2\nFiles" in told
    assert "f49." in told and "f50" not in told
    assert "y" * 1000 in told and "xy" not in told
    nothing = so_far(at())
    assert nothing.endswith("Nothing was done before you.") and "Files" not in nothing
