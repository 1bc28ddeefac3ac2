"""`do = "check"`: the table names what is looked at; what cannot be looked at yet is said, not passed over."""

from __future__ import annotations

import os
import queue
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.helpers import make_repo

from flyball.acts.run_files import RunFiles
from flyball.agents.sandbox import Sandbox
from flyball.core.decide import Do, Finished, due
from flyball.domain import events as e
from flyball.domain.settings import Settings
from flyball.machines import shipped
from flyball.runtime.supervisor import News, ThreadPerformer
from flyball.state.fold import apply, begin
from flyball.state_dir import StateDir
from flyball.workspace import Repo, Workspace, inspect_repo
from support import begun


def checked(folder: Path, machine: Any, settings: Settings, state: str, **more: Any) -> e.CheckEnded:
    run = begin(begun(machine, settings, **{"owner": False, "tree": "base", "start": state, **more}))
    act = due(run, 1)
    assert isinstance(act, Do)
    run = apply(run, e.ActStarted(at=1, act=act.act))
    news: queue.Queue[News] = queue.Queue()
    files = RunFiles(folder, Sandbox(kind="none", why="not needed"), dict(os.environ))
    ThreadPerformer(files).start(run, act.act, news.put)
    finished = news.get(timeout=60)
    assert isinstance(finished, Finished) and isinstance(finished.result, e.CheckEnded)
    return finished.result


@pytest.mark.parametrize("name", ["review", "mine"])
def test_the_agents_that_the_table_plays_are_looked_for(tmp_path: Path, name: str) -> None:
    """Under any name, and for any role of the table."""
    table = {**shipped("review").table, "name": name}
    there = Settings(agents={"default": "command:cat"})
    gone = Settings(agents={"default": "command:cat", "reviewer": "command:no-such-program-here"})
    assert checked(tmp_path, table, there, "init") == e.CheckEnded(outcome="ready")
    missing = checked(tmp_path, table, gone, "init")
    assert missing.outcome == "cannot_start" and "no-such-program-here" in missing.reason


# ---- the checks of a task --------------------------------------------------------------------------------------


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return inspect_repo(make_repo(tmp_path / "repo", {"calc.py": "x = 1\n", "plan.md": "1. Mend it.\n"}))


@pytest.fixture
def work(tmp_path: Path, repo: Repo) -> Workspace:
    return Workspace.create(StateDir(tmp_path).run("r1").path, repo, "r1")


def looked(tmp_path: Path, repo: Repo, state: str, tree: str = "base", **more: Any) -> e.CheckEnded:
    settings = Settings(agents={"default": "command:cat"}, commit="merge")
    given = {
        "root": "r1",
        "repo": str(repo.root),
        "commit": repo.head,
        "branch": repo.branch,
        "tree": tree,
        **more,
    }
    return checked(tmp_path, "task", settings, state, **given)


@pytest.mark.parametrize(
    ("state", "more", "says"),
    [
        (
            "pending",
            {"commit": "0" * 40},
            "The commit 000000000000 that the task builds on no longer exists.",
        ),
        (
            "validated",
            {"branch": "gone"},
            "The branch gone, into which the result would be merged, was deleted.",
        ),
        (
            "validated",
            {"options": {"plan_file": "no.md"}},
            "The plan file no.md is not in the files that the run",
        ),
    ],
)
def test_what_a_task_needs_is_there(
    tmp_path: Path, repo: Repo, work: Workspace, state: str, more: dict[str, Any], says: str
) -> None:
    fine = {"options": {"plan_file": "plan.md"}} if state == "validated" else {}
    assert looked(tmp_path, repo, state, work.tree(), **fine) == e.CheckEnded(outcome="ready")
    found = looked(tmp_path, repo, state, work.tree(), **more)
    assert found.outcome == "cannot_start" and found.reason.startswith(says)


def test_a_task_goes_on_with_the_files_that_the_run_knows(
    tmp_path: Path, repo: Repo, work: Workspace
) -> None:
    known = work.tree()
    assert looked(tmp_path, repo, "assigned", known) == e.CheckEnded(outcome="ready")
    (work.checkout / "calc.py").write_text("x = 2\n")
    found = looked(tmp_path, repo, "assigned", known)
    assert (found.outcome, found.reason) == (
        "cannot_start",
        "The checkout differs from the tree that the run recorded.",
    )


def test_a_task_is_not_committed_with_rules_that_somebody_touched(
    tmp_path: Path, repo: Repo, work: Workspace
) -> None:
    pinned = StateDir(tmp_path).run("r1").pinned
    pinned.mkdir(parents=True)
    (pinned / "policy.toml").write_text("loose\n")
    found = looked(tmp_path, repo, "approved", work.tree(), pinned={"policy.toml": "0" * 64})
    assert found.outcome == "cannot_start" and found.reason.endswith(
        "policy.toml was changed during the run."
    )
