"""How long a person waits for the first word of the command line, and for the first turn of a run, beside Python that does nothing."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

from bench.figure import Beside, Figure
from bench.timing import in_turns, median, usual
from flyball.domain import events as e
from flyball.journal.sqlite import SqliteJournal

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
    first = median(
        [_first_turn(folder / f"run{number}", program, env) for number in range(2 if quick else 5)]
    )
    return [
        Figure(name="flyball --version", value=ms["version"], unit="ms", goal=GOAL, beside=beside),
        Figure(name="flyball ls, no runs", value=ms["ls"], unit="ms", goal=LS_GOAL, beside=beside),
        Figure(
            name="flyball run: until the first agent is started",
            value=first,
            unit="ms",
            beside=beside,
            note="checkout and a proof of the base, in a sandbox where there is one",
        ),
    ]


def _first_turn(folder: Path, program: str, env: dict[str, str]) -> float:
    """From the command to the event that stands before the first turn, in a repository of one file."""
    folder.mkdir()
    env = {**env, "HOME": str(folder), "FLYBALL_STATE_DIR": str(folder / "state")}
    repo, script = folder / "repo", folder / "agent.json"
    repo.mkdir()
    (repo / "calc.py").write_text("answer = 42\n")
    script.write_text(json.dumps({"roles": {"worker": [{"hang": True}]}}))
    for words in (("init", "-q"), ("add", "-A"), ("commit", "-qm", "As it was")):
        who = ("-c", "user.name=Ann", "-c", "user.email=ann@localhost")
        subprocess.run(["git", *who, *words], cwd=repo, check=True, env=env)
    proof = 'proof.commands=["python3 calc.py"]'
    words = ["run", "Wait", "--machine", "loop", "--agent", f"script:{script}", "--set", proof, "--json"]
    began = time.time()
    running = subprocess.Popen(
        [program, *words], cwd=repo, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        while not (at := _started(folder / "state")):
            time.sleep(0.05)
    finally:
        running.terminate()
        running.wait()
    return (at / 1e6 - began) * 1e3


def _started(state: Path) -> int:
    """When the first agent was started; 0 if none was."""
    if not (state / "journal.db").exists():
        return 0
    journal = SqliteJournal(state / "journal.db")
    try:
        events = [e.decode(entry.body) for row in journal.rows() for entry in journal.read(row.run)]
    finally:
        journal.close()
    acts = (event for event in events if isinstance(event, e.ActStarted))
    return next((event.at for event in acts if event.act.do.startswith("agent:")), 0)
