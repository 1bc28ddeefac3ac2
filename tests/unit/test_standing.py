"""The standing loop: triggers, plans, steps, what is set aside, and when the runs below are stopped (CTO-5 … CTO-10)."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from flyball.core import standing, stops
from flyball.core.decide import Do, Note, Rest, due
from flyball.core.family import child_of
from flyball.core.mail import hear
from flyball.domain import events as e
from flyball.domain.messages import Answer, Ask, Start, encode
from flyball.domain.settings import Budget, Settings
from flyball.machines import shipped
from flyball.state.fold import begin, fold
from flyball.state.run import Run
from flyball.views.choices import choices
from flyball.views.reasons import happened, how_to_answer, why
from support import Played, Script, begun, ok, start

MINUTE = 60_000_000
STEPS = (e.PlanStep(title="one", paths=("a.py",), criteria=("it works",)), e.PlanStep(title="two"))
PLAIN = e.Assessment(steps=STEPS)
RISKY = e.Assessment(steps=STEPS, tier="T2", approval=("It is T2.",))
DONE = e.Stop(code="completed")


def planner(*plans: e.Assessment | None) -> list[Any]:
    turn = ok()
    return [replace(turn, assessment=plan) for plan in plans]


def ended(end: str = "success", code: str = "completed", commit: str = "c1") -> Any:
    return lambda run, act: e.ChildEnded(
        run=act.child, end=end, stop=e.Stop(code=code), turns=1, commit=commit if end == "success" else ""
    )


def lane(*, plans: tuple[e.Assessment | None, ...] = (PLAIN,), children: Any = None) -> Played:
    script = Script(agent__planner=planner(*plans), run__task=children or [ended()])
    return start(script, begun("cto", commit="c0", branch="main")).go_on()


def triggered(played: Played, text: str = "work", **more: Any) -> Played:
    trigger = e.Trigger(text=text, **{"kind": "task", "ticket": "T1", "commit": "c0", **more})
    played.note(hear(played.run, encode(Start(trigger=trigger)), 1, played.now))
    return played.go_on()


def said(played: Played, verb: str, text: str = "") -> Played:
    assert played.run.question is not None
    answer = Answer(question=played.run.question.id, verb=verb, text=text, who="anna")
    played.note(hear(played.run, encode(answer), 1, played.now))
    return played.go_on()


def executing(settings: Settings | None = None, **more: Any) -> Run:
    """A lane that waits for the run below, which works on the first of two steps."""
    script = Script(agent__planner=planner(PLAIN))
    began = begun("cto")
    played = start(script, replace(began, settings=settings or began.settings)).go_on()
    trigger = e.Trigger(kind="task", text="work", ticket="T1", **more)
    played.note(hear(played.run, encode(Start(trigger=trigger)), 1, played.now))
    for _ in range(10):
        match due(played.run, played.now):
            case Note(facts):
                played.note(facts)
            case Rest():
                break
            case do:
                act = played.start_act(do.act)
                if act.child:
                    break
                played.finish_act(script(played.run, act))
    assert played.run.state == "EXECUTING" and played.run.act is not None
    return played.run


def charged(run: Run, **more: Any) -> Run:
    turn = e.Charged(at=run.at + 1, run="below", usage=e.Usage(), **{"role": "coder", "turns": 1, **more})
    return standing.charged(run, turn).run


def way(played: Played) -> list[str]:
    return played.path[1:]


# ---- steps -----------------------------------------------------------------------------------------------


def test_each_step_is_a_task_and_the_next_starts_from_its_result() -> None:
    played = triggered(lane(children=[ended(commit="c1"), ended(commit="c2")]))
    assert way(played) == ["PLANNING", "EXECUTING", "IDLE"]
    children = [act for act in played.acts if act.do == "run:task"]
    assert len(children) == 2 and played.run.plan.outcomes == {"T1": "done c2"}


def test_a_step_has_a_checkout_of_its_own_and_only_the_last_one_lands() -> None:
    run = executing(settings=replace(begun("cto").settings, commit="merge"))
    assert run.act is not None
    first = child_of(run, run.act, shipped("task").table, 1)
    assert (first.owner, first.root, first.parent, first.settings.commit) == (
        True,
        first.run,
        run.id,
        "branch",
    )
    assert first.task == "one\n\nIt is done when:\n- it works\n\nThis is step 1 of 2 of: work"
    assert first.options == {"ticket": "T1", "step": 1, "steps": 2, "tier": "T3", "files": 1}
    after = fold(run, [e.ActFinished(at=2, key=run.act.key, result=ended(commit="c9")(run, run.act))])
    second = child_of(after, replace(run.act, child="other"), shipped("task").table, 3)
    assert (second.commit, second.settings.commit, second.options["step"]) == ("c9", "merge", 2)
    assert (after.plan.failures, after.plan.idle, after.plan.advanced) == (0, 0, True)


@pytest.mark.parametrize(
    ("children", "path", "code"),
    [
        pytest.param(
            [ended("failure", "failed.tests"), ended()],
            "PLANNING EXECUTING PLANNING EXECUTING IDLE",
            "",
            id="planned again",
        ),
        pytest.param(
            [ended("failure", "failed.tests")],
            "PLANNING EXECUTING PLANNING EXECUTING WAITING_FOR_HUMAN",
            "loop.replan",
            id="without progress",
        ),
        pytest.param(
            [ended("cancelled", "cancelled")],
            "PLANNING EXECUTING WAITING_FOR_HUMAN",
            "wait.escalation",
            id="cancelled",
        ),
        pytest.param(
            [ended("failure", "failed.abandoned")],
            "PLANNING EXECUTING WAITING_FOR_HUMAN",
            "wait.escalation",
            id="abandoned",
        ),
        pytest.param(
            [ended(), ended("failure", "failed.tests"), ended(), ended("failure", "failed.tests")] * 3,
            "PLANNING EXECUTING PLANNING EXECUTING PLANNING EXECUTING PLANNING EXECUTING WAITING_FOR_HUMAN",
            "wait.escalation",
            id="too often",
        ),
    ],
)
def test_what_a_failed_step_leads_to(children: list[Any], path: str, code: str) -> None:
    played = triggered(lane(children=children))
    assert way(played) == path.split()
    again = [move.reason for move in played.of(e.Moved) if move.outcome == "replan"]
    assert all(" failed: failed.tests" in reason for reason in again), "CTO-1: planned again for a reason"
    assert (played.run.stop.code if played.run.stop else "") == code


# ---- plans -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("verb", "path"),
    [
        ("proceed", "EXECUTING IDLE"),
        ("approve", "EXECUTING IDLE"),
        ("drop", "IDLE"),
        ("reject", "IDLE"),
        ("replan", "PLANNING EXECUTING IDLE"),
    ],
)
def test_a_risky_plan_waits_for_a_yes(verb: str, path: str) -> None:
    played = triggered(lane(plans=(RISKY, PLAIN)))
    assert played.run.stop is not None and played.run.stop.code == "wait.approval"
    assert "Rollback" not in played.run.question.text and "1. one (a.py)" in played.run.question.text  # type: ignore[union-attr]
    said(played, verb)
    assert way(played) == ["PLANNING", "WAITING_FOR_HUMAN", *path.split()]
    assert played.run.plan.outcomes["T1"] == ("dropped" if path == "IDLE" else "done c1")


def test_to_go_on_from_a_breakpoint_is_no_approval_of_the_plan() -> None:
    script = Script(agent__planner=planner(RISKY), run__task=[ended()])
    given = replace(begun("cto").settings, breakpoints=("PLANNING",))
    played = triggered(start(script, replace(begun("cto", commit="c0"), settings=given)).go_on())
    assert played.run.stop is not None and played.run.stop.code == "wait.breakpoint"
    said(played, "go-on")
    assert played.run.stop.code == "wait.approval" and not played.run.plan.approved
    assert played.run.question is not None and "It needs your approval: It is T2." in played.run.question.text
    assert said(played, "proceed").run.state == "IDLE"


def test_the_answers_to_a_plan_are_offered_once_each() -> None:
    """`approve`, `go-on` and `reject` are other words for the same, and are taken too."""
    question = triggered(lane(plans=(RISKY, PLAIN))).run.question
    assert question is not None and {"approve", "go-on", "reject"} < {*question.verbs}
    assert dict(choices(question)) == {
        "proceed": "continue with the plan",
        "replan": "make a new plan",
        "drop": "give this task up",
        "redirect": "TEXT: make a new plan with your text",
        "cancel": "end the run; its branch stays",
    }
    assert how_to_answer(question).endswith('proceed|replan|drop|redirect "TEXT"|cancel')


def test_the_same_trigger_that_finds_nothing_again_and_again_asks() -> None:
    played = start(Script(agent__planner=ok(outcome="nothing", message="all is well")), begun("cto")).go_on()
    for _ in range(3):
        triggered(played, "look after it", ticket="")
        assert played.run.state == "IDLE"
    triggered(played, "look after it", ticket="T9")
    assert (played.run.state, played.path[-1]) == ("WAITING_FOR_HUMAN", "WAITING_FOR_HUMAN")
    assert said(played, "drop").run.plan.outcomes["T9"] == "dropped", "what became of it is known"


def test_a_second_repair_of_the_same_branch_is_for_a_person() -> None:
    """CTO-8: the first is planned like any work; the second interrupts nothing and asks."""
    repair = {"kind": "ci", "head": "flyball/abc", "priority": 80}
    assert way(triggered(lane(), **repair)) == ["PLANNING", "EXECUTING", "IDLE"]
    played = triggered(lane(), tried=True, **repair)
    assert way(played) == ["WAITING_FOR_HUMAN"] and played.run.stop is not None
    assert (played.run.stop.code, played.run.stop.rule) == ("wait.dependency", "CI")
    assert way(said(played, "replan")) == ["WAITING_FOR_HUMAN", "PLANNING", "EXECUTING", "IDLE"]
    again = e.Trigger(kind="ci", text="red", priority=80, tried=True)
    assert not standing.outranks(executing(), again) and standing.outranks(
        executing(), replace(again, tried=False)
    )


def test_the_last_step_repairs_the_branch_and_ticks_the_item() -> None:
    named = {"head": "flyball/abc", "tick": ("TODO.md", "work")}
    run = executing(**named)
    assert run.act is not None
    first = child_of(run, run.act, shipped("task").table, 1)
    assert not named.keys() & first.options.keys()
    after = fold(run, [e.ActFinished(at=2, key=run.act.key, result=ended(commit="c9")(run, run.act))])
    last = child_of(after, replace(run.act, child="other"), shipped("task").table, 3)
    assert (last.options["head"], last.options["tick"]) == ("flyball/abc", ["TODO.md", "work"])


# ---- more urgent work ------------------------------------------------------------------------------------


def test_an_urgent_trigger_sets_the_run_below_aside_and_it_is_taken_up_again() -> None:
    run = executing()
    assert run.act is not None
    below, urgent = run.act.child, e.Trigger(kind="security", text="a leak", ticket="T2", priority=90)
    same = replace(urgent, priority=50)
    assert standing.outranks(run, urgent) and not standing.outranks(run, same)
    assert standing.refusal(run, urgent), "it still works"
    paused = e.ChildStopped(
        at=9, run=below, status="paused", stop=e.Stop(code="wait.paused", rule="set-aside")
    )
    run = standing.child_stopped(run, paused).run
    assert run.state == "EXECUTING" and standing.makes_way(run)
    facts = hear(run, encode(Start(trigger=urgent)), 1, 10)
    run = facts.run
    assert (run.state, run.act, run.task) == ("PLANNING", None, "a leak")
    played = Played(
        run,
        Script(agent__planner=planner(e.Assessment(steps=STEPS[:1])), run__task=[ended(commit="c7")]),
        [begun("cto")],
        [],
    )
    for _ in range(20):
        step = due(played.run, played.now)
        if isinstance(step, Rest):
            break
        played.note(step.events) if isinstance(step, Note) else played.perform(step.act)
    assert way(played) == ["EXECUTING", "IDLE", "PLANNING", "EXECUTING"]
    assert played.run.act is not None and played.run.act.child == below and played.run.task == "work"
    assert [act.do for act in played.acts].count("agent:planner") == 1, "the old plan still holds"
    reasons = [move.reason for move in played.of(e.Moved)]
    assert reasons[-2:] == ["continuing the interrupted work", "the plan is still valid"]
    assert played.run.plan.outcomes["T2"] == "done c7"


def test_a_lane_that_waits_for_a_person_makes_way_for_nothing() -> None:
    """It was asked to, and a rule halted the run below first: it must not pause, or nobody would wake it."""
    run = fold(executing(), [e.Asked(at=9, what=standing.SET_ASIDE, who="flyball")])
    halted = charged(run, took_us=61 * MINUTE)
    assert halted.state == "WAITING_FOR_HUMAN"
    for _ in range(4):
        step = due(halted, 11)
        halted = fold(halted, step.events) if isinstance(step, Note) else halted
    assert (halted.status, halted.asked) == ("waiting", "") and halted.question is not None


def test_the_time_budget_is_that_of_a_step_and_not_of_the_planner() -> None:
    """After hours of work below, the next plan still gets its time."""
    script = Script(agent__planner=planner(PLAIN))
    played = start(script, begun("cto")).go_on()
    spent = replace(played.run.spending, wall_us=1_000 * MINUTE)
    played.run = replace(played.run, spending=spent)
    trigger = e.Trigger(kind="task", text="work", ticket="T1")
    played.note(hear(played.run, encode(Start(trigger=trigger)), 1, played.now))
    step = due(played.run, played.now)
    assert isinstance(step, Do) and step.act.do == "agent:planner" and step.act.wall_us == 0


def test_a_question_below_is_the_lanes_and_its_answer_leads_back() -> None:
    run = executing()
    asks = e.ChildStopped(at=9, run="below", status="waiting", stop=e.Stop(code="wait.question"))
    waits = standing.child_stopped(run, asks).run
    assert (waits.state, waits.status, waits.act) == ("WAITING_FOR_HUMAN", "waiting", run.act)
    back = standing.child_went_on(waits, e.ChildWentOn(at=10, run="below")).run
    assert (back.state, back.status, back.act) == ("EXECUTING", "running", run.act)
    limit = replace(asks, until=99, stop=e.Stop(code="wait.rate_limit"))
    assert standing.child_stopped(run, limit).run.state == "EXECUTING"


@pytest.mark.parametrize("what", ["pause", "stop"])
def test_a_persons_pause_is_the_transition_to_waiting(what: str) -> None:
    played = lane()
    played.note(hear(played.run, encode(Ask(what=what, who="anna")), 1, played.now))
    assert way(played.go_on()) == ["WAITING_FOR_HUMAN"]
    assert played.run.question is not None and played.run.question.text == (
        "No task is being worked on: a person paused it.\nWhat next? proceed takes the next task of the backlog."
    )
    assert (
        why(played.run)[0]
        == "Run r1 is waiting in 'WAITING_FOR_HUMAN': a person paused it (wait.escalation)."
    )
    assert way(said(played, "proceed")) == ["WAITING_FOR_HUMAN", "EXECUTING", "IDLE"]


# ---- loop rules over the turns of the runs below -----------------------------------------------------------

RULES: dict[str, tuple[str, int, dict[str, Any]]] = {
    "no progress": ("loop.no_progress", 10, {}),
    "the same result": ("loop.same_action", 3, {"said": "same", "advanced": True}),
    "the same error": ("loop.same_error", 5, {"error": "boom", "advanced": True}),
}


@pytest.mark.parametrize("name", RULES)
def test_a_rule_fires_above_its_threshold_and_not_at_it(name: str) -> None:
    code, most, turn = RULES[name]
    run = executing()
    for number in range(most):
        run = charged(run, **{"said": f"s{number}", **turn})
    assert run.state == "EXECUTING", "at the threshold"
    run = charged(run, **{"said": "s-last", **turn})
    assert (run.state, run.act) == ("WAITING_FOR_HUMAN", None)
    assert run.plan.halt is not None and run.plan.halt.code == code and run.plan.act is not None
    assert happened(run.plan.halt, run.state).startswith(
        f"{most + 1} turns" if code != "loop.same_error" else "the same"
    )


def test_the_question_names_the_error_and_the_run_that_had_it() -> None:
    run = executing()
    for _ in range(6):
        run = charged(run, error="f1", error_text="no such file", advanced=True)
    assert run.plan.halt is not None
    run = replace(run, plan=replace(run.plan, trigger=e.Trigger(kind="task", text="Mend it\n\nAt once.")))
    assert standing.question(run)[1].startswith(
        "'Mend it' stopped: 6 turns in a row with the same error. Last error"
    )
    assert (
        run.plan.halt.detail == "6 turns in a row with the same error. Last error, of run below: no such file"
    )


def test_more_turns_than_a_plan_may_have_stop_it_and_half_of_them_warn() -> None:
    run, warnings = executing(), 0
    for number in range(100):
        turn = e.Charged(
            at=number, run="b", usage=e.Usage(), role="coder", turns=1, said=f"{number}", advanced=True
        )
        facts = standing.charged(run, turn)
        warnings += sum(isinstance(fact, e.Warned) for fact in facts)
        assert (number >= 50) == bool(warnings)
        run = facts.run
    assert run.state == "EXECUTING" and warnings == 1
    assert charged(run, said="last", advanced=True).plan.halt.code == "limit.actions"  # type: ignore[union-attr]


def test_the_same_result_warns_once_before_it_stops() -> None:
    """CTO-9: warn above 2, stop above 3."""
    run, warned = executing(), list[int]()
    for number in range(1, 4):
        turn = e.Charged(
            at=number, run="b", usage=e.Usage(), role="coder", turns=1, said="same", advanced=True
        )
        events = standing.charged(run, turn)
        warned += [number for event in events if isinstance(event, e.Warned)]
        run = events.run
    assert (warned, run.state) == ([3], "EXECUTING")


def test_progress_and_judges_do_not_count() -> None:
    run = executing()
    for number in range(30):
        run = charged(run, said=f"{number}", advanced=number % 10 == 9)
        run = charged(run, role="reviewer", said="no", error="no")
    assert run.state == "EXECUTING"


def test_an_hour_of_work_without_a_milestone_warns_first_and_then_asks() -> None:
    run, codes = executing(), list[tuple[int, str]]()
    for number, minutes in enumerate((45, 1, 13, 1)):
        turn = e.Charged(
            at=number, run="b", usage=e.Usage(), role="critic", turns=1, took_us=minutes * MINUTE
        )
        facts = standing.charged(run, turn)
        codes += [(number, fact.code) for fact in facts if isinstance(fact, e.Warned)]
        run = facts.run
    assert codes == [(1, "wait.check_in")] and run.state == "EXECUTING", "at the threshold"
    anew = fold(run, [e.Milestone(at=9, run="below", what="planning → validated")])
    assert charged(anew, role="critic", took_us=59 * MINUTE).state == "EXECUTING", (
        "a milestone begins it anew"
    )
    late = charged(run, role="critic", took_us=1)
    assert late.state == "WAITING_FOR_HUMAN" and late.plan.halt is not None
    assert late.plan.halt.code == "wait.check_in"
    shorter = executing(settings=Settings(timeouts_us={"cto": {"alert.EXECUTING": 20 * MINUTE}}))
    assert charged(shorter, role="critic", took_us=20 * MINUTE).state == "EXECUTING"
    assert charged(shorter, role="critic", took_us=20 * MINUTE + 1).state == "WAITING_FOR_HUMAN"


ALLOWANCES = {**RULES, "turns for a plan": ("limit.actions", 100, {"advanced": True})}


@pytest.mark.parametrize("verb", ["proceed", "replan"])
@pytest.mark.parametrize("name", ALLOWANCES)
def test_an_answer_is_a_new_allowance_also_for_another_plan(name: str, verb: str) -> None:
    """Else the same stop would follow at once."""
    code, most, turn = ALLOWANCES[name]
    run = executing()
    for number in range(most + 1):
        run = charged(run, **{"said": f"s{number}", **turn})
    assert run.plan.halt is not None and run.plan.halt.code == code
    question = due(run, run.at)
    assert isinstance(question, Note) and question.events.run.question is not None
    answer = Answer(question=question.events.run.question.id, verb=verb, who="anna")
    plan = hear(question.events.run, encode(answer), 1, run.at).run.plan
    assert (plan.idle, plan.said, plan.error, plan.worked_us) == (0, ("", 0), ("", 0), 0)
    assert plan.turns == (0 if code == "limit.actions" else most + 1)


@pytest.mark.parametrize(
    ("verb", "kinds"), [("proceed", ["TakenUp"]), ("drop", ["Abandoned"]), ("replan", ["Abandoned"])]
)
def test_what_an_answer_does_with_a_run_that_was_set_aside(verb: str, kinds: list[str]) -> None:
    run = executing()
    for _ in range(11):
        run = charged(run, said=str(run.at))
    question = due(run, run.at)
    assert isinstance(question, Note)
    run = question.events.run
    assert run.question is not None and "without progress" in run.question.text
    facts = hear(run, encode(Answer(question=run.question.id, verb=verb, who="anna")), 1, run.at)
    step = due(facts.run, run.at)
    names = [type(fact).__name__ for fact in (*facts, *(step.events if isinstance(step, Note) else ()))]
    assert [name for name in names if name in ("TakenUp", "Abandoned")] == kinds


# ---- what all runs together may use ------------------------------------------------------------------------


@pytest.mark.parametrize(("used", "warned"), [(9_999_999, 0), (10_000_000, 1), (19_000_000, 1)])
def test_half_of_what_a_day_may_cost_is_warned_about_once(used: int, warned: int) -> None:
    """CTO-4: 10 of 20 million tokens; dollars alike."""
    run = begin(begun("cto", Settings(budget=Budget(day_tokens=20_000_000, week_uusd=2 * used))))
    seen = e.WindowSeen(at=5, day_tokens=used, week_uusd=used)
    said = stops.half_used(run, seen)
    assert [one.code for one in said] == ["limit.budget_tokens"] * warned + ["limit.budget_usd"]
    assert stops.half_used(fold(run, [seen]), replace(seen, at=6)) == []
