"""What is installed here, how it is logged in, and what a turn is charged."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from flyball.agents.accounts import KNOWN, reports, status
from flyball.agents.adapter import AgentResult, charged, price_uusd
from flyball.domain.events import Usage

CLAUDE, CODEX = KNOWN[0], KNOWN[1]


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "claude"
    program.write_text("#!/bin/sh\necho '9.8.7 (Claude Code)'\n")
    program.chmod(0o755)
    return {"PATH": f"{tmp_path}/bin:/usr/bin:/bin", "HOME": str(tmp_path)}


@pytest.mark.parametrize(
    ("more", "files", "login"),
    [
        ({}, {}, None),
        ({"ANTHROPIC_API_KEY": "k"}, {}, "ANTHROPIC_API_KEY"),
        ({}, {".claude/.credentials.json": "{}"}, "~/.claude/.credentials.json"),
        ({}, {".claude/settings.json": '{"apiKeyHelper": "pass"}'}, "apiKeyHelper"),
        ({}, {".claude.json": '{"primaryApiKey": "k"}'}, "~/.claude.json"),
        ({}, {".claude.json": "{}"}, None),
    ],
)
def test_it_is_said_how_an_agent_is_logged_in(
    env: dict[str, str], tmp_path: Path, more: dict[str, str], files: dict[str, str], login: str | None
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    row = status(CLAUDE, {**env, **more})
    assert (row.version, row.login, row.problem) == ("9.8.7", login, "" if login else "not logged in")
    assert status(CODEX, env).problem == "not installed"


def result(session: str, tokens: int, uusd: int | None = None, **more: str) -> AgentResult:
    total = Usage(input_tokens=tokens, output_tokens=tokens // 10)
    priced = "" if uusd is None else "reported"
    return AgentResult(
        verdict="ok", session=session, usage=total, total_tokens=total, total_uusd=uusd, priced=priced, **more
    )


def test_a_turn_is_charged_the_difference_of_running_totals(tmp_path: Path) -> None:
    file = tmp_path / "sessions.json"
    first = charged(file, "a1", result("s", 1000, 10_200)).usage
    again = charged(file, "a1", result("s", 1000, 10_200)).usage  # read once more after a crash
    second = charged(file, "a2", result("s", 1500, 10_800)).usage
    other = charged(file, "a3", result("t", 700, 100)).usage
    third = charged(file, "a4", result("s", 1700, 11_400)).usage
    assert [(u.input_tokens, u.cost_uusd) for u in (first, again, second, other, third)] == [
        (1000, 10_200), (1000, 10_200), (500, 600), (700, 100), (200, 600),
    ]  # fmt: skip


def test_what_each_model_used_is_known_by_turn(tmp_path: Path) -> None:
    def used(act: str, **totals: int) -> dict[str, int]:
        models = {name: Usage(input_tokens=count, cost_uusd=count) for name, count in totals.items()}
        whole = sum(totals.values())
        given = replace(result("s", whole, whole), models=models)
        return {
            name: usage.input_tokens for name, usage in charged(tmp_path / "f", act, given).models.items()
        }

    assert used("a1", large=1000) == {"large": 1000}
    assert used("a2", large=1500, small=70) == {"large": 500, "small": 70}
    assert used("a2", large=1500, small=70) == {"large": 500, "small": 70}  # read once more after a crash
    assert used("a3", large=1500, small=90) == {"small": 20}
    one = charged(tmp_path / "g", "a1", result("t", 40, model="only"))
    assert one.models == {"only": one.usage}


@pytest.mark.parametrize(
    ("agent", "tells"),
    [
        *((name, True) for name in ("claude", "codex", "acp:gemini --acp")),
        *((name, False) for name in ("command:aider --message {prompt}", "acp:other", "command:")),
    ],
)
def test_who_tells_what_it_uses(agent: str, tells: bool) -> None:
    assert reports(agent) is tells


def test_a_file_of_totals_that_cannot_be_read_charges_everything(tmp_path: Path) -> None:
    file = tmp_path / "sessions.json"
    file.write_text("not JSON")
    assert charged(file, "a1", result("s", 10, 5)).usage.cost_uusd == 5


def test_a_cost_that_is_not_named_is_priced_by_model_or_stays_unknown(tmp_path: Path) -> None:
    known = charged(tmp_path / "f", "a1", result("s", 1000, model="gpt-5-codex"))
    unknown = charged(tmp_path / "f", "a2", result("t", 1000, model="scripted"))
    assert (known.priced, unknown.priced, unknown.usage.cost_uusd) == ("estimated", "", 0)
    assert known.usage.cost_uusd == price_uusd("gpt-5-codex", Usage(input_tokens=1000, output_tokens=100))


def test_cached_tokens_cost_less() -> None:
    whole = price_uusd("claude-sonnet-4-5", Usage(input_tokens=1000, output_tokens=10))
    cached = price_uusd("claude-sonnet-4-5", Usage(input_tokens=100, cache_read_tokens=900, output_tokens=10))
    assert whole == 3150 and cached == 720
    assert price_uusd("", Usage(input_tokens=1)) is None
