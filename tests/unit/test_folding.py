"""What each fact adds to a run: what it begins with, what an answer renews, what an end leaves."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from flyball.core import events as e
from flyball.core.run import BY_A_PERSON, Run, apply, begin, cto_most, fold, freeze, thaw
from flyball.core.settings import Settings
from flyball.core.tally import FRESH, Proof
from flyball.errors import FlyballError, InvalidTransition
from support import PROOF, anywhere, begun

NOW = 77


def settings(**more: Any) -> Settings:
    return Settings(**{"proof": PROOF, "agents": {"default": "script:x"}, **more})


def at(machine: Any = "loop", state: str = "", given: Settings | None = None, **more: Any) -> Run:
    run = begin(begun(machine, given or settings()))
    return replace(run, **{"state": state or run.state, **more})


def act(do: str = "agent:worker", **more: Any) -> e.Act:
    return e.Act(**{"key": "r1-1", "do": do, "state": "closed", "turn": 1, "tree": "t", **more})


# ---- the beginning -----------------------------------------------------------------------------------------------------------


def test_a_run_begins_with_nothing_counted_and_nothing_said() -> None:
    run = begin(replace(begun("loop"), at=NOW))
    numbers = {name: value for name in run.__struct_fields__ if type(value := getattr(run, name)) is int}
    assert {name for name, value in numbers.items() if value} == {"at", "entered_at"}
    flags = [name for name in run.__struct_fields__ if getattr(run, name) is True]
    assert flags == [] and run.error_before == ("", 0)
    assert (run.spent, run.spent_base) == (e.Usage(), e.Usage())
    assert (run.at, run.entered_at, run.status, run.entries) == (NOW, NOW, "running", {"closed": 1})


@pytest.mark.parametrize(
    ("machine", "start", "iteration"),
    [
        ("review", "", 0),
        ("review", "init", 0),
        ("review", "working", 1),
        ("review", "reviewing", 1),
        ("build", "", 0),
        ("build", "write", 1),
        ("build", "verify", 1),
        ("loop", "", 0),
        ("loop", "half_open", 0),
    ],
)
def test_who_begins_in_the_midst_of_an_iteration_is_in_the_first(
    machine: str, start: str, iteration: int
) -> None:
    assert begin(replace(begun(machine), start=start)).iteration == iteration


def test_a_run_in_anothers_checkout_finds_it_prepared_and_proved() -> None:
    own, inner = begin(begun("loop")), begin(replace(begun("loop"), owner=False, tree="t"))
    assert (own.owner, own.prepared, own.baselined, own.seen) == (True, False, False, ())
    assert (inner.owner, inner.prepared, inner.baselined, inner.seen) == (False, True, True, ("t",))


def test_a_run_begins_only_in_a_state_of_its_machine_and_only_with_its_beginning() -> None:
    with pytest.raises(FlyballError, match="has no state 'nowhere'"):
        begin(replace(begun("loop"), start="nowhere"))
    with pytest.raises(ValueError, match="begins with RunBegan"):
        fold(None, [e.Told(at=1, text="x")])
    with pytest.raises(ValueError, match="begins with RunBegan"):
        fold(None, [])


def test_a_limit_is_the_parents_then_the_settings_then_the_machines_own() -> None:
    assert at().most("turns") == 50
    given = settings(limits={"loop": {"turns": 7}})
    assert at(given=given).most("turns") == 7
    for said, most in ((3, 3), (0, 0), (True, 7), ("3", 7)):
        inner = begin(replace(begun("loop", given), options={"turns": said}))
        assert inner.most("turns") == most
    assert at().most("nothing") is None
    assert at(given=settings(write="loop")).option("write") == "loop"
    assert begin(replace(begun("build"), options={"write": "loop"})).option("write") == "loop"
    assert at().option("nothing") is None


def test_turns_are_those_of_the_run_and_of_its_descendants() -> None:
    assert at(turn=2, below_turns=3).turns == 5


def test_a_snapshot_is_the_run() -> None:
    run = at(turn=2, told=("x",), act=act())
    assert thaw(freeze(run)) == run


# ---- acts --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("do", "told"), [("agent:worker", ()), ("run:loop", ()), ("proof", ("x",)), ("restore", ("x",))]
)
def test_what_was_told_is_delivered_to_who_works_and_kept_from_all_else(
    do: str, told: tuple[str, ...]
) -> None:
    run = apply(at(told=("x",), acts=3), e.ActStarted(at=NOW, act=act(do, child="c")))
    assert (run.told, run.acts, run.child, run.at) == (told, 4, "c", NOW)


def test_an_agents_session_is_kept_under_its_name_and_role() -> None:
    run = at(sessions={"a|worker": "old"})
    begun_anew = apply(run, e.ActStarted(at=NOW, act=act(agent="b", session="s")))
    assert begun_anew.sessions == {"a|worker": "old", "b|worker": "s"}
    assert apply(run, e.ActStarted(at=NOW, act=act(agent="a"))).sessions == {"a|worker": "old"}


def test_interruptions_are_in_a_row_until_something_is_done_and_putting_back_is_nothing() -> None:
    run = at(interruptions=3, act=act("restore", why="putback"), wall_us=5)
    back = e.ActFinished(at=NOW, key="r1-1", result=e.Restored(tree="t"), took_us=2)
    check = e.ActFinished(at=NOW, key="r1-1", result=e.CheckEnded(outcome="ready"), took_us=2)
    assert (apply(run, back).interruptions, apply(run, check).interruptions) == (3, 0)
    assert apply(run, check).wall_us == 7 and apply(run, check).act is None


@pytest.mark.parametrize(
    ("do", "put_back"), [("agent:worker", True), ("proof", False), ("run:loop", False), ("commit", False)]
)
def test_an_interrupted_turn_is_put_back_and_told_again_and_any_other_act_is_only_done_again(
    do: str, put_back: bool
) -> None:
    running = at(act=act(do, told=("first",)), told=("second",), child="c", interruptions=1)
    run = apply(running, e.ActInterrupted(at=NOW, key="r1-1", reason="killed"))
    assert (run.act, run.child, run.interruptions, run.cut, run.gone) == (None, "", 2, "killed", False)
    assert (run.todo is not None and (run.todo.tree, run.todo.why)) == (put_back and ("t", "putback"))
    assert run.told[: 2 if put_back else 1] == (("first", "second") if put_back else ("second",))
    assert any("interrupted (killed)" in text for text in run.told) is put_back


def test_an_interruption_of_nothing_changes_no_tree() -> None:
    run = apply(at(told=("x",)), e.ActInterrupted(at=NOW, key="r1-1", reason="killed", gone=True))
    assert (run.todo, run.told, run.gone) == (None, ("x",), True)
    assert apply(at(), e.ActInterrupted(at=NOW, key="k", reason=BY_A_PERSON)).interruptions == 0


# ---- transitions -------------------------------------------------------------------------------------------------------------


def moved(run: Run, target: str, outcome: str, **more: Any) -> Run:
    return apply(run, e.Moved(at=NOW, source=run.state, target=target, outcome=outcome, **more))


def test_a_transition_that_the_table_does_not_have_is_refused() -> None:
    with pytest.raises(InvalidTransition):
        moved(at(), "half_open", "worked")


def test_a_new_iteration_counts_and_its_entries_begin_anew() -> None:
    run = at("build", "fix", entries={"fix": 2, "test": 1}, iteration=1, retries=2, held=None)
    again = moved(run, "write", "rewrite")
    assert (again.iteration, again.entries) == (2, {"write": 1})
    on = moved(run, "test", "fixed")
    assert (on.iteration, on.entries, on.retries) == (1, {"fix": 2, "test": 2}, 0)
    assert (on.previous, on.state, on.entered_at, on.held) == ("fix", "test", NOW, None)


def test_a_circuit_that_opens_lets_go_of_its_counts_only_where_nobody_is_asked() -> None:
    counts = {"no_progress": 5, "moved_tree": True, "error_count": 10}
    asked = moved(at(**counts), "open", "stalled")
    assert (asked.no_progress, asked.moved_tree, asked.error_count) == (5, True, 10)
    table = {
        "name": "mine",
        "start": "work",
        "states": {
            "work": {"do": "agent:worker", "on": {"done": "end", "stalled": "other", "unproven": "work"}},
            "other": {"do": "agent:coder", "on": {"written": "work", "unproven": "work"}},
            "end": {"end": "success"},
        },
        "anywhere": anywhere(exhausted="other"),
        "most": {"turns": 5, "no_progress": 2},
    }
    helped = moved(at(table, "work", **counts), "other", "stalled")
    assert (helped.no_progress, helped.moved_tree, helped.error_count) == (0, False, 0)
    kept = moved(at(table, "other", **counts), "work", "written")
    assert (kept.no_progress, kept.moved_tree, kept.error_count) == (5, True, 10)
    used = at(table, "work", turn=5, entries={"work": 1})
    renewed = moved(used, "other", "exhausted", reason="limit.turns")
    assert (renewed.turns_base, used.turns_base) == (5, 0)
    assert moved(at(table, "other", turn=5), "work", "written", reason="limit.turns").turns_base == 0


@pytest.mark.parametrize(
    ("state", "target", "outcome", "count"),
    [
        ("testing", "quality_review", "passed", 0),
        ("testing", "in_progress", "failed", 2),
        ("testing", "cto_intervention", "third_failure", 0),
        ("testing", "cto_intervention", "error", 0),
        ("quality_review", "in_progress", "failure", 2),
    ],
)
def test_failures_of_a_state_are_forgotten_where_it_is_left_forwards_or_for_the_cto(
    state: str, target: str, outcome: str, count: int
) -> None:
    run = moved(at("task", state, failures={state: 2, "planning": 1}), target, outcome)
    assert run.failures == {state: count, "planning": 1}
    assert run.origin == (state if target == "cto_intervention" else "")


def test_the_ctos_attempts_are_used_when_its_state_is_left_and_never_more_than_there_are() -> None:
    for used, after in ((0, 1), (1, 2), (2, 2)):
        left = moved(at("task", "cto_intervention", cto_attempts=used, origin="testing"), "testing", "retry")
        assert (left.cto_attempts, left.origin) == (after, "testing")
    assert moved(at("task", "testing"), "cto_intervention", "third_failure").cto_attempts == 0
    assert cto_most(at("loop")) == 2
    assert cto_most(at("task", given=settings(limits={"task": {"cto": 0}}))) == 0


# ---- stops and answers -------------------------------------------------------------------------------------------------------


def waiting(code: str = "wait.question", rule: str = "", run: Run | None = None, **more: Any) -> Run:
    asked = e.Question(id="r1.1", kind="loop", text="?", verbs=("go-on",))
    event = e.Stopped(at=NOW, status="waiting", stop=e.Stop(code=code, rule=rule), question=asked, until=99)
    return replace(apply(run or at(), event), **more)


def answered(run: Run, verb: str = "go-on", **more: Any) -> Run:
    return apply(run, e.Answered(at=NOW + 1, question="r1.1", verb=verb, **more))


def test_only_what_is_asked_counts_as_a_question() -> None:
    assert waiting().questions == 1
    silent = apply(at(), e.Stopped(at=NOW, status="waiting", stop=e.Stop(code="wait.rate_limit"), until=9))
    assert (silent.questions, silent.until, silent.status) == (0, 9, "waiting")


def test_an_answer_goes_on_and_says_who_and_what() -> None:
    run = answered(waiting(told=("a",)), text="b", who="anna")
    assert (run.status, run.stop, run.question, run.until) == ("running", None, None, None)
    assert (run.told, run.answered_by, run.at) == (("a", "b"), "anna", NOW + 1)
    assert answered(waiting(told=("a",))).told == ("a",)


COUNTS: dict[str, Any] = {
    "retries": 2,
    "contexts": 2,
    "interruptions": 5,
    "gone": True,
    "no_progress": 5,
    "moved_tree": True,
    "error_count": 10,
}


def test_an_answer_begins_at_zero_what_had_run_out() -> None:
    run = answered(waiting(**COUNTS, turn=9, entries={"closed": 3}))
    assert not any(getattr(run, name) for name in COUNTS)
    assert (run.turns_base, run.wall_base, run.entries) == (0, 0, {"closed": 3})


@pytest.mark.parametrize(
    ("rule", "turns", "wall"),
    [
        ("limit.turns", 7, 0),
        ("limit.fix_attempts", 7, 0),
        ("limit.iterations", 7, 0),
        ("failed.tests", 7, 0),
        ("limit.time", 0, 8),
        ("failed.agent", 0, 0),
    ],
)
def test_an_answer_to_an_escalation_renews_the_limit_that_led_to_it(rule: str, turns: int, wall: int) -> None:
    used = {"turn": 4, "below_turns": 2, "barren": 1, "wall_us": 8, "iteration": 3, "entries": {"closed": 3}}
    run = answered(waiting("wait.escalation", rule, **used))
    assert (run.turns_base, run.wall_base) == (turns, wall)
    assert (run.iteration_base, run.entries) == ((3, {}) if turns else (0, {"closed": 3}))
    other = answered(waiting("wait.question", rule, **used))
    assert (other.turns_base, other.wall_base) == (0, 0)


def test_a_budget_that_is_raised_begins_anew_and_renews_nothing_else() -> None:
    spent = {"spent": e.Usage(cost_uusd=5), "turn_costs": (5,), "turn_tokens": (1,), "no_progress": 4}
    own = answered(waiting("limit.budget_usd", "budget.usd", **spent))
    assert (own.spent_base, own.turn_costs, own.turn_tokens, own.no_progress) == (
        e.Usage(cost_uusd=5),
        (),
        (),
        4,
    )
    seen = e.WindowSeen(at=1, day_uusd=9)
    for span in ("day", "week"):
        run = answered(waiting("limit.budget_usd", f"budget.{span}_usd", **spent, window=seen))
        assert (run.window, run.window_from, run.turn_costs, run.turn_tokens) == (None, NOW + 1, (), ())
        assert (run.spent_base, run.no_progress) == (e.Usage(), 4)
    assert answered(waiting(**spent, window=seen)).window == seen


def blocked(until: str = "block", diff: str = "d", **more: Any) -> Run:
    held = e.Held(at=1, outcome="worked", until=until)
    told = {"held": held, "ruling": e.Ruling(verdict="deny", diff=diff), **more}
    return waiting("blocked.guard.radius", **told)


def test_only_an_approval_of_what_was_judged_waives_it() -> None:
    assert answered(blocked(), "approve").waived == ("d",)
    assert answered(blocked("approval", waived=("c",)), "approve").waived == ("c", "d")
    assert answered(blocked(), "retry").waived == ()
    assert answered(blocked("breakpoint"), "approve").waived == ()
    assert answered(blocked(diff=""), "approve").waived == ()
    assert answered(blocked(ruling=None), "approve").waived == ()
    assert answered(blocked(held=None), "approve").waived == ()


def test_a_permission_is_granted_for_the_call_that_asked() -> None:
    run = waiting("wait.permission", granted=("a",))
    run = replace(run, stop=e.Stop(code="wait.permission", call="c"))
    assert answered(run, "approve").granted == ("a", "c")
    assert answered(run, "grant").granted == ("a", "once:c")
    assert answered(run, "reject").granted == ("a",)
    assert answered(replace(run, stop=None), "approve").granted == ("a",)


@pytest.mark.parametrize(
    ("machine", "state", "verb", "kept"),
    [
        ("loop", "closed", "retry", True),
        ("loop", "open", "retry", False),
        ("loop", "open", "answer", True),
        ("task", "committing", "retry", False),
        ("task", "committing", "go-on", False),
        ("task", "human_escalation", "retry", False),
        ("task", "human_escalation", "complete", True),
        ("task", "testing", "retry", True),
    ],
)
def test_again_means_that_the_tree_is_proved_anew(machine: str, state: str, verb: str, kept: bool) -> None:
    """Else the same proof of the same tree would lead straight back to the same stop."""
    run = waiting(run=at(machine, state), proof=Proof("t", False))
    assert (answered(run, verb).proof is not None) is kept


def test_an_answer_forgives_the_failures_that_led_to_the_question() -> None:
    failures = {"testing": 3, "planning": 2}
    escalated = waiting(run=at("task", "human_escalation"), origin="testing", failures=failures)
    assert answered(escalated, "retry").failures == {"testing": 0, "planning": 2}
    third = waiting(rule="third_failure", run=at("task", "planning"), failures=failures)
    assert answered(third).failures == {"testing": 3, "planning": 0}
    other = waiting(rule="other", run=at("task", "planning"), failures=failures)
    assert answered(other).failures == failures
    assert answered(replace(other, stop=None)).failures == failures
    assert answered(waiting(disputes={"F1": 2})).disputes == {}


@pytest.mark.parametrize(("asked", "left"), [("pause", ""), ("cancel", "cancel"), ("", "")])
def test_a_cancel_is_never_unsaid(asked: str, left: str) -> None:
    run = waiting(asked=asked)
    assert answered(run).asked == left
    resumed = apply(run, e.Resumed(at=NOW))
    assert (resumed.asked, resumed.status, resumed.stop, resumed.until) == (left, "running", None, None)
    paused = e.Stopped(at=NOW, status="paused", stop=e.Stop(code="wait.paused"))
    assert apply(run, paused).asked == left
    below = e.ChildStopped(at=NOW, run="c", status="waiting", stop=e.Stop(code="wait.question"), until=5)
    child = apply(at(asked=asked), below)
    assert (child.asked, child.status, child.until) == (left, "waiting", 5)


def test_a_child_that_goes_on_renews_a_budget_and_nothing_else() -> None:
    run = at(spent=e.Usage(cost_uusd=5), turn_costs=(5,), no_progress=4, status="waiting", until=9)
    for code, base in (("limit.budget_usd", 5), ("wait.question", 0)):
        after = apply(replace(run, stop=e.Stop(code=code)), e.ChildWentOn(at=NOW, run="c"))
        assert (after.spent_base.cost_uusd, after.status, after.stop, after.until) == (
            base,
            "running",
            None,
            None,
        )
        assert after.no_progress == 4
    assert apply(run, e.ChildWentOn(at=NOW, run="c")).spent_base == e.Usage()


def test_an_end_leaves_nothing_open_and_keeps_a_certificate() -> None:
    run = waiting(act=act(), held=e.Held(at=1, outcome="x", until="gate"), certificate="old")
    end = e.Ended(at=NOW, end="success", stop=e.Stop(code="completed"))
    left = apply(run, end)
    assert (left.status, left.question, left.until, left.act, left.held) == ("ended", None, None, None, None)
    assert (left.certificate, left.end) == ("old", "success")
    assert apply(run, replace(end, certificate="new")).certificate == "new"


# ---- small facts ---------------------------------------------------------------------------------------------------------------


def test_what_a_descendant_used_is_charged() -> None:
    run = at(spent=e.Usage(cost_uusd=1), below_turns=1, wall_us=2, played={"a|coder": 1}, changed=("x",))
    told = {"usage": e.Usage(cost_uusd=3), "turns": 1, "took_us": 5, "changed": ("x", "y")}
    known = apply(run, e.Charged(at=NOW, run="c", agent="a", role="coder", **told))
    assert (known.spent.cost_uusd, known.below_turns, known.wall_us) == (4, 2, 7)
    assert (known.played, known.changed) == ({"a|coder": 2}, ("x", "y"))
    new = apply(run, e.Charged(at=NOW, run="c", agent="b", role="coder", **told))
    assert new.played == {"a|coder": 1, "b|coder": 1}
    assert apply(run, e.Charged(at=NOW, run="c", **told)).played == {"a|coder": 1}


def test_a_newer_account_of_what_was_done_replaces_the_older_one_alone() -> None:
    run = at(told=(f"{FRESH} old", "hint"))
    assert apply(run, e.Told(at=NOW, text=f"{FRESH} new")).told == ("hint", f"{FRESH} new")
    assert apply(run, e.Told(at=NOW, text="more")).told == (f"{FRESH} old", "hint", "more")


def test_a_failing_proof_that_is_told_again_is_the_turns_error() -> None:
    run = at(error="other", error_count=1, error_before=("fp", 3))
    again = apply(run, e.Told(at=NOW, text="x", fingerprint="fp"))
    assert (again.error, again.error_count) == ("fp", 4)
    assert apply(run, e.Told(at=NOW, text="x")).error == "other"


def test_a_counted_failure_is_told_if_it_has_a_reason() -> None:
    event = e.FailureCounted(at=NOW, state="s", count=2, reason="why")
    run = apply(at(told=("a",), failures={"s": 1, "z": 1}), event)
    assert (run.failures, run.told) == ({"s": 2, "z": 1}, ("a", "why"))
    assert apply(at(told=("a",)), replace(event, reason="")).told == ("a",)


def test_an_agents_limit_is_kept_beside_those_of_others() -> None:
    run = apply(at(limited={"a": 1}), e.Limited(at=NOW, agent="b", until=5))
    assert run.limited == {"a": 1, "b": 5}
