"""du, prune and rm on a repository with merged, open, failed and waiting runs."""

from __future__ import annotations

import fcntl
import os
from typing import Any

import pytest
from tests.e2e.helpers import FIXED, QUICK_PROOF, STILL_BROKEN, Place

from flyball.errors import WorkspaceError
from flyball.journal.database import Driver, alive
from flyball.journal.sqlite import SqliteJournal
from flyball.workspace import Workspace

NOW = ("--set", "retention.age=0s")


def a_run(place: Place, name: str, code: int, *more: str, **coder: Any) -> str:
    if "ask" in coder:
        assert place.loop(coder, task=name).code == code
        return place.last()["run"]
    agent = place.script(
        name, planner=[{"say": "plan"}], coder=[coder], critic=[{"say": "OUTCOME: accepted"}]
    )
    done = place.fb("run", name, "--agent", agent, "--set", QUICK_PROOF, "--set", "proof.bite=never", *more)
    assert done.code == code, done.out + done.err
    return place.last()["run"]


def sizes(place: Place) -> dict[str, dict[str, int]]:
    (repo,) = place.fb("du", "--json").json["repos"]
    return {run["run"]: run["bytes"] for run in repo["runs"]}


def branches(place: Place) -> set[str]:
    return set(place.git("for-each-ref", "--format=%(refname:short)", "refs/heads/flyball").split())


@pytest.fixture
def runs(place: Place) -> dict[str, str]:
    """One run of each kind, by kind."""
    flood = "word " * 40_000
    done = {"merged": a_run(place, "merged", 0, write={"calc.py": FIXED}, say=flood)}
    assert place.fb("land", "@last").code == 0
    done["open"] = a_run(place, "open", 0, write={"calc.py": FIXED, "b.txt": "x"})
    one = ("--set", "limits.iterations=1", "--set", "limits.fix=0")
    done["failed"] = a_run(place, "failed", 1, *one, write={"calc.py": STILL_BROKEN})
    done["waiting"] = a_run(place, "waiting", 3, ask="Which?")
    return done


def test_pruning_frees_space_keeps_the_evidence_and_leaves_open_runs_alone(
    place: Place, runs: dict[str, str]
) -> None:
    before = sizes(place)
    shown = place.fb("prune", *NOW)
    assert "Nothing was removed" in shown.out and "Kept as evidence: the journal" in shown.out
    assert runs["waiting"] not in shown.out and sizes(place) == before
    assert place.fb("prune").out.startswith("Nothing to prune"), "a week has not passed"

    done = place.fb("prune", *NOW, "--yes", "--json")
    assert (done.code, done.json["problems"]) == (0, [])
    after = sizes(place)
    assert after[runs["waiting"]] == before[runs["waiting"]]
    assert sum(after[runs["merged"]].values()) * 4 < sum(before[runs["merged"]].values())
    assert after[runs["open"]]["checkpoints"] and not after[runs["failed"]]["checkpoints"]
    assert [after[run]["homes"] for kind, run in runs.items() if kind != "waiting"] == [0, 0, 0]
    assert branches(place) == {f"flyball/{runs[kind]}" for kind in ("open", "failed")}

    for kind in ("merged", "open"):
        verdict = place.fb("verify", runs[kind], "--json").json
        assert verdict["verdict"] == "good", verdict
    assert place.fb("check").code == 0, place.fb("check").out
    assert "+    return a + b" in place.fb("diff", runs["merged"]).out
    assert place.fb("show", runs["merged"], "--prompt", "2", "--json").json[0]["prompt"], (
        "read from the archive"
    )
    exported = place.fb("export", runs["merged"]).json["runs"]
    assert any(log["file"].endswith("out") for run in exported for log in run["logs"])
    with pytest.raises(WorkspaceError, match=f"The files of run {runs['failed']} were pruned on 20"):
        Workspace.open(place.state / "runs" / runs["failed"])
    assert place.fb("prune", *NOW, "--yes", "--json").json["runs"] == [], "there is nothing left to do"
    assert place.fb("land", runs["open"]).code == 0, "what was not merged can still be merged"


