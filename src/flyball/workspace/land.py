"""Landing: the user's branch takes over a run's commit, by fast-forward and in no other way.

This is the only place where the user's files and index are written; it is git's own fast-forward, without hooks,
which refuses by itself whatever would overwrite a file of theirs, ignored ones included.
"""

from msgspec import Struct

from flyball.errors import LandConflict, WorkspaceError
from flyball.workspace.git import Git
from flyball.workspace.repo import INERT, Repo, is_dirty

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
    git = _landing_git(repo)
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
    done = git.ask("merge", *options, "--no-overwrite-ignore", commit, ok=range(256))
    if done.code:
        said = done.err.decode("utf-8", "replace").strip().replace("\n", " ").replace("\t", " ")
        raise WorkspaceError(f"git would not fast-forward '{branch}' in {repo.root}: {said[:500]}")


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
