"""Recorded streams of real command lines, read to the right result (AGENT-2, AGENT-4)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from flyball.agents.adapter import cause_of
from flyball.agents.outcome import read_result
from flyball.agents.process import Exit
from flyball.agents.script import ScriptAgent

FOLDER = Path(__file__).parents[1] / "recordings"
ROWS: list[tuple[str, dict[str, Any]]] = [
    (file.stem, json.loads(line))
    for file in sorted(FOLDER.glob("*.jsonl"))
    for line in file.read_text("utf-8").splitlines()
]
FAULTS = (
    "auth", "forbidden", "rate_limit_forever", "usage_limit", "overloaded_forever", "server_error", "quota", "context",
    "killed_kill", "killed_term", "killed_int", "orphan", "not_found", "html", "connection_refused", "max_", "hang_cancel",
    "defer", "not_logged_in", "unknown", "retry_after_600",
)  # fmt: skip


def ended(code: int) -> Exit:
    return Exit(reason="exit", signal=-code) if code < 0 else Exit(reason="exit", code=code)


@pytest.mark.parametrize(("agent", "row"), ROWS, ids=[f"{agent}-{row['name']}" for agent, row in ROWS])
def test_a_recording_is_read_to_its_kind_tokens_and_cost(agent: str, row: dict[str, Any]) -> None:
    result = read_result(agent, row["out"], row["err"], ended(row["exit"]))
    used = result.usage
    assert {
        "kind": result.verdict,
        "tokens": [used.input_tokens, used.cache_read_tokens, used.output_tokens],
        "uusd": used.cost_uusd if result.priced else None,
        "calls": len(result.calls),
    } == {name: row[name] for name in ("kind", "tokens", "uusd", "calls")}
    assert bool(result.error) == (result.verdict != "ok")
    assert result.message == row.get("says", result.message)


@pytest.mark.parametrize("kind", ["ok", "rate_limited", "plan_limit", "overloaded", "auth", "billing", "context",
                                  "network", "killed", "turn_limit", "needs_approval", "refused", "unknown"])  # fmt: skip
def test_every_kind_is_seen_in_a_recording(kind: str) -> None:
    assert any(row["kind"] == kind for _, row in ROWS)


@pytest.mark.parametrize(("agent", "row"), ROWS, ids=[f"{agent}-{row['name']}" for agent, row in ROWS])
def test_no_failure_is_taken_for_success(agent: str, row: dict[str, Any]) -> None:
    failed = any(fault in row["name"] for fault in FAULTS) and "resume" not in row["name"].removesuffix(
        "_unknown"
    )
    recovered = "_x1" in row["name"] or "_x2" in row["name"] or row["name"].startswith("oauth_ok")
    if failed and not recovered:
        assert row["kind"] != "ok"


MADE: list[dict[str, Any]] = [
    json.loads(line) for line in Path(__file__).with_name("result_rows.jsonl").read_text("utf-8").splitlines()
]
MADE_AT = 1_784_702_410


@pytest.mark.parametrize("row", MADE, ids=[f"{n}-{row['agent']}-{row['kind']}" for n, row in enumerate(MADE)])
def test_an_end_that_no_recording_shows_is_read_right(row: dict[str, Any]) -> None:
    """Streams made by hand: other ends of the same command lines, and words about limits that report none."""
    result = read_result(row["agent"], row["out"], "", ended(row["exit"]), now_us=MADE_AT * 1_000_000)
    assert result.verdict != "ok" if row["kind"] == "not ok" else result.verdict == row["kind"]
    if "reset_at" in row:
        assert result.reset_at is not None and result.reset_at // 1_000_000 == row["reset_at"]


def test_half_a_line_is_no_answer() -> None:
    for agent in ("claude", "codex", "gemini", "opencode", "acp"):
        row = next(row for name, row in ROWS if name == agent and row["kind"] == "ok")
        first = row["out"].splitlines()[0]
        for length in range(len(first)):
            assert read_result(agent, first[:length], "", ended(0)).verdict != "ok", (agent, length)


def test_a_failure_in_plain_text_is_read_from_what_the_program_says_last() -> None:
    """Not from its work, which stands before it."""
    work = "user\ngo\nexec pytest\nERROR: rate limit exceeded\n" + "codex\nI look on.\n" * 12
    limit = "ERROR: You've hit your usage limit. Try again at 2:57 AM.\n"
    trace = (
        "TerminalQuotaError: You have exhausted your daily quota on this model.\n"
        + "    at f (file:1)\n" * 20
    )
    assert read_result("codex", "", work, ended(1)).verdict == "unknown"
    assert read_result("codex", "", work + limit, ended(1)).verdict == "plan_limit"
    assert read_result("gemini", "", trace, ended(1)).verdict == "plan_limit"
    assert read_result("claude", "You've hit your 5-hour limit · resets 2:57am (UTC)", "", ended(1)).reset_at


@pytest.mark.parametrize("agent", ["claude", "codex", "gemini", "opencode"])
def test_a_stream_cut_anywhere_is_never_success(agent: str) -> None:
    """Without its closing event a stream says nothing of success, whatever the exit code."""
    row = next(row for name, row in ROWS if name == agent and row["kind"] == "ok" and row["calls"])
    lines = row["out"].split("\n")
    while lines and not lines[-1].strip():
        lines.pop()
    assert read_result(agent, "\n".join(lines), "", ended(0)).verdict == "ok"
    for length in range(1, len(lines)):
        assert read_result(agent, "\n".join(lines[:length]), "", ended(0)).verdict != "ok"


@pytest.mark.parametrize("words", ["API Error: 429 rate limit", "You've hit your usage limit. Try again at 3 PM.",
                                   '{"type":"result","is_error":true,"api_error_status":429}'])  # fmt: skip
def test_what_an_agent_or_its_tools_say_is_no_limit(words: str) -> None:
    said = {
        "type": "assistant",
        "session_id": "s",
        "message": {"id": "m", "content": [{"type": "text", "text": words}]},
    }
    use = {"type": "tool_use", "id": "t", "name": "Bash", "input": {"command": f"echo '{words}'"}}
    call = {"type": "assistant", "session_id": "s", "message": {"id": "n", "content": [use]}}
    came = {"type": "tool_result", "tool_use_id": "t", "content": words, "is_error": True}
    result = {"type": "user", "session_id": "s", "message": {"content": [came]}}
    end = {"type": "result", "subtype": "success", "is_error": False, "session_id": "s", "result": words}
    out = "\n".join(map(json.dumps, (call, result, said, end)))
    assert read_result("claude", out, "", ended(0)).verdict == "ok"
    assert read_result("claude", "\n".join(out.split("\n")[:-1]), "", ended(1)).verdict == "killed"


def test_a_known_stream_is_read_behind_any_command() -> None:
    row = next(row for name, row in ROWS if name == "codex" and row["name"] == "usage_limit")
    result = read_result("command", f"starting up\n{row['out']}", "", ended(1))
    assert (result.verdict, bool(result.session), result.reset_at is not None) == ("plan_limit", True, True)


def test_the_instant_of_a_reset_counts_more_than_its_words() -> None:
    """The words name the minute in which the plan is new; a run that trusts them comes back too early."""
    refused = {"status": "rejected", "resetsAt": 1_784_702_445, "rateLimitType": "five_hour"}
    event = {"type": "rate_limit_event", "rate_limit_info": refused, "session_id": "s"}
    end = {
        "type": "result",
        "is_error": True,
        "session_id": "s",
        "result": "You've hit your 5-hour limit · resets 6:40am (UTC)",
    }
    out = "\n".join(map(json.dumps, (event, end)))
    result = read_result("claude", out, "", ended(1), now_us=1_784_702_410_000_000)
    assert (result.verdict, result.reset_at) == ("plan_limit", 1_784_702_445_000_000)


def test_an_error_is_shown_in_words_not_as_json() -> None:
    row = next(row for name, row in ROWS if name == "gemini" and row["name"] == "auth")
    error = read_result("gemini", row["out"], row["err"], ended(row["exit"])).error
    assert error == "API key not valid. Please pass a valid API key."


@pytest.mark.parametrize(
    ("line", "code", "verdict"),
    [
        ("", 0, "ok"), ("", 1, "unknown"), ("", 127, "cannot_start"), ("", 143, "killed"), ("[1, 2]", 0, "ok"),
        ('{"type": 7}', 0, "ok"), ('{"type": "result", "session_id": []}', 0, "unknown"),
        ('{"type": "system", "session_id": {}, "message": 3}', 0, "killed"),
        ('{"type": "assistant", "session_id": "s", "message": {"content": {"a": [1]}, "usage": {"input_tokens": -5}}}', 0, "killed"),
        ('{"type": "thread.started"}\n{"type": "turn.completed", "usage": {"input_tokens": 1e300}}', 0, "ok"),
    ],
)  # fmt: skip
def test_odd_lines_are_survived(line: str, code: int, verdict: str) -> None:
    assert read_result("command", line, "", ended(code)).verdict == verdict


def events_of(agent: str, name: str) -> list[dict[str, Any]]:
    out = next(row["out"] for stem, row in ROWS if (stem, row["name"]) == (agent, name))
    return [json.loads(line) for line in out.splitlines() if line.strip()]


FINE, REFUSED = events_of("claude", "ok_bypass"), events_of("claude", "quota_credit_too_low")
WHOLE = events_of("gemini", "json_output")[0]
DAILY = {
    "session_id": "s",
    "error": {"message": "[API Error: You have exhausted your daily quota on this model.]"},
}
BEFORE: list[dict[str, Any]] = [
    {"prompt": "Repair add"},
    {"id": "0", "msg": {"type": "task_started"}},
    {"id": "0", "msg": {"type": "exec_command_begin", "call_id": "c", "command": ["ls"]}},
    {"id": "0", "msg": {"type": "exec_command_end", "call_id": "c", "stdout": "calc.py", "exit_code": 0}},
    {"id": "0", "msg": {"type": "agent_message", "message": "Done."}},
    {
        "id": "0",
        "msg": {
            "type": "token_count",
            "info": {
                "total_token_usage": {"input_tokens": 100, "cached_input_tokens": 50, "output_tokens": 9}
            },
        },
    },
]
STEPS = [{"type": "step_finish", "sessionID": "s", "part": {"reason": "stop", "tokens": {}}}]
LIMIT = {"id": "0", "msg": {"type": "error", "message": "You've hit your usage limit. Try again in 2 hours."}}


def rows_of(events: list[dict[str, Any]]) -> str:
    return "\n".join(map(json.dumps, events))


@pytest.mark.parametrize(
    ("out", "verdict", "tokens"),
    [
        (f"Loaded cached credentials.\n{json.dumps(WHOLE, indent=2)}\nbye", "ok", 2560),
        (f"Loaded cached credentials.\n{json.dumps(DAILY, indent=2)}", "plan_limit", 0),
        (json.dumps(FINE), "ok", 2560),
        (json.dumps(FINE, indent=1), "ok", 2560),
        (json.dumps(REFUSED), "billing", 0),
        (rows_of(FINE).replace("\n", "\r\n"), "ok", 2560),
        ("".join(f"\x1b[2m{json.dumps(event)}\x1b[0m\n" for event in FINE), "ok", 2560),
        ("".join(f"{json.dumps(event)}\n(node:1) Warning: old\n" for event in FINE), "ok", 2560),
        ("".join(map(json.dumps, FINE)), "ok", 2560),
        (rows_of(FINE).replace("\n", "\n\0\0"), "ok", 2560),
        (rows_of([*STEPS, {"type": "step_start", "sessionID": "s"}]), "killed", 0),
        (rows_of([*FINE, *REFUSED]), "billing", 2560),
        (rows_of([*FINE, *FINE[:2]]), "killed", 2402),
        (rows_of([*BEFORE, {"id": "0", "msg": {"type": "task_complete"}}]), "ok", 59),
        (rows_of(BEFORE), "killed", 59),
        (rows_of([*BEFORE, LIMIT]), "plan_limit", 59),
        (rows_of([*FINE[:-1], {**FINE[-1], "usage": None, "total_cost": 0.02}]), "ok", 2402),
        ("{\n" * 500 + "[" * 5000, "ok", 0),
    ],
    ids=[
        *(
            "spread over lines",
            "an error spread over lines",
            "a list",
            "a list over lines",
            "a list that failed",
        ),
        *(
            "line ends of Windows",
            "in colour",
            "warnings between",
            "all on one line",
            "zeros of a crash",
            "a step that was cut",
        ),
        "a second turn that failed",
        *(
            "a second turn that was cut",
            "an older Codex",
            "an older Codex, cut",
            "an older Codex at its limit",
        ),
        *("a result without usage", "no stream"),
    ],
)
def test_a_stream_is_read_however_it_is_laid_out(out: str, verdict: str, tokens: int) -> None:
    """With exit code 0, which proves nothing."""
    result = read_result("command", out, "", ended(0))
    assert (result.verdict, result.usage.tokens) == (verdict, tokens)


CODEX, GEMINI = events_of("codex", "ok_workspace_write"), events_of("gemini", "session_first")
AGAIN: dict[str, Any] = {"type": "assistant", "session_id": "s", "message": {"id": "new", "content": []}}
SPENT: dict[str, Any] = {"message": "You've hit your usage limit. Try again in 2 hours."}


@pytest.mark.parametrize(
    ("events", "verdict"),
    [
        ([*FINE, AGAIN], "killed"),
        ([*FINE[:-1], {**FINE[-1], "parent_tool_use_id": "t"}], "killed"),
        ([*FINE[:-1], {**FINE[-1], "parent_tool_use_id": "t", "is_error": True}, FINE[-1]], "ok"),
        ([*FINE[:-1], {**FINE[-1], "terminal_reason": "interrupted"}], "unknown"),
        ([*FINE[:-1], {**FINE[-1], "terminal_reason": None, "terminalReason": "max_turns"}], "turn_limit"),
        ([*FINE[:-1], {**FINE[-1], "api_error_status": 429}], "rate_limited"),
        ([*FINE[:-1], {**FINE[-1], "deferred_tool_use": {"id": "t", "name": "Bash"}}], "needs_approval"),
        ([*CODEX[:-1], {**CODEX[-1], "status": "failed"}], "unknown"),
        ([*CODEX[:-1], {**CODEX[-1], "error": SPENT}], "plan_limit"),
        ([*CODEX, *CODEX[1:-1]], "killed"),
        ([*GEMINI, *GEMINI[1:-1]], "killed"),
    ],
    ids=[
        *("work after a result", "a result of a subagent", "a failed subagent", "interrupted"),
        *("a field with another name", "a status that failed", "a deferred call"),
        *("a status of Codex", "an error of Codex", "a second turn of Codex", "a second turn of Gemini"),
    ],
)
def test_a_stream_that_ended_otherwise_is_no_success(events: list[dict[str, Any]], verdict: str) -> None:
    """With exit code 0."""
    assert read_result("command", rows_of(events), "", ended(0)).verdict == verdict


@pytest.mark.parametrize(
    ("name", "out", "verdict"),
    [
        ("gemini", f"Loaded cached credentials.\n{json.dumps(WHOLE, indent=2)[:300]}", "unknown"),
        ("mini", "Exit:\nlitellm.AuthenticationError: AuthenticationError: no key\n", "auth"),
        ("mini", "Exit:\nRepoError: gone\n", "unknown"),
        ("mini", "Exit:\nI fixed the rate limit: 429 is handled.\n", "ok"),
    ],
)
def test_words_that_ended_otherwise_are_no_success(name: str, out: str, verdict: str) -> None:
    assert read_result(name, out, "", ended(0)).verdict == verdict


@pytest.mark.parametrize("name", ["claude", "codex", "gemini", "opencode"])
def test_a_command_line_that_said_nothing_has_done_nothing(name: str) -> None:
    assert read_result(name, "", "", ended(0)).verdict == "unknown"


def test_a_success_that_is_only_an_error_is_a_failed_turn() -> None:
    end = {"type": "result", "subtype": "success", "is_error": False, "session_id": "s"}
    for words, verdict in (
        ("[API Error: 401 Incorrect API key provided]", "unknown"),
        ("I saw [API Error: 401] and went on.", "ok"),
    ):
        result = read_result("qwen", json.dumps({**end, "result": words}), "", ended(0))
        assert (result.verdict, result.error) == (verdict, words if verdict != "ok" else "")


def test_a_session_that_is_gone_is_known_by_its_answer() -> None:
    error = {"code": -32603, "message": "Internal error", "data": {"details": "No previous sessions found."}}
    out = json.dumps({"jsonrpc": "2.0", "id": "session/load", "error": error})
    assert read_result("acp", out, "", ended(0)).lost_session
    row = next(row for name, row in ROWS if name == "claude" and row["name"] == "session_resume_unknown")
    assert read_result("claude", row["out"], row["err"], ended(1)).lost_session


API_429 = "API Error: 429 Too Many Requests: rate limit exceeded, retry after 15 seconds"


@pytest.mark.parametrize(
    ("out", "code", "verdict"),
    [  # the program prints its errors where its model's words stand too: only the last line counts, and only whole
        (API_429, 1, "rate_limited"), (f"I looked at slug.py.\n\n{API_429}\n", 1, "rate_limited"),
        (API_429, 0, "ok"), (API_429, 143, "rate_limited"), (f"{API_429}\nI stop here.", 1, "unknown"),
        ("You've hit your limit · resets 3pm (Europe/Berlin)", 1, "plan_limit"), ("Rate limit exceeded.", 2, "rate_limited"),
        ("Error: 429 Too Many Requests", 1, "rate_limited"), ("Your credit balance is too low", 1, "billing"),
        ("API Error: 529 Overloaded", 1, "overloaded"), ("API Error: Connection refused (ECONNREFUSED)", 1, "network"),
        ("API Error: 401 Invalid authentication credentials", 1, "auth"),
        ('{"type":"error","error":{"type":"rate_limit_error","message":"Too many"}}', 1, "rate_limited"),
        ("litellm.RateLimitError: OpenAIException - Rate limit reached for gpt-4.1", 1, "rate_limited"),
        ("Rate limit exceeded, so I stopped.", 1, "unknown"), ("You've hit your limit of three retries in the new code.", 1, "unknown"),
        ("The CLI printed: API Error: 429 Too Many Requests", 1, "unknown"), ("> API Error: 429 Too Many Requests", 1, "unknown"),
        (f"```\n    {API_429}\n```", 1, "unknown"), (f"    {API_429}", 1, "unknown"), ("Too many requests are now answered with 429.", 1, "unknown"),
        ("Error: connect ECONNREFUSED 127.0.0.1:5432", 1, "unknown"), ("AssertionError: expected 429 Too Many Requests", 1, "unknown"),
        ("API error handling: rate limit exceeded is retried", 1, "unknown"), ("Rate limit handling looks fine", 1, "unknown"),
        ('{"status":429,"body":"rate limit exceeded"}', 1, "unknown"), ("Invalid API key", 1, "unknown"),
    ],
)  # fmt: skip
def test_the_last_line_of_a_failed_command_may_be_a_limit(out: str, code: int, verdict: str) -> None:
    assert read_result("agent.sh", out, "", ended(code)).verdict == verdict


def test_a_limit_on_the_last_line_names_its_reset() -> None:
    assert (
        read_result("agent.sh", API_429, "", ended(1), now_us=MADE_AT * 1_000_000).reset_at
        == (MADE_AT + 15) * 1_000_000
    )


@pytest.mark.parametrize(
    ("out", "err", "exit_", "cause"),
    [
        ("I looked.\nEXIT_SIGNAL: true", "", Exit(reason="exit", code=1), "exited with 1: EXIT_SIGNAL: true"),
        ("I looked.", "no such file", Exit(reason="exit", code=2), "exited with 2: no such file"),
        ("", "", Exit(reason="exit", code=3), "exited with 3"),
        ("I looked.", "", Exit(reason="idle", code=143), "no output for 3s"),
        ("I looked.", "", Exit(reason="exit", signal=9), "ended by signal 9: I looked."),
        (API_429, "", Exit(reason="exit", code=1), API_429),
    ],
)
def test_a_failed_turn_names_how_it_ended(out: str, err: str, exit_: Exit, cause: str) -> None:
    assert cause_of(read_result("agent.sh", out, err, exit_), exit_, 3_000_000) == cause


def test_a_failed_turn_of_a_script_names_how_it_ended(tmp_path: Path) -> None:
    agent = ScriptAgent(str(tmp_path / "agent.yaml"))
    for exit_, cause in ((ended(3), "exited with 3"), (Exit(reason="idle", code=143), "no output for 3s")):
        assert cause_of(agent.read("", "", exit_), exit_, 3_000_000) == cause
