"""Create and set up the checkout of a run, and restore it to a tree."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import cast

from msgspec.structs import replace

from flyball.acts import run_files as grounds, turn_input
from flyball.acts.run_files import RunFiles, SetupStopped, run_setup, share_links
from flyball.acts.turn import left_tree, plain
from flyball.agents import process, sandbox
from flyball.core.decide import Finished
from flyball.domain import events as e
from flyball.errors import FlyballError, WorkspaceError
from flyball.reading.checklist import tick
from flyball.state.run import Run
from flyball.workspace import Workspace, inspect_repo
from flyball.workspace.repo import at_commit

CACHES = (
    *("__pycache__/", "*.pyc", ".pytest_cache/", ".mypy_cache/", ".ruff_cache/", ".hypothesis/"),
    *(
        ".coverage",
        ".coverage.*",
        "htmlcov/",
        ".nyc_output/",
        ".DS_Store",
        ".tox/",
        ".nox/",
        "node_modules/",
        ".venv/",
    ),
)


def prepare(run_files: RunFiles, run: Run, act: e.Act, stop: process.Stop) -> Finished:
    try:
        result = _prepared(run_files, run, act, stop)
    except SetupStopped:
        raise
    except FlyballError as problem:
        result = e.Prepared(error=str(problem), code="error.git")
    return Finished(key=act.key, result=result)


def _prepared(run_files: RunFiles, run: Run, act: e.Act, stop: process.Stop) -> e.Prepared:
    found = grounds.require(run.settings)
    repo, with_changes = inspect_repo(Path(run.began.repo)), run.began.with_changes
    if run.began.parent and run.began.commit:  # a step of a plan starts from the one before
        repo, with_changes = at_commit(repo, run.began.commit), False
    hidden = (*CACHES, *(f"/{name.strip('/')}" for name in (*run.settings.share, *run.settings.ignore)))
    work = Workspace.create(run_files.run_dir(run).path, repo, run.id, with_changes, hidden)
    if not run_files.mounted(run):
        _refuse_leaks(run_files, run, work)
        share_links(run, work.repo_root, work.checkout)
    problem = run_setup(run_files, run, run_files.act_folder(act.key), work.checkout, "agent", stop)
    problem = problem or _setup_stays_apart(run, work)
    if problem:
        return e.Prepared(error=problem, code="error.config")
    begun = _ticked(run, work) or _begin_at(run, work)
    kind = grounds.UNSANDBOXED if found.kind == "none" else found.kind
    note = f"No sandbox: {found.why}." if found.kind == "none" else found.limits
    notes = (*([note] if note else []), *turn_input.notes(run_files, run))
    return replace(begun, base_commit=work.base_commit, base_tree=work.base_tree, sandbox=kind, notes=notes)


def _setup_stays_apart(run: Run, work: Workspace) -> str:
    """Files that setup created do not count as the agent's work; files that it changed would."""
    if not run.settings.setup:
        return ""
    work.hide_additions()
    changed = [plain(change.path) for change in work.changes(work.base_tree, work.tree())]
    if not changed:
        return ""
    return f"The setup changed files that the repository tracks ({', '.join(changed[:5])}). Correct [workspace] setup."


def _begin_at(run: Run, work: Workspace) -> e.Prepared:
    """A retry begins at the tree that the run before had left."""
    tree = run.began.tree
    if not tree or tree == work.base_tree:
        return e.Prepared()
    try:
        paths, lines = counted(work, work.base_tree, tree)
        work.restore(tree)
    except WorkspaceError:
        raise WorkspaceError(
            f"The tree of run {run.began.retry_of} is no longer there. Start a new run with `flyball run`."
        ) from None
    work.publish(work.checkpoint(tree, 0, f"From {run.began.retry_of}\n\nFlyball-Run: {run.id}"))
    return e.Prepared(tree=tree, changed=paths, lines=lines)


def _ticked(run: Run, work: Workspace) -> e.Prepared | None:
    """CTO-6: the item of a check-list that the run does is ticked in its files, so that the commit has the tick."""
    named = cast("list[str]", run.began.options.get("tick") or [])
    content = work.read_all([(work.base_tree, named[0])])[0] if len(named) == 2 else None
    text = content.decode("utf-8", "surrogateescape") if content is not None else ""
    done = tick(text, named[1]) if text else text
    if done == text:
        return None
    file = work.checkout / named[0]
    file.write_bytes(done.encode("utf-8", "surrogateescape"))
    tree = work.tree()
    work.publish(work.checkpoint(tree, 0, f"Tick {named[0]}\n\nFlyball-Run: {run.id}"))
    return e.Prepared(tree=tree, changed=(plain(named[0]),), lines=2)


def counted(work: Workspace, old: str, new: str) -> tuple[tuple[str, ...], int]:
    """The files that differ between two trees, and by how many lines."""
    changes = work.changes(old, new)
    paths = tuple(dict.fromkeys(plain(change.path) for change in changes))
    return paths, sum(change.lines_added + change.lines_deleted for change in changes)


def _refuse_leaks(run_files: RunFiles, run: Run, work: Workspace) -> None:
    """SYS-8: without a sandbox an environment that imports this very project from elsewhere proves nothing."""
    if not run.settings.proof:
        return
    env = run_files.env(run, run_files.home(run, "proof"))
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


def restore(run_files: RunFiles, run: Run, act: e.Act) -> Finished:
    """Restore that tree in the checkout. A change that a person approved or made is published."""
    work = run_files.workspace(run)
    if act.why == "hand-back":
        return Finished(key=act.key, result=_handed_back(run, act, work))
    if act.why == "rollback":
        return Finished(key=act.key, result=_rolled_back(run, act, work, run_files.act_folder(act.key)))
    work.restore(act.tree)
    if act.why != "approved":
        return Finished(key=act.key, result=e.Restored(tree=act.tree))
    work.publish(work.checkpoint(act.tree, max(run.turns, 1), f"Approved\n\nFlyball-Run: {run.id}"))
    paths, lines = counted(work, act.since, act.tree)
    return Finished(key=act.key, result=e.Restored(tree=act.tree, changed=paths, lines=lines))


def _rolled_back(run: Run, act: e.Act, work: Workspace, folder: Path) -> e.Restored:
    """Files as they were after an earlier turn. Edits in the checkout that no turn made are kept first."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    tree = left_tree(work, folder)
    edited = tree not in (run.tree, act.tree)
    kept = work.keep(tree, f"by-hand/{act.key}") if edited else ""
    work.restore(act.tree, int(act.since) if act.since != "0" else None)
    return e.Restored(tree=act.tree, kept=kept)


def _handed_back(run: Run, act: e.Act, work: Workspace) -> e.Restored:
    """Changes by a person are journaled as theirs and not checked."""
    tree = work.tree()
    if tree == act.tree:
        return e.Restored(tree=tree)
    work.publish(work.checkpoint(tree, max(run.turns, 1), f"By hand\n\nFlyball-Run: {run.id}"))
    paths, lines = counted(work, act.tree, tree)
    return e.Restored(tree=tree, changed=paths, lines=lines)
