"""The proof's checkout and its time: what setup made stays, and what had to be ended has failed."""

from __future__ import annotations

import os
import signal

import pytest
from tests.e2e.helpers import FIXED, QUICK_PROOF, Place, eventually

PATIENT = """proof.commands=["trap 'exit 0' TERM; grep -q a.+.b calc.py || exit 1; sleep 60 & wait"]"""
WITH_DEPS = 'proof.commands=["test -e deps/first && test -e deps/last && grep -q a.+.b calc.py"]'
REPAIRS = {"write": {"calc.py": FIXED}}


@pytest.mark.sampled(0)
def test_a_proof_that_outlived_its_time_has_failed_though_it_exits_0(place: Place) -> None:
    agent = place.script(coder=[REPAIRS])
    limits = ("--set", "proof.timeout=1s", "--set", "limits.fix=1", "--set", PATIENT)
    said = place.fb("run", "Fix add", "--agent", agent, *limits, "--json")
    assert (said.code, said.json["stop_reason"]["code"]) == (5, "limit.fix_attempts")
    asked = [file.read_text() for file in place.state.glob("acts/*/prompt")]
    assert any("it exceeded its time limit" in text for text in asked), "the agent is told what was wrong"


@pytest.mark.sampled(0)
def test_hooks_leave_what_setup_made_to_the_proofs_after_them(place: Place) -> None:
    hook = place.repo / ".git/hooks/pre-commit"
    hook.write_text("#!/bin/sh\ntest -e deps/last && grep -q good calc.py\n")
    hook.chmod(0o755)
    agent = place.script(coder=[REPAIRS, {"write": {"calc.py": f"{FIXED}# good\n"}}])
    setup = 'workspace.setup=["mkdir deps; touch deps/first deps/last"]'
    said = place.fb("run", "Fix add", "--agent", agent, "--set", WITH_DEPS, "--set", setup, "--json")
    assert (said.code, said.json["stop_reason"]["code"]) == (0, "completed")


@pytest.mark.sampled(0)
def test_a_setup_that_outlives_its_driver_is_attended_and_not_cleared_away(place: Place) -> None:
    setup = 'workspace.setup=["mkdir deps; touch deps/first; sleep 2; touch deps/last"]'
    agent = place.script(coder=[REPAIRS])
    run = place.start("run", "Fix add", "--agent", agent, "--set", WITH_DEPS, "--set", setup)
    eventually(lambda: list(place.state.glob("runs/*/proof/deps/first")))
    os.kill(run.pid, signal.SIGKILL)
    run.communicate()
    said = place.fb("resume", "@last", "--json")
    assert (said.code, said.json["stop_reason"]["code"]) == (0, "completed")


def test_what_setup_makes_is_not_taken_for_the_agents_work(place: Place) -> None:
    setup = 'workspace.setup=["mkdir deps; touch deps/first deps/last"]'
    agent = place.script(coder=[REPAIRS])
    said = place.fb("run", "Fix add", "--agent", agent, "--set", WITH_DEPS, "--set", setup, "--json")
    assert said.code == 0
    assert place.git("diff", "--name-only", "main", f"flyball/{said.json['run']}") == "calc.py"


def test_a_setup_that_changes_a_tracked_file_is_refused_before_the_first_turn(place: Place) -> None:
    agent = place.script(coder=[REPAIRS])
    said = place.fb("run", "Fix add", "--agent", agent, "--set", 'workspace.setup=["echo >> calc.py"]')
    assert said.code == 2 and "changed files that the repository tracks (calc.py)" in said.out + said.err


def test_a_state_directory_inside_the_repository_is_refused(place: Place) -> None:
    inside = {"FLYBALL_STATE_DIR": str(place.repo / ".state")}
    words = ("run", "Fix add", "--agent", place.script(), "--set", QUICK_PROOF)
    said = place.fb(*words, env=inside)
    assert said.code == 2 and "FLYBALL_STATE_DIR" in said.err
