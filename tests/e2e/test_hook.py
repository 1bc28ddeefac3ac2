"""GUARD-2 through hooks: what the guard refuses does not run, whatever is broken; what it rules is on action_log."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.e2e.helpers import ACCEPTS, FIXED, Place, Said, eventually

from flyball.acts.run_files import shipped_policies
from flyball.agents import sandbox
from flyball.agents.hooks import action_log, cli_settings, turn_brief
from flyball.agents.hooks.payload import AGENTS
from flyball.agents.hooks.server import HookServer
from flyball.agents.hooks.turn_brief import Brief

STAND_IN = Path(__file__).with_name("hooked_agent.py")
TOOLS = {"claude": "Bash", "codex": "Bash", "gemini": "run_shell_command"}


class Lab:
    """An act's folder with a brief and a workspace, and a hook to start."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.work, self.hook = folder / "act", folder / "w", folder / "act" / "hook"
        self.work.mkdir()
        self.hook.mkdir(parents=True)
        self.late = folder / "late.jsonl"
        policy = shipped_policies().get()
        self.brief = Brief(
            workspace=str(self.work),
            home=str(folder / "home"),
            policy=policy,
            late=str(self.late),
            imports=turn_brief.imports(),
        )
        self.pin(self.brief)

    def pin(self, brief: Brief) -> None:
        self.sha = turn_brief.write(self.hook, brief)
        server = cli_settings.server_line(self.hook, "t", False)
        cli_settings.write(self.hook, self.hook / turn_brief.NAME, self.sha, server)

    def desk(self, granted: tuple[str, ...] = ()) -> HookServer:
        return HookServer(self.hook, action_log.Record(self.folder), self.work, granted)

    def payload(self, agent: str, command: str) -> bytes:
        event = "BeforeTool" if agent == "gemini" else "PreToolUse"
        asked = {"tool_name": TOOLS[agent], "tool_input": {"command": command}, "tool_use_id": "c"}
        return json.dumps({"hook_event_name": event, "cwd": str(self.work), **asked}).encode()

    def ask(self, command: str | bytes, agent: Any = "claude", moment: str = "pre") -> Said:
        """What the CLI's shell gets from the line it was given."""
        line = cli_settings.command_line(
            agent, moment, self.hook / "program.py", self.hook / turn_brief.NAME, self.sha
        )
        data = command if isinstance(command, bytes) else self.payload(agent, command)
        done = subprocess.run(["/bin/sh", "-c", line], input=data, capture_output=True, timeout=60, env={})
        return Said(done.returncode, done.stdout.decode(), done.stderr.decode())

    def seen(self) -> list[tuple[str, str]]:
        return [(a.verdict, a.rule) for a in action_log.read(self.folder, str(self.late)).actions]


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


# ---- the program -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("agent", AGENTS)
def test_with_a_driver_each_cli_gets_its_answer_and_the_driver_has_the_record(lab: Lab, agent: str) -> None:
    with lab.desk():
        yes, no, ask = (lab.ask(c, agent) for c in ("ls", "rm -rf /", "npm install x"))
    assert (yes.code, yes.err) == (0, "")
    assert (no.code, no.out) == (2, "") and no.err
    assert (ask.code, ask.out) == (2, "") and ask.err
    assert [verdict for verdict, _ in lab.seen()] == ["allow", "deny", "ask"]
    assert not lab.late.exists()


def test_without_a_driver_it_judges_by_itself_and_asks_nobody(lab: Lab) -> None:
    cases = (("ls", "gemini"), ("rm -rf /", "codex"), ("npm install x", "claude"))
    yes, no, ask = (lab.ask(line, agent) for line, agent in cases)
    assert (yes.code, no.code, ask.code) == (0, 2, 2)
    assert ask.code == 2 and ask.err
    assert [verdict for verdict, _ in lab.seen()] == ["allow", "deny", "deny"]


