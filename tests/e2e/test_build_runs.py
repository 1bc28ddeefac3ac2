"""`build` from the outside: real processes, real git, the real command line. Each ends as SPEC's table says."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.helpers import ACCEPTS, BROKEN, FIXED, STILL_BROKEN, TEST, Yard

GOOD_TURN = {"write": {"calc.py": FIXED}}
WORSE_TURN = {"write": {"calc.py": STILL_BROKEN}}
REPAIR = """# A first attempt that fails its proof, then one that passes.
roles:
  planner:
    - say: Add.
  coder:
    - write:
        calc.py: |
          def add(a, b):
              return a * b
    - write:
        calc.py: |
          def add(a, b):
              return a + b
  critic:
    - say: |-
        Looks right.
        OUTCOME: accepted
"""


@pytest.fixture
def yard(tmp_path: Path) -> Iterator[Yard]:
    made = Yard(tmp_path)
    yield made
    made.clear()


def test_a_bug_is_repaired_proved_and_certified(yard: Yard) -> None:
    yard.make({"test_calc.py": TEST})
    ran = yard.play(yard.yaml(REPAIR), proof="python3 -m unittest -q")
    assert (ran.exit, ran.code, ran.status, ran.end, ran.state) == (
        0,
        "completed",
        "ended",
        "success",
        "complete",
    )
    assert ran.turns == 4 and ran.iteration == 1 and ran.changed == ["calc.py"]
    assert yard.git("show", f"flyball/{ran.run}:calc.py") == FIXED.strip()
    assert yard.git("log", "--format=%s", f"main..flyball/{ran.run}") == "Make add() add"
    assert (yard.repo / "calc.py").read_text() == BROKEN, "the user's checkout is touched only by land"
    said = json.loads(yard.flyball("verify", ran.run, "--json").stdout)["says"]
    assert [ruling["verdict"] for ruling in said["rulings"]] == ["allow"] * ran.turns
    assert len({ruling["tree"] for ruling in said["rulings"]}) == 3
    assert [ruling.get("unchanged", False) for ruling in said["rulings"]] == [True, False, False, True]
    for words in (("verify", ran.run), ("show", ran.run), ("log", ran.run), ("stats",)):
        assert yard.flyball(*words).stdout.count("2 allowed") == int(words[0] != "log"), words
    assert said["review"].startswith("accepted by critic script:")
    shown = json.loads(yard.flyball("show", ran.run, "--json").stdout)
    assert [proof["passed"] for proof in shown["proofs"]] == [False, False, True, True]


def test_the_fix_limit_is_held(yard: Yard) -> None:
    ran = yard.play(yard.script(coder=[WORSE_TURN], critic=ACCEPTS), "--set", "limits.fix=1")
    assert (ran.exit, ran.code, ran.status, ran.alo_code) == (
        5,
        "limit.fix_attempts",
        "ended",
        "ALO_MAX_FIX_ATTEMPTS_EXCEEDED",
    )
    assert ran.turns == 3, "a planner, a write and exactly one fix"
    assert ran.stop_reason["evidence"]["threshold"] == "1" and ran.stop_reason["evidence"]["observed"] == "2"


def test_a_phase_timeout_ends_the_whole_tree(yard: Yard) -> None:
    mark = yard.folder / "alive"
    stubborn = (
        f"setsid sh -c 'trap \"\" TERM HUP; while :; do date +%s.%N > {mark}; sleep 0.1; done' & sleep 60"
    )
    ran = yard.play(
        yard.script(coder=[{"run": stubborn}]),
        "--set",
        "limits.phase_timeout=2s",
        "--set",
        "guard.sandbox=none",
    )
    assert (ran.exit, ran.code, ran.alo_code, ran.state) == (1, "timeout.phase", "ALO_PHASE_TIMEOUT", "write")
    last = mark.read_text()
    time.sleep(0.6)
    assert mark.read_text() == last, "a process with its own session that ignores TERM is gone too"


def test_a_denied_change_blocks_is_put_back_and_can_be_rejected(yard: Yard) -> None:
    leak = {"write": {"calc.py": FIXED, ".env": "TOKEN=x\n"}}
    ran = yard.play(yard.script(coder=[leak, GOOD_TURN], critic=ACCEPTS))
    assert (ran.exit, ran.status, ran.state, ran.alo_code) == (4, "blocked", "write", "ALO_GUARD_BLOCKED")
    assert ran.code.startswith("blocked.guard.secret")
    assert yard.git("branch", "--list", f"flyball/{ran.run}") == "", (
        "a refused change never reaches the branch"
    )
    assert yard.resume().exit == 4, "only a person lets it go on"
    assert yard.flyball("approve", ran.question).returncode == 2, "a secret cannot be waived"
    assert yard.flyball("reject", ran.question, "No secrets in the tree").returncode == 0
    ran = yard.resume()
    assert (ran.exit, ran.code, ran.iteration, ran.changed) == (0, "completed", 1, ["calc.py"])


def test_an_approved_change_is_brought_back_and_its_outcome_followed(yard: Yard) -> None:
    many = {f"gen/f{n}.txt": "x\n" for n in range(210)}
    ran = yard.play(yard.script(coder=[{"write": {**many, "calc.py": FIXED}}], critic=ACCEPTS))
    assert (ran.exit, ran.status) == (4, "blocked") and "radius" in ran.code
    assert yard.flyball("approve", ran.question).returncode == 0
    ran = yard.resume()
    assert (ran.exit, ran.code) == (0, "completed")
    assert len(ran.changed) == 211
    assert yard.git("show", f"flyball/{ran.run}:gen/f0.txt") == "x"


def test_a_proof_that_cannot_start_is_refused_before_the_first_turn(yard: Yard) -> None:
    ran = yard.play(yard.script(coder=[GOOD_TURN]), proof="no-such-command --at-all")
    assert (ran.exit, ran.turns) == (2, 0)
    assert "no-such-command" in ran.out + ran.err


def test_a_proof_that_writes_into_the_tree_proves_nothing(yard: Yard) -> None:
    ran = yard.play(
        yard.script(coder=[GOOD_TURN], critic=ACCEPTS), "--set", "limits.fix=0", proof="echo made > made.txt"
    )
    assert (ran.exit, ran.code) == (1, "failed.tests")
    assert "changed the tree" in json.dumps(ran.stop_reason) + yard.flyball("log", ran.run, "--json").stdout


def test_without_a_sandbox_what_a_planner_changed_is_undone(yard: Yard) -> None:
    ran = yard.play(
        yard.script(planner=[{"write": {"calc.py": FIXED}}], coder=[WORSE_TURN], critic=ACCEPTS),
        *("--set", "limits.fix=0", "--set", "guard.sandbox=none"),
    )
    assert ran.code == "failed.tests" and "undone" in yard.flyball("log", ran.run, "--json").stdout


def test_runs_at_once_drive_their_own(yard: Yard) -> None:
    finish = {"indicators": ["task complete", "all done"]}
    script = yard.script(worker=[{**GOOD_TURN, "sleep_s": 0.3, "finish": finish}])
    processes = [yard.start(*yard.words(script, machine="loop", proof=None)) for _ in range(3)]
    listed = yard.flyball("ls", "--json")
    assert listed.returncode == 0
    ended = [json.loads(p.communicate(timeout=110)[0]) for p in processes]
    assert [e["stop_reason"]["code"] for e in ended] == ["completed_unproven"] * 3
    assert len({e["run"] for e in ended}) == 3
    branches = yard.git("branch", "--list", "flyball/*", "--format=%(refname:short)").split()
    assert sorted(branches) == sorted(f"flyball/{e['run']}" for e in ended)
