"""Hooks and an agent that means ill: nothing it says or leaves lying about holds anybody up, hides or slips past."""

from __future__ import annotations

import json
import os
import socket
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from test_hook_judge import BRIEF, WORK, itself, patch, said, word

from flyball.agents.hooks import action_log, without_driver
from flyball.agents.hooks.payload import HookCall
from flyball.agents.hooks.question import question
from flyball.agents.hooks.real_paths import real
from flyball.agents.hooks.server import asked
from flyball.agents.hooks.tool_calls import fingerprint, judge
from flyball.guard.policy import Tools

# ---- what is too much, and what a person can be asked ------------------------------------------------------


@pytest.mark.parametrize(
    ("tool", "given"),
    [
        ("Write", {"file_path": "a.txt", "content": "password = 'x' " * 300_000}),
        ("Bash", {"command": "echo " + "a" * (4 << 20)}),
        ("TodoWrite", {"todos": ["x" * (1 << 20)]}),
        ("read_many_files", {"paths": ["a"] * 10_000}),
        ("apply_patch", {"command": "*** Delete File: a\n" * 10_000}),
    ],
)
def test_what_is_too_much_to_judge_is_refused(tool: str, given: dict[str, Any]) -> None:
    found = judge(word(tool, **given), BRIEF, itself)
    assert (found.verdict, found.rule) == ("deny", "too-much")


def test_a_policy_that_allows_unknown_or_named_tools_allows_no_odd_input() -> None:
    wide = Tools(unknown="allow", named={"apply_patch": "allow", "exec_command": "allow"})
    own = replace(BRIEF, policy=replace(BRIEF.policy, tools=wide))
    for odd in (
        word("apply_patch", command=patch(" ***Rename File: a")),
        word("exec_command", command="ls", cmd="rm -rf /"),
    ):
        assert judge(odd, own, itself).verdict == "ask"


HIDDEN = "".join(("AKIA", "QX7Z3JH5", "KLMN2PWV"))


@pytest.mark.parametrize(
    "call",
    [
        word("Bash", command="npm install " + " ".join(["left-pad"] * 200) + " evil"),
        word("mcp__github__create_issue", body="x" * 1500, title="evil"),
        word("mcp__" + "x" * 200 + "_evil"),
        word("Bash", command=f"npm install {HIDDEN}"),
        word("mcp__github__create_issue", body="nice \x9d evil \x9c"),
        word("mcp__github__create_issue", body="nice \u202e evil"),
    ],
    ids=lambda call: call.tool[:20],
)
def test_what_a_question_cannot_show_whole_is_refused_and_not_asked(call: HookCall) -> None:
    found = judge(call, BRIEF, itself)
    assert found.verdict == "deny" and found.rule.endswith(("/too-long", "/hidden")), found


def test_a_question_shows_all_that_a_grant_covers() -> None:
    call = word("Bash", cwd=f"{WORK}/sub", command="npm install x", run_in_background=True)
    shown = question(call, WORK, judge(call, BRIEF, itself))
    for part in ("Bash: npm install x", '"run_in_background": true', f"in {WORK}/sub", "install"):
        assert part in shown
    assert len(shown) < 2000


def test_the_longest_question_fits_into_the_journal_whole() -> None:
    call = word("mcp__x", body="y" * 1480)
    found = judge(call, BRIEF, itself)
    shown = question(call, WORK, replace(found, reason="r" * 5000))
    assert found.verdict == "ask" and "y" * 1480 in shown and len(shown) <= 2000


@pytest.mark.parametrize("name", ["dangerouslyDisableSandbox", "run_in_background", "sandbox_permissions"])
def test_a_grant_for_a_command_does_not_cover_it_with_more_rights(name: str) -> None:
    plain = word("Bash", command="npm install x")
    assert fingerprint(plain) != fingerprint(word("Bash", command="npm install x", **{name: True}))


# ---- places ------------------------------------------------------------------------------------------------


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """What the agent sees at /w/repo: with links of its own."""
    files = tmp_path / "checkout"
    (files / "deep").mkdir(parents=True)
    for name, target in (
        ("link", "/etc"),
        ("up", "../../x"),
        ("home", f"{WORK}/deep"),
        ("loop", "loop"),
        ("deep/back", ".."),
    ):
        (files / name).symlink_to(target)
    return files


