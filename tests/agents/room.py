"""A room for one real agent: its command line, a repository with a bug, a private home, and a scripted model."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from flyball.testing.model import ScriptedModel
from flyball.testing.vendors import VENDORS, Vendor

ROOT = Path(__file__).parents[2]
PROGRAMS = ROOT / ".agents" / "node_modules" / ".bin"
ATTEMPTS = ROOT / ".agents" / "attempts.txt"
BROKEN, FIXED = "def add(a, b):\n    return a - b\n", "def add(a, b):\n    return a + b\n"
TEST = "from calc import add\n\nassert add(1, 2) == 3, f'{add(1, 2)} is not 3'\n"
DONE = """All done.

## Loop Status

**Task Status**: complete

### Completion Indicators
- [x] Task complete
- [x] All tests passing

### Exit Decision
EXIT_SIGNAL: true
"""

__all__ = ["DONE", "PROGRAMS", "VENDORS", "Room", "script"]

Json = dict[str, Any]


PROOF = 'proof.commands=["python3 -S test_calc.py"]'


def script(*steps: Json, **more: Any) -> Json:
    return {"steps": list(steps), "usage": {"input": 1000, "output": 100}, **more}


def _words(machine: str, *more: str) -> tuple[str, ...]:
    return ("run", "Repair add", "--machine", machine, "--set", PROOF, *more, "--json", "--trust")


class Room:
    def __init__(self, folder: Path, vendor: Vendor, model: ScriptedModel) -> None:
        self.folder, self.vendor, self.model = folder, vendor, model
        self.repo, self.home, self.state = folder / "repo", folder / "home", folder / "state"
        self.home.mkdir()
        self._configure(vendor, model)
        path = f"{PROGRAMS}{os.pathsep}{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self.env = {
            "PATH": path,
            "LANG": "C.UTF-8",
            "HOME": str(self.home),
            "FLYBALL_STATE_DIR": str(self.state),
            "GIT_CONFIG_GLOBAL": "/dev/null",
            **vendor.env(model.url),
        }
        self.others: list[ScriptedModel] = []
        self._repo({"calc.py": BROKEN, "test_calc.py": TEST})

    def _repo(self, files: Mapping[str, str]) -> None:
        self.repo.mkdir()
        for name, text in files.items():
            (self.repo / name).write_text(text)
        subprocess.run(["git", "init", "-q", "-b", "main"], cwd=self.repo, env=self.env, check=True)
        self.commit("As it was")

    def commit(self, message: str) -> None:
        who = ("-c", "user.name=Ann", "-c", "user.email=ann@localhost")
        for words in (("add", "-A"), (*who, "commit", "-qm", message)):
            subprocess.run(["git", *words], cwd=self.repo, env=self.env, check=True)

    def _configure(self, vendor: Vendor, model: ScriptedModel) -> None:
        for name, text in vendor.files(model.url).items():
            (self.home / name).parent.mkdir(parents=True, exist_ok=True)
            (self.home / name).write_text(text)

    def add(self, vendor: Vendor, model: ScriptedModel) -> None:
        """Another agent, with its own model."""
        self._configure(vendor, model)
        self.env.update(vendor.env(model.url))
        self.others.append(model)

    def subscribe(self) -> None:
        """Claude Code names a plan's limit only to those who have a plan; with an API key it is a rate limit."""
        if self.vendor.name == "claude":
            del self.env["ANTHROPIC_API_KEY"]
            self.env["CLAUDE_CODE_OAUTH_TOKEN"] = "scripted-0000"

    def play(self, *steps: Json, **more: Any) -> None:
        """What the model does from now on."""
        self.model.load(script(*steps, **more))

    def fb(self, *words: str, timeout: float = 150) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "flyball", *words]
        streams: Json = {"capture_output": True, "text": True, "stdin": subprocess.DEVNULL}
        return subprocess.run(command, cwd=self.repo, env=self.env, timeout=timeout, check=False, **streams)

    def start(self, *words: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "flyball", *words]
        return subprocess.Popen(
            command, cwd=self.repo, env=self.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
        )

    def words(self, *more: str) -> tuple[str, ...]:
        """`run` with this agent in one loop, proved by the test."""
        return _words("loop", "--agent", self.vendor.agent, *more)

    def run(self, *more: str, timeout: float = 150) -> Json:
        return self._facts(*self.words(*more), timeout=timeout)

    def run_machine(self, machine: str, *more: str) -> Json:
        return self._facts(*_words(machine, *more), timeout=200)

    def _facts(self, *words: str, timeout: float) -> Json:
        done = self.fb(*words, timeout=timeout)
        assert done.stdout.strip(), done.stderr
        return json.loads(done.stdout)

    def resume(self, run: str) -> Json:
        done = self.fb("resume", run, "--json")
        assert done.stdout.strip(), done.stderr
        return json.loads(done.stdout)

    def wait_for(self, there: Callable[[], object], seconds: float = 60) -> None:
        until = time.monotonic() + seconds
        while not there():
            assert time.monotonic() < until, "it did not happen in time"
            time.sleep(0.1)

    def show(self, run: str = "@last") -> Json:
        return json.loads(self.fb("show", run, "--json").stdout)

    def log(self) -> list[Json]:
        return [json.loads(line) for line in self.fb("log", "@last", "--json").stdout.splitlines()]

    def became(self, task: str) -> str:
        """What a task of the backlog came to; "" while it waits or is worked on."""
        state = str(json.loads(self.fb("task", "show", task, "--json").stdout)["state"])
        return "" if state in ("pending", "active", "interrupted") else state

    def inbox(self) -> list[Json]:
        return json.loads(self.fb("inbox", "--json").stdout)

    def runs(self) -> list[Json]:
        return json.loads(self.fb("ls", "--children", "--json").stdout)

    def branch(self, name: str) -> str:
        """calc.py as it stands on a branch of the user's repository."""
        words = ["git", "show", f"{name}:calc.py"]
        return subprocess.run(
            words, cwd=self.repo, env=self.env, capture_output=True, text=True, check=True
        ).stdout

    def note_attempts(self) -> None:
        """Keep which other hosts the agent of the last run wanted to reach, for `make agents` to list."""
        texts = [event["text"] for event in self.log() if event.get("code") == "network.refused"]
        with ATTEMPTS.open("a") as file:
            file.writelines(f"{text}\n" for text in texts)

    def left(self) -> list[str]:
        """Processes that are still there and belong to this room."""
        found: list[str] = []
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                environ, line = (entry / "environ").read_bytes(), (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if f"FLYBALL_STATE_DIR={self.state}".encode() in environ or str(self.folder).encode() in line:
                found.append(line.replace(b"\0", b" ").decode("utf-8", "replace")[:200])
        return found

    def empty(self, seconds: float = 8) -> list[str]:
        """The same, after they have had time to leave."""
        until = time.monotonic() + seconds
        while (left := self.left()) and time.monotonic() < until:
            time.sleep(0.2)
        return left
