"""What Codex and Gemini CLI note in their own home while they work, and what a turn is charged by it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from flyball.agents.adapter import AgentResult
from flyball.agents.session_records import SessionRecord
from flyball.domain.events import Usage

CODEX = ".codex/sessions/2026/11/19/rollout-2026-11-19T15-39-09-01a1.jsonl"
GEMINI = ".gemini/tmp/repo/chats/session-2026-11-19T15-39-503e.jsonl"
NOW, EARLIER = "2999-01-01T00:00:00.000Z", "2020-01-01T00:00:00.000Z"


def codex(total: int, last: int) -> str:
    def tokens(count: int) -> dict[str, int]:
        return {"input_tokens": count, "cached_input_tokens": 0, "output_tokens": count // 10}

    info = {"total_token_usage": tokens(total), "last_token_usage": tokens(last)}
    return json.dumps({"type": "event_msg", "payload": {"type": "token_count", "info": info}}) + "\n"


def gemini(name: str, count: int, time: str = NOW) -> str:
    tokens = {"input": count, "output": count // 10, "cached": 0, "thoughts": 0}
    event = {"id": name, "type": "gemini", "timestamp": time, "model": "gemini-2.5-flash", "tokens": tokens}
    return json.dumps(event) + "\n"


def write(home: Path, name: str, text: str) -> None:
    (home / name).parent.mkdir(parents=True, exist_ok=True)
    with (home / name).open("a") as file:
        file.write(text)


@pytest.mark.parametrize(
    ("agent", "file", "before", "lines", "tokens"),
    [
        ("codex", CODEX, "", [codex(1000, 1000)], 1100),
        ("codex", CODEX, "", [codex(1000, 1000), codex(3000, 2000)], 3300),
        ("codex", CODEX, codex(1000, 1000), [codex(1500, 500)], 550),  # a resumed session counts on
        ("codex", CODEX, "", [codex(1500, 500)], 550),  # also in a new file
        ("codex", CODEX, "", ['{"payload": {"type": "token_count", "info": null}}\n'], 0),
        ("codex", CODEX, "", ["no JSON\n", codex(1000, 1000)], 1100),
        ("codex", CODEX, "", [codex(1000, 1000)[:-1]], 0),  # a line without its end is still being written
        ("codex", GEMINI, "", [gemini("a", 1000)], 0),
        ("acp:gemini --acp", GEMINI, "", [gemini("a", 1000), gemini("b", 500)], 1650),
        ("acp:gemini --acp", GEMINI, "", [gemini("a", 1000), gemini("a", 1000)], 1100),  # written again
        ("acp:gemini --acp", GEMINI, "", [gemini("a", 1000, EARLIER), gemini("b", 500)], 550),
        ("acp:gemini --acp", GEMINI, gemini("a", 1000), [gemini("b", 500)], 550),
        ("acp:opencode acp", GEMINI, "", [gemini("a", 1000)], 0),
        ("script:x.json", CODEX, "", [codex(1000, 1000)], 0),
    ],
)
def test_the_tokens_of_a_turn_are_known_while_it_lasts(
    tmp_path: Path, agent: str, file: str, before: str, lines: list[str], tokens: int
) -> None:
    if before:
        write(tmp_path, file, before)
    record = SessionRecord(agent, tmp_path)
    for line in lines:
        write(tmp_path, file, line)
        record.used()
    assert record.used().tokens == tokens


def test_an_agent_that_was_ended_is_charged_what_its_record_says(tmp_path: Path) -> None:
    record = SessionRecord("codex", tmp_path)
    write(tmp_path, CODEX, codex(1000, 1000))
    ended = record.completed(AgentResult(verdict="killed", session="s"))
    assert (ended.usage.tokens, ended.total_tokens) == (1100, ended.usage)
    told = AgentResult(verdict="ok", usage=Usage(input_tokens=7))
    assert record.completed(told) == told, "what its stream says counts"


@pytest.mark.parametrize("odd", ["fifo", "link", "folder"])
def test_a_file_that_is_none_is_not_read(tmp_path: Path, odd: str) -> None:
    """The agent may put anything there."""
    (tmp_path / CODEX).parent.mkdir(parents=True)
    (tmp_path / "elsewhere").write_text(codex(1000, 1000))
    record = SessionRecord("codex", tmp_path)
    if odd == "fifo":
        os.mkfifo(tmp_path / CODEX)
    elif odd == "link":
        (tmp_path / CODEX).symlink_to(tmp_path / "elsewhere")
    else:
        (tmp_path / CODEX).mkdir()
    assert record.used() == Usage()