@pytest.mark.parametrize(
    ("path", "leads"),
    [
        (f"{WORK}/a.py", f"{WORK}/a.py"),
        (f"{WORK}/link/x", "/etc/x"),
        (f"/{WORK}/link/x", "/etc/x"),
        (f"//.//{WORK}//./link/x", "/etc/x"),
        (f"/w/../w/other/..{WORK[2:]}/link/x", "/etc/x"),
        (f"{WORK}/link/../x", "/x"),
        (f"{WORK}/up", "/x"),
        (f"{WORK}/home/x", f"{WORK}/deep/x"),
        (f"{WORK}/deep/back/link/x", "/etc/x"),
        ("/../..", "/"),
        ("~/.bashrc", "~/.bashrc"),
    ],
)
def test_a_path_is_followed_as_the_agent_sees_it_by_whatever_name(
    checkout: Path, path: str, leads: str
) -> None:
    assert real(path, WORK, str(checkout)) == leads


def test_a_link_into_itself_leads_nowhere_and_is_a_no(checkout: Path) -> None:
    def there(path: str) -> str:
        return real(path, WORK, str(checkout))

    found = judge(word("Write", file_path=f"{WORK}/loop/x", content=""), BRIEF, there)
    assert (found.verdict, found.rule) == ("deny", "guard-error")


# ---- the record and the desk -------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: path.symlink_to("/etc/hosts")])
def test_what_is_no_file_in_the_agents_home_holds_nobody_up(tmp_path: Path, make: Any) -> None:
    late = tmp_path / "late"
    make(late)
    assert action_log.read(tmp_path, str(late)).actions == ()
    payload = said("PreToolUse", tool_name="Bash", tool_input={"command": "rm -rf /"})
    data = msgspec.json.encode(replace(BRIEF, late=str(late)))
    code, _, _ = without_driver.rule(data, "pre", "claude", payload)
    assert code == 2


def test_a_note_that_cannot_be_written_leaves_the_ruling_as_it_is() -> None:
    payload = said("PreToolUse", tool_name="Bash", tool_input={"command": "ls"})
    for late in ("/dev/full", "/nowhere/at/all", ""):
        data = msgspec.json.encode(replace(BRIEF, late=late))
        assert without_driver.rule(data, "pre", "claude", payload)[0] == 0


def test_what_nobody_saw_is_shown_without_secrets_too(tmp_path: Path) -> None:
    late = tmp_path / "late"
    row = {"moment": "pre", "call": "1", "tool": "t" * 999, "verdict": "allow", "input": HIDDEN}
    came = {"moment": "post", "call": "1", "result": f"key {HIDDEN}"}
    late.write_text("\n".join(json.dumps({**one, "reason": HIDDEN}) for one in (row, came)))
    (action,) = action_log.read(tmp_path, str(late)).actions
    assert HIDDEN not in repr(action) and "[redacted" in action.result
    assert len(action.tool) == 80


def test_a_long_input_is_cut_before_it_is_searched_and_no_half_of_a_secret_stays(tmp_path: Path) -> None:
    most = action_log.INPUT_MOST
    for before in range(most + action_log.SLACK - 15, most + action_log.SLACK + 5, 5):
        text = f"{HIDDEN} " * (before // 21) + "x " * 3 + HIDDEN + " y" * 10_000
        assert HIDDEN[:8] not in action_log.shortened(text, most)
    kept = action_log.Record(tmp_path)
    kept.asked(word("t" * 9_000, x="z" * 9_000), judge(word("Bash", command="ls"), BRIEF, itself))
    assert (tmp_path / action_log.NAME).stat().st_size < 5_000


def test_a_question_behind_many_rulings_is_found(tmp_path: Path) -> None:
    """All of the record is read, however many words an agent puts before what matters."""
    row = {"moment": "pre", "tool": "Bash", "verdict": "allow", "input": "x" * 60_000}
    last = {"moment": "pre", "tool": "Bash", "verdict": "ask", "fingerprint": "f", "question": "q"}
    many = [json.dumps(row)] * (2 * action_log.FILE_MOST // 60_000 + 2)
    (tmp_path / action_log.NAME).write_text("\n".join([*many, json.dumps(last)]))
    seen = action_log.read(tmp_path)
    assert seen.wanted is not None and seen.wanted["question"] == "q"
    assert any(action.verdict == "ask" for action in seen.actions)


def test_a_caller_that_dribbles_is_not_heard_beyond_its_time() -> None:
    """The time is for the whole of a question, not for each of its pieces."""
    one, other = socket.socketpair()
    with one, other:
        other.sendall(b"pre claude 2\n{}")
        with pytest.raises(TimeoutError):
            asked(one, time.monotonic())
        assert asked(one, time.monotonic() + 60) == ("pre", "claude", b"{}")
