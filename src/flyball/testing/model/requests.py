"""What a model is asked, whatever the wire format, and which declared tool an alias such as `@bash` means."""

from __future__ import annotations

import base64
import shlex
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

from flyball.testing.model.model_script import Json


@dataclass
class Tool:
    name: str
    kind: str = "function"  # "custom" tools (OpenAI) take free text, not JSON
    namespace: str | None = None  # OpenAI Responses groups MCP tools in namespaces
    schema: Json = field(default_factory=dict[str, Any])


@dataclass
class Request:
    dialect: str
    body: Json
    stream: bool
    model: str
    tools: dict[str, Tool]
    serial: int = 0

    @property
    def is_side(self) -> bool:
        limit = self.body.get("max_tokens") or self.body.get("max_output_tokens") or 2
        return not self.tools or limit <= 1


@dataclass
class Call:
    """One resolved tool call."""

    id: str
    tool: Tool
    input: Any


def _schema_of(spec: Json) -> Json:
    for key in ("input_schema", "parameters", "parametersJsonSchema"):
        schema = spec.get(key)
        if isinstance(schema, dict):
            return cast("Json", schema)
    return {}


def declared_tools(dialect: str, body: Json) -> dict[str, Tool]:
    tools: dict[str, Tool] = {}

    def add(spec: Json, namespace: str | None = None) -> None:
        if spec.get("type") == "namespace":
            for inner in spec.get("tools", []):
                add(inner, spec.get("name"))
        elif name := spec.get("name"):
            kind = "custom" if spec.get("type") == "custom" else "function"
            key = f"{namespace}{name}" if namespace else name
            tools[key] = Tool(name, kind, namespace, _schema_of(spec))

    for spec in cast("list[Json]", body.get("tools") or []):
        if dialect == "chat":
            add(spec.get(spec.get("type", "function"), spec))
        elif dialect == "gemini":
            for inner in cast("list[Json]", spec.get("functionDeclarations") or []):
                add(inner)
        else:
            add(spec)
    return tools


# alias -> [(declared tool name, how to build its input from the script's)]
_BASH: list[tuple[str, Callable[[str], Json]]] = [
    ("Bash", lambda c: {"command": c, "description": "scripted command"}),
    ("exec_command", lambda c: {"cmd": c}),
    ("shell_command", lambda c: {"command": c}),
    ("shell", lambda c: {"command": ["bash", "-lc", c]}),
    ("run_shell_command", lambda c: {"command": c, "description": "scripted command"}),
    ("bash", lambda c: {"command": c, "description": "scripted command"}),
    ("execute_bash", lambda c: {"command": c}),
    ("terminal", lambda c: {"command": c}),
]
_WRITE: list[tuple[str, Callable[[str, str], Json]]] = [
    ("Write", lambda p, c: {"file_path": p, "content": c}),
    ("write_file", lambda p, c: {"file_path": p, "content": c}),
    ("write", lambda p, c: {"filePath": p, "content": c}),
]
_READ: list[tuple[str, Callable[[str], Json]]] = [
    ("Read", lambda p: {"file_path": p}),
    ("read_file", lambda p: {"file_path": p}),
    ("read", lambda p: {"filePath": p}),
]


def resolve_call(part: Json, request: Request, call_id: str) -> Call:
    """Turn a script's tool part into a call of a tool this request declares."""
    name, input_ = part["tool"], part.get("input", {})
    tools = request.tools
    if name.startswith("@mcp:"):
        suffix = name[5:]
        for key, tool in tools.items():
            if key.endswith(suffix):
                return Call(call_id, tool, input_)
        return Call(call_id, Tool(suffix), input_)
    if name == "@write":
        for candidate, build in _WRITE:
            if candidate in tools:
                return Call(call_id, tools[candidate], build(input_["path"], input_["content"]))
        blob = base64.b64encode(input_["content"].encode()).decode()
        target = shlex.quote(input_["path"])
        return _bash_call(f"echo {blob} | base64 -d > {target}", request, call_id)
    if name == "@read":
        for candidate, build_read in _READ:
            if candidate in tools:
                return Call(call_id, tools[candidate], build_read(input_["path"]))
        return _bash_call(f"cat {shlex.quote(input_['path'])}", request, call_id)
    if name == "@bash":
        return _bash_call(input_["command"], request, call_id)
    return Call(call_id, tools.get(name, Tool(name)), input_)


def _bash_call(command: str, request: Request, call_id: str) -> Call:
    for candidate, build in _BASH:
        if candidate in request.tools:
            return Call(call_id, request.tools[candidate], build(command))
    return Call(call_id, Tool("bash"), {"command": command})
