"""A place to try the real command line in: a small repository with a bug, a private home and state directory."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.e2e import warm

BROKEN = "def add(a, b):\n    return a - b\n"
STILL_BROKEN = "def add(a, b):\n    return a * b\n"
FIXED = "def add(a, b):\n    return a + b\n"
TEST = """import unittest

from calc import add


class CalcTest(unittest.TestCase):
    def test_add(self):
        self.assertEqual(add(1, 2), 3)
"""
QUICK_PROOF = 'proof.commands=["grep -q a.+.b calc.py"]'
REAL_PROOF = 'proof.commands=["python3 -m unittest -q"]'
ACCEPTS = [{"say": "OUTCOME: accepted"}]
FIXES: dict[str, Any] = {"write": {"calc.py": FIXED}, "finish": {"indicators": ["task complete", "all done"]}}


@dataclass(frozen=True)
class Said:
    """What a command left: its exit code and its two streams."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


class Place:
    def __init__(self, folder: Path) -> None:
        self.folder, self.repo, self.state = folder, folder / "repo", folder / "state"
        self._started: list[subprocess.Popen[str]] = []
        self.loops = 0
        (folder / "home").mkdir()
        make_repo(self.repo, {"calc.py": BROKEN, "test_calc.py": TEST}, self.env)

    @property
    def env(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL", "TZ") if name in os.environ}
        return {**kept, "HOME": str(self.folder / "home"), "FLYBALL_STATE_DIR": str(self.state)}

    def fb(self, *words: str, cwd: Path | None = None, env: Mapping[str, str] | None = None) -> Said:
        """A command to its end."""
        done = warm.command(*words, cwd=cwd or self.repo, env={**self.env, **(env or {})})
        return Said(done.returncode, text(done.stdout), text(done.stderr))

    def start(self, *words: str) -> subprocess.Popen[str]:
        started = subprocess.Popen(
            command(*words),
            cwd=self.repo,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._started.append(started)
        return started

    def clear(self) -> None:
        """End what a failed test left behind."""
        for process in self._started:
            if process.poll() is None:
                process.kill()
                process.communicate()
        ours = b"FLYBALL_STATE_DIR=" + os.fsencode(self.state)
        for lock in self.state.glob("drivers/*.lock"):
            pid = int(lock.name.partition("-")[0])
            with contextlib.suppress(OSError):
                if ours in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                    os.kill(pid, signal.SIGKILL)

    def script(self, name: str = "agent", **roles: list[dict[str, Any]]) -> str:
        """A script as an agent's name; the critic accepts unless told otherwise.

        JSON is YAML too, and is read without the library that would be imported for every turn."""
        file = self.folder / f"{name}.yaml"
        file.write_text(json.dumps({"roles": {"critic": ACCEPTS, **roles}}))
        return f"script:{file}"

    def run(self, agent: str, *more: str, task: str = "Fix add") -> Said:
        return self.fb(
            "run", task, "--agent", agent, "--set", QUICK_PROOF, "--set", "proof.bite=never", *more
        )

    def loop(self, *turns: dict[str, Any], task: str = "Fix add", more: tuple[str, ...] = ()) -> Said:
        """The cheapest run: one agent plays these turns, and nothing is proved."""
        return self.fb(*self.loop_words(*turns, task=task), *more)

    def loop_words(self, *turns: dict[str, Any], task: str = "Fix add") -> list[str]:
        self.loops += 1
        return [
            "run",
            task,
            "--machine",
            "loop",
            "--agent",
            self.script(f"loop{self.loops}", worker=[*turns]),
        ]

    def start_loop(self, *turns: dict[str, Any], more: tuple[str, ...] = ()) -> subprocess.Popen[str]:
        """Such a run in the background, its agent at work."""
        started = self.start(*self.loop_words(*turns), *more)
        eventually(self.agent_started)
        return started

    def agent_started(self) -> bool:
        """Whether an agent is at work or was."""
        return any(act.with_name("claim").exists() for act in self.state.glob("acts/*/prompt"))

    def last(self) -> dict[str, Any]:
        return self.fb("show", "@last", "--json").json

    def git(self, *words: str) -> str:
        return git(self.repo, self.env, *words)


def text(said: bytes) -> str:
    return said.decode().replace("\r\n", "\n").replace("\r", "\n")


def command(*words: str) -> list[str]:
    return [sys.executable, "-P", "-m", "flyball", *words]


def git(repo: Path, env: dict[str, str], *words: str) -> str:
    who = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
    done = subprocess.run(
        ("git", *who, *words), cwd=repo, env=env, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def make_repo(repo: Path, files: dict[str, str], env: dict[str, str]) -> None:
    repo.mkdir(parents=True)
    for name, text in files.items():
        (repo / name).parent.mkdir(parents=True, exist_ok=True)
        (repo / name).write_text(text)
    git(repo, env, "init", "-q", "-b", "main")
    git(repo, env, "add", ".")
    git(repo, env, "commit", "-qm", "A bug")


def eventually(seen: Callable[[], Any], within_s: float = 30.0) -> Any:
    """What `seen` gives as soon as it gives something."""
    until = time.monotonic() + within_s
    while time.monotonic() < until:
        found = seen()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError("it did not come about in time")


def on_terminal(place: Place, width: int, *words: str, env: Mapping[str, str] | None = None) -> str:
    """What a command prints on a terminal of that width, with its colours."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, width, 0, 0))
    started = subprocess.Popen(
        command(*words),
        cwd=place.repo,
        env={**place.env, "TERM": "xterm-256color", **(env or {})},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    screen = bytearray()
    with contextlib.suppress(OSError):  # the other end is closed
        while data := os.read(ours, 4096):
            screen += data
    started.wait(60)
    os.close(ours)
    return text(bytes(screen))
