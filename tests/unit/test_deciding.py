"""Rules that a search once found unguarded: each a case that fails when the rule is made wrong."""

from __future__ import annotations

from support import Script, begun, ok, start

from flyball.core import events as e
from flyball.core.decide import INTERRUPTIONS
from flyball.core.letters import Ask, HandBack

# ---- a person takes over -----------------------------------------------------------------------------------------


def interrupted(times: int = 1) -> Script:
    """The worker's first turns are cut off."""
    return Script(agent__worker=[*["its keeper was killed"] * times, ok("t1"), ok("t2")])


def test_a_half_made_change_is_put_back_before_a_person_takes_over() -> None:
    """Else what the agent half did would be handed back as the person's own, unjudged."""
    played = start(interrupted(), begun("loop"))
    played.go_on(lambda run: run.interruptions == 1)
    assert played.run.todo is not None
    played.write(Ask(what="take-over", who="anna")).go_on()
    assert (played.code, played.run.todo) == ("wait.take_over", None)
    assert played.done[-1] == "restore:putback"


def test_a_run_that_waits_with_a_half_made_change_puts_it_back_first() -> None:
    played = start(interrupted(INTERRUPTIONS + 1), begun("loop")).go_on()
    assert (played.code, played.run.todo is not None) == ("wait.infrastructure", True)
    played.write(Ask(what="take-over", who="anna"))
    assert played.run.question is None and played.run.asked == "take-over"
    played.go_on()
    assert played.code == "wait.infrastructure", "what keeps failing is asked about before anything is tried again"


def test_what_was_held_is_dropped_by_a_take_over_and_the_act_is_done_again() -> None:
    overreach = e.Ruling(verdict="deny", rule="radius", tree="t1", diff="base>t1", policy="p", policy_hash="h")

    def denied(run: e.Any, act: e.Act) -> e.Any:
        from flyball.core.decide import Finished

        return Finished(key=act.key, result=ok(act.tree), ruling=overreach)

    played = start(Script(agent__coder=[denied, ok("t2")]), begun("build")).go_on()
    assert played.run.status == "blocked"
    question = played.run.question
    assert question is not None
    from flyball.core.letters import Answer

    played.write(Answer(question=question.id, verb="approve", shown=question.shown))
    assert played.run.held is not None and played.run.held.until == "taken"
    played.write(Ask(what="take-over", who="anna")).go_on()
    assert (played.code, played.run.held, played.run.tree) == ("wait.take_over", None, "t1")
    played.write(HandBack(who="anna")).go_on()
    coders = [act for act in played.acts if act.do == "agent:coder"]
    assert len(coders) >= 2, "the state's act is done again"
