"""The streams of JSON lines that agents' command lines write, read as facts.

Which command line wrote a stream is told by the shape of its events, so that a known one is read wherever it appears.
What an agent says, and what its tools print, is never a fact about its turn.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from flyball.reading.calls import Call
from flyball.reading.streams import (
    acp_stream,
    claude_stream,
    codex_stream,
    gemini_stream,
    goose_stream,
    opencode_stream,
)
from flyball.reading.streams.stream_facts import Event, Facts, rows
from flyball.reading.terminal import as_object, lines_of, plain, table

__all__ = ["DIALECTS", "Facts", "Transcript", "read_stream"]

DIALECTS = {
    "claude": claude_stream.take,
    "codex": codex_stream.take,
    "gemini": gemini_stream.take,
    "opencode": opencode_stream.take,
    "goose": goose_stream.take,
    "acp": acp_stream.take,
}
TYPES = {
    "claude": claude_stream.TYPES,
    "codex": codex_stream.TYPES,
    "gemini": gemini_stream.TYPES,
    "opencode": opencode_stream.TYPES,
    "goose": goose_stream.TYPES,
}

SPREAD_MOST = 8  # values over several lines are looked for so often: a command line writes one
DECODER = json.JSONDecoder()


class Transcript:
    """Takes the lines of one stream as they come; `name` is the program's, for a stream that lacks its beginning."""

    def __init__(self, name: str = "") -> None:
        self.facts = Facts()
        self.dialect, self.name = "", name

    def take(self, line: str) -> Call | None:
        """What the line adds to the facts; the tool call that has just ended, if it tells of one."""
        event = as_object(line)
        event = _unwrapped(event) if event else None
        return self.take_event(event) if event else None

    def take_event(self, event: Event) -> Call | None:
        kind = str(event.get("type", ""))
        self.dialect = (
            self.dialect or _dialect(event) or (self.name if kind in TYPES.get(self.name, ()) else "")
        )
        if not self.dialect:
            return None
        if self.dialect != "acp" and kind not in TYPES[self.dialect]:
            self.facts.unknown[kind] = self.facts.unknown.get(kind, 0) + 1
            return None
        return DIALECTS[self.dialect](self.facts, event)


def _unwrapped(event: Event) -> Event | None:
    """A recording of a conversation holds both sides; only the agent's counts. Codex once wrapped its events too."""
    if "dir" not in event or "msg" not in event:
        return codex_stream.of_before(event) if "id" in event and "msg" in event else event
    return table(event["msg"]) if event["dir"] in ("<-", "agent->client") else None


def _dialect(event: Event) -> str:
    """The command line that writes such an event; "" if it could be anyone's."""
    kind = str(event.get("type", ""))
    if event.get("jsonrpc") == "2.0":
        return "acp"
    if "sessionID" in event and kind in opencode_stream.TYPES:
        return "opencode"
    if kind in ("thread.started", "turn.started", "item.started", "item.completed", "turn.failed"):
        return "codex"
    if (kind == "init" and "session_id" in event) or (kind == "result" and "stats" in event):
        return "gemini"
    if kind == "message" and {"role", "created", "content"} <= table(event.get("message")).keys():
        return "goose"
    is_claude = "session_id" in event and kind in (
        "system",
        "assistant",
        "user",
        "result",
        "rate_limit_event",
    )
    return "claude" if is_claude or kind in ("control_response", "control_request") else ""


def read_stream(out: str, name: str = "") -> Facts | None:
    """The facts of a whole output of the program `name`; None if it is no stream that is known here."""
    transcript = Transcript(name)
    for event in _events(out):
        if (
            not transcript.dialect
            and not event.get("type")
            and ("session_id" in event or name == "gemini")
            and ("response" in event or "error" in event)
        ):
            transcript.dialect = "gemini"
            gemini_stream.take_whole(transcript.facts, event)
        elif fresh := _unwrapped(event):
            transcript.take_event(fresh)
    transcript.facts.dialect = transcript.dialect
    return transcript.facts if transcript.dialect else None


def _events(out: str) -> Iterator[Event]:
    """The JSON objects of an output, however they are laid out: one to a line, several on one, over several lines, in a
    list, and with other text before, between and after them."""
    lines, at = lines_of(plain(out).replace("\0", "")), 0
    tries = SPREAD_MOST
    while at < len(lines):
        line = lines[at].strip()
        event = as_object(line)
        events = [event] if event is not None else _values(line)
        if not events and tries and line[:1] in ("{", "["):
            tries -= 1
            text = "\n".join(lines[at:])
            events, end = _value(text)
            at += text[:end].count("\n")
        yield from events
        at += 1


def _values(line: str) -> list[Event]:
    """The objects that begin this line, one after the other."""
    values, rest = list[Event](), line
    while rest[:1] in ("{", "["):
        fresh, end = _value(rest)
        if not end:
            break
        values, rest = values + fresh, rest[end:].lstrip()
    return values


def _value(text: str) -> tuple[list[Event], int]:
    """The objects of the JSON value that begins the text, and where it ends."""
    start = len(text) - len(text.lstrip())
    value: object
    try:
        value, end = DECODER.raw_decode(text, start)
    except (ValueError, RecursionError):
        return [], 0
    return [one for one in (rows(value) or [table(value)]) if one], end
