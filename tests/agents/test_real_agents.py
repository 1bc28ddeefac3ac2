"""The real command lines, driven by Flyball against a scripted model on loopback (`make agents`)."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest
from tests.agents.room import DONE, PROGRAMS, VENDORS, Room

from flyball.testing.model import ScriptedModel

FIX = {
    "reply": [{"text": "Fixing."}, {"tool": "@bash", "input": {"command": "sed -i 's/a - b/a + b/' calc.py"}}]
}
CLAIM = {"reply": DONE}


@pytest.fixture(params=list(VENDORS))
def room(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[Room]:
    if not request.config.getoption("--real-agents"):
        pytest.skip("drives real command lines; run by `make agents`")
    if not (PROGRAMS / request.param).exists():
        pytest.skip(f"{request.param} is not installed in .agents; `make agents` installs it")
    with ScriptedModel() as model:
        room = Room(tmp_path, VENDORS[request.param], model)
        yield room
        assert room.empty() == [], "processes were left behind"


def test_a_task_is_done_and_certified(room: Room) -> None:
    room.play(FIX, CLAIM)
    ended = room.run()
    assert (ended["stop_reason"]["code"], ended["turns"]) == ("completed", 1)
    assert ended["certificate"] and ended["changed"] == ["calc.py"]
    assert ended["tokens"] >= 1100 and ended["cost_usd"]
    assert room.fb("verify", ended["run"]).returncode == 0
