"""Every example in `--help` runs, with exit code 0 unless its command says otherwise, in a situation that fits it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import click
import pytest
from tests.docs.shell import Shell

from flyball.cli import cli

SETTINGS = """
[agents]
default = "script:agent.yaml"
[proof]
commands = ["true"]
bite = "never"
"""
FINISH = "{finish: {indicators: [task complete, all done]}}"
SCRIPTS = {
    "agent.yaml": """
roles:
  coder: [{write: {slug.py: "one\\n"}}, {write: {slug.py: "two\\n"}}]
  worker: [{write: {slug.py: "one\\n"}}, {finish: {indicators: [task complete, all done]}}]
  critic: [{say: "OUTCOME: accepted"}]
""",
    "bold.yaml": f"turns: [{{write: {{.github/workflows/ci.yml: x}}}}, {{write: {{notes.txt: x}}}}, {FINISH}]",
    "asks.yaml": f"turns: [{{write: {{a: x}}}}, {{write: {{b: x}}}}, {{write: {{c: x}}}}, {{ask: Which table}}, {FINISH}]",
    "idle.yaml": f"turns: [{{say: Hm.}}, {{write: {{notes.txt: x}}}}, {FINISH}]",
    "slow.yaml": f"turns: [{{sleep_s: 4, write: {{notes.txt: x}}}}, {FINISH}]",
    "strict.yaml": "turns: [{say: 'OUTCOME: rejected'}, {say: 'OUTCOME: accepted'}]",
}
FILES = {
    ".flyball/flyball.toml": SETTINGS,
    **SCRIPTS,
    "task.md": "Repair slug.py.\n",
    "commands.jsonl": '{"id": 1, "command": "ls"}\n',
    "changes.jsonl": '{"id": 1, "changes": [{"path": "a.py", "op": "modify", "lines_added": 1, "lines_deleted": 0}]}\n',
    "lines.jsonl": '{"id": 1, "path": "a.py", "line": "x = 1"}\n',
    "output.jsonl": '{"id": 1, "dialect": "loop", "role": "worker", "text": "done", "runtime": {"exit_code": 0}}\n',
    "limits.jsonl": '{"id": 1, "agent": "claude", "text": "usage limit reached", "now": "2026-01-01T00:00:00Z"}\n',
    "stream.jsonl": '{"type": "thread.started", "thread_id": "t"}\n{"type": "turn.completed", "usage": {}}\n',
    "stderr.txt": "",
    ".flyball/machines/mine.toml": """
