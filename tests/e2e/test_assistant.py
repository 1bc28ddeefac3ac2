"""`flyball mcp`, for a person's own assistant; and `up` as a service."""

from __future__ import annotations

import json
import plistlib
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from mcp_client import Client
from tests.e2e.helpers import ACCEPTS, FIXED, QUICK_PROOF, Place, eventually

TOOLS = ["start_run", "list_runs", "show_run", "why", "inbox"]


def test_an_assistant_starts_a_run_and_looks_but_cannot_answer(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = place.script(coder=[{"write": {"calc.py": FIXED}, "ask": "Which sign?"}], critic=ACCEPTS)
    home = Path(place.env["HOME"]) / ".config/flyball"
    home.mkdir(parents=True)
    proof = QUICK_PROOF.partition("=")[2]
    (home / "config.toml").write_text(f'[agents]\ndefault = "{agent}"\n[proof]\ncommands = {proof}\n')
    config = place.folder / "mcp.json"
    words = ["-P", "-m", "flyball", "mcp", "--repo", str(place.repo)]
    config.write_text(json.dumps({"mcpServers": {"flyball": {"command": sys.executable, "args": words}}}))
    for name, value in place.env.items():
        monkeypatch.setenv(name, value)
    client = Client(config)
    assert client.ask("initialize", protocolVersion="2025-06-18")["serverInfo"]["name"] == "flyball"
    assert [tool["name"] for tool in client.ask("tools/list")["tools"]] == TOOLS
    started, text = client.call("start_run", task="Fix add")
    assert started, text
    run = json.loads(text)["run"]
    eventually(lambda: json.loads(client.call("inbox")[1]))
    (question,) = json.loads(client.call("inbox")[1])
    assert question["run"] == run and "Which sign?" in question["text"]
    assert [row["run"] for row in json.loads(client.call("list_runs", status="waiting")[1])] == [run]
    assert json.loads(client.call("show_run", run=run)[1])["status"] == "waiting"
    assert "asked a question" in " ".join(json.loads(client.call("why", run="@last")[1])["why"])
    for tool, given, says in (
        ("answer", {"question": question["id"]}, "There is no tool 'answer'"),
        ("show_run", {}, "needs 'run'"),
        ("why", {"run": "--help"}, "There is no run '--help'"),
        ("start_run", {"task": "@/etc/hostname", "machine": "cto"}, "flyball up"),
    ):
        taken, text = client.call(tool, **given)
        assert not taken and says in text, (tool, text)
    assert client.close() == 0
    assert len(place.fb("ls", "--json").json) == 1
    place.fb("cancel", run)


@pytest.mark.parametrize("kind", ["systemd", "launchd"])
def test_the_service_that_is_printed_starts_up_here(place: Place, kind: str) -> None:
    repo = place.folder / "100% mine"
    shutil.copytree(place.repo, repo)
    done = place.fb("up", "--print-service", kind, "--agent", "command:a {prompt} $HOME", cwd=repo, env={})
    assert done.code == 0 and not done.err
    if kind == "launchd":
        about = plistlib.loads(done.out.encode())
        assert about["WorkingDirectory"] == str(repo)
        assert about["ProgramArguments"][-3:] == ["up", "--agent", "command:a {prompt} $HOME"]
        assert about["EnvironmentVariables"]["FLYBALL_STATE_DIR"] == str(place.state)
        return
    assert 'up --agent "command:a {prompt} $$HOME"' in done.out and "100%% mine" in done.out
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not here to read the unit")
    unit = place.folder / "flyball.service"
    unit.write_text(done.out)
    read = subprocess.run(["systemd-analyze", "verify", "--user", unit], capture_output=True, text=True)
    assert "flyball.service" not in read.stderr, read.stderr
