"""Rooms for real agents; each fails if a process is left behind."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest
from tests.agents.room import PROGRAMS, VENDORS, Room

from flyball.testing.model import ScriptedModel


def _or_skip(request: pytest.FixtureRequest, *names: str) -> None:
    if not request.config.getoption("--real-agents"):
        pytest.skip("drives real command lines; run by `make agents`")
    if missing := [name for name in names if not (PROGRAMS / name).exists()]:
        pytest.skip(f"not installed in .agents: {', '.join(missing)}; `make agents` installs them")


@pytest.fixture(params=list(VENDORS))
def room(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[Room]:
    _or_skip(request, request.param)
    with ScriptedModel() as model:
        room = Room(tmp_path, VENDORS[request.param], model)
        yield room
        room.note_attempts()
        assert room.empty() == [], "processes were left behind"


@pytest.fixture
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[Room]:
    """Claude Code and Codex in one room, each with a model of its own."""
    _or_skip(request, "claude", "codex")
    with ScriptedModel() as model, ScriptedModel() as other:
        room = Room(tmp_path, VENDORS["claude"], model)
        room.add(VENDORS["codex"], other)
        yield room
        room.note_attempts()
        assert room.empty() == [], "processes were left behind"
