"""Flyball's side of the protocols that agents speak on their standard input."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from flyball.agents.acp import AcpClient, tool_call
from flyball.agents.adapter import Answer, TurnRequest
from flyball.agents.claude import ControlProtocol

Json = dict[str, Any]
OPTIONS = [{"optionId": "yes", "kind": "allow_once"}, {"optionId": "no", "kind": "reject_once"}]


def guard(tool: str, given: Json, call: str) -> Answer:
    return Answer("rm" not in json.dumps(given), "not that")


def request(**more: Any) -> TurnRequest:
    return TurnRequest(prompt="Fix it.", prompt_file=Path("p"), role="coder", cwd="/w", key="k", **more)


@pytest.mark.parametrize(("command", "behavior"), [("ls", "allow"), ("rm -r /", "deny")])
def test_claude_is_answered_by_the_guard(command: str, behavior: str) -> None:
    talk = ControlProtocol("Fix it.", guard)
    asked = {
        "subtype": "can_use_tool",
        "tool_name": "Bash",
        "input": {"command": command},
        "tool_use_id": "t",
    }
    (reply,) = talk.reply(json.dumps({"type": "control_request", "request_id": "r", "request": asked}))
    assert (reply["response"]["request_id"], reply["response"]["response"]["behavior"]) == ("r", behavior)


def test_claude_gets_the_prompt_and_is_let_go_after_its_result() -> None:
    talk = ControlProtocol("Fix it.", guard)
    assert [message["type"] for message in talk.opening()] == ["control_request", "user"]
    odd = {"type": "control_request", "request_id": "x", "request": {"subtype": "hook_callback"}}
    assert talk.reply(json.dumps(odd))[0]["response"]["subtype"] == "error"
    assert not talk.reply("not JSON") and not talk.done
    talk.reply('{"type": "result"}')
    assert talk.done


def answered(
    client: AcpClient, method: str, result: Json | None = None, error: Json | None = None
) -> list[Json]:
    body = {"error": error} if error else {"result": result or {}}
    return client.reply(json.dumps({"jsonrpc": "2.0", "id": method, **body}))


def test_acp_opens_a_session_prompts_once_and_ends() -> None:
    client = AcpClient(request(), guard)
    assert client.opening()[0]["params"]["clientCapabilities"]["fs"] == {
        "readTextFile": False,
        "writeTextFile": False,
    }
    assert answered(client, "initialize")[0]["method"] == "session/new"
    (prompt,) = answered(client, "session/new", {"sessionId": "s"})
    assert (prompt["method"], prompt["params"]["sessionId"]) == ("session/prompt", "s")
    assert client.interrupt()[0]["method"] == "session/cancel"
    assert not answered(client, "session/prompt", {"stopReason": "end_turn"}) and client.done


def test_an_acp_session_that_is_gone_is_begun_anew_with_a_summary() -> None:
    client = AcpClient(request(session="old", resume=True, so_far="You had fixed a.py."), guard)
    assert answered(client, "initialize")[0]["method"] == "session/load"
    assert answered(client, "session/load", error={"code": -32603})[0]["method"] == "session/new"
    (prompt,) = answered(client, "session/new", {"sessionId": "new"})
    assert prompt["params"]["prompt"][0]["text"] == "You had fixed a.py.\n\nFix it."


def test_acp_logs_in_once_by_key_and_then_gives_up() -> None:
    client = AcpClient(request(), guard)
    answered(client, "initialize", {"authMethods": [{"id": "browser"}, {"id": "gemini-api-key"}]})
    (login,) = answered(client, "session/new", error={"code": -32000})
    assert login["params"] == {"methodId": "gemini-api-key"}
    assert answered(client, "authenticate")[0]["method"] == "session/new"
    assert not answered(client, "session/new", error={"code": -32000}) and client.done


@pytest.mark.parametrize(
    ("call", "options", "outcome"),
    [
        (
            {"kind": "execute", "rawInput": {"command": "ls"}},
            OPTIONS,
            {"outcome": "selected", "optionId": "yes"},
        ),
        (
            {"kind": "execute", "rawInput": {"command": "rm x"}},
            OPTIONS,
            {"outcome": "selected", "optionId": "no"},
        ),
        ({"kind": "execute", "title": "rm x"}, OPTIONS[:1], {"outcome": "cancelled"}),
    ],
)
def test_acp_permissions_are_answered_by_the_guard(call: Json, options: list[Json], outcome: Json) -> None:
    params = {"toolCall": call, "options": options}
    asked = {"jsonrpc": "2.0", "id": 7, "method": "session/request_permission", "params": params}
    (reply,) = AcpClient(request(), guard).reply(json.dumps(asked))
    assert (reply["id"], reply["result"]["outcome"]) == (7, outcome)


def test_acp_gets_no_files_through_flyball() -> None:
    asked = {"jsonrpc": "2.0", "id": 1, "method": "fs/write_text_file", "params": {"path": "/etc/passwd"}}
    assert "error" in AcpClient(request(), guard).reply(json.dumps(asked))[0]


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ({"kind": "execute", "rawInput": {"command": ["ls", "a b"]}}, ("Bash", {"command": "ls 'a b'"})),
        (
            {"kind": "edit", "locations": [{"path": "/w/a"}], "content": [{"type": "diff", "path": "/w/b", "newText": "x"}]},
            ("Write", {"path": ["/w/a", "/w/b"], "edits": [{"new_string": "x"}]}),
        ),
        ({"kind": "read", "locations": [{"path": "/w/a"}]}, ("Read", {"path": ["/w/a"]})),
        ({"kind": "other", "title": "mystery"}, ("mystery", {})),
        ({}, ("unknown", {})),
    ],
)  # fmt: skip
def test_a_call_over_acp_is_judged_by_what_it_names(call: Json, expected: tuple[str, Json]) -> None:
    assert tool_call(call) == expected
