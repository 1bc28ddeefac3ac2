"""A yard to try Flyball in: a small repository with a bug, a script for the agent, and the real command line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.e2e import warm

from flyball.journal import Row
from flyball.journal.sqlite import SqliteJournal

BUG = "def add(a, b):\n    return a - b\n"
WORSE = "def add(a, b):\n    return a * b\n"
GOOD = "def add(a, b):\n    return a + b\n"
TEST = """import unittest

from calc import add


class AddTest(unittest.TestCase):
    def test_add(self):
        self.assertEqual(add(1, 2), 3)
"""
CHECK = """from calc import add

assert (add(1, 2) == 3), f"{add(1, 2)} is not 3"
"""
PROOF = "python3 -S test_calc.py"  # a test all the same, and there are many runs
ACCEPT = [{"say": "Looks right.\nOUTCOME: accepted"}]


class Yard:
    bite: tuple[str, ...] = ("--set", "proof.bite=never")  # breaking the change on purpose is two proofs more

    def __init__(self, folder: Path) -> None:
        self.folder, self.repo = folder, folder / "repo"
        self.processes: list[subprocess.Popen[str]] = []
        self.state = folder / "state"
        home = folder / "home"
        home.mkdir(parents=True)
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "PYENV_ROOT") if name in os.environ}
        self.env = {**kept, "HOME": str(home), "FLYBALL_STATE_DIR": str(self.state)}
        self.make({"calc.py": BUG, "test_calc.py": CHECK})

    def make(self, files: Mapping[str, str]) -> None:
        self.repo.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            path = self.repo / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
        if not (self.repo / ".git").exists():
            self.git("init", "-q", "-b", "main")
            self.git("config", "user.name", "Ann")
            self.git("config", "user.email", "ann@localhost")
        self.git("add", "-A")
        self.git("commit", "-qm", "As it was")

    def git(self, *words: str) -> str:
        done = subprocess.run(
            ["git", *words], cwd=self.repo, env=self.env, check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    def script(self, name: str = "agent.yaml", **roles: Any) -> str:
        """An agent from its roles; a role that is not named ends ok, silent."""
        path = self.folder / name
        repeat = roles.pop("repeat", "last")
        body = {"turns": roles["turns"]} if "turns" in roles else {"roles": roles}
        path.write_text(json.dumps({**body, "repeat": repeat}), "utf-8")  # JSON: quicker, and YAML as well
        return f"script:{path}"

    def yaml(self, text: str) -> str:
        """An agent as a person would write it."""
        path = self.folder / "written.yaml"
        path.write_text(text, "utf-8")
        return f"script:{path}"

    def command(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "flyball", *words]

    def flyball(
        self, *words: str, env: Mapping[str, str] | None = None, timeout: float = 90
    ) -> subprocess.CompletedProcess[str]:
        """A command to its end."""
        done = warm.command(*words, cwd=self.repo, env={**self.env, **(env or {})}, timeout=timeout)
        return subprocess.CompletedProcess(
            done.args, done.returncode, done.stdout.decode(), done.stderr.decode()
        )

    def start(self, *words: str, env: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        process = subprocess.Popen(
            self.command(*words),
            cwd=self.repo,
            env={**self.env, **(env or {})},
            stdout=pipe,
            stderr=pipe,
            text=True,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        self.processes.append(process)
        return process

    def peek(self) -> tuple[Row, bytes] | None:
        """The newest run's row and its last event, read at once: a command may take longer than what it looks for."""
        if not (self.state / "journal.db").exists():
            return None
        journal = SqliteJournal(self.state / "journal.db")
        try:
            rows = journal.rows(parent="", limit=1)
            return (rows[0], list(journal.read(rows[0].run))[-1].body) if rows else None
        finally:
            journal.close()

    def close(self) -> None:
        """End what a failed test left running."""
        for process in self.processes:
            if process.poll() is None:
                process.kill()
                process.communicate()

    def words(self, agent: str, *more: str, machine: str = "build", proof: str | None = PROOF) -> list[str]:
        proved = ["--set", f"proof.commands={json.dumps([proof])}", *self.bite] if proof else []
        return ["run", "Make add() add", "--machine", machine, "--agent", agent, "--json", *proved, *more]

    def run(self, agent: str, *more: str, machine: str = "build", proof: str | None = PROOF) -> Ran:
        return Ran(self.flyball(*self.words(agent, *more, machine=machine, proof=proof)))

    def resume(self, *more: str) -> Ran:
        return Ran(self.flyball("resume", "@last", "--json", *more))


class Ran:
    """What a `--json` run printed, and its exit code."""

    def __init__(self, done: subprocess.CompletedProcess[str]) -> None:
        self.exit, self.out, self.err = done.returncode, done.stdout, done.stderr
        lines = done.stdout.strip()
        self.facts: dict[str, Any] = json.loads(lines) if lines.startswith("{") else {}

    @property
    def code(self) -> str:
        reason = self.facts.get("stop_reason")
        return reason["code"] if reason else ""

    @property
    def question(self) -> str:
        return self.facts["question"]["id"]

    def __getattr__(self, name: str) -> Any:
        try:
            return self.facts[name]
        except KeyError:
            raise AttributeError(f"no {name} in {self.out!r} {self.err!r}") from None
