"""`do = "check"`: the table names what is looked at; what cannot be looked at yet is said, not passed over."""

from __future__ import annotations

import os
import queue
from pathlib import Path
from typing import Any

import pytest

from flyball.acts.performer import News, Performer
from flyball.acts.run_files import RunFiles
from flyball.agents.sandbox import Sandbox
from flyball.core.decide import Do, Finished, due
from flyball.domain import events as e
from flyball.domain.settings import Settings
from flyball.machines import shipped
from flyball.state.fold import apply, begin
from support import begun


def checked(folder: Path, machine: Any, settings: Settings, state: str) -> e.CheckEnded:
    run = begin(begun(machine, settings, owner=False, tree="base", start=state))
    act = due(run, 1)
    assert isinstance(act, Do)
    run = apply(run, e.ActStarted(at=1, act=act.act))
    news: queue.Queue[News] = queue.Queue()
    files = RunFiles(folder, Sandbox(kind="none", why="not needed"), dict(os.environ))
    Performer(files).start(run, act.act, news.put)
    finished = news.get(timeout=60)
    assert isinstance(finished, Finished) and isinstance(finished.result, e.CheckEnded)
    return finished.result


@pytest.mark.parametrize("name", ["review", "mine"])
def test_the_agents_that_the_table_plays_are_looked_for(tmp_path: Path, name: str) -> None:
    """Under any name, and for any role of the table."""
    table = {**shipped("review").table, "name": name}
    there = Settings(agents={"default": "command:cat"})
    gone = Settings(agents={"default": "command:cat", "reviewer": "command:no-such-program-here"})
    assert checked(tmp_path, table, there, "init") == e.CheckEnded(outcome="ready")
    missing = checked(tmp_path, table, gone, "init")
    assert missing.outcome == "cannot_start" and "no-such-program-here" in missing.reason
