"""What is a loop of tool calls, what is work, and how little of a turn is kept to tell them apart."""

from __future__ import annotations

from typing import Any

import pytest

from flyball.core.stops import call_limits
from flyball.domain.settings import Settings
from flyball.reading.calls import Call, CallLimits, CallWatch, FiredRule, fired, observe
from flyball.state.fold import begin
from support import begun


def watched(*calls: Call) -> CallWatch:
    watch = CallWatch()
    for call in calls:
        watch = observe(watch, call)
    return watch


def word(n: int) -> str:
    """Different for every number, and no digit in it: digits are not told apart."""
    return "".join(chr(97 + int(digit)) for digit in f"{n:04d}")


def looks(count: int, **more: Any) -> list[Call]:
    """So many different calls with different results."""
    return [Call(**{"tool": "Read", "input": word(n), "result": word(n), **more}) for n in range(count)]


def test_a_turn_begins_with_nothing_counted() -> None:
    assert CallWatch() == CallWatch(count=0, repeats=0, recent=(), errors=(), last="")
    assert fired(CallWatch(), CallLimits(same_call=0, same_error=0, cycles=0, warn=0, halt=0)) is None


def test_every_call_counts_once_and_other_calls_begin_the_row_anew() -> None:
    a, b = looks(2)
    seen = [watched(*[a, a, b, a][:n]) for n in range(1, 5)]
    assert [(watch.count, watch.repeats) for watch in seen] == [(1, 1), (2, 2), (3, 1), (4, 1)]


def test_a_call_is_neither_an_error_nor_a_write_unless_it_is_said() -> None:
    plain = Call("Read", "x", "y")
    assert (plain.error, plain.writes) == (False, False)
    assert watched(plain).errors == ()


@pytest.mark.parametrize(("length", "loops"), [(2, True), (3, True), (4, True), (5, True), (6, False)])
def test_two_to_five_calls_in_the_same_order_are_a_cycle(length: int, loops: bool) -> None:
    found = fired(watched(*looks(length) * 5))
    assert (found is not None) is loops
    assert found is None or (found.rule, found.observed) == ("the same few calls in the same order", 5)
    assert fired(watched(*looks(length) * 4)) is None


def test_what_came_once_is_no_cycle_however_strict_the_limit() -> None:
    once = CallLimits(cycles=1)
    assert fired(watched(*looks(5)), once) is None
    found = fired(watched(*looks(2) * 2), once)
    assert found is not None and (found.threshold, found.observed) == (1, 2)


def test_a_cycle_is_counted_from_the_newest_call_back_to_where_it_was_broken() -> None:
    pair, other = looks(2), Call("Read", "else", "else")
    assert fired(watched(*pair * 4, other, *pair * 4)) is None
    found = fired(watched(*pair * 4, other, *pair * 5))
    assert found is not None and found.observed == 5
    found = fired(watched(other, *pair * 7))
    assert found is not None and found.observed == 7


def test_a_cycle_that_waits_is_none_wherever_in_it_the_waiting_is() -> None:
    look, sleep = Call("Read", "log", "same"), Call("Bash", "sleep 5", "ok")
    for cycle in ([look, sleep], [sleep, look], [look, sleep, Call("Read", "b", "b")]):
        assert fired(watched(*cycle * 9)) is None
    assert fired(watched(*[look, Call("Bash", "sleeping", "ok")] * 9)) is not None


def test_only_the_beginning_of_a_call_says_whether_it_waits() -> None:
    """A thousand letters of it: a long script that mentions a sleep somewhere is still a call like another."""
    for pad, waits in ((993, True), (994, False)):
        pair = [Call("Bash", " " * pad + "sleep 5", "ok"), Call("Read", "log", "same")]
        assert (fired(watched(*pair * 5)) is None) is waits


def test_a_write_that_worked_begins_the_cycle_anew_and_one_that_failed_does_not() -> None:
    """A failed edit changed nothing; what came before it still counts."""
    pair = looks(2)
    broken, done = Call("Edit", "x", "no", error=True, writes=True), Call("Edit", "x", "ok", writes=True)
    assert watched(*pair, done).recent[:-1] == () and len(watched(*pair, broken).recent) == 3
    assert fired(watched(*[pair[0], broken] * 5)) is not None
    assert fired(watched(*[pair[0], done] * 5)) is None


def test_the_same_write_with_the_same_result_over_and_over_is_a_loop() -> None:
    done = Call("Edit", "x", "ok", writes=True)
    found = fired(watched(*[done] * 4))
    assert found is not None and (found.code, found.observed) == ("loop.same_action", 4)
    assert fired(watched(*[done] * 3)) is None, "at the threshold"
    assert len(watched(*[done] * 4).recent) == 4


def test_the_same_error_counts_also_when_other_calls_and_errors_come_between() -> None:
    def errors(text: str, times: int) -> list[Call]:
        return [Call("Bash", f"{text}{word(n)}", text, error=True) for n in range(times)]

    mixed = [
        call for pair in zip(errors("no such file", 6), errors("denied", 6), strict=True) for call in pair
    ]
    found = fired(watched(*mixed[:-1]))
    assert found is not None and (found.code, found.threshold, found.observed) == ("loop.same_error", 5, 6)
    assert fired(watched(*mixed[:-2])) is None
    assert [times for _, times in watched(*mixed).errors] == [6, 6]
    other_tool = [Call(f"T{word(n)}", "x", "denied", error=True) for n in range(9)]
    assert fired(watched(*other_tool)) is None


def test_what_is_kept_of_a_turn_is_bounded() -> None:
    watch = watched(*looks(200, error=True))
    assert (len(watch.recent), len(watch.errors), watch.count) == (96, 64, 200)
    assert watch.errors[-1] == watched(looks(200, error=True)[-1]).errors[-1]  # the newest stay
    assert len(watched(Call("Bash", "x" * 500, "")).last) == 200


def test_the_evidence_is_the_last_call_and_the_limits_are_those_given() -> None:
    calls = looks(3)
    few = CallLimits(warn=1, halt=2)
    assert fired(watched(calls[0]), few) is None
    warned = fired(watched(*calls[:2]), few)
    assert warned == FiredRule(
        "limit.actions", "warn", "tool calls in one turn", 1, 2, f"Read {calls[1].input}"
    )
    halted = fired(watched(*calls), few)
    assert halted == FiredRule(
        "limit.actions", "halt", "tool calls in one turn", 2, 3, f"Read {calls[2].input}"
    )
    assert fired(watched(*calls)) is None


def test_each_limit_of_calls_can_be_set() -> None:
    given = {"calls": 10, "call_errors": 2, "same_action": 7}
    run = begin(begun("loop", Settings(limits={"loop": given})))
    assert call_limits(run) == CallLimits(same_call=7, same_error=2, halt=10, warn=5)
    assert call_limits(begin(begun("loop"))) == CallLimits(same_call=3, same_error=5, halt=600, warn=300)


@pytest.mark.parametrize(("count", "level"), [(300, None), (301, "warn"), (600, "warn"), (601, "halt")])
def test_calls_are_counted_to_a_warning_and_to_a_halt(count: int, level: str | None) -> None:
    found = fired(CallWatch(count=count))
    assert (found.level if found else None) == level