def test_another_brief_than_the_pinned_one_is_refused_and_recorded(lab: Lab) -> None:
    loose = replace(lab.brief.policy, commands=replace(lab.brief.policy.commands, declared=("rm",)))
    pinned = lab.sha
    with lab.desk():
        turn_brief.write(lab.hook, replace(lab.brief, policy=loose))
        lab.sha = pinned
        said = lab.ask("ls")
    assert said.code == 2 and said.err
    assert lab.seen() == [("deny", "tampering")]


def broken_guard(lab: Lab) -> None:
    """The parser raises as soon as it is imported."""
    fake = lab.folder / "code"
    shutil.copytree(
        Path(turn_brief.__file__).parents[2], fake / "flyball", ignore=shutil.ignore_patterns("web", "cli")
    )
    (fake / "flyball/guard/commands/grammar.py").write_text("raise RuntimeError('broken')\n")
    lab.pin(replace(lab.brief, imports=(str(fake), *lab.brief.imports)))


def no_guard(lab: Lab) -> None:
    lab.pin(replace(lab.brief, imports=(str(lab.folder),)))


def no_brief(lab: Lab) -> None:
    (lab.hook / turn_brief.NAME).unlink()


def not_a_brief(lab: Lab) -> None:
    data = b'{"workspace": "/w"}'
    (lab.hook / turn_brief.NAME).write_bytes(data)
    import hashlib

    lab.sha = hashlib.sha256(data).hexdigest()


def no_program(lab: Lab) -> None:
    (lab.hook / "program.py").unlink()


def killed(lab: Lab) -> None:
    (lab.hook / "program.py").write_text("import os\nos.kill(os.getpid(), 9)\n")


def crashing(lab: Lab) -> None:
    (lab.hook / "program.py").write_text("raise SystemExit(1)\n")


def in_the_agents_reach(lab: Lab) -> None:
    """The guard's own code lies in the workspace, as where Flyball works on itself."""
    lab.pin(replace(lab.brief, imports=(str(lab.work), *lab.brief.imports), confined=True))


@pytest.mark.parametrize(
    "breaks",
    [broken_guard, no_guard, no_brief, not_a_brief, no_program, killed, crashing, in_the_agents_reach],
)
def test_whatever_is_broken_is_a_no(lab: Lab, breaks: Any) -> None:
    breaks(lab)
    said = lab.ask("ls")
    assert (said.code, said.out) == (2, "")


def test_a_question_that_cannot_be_read_is_a_no_with_and_without_a_driver(lab: Lab) -> None:
    assert lab.ask(b"{").code == 2
    odd = (b"", b"{", b"[]", b"null", b'{"hook_event_name": "New"}', b"\xff" * 99)
    with lab.desk():
        assert [lab.ask(data).code for data in odd] == [2] * len(odd)
    assert lab.seen() == [("deny", "unreadable")] * len(odd)


def test_wrong_words_on_the_command_line_are_a_no(lab: Lab) -> None:
    for words in ([], ["pre"], ["pre", "claude"], ["never", "claude", "b", "s"], ["pre", "aider", "b", "s"]):
        done = subprocess.run(
            [sys.executable, "-I", "-S", str(lab.hook / "program.py"), *words],
            input=b"{}",
            capture_output=True,
        )
        assert (done.returncode, done.stdout) == (2, b"")


def test_what_comes_after_a_tool_is_never_held_up(lab: Lab) -> None:
    for data, moment in ((b"", "post"), (b"{", "note"), (b'{"hook_event_name": "Stop"}', "note")):
        assert lab.ask(data, moment=moment) == Said(0, "", "")


@pytest.mark.parametrize("reply", [b"", b"yes\n", b"1 0 0\n", b"0 0 0\nextra"])
def test_a_driver_that_makes_no_sense_is_not_believed(lab: Lab, reply: bytes) -> None:
    door = socket.socket(socket.AF_UNIX)
    door.bind(str(lab.hook / "sock"))
    door.listen()

    def serve() -> None:
        line, _ = door.accept()
        line.recv(1 << 16)
        line.sendall(reply)
        line.close()

    thread = threading.Thread(target=serve)
    thread.start()
    said = lab.ask("rm -rf /")
    thread.join(10)
    door.close()
    assert said.code == 2 and lab.seen() == [("deny", "path/system")]


