"""opencode: `run --format json`. Tokens and cost are stated step by step; a refused permission ends it with exit 0."""

from __future__ import annotations

from flyball.domain.events import Usage
from flyball.reading.calls import Call
from flyball.reading.streams.stream_facts import Event, Facts, number, text, uusd
from flyball.reading.terminal import table

TYPES = frozenset({"step_start", "text", "tool_use", "step_finish", "error", "reasoning"})


def take(facts: Facts, event: Event) -> Call | None:
    part = table(event.get("part"))
    facts.session = facts.session or text(event.get("sessionID"))
    match event.get("type"):
        case "step_start" if facts.end == "ok":
            facts.end = ""
        case "text":
            facts.say(text(part.get("text")))
        case "tool_use":
            state = table(part.get("state"))
            name = text(part.get("callID"))
            facts.begin_call(name, text(part.get("tool")), state.get("input"))
            failed = state.get("status") == "error"
            return facts.end_call(name, state.get("error") if failed else state.get("output"), failed)
        case "step_finish":
            _step(facts, part)
        case "error":
            error = table(event.get("error"))
            facts.end = "killed" if error.get("name") == "MessageAbortedError" else "error"
            facts.report(event, text(table(error.get("data")).get("message")) or text(error.get("name")))
        case _:
            pass
    return None


def _step(facts: Facts, part: Event) -> None:
    tokens, cost = table(part.get("tokens")), uusd(part.get("cost"))
    cache = table(tokens.get("cache"))
    step = Usage(
        input_tokens=number(tokens.get("input")),
        cache_write_tokens=number(cache.get("write")),
        cache_read_tokens=number(cache.get("read")),
        output_tokens=number(tokens.get("output")) + number(tokens.get("reasoning")),
    )
    facts.usage = facts.usage.plus(step)
    facts.cost_uusd = facts.cost_uusd if cost is None else (facts.cost_uusd or 0) + cost
    facts.end = {"stop": "ok", "length": "context", "content-filter": "refused"}.get(
        text(part.get("reason")), ""
    )
    last = facts.calls[-1] if facts.calls else None
    if part.get("reason") == "tool-calls" and last and last.error and "rejected permission" in last.result:
        facts.end, facts.problem = "needs_approval", f"{last.tool} {last.input}"
