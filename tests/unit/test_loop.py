"""One agent until it is truly done: DONE is a claim, the circuit opens when nothing moves, limits cost nothing."""

from __future__ import annotations

from typing import Any

import pytest

from flyball.core import events as e
from flyball.core.run import Run
from flyball.core.settings import MINUTE, Settings
from support import Played, Script, bad, failing, finish, ok, passing, play, start

AGENTS = {"default": "script:x"}


def settings(**more: Any) -> Settings:
    return Settings(**{"proof": ("prove",), "agents": AGENTS, **more})


def loop(*turns: Any, given: Settings | None = None, **plays: Any) -> Played:
    """Play `loop`; the turns are those of the worker, in whichever state; the last repeats."""
    script = Script(**{"agent:worker": list(turns)}, **plays)
    return play(script, machine="loop", settings=given or settings())


def error(name: str, tree: str = "") -> e.TurnEnded:
    return e.TurnEnded(verdict="ok", tree=tree, fingerprint=name, error=name)


# ---- done ------------------------------------------------------------------------------------------------


def test_a_whole_claim_on_a_proved_tree_completes() -> None:
    played = loop(finish("t1"))
    assert (played.code, played.path) == ("completed", ["closed", "complete"])
    assert played.done == ["prepare", "proof:baseline", "agent:worker", "proof:gate", "commit"]


INCOMPLETE: dict[str, tuple[dict[str, Any], str]] = {
    "no exit signal": ({"indicators": ("a", "b")}, "The exit signal is not set."),
    "one indicator": ({"finished": True, "indicators": ("a",)}, "1 of 2 distinct completion indicators"),
    "the same indicator twice": ({"finished": True, "indicators": ("a", "a")}, "1 of 2 distinct"),
    "no indicator": ({"finished": True}, "0 of 2 distinct"),
    "something else missing": (
        {"finished": True, "indicators": ("a", "b"), "missing": ("CI is red.",)},
        "CI is red.",
    ),
    "an outcome in words": ({"outcome": "done"}, ""),
    "DONE": ({"signal": "DONE"}, ""),
}


@pytest.mark.parametrize("case", INCOMPLETE)
def test_an_incomplete_claim_goes_on_and_is_told_what_is_missing(case: str) -> None:
    claim, missing = INCOMPLETE[case]
    played = loop(ok("t1", **claim), finish("t2"))
    assert played.path == ["closed", "closed", "complete"]
    second = [a for a in played.acts if a.do == "agent:worker"][1]
    assert missing in " ".join(second.told)
    assert bool(second.told) == bool(missing)


def test_a_claim_that_fails_the_gate_is_an_ordinary_turn() -> None:
    played = loop(finish("t1"), finish("t2"), proof__gate=[failing(summary="E boom"), passing])
    assert played.path == ["closed", "closed", "complete"]
    assert any("E boom" in text for text in played.acts[-3].told)


def test_inside_another_checkout_the_owner_proves() -> None:
    script = Script(closed=finish("t1"))
    played = play(script, machine="loop", settings=settings(), owner=False, tree="base")
    assert played.done == ["agent:worker"]
    assert played.code == "completed"


def test_without_a_proof_command_the_end_is_unproven() -> None:
    assert loop(finish("t1"), given=settings(proof=())).code == "completed_unproven"


@pytest.mark.parametrize("most", [1, 3, 50])
def test_turns_are_held_exactly(most: int) -> None:
    played = play(Script(), machine="loop", settings=settings(limits={"loop": {"turns": most}}))
    assert (played.code, played.done.count("agent:worker")) == ("limit.turns", most)


def test_fifty_turns_are_allowed_unless_told() -> None:
    assert play(Script(), machine="loop").run.turns == 50


def test_done_on_the_last_turn_completes() -> None:
    played = loop(ok("t1"), finish("t2"), given=settings(limits={"loop": {"turns": 2}}))
    assert played.code == "completed"


