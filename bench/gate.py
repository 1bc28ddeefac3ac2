"""What the gate costs more than one proof: a project of twelve programs with their tests, one bug removed by an agent
that knows the fix. Once the tests stay as they are, and once one is added."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from bench.figure import Figure

PROGRAMS = Path(__file__).with_name("programs")
FLYBALL = Path(sys.executable).with_name("flyball")
PROOF = "python3 -m pytest -q"
BUG = ("self.balance += amount", "self.balance -= amount")
MORE = '\n\ndef test_two_deposits():\n    account = Account("ann")\n    account.deposit(1)\n    account.deposit(2)\n    assert account.balance == 3\n'
CASES = (  # the change; how many proofs it may cost besides the one; what they are
    ("tests unchanged", 3.0, "broken on purpose once; what was repaired passes twice more"),
    ("tests changed", 5.0, "also the old tests on the new code, and the new tests on the old code"),
)


def figures(folder: Path, quick: bool) -> list[Figure]:
    return [_figure(folder / name.replace(" ", "-"), *case) for case in CASES for name in case[:1]]


def _figure(folder: Path, name: str, goal: float, note: str) -> Figure:
    repo = folder / "repo"
    repo.mkdir(parents=True)
    for program in sorted(PROGRAMS.iterdir()):
        for file in program.glob("*.py"):
            if file.name != "probe.py":
                shutil.copy(file, repo)
    good = (repo / "bank.py").read_text()
    (repo / "bank.py").write_text(good.replace(*BUG, 1))
    (repo / ".gitignore").write_text("__pycache__/\n")
    for line in (["init", "-q", "."], ["add", "-A"], ["commit", "-qm", "Base"]):
        _run(folder, "git", "-c", "user.name=B", "-c", "user.email=b@example.com", *line)
    write = {"bank.py": good}
    if name == "tests changed":
        write["test_bank.py"] = (repo / "test_bank.py").read_text() + MORE
    extra, parts = _cost(folder, write)
    return Figure(name=f"gate, {name}", value=extra, unit="proofs", goal=goal, parts=parts, note=note)


def _cost(folder: Path, write: dict[str, str]) -> tuple[float, dict[str, float]]:
    """What the gate took besides the proof of the tree, as a multiple of that proof."""
    script = folder / "agent.json"
    done = {"finish": {"indicators": ["task complete", "all done"]}, "say": "The task is complete."}
    script.write_text(json.dumps({"roles": {"worker": [{"write": write, **done}]}}))
    _run(folder, str(FLYBALL), "run", "Repair deposit", "--machine", "loop", "--agent", f"script:{script}", "--trust",
         "--json", "--set", f"proof.commands={json.dumps([PROOF])}")  # fmt: skip
    events = [json.loads(line) for line in _run(folder, str(FLYBALL), "log", "@last", "--json").splitlines()]
    gate = next(event for event in reversed(events) if (event.get("result") or {}).get("evidence"))
    proof = sum(command["took_us"] for command in gate["result"]["commands"])
    return (gate["took_us"] - proof) / proof, {
        "one proof (s)": proof / 1e6,
        "gate (s)": gate["took_us"] / 1e6,
    }


def _run(folder: Path, *line: str) -> str:
    env: dict[str, Any] = {
        name: value for name, value in os.environ.items() if not name.startswith("FLYBALL")
    }
    env |= {"FLYBALL_STATE_DIR": str(folder / "state"), "HOME": str(folder)}
    return subprocess.run(
        line, cwd=folder / "repo", env=env, check=True, capture_output=True, text=True
    ).stdout
