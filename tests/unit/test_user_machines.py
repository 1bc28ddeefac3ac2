"""A user's machine: where every target leads, how each role is read, and an answer as a new allowance."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from flyball.core.decide import Finished, Note, Rest, due, react
from flyball.domain import events as e
from flyball.domain.settings import SECOND, Budget
from flyball.errors import FlyballError, InvalidTransition
from flyball.state.fold import apply, begin, fold, freeze, thaw
from support import (
    FAIL,
    PASS,
    Case,
    Script,
    anywhere,
    bad,
    begun,
    check,
    failed_child,
    failing,
    finish,
    judged,
    ok,
    passing,
    play,
    says,
    settings,
    start,
    writes,
)

CODER = "agent:coder"
EXTRA = {"help": {"do": "agent:worker", "on": {"helped": "work", "unproven": "work"}}}


def table(do: str = CODER, on: dict[str, str] | None = None, most: dict[str, int] | None = None, **anyhow: str) -> dict[str, Any]:  # fmt: skip
    """One working state `work` and the ends; `help` where something leads there."""
    on = on or {"fine": "done"}
    extra = EXTRA if "help" in (*on.values(), *anyhow.values()) else {}
    states = {"work": {"do": do, "on": {**on, "unproven": on.get("unproven", "work")}}, **extra}
    return {
        "name": "mine",
        "start": "work",
        "states": {**states, "done": {"end": "success"}, "lost": {"end": "failure"}},
        "groups": {"all": ["work", *extra]},
        "anywhere": anywhere(**anyhow),
        "most": {"turns": 9, **(most or {})},
    }


def claims(target: str, path: str, codes: str, **more: Any) -> Case:
    """The coder says that it is hopeless in its first turn; all is fine in the next."""
    hopeless = writes(outcome="hopeless", data=more.pop("data", {}))
    return Case(
        path, codes, {"work": [hopeless, writes()]}, table(on={"fine": "done", "hopeless": target}), **more
    )


def fails(outcome: str, target: str, path: str, codes: str, **more: Any) -> Case:
    """Three ways in which a state ends by itself: a limit, its time, an error that stays."""
    plays = {"exhausted": writes(outcome="again"), "timeout": bad("timeout"), "error": bad("killed")}
    made = table(on={"fine": "done", "again": "work"}, **{outcome: target})
    made["most"] = {"turns": 2} if outcome == "exhausted" else {"turns": 99, "retries": 1}
    return Case(path, codes, {"work": plays[outcome]}, made, **more)


TARGETS = {
    "@fail": claims("@fail", "work", "failed.agent"),
    "@cancel": claims("@cancel", "work", "cancelled"),
    "@back": claims("@back", "work done", "completed", does=f"{CODER}*2 proof:gate commit"),
    "@ask, go on": claims("@ask", "work done", "wait.escalation completed", answers=("go-on",), does=f"{CODER}*2 proof:gate commit"),
    "@ask, answered": claims("@ask", "work done", "wait.escalation completed", answers=("answer try b",), hears=((CODER, 1, "try b"),)),
    "@ask, cancelled": claims("@ask", "work", "wait.escalation cancelled", answers=("cancel",)),
    "@blocked": claims("@blocked", "work done", "blocked.table.hopeless completed", answers=("go-on",)),
    "a state": claims("help", "work help work done", "completed"),
    "itself": claims("work", "work*2 done", "completed"),
    "a failure end": claims("lost", "work lost", "failed.agent"),
    "any, named": claims("any:all", "work*2 done", "completed", data={"state": "work"}),
    "any, not named": claims("any:all", "work done", "completed", does=f"{CODER}*2 proof:gate commit", hears=((CODER, 1, "could not be used"),)),
    "any, a number": claims("any:all", "work done", "completed", data={"state": 3}, hears=((CODER, 1, "could not be used"),)),
    "@ask behind a breakpoint": claims("@ask", "work done", "wait.breakpoint wait.escalation wait.breakpoint completed", given={"breakpoints": ("work",)}, answers=("go-on", "retry", "go-on")),
    "@back behind a breakpoint": claims("@back", "work done", "wait.breakpoint*2 completed", given={"breakpoints": ("work",)}, answers=("go-on", "go-on")),
    "unproven @back": Case("work", "limit.turns", {"proof": failing()}, table(on={"fine": "done", "unproven": "@back"}), does="(agent:coder proof:gate)*9"),
    "unproven @fail": Case("work", "failed.tests", {"proof": failing()}, table(on={"fine": "done", "unproven": "@fail"})),
    "unproven @ask": Case("work", "wait.escalation*2", {"proof": failing()}, table(on={"fine": "done", "unproven": "@ask"}), answers=("retry",)),
    "exhausted @fail": fails("exhausted", "@fail", "work*3", "limit.turns", turns=2),
    "exhausted @ask": fails("exhausted", "@ask", "work*5", "wait.escalation*2", answers=("go-on",), turns=4),
    "exhausted lost": fails("exhausted", "lost", "work*3 lost", "limit.turns"),
    "timeout @fail": fails("timeout", "@fail", "work", "timeout.phase"),
    "timeout @ask": fails("timeout", "@ask", "work", "wait.escalation*2", answers=("retry",), turns=2),
    "timeout lost": fails("timeout", "lost", "work lost", "timeout.phase"),
    "error @fail": fails("error", "@fail", "work", "failed.agent", turns=2),
    "error @ask": fails("error", "@ask", "work", "wait.escalation*2", answers=("go-on",), turns=4),
    "exhausted @cancel": fails("exhausted", "@cancel", "work*3", "cancelled"),
    "exhausted @blocked": fails("exhausted", "@blocked", "work*5", "blocked.table.exhausted*2", answers=("go-on",), turns=4),
    "timeout @cancel": fails("timeout", "@cancel", "work", "cancelled"),
    "timeout @blocked": fails("timeout", "@blocked", "work", "blocked.table.timeout*2", answers=("retry",), turns=2),
    "timeout @back": fails("timeout", "@back", "work", "limit.turns", turns=99),
    "error @cancel": fails("error", "@cancel", "work", "cancelled", turns=2),
    "error @blocked": fails("error", "@blocked", "work", "blocked.table.error*2", answers=("go-on",), turns=4),
    "error @back": fails("error", "@back", "work", "limit.turns", turns=99),
    "timeout help": Case("work help work done", "completed", {"work": [bad("timeout"), writes()]}, table(timeout="help")),
    "error help": Case("work help work done", "completed", {"work": [*[bad("killed")] * 4, writes()]}, table(error="help")),
    "error lost": fails("error", "lost", "work lost", "failed.agent"),
}  # fmt: skip


@pytest.mark.parametrize("name", TARGETS)
def test_where_every_target_leads(name: str) -> None:
    played = check(TARGETS[name])
    stop = played.run.stop
    asks = played.code.startswith(("wait.escalation", "blocked.table."))
    if asks and name.split()[0] in ("exhausted", "timeout", "error"):
        ends = {"exhausted": "limit.turns", "timeout": "timeout.phase", "error": "failed.agent"}
        assert stop and stop.rule == ends[name.split()[0]]  # what would have ended it is the rule


def test_a_limit_on_entries_holds_for_every_way_in() -> None:
    """`error` leads to `mend`, twice; the third time `mend` is used up, and so is the way out."""
    failing_turn = [bad("killed")]
    mend = {"do": CODER, "on": {"fixed": "work", "unproven": "work"}}
    made = table(on={"fine": "done"}, error="mend")
    made = {
        **made,
        "states": {**made["states"], "mend": mend},
        "most": {"turns": 99, "retries": 0, "mend": 2},
    }
    twice = {"work": failing_turn, "mend": writes()}
    check(Case("work mend work mend work", "limit.turns", twice, made))
    check(Case("work mend*2", "limit.turns", {"work": failing_turn, "mend": failing_turn}, made))
    asks = {**made, "states": {**made["states"], "hm": {"do": "ask", "on": {"yes": "work", "no": "lost"}}}}
    asks["anywhere"] = anywhere(error="hm", exhausted="hm")
    asks["most"] = {"turns": 99, "retries": 0, "hm": 1}
    check(Case("work hm work", "wait.escalation limit.turns", twice, asks, answers=("yes",)))


# ---- roles and acts -----------------------------------------------------------------------------------------------

LOSE = {"rejected": "lost", "unproven": "lost"}
ACTS: dict[str, tuple[str, dict[str, str], Any, str]] = {  # act, outcomes, what comes of it, the code
    "a failing proof": ("proof", {"passed": "done", "failed": "lost"}, failing(), "failed.tests"),
    "a passing proof": ("proof", {"passed": "done", "failed": "lost"}, passing, "completed"),
    "a refused commit": ("commit", {"committed": "done", "refused": "lost"}, e.CommitEnded(outcome="refused", tree=""), "failed.tests"),
    "a child fails": ("run:build", {"success": "done", "failure": "lost"}, failed_child("limit.fix_attempts"), "limit.fix_attempts"),
    "a child fails, no place for it": ("run:build", {"success": "done"}, failed_child("timeout.idle"), "timeout.idle"),
    "a child halts": ("run:build", {"success": "lost", "halted": "help"}, failed_child("failed.agent"), "limit.turns"),
    "a child halts, cancelled": ("run:build", {"success": "done", "halted": "@cancel"}, failed_child("failed.agent"), "cancelled"),
    "a child succeeds": ("run:build", {"success": "done"}, lambda r, a: e.ChildEnded(run=a.child, end="success", stop=e.Stop(code="completed"), turns=1), "completed"),
    "a coder gives up": (CODER, {"fine": "done", "hopeless": "lost"}, says(outcome="hopeless"), "failed.agent"),
    "a coder says done": (CODER, {"written": "work", "done": "done"}, says(outcome="done"), "completed"),
    "a critic is silent": ("agent:critic", {"passed": "done", **LOSE}, says(), "failed.review"),
    "a critic claims its first outcome": ("agent:critic", {"passed": "done", **LOSE}, says(outcome="passed"), "completed"),
    "a reviewer without PASS or FAIL": ("agent:reviewer", {"good": "done", **LOSE}, says(outcome="good"), "completed"),
    "a reviewer passes": ("agent:reviewer", {"good": "done", **LOSE}, PASS, "completed"),
    "a reviewer is silent": ("agent:reviewer", {"good": "done", **LOSE}, says(), "failed.review"),
    "an author without a reviewer": ("agent:author", {"drafted": "done"}, FAIL, "completed"),
    "an author claims": ("agent:author", {"drafted": "lost", "ready": "done"}, says("DONE", outcome="ready"), "completed"),
    "a worker without a circuit": ("agent:worker", {"fine": "done"}, says(), "completed"),
    "a worker claims": ("agent:worker", {"fine": "lost", "ready": "done"}, says(outcome="ready"), "completed"),
    "a worker never stalls without a place": ("agent:worker", {"worked": "work", "done": "done"}, says(), "limit.turns"),
    "a cto that cannot retry": ("agent:cto", {"escalate": "lost"}, says(outcome="retry"), "failed.agent"),
    "a cto with a fixed way": ("agent:cto", {"retry": "done", "escalate": "lost"}, says(outcome="retry"), "completed"),
    "a check that fails": ("check", {"ready": "done", "failure": "lost"}, e.CheckEnded(outcome="failure", reason="x"), "failed.agent"),
    "a check without a place for it": ("check", {"ready": "done"}, e.CheckEnded(outcome="failure", reason="x"), "failed.start"),
    "a check that cannot start": ("check", {"ready": "done", "cannot_start": "lost"}, e.CheckEnded(outcome="cannot_start"), "failed.start"),
    "a check that is ready, unplaced": ("check", {"fine": "done", "failure": "lost"}, e.CheckEnded(outcome="ready"), "failed.start"),
    "progress is no proof": ("agent:worker", {"done": "done", "progressed": "done", "unproven": "lost"}, finish("t1"), "completed"),
}  # fmt: skip


@pytest.mark.parametrize("name", ACTS)
def test_what_comes_of_an_act_in_a_users_state(name: str) -> None:
    do, on, result, code = ACTS[name]
    given = settings(limits={"mine": {"no_progress": 2}})
    played = play(Script(work=result), begun(table(do, on), given))
    assert (played.code, played.run.end == "success") == (code, code == "completed")


@pytest.mark.parametrize("target", ["done", "work", "lost", "@ask"])
def test_a_claim_that_was_not_proved_never_completes(target: str) -> None:
    on = {"done": "done", "progressed": target, "unproven": "work"}
    played = play(Script(work=finish("t1"), proof=failing()), begun(table("agent:worker", on)))
    assert "done" not in played.path and played.run.end != "success"


WAIT = {**table(), "start": "rest"}
WAIT["states"] = {"rest": {"do": "wait", "with": {"for": "10s"}, "on": {"over": "work"}}, **WAIT["states"]}


def test_a_wait_is_over_at_its_instant_and_not_before() -> None:
    run = begin(begun(WAIT, owner=False, tree="base"))
    assert due(run, 10 * SECOND - 1) == Rest(10 * SECOND) and isinstance(due(run, 10 * SECOND), Note)
    check(Case("rest work done", "completed", machine=WAIT))
    later = {**WAIT, "states": {**WAIT["states"], "rest": {"do": "wait", "on": {"over": "work"}}}}
    assert due(begin(begun(later, owner=False, tree="base")), 1) == Rest(60 * SECOND)


def test_acts_have_no_clock_where_none_is_set_and_the_machines_where_it_is() -> None:
    free = settings(budget=Budget(wall_us=None))
    assert {a.wall_us for a in play(Script(), begun(table(), free)).acts} == {0}
    timed = {**table(), "within": {"30s": ["work"]}}
    assert {a.wall_us for a in play(Script(), begun(timed, free)).acts if a.do == CODER} == {30 * SECOND}


# ---- an answer is a new allowance -----------------------------------------------------------------------------------

ASKING: dict[str, Any] = {
    "name": "asking",
    "start": "work",
    "iteration": "work",
    "states": {
        "work": {"do": CODER, "on": {"written": "judge"}},
        "judge": {"do": "agent:critic", "on": {"accepted": "done", "rejected": "work", "unproven": "work"}},
        "done": {"end": "success"},
    },
    "anywhere": anywhere(exhausted="@ask", timeout="@ask", error="@ask", stalled="@ask"),
    "most": {"iterations": 2, "turns": 40},
}
FIXING = {
    **ASKING,
    "start": "test",
    "states": {
        "test": {"do": "proof", "on": {"passed": "done", "failed": "work", "unproven": "work"}},
        "work": {"do": CODER, "on": {"fixed": "test"}},
        "done": {"end": "success"},
    },
    "iteration": "",
    "most": {"work": 2, "turns": 40},
}
THIRD = {**ASKING, "anywhere": anywhere(third_failure="@ask"), "most": {"failures": 3, "turns": 40}}


def slow(run: Any, act: e.Act) -> Finished:
    return judged(act, ok(act.tree, signal="FAIL"), took_us=11)


ALLOWED = {
    "iterations": (Case("(work judge)*4", "wait.escalation*2", {"judge": FAIL}, ASKING, answers=("go-on",)), "limit.iterations"),
    "turns": (Case("(work judge)*3 work", "wait.escalation*2", {"judge": FAIL}, ASKING, {"turns": 3, "iterations": 99}, answers=("go-on",), turns=6), "limit.turns"),
    "entries": (Case("test (work test)*4", "wait.escalation*2", {"test": failing()}, FIXING, answers=("go-on",)), "limit.turns"),
    "time": (Case("(work judge)*2 work", "wait.escalation*2", {"judge": slow}, ASKING, {"iterations": 99}, {"budget": Budget(wall_us=10)}, answers=("go-on",)), "limit.time"),
    "retries": (Case("work", "wait.escalation*2", {"work": bad("killed")}, ASKING, answers=("retry",), does=f"{CODER}*8"), "failed.agent"),
    "a stall": (Case("(work judge)*4 work", "loop.no_progress*2", {"work": says(), "judge": FAIL}, ASKING, {"no_progress": 2, "iterations": 9}, answers=("go-on",)), "no_progress"),
    "errors": (Case("(work judge)*2 work", "loop.same_error*2", {"work": lambda r, a: e.TurnEnded(verdict="ok", tree=f"new-{a.key}", fingerprint="F"), "judge": lambda r, a: e.TurnEnded(verdict="ok", fingerprint="F")}, ASKING, {"same_error": 2, "iterations": 9}, answers=("go-on",)), "same_error"),
    "failures": (Case("(work judge)*5", "wait.escalation*2", {"judge": FAIL}, THIRD, answers=("go-on",)), "third_failure"),
}  # fmt: skip


@pytest.mark.parametrize("name", ALLOWED)
def test_an_answer_renews_what_ran_out(name: str) -> None:
    case, rule = ALLOWED[name]
    stop = check(case).run.stop
    assert stop and stop.rule == rule


def test_an_answer_to_something_else_renews_no_limit() -> None:
    plays = {"work": [writes(ask="?"), writes(), writes(), writes()], "judge": FAIL}
    case = Case("(work judge)*2", "wait.question wait.escalation", plays, ASKING, answers=("answer x",))
    assert check(case).run.iteration == 2


# ---- what is not believed -------------------------------------------------------------------------------------------


def test_the_result_of_an_act_that_is_not_in_flight_is_not_believed() -> None:
    played = start(Script(), begun())
    for key in ("r1-9", played.begin_act().key + "0"):
        with pytest.raises(FlyballError, match=key):
            react(played.run, Finished(key=key, result=ok()), 1)


def test_a_run_begins_in_a_state_of_its_machine_and_moves_only_by_its_table() -> None:
    with pytest.raises(FlyballError, match="'nowhere'"):
        begin(begun("loop", start="nowhere"))
    for facts in ([], [e.Told(at=1, text="x")]):
        with pytest.raises(ValueError, match="RunBegan"):
            fold(None, facts)
    with pytest.raises(InvalidTransition):
        apply(begin(begun("loop")), e.Moved(at=1, source="closed", target="half_open", outcome="worked"))


STARTS = {("review", "init"): 0, ("review", "working"): 1, ("review", "reviewing"): 1, ("build", "plan"): 0, ("build", "write"): 1, ("build", "verify"): 1, ("loop", "half_open"): 0}  # fmt: skip


@pytest.mark.parametrize(("machine", "state"), STARTS)
def test_who_begins_in_the_midst_of_an_iteration_is_in_the_first(machine: str, state: str) -> None:
    run = begin(begun(machine, start=state))
    assert (run.iteration, run.state, run.status, run.turns) == (STARTS[machine, state], state, "running", 0)


def test_a_snapshot_is_the_run() -> None:
    played = play(Script(write=ok("t1", ask="Which?")))
    assert thaw(freeze(played.run)) == played.run == fold(None, played.events)
    assert replace(played.run, state="plan") != played.run