# ---- the circuit -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("most", [1, 5, 7])
def test_turns_without_progress_open_the_circuit(most: int) -> None:
    played = loop(ok("base"), given=settings(limits={"loop": {"no_progress": most}}))
    assert (played.code, played.run.state, played.run.status) == ("loop.no_progress", "open", "waiting")
    assert played.run.turns == most
    assert played.run.question and "Possible:" in played.run.question.text


def test_five_turns_unless_told_and_progress_begins_anew() -> None:
    still = [ok("base")] * 4
    played = loop(*still, ok("t1"), *still, ok("t2"), ok("t2"))
    assert (played.code, played.run.turns) == ("loop.no_progress", 15)


def test_going_back_and_forth_is_oscillation() -> None:
    played = loop(ok("t1"), ok("t2"), *[ok("t1"), ok("t2")] * 5)
    assert (played.code, played.run.turns) == ("loop.oscillation", 7)


def test_ten_turns_with_the_same_error_open_the_circuit() -> None:
    turns = [error("E1", f"t{n}") for n in range(12)]
    played = loop(*turns)
    assert (played.code, played.run.turns, played.run.state) == ("loop.same_error", 10, "open")


def test_another_error_begins_the_count_anew() -> None:
    turns = [error("E1", f"t{n}") for n in range(9)]
    played = loop(*turns, error("E2", "u"), *[error("E1", f"v{n}") for n in range(20)])
    assert (played.code, played.run.turns) == ("loop.same_error", 20)


def test_the_proof_that_failed_after_a_turn_is_its_error() -> None:
    turns = [finish(f"t{n}") for n in range(20)]
    played = loop(*turns, proof__gate=failing(3, fingerprint="F"))
    assert (played.code, played.run.turns) == ("loop.same_error", 10)


def test_fewer_failing_tests_are_progress_without_a_new_tree() -> None:
    counts = [failing(n) for n in (9, 8, 7, 6, 5, 4, 3)]
    turns = [finish("t1"), finish("t2"), finish("t1"), finish("t2"), finish("t1"), finish("t2"), finish("t1")]
    played = loop(*turns, proof__baseline=failing(10), proof__gate=[*counts, failing(3)])
    assert played.run.turns == 7 + 5


@pytest.mark.parametrize("verb", ["go-on", "answer", "redirect"])
def test_an_answer_probes_once(verb: str) -> None:
    played = loop(*[ok("base")] * 5, ok("base"), ok("base")).answer(verb, "try this")
    assert played.path == ["closed"] * 5 + ["open", "half_open", "open"]
    probe = played.acts[-1]
    assert (probe.told, probe.state) == (("try this",), "half_open")


def test_progress_while_probing_closes_it() -> None:
    played = loop(*[ok("base")] * 5, ok("t1"), finish("t2")).answer("go-on")
    assert played.path[5:] == ["open", "half_open", "closed", "complete"]


def test_done_while_probing_completes() -> None:
    played = loop(*[ok("base")] * 5, finish("t1")).answer("go-on")
    assert (played.path[-1], played.code) == ("complete", "completed")


def test_a_claim_that_fails_the_gate_while_probing_closes_it_if_there_was_progress() -> None:
    played = loop(*[ok("base")] * 5, finish("t1"), finish("t2"), proof__gate=[failing(), passing])
    assert played.answer("go-on").path[5:] == ["open", "half_open", "closed", "complete"]


def test_a_claim_that_fails_the_gate_while_probing_opens_it_if_there_was_none() -> None:
    played = loop(*[ok("base")] * 5, finish("base"), proof__baseline=failing(), proof__gate=failing())
    assert played.answer("go-on").path[5:] == ["open", "half_open", "open"]
    assert played.run.status == "waiting"


def test_stalled_beats_unproven() -> None:
    played = loop(finish("base"), proof__baseline=failing(), proof__gate=failing())
    assert (played.code, played.run.turns) == ("loop.no_progress", 5)


def test_a_cooldown_stands_for_an_answer() -> None:
    cooled = settings(timeouts_us={"loop": {"cooldown": 5 * MINUTE}})
    played = loop(*[ok("base")] * 5, finish("t1"), given=cooled)
    assert played.code == "completed"
    assert played.path[-3:] == ["open", "half_open", "complete"]
    assert played.now >= 5 * MINUTE


