"""How long a person waits for the first word of the command line, beside Python that does nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from bench.figure import Beside, Figure
from bench.timing import in_turns, usual

GOAL = 100.0
LS_GOAL = 80.0


def figures(folder: Path, quick: bool) -> list[Figure]:
    python = [sys.executable, "-c", "pass"]
    program = str(Path(sys.executable).with_name("flyball"))
    env = {"PATH": "/usr/bin:/bin", "HOME": str(folder), "FLYBALL_STATE_DIR": str(folder / "state")}

    def run(*argv: str) -> None:
        subprocess.run(argv, check=True, capture_output=True, env=env, cwd=folder)

    deeds = {
        "python": lambda: run(*python),
        "version": lambda: run(program, "--version"),
        "ls": lambda: run(program, "ls"),
    }
    in_turns(deeds, 1)
    ms = {name: usual(taken) * 1e3 for name, taken in in_turns(deeds, 5 if quick else 15).items()}
    beside = (Beside("python -c pass", ms["python"]),)
    return [
        Figure(name="flyball --version", value=ms["version"], unit="ms", goal=GOAL, beside=beside),
        Figure(name="flyball ls, no runs", value=ms["ls"], unit="ms", goal=LS_GOAL, beside=beside),
    ]
