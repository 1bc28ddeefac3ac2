"""Agents that would take the whole computer: they are ended, and nothing of them is left."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import pytest
from tests.e2e.helpers import Place

from flyball.agents.sandbox import probe

BOMB = "python3 -c 'import os, time; [os.fork() for _ in range(8)]; time.sleep(60)' {mark}"


@pytest.mark.sampled(1)
@pytest.mark.parametrize("sandbox", ["bwrap", "landlock", "none"])
def test_a_fork_bomb_is_ended_and_told(tmp_path: Path, sandbox: str) -> None:
    found = probe(sandbox)
    if found.kind != sandbox:
        pytest.skip(found.why)
    place, mark = Place(tmp_path), f"bomb-{sandbox}-{os.getpid()}"
    agent = place.script(coder=[{"run": BOMB.format(mark=mark)}])
    sets = [f"guard.sandbox={sandbox}", "guard.processes=64", "limits.retries=0"]
    said = place.run(agent, *(word for one in sets for word in ("--set", one)), "--json")
    assert said.code != 0
    assert "more than 64 processes at once" in place.fb("show", "@last").out
    assert not any(mark.encode() in line for line in _command_lines())


def _command_lines() -> list[bytes]:
    found: list[bytes] = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it has just ended
            found.append(path.read_bytes())
    return found
