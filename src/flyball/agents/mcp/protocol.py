"""The Model Context Protocol as far as a server with nothing but tools needs it: one message in, one answer out."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct

from flyball import __version__
from flyball.reading.streams.stream_facts import text
from flyball.reading.terminal import as_object, table

VERSIONS = (
    "2025-06-18",
    "2025-11-25",
    "2025-03-26",
    "2024-11-05",
)  # the first is offered to a client that asks for another
PARSE_ERROR, INVALID, UNKNOWN = -32700, -32600, -32601


class Tool(Struct, frozen=True, kw_only=True):
    """The description of a tool for clients."""

    name: str
    description: str
    input_schema: dict[str, Any]


class ToolResult(Struct, frozen=True):
    """The result of a call for the agent."""

    text: str
    failed: bool = False


Call = Callable[[str, dict[str, Any]], ToolResult]


def answer(payload: bytes, tools: Sequence[Tool], call: Call) -> str:
    """The answer to one message as a line; "" if none is needed."""
    message = as_object(payload.decode("utf-8", "replace"))
    if message is None:
        return _failure(None, PARSE_ERROR, "This is not a JSON object.")
    name, method, params = message.get("id"), message.get("method"), table(message.get("params"))
    if name is None or not isinstance(name, str | int):
        return ""  # a notification
    match method:
        case "initialize":
            return _success(name, _greeting(text(params.get("protocolVersion"))))
        case "ping":
            return _success(name, {})
        case "tools/list":
            return _success(name, {"tools": [_listed(tool) for tool in tools]})
        case "tools/call":
            outcome = call(text(params.get("name")), table(params.get("arguments")))
            content = [{"type": "text", "text": outcome.text}]
            return _success(name, {"content": content, "isError": outcome.failed})
        case str():
            return _failure(name, UNKNOWN, f"There is no method '{method[:80]}' here.")
        case _:
            return _failure(name, INVALID, "A request needs a method.")


def _greeting(version: str) -> dict[str, Any]:
    return {
        "protocolVersion": version if version in VERSIONS else VERSIONS[0],
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "flyball", "version": __version__},
    }


def _listed(tool: Tool) -> dict[str, Any]:
    return {"name": tool.name, "description": tool.description, "inputSchema": tool.input_schema}


def _success(name: str | int, result: dict[str, Any]) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": name, "result": result})


def _failure(name: str | int | None, code: int, words: str) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": name, "error": {"code": code, "message": words}})
