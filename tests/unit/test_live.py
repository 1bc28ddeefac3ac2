"""What is watched of an agent's stream while it comes."""

from __future__ import annotations

import json

from flyball.acts.live_turn import LINE_MOST, Live
from flyball.agents.process import Stop
from flyball.agents.script import ScriptAgent
from flyball.state.fold import begin
from support import begun


def watched(*pieces: bytes) -> tuple[Live, list[str]]:
    shown: list[str] = []
    stop = Stop()
    live = Live(ScriptAgent("none"), begin(begun("loop")), stop, shown.append)
    for piece in pieces:
        live(piece)
    stop.close()
    return live, shown


def test_a_call_is_seen_however_its_line_is_cut() -> None:
    line = json.dumps({"type": "action", "tool": "bash", "input": "ls"}).encode() + b"\n"
    assert watched(*(line[i : i + 1] for i in range(len(line))))[1] == ["bash ls"]
    assert watched(b"x\n" + line[:9], line[9:] + line[:5], line[5:])[1] == ["bash ls", "bash ls"]


def test_a_long_line_is_read_whole() -> None:
    """A call may carry a file of some megabytes, and whoever asks about it waits for an answer."""
    line = json.dumps({"type": "action", "tool": "write", "input": "x" * (3 << 20)}).encode() + b"\n"
    pieces = [line[at : at + (1 << 16)] for at in range(0, len(line), 1 << 16)]
    assert watched(*pieces)[1] == ["write " + "x" * 194]


def test_a_line_without_end_is_kept_only_in_part_and_the_next_is_read() -> None:
    line = json.dumps({"type": "action", "tool": "bash", "input": "ls"}).encode() + b"\n"
    live, shown = watched(*[b"x" * (1 << 20)] * 40)
    assert LINE_MOST <= len(live.rest) <= LINE_MOST + 1 and shown == []
    live(b"y\n" + line)
    assert live.rest == b"" and shown == ["bash ls"]