def test_in_a_namespace_only_a_stranger_can_be_the_driver(lab: Lab) -> None:
    """Where the agent is confined, a socket of a process with a number in its namespace is the agent's own."""
    lab.pin(replace(lab.brief, confined=True))
    with lab.desk():
        assert lab.ask("ls").code == 0
    assert [action.late for action in action_log.read(lab.folder, str(lab.late)).actions] == [True]


def test_the_named_command_answers_alike(lab: Lab) -> None:
    words = ["pre", "claude", str(lab.hook / turn_brief.NAME), lab.sha]
    for command, code in (("ls", 0), ("rm -rf /", 2)):
        done = subprocess.run(
            [sys.executable, "-P", "-m", "flyball", "hook", *words],
            input=lab.payload("claude", command),
            capture_output=True,
        )
        assert done.returncode == code


def test_a_grant_for_once_is_used_up(lab: Lab) -> None:
    from flyball.agents.hooks.payload import read
    from flyball.agents.hooks.tool_calls import fingerprint

    call = fingerprint(read(lab.payload("claude", "npm install x"), "claude", "pre"))
    with lab.desk((f"once:{call}",)):
        assert [lab.ask("npm install x").code for _ in range(2)] == [0, 2]
        assert lab.ask("npm install y").code == 2
    assert lab.seen() == [("allow", "granted"), ("ask", "install"), ("ask", "install")]


def test_a_fault_while_answering_closes_the_line_and_the_hook_judges_by_itself(lab: Lab) -> None:
    def breaks(_: str) -> None:
        raise RuntimeError("no screen")

    with HookServer(lab.hook, action_log.Record(lab.folder), lab.work, show=breaks):
        assert [lab.ask(command).code for command in ("ls", "rm -rf /")] == [0, 2]
    assert lab.late.exists()


def test_callers_that_say_nothing_do_not_keep_others_waiting(lab: Lab) -> None:
    with lab.desk():
        idle = [socket.socket(socket.AF_UNIX) for _ in range(40)]
        for line in idle:
            line.connect(str(lab.hook / "sock"))
        said = lab.ask("rm -rf /")
        for line in idle:
            line.close()
    assert said.code == 2


# ---- whole runs --------------------------------------------------------------------------------------------


def hooked(agent: str, *steps: str) -> str:
    """A command agent that asks through hooks."""
    name = cli_settings.FILES[agent]  # type: ignore[index]
    words = json.dumps(list(steps)).replace("'", "'\\''")
    return f"command:{sys.executable} -P {STAND_IN.name} {{hooks}}/{name} {agent} '{words}'"


def settle(place: Place) -> None:
    """The stand-in goes into the repository: what else is on the disk a sandbox may hide."""
    shutil.copy(STAND_IN, place.repo)
    place.git("add", ".")
    place.git("commit", "-qm", "A stand-in")


def turn_of(place: Place) -> dict[str, Any]:
    """The first agent turn that asked anything, as the journal has it."""
    for entry in place.fb("log", "@last", "--json").lines:
        result = entry.get("result", {})
        if result.get("actions"):
            return result
    raise AssertionError("no turn asked anything")


def run(place: Place, coder: str, *more: str) -> Said:
    settle(place)
    others = place.script(planner=[{"say": "plan"}], critic=ACCEPTS)
    return place.fb(
        "run", "Fix add", "--agent", others, "--agent", f"coder={coder}", "--set", "proof.commands=[]", *more
    )


def test_what_the_guard_refuses_does_not_run_and_all_of_it_is_journaled(place: Place) -> None:
    done = run(place, hooked("claude", "touch made.txt", "git push --force origin main", "cat nothing"))
    assert done.code == 0, done.err
    turn = turn_of(place)
    assert [(a["verdict"], a.get("failed", False)) for a in turn["actions"]] == [
        ("allow", False),
        ("deny", False),
        ("allow", True),
    ]
    assert turn["changed"] == ["made.txt"]
    assert "blocked: git push" in turn["message"] and "ran: git push" not in turn["message"]
    assert "refused" in place.fb("log", "@last").out