def test_a_limit_beats_a_loop_rule() -> None:
    played = loop(ok("base"), given=settings(limits={"loop": {"turns": 5}}))
    assert (played.code, played.run.status) == ("limit.turns", "ended")


# ---- questions and limits --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("turn", "code", "kind"),
    [
        (ok("t1", ask="Which one?"), "wait.question", "clarification"),
        (ok("t1", reading="blocked", message="I cannot go on."), "wait.question", "clarification"),
        (ok("t1", reading="blocked"), "wait.question", "clarification"),
        (bad("needs_approval"), "wait.permission", "permission"),
        (bad("auth"), "wait.auth", "limit"),
        (bad("billing"), "wait.billing", "limit"),
        (bad("budget_limit"), "limit.budget_usd", "budget"),
        (
            e.TurnEnded(verdict="ok", tree="t1", halted="loop.same_action", halted_why="Four times."),
            "loop.same_action",
            "loop",
        ),
        (
            e.TurnEnded(verdict="ok", tree="t1", halted="limit.actions", halted_why="601 calls."),
            "limit.actions",
            "loop",
        ),
    ],
)
def test_a_turn_that_must_ask_asks_and_its_answer_goes_into_the_next(
    turn: e.TurnEnded, code: str, kind: str
) -> None:
    played = loop(turn, finish("t2"))
    assert (played.code, played.run.status, played.run.state) == (code, "waiting", "closed")
    assert played.run.question and played.run.question.kind == kind
    verb = played.run.question.verbs[0]
    assert played.answer(verb, "the second").code == "completed"
    assert [a for a in played.acts if a.do == "agent:worker"][1].told[0] == "the second"


@pytest.mark.parametrize("turn", [ok("base", ask="?"), ok("base", reading="blocked"), bad("needs_approval")])
def test_a_turn_that_waits_counts_for_nothing(turn: e.TurnEnded) -> None:
    played = loop(*[ok("base")] * 4, turn, ok("base"))
    assert played.run.status == "waiting" and played.run.no_progress == 4


@pytest.mark.parametrize("verdict", ["rate_limited", "plan_limit", "overloaded", "network"])
def test_a_limit_waits_and_costs_nothing(verdict: str) -> None:
    limits = [bad(verdict)] * 7
    given = settings(limits={"loop": {"turns": 2, "no_progress": 2}})
    played = loop(ok("t1"), *limits, finish("t2"), given=given)
    assert (played.code, played.run.turns) == ("completed", 2)
    stops = played.of(e.Stopped)
    assert [s.stop.code for s in stops] == ["wait.rate_limit"] * 7
    assert all(s.until == s.at + MINUTE and s.question is None for s in stops)


@pytest.mark.parametrize(("reset", "waited"), [(500, 500), (1, None)])
def test_a_limit_with_a_reset_waits_until_then(reset: int, waited: int | None) -> None:
    played = loop(bad("plan_limit", reset_at=reset), finish("t1"))
    stopped = played.of(e.Stopped)[0]
    assert stopped.until == (waited or stopped.at)
    assert played.code == "completed"


def test_limits_between_failures_do_not_forgive_them() -> None:
    played = loop(bad("killed"), bad("rate_limited"), bad("killed"), bad("network"), bad("killed"))
    assert (played.code, played.run.turns) == ("failed.agent", 4)


# ---- failed turns ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("verdict", "code"),
    [
        ("killed", "failed.agent"),
        ("hung", "timeout.idle"),
        ("unknown", "failed.agent"),
        ("refused", "failed.agent"),
        ("cannot_start", "failed.start"),
        ("banana", "failed.agent"),
    ],
)
def test_the_fourth_failed_turn_in_a_row_ends(verdict: str, code: str) -> None:
    played = loop(bad(verdict))
    assert (played.code, played.run.end, played.done.count("agent:worker")) == (code, "failure", 4)


