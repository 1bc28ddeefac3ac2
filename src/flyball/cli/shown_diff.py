"""The change of a run as people see it."""

from __future__ import annotations

from pathlib import Path

import click

from flyball.errors import WorkspaceError
from flyball.runtime.app import App
from flyball.state.run import Run
from flyball.workspace import Workspace, inspect_repo


def diff_of(app: App, run: Run, stat: bool) -> str:
    """What a run changed, including a change that a person is asked about."""
    tree = _shown_tree(run)
    if not run.checkout.base_tree or run.checkout.base_tree == tree:
        return ""
    try:
        work = Workspace.open(app.run_files().run_dir(run).path)
    except WorkspaceError:
        return _from_branch(run, tree, stat)
    return work.diff(run.checkout.base_tree, tree, stat=stat)


def _from_branch(run: Run, tree: str, stat: bool) -> str:
    """The run's own folder is gone; the user's repository has its branch."""
    repo = inspect_repo(Path(run.began.repo))
    shape = "--stat=100" if stat else "-p"
    options = ("-r", "-M", "--no-ext-diff", "--no-textconv", "--color=never", shape)
    return repo.git("diff-tree", *options, run.checkout.base_tree, tree).decode("utf-8", "replace")


def _shown_tree(run: Run) -> str:
    """The run's tree, with the change that a person is asked about, if there is one."""
    return asked_about(run) or run.tree


def asked_about(run: Run) -> str:
    """The tree with a change that the guard asks about; "" where it asks about none."""
    ruling = run.evidence.ruling
    return ruling.tree if run.question and ruling and ruling.verdict != "allow" else ""


COLOURS = (
    ("diff --git", "", True),
    ("+++", "", True),
    ("---", "", True),
    ("@@", "cyan", False),
    ("+", "green", False),
    ("-", "red", False),
)


def coloured(line: str) -> str:
    for start, colour, bold in COLOURS:
        if line.startswith(start):
            return click.style(line, fg=colour or None, bold=bold or None)
    return line
