"""Gemini CLI: `-o stream-json` or `-o json`. It states no cost; its input tokens include what was cached."""

from __future__ import annotations

from flyball.domain.events import Usage
from flyball.reading.calls import Call
from flyball.reading.streams.stream_facts import Event, Facts, number, summed, text
from flyball.reading.terminal import table

ENDS = {"FatalTurnLimitedError": "turn_limit", "FatalCancellationError": "killed"}
TYPES = frozenset({"init", "message", "tool_use", "tool_result", "result", "error"})


def take(facts: Facts, event: Event) -> Call | None:
    match event.get("type"):
        case "init":
            facts.session, facts.model, facts.end = (
                text(event.get("session_id")),
                text(event.get("model")),
                "",
            )
        case "message" if event.get("role") == "assistant":
            facts.end = ""
            facts.say(text(event.get("content")), part="delta" if event.get("delta") else "")
        case "tool_use":
            facts.end = ""
            facts.begin_call(
                text(event.get("tool_id")), text(event.get("tool_name")), event.get("parameters")
            )
        case "tool_result":
            result = event.get("output") or table(event.get("error")).get("message")
            return facts.end_call(text(event.get("tool_id")), result, event.get("status") == "error")
        case "result":
            _result(facts, event, event.get("status") == "success")
        case "error":
            facts.report(event, text(event.get("message")))
            facts.retry = event if event.get("severity") == "error" else None
        case _:
            pass
    return None


def take_whole(facts: Facts, event: Event) -> None:
    """The one object of `-o json`."""
    facts.session = text(event.get("session_id"))
    facts.say(text(event.get("response")))
    _result(facts, event, not event.get("error"))


def _result(facts: Facts, event: Event, well: bool) -> None:
    stats = table(event.get("stats"))
    fault = facts.retry  # the last that it said, if that was an error
    facts.end, facts.retry = "ok" if well and not fault else "error", None
    models = {name: usage_of(table(row)) for name, row in table(stats.get("models")).items()}
    facts.usage = summed(models) if models else usage_of(stats)
    facts.model = next(iter(models), facts.model)
    if not well:
        error = table(event.get("error"))
        facts.report(event, text(error.get("message")))
        facts.end = ENDS.get(text(error.get("type")), "error")
    elif fault and "session turns" in text(fault.get("message")):
        facts.end = "turn_limit"


def usage_of(row: Event) -> Usage:
    tokens = table(row.get("tokens")) or row
    cached = number(tokens.get("cached"))
    input_tokens = (
        number(tokens.get("input_tokens")) or number(tokens.get("prompt")) or number(tokens.get("input"))
    )
    output_tokens = number(tokens.get("candidates")) or number(tokens.get("output"))
    out = number(tokens.get("output_tokens")) or output_tokens + number(tokens.get("thoughts"))
    return Usage(input_tokens=max(0, input_tokens - cached), cache_read_tokens=cached, output_tokens=out)
