"""A repository and a state directory of their own, in which the real command line runs."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from flyball.errors import WorkspaceError
from flyball.lab.selftest.scenarios import PROJECT, PROOF, Plot

KEPT = ("PATH", "LANG", "LC_ALL", "TZ", "PYENV_ROOT", "VIRTUAL_ENV")


class Place:
    def __init__(self, folder: Path) -> None:
        self.folder, self.repo = folder, folder / "repo"
        self.state, self.witness = folder / "state", folder / "witness"
        inherited = {name: os.environ[name] for name in KEPT if name in os.environ}
        self.env = {
            **inherited,
            "HOME": str(folder / "home"),
            "FLYBALL_STATE_DIR": str(self.state),
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_SYSTEM": os.devnull,
        }
        self.base = self._make()

    def _make(self) -> str:
        for place in (self.folder / "home", self.repo):
            place.mkdir(parents=True)
        for name, text in PROJECT.items():
            (self.repo / name).write_text(text, "utf-8")
        self.git("init", "-q", "-b", "main")
        self.git("add", "-A")
        self.git(
            "-c", "user.name=Flyball", "-c", "user.email=flyball@localhost", "commit", "-qm", "As it was"
        )
        return self.git("rev-parse", "HEAD")

    def git(self, *words: str) -> str:
        result = subprocess.run(
            ["git", *words], cwd=self.repo, env=self.env, capture_output=True, text=True, check=False
        )
        if result.returncode:
            raise WorkspaceError(f"The self-test's git failed: {result.stderr.strip()}. Is git installed?")
        return result.stdout.strip()

    def words(self, plot: Plot) -> list[str]:
        """`flyball run …` for a scenario. Without a sandbox, because the agent must write outside its checkout."""
        number = len(list(self.folder.glob("script-*.json")))
        script = self.folder / f"script-{number}.json"
        script.write_text(json.dumps(_filled({"roles": plot.roles}, str(self.witness))), "utf-8")
        proof = json.dumps([PROOF.replace("{w}", str(self.witness))])
        once = ("proof.repeat=1", "proof.bite=never")  # a process for each proof
        sets = (f"proof.commands={proof}", "guard.sandbox=none", *once, *plot.sets)
        options = [word for text in sets for word in ("--set", text)]
        return [
            "run",
            plot.name,
            "--machine",
            plot.machine,
            "--agent",
            f"script:{script}",
            "--json",
            *options,
        ]

    def start(self, words: list[str]) -> subprocess.Popen[bytes]:
        """A real supervisor, in a session of its own; its output is kept beside the repository."""
        with (self.folder / "said").open("ab") as output:
            return subprocess.Popen(
                [sys.executable, "-P", "-m", "flyball", *words],
                cwd=self.repo,
                env=self.env,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def drives(self, pid: int) -> bool:
        """Whether that process has started to drive a run."""
        return any((self.state / "drivers").glob(f"{pid}-*.lock"))

    def remove(self) -> None:
        with contextlib.suppress(OSError):
            shutil.rmtree(self.folder)


def _filled(value: Any, witness: str) -> Any:
    return json.loads(json.dumps(value).replace("{w}", witness))
