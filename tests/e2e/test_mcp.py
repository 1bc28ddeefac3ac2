"""AGENT-5: the MCP server of a run, spoken with by a plain client, and in whole runs."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from mcp_client import Client
from tests.e2e.helpers import QUICK_PROOF, Place

from flyball.acts.run_files import shipped_policies
from flyball.agents.hooks import action_log, cli_settings, turn_brief
from flyball.agents.hooks.server import HookServer
from flyball.agents.mcp import reports
from flyball.domain import events as e
from flyball.domain.settings import Settings
from flyball.machines import shipped
from flyball.state.fold import begin
from flyball.state.run import Run

CLIENT = Path(__file__).with_name("mcp_client.py")
READY = {"indicators": ["task complete", "All tests passing"]}


def run_in(machine: str, state: str) -> Run:
    table = shipped(machine).table
    began = e.RunBegan(
        at=0, run="r", machine=machine, table=table, settings=Settings(), task="", rules=e.RULES, start=state
    )
    return begin(began)


class Desk:
    """A driver's side of one act."""

    def __init__(self, folder: Path, run: Run, role: str) -> None:
        self.folder, self.hook = folder, folder / "hook"
        self.hook.mkdir(parents=True, exist_ok=True)
        self.progress: list[str] = []
        brief = turn_brief.Brief(workspace=str(folder), home=str(folder), policy=shipped_policies().get())
        sha = turn_brief.write(self.hook, brief)
        server = cli_settings.server_line(self.hook, reports.issue_token(folder), False)
        cli_settings.write(self.hook, self.hook / turn_brief.NAME, sha, server)
        answer = reports.Reports(folder, run, role, self.progress.append).reply
        self.server = HookServer(self.hook, action_log.Record(folder), folder, report=answer)

    def client(self) -> Client:
        return Client(self.hook / cli_settings.MCP)


@pytest.fixture
def desk(tmp_path: Path) -> Generator[Desk]:
    desk = Desk(tmp_path, run_in("loop", "closed"), "worker")
    with desk.server:
        yield desk


def test_a_client_is_greeted_and_told_of_the_six_tools(desk: Desk) -> None:
    client = desk.client()
    for wanted, version in (("2024-11-05", "2024-11-05"), ("2099-01-01", "2025-06-18")):
        greeting = client.ask("initialize", protocolVersion=wanted, capabilities={})
        assert (greeting["protocolVersion"], greeting["capabilities"]) == (version, {"tools": {}})
    client.send(b'{"jsonrpc": "2.0", "method": "notifications/initialized"}')  # gets no answer
    assert client.ask("ping") == {}
    tools = {tool["name"]: tool["inputSchema"]["required"] for tool in client.ask("tools/list")["tools"]}
    assert list(tools) == [*reports.SHAPES] and tools["ask_human"] == ["question"]
    assert client.close() == 0


def test_what_is_said_is_checked_at_once_and_adds_up_to_a_claim(desk: Desk) -> None:
    client = desk.client()
    calls: list[tuple[str, dict[str, Any], bool]] = [
        ("finish", {"indicators": ["all done"]}, False),  # one is not enough
        ("finish", READY, True),
        ("outcome", {"name": "done"}, False),  # a worker finishes
        ("report_progress", {"text": "reading"}, True),
        ("report_progress", {}, False),
        ("report_finding", {"text": "leaks", "file": "a.py", "line": "3", "severity": "high"}, True),
        ("report_finding", {"text": "leaks", "severity": "awful"}, False),
        ("ask_human", {"question": "  "}, False),
        ("ask_human", {"question": "x" * 50_000}, False),
        ("ask_human", {"question": "Which?"}, True),
        ("approve", {"question": "q1"}, False),  # nothing here speaks for a person
    ]
    assert [client.call(tool, **given)[0] for tool, given, _ in calls] == [taken for *_, taken in calls]
    finding = e.Finding(text="leaks", file="a.py", line=3, severity="high")
    said = e.Claim(
        finished=True,
        indicators=("task complete", "all tests passing"),
        ask="Which?",
        findings=(finding,),
    )
    assert reports.claim(desk.folder) == (said, "")
    assert desk.progress == ["reading"]
    client.close()


