"""kill -9 of a real supervisor: the run reaches the end that the undisturbed run reaches, and no turn is doubled."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.helpers import FIXED, PROOF, STILL_BROKEN, Yard

CRASH = Path(__file__).with_name("crash_driver.py")
KILLS_A_RUN = 3
APPENDS = 22  # about as many as the undisturbed run makes


def witnessed(yard: Yard, name: str, **turn: Any) -> dict[str, Any]:
    """A turn that leaves a line outside Flyball's reach: who, which turn, and a nonce of its process."""
    line = f"echo {name} $FLYBALL_RUN $FLYBALL_TURN $$ >> {yard.folder}/witness"
    return {"run": line, **turn}


def scripted(yard: Yard) -> str:
    return yard.script(
        planner=[witnessed(yard, "plan")],
        coder=[
            witnessed(yard, "write", write={"calc.py": STILL_BROKEN}, sleep_s=0.1),
            witnessed(yard, "fix", write={"calc.py": FIXED}),
        ],
        critic=[witnessed(yard, "verify", say="OUTCOME: accepted")],
    )


def check_the_end(yard: Yard) -> None:
    """The same end as ever, and every turn witnessed exactly once."""
    ran = yard.resume()
    if not ran.facts:  # it had ended before the kill
        ran = type(ran)(yard.flyball("show", "@last", "--json"))
    assert (ran.code, ran.state, ran.turns) == ("completed", "complete", 4), ran.facts or ran.err
    lines = (yard.folder / "witness").read_text().splitlines()
    names = Counter(line.split()[0] for line in lines)
    assert names == {"plan": 1, "write": 1, "fix": 1, "verify": 1}, lines
    assert yard.git("show", f"flyball/{ran.run}:calc.py") == FIXED.strip()
    assert yard.flyball("verify", ran.run).returncode == 0


def crash(yard: Yard, when: str, at: int) -> int:
    words = [sys.executable, str(CRASH), when, str(at), str(yard.repo), scripted(yard), "build"]
    words += [f'proof.commands=["{PROOF}"]', "guard.sandbox=none"]
    return subprocess.run(words, env=yard.env, cwd=yard.repo, capture_output=True, timeout=90).returncode


INSTANTS = [(when, at) for at in range(1, APPENDS + 1) for when in ("before", "after")]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Half of the kills at chosen instants, spread over the run; half at random ones."""
    kills = int(metafunc.config.getoption("--kills"))
    if "instant" in metafunc.fixturenames:
        chosen = min(len(INSTANTS), max(1, kills // 2))
        metafunc.parametrize("instant", [INSTANTS[n * len(INSTANTS) // chosen] for n in range(chosen)])
    if "seed" in metafunc.fixturenames:
        metafunc.parametrize("seed", range(max(1, (kills - min(len(INSTANTS), kills // 2)) // KILLS_A_RUN)))


@pytest.mark.sampled(1)
def test_killed_around_an_append(tmp_path: Path, instant: tuple[str, int]) -> None:
    yard = Yard(tmp_path)
    code = crash(yard, *instant)
    assert code in (0, -signal.SIGKILL)
    if not begun(yard):
        assert crash(yard, "never", 0) == 0  # it died before anything was written: it is simply begun
    check_the_end(yard)


def test_killed_at_random_instants(tmp_path: Path, seed: int) -> None:
    yard, chance = Yard(tmp_path), random.Random(seed)
    words = yard.words(scripted(yard), "--set", "guard.sandbox=none")
    for _ in range(KILLS_A_RUN):
        process = yard.start(*words)
        try:
            process.wait(0.3 + chance.random() * 2.5)
        except subprocess.TimeoutExpired:
            process.kill()
        process.communicate()
        words = ["resume", "@last", "--json"] if begun(yard) else words
    if not begun(yard):
        yard.flyball(*words)
    check_the_end(yard)


def begun(yard: Yard) -> bool:
    return yard.flyball("ls", "--json").stdout.strip().startswith("[{")
