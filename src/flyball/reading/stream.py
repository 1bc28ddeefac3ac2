"""A recorded stream is not a statement; its last word is.

Agents print JSON lines: their own messages, tool results, prompts. Where such a stream is handed over instead of the
final message, the final message is taken out of it, and what the stream says as a fact (an error, a refused limit)
is kept beside it. Text that is no stream passes through untouched.
"""

from collections.abc import Iterator
from typing import Any, cast

import msgspec

from flyball.reading.terminal import lines_of

type_names = frozenset({
    "assistant", "user", "system", "result", "rate_limit_event", "message", "init", "tool_use", "tool_result",
    "text", "step_start", "step_finish", "error", "thread.started", "turn.started", "turn.completed",
    "turn.failed", "item.started", "item.updated", "item.completed", "stream_event",
})  # fmt: skip

Event = dict[str, Any]


class Spoken(msgspec.Struct, frozen=True):
    """The final message, and what the stream around it stated as facts."""

    message: str
    failed: bool = False
    limited: bool = False


def spoken(text: str) -> Spoken:
    """The agent's final message: the text itself, or the last word of the stream that it is."""
    events = _events(text)
    if events is None:
        return Spoken(message=text)
    return Spoken(message=_last_word(events), failed=_failed(events), limited=_limited(events))


def _events(text: str) -> list[Event] | None:
    if not text.lstrip().startswith("{"):
        return None
    whole = as_object(text)
    if whole is not None:
        return [whole]
    rows = [line for line in lines_of(text) if line.strip()]
    events = [event for event in map(as_object, rows) if event is not None]
    is_stream = any(event.get("type") in type_names for event in events) and len(events) * 2 >= len(rows)
    return events if is_stream else None


def as_object(line: str) -> Event | None:
    """The JSON object that this line is, if it is one."""
    line = line.strip()
    if not (line.startswith("{") and line.endswith("}")):
        return None
    try:
        found: object = msgspec.json.decode(line)
    except (msgspec.DecodeError, RecursionError):
        return None
    return cast("Event", found) if isinstance(found, dict) else None


def _last_word(events: list[Event]) -> str:
    pieces: list[str] = []  # of a message that came in pieces, last first
    for event in reversed(events):
        kind = event.get("type")
        if isinstance(event.get("result"), str) and kind in ("result", None):
            return "" if event.get("is_error") else _text(event["result"])
        if event.get("delta") and event.get("role") == "assistant":
            pieces.append(_text(event.get("content")))
        elif pieces or kind in _INTERRUPTS:
            break
        elif words := "\n".join(_words(event)):
            return words
    return "".join(reversed(pieces))


_INTERRUPTS = frozenset({"user", "tool_use", "tool_result", "turn.failed", "error"})


def _words(event: Event) -> Iterator[str]:
    """What the agent itself says in this event of Claude's, Codex's, Gemini's or opencode's stream."""
    kind = event.get("type")
    item, part = _object(event.get("item")), _object(event.get("part"))
    if kind == "assistant":
        yield from _blocks(_object(event.get("message")).get("content"))
    elif kind == "item.completed" and item.get("type") == "agent_message":
        yield _text(item.get("text"))
    elif kind == "message" and event.get("role") == "assistant" and not event.get("delta"):
        yield _text(event.get("content"))
    elif kind == "text":
        yield _text(part.get("text"))


def _blocks(content: object) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    elif isinstance(content, list):
        for block in map(_object, cast("list[object]", content)):
            if block.get("type") == "text":
                yield _text(block.get("text"))


def _failed(events: list[Event]) -> bool:
    last = events[-1]
    return (
        bool(last.get("is_error"))
        or last.get("type") in ("turn.failed", "error")
        or last.get("status") == "error"
    )


def _limited(events: list[Event]) -> bool:
    last = events[-1]
    refused = any(_object(e.get("rate_limit_info")).get("status") == "rejected" for e in events)
    ended_well = last.get("type") == "result" and not last.get("is_error")
    return last.get("api_error_status") == 429 or (refused and not ended_well)


def _object(value: object) -> Event:
    return cast("Event", value) if isinstance(value, dict) else {}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