def test_a_critical_call_ends_the_turn_at_once_and_a_person_is_asked(place: Place) -> None:
    coder = hooked("claude", "touch made.txt", "cat ~/.ssh/id_rsa", "wait:/never", "touch after.txt")
    done = run(place, coder)
    assert (done.code, place.last()["stop_reason"]["code"]) == (4, "blocked.guard.secret"), done.err
    turn = turn_of(place)
    assert [a["verdict"] for a in turn["actions"]] == ["allow", "deny"]
    assert not turn.get("changed") and "id_rsa" in place.fb("why", "@last").out
    (one,) = place.fb("inbox", "--json").json
    assert place.fb("answer", one["question"], "approve").code == 0
    place.fb("resume", "@last")
    assert "made.txt" in place.fb("diff", "@last").out


def test_halves_of_characters_in_what_an_agent_notes_do_not_wedge_its_run(place: Place) -> None:
    row = json.dumps(
        {"moment": "pre", "tool": "Bash", "verdict": "deny", "rule": "secret", "input": "\ud800"}
    )
    note = (
        f"raw:for f in {{hooks}}/brief.json; do echo '{row}' >> $(sed 's/.*\"late\":\"//; s/\".*//' $f); done"
    )
    assert run(place, hooked("claude", "touch made.txt", note)).code == 4
    assert place.last()["stop_reason"]["code"] == "blocked.guard.secret"


def test_an_approval_shows_what_else_the_guard_would_have_asked_about(place: Place) -> None:
    makes = "mkdir -p .github/workflows && touch .github/workflows/x.yml"
    assert run(place, hooked("claude", f"raw:{makes}", "cat ~/.ssh/id_rsa")).code == 4
    (one,) = place.fb("inbox", "--json").json
    assert "id_rsa" in one["asked"] and "x.yml" in one["asked"]


def test_what_a_planner_wrote_does_not_come_back_with_an_approval(place: Place) -> None:
    settle(place)
    planner = hooked("claude", "raw:touch planned.txt", "cat ~/.ssh/id_rsa")
    others = place.script(coder=[{"write": {"calc.py": FIXED}}])
    words = ("--agent", others, "--agent", f"planner={planner}", "--set", "guard.sandbox=none")
    assert place.fb("run", "Fix add", *words, "--set", "limits.retries=0").code == 4
    (one,) = place.fb("inbox", "--json").json
    assert place.fb("answer", one["question"], "approve").code == 0
    place.fb("resume", "@last")
    assert list(place.state.glob("runs/*/checkout/planned.txt")) == []


def left_alone(place: Place, *steps: str) -> Said:
    """A run whose driver is killed after the first call; the agent goes on with the steps, then it is resumed."""
    go, acts = place.folder / "go", place.state / "acts"
    others = place.script(planner=[{"say": "plan"}], critic=ACCEPTS)
    words = ("--agent", others, "--agent", f"coder={hooked('claude', 'ls', f'wait:{go}', *steps)}")
    settle(place)
    started = place.start(
        "run", "Fix add", *words, "--set", "proof.commands=[]", "--set", "guard.sandbox=none"
    )
    (file,) = eventually(lambda: list(acts.glob("*/actions.jsonl")))
    eventually(lambda: '"post"' in file.read_text())
    started.kill()
    started.communicate()
    go.touch()
    eventually(lambda: (file.parent / "exit.json").exists())
    return place.fb("resume", "@last")


def test_a_critical_call_that_no_driver_saw_blocks_when_one_comes_back(place: Place) -> None:
    assert left_alone(place, "rm -rf /", "touch made.txt").code == 4
    assert place.last()["stop_reason"]["code"] == "blocked.guard.system"