@pytest.mark.parametrize("most", [0, 1, 5])
def test_retries_are_held_exactly(most: int) -> None:
    played = loop(bad("killed"), given=settings(limits={"loop": {"retries": most, "no_progress": 99}}))
    assert (played.code, played.done.count("agent:worker")) == ("failed.agent", most + 1)


def test_the_last_failure_names_the_end() -> None:
    assert loop(bad("hung"), bad("hung"), bad("hung"), bad("killed")).code == "failed.agent"
    assert loop(bad("killed"), bad("killed"), bad("killed"), bad("hung")).code == "timeout.idle"


def test_a_turn_between_begins_the_count_anew() -> None:
    failures = [bad("killed")] * 3
    played = loop(*failures, ok("t1"), *failures, finish("t2"))
    assert played.code == "completed"


def test_an_agent_that_once_started_has_failed_not_failed_to_start() -> None:
    assert loop(ok("t1"), bad("cannot_start")).code == "failed.agent"


def test_a_full_context_is_a_fresh_session() -> None:
    sessioned = e.TurnEnded(verdict="ok", tree="t1", session="s1")
    played = loop(sessioned, bad("context"), finish("t2"))
    workers = [a for a in played.acts if a.do == "agent:worker"]
    assert [(a.session, a.resume) for a in workers] == [("", False), ("s1", True), ("", False)]
    assert played.run.turns == 2


def test_a_context_full_twice_running_is_a_failed_turn_and_ends_in_time() -> None:
    played = loop(bad("context"))
    assert (played.code, played.done.count("agent:worker")) == ("failed.agent", 5)
    assert played.run.turns == 4


# ---- interruptions ---------------------------------------------------------------------------------------


def interrupted(run: Run, act: e.Act) -> str:
    return "the driver was killed"


def test_an_interruption_costs_nothing_and_the_tree_is_put_back() -> None:
    played = loop(ok("t1"), interrupted, finish("t2"), given=settings(limits={"loop": {"turns": 2}}))
    assert (played.code, played.run.turns, played.run.retries) == ("completed", 2, 0)
    assert [(a.do, a.why, a.tree) for a in played.acts if a.do == "restore"] == [("restore", "putback", "t1")]
    again = played.acts[-3]
    assert again.do == "agent:worker" and any("interrupted" in text for text in again.told)


def test_five_interruptions_in_a_row_ask() -> None:
    played = loop(interrupted)
    assert (played.code, played.run.status) == ("wait.infrastructure", "waiting")
    assert played.done.count("agent:worker") == 5
    assert played.run.question and "the driver was killed" in played.run.question.text
    played.answer("go-on")
    assert (played.code, played.done.count("agent:worker")) == ("wait.infrastructure", 10)


def test_four_interruptions_and_a_finished_act_begin_anew() -> None:
    four = [interrupted] * 4
    played = loop(*four, ok("t1"), *four, finish("t2"))
    assert played.code == "completed"


def test_a_persons_stop_is_not_counted_as_an_interruption() -> None:
    from flyball.core.run import BY_A_PERSON

    played = loop(*[lambda r, a: BY_A_PERSON] * 9, finish("t1"))
    assert played.code == "completed"


def test_what_was_told_meanwhile_survives_an_interruption() -> None:
    from flyball.core.letters import Tell

    script = Script(**{"agent:worker": [ok("t1"), finish("t2")]})
    played = start(script, machine="loop", settings=settings())
    played.go_on(lambda run: run.baselined).write(Tell(text="first"))
    turn = turn_due(played)
    played.note([e.ActStarted(at=1, act=turn)])
    played.write(Tell(text="second"))
    played.note([e.ActInterrupted(at=2, key=turn.key, reason="gone")])
    played.go_on()
    heard = next(a.told for a in played.acts if a.do == "agent:worker")
    assert heard[:2] == ("first", "second")


def turn_due(played: Played) -> e.Act:
    from flyball.core.decide import Do, due

    found = due(played.run, 1)
    assert isinstance(found, Do)
    return found.act
