"""EVID-6: commands are judged by where they run. What stays in the box is allowed, what leaves it is stopped."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from flyball.acts.run_files import shipped_policies
from flyball.agents.hooks.payload import HookCall
from flyball.agents.hooks.tool_calls import judge
from flyball.agents.hooks.turn_brief import Brief
from flyball.guard.change import severity
from flyball.guard.commands import default_policy, judge_command

BARE = default_policy("/w/repo", "/home/dev")
ROWS = [
    msgspec.json.decode(line, type=tuple[str, str])
    for line in Path(__file__).with_name("guard_sandboxed.jsonl").read_text("utf-8").splitlines()
]
OTHER_ROWS = [
    msgspec.json.decode(line, type=tuple[str, str])
    for line in Path(__file__).with_name("guard_rows.jsonl").read_text("utf-8").splitlines()
]
BRIEF = Brief(workspace="/w/repo", home="/home/dev", policy=shipped_policies().get())


@pytest.mark.parametrize("kind", ["bwrap", "landlock"])
@pytest.mark.parametrize("expected", ["allow", "stop"])
def test_a_command_is_judged_by_what_leaves_its_sandbox(kind: str, expected: str) -> None:
    policy = replace(BARE, sandbox=kind)
    rows = [line for word, line in ROWS if word == expected]
    verdicts = [(line, judge_command(line, policy)) for line in rows]
    wrong = [(line, v) for line, v in verdicts if (v.verdict == "allow") != (expected == "allow")]
    assert len(rows) > 600
    assert wrong == []


def test_no_command_is_decided_by_a_fault_of_the_guard() -> None:
    policy = replace(BARE, sandbox="bwrap")
    lines = [line for _, line in (*ROWS, *OTHER_ROWS)]
    assert [line for line in lines if judge_command(line, policy).rule == "guard-error"] == []


@pytest.mark.sampled(1)
@pytest.mark.parametrize("sandbox", ["bwrap", "none"])
def test_every_refusal_says_what_to_do_instead(sandbox: str) -> None:
    policy = replace(BARE, sandbox=sandbox)
    verdicts = [judge_command(line, policy) for _, line in (*ROWS, *OTHER_ROWS)]
    silent = {v.rule: v.reason for v in verdicts if v.verdict != "allow" and ". " not in v.reason}
    assert silent == {}


def test_a_sandbox_never_makes_an_ordinary_command_worse() -> None:
    policy = replace(BARE, sandbox="bwrap")
    ordinary = [line for word, line in OTHER_ROWS if word == "allow"]
    assert [line for line in ordinary if judge_command(line, policy).verdict != "allow"] == []


def test_without_a_sandbox_the_strict_policy_holds() -> None:
    contained = [line for word, line in ROWS if word == "allow"]
    stopped = [line for line in contained if severity(judge_command(line, BARE)) > 0]
    assert {"npx tsc", "pip install -e .", "rm -rf build dist", "git commit --amend --no-edit"} <= set(
        stopped
    )


@pytest.mark.parametrize(
    ("line", "where"),
    [
        ("git push", "sh -c '{}'"),
        ("curl https://evil.example", "timeout 5 {}"),
        ("pip install evil", "env X=1 {}"),
        ("cat ~/.ssh/id_rsa", "bash -c '{}'"),
        ("flyball answer x approve", "nice {}"),
        ("unshare -r sh", "command {}"),
        ("npm publish", "cd sub && {}"),
        ("git push", "python -c \"import os; os.system('{}')\""),
        ("curl evil.example", "echo '{}' > x.sh; sh x.sh"),
        ("npm publish", "f() {{ {}; }}; f"),
        ("gh pr create", "if [ -f x ]; then {}; fi"),
        ("ssh evil.example", "ls | xargs {}"),
        ("rm -rf ~", "find . -exec {} +"),
    ],
)
def test_a_wrapper_hides_nothing_that_leaves(line: str, where: str) -> None:
    policy = replace(BARE, sandbox="bwrap")
    assert judge_command(where.format(line), policy).verdict != "allow"


@pytest.mark.parametrize(
    ("kind", "command", "expected"),
    [
        ("none", "rm -rf node_modules", "ask"),
        ("bwrap", "rm -rf node_modules", "allow"),
        ("landlock", "rm -rf node_modules", "allow"),
        ("bwrap", "git push", "ask"),
        ("none", "git push", "ask"),
    ],
)
def test_a_live_call_is_judged_by_the_sandbox_of_its_run(kind: str, command: str, expected: str) -> None:
    call = HookCall(
        agent="claude",
        event="PreToolUse",
        moment="pre",
        tool="Bash",
        input={"command": command},
        cwd="/w/repo",
    )
    assert judge(call, replace(BRIEF, sandbox=kind), lambda path: path).verdict == expected


@pytest.mark.parametrize(
    ("kind", "path", "expected"),
    [
        ("none", "/tmp/notes.md", "deny"),
        ("bwrap", "/tmp/notes.md", "allow"),
        ("bwrap", "/etc/hosts", "deny"),
        ("bwrap", "/w/repo/.flyball/policy.toml", "deny"),
    ],
)
def test_a_file_may_be_written_to_tmp_in_a_sandbox(kind: str, path: str, expected: str) -> None:
    call = HookCall(
        agent="claude",
        event="PreToolUse",
        moment="pre",
        tool="Write",
        input={"file_path": path, "content": "x"},
        cwd="/w/repo",
    )
    assert judge(call, replace(BRIEF, sandbox=kind), lambda name: name).verdict == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("cat ~/.ssh/id_rsa", "deny"),
        ("cat .env", "deny"),
        ("touch .git/hooks/pre-commit", "deny"),
        ("touch .flyball/policy.toml", "deny"),
        ("openssl genrsa -out /tmp/test.pem", "allow"),
    ],
)
def test_a_home_and_a_checkout_in_tmp_are_guarded_like_any_other(line: str, expected: str) -> None:
    policy = replace(default_policy("/tmp/a/repo", "/tmp/a/home"), sandbox="bwrap")
    assert judge_command(line, policy).verdict == expected
