"""What a person's word does to their repository: landing a run's commit, pushing it, and deleting branches of runs.

`land` fast-forwards the user's branch to a run's commit. It is the only place where the user's files and index are
written; git's own fast-forward, without hooks, refuses by itself whatever would overwrite a file of theirs. A run's
branch is merged if another branch of the user's holds its commit: deleting it loses nothing.

Pushing is the user's own git, with the user's own configuration and credentials, but without hooks: an agent has no
part in it, since it can write to neither.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import os
import re
from collections.abc import Generator, Mapping
from pathlib import Path

from msgspec import Struct

from flyball.errors import LandConflict, WorkspaceError
from flyball.workspace.git import Git, as_user, reading_user, text
from flyball.workspace.repo import INERT, Repo, is_dirty, user_git

DAMAGED = re.compile(rb"\b([0-9a-f]{40,64})\b")


def damaged_objects(git: Git, commit: str) -> list[str]:
    """Ids of objects of this commit's tree that are missing or cannot be read."""
    answer = git.ask("rev-list", "--verify-objects", "--missing=print", "--no-walk", commit, ok=(0, 128))
    missing = [line[1:].decode() for line in answer.out.splitlines() if line.startswith(b"?")]
    if answer.code == 0:
        return missing
    return [*missing, *(oid.decode() for oid in dict.fromkeys(DAMAGED.findall(answer.err)))] or [commit]


UNFINISHED = {
    "MERGE_HEAD": "merge",
    "CHERRY_PICK_HEAD": "cherry-pick",
    "REVERT_HEAD": "revert",
    "rebase-merge": "rebase",
    "rebase-apply": "rebase",
    "BISECT_LOG": "bisect",
}


class Landed(Struct, frozen=True):
    """The branch that took the commit, and where it was before."""

    branch: str
    before: str
    commit: str


def land(repo: Repo, run: str, commit: str, target: str | None = None) -> Landed:
    """Fast-forward the target (the branch checked out, unless named) to the run's commit.

    Raises LandConflict if the target has moved on, so that a merge must be made first.
    """
    with _alone(repo):
        return _land(_landing_git(repo), repo, run, commit, target)


