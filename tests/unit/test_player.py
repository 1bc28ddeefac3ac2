"""A script is refused in a sentence or played to the letter."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from flyball.agents import player
from flyball.agents.adapter import TurnRequest
from flyball.agents.script import KEYS, Script, ScriptAgent, command, load, turn_for
from flyball.errors import ConfigError

TWO = Script(turns=({"say": "one"}, {"say": "two"}))


def played(where: Path, turn: dict[str, Any], **env: str) -> tuple[list[dict[str, Any]], int]:
    (where / "turn.json").write_text(json.dumps(turn))
    words = command("turn.json")
    done = subprocess.run(words, cwd=where, capture_output=True, env={**os.environ, **env}, input=b"a prompt")
    assert done.stderr == b""
    return [json.loads(line) for line in done.stdout.splitlines()], done.returncode


def play_here(turn: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    assert player.play(turn) == turn.get("exit", 0)
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


# ---- which turn


def test_places_count_from_nought_and_the_last_repeats() -> None:
    assert [turn_for(TWO, "any", place) for place in (0, 1, 2, 9)] == [
        {"say": "one"},
        {"say": "two"},
        {"say": "two"},
        {"say": "two"},
    ]


def test_with_repeat_none_a_turn_beyond_the_end_is_beyond() -> None:
    script = load("{turns: [{say: one}], repeat: none}")
    assert [turn_for(script, "any", place) for place in (0, 1)] == [{"say": "one"}, "beyond"]


def test_a_role_the_file_does_not_name_has_no_turn() -> None:
    script = load("roles: {coder: [{say: mine}], critic: []}\nrepeat: none")
    assert turn_for(script, "coder", 0) == {"say": "mine"}
    assert turn_for(script, "planner", 0) is None
    assert turn_for(script, "critic", 0) == "beyond"
    assert turn_for(load("roles: {critic: []}"), "critic", 3) is None


# ---- reading


def test_yaml_and_json_read_the_same() -> None:
    yaml = "turns:\n- write: {a.py: 'x = 1'}\n  say: done\n- exit: 3\n"
    assert load(yaml) == load('{"turns": [{"write": {"a.py": "x = 1"}, "say": "done"}, {"exit": 3}]}')


def test_every_key_of_the_format_is_read() -> None:
    turn = {
        "write": {"a": "b"},
        "delete": ["c"],
        "run": "true",
        "say": "hi",
        "outcome": "planned",
        "data": {"steps": []},
        "finish": {"indicators": ["all done"]},
        "finding": {"severity": "high"},
        "ask": "why?",
        "actions": [{"tool": "Read", "input": {"p": 1}, "result": "x", "error": True}, {"tool": "Bash"}],
        "usage": {"input_tokens": 1, "output_tokens": 2, "cost_usd": 0.5},
        "exit": 1,
        "sleep_s": 0.1,
        "hang": True,
        "limited": {"kind": "rate_limited", "reset_in_s": 30},
    }
    assert set(turn) == set(KEYS)
    assert load(json.dumps({"turns": [turn]})).turns == (turn,)


def test_dates_stay_text_and_an_empty_turn_is_a_turn() -> None:
    assert load("turns:\n- data: {when: 2024-01-02}\n-\n").turns == ({"data": {"when": "2024-01-02"}}, {})


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("turns: [{say: a}, {wirte: {}}]", "'s.yaml', turn 2: unknown key 'wirte'; a turn takes"),
        (
            "roles: {coder: [{run: [ls]}]}",
            "'s.yaml', coder, turn 1: `run` is a command as text, not [\"ls\"].",
        ),
        ("turns: [{write: {a: 1}}]", "'s.yaml', turn 1: `write` is a table of path to text, not {\"a\": 1}."),
        ("turns: [{exit: true}]", "`exit` is a code from 0 to 255, not true."),
        ("turns: [{exit: 256}]", "`exit` is a code from 0 to 255, not 256."),
        ("turns: [{sleep_s: -1}]", "`sleep_s` is a number of seconds, not -1."),
        ("turns: [{sleep_s: .nan}]", "`sleep_s` is a number of seconds, not NaN."),
        ("turns: [{hang: 1}]", "`hang` is true or false, not 1."),
        ("turns: [{outcome: yes}]", "`outcome` is an outcome's name, not true."),
        ("turns: [{actions: [{input: {}}]}]", "`actions` is a list of {tool, input, result, error}"),
        (
            "turns: [{usage: {tokens: 1}}]",
            "`usage` is {input_tokens, output_tokens, cost_usd, plan_percent, plan_reset_in_s}",
        ),
        ("turns: [{limited: {reset_in_s: 1}}]", "`limited` is {kind, reset_in_s}"),
        ("turns: [{finish: {indicators: done}}]", "`finish` is a table with `indicators`, a list of texts"),
        ("turns: [{data: {a: !!binary aGk=}}]", "`data` is a table, not"),
        ("turns: [{data: {1: a}}]", "`data` is a table, not"),
        ("turns: [x]", 'turn 1 is a table, not "x".'),
        ("turns: {say: x}", 'turns are a list, not {"say": "x"}.'),
        ("roles: [x]", '`roles` is a table of role to turns, not ["x"].'),
        ("turns: []\nroles: {}", "'s.yaml' needs either `turns` or `roles`, and has both."),
        ("repeat: last", "'s.yaml' needs either `turns` or `roles`, and has neither."),
        ("turns: []\nrepeat: 3", "`repeat` is last or none, not 3."),
        ("turns: []\nrole: x", "unknown key 'role'"),
        ("roles: {codr: [{say: a}]}", "there is no role 'codr' (did you mean 'coder'?)"),
        ("roles: {coder: [], reviewers: []}", "'reviewer'"),
        ("", "a script is a table with `turns` or `roles`, not null."),
        ("{", "'s.yaml' is neither YAML nor JSON:"),
        ("turns: [!!python/object/apply:os.system [ls]]", "'s.yaml' is neither YAML nor JSON:"),
    ],
)
def test_what_cannot_be_played_is_refused_in_one_sentence(text: str, sentence: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load(text, "s.yaml")
    assert sentence in str(refused.value)
    assert "\n" not in str(refused.value)


# ---- playing


def test_files_are_written_deleted_and_commands_run_in_that_order(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "x").write_text("x")
    turn = {
        "write": {"new/deep/a.txt": "é\r\n", "gone.txt": ""},
        "delete": ["old", "gone.txt", "never.txt"],
        "run": "ls; echo $FLYBALL_TURN; cat; exit 4",
    }
    lines, code = played(tmp_path, turn, FLYBALL_TURN="7")
    assert (tmp_path / "new/deep/a.txt").read_bytes() == "é\r\n".encode()
    assert code == 0
    assert lines == [
        {
            "type": "action",
            "tool": "bash",
            "input": {"command": turn["run"]},
            "result": "new\nturn.json\n7\n",
            "exit": 4,
            "error": True,
        },
        {"type": "message", "text": ""},
    ]


def test_lines_come_in_the_order_of_the_format(capsys: pytest.CaptureFixture[str]) -> None:
    turn = {
        "limited": {"kind": "plan_limit", "reset_in_s": 60},
        "say": "bye",
        "outcome": "planned",
        "data": {"steps": [1]},
        "finish": {"indicators": ["all done"]},
        "ask": "why?",
        "finding": {"severity": "high", "type": "mine"},
        "usage": {"input_tokens": 5},
        "actions": [{"tool": "Read", "input": 1, "error": True}],
        "exit": 9,
    }
    assert play_here(turn, capsys) == [
        {"type": "action", "tool": "Read", "input": 1, "error": True},
        {"type": "usage", "input_tokens": 5},
        {"type": "finding", "severity": "high"},
        {"type": "ask", "text": "why?"},
        {"type": "finish", "indicators": ["all done"]},
        {"type": "outcome", "name": "planned", "data": {"steps": [1]}},
        {"type": "message", "text": "bye"},
        {"type": "limited", "kind": "plan_limit", "reset_in_s": 60},
    ]


def test_what_cannot_be_written_is_a_failed_action_and_the_turn_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    lines = play_here({"write": {"file/below": "x", "\0": "x", "fine": "x"}, "say": "on"}, capsys)
    assert [(line["type"], line.get("tool"), line.get("error")) for line in lines] == [
        ("action", "write", True),
        ("action", "write", True),
        ("message", None, None),
    ]
    assert (tmp_path / "fine").exists()


def test_what_a_command_leaves_running_is_not_waited_for(tmp_path: Path) -> None:
    lines, _ = played(tmp_path, {"run": "sleep 30 & echo $!"})
    os.kill(int(lines[0]["result"]), 9)


def test_a_turn_that_hangs_says_its_words_and_stays(tmp_path: Path) -> None:
    (tmp_path / "turn.json").write_text('{"say": "thinking", "hang": true}')
    words = command(tmp_path / "turn.json")
    with subprocess.Popen(words, stdout=subprocess.PIPE) as hung:
        assert hung.stdout is not None
        assert json.loads(hung.stdout.readline()) == {"type": "message", "text": "thinking"}
        assert hung.poll() is None
        hung.kill()


def test_a_module_in_the_checkout_does_not_stand_in_for_ours(tmp_path: Path) -> None:
    for name in ("yaml", "json", "argparse", "msgspec"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('shadowed')")
    assert played(tmp_path, {"say": "hi"}) == ([{"type": "message", "text": "hi"}], 0)


@pytest.mark.parametrize(
    ("role", "place", "rows", "code"),
    [
        ("coder", 0, [{"type": "message", "text": "a"}], 0),
        ("critic", 0, [{"type": "message", "text": ""}], 0),
        (
            "coder",
            1,
            [{"type": "message", "text": ""}, {"type": "error", "text": "'SCRIPT' has no turn 2 for coder."}],
            1,
        ),
    ],
)
def test_the_turn_of_its_role_and_place_is_played(
    tmp_path: Path, role: str, place: int, rows: list[dict[str, str]], code: int
) -> None:
    script = tmp_path / "s.yaml"
    script.write_text("roles: {coder: [{say: a}]}\nrepeat: none")
    request = TurnRequest(prompt="", role=role, place=place, prompt_file=tmp_path / "prompt.md")
    words = ScriptAgent(str(script)).launch(request).argv
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
    printed = [json.loads(line.replace(str(script), "SCRIPT")) for line in done.stdout.splitlines()]
    assert (printed, done.returncode) == (rows, code)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [("turns: [{nope: 1}]", "unknown key 'nope'"), (None, "Cannot read the script")],
)
def test_what_cannot_be_read_is_said_before_a_run(tmp_path: Path, text: str | None, sentence: str) -> None:
    script = tmp_path / "s.yaml"
    if text is not None:
        script.write_text(text)
    assert sentence in ScriptAgent(str(script)).missing()