def test_a_run_that_another_process_works_on_is_left_alone(place: Place) -> None:
    run = a_run(place, "one", 0, write={"calc.py": FIXED})
    driver, journal = Driver(place.state), SqliteJournal(place.state / "journal.db")
    journal.acquire(run, driver.name, lambda name: alive(place.state, name))
    before = sizes(place)
    done = place.fb("prune", *NOW, "--yes")
    assert done.code == 1 and run in done.err and sizes(place) == before
    assert "another process" in place.fb("rm", run, "--yes").err
    driver.close()
    lock = os.open(place.state / "prune.lock", os.O_RDWR)
    journal.close()
    fcntl.flock(lock, fcntl.LOCK_EX)
    done = place.fb("prune", *NOW, "--yes")
    os.close(lock)
    assert (done.code, done.err) == (
        2,
        "flyball: Another process is pruning right now. Try again when it has finished.\n",
    )
    assert place.fb("prune", *NOW, "--yes").code == 0


def test_rm_removes_one_run_and_says_so_for_ever(place: Place) -> None:
    run = a_run(place, "one", 0, write={"calc.py": FIXED})
    waiting = a_run(place, "two", 3, ask="Which?")
    certificate = place.folder / "certificate.json"
    assert place.fb("verify", run, "--export", str(certificate)).code == 0
    for words, sentence in (
        ((run,), f"Removing run {run} cannot be undone. Add --yes"),
        ((waiting, "--yes"), f"Run {waiting} has not ended. End it with `flyball cancel {waiting}` first"),
        (("nosuch", "--yes"), "There is no run 'nosuch'."),
    ):
        done = place.fb("rm", *words)
        assert done.code == 2 and sentence in done.err and done.err.count("\n") == 1, done.err
    done = place.fb("rm", run, "--yes")
    assert (done.code, branches(place)) == (0, set()), done.err
    assert not any(run in path.name for path in place.state.rglob("*"))
    for command in ("verify", "show", "why", "rm"):
        gone = place.fb(command, run)
        assert gone.code == 2 and f"Run {run} was removed on 20" in gone.err and gone.err.count("\n") == 1
    assert place.fb("verify", str(certificate), "--json").json["verdict"] == "stale", "its commit is gone too"
    assert place.fb("check").code == 0, place.fb("check").out


def test_what_a_killed_rm_leaves_is_removed_by_the_next_pruning(place: Place) -> None:
    run = a_run(place, "one", 0, write={"calc.py": FIXED})
    journal = SqliteJournal(place.state / "journal.db")
    journal.prune(run, 1)  # as after a kill -9 between the tombstone and the files
    journal.close()
    assert (place.state / "runs" / run).exists()
    young = place.state / "runs" / "abcdefgh"
    young.mkdir()  # a run that is just starting has a folder before the journal knows it
    shown = place.fb("prune")
    assert shown.out.count("left by a removed run") > 3 and str(young) not in shown.out
    assert place.fb("prune", "--yes").code == 0
    assert not any(run in path.name for path in place.state.glob("*/*")) and young.exists()


@pytest.mark.sampled(0)
def test_a_run_prunes_by_itself_at_most_once_a_day(place: Place) -> None:
    old = a_run(place, "one", 0, write={"calc.py": FIXED})
    assert place.fb("land", old).code == 0
    config = place.folder / "home/.config/flyball/config.toml"
    config.parent.mkdir(parents=True)
    config.write_text('[retention]\nage = "0s"\n')
    last = place.state / "prune.last"
    a_run(place, "two", 3, ask="Which?")
    assert sizes(place)[old]["homes"] and not last.exists(), "a day has not passed"
    os.utime(place.state / "prune.reserve", (1, 1))
    config.write_text('[retention]\nage = "0s"\nauto = false\n')
    a_run(place, "three", 3, ask="Which?")
    assert sizes(place)[old]["homes"], "it may not"
    os.utime(last, (1, 1))
    config.write_text('[retention]\nage = "0s"\n')
    assert place.fb("resume").code == 0
    a_run(place, "four", 3, ask="Which?")
    assert not sizes(place)[old]["homes"] and last.stat().st_mtime > 1
    assert f"flyball/{old}" not in branches(place)
    assert (place.state / "prune.reserve").stat().st_size >= 200_000, "so that a full disk can be pruned"