name  = "mine"
start = "draft"
[states]
draft = { do = "agent:author", on = { worked = "over", unproven = "draft" } }
over  = { end = "success" }
[anywhere]
on = { blocked = "@blocked", exhausted = "@fail", timeout = "@fail", error = "@fail", stalled = "@ask", cancel = "@cancel" }
[most]
turns = 3
""",
}
DONE = "flyball run Repair"
LOOP = "flyball run Repair --machine loop --set proof.commands=[] --agent script:"
APPROVAL, QUESTION = f"{LOOP}bold.yaml", f"{LOOP}asks.yaml"
STUCK = f"{LOOP}idle.yaml --set limits.no_progress=1"
RUNNING = f"{LOOP}slow.yaml --detach"
FAILED = (
    "flyball run Repair --agent critic=script:strict.yaml --set limits.iterations=1 --set proof.commands=[]"
)

# The situation in which the examples of a command make sense, where it is not a run that has completed.
BEFORE = {
    **dict.fromkeys(
        ("approve", "reject", "answer redirect", "inbox", "take-over", "tell", "allow", "cancel"), APPROVAL
    ),
    **dict.fromkeys(("pause", "stop"), RUNNING),
    **dict.fromkeys(("answer", "rollback"), QUESTION),
    "answer go-on": STUCK,
    "resume": f"{APPROVAL}; flyball reject @last No",
    "hand-back": f"{APPROVAL}; flyball take-over @last",
    "retry": FAILED,
    **dict.fromkeys(("rm", "uninstall"), f"{LOOP}agent.yaml"),
    "run": "true",
    "init": "rm -r .flyball; echo '- [ ] Repair slug' > fix_plan.md",
    **dict.fromkeys(("task show", "task edit", "task start", "task cancel"), "flyball task add Repair"),
    **dict.fromkeys(("task import", "task"), "echo '- [ ] Repair slug.py' > TODO.md"),
    **dict.fromkeys(("task add", "trigger", "hold", "release"), "true"),
}
NOT_RUN = {
    "serve": "runs until it is stopped; tests/web/test_serve.py runs it",
    **dict.fromkeys(("up", "down"), "runs until it is stopped; tests/e2e/test_up.py runs it"),
    "demo": "tests/docs/test_examples.py plays it on a terminal",
    "hook": "needs the files of a running act; tests/e2e/test_hook.py runs it",
    "selftest": "takes minutes; tests/unit/test_selftest_trial.py runs it in small",
    "selftest chaos": "takes minutes; tests/e2e/test_export.py runs it in small",
    "selftest storage": "takes minutes; tests/conformance/test_storage_sweep.py runs it in small",
    "agents probe": "needs an installed agent; tests/agents runs it",
    "agents try": "needs an installed agent; tests/e2e/test_login.py and tests/agents run it",
    "simulate": "takes minutes on a busy machine; tests/simulation runs it",
    "prove": "takes half a minute; tests/unit/test_prove.py and test_prove_files.py run it",
}


def examples(group: click.Group, *above: str) -> Iterator[tuple[str, str]]:
    """(command, example line) for every command that has any."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        lines = re.findall(r"^  (\S.*)$", command.epilog or "", re.M)
        yield from ((" ".join((*above, name)), line) for line in lines)
        if isinstance(command, click.Group):
            yield from examples(command, *above, name)


ALL = list(examples(cli))


class Situation(NamedTuple):
    shell: Shell
    run: str  # its id
    said: str


@pytest.fixture(scope="module")
def completed(tmp_path_factory: pytest.TempPathFactory) -> Situation:
    """A run that has completed, for the many commands that only look."""
    return situation(tmp_path_factory.mktemp("completed"), DONE)


@pytest.mark.sampled(24)
@pytest.mark.parametrize(
    ("command", "line"), [row for row in ALL if row[0] not in NOT_RUN], ids=lambda part: part[:60]
)
def test_an_example_of_the_help_runs(command: str, line: str, completed: Situation, tmp_path: Path) -> None:
    more = next((word for word in ("go-on", "redirect") if f" {word}" in line), "")
    before = BEFORE.get(f"{command} {more}".strip()) or BEFORE.get(command)
    shell, run, said = situation(tmp_path, before) if before else completed
    line = line.replace("9apx47xk", run)
    line = line.replace("messages.jsonl", "limits.jsonl" if command == "agents limit" else "output.jsonl")
    line = (
        "flyball completion zsh" if "completion zsh" in line else line
    )  # bash would not understand its script
    done = shell.run(line)
    assert done.returncode in EXITS.get(command, (0,)), f"{said}\n$ {line}\n{done.stdout}"
    assert "Traceback" not in done.stdout


def situation(folder: Path, before: str) -> Situation:
    shell = Shell(folder)
    shell.write(FILES)
    (shell.home / ".config/fish/completions").mkdir(parents=True)
    said = shell.run(before).stdout
    runs = json.loads(shell.run("flyball ls --json").stdout or "[]")
    return Situation(shell, runs[0]["run"] if runs else "", f"$ {before}\n{said}")


EXITS: dict[str, tuple[int, ...]] = {"run": (0, 3), "guard command": (0, 3)}


def test_what_is_not_run_has_a_reason_and_exists() -> None:
    assert set(NOT_RUN) <= {command for command, _ in ALL}
