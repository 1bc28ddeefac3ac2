"""A run and the run below it, proved together; and each way of breaking what goes between them is found."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import pytest
from msgspec.structs import replace

from flyball.core.family import Family
from flyball.domain import events as e
from flyball.lab.prove import pairs
from flyball.lab.prove.explore import Broken, Exploration
from flyball.lab.prove.pairs import explore, pair
from flyball.machines import shipped


@cache
def together() -> Exploration:
    return explore(two())


def two() -> pairs.Pair:
    build = shipped("build")
    return pair(build, replace(build.states["write"], do="run:loop"), shipped("loop"))


@contextmanager
def instead(place: Any, name: str, rule: Any) -> Iterator[None]:
    kept = getattr(place, name)
    setattr(place, name, rule)
    try:
        yield
    finally:
        setattr(place, name, kept)


@pytest.mark.sampled(0)
def test_a_build_and_its_loop_hold_together() -> None:
    found = together()
    assert found.broken is None
    assert found.states > 1_000 and found.transitions > found.states


def test_a_task_and_its_review_hold_together() -> None:
    task = shipped("task")
    assert explore(pair(task, task.states["quality_review"], shipped("review"))).broken is None


tell_parent, end = Family._tell_parent, Family._end


def _silent_about(kind: type[e.Event]) -> Callable[..., None]:
    def rule(family: Family, before: Any, run: Any, event: Any) -> None:
        if not isinstance(event, kind):
            tell_parent(family, before, run, event)

    return rule


def _hears_it_twice(family: Family, run: Any, event: Any) -> None:
    end(family, run, event)
    family.add(run.began.parent, [e.Charged(at=event.at, run=run.id, usage=e.Usage(cost_uusd=1), turns=1)])


def _on_the_base_tree(parent: Any, pair_: Any, now: int) -> e.RunBegan:
    return replace(child(parent, pair_, now), tree="elsewhere")


child = pairs._child
BREAKS: dict[str, tuple[Any, str, Any, tuple[str, ...]]] = {
    "a cost is not charged above": (Family, "_charge", lambda *_: None, ("GUARD-4",)),
    "an end is not heard above": (Family, "_end", lambda *_: None, ("SYS-5",)),
    "an end is charged once more": (Family, "_end", _hears_it_twice, ("GUARD-4",)),
    "a stop below is not the run's above": (Family, "_tell_parent", _silent_about(e.Stopped), ("SYS-7",)),
    "an answer below does not wake the run above": (
        Family,
        "_tell_parent",
        _silent_about(e.Answered),
        ("SYS-7",),
    ),
    "a lower run begins on another tree": (pairs, "_child", _on_the_base_tree, ("SYS-10",)),
}


@pytest.mark.sampled(0)
@pytest.mark.parametrize("name", BREAKS)
def test_what_breaks_between_the_two_is_found_and_named(name: str) -> None:
    assert together().broken is None, "they must hold before they are broken"
    place, rule, wrong, laws = BREAKS[name]
    with instead(place, rule, wrong):
        broken = explore(two()).broken
    assert isinstance(broken, Broken) and broken.law in laws, broken
    assert broken.steps and any("below" in fact for step in broken.steps for fact in step.facts)


def test_the_way_to_a_breach_is_told_with_both_states() -> None:
    with instead(Family, "_end", lambda *_: None):
        broken = explore(two()).broken
    assert broken is not None
    assert any(step.state == "write > closed" for step in broken.steps)
