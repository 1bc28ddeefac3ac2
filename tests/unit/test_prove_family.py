"""A run and the run below it, proved together; and each way of breaking what goes between them is found."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import pytest
from msgspec.structs import replace

from flyball.domain import events as e
from flyball.lab.prove import family
from flyball.lab.prove.explore import Broken, Exploration
from flyball.lab.prove.family import explore, pair
from flyball.machines import shipped
from flyball.runtime.batch import Batch


@cache
def together() -> Exploration:
    return explore(two())


def two() -> family.Pair:
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


def test_a_build_and_its_loop_hold_together() -> None:
    found = together()
    assert found.broken is None
    assert found.states > 1_000 and found.transitions > found.states


def test_a_task_and_its_review_hold_together() -> None:
    task = shipped("task")
    assert explore(pair(task, task.states["quality_review"], shipped("review"))).broken is None


tell_parent, end = Batch._tell_parent, Batch._end


def _silent_about(kind: type[e.Event]) -> Callable[..., None]:
    def rule(batch: Batch, before: Any, run: Any, event: Any) -> None:
        if not isinstance(event, kind):
            tell_parent(batch, before, run, event)

    return rule


def _hears_it_twice(batch: Batch, run: Any, event: Any) -> None:
    end(batch, run, event)
    batch.add(run.began.parent, [e.Charged(at=event.at, run=run.id, usage=e.Usage(cost_uusd=1), turns=1)])


def _on_the_base_tree(parent: Any, pair_: Any, now: int) -> e.RunBegan:
    return replace(child(parent, pair_, now), tree="elsewhere")


child = family._child
BREAKS: dict[str, tuple[Any, str, Any, tuple[str, ...]]] = {
    "a cost is not charged above": (Batch, "_charge", lambda *_: None, ("GUARD-4",)),
    "an end is not heard above": (Batch, "_end", lambda *_: None, ("SYS-5",)),
    "an end is charged once more": (Batch, "_end", _hears_it_twice, ("GUARD-4",)),
    "a stop below is not the run's above": (Batch, "_tell_parent", _silent_about(e.Stopped), ("SYS-7",)),
    "an answer below does not wake the run above": (
        Batch,
        "_tell_parent",
        _silent_about(e.Answered),
        ("SYS-7",),
    ),
    "a lower run begins on another tree": (family, "_child", _on_the_base_tree, ("SYS-10",)),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", BREAKS)
def test_what_breaks_between_the_two_is_found_and_named(name: str) -> None:
    assert together().broken is None, "they must hold before they are broken"
    place, rule, wrong, laws = BREAKS[name]
    with instead(place, rule, wrong):
        broken = explore(two()).broken
    assert isinstance(broken, Broken) and broken.law in laws, broken
    assert broken.steps and any("below" in fact for step in broken.steps for fact in step.facts)


def test_the_way_to_a_breach_is_told_with_both_states() -> None:
    with instead(Batch, "_end", lambda *_: None):
        broken = explore(two()).broken
    assert broken is not None
    assert any(step.state == "write > closed" for step in broken.steps)
