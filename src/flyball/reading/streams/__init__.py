"""The streams of JSON lines that agents' command lines write, read as facts.

Which command line wrote a stream is told by the shape of its events, so that a known one is read wherever it appears.
What an agent says, and what its tools print, is never a fact about its turn.
"""

from __future__ import annotations

from flyball.reading.calls import Call
from flyball.reading.prose import as_object
from flyball.reading.streams import acp_stream, claude_stream, codex_stream, gemini_stream, opencode_stream
from flyball.reading.streams.stream_facts import Event, Facts, table
from flyball.reading.terminal import lines_of

__all__ = ["DIALECTS", "Facts", "Transcript", "read_stream"]

DIALECTS = {
    "claude": claude_stream.take,
    "codex": codex_stream.take,
    "gemini": gemini_stream.take,
    "opencode": opencode_stream.take,
    "acp": acp_stream.take,
}
TYPES = {
    "claude": claude_stream.TYPES,
    "codex": codex_stream.TYPES,
    "gemini": gemini_stream.TYPES,
    "opencode": opencode_stream.TYPES,
}


class Transcript:
    """Takes the lines of one stream as they come."""

    def __init__(self) -> None:
        self.facts = Facts()
        self.dialect = ""

    def take(self, line: str) -> Call | None:
        """What the line adds to the facts; the tool call that has just ended, if it tells of one."""
        event = as_object(line)
        event = _unwrapped(event) if event else None
        return self.take_event(event) if event else None

    def take_event(self, event: Event) -> Call | None:
        self.dialect = self.dialect or _dialect(event)
        if not self.dialect:
            return None
        kind = str(event.get("type", ""))
        if self.dialect != "acp" and kind not in TYPES[self.dialect]:
            self.facts.unknown[kind] = self.facts.unknown.get(kind, 0) + 1
            return None
        return DIALECTS[self.dialect](self.facts, event)


def _unwrapped(event: Event) -> Event | None:
    """A recording of a conversation holds both sides; only the agent's counts."""
    if "dir" not in event or "msg" not in event:
        return event
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
    told = "session_id" in event and kind in ("system", "assistant", "user", "result", "rate_limit_event")
    return "claude" if told or kind in ("control_response", "control_request") else ""


def read_stream(out: str) -> Facts | None:
    """The facts of a whole output; None if it is not a stream that is known here."""
    whole = as_object(out) if out.lstrip().startswith("{") else None
    transcript = Transcript()
    if whole is not None and "response" in whole and "stats" in whole:
        transcript.dialect = "gemini"
        gemini_stream.take_whole(transcript.facts, whole)
    for line in [out] if whole is not None and not transcript.dialect else lines_of(out):
        transcript.take(line)
    transcript.facts.dialect = transcript.dialect
    return transcript.facts if transcript.dialect else None
