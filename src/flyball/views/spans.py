"""A run as trace spans (ALO-12): run, turn, act, guard and tool call, from its events, with the GenAI names.

Ids are hashes of the run's and the act's ids: the same journal gives the same spans, live or exported later. What
agents and people wrote (prompts, messages, inputs and results of tool calls) is never in a span.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from msgspec import Struct, field
from msgspec.structs import replace

from flyball.domain import events as e
from flyball.views.text import agent_name, one_line

Value = str | int | float | bool
PROVIDERS = {"claude": "anthropic", "codex": "openai", "gemini": "gcp.gemini"}
OPERATION = "gen_ai.operation.name"


class SpanEvent(Struct, frozen=True):
    at: int  # microseconds, as everywhere
    name: str
    attributes: dict[str, Value]


class Span(Struct, frozen=True, kw_only=True):
    trace: int
    id: int
    parent: int = 0  # 0: the root of its trace
    name: str
    start: int
    end: int
    attributes: dict[str, Value]
    events: tuple[SpanEvent, ...] = ()
    error: str = ""


class StartedAct(Struct, frozen=True):
    at: int
    act: e.Act


class RunSpans(Struct):
    """Follows one run, event by event."""

    began: e.RunBegan | None = None
    acts: dict[str, StartedAct] = field(default_factory=dict[str, StartedAct])
    events: list[SpanEvent] = field(default_factory=list[SpanEvent])

    def of(self, event: e.AnyEvent) -> list[Span]:
        """The spans that this event ends."""
        if isinstance(event, e.RunBegan):
            self.began = event
        return list(self._ended(self.began, event)) if self.began else []

    def _ended(self, began: e.RunBegan, event: e.AnyEvent) -> Iterator[Span]:
        match event:
            case e.ActStarted(act=act):
                self.acts[act.key] = StartedAct(event.at, act)
            case e.ActFinished():
                yield from _finished(began, self.acts.get(event.key), event)
                if not isinstance(event.result, e.TurnEnded):
                    self.acts.pop(event.key, None)
            case e.ActInterrupted():
                started = self.acts.pop(event.key, None)
                if started:
                    yield _act(began, started, event.at, {}, "interrupted")
            case e.Ruled():
                started = self.acts.pop(event.key, None)
                if started:
                    yield _guard(began, started, event)
            case e.Ended():
                yield _run(began, event, tuple(self.events))
            case _:
                self.events += _noted(event)


def _run(began: e.RunBegan, event: e.Ended, events: tuple[SpanEvent, ...]) -> Span:
    names: dict[str, Value] = {
        "flyball.span": "run",
        "flyball.end": event.end,
        "flyball.stop_code": event.stop.code,
        "flyball.agents": ", ".join(sorted({agent_name(name) for name in began.settings.agents.values()})),
    }
    return Span(
        trace=_trace(began),
        id=span_id("run", began.run),
        parent=span_id("act", began.run) if began.parent else 0,
        name=f"run {began.machine}",
        start=began.at,
        end=event.at,
        attributes={**_common(began), **names},
        events=events,
        error="" if event.end == "success" else event.stop.code,
    )


def _finished(began: e.RunBegan, started: StartedAct | None, event: e.ActFinished) -> Iterator[Span]:
    if started is None:
        return
    match event.result:
        case e.TurnEnded() as turn:
            yield _turn(began, started, event.at, turn)
            yield from _tools(began, started, event.at, turn)
        case e.ProofEnded() as proof:
            facts: dict[str, Value] = {
                "flyball.proof.passed": proof.passed,
                "flyball.proof.failing": proof.failing or 0,
            }
            yield _act(began, started, event.at, facts, "" if proof.passed else "failed")
        case e.CheckEnded() | e.CommitEnded() as result:
            good = result.outcome in ("ready", "committed")
            yield _act(
                began, started, event.at, {"flyball.outcome": result.outcome}, "" if good else result.outcome
            )
        case e.ChildEnded() as child:
            facts = {"flyball.child": child.run, "flyball.stop_code": child.stop.code}
            yield _act(began, started, event.at, facts, "" if child.end == "success" else child.stop.code)
        case e.Prepared(code=code):
            yield _act(began, started, event.at, {}, code)
        case _:
            yield _act(began, started, event.at, {}, "")


def _act(began: e.RunBegan, started: StartedAct, end: int, facts: dict[str, Value], error: str) -> Span:
    act = started.act
    why: dict[str, Value] = {"flyball.why": act.why} if act.why else {}
    return Span(
        trace=_trace(began, started),
        id=_act_id(started),
        parent=0 if _is_lane(began) else span_id("run", began.run),
        name=f"{act.do} {act.why}".strip(),
        start=started.at,
        end=end,
        attributes={**_common(began), "flyball.span": "act", **_of(act), **why, **facts},
        error=error,
    )


def _turn(began: e.RunBegan, started: StartedAct, end: int, turn: e.TurnEnded) -> Span:
    act, usage = started.act, turn.usage
    role, agent = act.role, act.agent.partition(":")[0]
    facts: dict[str, Value] = {
        "flyball.span": "turn",
        "flyball.turn": act.turn,
        "flyball.verdict": turn.verdict,
        "flyball.files_changed": len(turn.changed),
        "flyball.cost_usd": usage.cost_uusd / 1_000_000,
        OPERATION: "invoke_agent",
        "gen_ai.provider.name": PROVIDERS.get(agent, agent),
        "gen_ai.agent.name": role,
        "gen_ai.usage.input_tokens": usage.input_tokens + usage.cache_write_tokens + usage.cache_read_tokens,
        "gen_ai.usage.output_tokens": usage.output_tokens,
        "gen_ai.usage.cache_read.input_tokens": usage.cache_read_tokens,
        "gen_ai.usage.cache_creation.input_tokens": usage.cache_write_tokens,
    }
    models: dict[str, Value] = (
        {"gen_ai.response.model": one_line(next(iter(turn.models)), 100)} if turn.models else {}
    )
    session: dict[str, Value] = {"gen_ai.conversation.id": turn.session} if turn.session else {}
    error = "" if turn.verdict == "ok" else turn.verdict
    plain = _act(began, started, end, {**facts, **models, **session}, error)
    return replace(plain, name=f"invoke_agent {role}")


def _tools(began: e.RunBegan, started: StartedAct, end: int, turn: e.TurnEnded) -> Iterator[Span]:
    """The journal knows the order of tool calls, not their times: they are spread evenly over the turn."""
    step = max(end - started.at, 0) // (len(turn.actions) or 1)
    for number, action in enumerate(turn.actions):
        at, tool = started.at + number * step, one_line(action.tool, 80)
        facts: dict[str, Value] = {
            "flyball.span": "tool",
            "flyball.estimated_time": True,
            "flyball.verdict": action.verdict,
            OPERATION: "execute_tool",
            "gen_ai.tool.name": tool,
        }
        rule: dict[str, Value] = {"flyball.rule": action.rule} if action.rule else {}
        yield Span(
            trace=_trace(began, started),
            id=span_id("tool", f"{started.act.key} {started.at} {number}"),
            parent=_act_id(started),
            name=f"execute_tool {tool}",
            start=at,
            end=at + step,
            attributes={**_common(began), **facts, **rule},
            error="refused" if action.verdict == "deny" else "failed" if action.failed else "",
        )


def _guard(began: e.RunBegan, started: StartedAct, event: e.Ruled) -> Span:
    ruling = event.ruling
    facts: dict[str, Value] = {
        "flyball.span": "guard",
        "flyball.verdict": ruling.verdict,
        "flyball.rule": ruling.rule,
        "flyball.policy": ruling.policy,
        "flyball.tier": ruling.tier,
    }
    return Span(
        trace=_trace(began, started),
        id=span_id("guard", f"{started.act.key} {started.at}"),
        parent=_act_id(started),
        name="guard",
        start=event.at,
        end=event.at,
        attributes={**_common(began), **facts},
        error="" if ruling.verdict == "allow" else ruling.verdict,
    )


def _noted(event: e.AnyEvent) -> list[SpanEvent]:
    """What happened to a run between its acts, as events of its span."""
    match event:
        case e.Moved():
            names = {
                "flyball.from": event.source,
                "flyball.to": event.target,
                "flyball.outcome": event.outcome,
            }
            return [SpanEvent(event.at, "transition", dict(names))]
        case e.Stopped():
            return [
                SpanEvent(
                    event.at,
                    "stopped",
                    {"flyball.status": event.status, "flyball.stop_code": event.stop.code},
                )
            ]
        case e.Answered():
            return [SpanEvent(event.at, "answered", {"flyball.verb": event.verb})]
        case e.Warned():
            return [SpanEvent(event.at, "warning", {"flyball.code": event.code})]
        case e.FailureCounted():
            return [
                SpanEvent(event.at, "failure", {"flyball.state": event.state, "flyball.count": event.count})
            ]
        case _:
            return []


def _common(began: e.RunBegan) -> dict[str, Value]:
    return {"flyball.run": began.run, "flyball.machine": began.machine}


def _of(act: e.Act) -> dict[str, Value]:
    return {"flyball.act": act.do, "flyball.state": act.state, "flyball.key": act.key}


def _is_lane(began: e.RunBegan) -> bool:
    return began.table.get("supervises") is True


def _trace(began: e.RunBegan, started: StartedAct | None = None) -> int:
    """A run and its children are one trace. A lane does not end, so each of its acts is one: a task, or a planner's turn."""
    name = began.root or began.run
    if started is not None and _is_lane(began):
        name = started.act.child or started.act.key
    return int.from_bytes(hashlib.sha256(f"trace {name}".encode()).digest()[:16])


def _act_id(started: StartedAct) -> int:
    """The act of a child run is found again from the child, which is the parent of the child's span."""
    act = started.act
    return span_id("act", act.child) if act.child else span_id("act", f"{act.key} {started.at}")


def span_id(kind: str, name: str) -> int:
    return int.from_bytes(hashlib.sha256(f"{kind} {name}".encode()).digest()[:8])
