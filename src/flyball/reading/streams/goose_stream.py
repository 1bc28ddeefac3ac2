"""goose: `run --output-format stream-json`. It exits with 0 whatever happened and reports a failure as a message of its
own, which has no id; the model's messages have the provider's."""

from __future__ import annotations

import re

from flyball.domain.events import Usage
from flyball.reading.calls import Call
from flyball.reading.streams.stream_facts import Event, Facts, number, rows, text
from flyball.reading.terminal import table

TYPES = frozenset({"message", "notification", "model_change", "error", "complete"})
FAILED = re.compile(r"\s*(?:Ran into this error|Unable to continue): (.*)", re.S)
FAILED_WHOLE = re.compile(
    r"\s*Ran into this error: .*\n\nPlease retry if you think this is a transient or recoverable error\.\s*",
    re.S,
)
ADVICE = re.compile(r"\s*Please retry if you think this.*", re.S)
OUT_OF_TURNS = "I've reached the maximum number of actions"


def take(facts: Facts, event: Event) -> Call | None:
    match event.get("type"):
        case "message":
            return _message(facts, table(event.get("message")))
        case "error":
            _fail(facts, text(event.get("error")))
        case "complete":
            facts.end = facts.end or "ok"
            facts.usage = Usage(
                input_tokens=number(event.get("input_tokens")),
                output_tokens=number(event.get("output_tokens")),
            )
        case _:
            pass
    return None


def _message(facts: Facts, message: Event) -> Call | None:
    call = None
    for block in rows(message.get("content")):
        name = text(block.get("id"))
        match block.get("type"):
            case "text" if message.get("role") == "assistant":
                _take_words(facts, message, text(block.get("text")))
            case "systemNotification":
                _take_notice(facts, text(block.get("msg")))
            case "toolRequest":
                tool_call = table(table(block.get("toolCall")).get("value"))
                facts.begin_call(name, text(tool_call.get("name")), tool_call.get("arguments"))
            case "toolResponse":
                result = table(block.get("toolResult"))
                value = table(result.get("value"))
                failed = result.get("status") != "success" or value.get("isError") is True
                call = facts.end_call(name, value.get("content") or result.get("error"), failed)
            case _:
                pass
    return call


def _take_words(facts: Facts, message: Event, words: str) -> None:
    name = text(message.get("id"))
    failure = None if name else FAILED.match(words)
    if failure:
        _fail(facts, ADVICE.sub("", failure[1]))
    elif not name and words.startswith(OUT_OF_TURNS):
        facts.end = "turn_limit"
    else:
        facts.end = ""
        facts.say(words, part=name)


def _take_notice(facts: Facts, words: str) -> None:
    if failure := FAILED.match(words):
        _fail(facts, failure[1])


def _fail(facts: Facts, words: str) -> None:
    facts.end = "error"
    facts.report({"type": "error", "message": words}, words)