def test_what_needs_a_person_is_asked_and_a_grant_lets_it_pass_once(place: Place) -> None:
    step = "mkdir deep && rm -rf deep *.tmp"
    done = run(place, hooked("claude", step), "--set", "guard.sandbox=none")
    assert done.code == 3, done.err
    (one,) = place.fb("inbox", "--json").json
    assert (one["kind"], one["code"]) == ("permission", "wait.permission") and "rm -rf" in one["asked"]
    assert place.fb("answer", one["question"], "grant").code == 0
    assert place.fb("resume", "@last").code == 0
    results = [entry.get("result", {}) for entry in place.fb("log", "@last", "--json").lines]
    messages = [result["message"] for result in results if result.get("actions")]
    assert ["blocked" in messages[0], "ran" in messages[1]] == [True, True]
    assert "A person allowed once" in place.fb("log", "@last").out


@pytest.mark.parametrize("box", ["bwrap", "landlock"])
def test_in_its_sandbox_an_agent_can_change_neither_rules_nor_record(place: Place, box: str) -> None:
    """What stays in the checkout is not asked about."""
    if sandbox.probe(box).kind != box:
        pytest.skip(f"{box} does not work here")
    names = " ".join(f"{{hooks}}/{n}" for n in ("brief.json", "program.py", "claude.json"))
    writes = f"raw:for f in {names}; do echo x >> $f && echo wrote $f; done; ls {{hooks}}"
    removes = "raw:rm {hooks}/sock; mv {hooks} /tmp/h"
    steps = (
        "mkdir deep && rm -rf deep *.tmp",
        "git push --force origin main",
        writes,
        removes,
        "touch made.txt",
    )
    done = run(place, hooked("claude", *steps), "--set", f"guard.sandbox={box}")
    assert done.code == 0, done.err
    turn = turn_of(place)
    assert "wrote" not in turn["message"] and "sock" in turn["message"]
    assert [a["verdict"] for a in turn["actions"]] == ["allow", "deny", "allow"]
    assert not any(a.get("late", False) for a in turn["actions"])


def test_an_agent_whose_hooks_are_never_heard_has_failed(place: Place) -> None:
    done = run(place, "command:true {hooks}", "--set", "limits.retries=0")
    assert done.code == 1
    assert "hooks never ran" in place.fb("log", "@last").out


def test_a_driver_that_dies_leaves_the_agent_guarded_and_the_next_one_has_the_record(place: Place) -> None:
    done = left_alone(place, "git push --force origin main", "touch made.txt")
    assert done.code == 0, done.err
    turn = turn_of(place)
    assert [(a["verdict"], a.get("late", False)) for a in turn["actions"]] == [
        ("allow", False),
        ("deny", True),
        ("allow", True),
    ]
    assert turn["changed"] == ["made.txt"]


def test_a_touched_configuration_of_the_hooks_blocks_the_run(place: Place) -> None:
    """Without a sandbox an agent can write it; it is seen at the end of the turn."""
    coder = hooked("claude", "touch made.txt", "raw:echo >> {hooks}/claude.json")
    assert run(place, coder, "--set", "guard.sandbox=none").code == 4
    assert place.last()["stop_reason"]["code"] == "blocked.tampering"


CLAUDE = shutil.which("claude")


@pytest.mark.skipif(CLAUDE is None, reason="Claude Code is not installed (it is tried with a scripted model)")
def test_the_real_claude_code_accepts_the_configuration(lab: Lab) -> None:
    """Without a model nothing is asked; but the session's first word must reach us."""
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(lab.folder),
        "ANTHROPIC_API_KEY": "none",
        "IS_SANDBOX": "1",
    }
    env |= {
        "ANTHROPIC_BASE_URL": "http://127.0.0.1:9",
        "CLAUDE_CODE_MAX_RETRIES": "0",
        "DISABLE_TELEMETRY": "1",
    }
    env |= {"DISABLE_AUTOUPDATER": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
    with lab.desk():
        argv = [str(CLAUDE), "-p", "go", "--settings", str(lab.hook / "claude.json")]
        subprocess.run(argv, cwd=lab.work, env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
    assert action_log.read(lab.folder).spoke