@pytest.mark.parametrize(
    ("machine", "state", "role", "calls", "claim"),
    [
        ("build", "verify", "critic", [("Accepted", {}, True)], e.Claim(outcome="accepted")),
        ("build", "verify", "critic", [("accepted", {}, True), ("FAIL", {}, True)], e.Claim(signal="FAIL")),
        ("build", "verify", "critic", [("unproven", {}, False)], e.Claim()),
        ("build", "fix", "coder", [("rewrite", {}, True)], e.Claim(outcome="rewrite")),
        ("build", "plan", "planner", [("planned", {"steps": "none"}, False)], e.Claim()),
        ("review", "working", "author", [("DONE", {}, True)], e.Claim(outcome="DONE")),
        ("review", "reviewing", "reviewer", [("pass", {}, True)], e.Claim(signal="PASS")),
    ],
)
def test_an_outcome_is_one_that_the_state_has(
    tmp_path: Path,
    machine: str,
    state: str,
    role: str,
    calls: list[tuple[str, dict[str, Any], bool]],
    claim: e.Claim,
) -> None:
    tmp_path.joinpath(reports.TOKEN).write_text("t")
    desk = reports.Reports(tmp_path, run_in(machine, state), role, lambda _: None)
    for name, data, taken in calls:
        assert desk.call("outcome", {"name": name, "data": data}).failed is not taken
    assert reports.claim(tmp_path)[0] == claim


def test_nothing_that_a_client_sends_leaves_it_without_an_answer(desk: Desk) -> None:
    client = desk.client()
    for line in (b"not json", b"[]", b'{"id": 1', b'"text"', b"\xff\xfe{}"):
        client.send(line)
        assert client.receive()["error"]["code"] == -32700
    client.send(b'{"id": 7, "method": "tools/call", "params": "' + b"x" * (2 << 20) + b'"}')
    assert "longer than 1 MB" in client.receive()["error"]["message"]
    assert client.ask("resources/list")["code"] == -32601
    client.send(b'{"id": 8, "params": [' + b"[" * 5000 + b"]" * 5000 + b"]}")
    assert "error" in client.receive()
    assert client.ask("tools/call", name=7, arguments=[])["isError"]
    assert client.ask("ping") == {}
    client.close()


def test_another_acts_token_is_not_answered_and_reports_are_bounded(desk: Desk, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="token"):
        reports.Reports(desk.folder, desk_run(), "worker", print).reply("0" * 32, b"{}")
    file = desk.folder / reports.FILE
    file.write_text('{"tool": "ask_human", "arg')  # a crash in the middle of a line
    mine = reports.Reports(desk.folder, desk_run(), "worker", lambda _: None)
    taken = [not mine.call("report_progress", {"text": f"{n}"}).failed for n in range(reports.ROWS_MOST + 5)]
    assert taken.count(True) <= reports.ROWS_MOST + 1 and not taken[-1]
    assert reports.claim(desk.folder) == (e.Claim(), "")


def desk_run() -> Run:
    return run_in("loop", "closed")


# ---- whole runs ----------------------------------------------------------------------------------------------


def reporting(*steps: tuple[str, dict[str, Any]]) -> str:
    """A command agent that repairs the bug and reports with these tools."""
    words = " ".join(f"{tool} '{json.dumps(given)}'" for tool, given in steps)
    server = f"{sys.executable} -P {CLIENT.name} {{hooks}}/mcp.json {{hooks}}/claude.json {words}"
    return f"command:sed -i 's/a - b/a + b/' calc.py && {server}"


def test_an_agent_asks_for_approval_and_finishes(place: Place) -> None:
    shutil.copy(CLIENT, place.repo)
    place.git("add", ".")
    place.git("commit", "-qm", "A client")
    words = ("--machine", "loop", "--set", QUICK_PROOF, "--trust")
    approval = reporting(("request_approval", {"action": "Add a dependency", "reason": "it is faster"}))
    asked = place.fb("run", "Fix add", "--agent", approval, *words, "--json").json
    assert asked["stop_reason"]["code"] == "wait.permission"
    assert "Add a dependency (it is faster)" in asked["question"]["text"]
    ended = place.fb("run", "Fix add", "--agent", reporting(("finish", READY)), *words, "--json")
    assert (ended.code, ended.json["stop_reason"]["code"], ended.json["turns"]) == (0, "completed", 1)
