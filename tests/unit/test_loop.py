"""`loop`: DONE is a claim, the circuit opens when nothing moves, a probe follows an answer, failures are bounded."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from flyball.domain import events as e
from flyball.domain.messages import Tell
from flyball.domain.settings import MINUTE
from flyball.state.run import Run
from support import (
    Case,
    Played,
    Script,
    bad,
    begun,
    check,
    failing,
    finish,
    ok,
    passing,
    play,
    says,
    start,
    writes,
)

SAME = says()
DONE = finish("t2")
INDICATORS = ("task complete", "all done")


def loop(path: str, codes: str, *turns: Any, plays: dict[str, Any] | None = None, **more: Any) -> Case:
    """The turns are those of the worker, in whichever state; the last repeats."""
    return Case(path, codes, {"agent:worker": list(turns), **(plays or {})}, "loop", **more)


def error(name: str, tree: str = "") -> Any:
    return lambda r, a: e.TurnEnded(verdict="ok", tree=tree or f"new-{a.key}", fingerprint=name, error=name)


def high(status: str = "open", severity: str = "high", **more: Any) -> e.Finding:
    return e.Finding(id="F1", severity=severity, status=status, text="It subtracts.", **more)


def doubtful(run: Run, act: e.Act) -> e.ProofEnded:
    evidence = e.Evidence(doubts=("test_a: it was removed",), doubts_key=f"doubts of {act.tree}")
    return e.ProofEnded(tree=act.tree, passed=True, failing=0, evidence=evidence)


def claims(told: str, **claim: Any) -> Case:
    """One turn claims this; then a whole claim completes. `told` is what the agent must hear between."""
    case = loop(
        "closed*2 complete", "completed", writes(**claim), writes(finished=True, indicators=INDICATORS)
    )
    return Case(**{f: getattr(case, f) for f in case.__struct_fields__ if f != "hears"}, hears=(("agent:worker", 1, told),))  # fmt: skip


WHOLE = {"finished": True, "indicators": INDICATORS}
CLAIMS = {
    "the whole claim": loop("closed complete", "completed", finish("t1"), does="agent:worker proof:gate commit", turns=1),
    "no exit signal": claims("exit signal", indicators=INDICATORS),
    "one indicator": claims("1 of 2", finished=True, indicators=("all done",)),
    "the same indicator twice": claims("1 of 2", finished=True, indicators=("all done", "all done")),
    "no indicator": claims("0 of 2", finished=True),
    "something else is missing": claims("CI is red.", **WHOLE, missing=("CI is red.",)),
    "an outcome in words": claims("", outcome="done"),
    "DONE": claims("", signal="DONE"),
    "an open high finding": loop("closed*3 complete", "completed", writes(findings=(high(),)), writes(**WHOLE), writes(**WHOLE, findings=(high("fixed", evidence="seen"),)), hears=(("agent:worker", 2, "high finding"),)),
    "a low finding": loop("closed complete", "completed", writes(**WHOLE, findings=(high(severity="low"),))),
    "the gate fails": loop("closed*2 complete", "completed", finish("t1"), DONE, plays={"proof:gate": [failing(summary="E boom"), passing]}, hears=(("agent:worker", 1, "E boom"),)),
    "doubts, accepted": loop("closed complete", "wait.approval completed", finish("t1"), plays={"proof:gate": doubtful}, answers=("approve",), does="agent:worker proof:gate commit"),
    "doubts, rejected": loop("closed*2 complete", "wait.approval completed", finish("t1"), DONE, plays={"proof:gate": [doubtful, passing]}, answers=("reject",), hears=(("agent:worker", 1, "test_a: it was removed"),)),
    "doubts, redirected": loop("closed*2 complete", "wait.approval completed", finish("t1"), DONE, plays={"proof:gate": [doubtful, passing]}, answers=("redirect keep test_a",), hears=(("agent:worker", 1, "keep test_a"),)),
    "the same doubts about another tree": loop("closed*2", "wait.approval wait.approval", finish("t1"), DONE, plays={"proof:gate": doubtful}, answers=("reject",)),
    "doubts, cancelled": loop("closed", "wait.approval cancelled", finish("t1"), plays={"proof:gate": doubtful}, answers=("cancel",)),
    "another's checkout": loop("closed complete", "completed", finish("t1"), event={"owner": False, "tree": "base"}, does="agent:worker"),
    "no proof command": loop("closed complete", "completed_unproven", finish("t1"), given={"proof": ()}, does="agent:worker commit"),
}  # fmt: skip


@pytest.mark.parametrize("name", CLAIMS)
def test_done_is_a_whole_claim_on_a_proved_tree(name: str) -> None:
    check(CLAIMS[name])


@pytest.mark.parametrize(
    "claim", [{}, {"indicators": ("all done", "all done")}, {"outcome": "done"}, {"signal": "DONE"}]
)
def test_only_who_tried_to_be_done_is_told_what_is_missing(claim: dict[str, Any]) -> None:
    assert check(claims("", **claim)).told("agent:worker") == ""


# ---- the circuit -----------------------------------------------------------------------------------------

OPEN = "closed*5 open"
BACK = [ok("t1"), ok("t2")]
COUNTS = [failing(n) for n in (9, 8, 7, 6, 5, 4, 3)]
RED_PROBE = {"plays": {"proof:probe": failing(3)}}
BASE_FAILS = {"proof:baseline": failing(), "proof:gate": failing()}
CIRCUIT = {
    **{f"{n} turns without progress": loop(f"closed*{n} open", "loop.no_progress", SAME, limits={"no_progress": n}, turns=n, numbers=f"{n} {n}") for n in (1, 7)},
    "five unless told, and progress begins anew": loop("closed*16 open", "loop.no_progress", *([SAME] * 4 + [writes()]) * 2, SAME, turns=15, **RED_PROBE),
    "back and forth": loop("closed*7 open", "loop.oscillation", *BACK * 6, turns=7, numbers="5 5"),
    "back once, then still": loop("closed*7 open", "loop.oscillation", *BACK, ok("t1"), SAME, turns=7),
    "no tree is the same tree": loop(OPEN, "loop.no_progress", ok("")),
    "progress ends an oscillation": loop("closed*10 open", "loop.no_progress", *BACK, ok("t1"), ok("t3"), SAME, **RED_PROBE),
    "ten times the same error": loop("closed*10 open", "loop.same_error", error("E1"), turns=10, numbers="10 10"),
    "another error begins anew": loop("closed*20 open", "loop.same_error", *[error("E1")] * 9, error("E2"), error("E1"), turns=20),
    "no error begins anew": loop("closed*20 open", "loop.same_error", *[error("E1")] * 9, writes(), error("E1"), turns=20),
    "the failing proof is the turn's error": loop("closed*10 open", "loop.same_error", writes(**WHOLE), plays={"proof:gate": failing(3, fingerprint="F")}, turns=10),
    "other proofs, other errors": loop("closed*11 open", "loop.same_error", writes(**WHOLE), plays={"proof:gate": [failing(3, fingerprint="G"), failing(3, fingerprint="F")]}),
    "a tree known to fail counts again": loop("closed*3 open", "loop.same_error", finish("t1"), plays={"proof:gate": failing(3, fingerprint="F")}, limits={"same_error": 3, "no_progress": 9}, does="(agent:worker)*1 proof:gate agent:worker*2"),
    "fewer failing tests are progress": loop("closed*12 open", "loop.oscillation", *[finish("t1"), finish("t2")] * 6, plays={"proof:baseline": failing(10), "proof:gate": [*COUNTS, failing(3)]}),
    "as many failing tests are none": loop("closed*7 open", "loop.oscillation", *[finish("t1"), finish("t2")] * 6, plays={"proof:baseline": failing(3), "proof:gate": failing(3)}),
    "no progress is told before the error": loop(OPEN, "loop.no_progress", error("E1", "base"), limits={"same_error": 5}),
    "stalled beats unproven": loop(OPEN, "loop.no_progress", finish("base"), plays=BASE_FAILS),
    "a reviewer's turn is no progress": loop("closed*3 complete", "completed", SAME, writes(), DONE),
    "a limit beats a loop rule": loop(OPEN, "limit.turns", SAME, limits={"turns": 5}),
    **{f"{n} turns": loop(f"closed*{n + 1}", "limit.turns", writes(), limits={"turns": n}, turns=n, numbers=f"{n} {n}") for n in (1, 3)},
    "fifty turns unless told": loop("closed*51", "limit.turns", writes(), turns=50, numbers="50 50"),
    "done in the last turn": loop("closed*2 complete", "completed", writes(), DONE, limits={"turns": 2}),
}  # fmt: skip


@pytest.mark.parametrize("name", CIRCUIT)
def test_what_opens_the_circuit(name: str) -> None:
    check(CIRCUIT[name])


PROBES = {
    **{verb: loop(f"{OPEN} half_open open", "loop.no_progress*2", SAME, answers=(f"{verb} try this",), numbers="1 1", hears=(("agent:worker", 5, "try this"),)) for verb in ("go-on", "answer", "redirect", "retry")},
    "cancel": loop(OPEN, "loop.no_progress cancelled", SAME, answers=("cancel",)),
    "progress closes it": loop(f"{OPEN} half_open closed complete", "loop.no_progress completed", *[SAME] * 5, writes(), DONE, answers=("go-on",)),
    "closed, it counts anew": loop(f"{OPEN} half_open closed*6 open", "loop.no_progress*2", *[SAME] * 5, writes(), SAME, answers=("go-on",), **RED_PROBE),
    "done completes it": loop(f"{OPEN} half_open complete", "loop.no_progress completed", *[SAME] * 5, finish("t1"), answers=("go-on",)),
    "unproven with progress closes it": loop(f"{OPEN} half_open closed complete", "loop.no_progress completed", *[SAME] * 5, finish("t1"), DONE, plays={"proof:gate": [failing(), passing]}, answers=("go-on",)),
    "unproven without opens it": loop(f"{OPEN} half_open open", "loop.no_progress*2", *[SAME] * 5, finish("base"), plays=BASE_FAILS, answers=("go-on",)),
    "a cooldown stands for an answer": loop(f"{OPEN} half_open complete", "completed", *[SAME] * 5, finish("t1"), given={"timeouts_us": {"loop": {"cooldown": 5 * MINUTE}}}),
}  # fmt: skip


@pytest.mark.parametrize("name", PROBES)
def test_a_probe_follows_an_answer_or_a_cooldown(name: str) -> None:
    check(PROBES[name])


def test_an_open_circuit_tells_the_error_the_count_and_the_last_turns() -> None:
    played = check(loop(OPEN, "loop.no_progress", error("boom" + "y" * 300, "base")))
    text = played.run.question.text if played.run.question else ""
    assert "y" * 300 in text and "boom" not in text and "turn 5" in text and "turn 1 " in text
    assert played.run.stop and "boom" in played.run.stop.detail
    assert check(PROBES["a cooldown stands for an answer"]).now >= 5 * MINUTE


# ---- probes: a new tree alone is progress only so long ---------------------------------------------------------

RED = {"proof:baseline": failing(3)}
PROBE = "agent:worker*5 proof:probe"
ONE = {"finished": True, "indicators": ("all done",)}  # a claim that lacks an indicator


def named(*tests: str) -> Any:
    return lambda run, act: e.ProofEnded(tree=act.tree, passed=False, failing=len(tests), failing_tests=tests)


PROGRESS = {
    "no fewer failing tests, twice": loop("closed*11 open", "loop.no_progress", writes(), plays={**RED, "proof:probe": failing(3)}, turns=10, numbers="2 2", does=f"({PROBE})*2"),
    "as often as told": loop("closed*5 open", "loop.no_progress", writes(), plays={**RED, "proof:probe": failing(3)}, limits={"probe": 2}, turns=4),
    "never": loop("closed*13", "limit.turns", writes(), plays=RED, limits={"probe": 0, "turns": 12}, does="agent:worker*12"),
    "fewer failing tests": loop("closed*21 open", "loop.no_progress", writes(), plays={**RED, "proof:probe": [failing(3), failing(2), failing(2), failing(2)]}, turns=20),
    "a proof at the gate counts too": loop("closed*10", "limit.turns", *[writes()] * 4, writes(**WHOLE), *[writes()] * 4, plays={**RED, "proof:gate": failing(3)}, limits={"turns": 9}, does="agent:worker*5 proof:gate agent:worker*4"),
    "an answer begins anew": loop("closed*11 open half_open closed*6 complete", "loop.no_progress completed", *[writes()] * 16, finish("t9"), plays={**RED, "proof:probe": failing(3)}, answers=("go-on",)),
    "another's checkout is its owner's to prove": loop("closed*13", "limit.turns", writes(), limits={"turns": 12}, event={"owner": False, "tree": "base"}, does="agent:worker*12"),
    "it passes, and the agent finishes": loop("closed*6 complete", "completed", *[writes()] * 5, says(**WHOLE), plays=RED, does=f"{PROBE} agent:worker proof:gate commit", hears=(("agent:worker", 5, "all of them passed"),)),
    "a claim that lacks something is no silence": loop("closed*8 complete", "completed", *[writes()] * 5, says(**ONE), says(**ONE), says(**WHOLE), plays=RED, does=f"{PROBE} agent:worker*3 proof:gate commit", hears=(("agent:worker", 6, "1 of 2"), ("agent:worker", 6, "The checks pass on these files"))),
    "silent, and a person says that it is done": loop("closed*7 complete", "wait.question completed", *[writes()] * 5, SAME, plays=RED, answers=("approve",), does=f"{PROBE} agent:worker proof:probe proof:gate commit", turns=6),
    "silent, where no test failed before": loop("closed*7 complete", "wait.question completed", *[writes()] * 5, SAME, answers=("approve",), turns=6),
    "silent, and a person says what is missing": loop("closed*7 complete", "wait.question completed", *[writes()] * 5, SAME, finish("t9"), answers=("answer the docs",), hears=(("agent:worker", 6, "the docs"),)),
    "silent, with an open high finding": loop("closed*7", "wait.question", *[writes()] * 4, writes(findings=(high(),)), SAME, plays=RED),
    "it stops silently, and a person says that it is done": loop("closed*8 complete", "wait.question completed", writes(), SAME, plays=RED, answers=("approve",), does="agent:worker*6 proof:probe agent:worker proof:probe proof:gate commit"),
    "it stops, is asked, and finishes": loop("closed*7 complete", "completed", writes(), *[SAME] * 5, says(**WHOLE), plays=RED, limits={"no_progress": 5}, does="agent:worker*6 proof:probe agent:worker proof:gate commit", hears=(("agent:worker", 6, "all of them passed"),)),
    "it stops on a tree that fails": loop("closed*7 open", "loop.no_progress", writes(), SAME, plays={**RED, "proof:probe": failing(3)}, does="agent:worker*6 proof:probe", turns=6),
    "it stops on a tree that fails, at once": loop("closed*3 open", "loop.no_progress", writes(), SAME, plays={**RED, "proof:probe": failing(3)}, limits={"no_progress": 1}, does="agent:worker*2 proof:probe"),
    "it stops and only half claims": loop("closed*7 open", "loop.no_progress", writes(), says(**ONE), plays={"proof:probe": passing}, does="agent:worker*6 proof:probe agent:worker"),
    "it stops, and nothing was changed": loop(OPEN, "loop.no_progress", SAME, does="agent:worker*5"),
    "it stops where probes are turned off": loop("closed*6 open", "loop.no_progress", writes(), SAME, limits={"probe": 0}, does="agent:worker*6"),
    "it passed once, and fails the second time": loop("closed*7 complete", "completed", *[writes()] * 5, SAME, finish("t9"), plays={**RED, "proof:probe": [passing, failing(3)]}),
    "it goes on changing": loop("closed*12 complete", "completed", *[writes()] * 11, finish("t9"), plays=RED),
    "the probe cannot start": loop("closed*6", "error.config", writes(), plays={"proof:probe": lambda r, a: e.ProofEnded(tree=a.tree, passed=False, cannot_start="no such program")}),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRESS)
def test_files_are_proved_now_and_then(name: str) -> None:
    check(PROGRESS[name])


@pytest.mark.parametrize(
    ("proof", "turn", "says_so"),
    [
        (named("test_a.py::test_one"), SAME, ("fail (test_a.py::test_one)", "not said that it is done")),
        (passing, says(**ONE), ("pass",)),
    ],
)
def test_the_question_says_whether_the_checks_pass(proof: Any, turn: Any, says_so: tuple[str, ...]) -> None:
    played = play(Script(agent__worker=[writes(), turn], proof__probe=proof), machine="loop")
    text = played.run.question.text if played.run.question else ""
    assert played.code == "loop.no_progress" and all(words in text for words in says_so)
    assert ("not said" in text) == (turn is SAME)


def test_no_progress_names_the_tests_that_still_fail() -> None:
    tests = named("test_a.py::test_one", "test_a.py::test_two")
    played = check(loop("closed*11 open", "loop.no_progress", writes(), plays={"proof:baseline": tests, "proof:probe": tests}))  # fmt: skip
    assert played.run.question and "test_a.py::test_one, test_a.py::test_two" in played.run.question.text
    assert played.run.stop and "test_one" in played.run.stop.detail


# ---- questions ---------------------------------------------------------------------------------------------


def halted(code: str) -> e.TurnEnded:
    return e.TurnEnded(verdict="ok", tree="t1", halted=code, halted_why="Four times.")


ASKS: dict[str, tuple[Any, str, str, str]] = {  # turn, code, a verb it takes, what the question says
    "a question": (ok("t1", ask="Which one?", message="Long."), "wait.question", "answer", "Which one?"),
    "blocked": (ok("t1", reading="blocked", message="No key."), "wait.question", "answer", "No key."),
    "blocked, silently": (ok("t1", reading="blocked"), "wait.question", "redirect", "blocked"),
    "a permission": (bad("needs_approval"), "wait.permission", "approve", "needs_approval"),
    "auth": (bad("auth"), "wait.auth", "go-on", "auth"),
    "auth, unexplained": (e.TurnEnded(verdict="auth"), "wait.auth", "go-on", "auth"),
    "billing": (bad("billing"), "wait.billing", "retry", "billing"),
    "its own budget": (bad("budget_limit"), "limit.budget_usd", "raise", "budget"),
    "the same call": (halted("loop.same_action"), "loop.same_action", "go-on", "Four times."),
    "too many calls": (halted("limit.actions"), "limit.actions", "go-on", "Four times."),
    "halted and asking": (e.TurnEnded(verdict="ok", tree="t1", halted="limit.actions", halted_why="601 calls.", claim=e.Claim(ask="?")), "limit.actions", "go-on", "601"),
}  # fmt: skip


@pytest.mark.parametrize("name", ASKS)
def test_a_turn_that_must_ask_asks_and_the_answer_goes_into_the_next(name: str) -> None:
    turn, code, verb, text = ASKS[name]
    case = loop("closed complete", f"{code} completed", turn, DONE, answers=(f"{verb} the second",))
    played = check(case)
    assert text in played.of(e.Stopped)[0].question.text  # type: ignore[union-attr]
    assert "the second" in played.told("agent:worker", 1)
    assert check(loop("closed", f"{code} cancelled", turn, answers=("cancel",))).run.turns <= 1


@pytest.mark.parametrize(
    "turn", [says(ask="?"), says(reading="blocked"), bad("needs_approval"), writes(ask="?")]
)
def test_a_turn_that_waits_counts_for_nothing(turn: Any) -> None:
    """It does not open the circuit, and what it left is still news in the turn after it."""
    played = play(Script(**{"agent:worker": [SAME] * 4 + [turn, SAME]}), machine="loop")
    assert (played.run.status, played.run.state, played.run.turn) == ("waiting", "closed", 5)
    verb = played.run.question.verbs[0] if played.run.question else ""
    assert played.answer(verb, "x").code == "loop.no_progress"  # an answer is a new allowance
    assert played.run.turn == 5 + 5 + int(played.run.tree != "base")


@pytest.mark.parametrize(
    ("calls", "limits", "warned"),
    [(300, {}, 0), (301, {}, 1), (50, {"calls": 100}, 0), (51, {"calls": 100}, 1), (301, {"calls": 2000}, 1)],
)
def test_a_warning_is_due_above_half_the_calls(calls: int, limits: dict[str, int], warned: int) -> None:
    many = e.TurnEnded(verdict="ok", tree="t1", calls=calls)
    played = check(loop("closed*2 complete", "completed", many, DONE, limits=limits))
    assert [w.code for w in played.of(e.Warned)] == ["limit.actions"] * warned
    quiet = e.TurnEnded(verdict="ok", tree="t1", calls=999, halted="limit.actions")
    assert not check(loop("closed", "limit.actions", quiet)).of(e.Warned)


# ---- failed turns ------------------------------------------------------------------------------------------

KILLED = bad("killed")
FAILS = {
    **{f"four times {verdict}": loop("closed", code, bad(verdict), does="agent:worker*4", turns=4, numbers="3 4") for verdict, code in {"killed": "failed.agent", "hung": "timeout.idle", "unknown": "failed.agent", "refused": "failed.agent", "cannot_start": "failed.start", "banana": "failed.agent"}.items()},
    **{f"{n} retries": loop("closed", "failed.agent", KILLED, limits={"retries": n, "no_progress": 99}, turns=n + 1, numbers=f"{n} {n + 1}") for n in (0, 1, 5)},
    "the last names the end": loop("closed", "failed.agent", *[bad("hung")] * 3, KILLED),
    "the last names the end, idle": loop("closed", "timeout.idle", *[KILLED] * 3, bad("hung")),
    "a turn between begins anew": loop("closed*2 complete", "completed", *[KILLED] * 3, writes(), *[KILLED] * 3, DONE),
    "it had started once": loop("closed*2", "failed.agent", writes(), bad("cannot_start")),
    "limits between forgive nothing": loop("closed", "failed.agent", KILLED, bad("rate_limited"), KILLED, bad("network"), KILLED, turns=4),
    "a full context, again and again": loop("closed", "failed.agent", bad("context"), does="agent:worker*5", turns=4),
    "a limit between full contexts": loop("closed", "failed.agent", bad("context"), bad("network"), bad("context"), does="agent:worker*6", turns=4),
    "a turn between full contexts": loop("closed*2 complete", "completed", bad("context"), writes(), bad("context"), DONE, turns=2),
    "what was told is told again": loop("closed complete", "wait.question completed", says(ask="?"), KILLED, DONE, answers=("answer mind b",), hears=(("agent:worker", 1, "mind b"), ("agent:worker", 2, "mind b"))),
}  # fmt: skip


@pytest.mark.parametrize("name", FAILS)
def test_failed_turns_are_tried_again_and_bounded(name: str) -> None:
    check(FAILS[name])


def test_a_full_context_is_a_fresh_session_that_is_told_what_was_done() -> None:
    first = e.TurnEnded(
        verdict="ok", tree="t1", session="s1", changed=("a.py", "b.py"), message="\nI began.\n", error="E 9"
    )
    played = check(loop("closed*2 complete", "completed", first, bad("context"), DONE, turns=2))
    sessions = [(a.session, a.resume) for a in played.acts if a.do == "agent:worker"]
    assert sessions == [("", False), ("s1", True), ("", False)]
    told = played.told("agent:worker")
    assert all(text in told for text in ("turn 1", "a.py", "b.py", "I began.", "it was context"))
    assert played.told("agent:worker", 1) == ""


def test_what_was_told_during_a_turn_that_overflows_is_not_lost() -> None:
    played = in_flight(finish("t1"))
    played.write(Tell(text="a hint")).finish_act(bad("context")).go_on()
    assert played.code == "completed" and "a hint" in played.told("agent:worker")
    failed = check(loop("closed complete", "completed", e.TurnEnded(verdict="hung"), finish("t1")))
    assert [(w.code, w.text) for w in failed.of(e.Warned)] == [("turn.failed", "hung")]


def test_the_account_of_what_was_done_stays_short() -> None:
    files = tuple(f"f{n}.py" for n in range(60))
    big = e.TurnEnded(verdict="ok", tree="t1", changed=files, message="x" * 130)
    turns = [big, *[writes() for _ in range(5)], e.TurnEnded(verdict="context", error="z" + "y" * 1000), DONE]
    told = check(loop("closed*7 complete", "completed", *turns)).told("agent:worker")
    assert "f49.py" in told and "f50.py" not in told
    assert "turn 6" in told and "turn 1 " not in told and "y" * 1000 in told and "zy" not in told
    told = check(loop("closed*2 complete", "completed", big, bad("context"), DONE)).told("agent:worker")
    assert "f2.py" in told and "x" * 120 in told and "x" * 121 not in told


# ---- interruptions -----------------------------------------------------------------------------------------


def interrupted(run: Any, act: e.Act) -> str:
    return "the driver was killed"


def stopped_by_a_person(run: Any, act: e.Act) -> str:
    from flyball.state.fold import BY_A_PERSON

    return BY_A_PERSON


CUT = {
    "it costs nothing": loop("closed*2 complete", "completed", ok("t1"), interrupted, DONE, limits={"turns": 2}, turns=2, restores="putback:t1", hears=(("agent:worker", 2, "the driver was killed"),)),
    "five in a row ask": loop("closed", "wait.infrastructure*2", interrupted, answers=("go-on",), does="(agent:worker restore:putback)*4 agent:worker restore:putback (agent:worker restore:putback)*4 agent:worker", numbers="5 5"),
    "four and a finished act": loop("closed*2 complete", "completed", *[interrupted] * 4, ok("t1"), *[interrupted] * 4, DONE),
    "a person's stop is none": loop("closed complete", "completed", *[stopped_by_a_person] * 9, finish("t1")),
    "a proof is made again": loop("closed complete", "completed", finish("t1"), plays={"proof:gate": [interrupted, passing]}, does="agent:worker proof:gate*2 commit"),
    "a commit is made again": loop("closed complete", "completed", finish("t1"), plays={"commit": [interrupted, lambda r, a: e.CommitEnded(outcome="committed", tree=a.tree)]}, does="agent:worker proof:gate commit*2"),
    "the answer is retry": loop("closed", "wait.infrastructure wait.infrastructure", interrupted, answers=("retry",)),
}  # fmt: skip


@pytest.mark.parametrize("name", CUT)
def test_interruptions_cost_nothing_and_five_in_a_row_ask(name: str) -> None:
    check(CUT[name])


def in_flight(*turns: Any) -> Played:
    """A loop whose first turn is in flight; these are the turns after it."""
    played = start(Script(**{"agent:worker": list(turns)}), begun("loop"))
    played.begin_act("agent:worker")
    return played


def test_what_acts_cannot_do_without_is_asked_about_at_once() -> None:
    played = in_flight(finish("t1"))
    assert played.run.act
    gone = e.ActInterrupted(at=9, key=played.run.act.key, reason="the disk is full", gone=True)
    played.note([gone])
    played.go_on()
    assert (played.code, played.run.turns) == ("wait.infrastructure", 0)
    assert played.run.question and "the disk is full" in played.run.question.text
    assert played.answer("go-on").code == "completed"


def test_what_was_told_meanwhile_survives_an_interruption() -> None:
    played = start(Script(**{"agent:worker": DONE}), begun("loop"))
    played.begin_act("proof")
    played.write(Tell(text="first")).finish_act(e.ProofEnded(tree="base", passed=True))
    played.begin_act("agent:worker")
    played.write(Tell(text="second")).finish_act("gone").go_on()
    first, second = "Message from a person: first", "Message from a person: second"
    assert [a.told[:2] for a in played.acts if a.do == "agent:worker"] == [(first,), (first, second)]


def test_what_the_turns_changed_is_counted_over_the_run() -> None:
    """The limits of a change hold for the whole run: lines and deletions add up, and a file counts once."""
    turns = [
        replace(ok(f"t{number}"), changed=changed, lines=10, deleted=deleted)
        for number, changed, deleted in ((1, ("a.py", "b.py"), 2), (2, ("a.py",), 3), (3, (), 0))
    ]
    checkout = play(Script(**{"agent:worker": [*turns, finish("t4")]}), machine="loop").run.checkout
    assert (checkout.changed, checkout.lines, checkout.deleted) == (("a.py", "b.py"), 30, 5)
