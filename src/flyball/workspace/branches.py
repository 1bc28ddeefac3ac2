"""The branches `flyball/<run>` in a user's repository: which there are, which are merged, and deleting one.

A branch is merged if another branch of the user's holds its commit: deleting it loses nothing.
"""

import os
from pathlib import Path

from msgspec import Struct

from flyball.errors import WorkspaceError
from flyball.workspace.git import Git, reading_user, text
from flyball.workspace.repo import user_git

PREFIX = "refs/heads/flyball/"


class RunBranch(Struct, frozen=True):
    """A run's branch. `worktree` is the folder in which it is checked out, "" for none."""

    run: str
    commit: str
    merged: bool
    worktree: str

    @property
    def name(self) -> str:
        return f"flyball/{self.run}"


def run_branches(root: Path) -> list[RunBranch]:
    """All of them, by name. A repository that cannot be read is a WorkspaceError."""
    git = _git_of(root)
    form = "--format=%(refname)%00%(objectname)%00%(worktreepath)"
    rows = [line.split("\0") for line in git.line("for-each-ref", form, "refs/heads").splitlines()]
    ours = [row for row in rows if row[0].startswith(PREFIX)]
    others = [commit for name, commit, _ in rows if not name.startswith(PREFIX)]
    unmerged = _only_in(git, [commit for _, commit, _ in ours], others)
    return [
        RunBranch(name.removeprefix(PREFIX), commit, commit not in unmerged, worktree)
        for name, commit, worktree in ours
    ]


def bytes_only_in(root: Path, branches: list[RunBranch]) -> int:
    """The size of the objects in the repository that only these branches need."""
    if not branches:
        return 0
    wanted = "".join(f"{branch.commit}\n" for branch in branches)
    options = ("--objects", "--disk-usage", "--stdin", "--not", "--exclude=flyball/*", "--branches")
    size = _git_of(root).line("rev-list", *options, stdin=wanted.encode(), ok=(0, 128, 129))
    return int(size) if size.isdecimal() else 0  # an older git does not know --disk-usage


def delete_branch(root: Path, branch: RunBranch) -> None:
    """Only from the commit at which it was seen, and never one that is checked out."""
    if branch.worktree:
        raise WorkspaceError(
            f"The branch {branch.name} is checked out in {branch.worktree}; check out another there."
        )
    _git_of(root).line("update-ref", "--no-deref", "-d", PREFIX + branch.run, branch.commit)


def _only_in(git: Git, commits: list[str], others: list[str]) -> set[str]:
    """Those of the commits that are in the history of none of the others."""
    if not commits:
        return set()
    wanted = "".join([*(f"{one}\n" for one in commits), *(f"^{one}\n" for one in others)])
    return set(git.line("rev-list", "--stdin", stdin=wanted.encode()).splitlines())


def _git_of(root: Path) -> Git:
    if not root.is_dir():
        raise WorkspaceError(f"The repository {root} is not there any more.")
    found = text(reading_user(root, "rev-parse", "--absolute-git-dir").out).rstrip("\n")
    return user_git(Path(os.path.realpath(found)))
