"""What the CLIs send on a hook's standard input, and how each is answered.

Laws:
- A deny is exit code 2 with the reason on standard error: Claude Code, Codex and Gemini all take that as no.
  They take any other failure of a hook (another code, output that is not JSON, a timeout) as yes.
- A message after a tool has run, or about something else, is only recorded: its answer is always empty and 0.
"""

from __future__ import annotations

import json
from typing import Any, Literal, cast

import msgspec
from msgspec import Struct

Agent = Literal["claude", "codex", "gemini", "acp"]
Moment = Literal["pre", "post", "note"]

AGENTS: tuple[Agent, ...] = (
    "claude",
    "codex",
    "gemini",
)  # whose hooks send payloads; "acp" asks over its protocol
PRE = ("PreToolUse", "PermissionRequest", "BeforeTool")
POST = ("PostToolUse", "PostToolUseFailure", "AfterTool")
REFUSED = 2
RESULT_MOST = 4_000
INPUT_MOST = 4_000
TOOL_MOST, NAME_MOST = 80, 200  # of a tool's name; of what else a CLI gives names to


class BadPayload(Exception):
    """The payload cannot be checked."""


class HookCall(Struct, frozen=True, kw_only=True):
    """One message of a CLI to its hook, in a form common to all three."""

    agent: Agent
    event: str
    moment: Moment
    tool: str = ""
    input: dict[str, Any] = {}
    call: str = ""  # the CLI's own name for the call, if it has one
    cwd: str = ""
    session: str = ""
    model: str = ""  # where the CLI names it
    result: str = ""
    failed: bool = False

    @property
    def asked(self) -> str:
        """The input as text, always the same for the same input."""
        return json.dumps(self.input, sort_keys=True, ensure_ascii=False)


class Reply(Struct, frozen=True):
    """What the hook's process returns: its exit code and its output on both streams."""

    code: int = 0
    out: str = ""
    err: str = ""


def read(data: bytes, agent: str, moment: str) -> HookCall:
    """The payload as a HookCall; BadPayload if that agent cannot send it at that moment."""
    if agent not in (*AGENTS, "acp"):
        raise BadPayload(f"unknown agent '{agent}'")
    row = _row(data)
    event = str(row.get("hook_event_name", ""))
    expected = PRE if moment == "pre" else POST if moment == "post" else ()
    if expected and event not in expected:
        raise BadPayload(f"unexpected event '{event}'")
    input_ = row.get("tool_input", {})
    if moment == "pre" and (not isinstance(input_, dict) or not isinstance(row.get("tool_name"), str)):
        raise BadPayload("no tool name or input")
    return HookCall(
        agent=agent,
        event=event,
        moment="pre" if moment == "pre" else "post" if moment == "post" else "note",
        tool=str(row.get("tool_name", "")),
        input=cast("dict[str, Any]", input_) if isinstance(input_, dict) else {},
        call=str(row.get("tool_use_id", "")),
        cwd=str(row.get("cwd", "")),
        session=str(row.get("session_id", "")),
        model=str(row.get("model") or ""),
        result=_result(row),
        failed=event == "PostToolUseFailure" or _failed(row.get("tool_response")),
    )


def _row(data: bytes) -> dict[str, Any]:
    try:
        return msgspec.json.decode(data, type=dict[str, Any])
    except (msgspec.MsgspecError, ValueError, RecursionError) as broken:
        raise BadPayload(f"not a JSON object ({broken})") from None


def _result(row: dict[str, Any]) -> str:
    came = row.get("tool_response", row.get("error", ""))
    text = came if isinstance(came, str) else json.dumps(came, sort_keys=True, ensure_ascii=False)
    return text[-RESULT_MOST:]


def _failed(came: object) -> bool:
    if not isinstance(came, dict):
        return False
    row = cast("dict[str, Any]", came)
    code = row.get("exit_code", row.get("exitCode", 0))
    return bool(row.get("error") or row.get("is_error") or row.get("interrupted")) or code not in (0, None)


# ---- answers ---------------------------------------------------------------------------------------------


def refuse(reason: str) -> Reply:
    """Deny, in the form that all three CLIs understand."""
    return Reply(REFUSED, "", f"Denied by Flyball: {reason}\n")


def allow(word: HookCall) -> Reply:
    """Allow, in the form that this CLI expects. Codex takes an empty answer as yes."""
    if word.agent == "claude":
        return Reply(0, json.dumps(_claude_yes(word)) + "\n")
    return Reply(0, "" if word.agent == "codex" else '{"decision": "allow"}\n')


def defer(word: HookCall) -> Reply:
    """Claude Code ends its process and keeps the call; resumed, it asks about the same call again."""
    output = {"hookEventName": word.event, "permissionDecision": "defer"}
    return Reply(0, json.dumps({"hookSpecificOutput": output}) + "\n")


def _claude_yes(word: HookCall) -> dict[str, Any]:
    output: dict[str, Any] = {"hookEventName": word.event}
    if word.event == "PermissionRequest":
        return {"hookSpecificOutput": {**output, "decision": {"behavior": "allow"}}}
    reason = "Allowed by Flyball."
    return {
        "hookSpecificOutput": {**output, "permissionDecision": "allow", "permissionDecisionReason": reason}
    }
