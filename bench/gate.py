"""What the gate costs more than the one proof that every run needs, on a real project: Flyball itself, with a part of
its tests. An agent that knows the fix removes one bug; once the tests stay as they are, and once some are added.

Some machines have proved the tree before the gate, others prove it there: only what the gate ran besides is counted.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from bench.figure import Figure

TOP = Path(__file__).parents[1]
FLYBALL = Path(sys.executable).with_name("flyball")
TESTS = ("durations", "failing", "fingerprint", "guard_changes", "guard_readings", "test_reports", "tiers")
PROOF = "python -m pytest -q -n 0 -p no:cacheprovider tests"
BUG = ("src/flyball/domain/settings.py", "us = max(us, 0)\n", "us = max(us, 0) + MINUTE\n")
MORE = """

def test_a_negative_age():
    from flyball.domain.settings import rough

    assert rough(-60) == "0s"
"""
CASES = (  # machine; what changes; how many proofs it may cost besides the one; what they are
    ("loop", "tests unchanged", 1.0, "broken on purpose, and what was repaired passes again"),
    ("build", "tests unchanged", 1.0, "broken on purpose, and what was repaired passes again"),
    ("loop", "tests changed", 2.0, "also the old tests on the new code, and the new tests on the old code"),
)


def figures(folder: Path, quick: bool) -> list[Figure]:
    cases = CASES[:1] if quick else CASES
    return [_figure(folder / f"{machine}-{name}".replace(" ", "-"), machine, name, goal, note)
            for machine, name, goal, note in cases]  # fmt: skip


def _figure(folder: Path, machine: str, name: str, goal: float, note: str) -> Figure:
    repo = folder / "repo"
    shutil.copytree(TOP / "src", repo / "src", ignore=shutil.ignore_patterns("__pycache__"))
    (repo / "tests").mkdir()
    for test in TESTS:
        shutil.copy(TOP / "tests" / "unit" / f"test_{test}.py", repo / "tests")
    (repo / ".gitignore").write_text("__pycache__/\n.hypothesis/\n")
    (repo / "pytest.ini").write_text("[pytest]\npythonpath = src\n")
    path, good, bad = BUG
    text = (repo / path).read_text()
    (repo / path).write_text(text.replace(good, bad, 1))
    for line in (["init", "-q", "."], ["add", "-A"], ["commit", "-qm", "Base"]):
        _run(folder, "git", "-c", "user.name=B", "-c", "user.email=b@example.com", *line)
    write = {path: text}
    if name == "tests changed":
        write["tests/test_durations.py"] = (repo / "tests/test_durations.py").read_text() + MORE
    extra, proof_s = _cost(folder, machine, write)
    note = f"{note}; one proof took {proof_s:.1f} s"
    return Figure(name=f"gate of {machine}, {name}", value=extra, unit="proofs", goal=goal, note=note)


def _cost(folder: Path, machine: str, write: dict[str, str]) -> tuple[float, float]:
    """What the gate ran besides the proof of the tree, as a multiple of that proof; and what that took."""
    script = folder / "agent.json"
    done = {
        "finish": {"indicators": ["task complete", "all done"]},
        "say": "The task is complete.\nOUTCOME: done",
    }
    roles = {role: [{"write": write, **done}] for role in ("worker", "coder")}
    script.write_text(json.dumps({"roles": {**roles, "critic": [{"outcome": "accepted", "say": "Good."}]}}))
    _run(folder, str(FLYBALL), "run", "Repair durations", "--machine", machine, "--agent", f"script:{script}",
         "--trust", "--json", "--set", f"proof.commands={json.dumps([PROOF])}")  # fmt: skip
    events = [json.loads(line) for line in _run(folder, str(FLYBALL), "log", "@last", "--json").splitlines()]
    gate = next(event for event in reversed(events) if (event.get("result") or {}).get("evidence"))
    act = next(event for event in events if event.get("act", {}).get("key") == gate["key"])["act"]
    proof = sum(command["took_us"] for command in gate["result"]["commands"])
    extra = gate["took_us"] - (0 if act.get("since") else proof)
    return extra / proof, proof / 1e6


def _run(folder: Path, *line: str) -> str:
    env: dict[str, Any] = {
        name: value for name, value in os.environ.items() if not name.startswith("FLYBALL")
    }
    env |= {"FLYBALL_STATE_DIR": str(folder / "state"), "HOME": str(folder)}
    env["PATH"] = f"{FLYBALL.parent}{os.pathsep}{env['PATH']}"  # `python` is this one, not a shim
    done = subprocess.run(line, cwd=folder / "repo", env=env, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(line[:3])} failed: {done.stderr[-1000:]}{done.stdout[-1000:]}")
    return done.stdout
