"""What a run stands on goes away (terminal, log, folder, repository): it is not stopped in the middle of a deed."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Generator
from pathlib import Path

import pytest
from tests.e2e.helpers import FIXED, QUICK_PROOF, Place, command, eventually

from flyball.state_dir import remove

SLOW = {"write": {"calc.py": FIXED}, "run": "sleep 2"}


def on_a_terminal(place: Place, *words: str) -> tuple[subprocess.Popen[bytes], int]:
    ours, theirs = os.openpty()
    env = {**place.env, "TERM": "xterm"}
    streams = {"stdin": theirs, "stdout": theirs, "stderr": theirs}
    started = subprocess.Popen(command(*words), cwd=place.repo, env=env, start_new_session=True, **streams)
    os.close(theirs)
    return started, ours


@pytest.mark.sampled(0)
def test_a_closed_terminal_pauses_the_run_and_a_resume_goes_on(place: Place) -> None:
    words = ("run", "Fix add", "--agent", place.script(coder=[SLOW]), "--set", QUICK_PROOF)
    started, terminal = on_a_terminal(place, *words)
    eventually(lambda: list(place.state.glob("runs/*/checkout/calc.py")) and _coding(place))
    os.close(terminal)
    started.send_signal(signal.SIGHUP)
    assert started.wait(30) == 130
    stopped = place.last()
    assert (stopped["status"], stopped["stop_reason"]["code"]) == ("paused", "interrupted")
    assert place.fb("resume", "@last").code == 0


def _coding(place: Place) -> bool:
    return any("return a + b" in file.read_text() for file in place.state.glob("runs/*/checkout/calc.py"))


@pytest.mark.sampled(0)
def test_a_resume_goes_on_though_the_driver_died_while_it_was_to_pause(place: Place) -> None:
    words = ("run", "Fix add", "--agent", place.script(coder=[SLOW]), "--set", QUICK_PROOF)
    started = place.start(*words)
    eventually(lambda: _coding(place))
    started.send_signal(signal.SIGINT)
    eventually(lambda: '"Asked"' in place.fb("log", "@last", "--json").out)
    started.kill()
    started.communicate()
    assert place.fb("resume", "@last").code == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_log_that_takes_no_more_does_not_end_the_run(place: Place) -> None:
    words = ("run", "Fix add", "--agent", place.script(coder=[{"write": {"calc.py": FIXED}}]))
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            command(*words, "--set", QUICK_PROOF),
            cwd=place.repo,
            env=place.env,
            stdout=full,
            stdin=subprocess.DEVNULL,
        )
    assert done.returncode == 0 and place.last()["status"] == "ended"


def test_what_the_system_refuses_is_one_sentence(place: Place) -> None:
    (place.state / "runs").mkdir(parents=True)
    (place.repo / ".flyball").mkdir()
    (place.repo / ".flyball/flyball.toml").write_text("[budget]\nusd = 1.0\n")
    (place.state / "runs").rmdir()
    (place.state / "runs").write_text("in the way")
    said = place.run(place.script())
    assert said.code == 2 and "Traceback" not in said.err
    assert said.err.startswith("flyball: ") and len(said.err.splitlines()) == 1


def test_a_run_whose_repository_was_moved_keeps_its_place(place: Place) -> None:
    agent = place.script(planner=[{"ask": "Which?"}, {}], coder=[{"write": {"calc.py": FIXED}}])
    assert place.run(agent).code == 3
    run = place.last()["run"]
    place.fb("answer", run, "This one")
    elsewhere = place.repo.rename(place.folder / "elsewhere")
    said = place.fb("resume", run, cwd=place.folder)
    assert said.code == 2 and str(place.repo) in said.err and "Traceback" not in said.err
    elsewhere.rename(place.repo)
    assert place.fb("resume", run).code == 0


# ---- folders nested deeper than a path can name --------------------------------------------------------------------


def dig(depth: int, name: str) -> str:
    steps = f"for n in range({depth}): os.mkdir('{name}'); os.chdir('{name}')"
    return f"python3 -S -c \"import os\n{steps}\nopen('f', 'w').write('x')\""


@pytest.fixture
def shallow(place: Place) -> Generator[Place]:
    """What is left is removed at once: pytest cannot remove folders nested so deep."""
    yield place
    for checkout in place.state.glob("runs/*/checkout"):
        remove(checkout)


@pytest.mark.parametrize(("depth", "name"), [(1_100, "d"), (25, "d" * 240)])
def test_a_cancelled_run_leaves_deep_folders_and_no_traceback(shallow: Place, depth: int, name: str) -> None:
    place = shallow
    place.run(place.script(coder=[{"write": {"calc.py": FIXED}}]), "--breakpoint", "write", "--json")
    assert place.fb("take-over", "@last").code == 0
    folder = next(place.state.glob("runs/*"))
    subprocess.run(dig(depth, name), shell=True, cwd=folder / "checkout", check=True)
    assert place.fb("cancel", "@last").code == 0
    told = place.fb("resume", "@last")
    assert (told.code, "Traceback" in told.err) == (1, False), told.err
    assert place.last()["stop_reason"]["code"] == "cancelled"
    assert (folder / "checkout/calc.py").exists() and (folder / "kept").read_text().endswith(".")


def test_folders_that_no_path_can_name_cost_the_turn_and_no_more(shallow: Place) -> None:
    place = shallow
    once = f"test -e ~/dug || {{ touch ~/dug; {dig(25, 'd' * 240)}; }}"
    agent = place.script(coder=[{"write": {"calc.py": FIXED}, "run": once}])
    said = place.run(agent, "--json")
    assert (said.code, said.json["stop_reason"]["code"]) == (0, "completed")
    assert "nested deeper than a path can name" in place.fb("log", "@last").out
    assert not list(place.state.glob("runs/*/checkout")), "and it can be cleaned up"
