"""What the CLIs say on a hook's standard input, and how each is answered.

Laws:
- A refusal is exit code 2 with the reason on standard error: Claude Code, Codex and Gemini all take that as no.
  Anything else that goes wrong in a hook (another code, words that are no JSON, a timeout) they take as yes.
- What comes after a tool has run, or beside it, is only written down: its answer is always empty and 0.
"""

from __future__ import annotations

import json
from typing import Any, Literal, cast

import msgspec
from msgspec import Struct

Agent = Literal["claude", "codex", "gemini"]
Moment = Literal["pre", "post", "note"]

AGENTS: tuple[Agent, ...] = ("claude", "codex", "gemini")
PRE = ("PreToolUse", "PermissionRequest", "BeforeTool")
POST = ("PostToolUse", "PostToolUseFailure", "AfterTool")
REFUSED = 2
RESULT_MOST = 4_000
INPUT_MOST = 4_000
TOOL_MOST, NAME_MOST = 80, 200  # of a tool's name; of what else a CLI gives names to


class BadPayload(Exception):
    """The payload is none that a judge can go by."""


class HookCall(Struct, frozen=True, kw_only=True):
    """One word of a CLI to its hook, in the shape that all three share."""

    agent: Agent
    event: str
    moment: Moment
    tool: str = ""
    input: dict[str, Any] = {}
    call: str = ""  # the CLI's own name for the call, if it has one
    cwd: str = ""
    session: str = ""
    result: str = ""
    failed: bool = False

    @property
    def asked(self) -> str:
        """The input as text, always the same for the same input."""
        return json.dumps(self.input, sort_keys=True, ensure_ascii=False)


class Reply(Struct, frozen=True):
    """What the hook's process leaves: its exit code and its two streams."""

    code: int = 0
    out: str = ""
    err: str = ""


def read(data: bytes, agent: str, moment: str) -> HookCall:
    """The payload as a HookCall; BadPayload if it cannot be one of that agent at that moment."""
    if agent not in AGENTS:
        raise BadPayload(f"'{agent}' is no agent whose hooks are known")
    row = _row(data)
    event = str(row.get("hook_event_name", ""))
    expected = PRE if moment == "pre" else POST if moment == "post" else ()
    if expected and event not in expected:
        raise BadPayload(f"'{event}' is no event of this kind")
    given = row.get("tool_input", {})
    if moment == "pre" and (not isinstance(given, dict) or not isinstance(row.get("tool_name"), str)):
        raise BadPayload("it names no tool and input")
    return HookCall(
        agent=agent,
        event=event,
        moment="pre" if moment == "pre" else "post" if moment == "post" else "note",
        tool=str(row.get("tool_name", "")),
        input=cast("dict[str, Any]", given) if isinstance(given, dict) else {},
        call=str(row.get("tool_use_id", "")),
        cwd=str(row.get("cwd", "")),
        session=str(row.get("session_id", "")),
        result=_result(row),
        failed=event == "PostToolUseFailure" or _failed(row.get("tool_response")),
    )


def _row(data: bytes) -> dict[str, Any]:
    try:
        return msgspec.json.decode(data, type=dict[str, Any])
    except (msgspec.MsgspecError, ValueError, RecursionError) as broken:
        raise BadPayload(f"it is no JSON object ({broken})") from None


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
    """No, in the one form that all three take as no."""
    return Reply(REFUSED, "", f"Flyball's guard refused this: {reason}\n")


def allow(word: HookCall) -> Reply:
    """Yes, as that CLI wants to hear it. Codex takes silence for yes and knows no other."""
    if word.agent == "claude":
        return Reply(0, json.dumps(_claude_yes(word)) + "\n")
    return Reply(0, '{"decision": "allow"}\n' if word.agent == "gemini" else "")


def _claude_yes(word: HookCall) -> dict[str, Any]:
    said: dict[str, Any] = {"hookEventName": word.event}
    if word.event == "PermissionRequest":
        return {"hookSpecificOutput": {**said, "decision": {"behavior": "allow"}}}
    reason = "Flyball's guard let it pass."
    return {"hookSpecificOutput": {**said, "permissionDecision": "allow", "permissionDecisionReason": reason}}
