"""The ground of a run: its checkout, made and set up; and bringing it back to a tree."""

from __future__ import annotations

import shutil
from pathlib import Path

from flyball.acts import ground as grounds
from flyball.acts.ground import Ground, share_links
from flyball.acts.proof import run_setup
from flyball.acts.turn import plain
from flyball.agents import process, sandbox
from flyball.core import events as e
from flyball.core.decide import Finished
from flyball.core.run import Run
from flyball.errors import FlyballError
from flyball.workspace import Workspace, inspect_repo

CACHES = (
    *("__pycache__/", "*.pyc", ".pytest_cache/", ".mypy_cache/", ".ruff_cache/", ".hypothesis/", ".coverage"),
    *(".DS_Store", ".tox/", ".nox/", "node_modules/", ".venv/"),
)


def prepare(ground: Ground, run: Run, act: e.Act, stop: process.Stop) -> Finished:
    try:
        result = _prepared(ground, run, act, stop)
    except FlyballError as problem:
        result = e.Prepared(error=str(problem), code="error.git")
    return Finished(key=act.key, result=result)


def _prepared(ground: Ground, run: Run, act: e.Act, stop: process.Stop) -> e.Prepared:
    kind = grounds.require(run.settings, ground.sandbox)
    repo = inspect_repo(Path(run.began.repo))
    hidden = (*CACHES, *(f"/{name.strip('/')}" for name in run.settings.share))
    work = Workspace.create(ground.folder(run), repo, run.id, run.began.with_changes, hidden)
    if not ground.confined(run):
        _refuse_leaks(ground, run, work)
        share_links(run, work.repo_root, work.checkout)
    problem = run_setup(ground, run, ground.act_folder(act.key), work.checkout, "agent", stop)
    if problem:
        return e.Prepared(error=problem, code="error.config")
    why = "it is turned off" if run.settings.sandbox == "none" else ground.sandbox.why
    note = () if kind != "unsandboxed" else (f"No sandbox: {why}.",)
    return e.Prepared(base_commit=work.base_commit, base_tree=work.base_tree, sandbox=kind, notes=note)


def _refuse_leaks(ground: Ground, run: Run, work: Workspace) -> None:
    """SYS-8: without a sandbox an environment that imports this very project from elsewhere proves nothing."""
    if not run.settings.proof:
        return
    env = ground.env(run, ground.home(run, "proof"))
    pythons = {shutil.which(name, path=env.get("PATH")) for name in ("python", "python3")}
    pythons |= {
        str(path) for name in run.settings.share for path in (work.repo_root / name).glob("bin/python")
    }
    for python in sorted(p for p in pythons if p):
        leaks = sandbox.editable_leaks([python], work.repo_root, env=env)
        if leaks:
            raise FlyballError(
                f"{Path(python).name} would import this project from {work.repo_root}, not from the tree to be proved "
                f"({leaks[0]}). Install bubblewrap, or use an environment without an editable install of it."
            )


def restore(ground: Ground, run: Run, act: e.Act) -> Finished:
    """The checkout holds that tree again. An approved change is checkpointed and given to the user's branch."""
    work = ground.workspace(run)
    work.restore(act.tree)
    if act.why != "approved":
        return Finished(key=act.key, result=e.Restored(tree=act.tree))
    work.publish(work.checkpoint(act.tree, max(run.turns, 1), f"Approved\n\nFlyball-Run: {run.id}"))
    changes = work.changes(act.since, act.tree)
    paths = tuple(dict.fromkeys(plain(change.path) for change in changes))
    lines = sum(change.lines_added + change.lines_deleted for change in changes)
    return Finished(key=act.key, result=e.Restored(tree=act.tree, changed=paths, lines=lines))
