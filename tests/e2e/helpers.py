"""A place to try the real command line in: a small repository with a bug, a private home and state directory.

`Place` calls commands as a user does. `Yard` is a place for whole runs: it reads what `--json` prints.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import json
import os
import pty
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from tests.e2e import warm

from flyball.journal import Row
from flyball.journal.sqlite import SqliteJournal

BROKEN = "def add(a, b):\n    return a - b\n"
STILL_BROKEN = "def add(a, b):\n    return a * b\n"
FIXED = "def add(a, b):\n    return a + b\n"
TEST = """import unittest

from calc import add


class AddTest(unittest.TestCase):
    def test_add(self):
        self.assertEqual(add(1, 2), 3)
"""
CHECK = """from calc import add

assert (add(1, 2) == 3), f"{add(1, 2)} is not 3"
"""
PROOF = "python3 -S test_calc.py"  # of CHECK: a test all the same, and there are many runs
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
    test = TEST

    def __init__(self, folder: Path) -> None:
        self.folder, self.repo, self.state = folder, folder / "repo", folder / "state"
        self._started: list[subprocess.Popen[str]] = []
        self.loops = 0
        home = folder / "home"
        home.mkdir(parents=True)
        kept = {
            name: os.environ[name]
            for name in ("PATH", "LANG", "LC_ALL", "TZ", "PYENV_ROOT")
            if name in os.environ
        }
        self.env = {**kept, "HOME": str(home), "FLYBALL_STATE_DIR": str(self.state)}
        make_repo(self.repo, {"calc.py": BROKEN, "test_calc.py": self.test})

    def fb(self, *words: str, cwd: Path | None = None, env: Mapping[str, str] | None = None) -> Said:
        """A command to its end."""
        done = warm.command(*words, cwd=cwd or self.repo, env={**self.env, **(env or {})})
        return Said(done.returncode, text(done.stdout), text(done.stderr))

    def start(self, *words: str) -> subprocess.Popen[str]:
        """A command in the background, by a Python of its own."""
        pipe = subprocess.PIPE
        streams: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": pipe, "stderr": pipe, "text": True}
        started = subprocess.Popen(
            command(*words), cwd=self.repo, env=self.env, start_new_session=True, **streams
        )
        self._started.append(started)
        return started

    def clear(self) -> None:
        """End what a failed test left behind."""
        for process in self._started:
            if process.poll() is None:
                process.kill()
                process.communicate()
            for stream in filter(None, (process.stdout, process.stderr)):
                stream.close()
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
        return git(self.repo, *words)


def text(said: bytes) -> str:
    return said.decode().replace("\r\n", "\n").replace("\r", "\n")


def command(*words: str) -> list[str]:
    return [sys.executable, "-P", "-m", "flyball", *words]


# ---- repositories


def git(repo: Path, *words: str) -> str:
    """git as nobody has configured it."""
    env = {"PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    done = subprocess.run(("git", *words), cwd=repo, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def write_files(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, "utf-8")


def commit_all(repo: Path, message: str) -> str:
    git(repo, "add", "-A")
    git(repo, "commit", "-qm", message)
    return git(repo, "rev-parse", "HEAD")


def make_repo(repo: Path, files: Mapping[str, str]) -> Path:
    """A repository with one commit, copied from one with the same files."""
    shutil.copytree(_template(tuple(files.items())), repo, symlinks=True)
    git(repo, "update-index", "-q", "--refresh")
    return repo


@cache
def _template(files: tuple[tuple[str, str], ...]) -> Path:
    repo = Path(tempfile.mkdtemp(prefix="flyball-repo-"))
    atexit.register(shutil.rmtree, repo, ignore_errors=True)
    write_files(repo, dict(files))
    git(repo, "init", "-q", "-b", "main")
    git(repo, "config", "user.name", "Ada")
    git(repo, "config", "user.email", "ada@example.org")
    commit_all(repo, "As it was")
    return repo


def folder_outside_tmp(request: pytest.FixtureRequest) -> Path:
    """Outside /tmp, which is private in the sandbox: there nothing of a home would need to be hidden."""
    cache = getattr(request.config, "cache", None)  # not there with -p no:cacheprovider
    places = (*([cache.mkdir("sandbox")] if cache else []), Path.home())
    roomy = [place.resolve() for place in places if place.resolve().parts[1] not in ("tmp", "var", "run")]
    if not roomy:
        pytest.skip("no folder outside /tmp to try it in")
    return Path(tempfile.mkdtemp(prefix="flyball-test-", dir=roomy[0]))


# ---- waiting and looking


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


# ---- whole runs


class Yard(Place):
    """A place whose test is a plain script, which is proved at once."""

    test = CHECK
    bite: tuple[str, ...] = ("--set", "proof.bite=never")  # breaking the change on purpose is two proofs more

    def make(self, files: Mapping[str, str]) -> None:
        """Write these files and commit them."""
        write_files(self.repo, files)
        commit_all(self.repo, "As it was")

    def script(self, name: str = "agent.yaml", **roles: Any) -> str:
        """An agent from its roles; a role that is not named ends ok, silent."""
        path = self.folder / name
        repeat = roles.pop("repeat", "last")
        body = {"turns": roles["turns"]} if "turns" in roles else {"roles": roles}
        path.write_text(json.dumps({**body, "repeat": repeat}), "utf-8")
        return f"script:{path}"

    def yaml(self, text: str) -> str:
        """An agent as a person would write it."""
        path = self.folder / "written.yaml"
        path.write_text(text, "utf-8")
        return f"script:{path}"

    def flyball(
        self, *words: str, env: Mapping[str, str] | None = None, timeout: float = 90
    ) -> subprocess.CompletedProcess[str]:
        """A command to its end."""
        done = warm.command(*words, cwd=self.repo, env={**self.env, **(env or {})}, timeout=timeout)
        return subprocess.CompletedProcess(
            done.args, done.returncode, done.stdout.decode(), done.stderr.decode()
        )

    def peek(self) -> tuple[Row, bytes] | None:
        """The newest run's row and its last event, read at once: a command may take longer than what it looks for."""
        if not (self.state / "journal.db").exists():
            return None
        with contextlib.closing(SqliteJournal(self.state / "journal.db")) as journal:
            rows = journal.rows(parent="", limit=1)
            return (rows[0], list(journal.read(rows[0].run))[-1].body) if rows else None

    def words(self, agent: str, *more: str, machine: str = "build", proof: str | None = PROOF) -> list[str]:
        proved = ["--set", f"proof.commands={json.dumps([proof])}", *self.bite] if proof else []
        return ["run", "Make add() add", "--machine", machine, "--agent", agent, "--json", *proved, *more]

    def play(self, agent: str, *more: str, machine: str = "build", proof: str | None = PROOF) -> Ran:
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
