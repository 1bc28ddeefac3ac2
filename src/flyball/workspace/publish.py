"""What Flyball writes to the user's repository: the branch `flyball/<run>` with its objects, and landing.

Publishing runs no hook, writes no log, and does not touch HEAD, index, stash and configuration. The branch moves only
from where Flyball left it, and only after everything it reaches is there. A run's branch is merged if another branch of
the user's holds its commit: deleting it loses nothing.

`land` fast-forwards the user's branch to a run's commit. It is the only place where the user's files and index are
written; git's own fast-forward, without hooks, refuses by itself whatever would overwrite a file of theirs.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from flyball.errors import LandConflict, WorkspaceError
from flyball.workspace.git import Git, Objects, read_ref, reading_user, text, write_ref
from flyball.workspace.repo import INERT, Repo, is_dirty, user_git

LOOSE_MAX = 100
LOCK_AGE_S = 10
PUBLISHED, PUBLISHING = "refs/flyball/published", "refs/flyball/publishing"


class Branch(Struct, frozen=True):
    """The run's branch in the user's repository, and the run's own git directory."""

    own: Git
    user: Git
    common_dir: Path
    name: str
    head: str

    @property
    def ref(self) -> str:
        return f"refs/heads/{self.name}"

    def publish(self, commit: str) -> None:
        """Send what the repository lacks, then move the branch from where we left it.

        Where the branch really is, git tells when it moves it; it is asked before only where that would say too little.
        """
        last = read_ref(self.own.git_dir, PUBLISHED)
        crashed = read_ref(self.own.git_dir, PUBLISHING) != last
        if last == commit or crashed or self._may_be_checked_out() or not self._sent(commit, last):
            self._publish_carefully(commit)
        write_ref(self.own.git_dir, PUBLISHED, commit)

    def _sent(self, commit: str, last: str) -> bool:
        write_ref(self.own.git_dir, PUBLISHING, commit)
        try:
            self._send(commit, [oid for oid in (self.head, last) if oid])
            self._move(commit, last)
        except WorkspaceError:
            return False
        return True

    def _may_be_checked_out(self) -> bool:
        """By the files in which git keeps each worktree's HEAD; only git can read a reftable."""
        heads = [self.common_dir / "HEAD", *self.common_dir.glob("worktrees/*/HEAD")]
        try:
            named = any(self.ref.encode() in head.read_bytes() for head in heads)
        except OSError:
            return True
        return named or (self.common_dir / "reftable").exists()

    def _publish_carefully(self, commit: str) -> None:
        now, place = self._now()
        if now != commit:
            self._refuse(now, place)
            write_ref(self.own.git_dir, PUBLISHING, commit)
            self._send(commit, self._known([oid for oid in (self.head, now) if oid]))
            self._move(commit, now)

    def _now(self) -> tuple[str, str]:
        """Where the branch is now, and the folder in which it is checked out; empty for none."""
        listing = self.user.line(
            "for-each-ref", "--format=%(refname) %(objectname) %(worktreepath)", self.ref
        )
        rows = (row.split(" ", 2) for row in listing.splitlines())
        return next(((oid, place) for name, oid, place in rows if name == self.ref), ("", ""))

    def _refuse(self, now: str, place: str) -> None:
        ours = {read_ref(self.own.git_dir, name) for name in (PUBLISHED, PUBLISHING)}
        if now and now not in ours:
            raise WorkspaceError(
                f"Somebody else moved the branch {self.name} to {now[:12]}; rename it, so that Flyball can "
                "create it again."
            )
        if place:
            raise WorkspaceError(
                f"The branch {self.name} is checked out in {place}; check out another there."
            )

    def _send(self, commit: str, known: Sequence[str]) -> None:
        """The objects the user's store lacks, and then the proof that none is missing."""
        revisions = f"{commit}\n" + "".join(f"^{oid}\n" for oid in known)
        pack = self.own("pack-objects", "-q", "--revs", "--stdout", stdin=revisions.encode())
        count = int.from_bytes(pack[8:12], "big")
        if count:
            reader = ["unpack-objects", "-q"] if count <= LOOSE_MAX else ["index-pack", "--stdin"]
            self.user(*reader, stdin=pack)
        self.user("rev-list", "--objects", "--quiet", commit, *(f"^{oid}" for oid in known))

    def _known(self, oids: Sequence[str]) -> list[str]:
        """Those of the objects that are in our own store."""
        return list(Objects(self.own).sizes(oids))

    def _move(self, commit: str, now: str) -> None:
        self._drop_stale_lock()
        old = now or "0" * len(commit)
        self.user("update-ref", "--no-deref", self.ref, commit, old)

    def _drop_stale_lock(self) -> None:
        """Left by a git of ours that was killed; nobody else writes this branch."""
        lock = self.common_dir / f"{self.ref}.lock"
        with contextlib.suppress(OSError):
            if time.time() - lock.stat().st_mtime > LOCK_AGE_S:
                lock.unlink()


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
        raise WorkspaceError(f"The repository {root} no longer exists.")
    found = text(reading_user(root, "rev-parse", "--absolute-git-dir").out).rstrip("\n")
    return user_git(Path(os.path.realpath(found)))
