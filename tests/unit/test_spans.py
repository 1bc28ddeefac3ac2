"""Spans from events: the same ids each time, tool calls below their turn, and a sender that may fail."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from flyball.domain import events as e
from flyball.journal import Entry
from flyball.journal.memory import MemoryJournal
from flyball.runtime import otel
from flyball.views.spans import RunSpans, Span
from support import Played, Script, begun, failing, ok, passing, play, ruled, settings

CALLS = (
    e.Action(tool="Read", input="calc.py", verdict="allow", result="hunter2"),
    e.Action(tool="Bash", input="rm -rf /", verdict="deny", rule="destructive"),
    e.Action(tool="Bash\x1b[31m", verdict="allow", failed=True),
)


def spans(played: Played) -> list[Span]:
    follower = RunSpans()
    return [span for event in played.events for span in follower.of(event)]


def build(*turns: Any, **plays: Any) -> Played:
    return play(Script(**{"agent:coder": list(turns)}, **plays), begun("build", settings()))


def test_tool_calls_are_below_their_turn_in_order_and_inside_it() -> None:
    known = spans(build(e.TurnEnded(verdict="ok", tree="t1", actions=CALLS)))
    turn = next(span for span in known if span.name == "invoke_agent coder")
    tools = [span for span in known if span.attributes["flyball.span"] == "tool"]
    assert [(one.name, one.error) for one in tools] == [
        ("execute_tool Read", ""),
        ("execute_tool Bash", "refused"),
        ("execute_tool Bash", "failed"),
    ]
    assert {one.parent for one in tools} == {turn.id} and len({one.id for one in tools}) == 3
    assert all(turn.start <= one.start <= one.end <= turn.end for one in tools)
    assert "hunter2" not in str(known) and "rm -rf" not in str(known)


def test_what_went_wrong_is_the_spans_error() -> None:
    known = spans(build(ok("t1"), ok("t2"), proof__test=[failing(), passing]))
    assert [span.error for span in known if span.name == "proof test"] == ["failed", ""]
    refused = spans(build(ruled("deny", "t1")))
    assert [span.error for span in refused if span.name == "guard"] == ["", "deny"]
    failed = spans(build(ok("t1"), proof__test=failing(fingerprint="a")))
    assert (failed[-1].name, failed[-1].error) == ("run build", "limit.fix_attempts")


def test_an_act_that_was_interrupted_has_its_span_and_the_next_one_its_own() -> None:
    played = build(lambda run, act: "the power went", ok("t1"))
    turns = [span for span in spans(played) if "coder" in span.name]
    assert [span.error for span in turns] == ["interrupted", ""] and len({span.id for span in turns}) == 2


def test_a_task_of_a_lane_is_a_trace_of_its_own() -> None:
    """A lane does not end, so nothing may wait for its span."""
    task = replace(begun("task", settings()), run="t1", parent="r1", root="t1")
    done = e.ChildEnded(run="t1", end="success", stop=e.Stop(code="completed"), tree="t")
    follower, child = RunSpans(), RunSpans()
    follower.of(begun("cto"))
    child.of(task)
    known = child.of(e.Ended(at=9, end="success", stop=e.Stop(code="completed")))
    for key, act, result in (
        ("r1-1", "agent:planner", e.TurnEnded(verdict="ok", tree="t")),
        ("r1-2", "run:task", done),
    ):
        started = e.Act(key=key, do=act, state="PLANNING", turn=1, child="t1" if act == "run:task" else "")
        follower.of(e.ActStarted(at=1, act=started))
        known += follower.of(e.ActFinished(at=8, key=key, result=result))
    run, turn, step = known
    assert (turn.parent, step.parent, run.parent) == (0, 0, step.id)
    assert run.trace == step.trace != turn.trace


def test_the_same_events_give_the_same_spans() -> None:
    played = build(ok("t1"))
    assert spans(played) == spans(played)


def entries(played: Played) -> list[Entry]:
    rows = enumerate(played.events, 1)
    return [Entry("r1", seq, event.at, e.kind(event), e.encode(event), "") for seq, event in rows]


def test_a_sender_that_fails_or_raises_loses_spans_and_nothing_else() -> None:
    played = build(ok("t1"))

    def raises(batch: Sequence[Span]) -> bool:
        raise RuntimeError("no such library call")

    for send in (raises, lambda batch: False):
        live = otel.LiveTraces(MemoryJournal(), send)
        live.note(entries(played))
        live.close()
        assert live.lost == len(spans(played))


@pytest.mark.sampled(0)
def test_a_full_queue_loses_what_comes_and_never_blocks() -> None:
    gate, sent = threading.Event(), list[Span]()

    def slow(batch: Sequence[Span]) -> bool:
        gate.wait(10)
        sent.extend(batch)
        return True

    live = otel.LiveTraces(MemoryJournal(), slow)
    played = entries(build(ok("t1")))
    one = len(spans(build(ok("t1"))))
    rounds = otel.QUEUE_MOST // one + 100
    for _ in range(rounds):
        live.note(played)
    lost = live.lost
    gate.set()
    live.close()
    assert lost > 0 and len(sent) + live.lost == rounds * one
