"""Claude Code, spoken with over its stdio control protocol.

Every tool call asks the guard through a hook; what the hook leaves open is asked over the protocol, which fails closed.
A call that needs a person's approval is deferred: the process ends, and the resumed session asks about the same call.
"""

from __future__ import annotations

import uuid
from typing import Any

from flyball.agents.adapter import Ask, Launch, TurnRequest
from flyball.agents.stream_agent import StreamAgent
from flyball.reading.streams.stream_facts import text
from flyball.reading.terminal import as_object, table

PROTOCOL = (
    *("-p", "--verbose", "--input-format", "stream-json", "--output-format", "stream-json"),
    *("--permission-prompt-tool", "stdio", "--permission-mode", "default"),
)
ENV = {
    "CLAUDE_CODE_MAX_RETRIES": "2",  # Flyball does the waiting, and shows it
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_TELEMETRY": "1",
    "DISABLE_ERROR_REPORTING": "1",
}
SESSIONS = uuid.UUID("5f0c1f3e-8c1a-4f0e-9a53-6c1d3f1b7a11")


class ClaudeAgent(StreamAgent):
    name = "claude"
    hooked = True

    def launch(self, request: TurnRequest) -> Launch:
        session = (
            ("--resume", request.session) if request.resume else ("--session-id", chosen_session(request))
        )
        return Launch(argv=("claude", *PROTOCOL, *session, *_settings(request)), env=ENV, talks=True)

    def converse(self, request: TurnRequest, ask: Ask) -> ControlProtocol:
        return ControlProtocol(request.prompt, ask)


def _settings(request: TurnRequest) -> tuple[str, ...]:
    """Our hooks and our MCP server; those of the user's own settings stay."""
    if not request.hooks:
        return ()
    return ("--settings", str(request.hooks / "claude.json"), "--mcp-config", str(request.hooks / "mcp.json"))


def chosen_session(request: TurnRequest) -> str:
    """Known before the process starts, so that it can be resumed however early that dies."""
    return str(uuid.uuid5(SESSIONS, request.key))


class ControlProtocol:
    def __init__(self, prompt: str, ask: Ask) -> None:
        self.prompt, self.ask = prompt, ask
        self.done = False

    def opening(self) -> list[dict[str, Any]]:
        message = {"role": "user", "content": self.prompt}
        return [_request("flyball-init", "initialize"), {"type": "user", "message": message}]

    def reply(self, line: str) -> list[dict[str, Any]]:
        event = as_object(line) or {}
        if event.get("type") == "result":
            self.done = True
        if event.get("type") != "control_request":
            return []
        name, request = text(event.get("request_id")), table(event.get("request"))
        if request.get("subtype") != "can_use_tool":
            error = {
                "subtype": "error",
                "request_id": name,
                "error": "Flyball does not support this request.",
            }
            return [{"type": "control_response", "response": error}]
        input_ = table(request.get("input"))
        answer = self.ask(text(request.get("tool_name")), input_, text(request.get("tool_use_id")))
        body = {"behavior": "allow", "updatedInput": input_} if answer.allowed else _no(answer.why)
        response = {"subtype": "success", "request_id": name, "response": body}
        return [{"type": "control_response", "response": response}]

    def interrupt(self) -> list[dict[str, Any]]:
        return [_request("flyball-interrupt", "interrupt")]


def _request(name: str, subtype: str) -> dict[str, Any]:
    return {"type": "control_request", "request_id": name, "request": {"subtype": subtype}}


def _no(why: str) -> dict[str, Any]:
    return {"behavior": "deny", "message": why or "Denied by Flyball."}
