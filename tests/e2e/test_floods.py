"""Output and folders without end, made by a proof or by an agent: a run hears signals, and ends in a sentence."""

from __future__ import annotations

import json
import signal
from collections.abc import Generator
from pathlib import Path

import pytest
from tests.e2e.helpers import FIXED, FIXES, Place, eventually

from flyball.acts.run_files import CHUNK, HEAD_MOST, LOG_MOST, attend, scrub
from flyball.agents import process
from flyball.state_dir import remove

FLOODS = {
    "newlines": "head -c 3000000 /dev/zero | tr '\\0' '\\n'; sleep 60",
    "one long line": "head -c 200000000 /dev/zero | tr '\\0' x; exit 1",
    "endless lines": "yes 'FAILED tests/test_a.py::test_b - assert 1 == 2'",
    "endless line": "tr '\\0' '[' < /dev/zero",
}
FIRST = "grep -q 'a - b' calc.py && exit 1; "  # the proof of the base is quiet


@pytest.mark.parametrize("flood", FLOODS.values(), ids=FLOODS.keys())
def test_a_run_hears_a_signal_while_its_proof_floods(place: Place, flood: str) -> None:
    words = ("run", "Fix add", "--machine", "loop", "--agent", place.script(worker=[FIXES]))
    started = place.start(*words, "--set", f"proof.commands={json.dumps([FIRST + flood])}")
    eventually(lambda: any(out.stat().st_size > CHUNK for out in place.state.glob("acts/*/0/out")))
    started.send_signal(signal.SIGTERM)
    _, err = started.communicate(timeout=30)
    assert (started.returncode, "Traceback" in err) == (130, False), err
    last = place.last()
    assert (last["status"], last["stop_reason"]["code"]) == ("paused", "interrupted")


TOKEN = "ghp_" + "".join(f"{n}aZ" for n in range(10, 22))[:36]


def ended(folder: Path, out: bytes) -> process.Stop:
    """A process that wrote this has ended."""
    spec = process.Spec(argv=("/bin/true",), cwd=str(folder), env={})
    process.begin(folder, spec)
    stop = process.Stop()
    process.attend(folder)
    (folder / "out").write_bytes(out)
    return stop


@pytest.mark.sampled(0)
@pytest.mark.parametrize("separator", [b"\n", b" "], ids=["lines", "one line"])
def test_of_a_flood_the_start_and_the_end_are_kept_without_a_part_of_a_secret(
    tmp_path: Path, separator: bytes
) -> None:
    out = (TOKEN.encode() + separator) * 160_000
    stop = ended(tmp_path, b"first\n" + out + b"\nlast\n")
    attend(tmp_path, stop)
    kept = (tmp_path / "out").read_bytes()
    assert kept.startswith(b"first\n[redacted") and kept.endswith(b"\nlast\n")
    assert kept.count(b" bytes left out]\n") == 1
    assert b"ghp_" not in kept and b"11aZ12aZ" not in kept
    assert len(kept) < HEAD_MOST + LOG_MOST


def test_after_a_stop_only_the_end_of_an_output_is_checked_and_kept(tmp_path: Path) -> None:
    line = f"it was {TOKEN}\n".encode()
    stop = ended(tmp_path, line * 100_000 + b"last\n")
    stop.set()
    scrub(tmp_path, stop)
    kept = (tmp_path / "out").read_bytes()
    assert kept.endswith(b"last\n") and b"ghp_" not in kept and len(kept) <= CHUNK + len(line)


# ---- folders nested deeper than a path can name ----

DIG = """import os
for n in range(3):
    os.makedirs(f"deep{n}", exist_ok=True)
    top = os.getcwd()
    os.chdir(f"deep{n}")
    for _ in range(25):
        os.mkdir("d" * 240)
        os.chdir("d" * 240)
    open("f", "w").write("x")
    os.chdir(top)
"""


@pytest.fixture
def shallow(place: Place) -> Generator[Place]:
    """What is left is removed at once: pytest cannot remove folders nested so deep."""
    yield place
    for folder in (*place.state.glob("runs/*"), *place.state.glob("acts/*")):
        remove(folder)


@pytest.mark.parametrize(
    ("proof", "code", "says"),
    [(True, 5, "A proof must not change tracked files"), (False, 3, "nested deeper than a path can name")],
    ids=["by a proof", "by an agent"],
)
def test_folders_nested_too_deep_end_in_a_sentence(shallow: Place, proof: bool, code: int, says: str) -> None:
    """An agent may do it once: the checkout is restored and it tries again."""
    place = shallow
    dig = f"python3 -S -c {json.dumps(f'exec({DIG!r})')}"
    turn = FIXES if proof else {"write": {"calc.py": FIXED}, "run": dig}
    command = FIRST + (f"{dig}; true" if proof else "true")
    words = ("run", "Fix add", "--machine", "loop", "--agent", place.script(worker=[turn]), "--json")
    said = place.fb(*words, "--set", f"proof.commands={json.dumps([command])}", "--set", "limits.turns=2")
    log = place.fb("log", "@last").out
    assert said.code == code and says in log + place.fb("why", "@last").out, log
    assert log.count("interrupted") == (0 if proof else 2), log
    assert "Traceback" not in said.err and "Errno" not in log, log
