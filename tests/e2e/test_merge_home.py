"""The user's branch takes a run's work, by `commit = "merge"` or `flyball land`: moved or not, crashed in the middle or not."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.helpers import ACCEPTS, FIXED, PROOF, Ran, Yard, eventually

from flyball.domain import events as e
from flyball.journal.sqlite import SqliteJournal
from flyball.lab.prove.after_end import may_follow_end
from flyball.state.fold import fold

CRASHING = Path(__file__).with_name("crash_driver.py")


@pytest.fixture
def yard(tmp_path: Path) -> Iterator[Yard]:
    made = Yard(tmp_path)
    yield made
    made.clear()


def paused(yard: Yard) -> Ran:
    """A run that is all but ended: it stands at a breakpoint after its last act."""
    agent = yard.script(coder=[{"write": {"calc.py": FIXED}}], critic=ACCEPTS)
    ran = yard.play(agent, "--set", "run.commit=merge", "--breakpoint", "verify")
    assert ran.code == "wait.breakpoint", ran.facts
    return ran


def home(yard: Yard, run: str) -> None:
    """It has landed once, what landed is what was certified, and nothing was lost."""
    assert yard.git("rev-parse", "HEAD") == yard.git("rev-parse", f"flyball/{run}")
    assert (yard.repo / "calc.py").read_text() == FIXED
    assert yard.git("status", "--porcelain") == ""
    told = yard.flyball("verify", run)
    assert told.returncode == 0, told.stdout + told.stderr


def test_a_target_that_moved_is_merged_proved_and_certified(yard: Yard) -> None:
    ran = paused(yard)
    yard.make({"notes.txt": "meanwhile\n"})
    told = yard.flyball("resume", ran.run)
    assert told.returncode == 0, told.stderr
    home(yard, ran.run)
    assert (yard.repo / "notes.txt").exists()
    assert yard.git("rev-list", "--merges", "--count", "HEAD") == "1"


def test_a_merge_that_cannot_be_asks_and_moves_nothing(yard: Yard) -> None:
    """First it fails its proof, then the user has changes that are not committed."""
    ran = paused(yard)
    test = (yard.repo / "test_calc.py").read_text()
    yard.make({"test_calc.py": test.replace("3)", "4)")})
    head = yard.git("rev-parse", "HEAD")
    stopped = yard.resume()
    assert (stopped.exit, stopped.code) == (3, "wait.conflict")
    assert yard.git("rev-parse", "HEAD") == head
    assert "proof" in yard.flyball("why", ran.run).stdout
    yard.make({"test_calc.py": test, "notes.txt": "meanwhile\n"})
    (yard.repo / "notes.txt").write_text("not yet committed\n")
    assert yard.flyball("answer", stopped.question, "retry").returncode == 0
    stopped = yard.resume()
    assert (stopped.exit, stopped.code) == (3, "wait.conflict")
    assert (yard.repo / "notes.txt").read_text() == "not yet committed\n"
    yard.git("commit", "-qam", "Now it is")
    assert yard.flyball("answer", stopped.question, "retry").returncode == 0
    assert yard.flyball("resume", ran.run).returncode == 0
    home(yard, ran.run)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("when", "at"), [("after", 3), ("before", 5)]
)  # 3: the commit starts; 4: it has ended and the landing starts; 5: that has ended. Simulations crash at all.
def test_killed_around_the_landing_it_lands_once(yard: Yard, when: str, at: int) -> None:
    ran = paused(yard)
    yard.make({"notes.txt": "meanwhile\n"})
    assert yard.flyball("answer", ran.question, "go-on").returncode == 0
    words = [sys.executable, str(CRASHING), when, str(at), str(yard.repo), "", ""]
    killed = subprocess.run(words, cwd=yard.repo, env=yard.env, capture_output=True, timeout=60)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    yard.flyball("resume", ran.run)
    home(yard, ran.run)
    assert yard.git("rev-list", "--merges", "--count", "HEAD") == "1"


def test_it_lands_on_the_branch_it_began_from_whatever_is_checked_out_later(yard: Yard) -> None:
    ran = paused(yard)
    yard.git("checkout", "-qb", "other")
    assert yard.flyball("resume", ran.run).returncode == 0
    assert yard.git("rev-parse", "main") == yard.git("rev-parse", f"flyball/{ran.run}")
    assert yard.git("rev-parse", "other") != yard.git("rev-parse", "main")
    assert yard.git("rev-list", "--merges", "--count", "main") == "0"
    yard.git("checkout", "-q", "main")
    home(yard, ran.run)


def test_what_the_user_has_already_is_not_merged_again(yard: Yard) -> None:
    """Killed just after the branch took it; the user goes on from there; the run is resumed."""
    ran = paused(yard)
    assert yard.flyball("answer", ran.question, "go-on").returncode == 0
    words = [sys.executable, str(CRASHING), "before", "5", str(yard.repo), "", ""]
    subprocess.run(words, cwd=yard.repo, env=yard.env, capture_output=True, timeout=60)
    assert (yard.repo / "calc.py").read_text() == FIXED, "it had landed"
    yard.make({"notes.txt": "on top\n"})
    assert yard.flyball("resume", ran.run).returncode == 0
    assert yard.git("rev-list", "--merges", "--count", "HEAD") == "0"
    assert yard.flyball("verify", ran.run).returncode == 0


# ---- after the end ------------------------------------------------------------------------------------------------


def ended(yard: Yard, proof: str = PROOF) -> str:
    """A run that has ended in success; its target has moved since."""
    agent = yard.script(coder=[{"write": {"calc.py": FIXED}}], critic=ACCEPTS)
    ran = yard.play(agent, proof=proof)
    assert ran.code == "completed", ran.err
    yard.make({"notes.txt": "meanwhile\n"})
    return ran.run


def events_of(yard: Yard, run: str) -> list[e.AnyEvent]:
    with contextlib.closing(SqliteJournal(yard.state / "journal.db")) as journal:
        return [e.decode(entry.body) for entry in journal.read(run)]


def landed_once(yard: Yard, run: str) -> None:
    home(yard, run)
    assert yard.git("rev-list", "--merges", "--count", "HEAD") == "1"
    findings = json.loads(yard.flyball("check", run, "--json").stdout)["findings"]
    assert not [one for one in findings if one["grave"]], findings
    events = events_of(yard, run)
    assert sum(isinstance(event, e.Landed) for event in events) == 1
    end = next(n for n, event in enumerate(events) if isinstance(event, e.Ended))
    for n in range(end + 1, len(events)):
        assert may_follow_end(fold(None, events[:n]), events[n]), (
            f"HUMAN-3: {e.kind(events[n])} after the end"
        )


def test_an_ended_run_lands_by_an_act_and_nothing_else_follows_its_end(yard: Yard) -> None:
    run = ended(yard)
    told = yard.flyball("land", run)
    assert told.returncode == 0, told.stderr
    landed_once(yard, run)
    acts = [event.act.do for event in events_of(yard, run) if isinstance(event, e.ActStarted)]
    assert acts[-2:] == ["commit", "land"]
    assert "already" in yard.flyball("land", run).stdout


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("when", "at"), [("after", 1), ("after", 2), ("before", 3)]
)  # 1: it is ordered; 2: it starts; 3: it has landed
def test_killed_at_any_step_of_a_landing_it_is_completed_once(yard: Yard, when: str, at: int) -> None:
    run = ended(yard)
    words = [sys.executable, str(CRASHING), when, str(at), str(yard.repo), "", "land"]
    killed = subprocess.run(words, cwd=yard.repo, env=yard.env, capture_output=True, timeout=60)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    told = yard.flyball("land", run)
    assert told.returncode == 0, told.stderr
    landed_once(yard, run)


@pytest.mark.sampled(0)
def test_killed_while_the_merge_is_proved_it_is_completed_once(yard: Yard) -> None:
    run = ended(yard, proof=f"{PROOF} && (test ! -e notes.txt || sleep 3)")
    process = yard.start("land", run)
    eventually(lambda: list((yard.state / "acts").glob(f"{run}-*-*/0/claim")))
    process.kill()
    process.communicate()
    told = yard.flyball("land", run)
    assert told.returncode == 0, told.stderr
    landed_once(yard, run)
