"""Any agent that speaks the Agent Client Protocol: Gemini CLI, opencode, and adapters for others.

Flyball offers no file system of its own, so the agent asks before it writes. A call that needs a person's approval is
refused for now; the person is asked after the turn, and the agent may repeat the call in its next turn.
"""

from __future__ import annotations

import shlex
from typing import Any

from msgspec.structs import replace

from flyball.agents.adapter import Ask, Launch, TurnRequest
from flyball.agents.stream_agent import StreamAgent
from flyball.reading.streams.acp_stream import RESUMES
from flyball.reading.streams.stream_facts import Event, rows, text
from flyball.reading.terminal import as_object, table

CLIENT = {"fs": {"readTextFile": False, "writeTextFile": False}, "terminal": False}
AUTH_REQUIRED = -32000
NOT_OFFERED = -32601
TOOLS = {"execute": "Bash", "read": "Read", "search": "Grep", "fetch": "WebFetch", "think": "TodoWrite"}


class AcpAgent(StreamAgent):
    name = "acp"
    hooked = True

    def __init__(self, command: str) -> None:
        super().__init__(f"acp:{command}")
        self.command = command

    def launch(self, request: TurnRequest) -> Launch:
        return Launch(argv=("/bin/sh", "-c", f"exec {self.command}"), env=_quiet(self.command), talks=True)

    def converse(self, request: TurnRequest, ask: Ask) -> AcpClient:
        return AcpClient(request, ask)


def _quiet(command: str) -> dict[str, str]:
    """Settings that keep these programs from contacting anyone but their model, and from asking questions at their
    start.
    """
    if "gemini" in command:
        return {"GEMINI_TELEMETRY_ENABLED": "false", "GEMINI_CLI_TRUST_WORKSPACE": "true"}
    if "opencode" in command:
        asks = '{"edit": "ask", "bash": "ask", "webfetch": "ask"}'
        return {
            "OPENCODE_DISABLE_AUTOUPDATE": "1",
            "OPENCODE_DISABLE_MODELS_FETCH": "1",
            "OPENCODE_PERMISSION": asks,
        }
    return {}


class AcpClient:
    """initialize, a session (new or resumed), one prompt."""

    def __init__(self, request: TurnRequest, ask: Ask) -> None:
        self.request, self.ask = request, ask
        self.session, self.capabilities, self.methods = "", Event(), list[Event]()
        self.authenticated = self.done = False

    def opening(self) -> list[Event]:
        client = {"name": "flyball", "version": "1"}
        return [_call("initialize", protocolVersion=1, clientCapabilities=CLIENT, clientInfo=client)]

    def interrupt(self) -> list[Event]:
        params = {"sessionId": self.session}
        return [{"jsonrpc": "2.0", "method": "session/cancel", "params": params}] if self.session else []

    def reply(self, line: str) -> list[Event]:
        event = as_object(line) or {}
        if "method" in event and "id" in event:
            return [self._asked(event)]
        if "method" in event or event.get("jsonrpc") != "2.0":
            return []
        return self._answered(str(event.get("id")), table(event.get("result")), table(event.get("error")))

    # ---- what the agent answers

    def _answered(self, name: str, result: Event, error: Event) -> list[Event]:
        if error:
            return self._refused(name, error)
        match name:
            case "initialize":
                self.capabilities = table(result.get("agentCapabilities"))
                self.methods = rows(result.get("authMethods"))
                return [self._open()]
            case "authenticate":
                return [self._open()]
            case "session/new" | "session/load" | "session/resume":
                self.session = text(result.get("sessionId")) or self.request.session
                prompt = [{"type": "text", "text": self.request.prompt}]
                return [_call("session/prompt", sessionId=self.session, prompt=prompt)]
            case _:
                self.done = True
                return []

    def _open(self) -> Event:
        place: Event = {"cwd": self.request.cwd, "mcpServers": _servers(self.request.server)}
        if self.request.resume:
            resumes = "resume" in table(self.capabilities.get("sessionCapabilities"))
            method = "session/resume" if resumes else "session/load"
            return _call(method, sessionId=self.request.session, **place)
        return _call("session/new", **place)

    def _refused(self, name: str, error: Event) -> list[Event]:
        """A session that no longer exists is started anew. Login is attempted once, by API key: nobody can open a
        browser.
        """
        method = next((text(m.get("id")) for m in self.methods if "api-key" in text(m.get("id"))), "")
        if (
            name.startswith("session/")
            and error.get("code") == AUTH_REQUIRED
            and method
            and not self.authenticated
        ):
            self.authenticated = True
            return [_call("authenticate", methodId=method)]
        if name in RESUMES:
            prompt = f"{self.request.so_far}\n\n{self.request.prompt}"
            self.request = replace(self.request, resume=False, session="", prompt=prompt)
            return [self._open()]
        self.done = True
        return []

    # ---- what the agent asks

    def _asked(self, event: Event) -> Event:
        name = event.get("id")
        if event.get("method") != "session/request_permission":
            error = {"code": NOT_OFFERED, "message": "Flyball does not offer this."}
            return {"jsonrpc": "2.0", "id": name, "error": error}
        params = table(event.get("params"))
        call = table(params.get("toolCall"))
        answer = self.ask(*tool_call(call), text(call.get("toolCallId")))
        kinds = ("allow_once", "allow_always") if answer.allowed else ("reject_once", "reject_always")
        options = {text(row.get("kind")): text(row.get("optionId")) for row in rows(params.get("options"))}
        choice = next((options[kind] for kind in kinds if kind in options), "")
        outcome = {"outcome": "selected", "optionId": choice} if choice else {"outcome": "cancelled"}
        return {"jsonrpc": "2.0", "id": name, "result": {"outcome": outcome}}


def _servers(line: tuple[str, ...]) -> list[Event]:
    return [{"name": "flyball", "command": line[0], "args": list(line[1:]), "env": []}] if line else []


def tool_call(call: Event) -> tuple[str, dict[str, Any]]:
    """The call as the guard sees it: by its kind, with every path that it names."""
    kind, input_ = text(call.get("kind")), table(call.get("rawInput"))
    content = rows(call.get("content"))
    paths = [text(row.get("path")) for row in (*rows(call.get("locations")), *content) if row.get("path")]
    if kind in ("edit", "delete", "move"):
        diffs = [{"new_string": text(row.get("newText"))} for row in content if row.get("type") == "diff"]
        return "Write", {"path": list(dict.fromkeys(paths)), "edits": diffs}
    if kind == "execute":
        command = input_.get("command") or input_.get("cmd") or text(call.get("title"))
        line = shlex.join(map(str, command)) if isinstance(command, list) else str(command)  # pyright: ignore[reportUnknownArgumentType]
        where = {"cwd": text(input_.get("cwd"))} if input_.get("cwd") else {}
        return "Bash", {"command": line, **where}
    if kind == "read" and paths:
        return "Read", {"path": paths}
    if kind == "other" and text(call.get("toolCallId")).startswith("mcp_"):  # Gemini: mcp_SERVER_TOOL__ID
        return text(call.get("toolCallId")).partition("__")[0], input_
    return TOOLS.get(kind, text(call.get("name")) or text(call.get("title")) or kind or "unknown"), input_


def _call(method: str, **params: Any) -> Event:
    """A request whose id is its method: there is only one of each at a time."""
    return {"jsonrpc": "2.0", "id": method, "method": method, "params": params}