@contextlib.contextmanager
def _alone(repo: Repo) -> Generator[None]:
    """Two lanes, or a lane and a person, may land in the same checkout: one after the other."""
    descriptor = os.open(repo.common_dir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _land(git: Git, repo: Repo, run: str, commit: str, target: str | None) -> Landed:
    branch = target or _current(git)
    if not branch:
        raise WorkspaceError(f"{repo.root} is on no branch; check out the branch that {run} is to land on.")
    before = git.line("rev-parse", "-q", "--verify", f"refs/heads/{branch}^{{commit}}", ok=(0, 1, 128))
    if not before:
        raise WorkspaceError(f"{repo.root} has no branch '{branch}' to land {run} on.")
    _require_ahead(git, run, branch, before, commit)
    if branch == _current(git):
        _forward_checkout(git, repo, branch, before, commit)
    else:
        _forward_branch(git, branch, before, commit)
    return Landed(branch, before, commit)


def tip_of(repo: Repo, branch: str) -> str:
    """The commit that a branch of the user's is at; "" if there is no such branch."""
    return repo.git.line("rev-parse", "-q", "--verify", f"refs/heads/{branch}^{{commit}}", ok=(0, 1, 128))


def is_ancestor(repo: Repo, commit: str, tip: str) -> bool:
    """Whether the history of `tip` holds the commit."""
    return repo.git.ask("merge-base", "--is-ancestor", commit, tip, ok=(0, 1, 128)).code == 0


def _landing_git(repo: Repo) -> Git:
    settings = {key: repo.settings[key] for key in INERT if key in repo.settings}
    return Git(repo.git_dir, work_tree=repo.root, settings=settings)


def _current(git: Git) -> str:
    return git.line("symbolic-ref", "-q", "HEAD", ok=(0, 1)).removeprefix("refs/heads/")


def _require_ahead(git: Git, run: str, branch: str, before: str, commit: str) -> None:
    if git.ask("cat-file", "-e", f"{commit}^{{commit}}", ok=(0, 1, 128)).code:
        raise WorkspaceError(f"The commit {commit[:12]} of {run} is not in the repository; publish it first.")
    if git.ask("merge-base", "--is-ancestor", before, commit, ok=(0, 1)).code:
        raise LandConflict(
            f"'{branch}' has moved on since {run} began; merge it into the run's branch first."
        )


def _forward_checkout(git: Git, repo: Repo, branch: str, before: str, commit: str) -> None:
    for name, deed in UNFINISHED.items():
        if (repo.git_dir / name).exists():
            raise WorkspaceError(f"A {deed} is under way in {repo.root}; finish or abort it, then land.")
    if is_dirty(repo, untracked=False, against=before):
        _finish(git, repo, before, commit)
        return
    options = ("--ff-only", "--quiet", "--no-stat", "--no-autostash", "--no-verify-signatures")
    result = git.ask("merge", *options, "--no-overwrite-ignore", commit, ok=range(256))
    if result.code:
        message = result.err.decode("utf-8", "replace").strip().replace("\n", " ").replace("\t", " ")
        raise WorkspaceError(f"git would not fast-forward '{branch}' in {repo.root}: {message[:500]}")


def _finish(git: Git, repo: Repo, before: str, commit: str) -> None:
    """Files and index are the commit's already, as after a crash just before the branch moved; or they are dirty."""
    if is_dirty(repo, untracked=False, against=commit):
        raise WorkspaceError(f"{repo.root} has uncommitted changes; commit or stash them, then land.")
    git("update-ref", "-m", "flyball land", "HEAD", commit, before)


def _forward_branch(git: Git, branch: str, before: str, commit: str) -> None:
    ref = f"refs/heads/{branch}"
    place = git.line("for-each-ref", "--format=%(worktreepath)", ref)
    if place:
        raise WorkspaceError(f"'{branch}' is checked out in {place}; land from there, or check out another.")
    git("update-ref", "--no-deref", "-m", "flyball land", ref, commit, before)


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
    revisions = "".join(f"{branch.commit}\n" for branch in branches)
    options = ("--objects", "--disk-usage", "--stdin", "--not", "--exclude=flyball/*", "--branches")
    size = _git_of(root).line("rev-list", *options, stdin=revisions.encode(), ok=(0, 128, 129))
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
    revisions = "".join([*(f"{one}\n" for one in commits), *(f"^{one}\n" for one in others)])
    return set(git.line("rev-list", "--stdin", stdin=revisions.encode()).splitlines())


def _git_of(root: Path) -> Git:
    if not root.is_dir():
        raise WorkspaceError(f"The repository {root} no longer exists.")
    git_dir = text(reading_user(root, "rev-parse", "--absolute-git-dir").out).rstrip("\n")
    return user_git(Path(os.path.realpath(git_dir)))


# ---- the remote ------------------------------------------------------------------------------------------------

REJECTED = (b"[rejected]", b"non-fast-forward", b"[remote rejected]", b"fetch first")


def address(repo: Repo, remote: str) -> str:
    """The URL of a remote; "" if there is no such remote."""
    result = reading_user(repo.root, "remote", "get-url", "--", remote, ok=range(256))
    return text(result.out).strip() if result.code == 0 else ""


def push(repo: Repo, remote: str, commit: str, branch: str, env: Mapping[str, str], token: str = "") -> None:
    """Where the remote's branch has other commits, nothing is overwritten: that is a LandConflict."""
    url = address(repo, remote)
    settings = {"core.hooksPath": "/dev/null"}
    if token and url.startswith("https://"):
        login = base64.b64encode(f"x-access-token:{token}".encode()).decode()
        settings["http.extraHeader"] = f"Authorization: Basic {login}"
    refspec = f"{commit}:refs/heads/{branch}"
    result = as_user(repo.root, env, settings, "push", "--no-verify", "--quiet", "--", remote, refspec)
    if result.code == 0:
        return
    lines = [text(line).strip() for line in result.err.splitlines() if line.strip()]
    why = next(
        (line for line in lines if line.startswith(("fatal:", "remote:", "!"))), lines[-1] if lines else ""
    )
    if any(word in result.err for word in REJECTED):
        raise LandConflict(f"The remote '{remote}' refuses {branch}: {why.lstrip('! ')[:300]}.")
    raise WorkspaceError(f"{branch} cannot be pushed to '{remote}': {why.removeprefix('fatal: ')[:300]}.")
