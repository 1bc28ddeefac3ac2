"""Publish a run to the user's repository: the branch `flyball/<run>` and the objects it needs.

No hook runs, no log is written, and HEAD, index, stash and configuration are not touched. The branch moves only from
where Flyball left it, and only after everything it reaches is there.
"""

import contextlib
import time
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from flyball.errors import WorkspaceError
from flyball.workspace.git import Git
from flyball.workspace.objects import Objects
from flyball.workspace.store import read_ref, write_ref

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


def missing_objects(git: Git, commit: str) -> list[str]:
    """Ids of objects of this commit's tree that are missing."""
    listed = git.line("rev-list", "--objects", "--missing=print", "--no-walk", commit, ok=(0, 128))
    if not listed:
        return [commit]
    return [line[1:] for line in listed.splitlines() if line.startswith("?")]
