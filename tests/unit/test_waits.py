"""Limits: how long they are waited for, and who stands in meanwhile. The same run always waits the same."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from flyball.core import events as e
from flyball.core import limits
from flyball.core.run import Run, apply, begin
from flyball.core.settings import HOUR, MINUTE, SECOND, Settings
from support import Script, bad, begun, finish, play

NOW = 1_000 * HOUR


def a_run(name: str = "r1", **settings: Any) -> Run:
    given = Settings(**{"agents": {"default": "script:a"}, "retry_every_us": 60 * SECOND, **settings})
    return begin(replace(begun("loop", given), run=name))


def limit(kind: str = "plan_limit", reset_at: int | None = None) -> e.TurnEnded:
    return e.TurnEnded(verdict=kind, reset_at=reset_at)


@pytest.mark.parametrize("wait", [10 * SECOND, MINUTE, 5 * HOUR])
def test_a_plan_limit_is_waited_for_with_a_little_jitter(wait: int) -> None:
    spans = [limits.ends_at(a_run(f"r{n}"), limit(reset_at=NOW + wait), NOW) - NOW - wait for n in range(50)]
    assert all(0 <= span <= min(2 * SECOND, wait // 100) for span in spans)
    assert len(set(spans)) > 40, "many runs do not come back in the same instant"
    assert spans[7] == limits.ends_at(a_run("r7"), limit(reset_at=NOW + wait), NOW) - NOW - wait


@pytest.mark.parametrize(
    ("turn", "wait"),
    [
        (limit(reset_at=NOW + 9 * SECOND), 9 * SECOND),
        (limit(reset_at=NOW), 0),
        (limit(reset_at=NOW - HOUR), 0),
        (limit(), 60 * SECOND),
        (limit("rate_limited", NOW + HOUR), HOUR),
        (limit("rate_limited"), 60 * SECOND),
        (limit("overloaded"), 60 * SECOND),
        (limit("network"), 60 * SECOND),
    ],
)
def test_other_waits_are_exact(turn: e.TurnEnded, wait: int) -> None:
    assert limits.ends_at(a_run(), turn, NOW) == NOW + wait


def test_a_reset_that_is_past_again_is_not_tried_at_once_again() -> None:
    again = replace(a_run(), limits=2)
    assert limits.ends_at(again, limit(reset_at=NOW - HOUR), NOW) == NOW + 60 * SECOND


def test_the_first_free_agent_plays_and_the_own_one_returns() -> None:
    run = a_run(fallback=("script:b", "script:c"))
    assert limits.agent_for(run, "worker", NOW) == "script:a"
    for agent in ("script:a", "script:b"):
        run = apply(run, e.Limited(at=NOW, agent=agent, until=NOW + MINUTE))
    assert limits.agent_for(run, "worker", NOW) == "script:c"
    assert limits.agent_for(run, "worker", NOW + MINUTE) == "script:a"


def test_agents_that_are_limited_by_turns_are_told_once_what_was_done() -> None:
    """However often they change, the account does not grow."""
    limited = [bad("rate_limited", reset_at=0) for _ in range(6)]
    given = Settings(agents={"default": "script:a"}, fallback=("script:b",), retry_every_us=SECOND)
    played = play(Script(**{"agent:worker": [*limited, finish("t1")]}), machine="loop", settings=given)
    assert played.run.end == "success"
    assert max(sum(text.startswith(limits.FRESH) for text in act.told) for act in played.acts) == 1
