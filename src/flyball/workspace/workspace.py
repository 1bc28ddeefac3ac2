"""A run's own checkout: its trees, changes and checkpoints.

    <run>/checkout   the agent's files, with a git directory that the agent may use or damage
    <run>/git        Flyball's git directory: trees, checkpoints, kept changes; the only one that Flyball reads
    <run>/objects    a link to the user's object store, the only part of the repository that the agent can read
    <run>/proof      a second, clean checkout in which proofs run

Only `publish` writes to the user's repository, and only to its own branch: it runs no hook, writes no log, and does not
touch HEAD, index, stash and configuration. The branch moves only from where Flyball left it, and only after everything
it reaches is there.
"""

import contextlib
import os
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from flyball.errors import WorkspaceError
from flyball.guard.change import Change
from flyball.state_dir import RunDir, remove, remove_too_deep, unlock
from flyball.views.text import day_and_clock
from flyball.workspace import changes, checkouts
from flyball.workspace.changes import Links
from flyball.workspace.checkouts import TOO_DEEP_MOST, Record, build, read_record, write_record
from flyball.workspace.files import Files, Ignored, edited, paths
from flyball.workspace.git import (
    Git,
    Objects,
    Plan,
    config_text,
    numbers_in,
    raw,
    read_ref,
    require_git,
    text,
    write_ref,
    write_whole,
)
from flyball.workspace.repo import Repo, user_git

TURN = "refs/flyball/turn/"
KEPT = re.compile(r"(?:(quarantine|interrupted|by-hand)/)?([A-Za-z0-9][A-Za-z0-9._-]*)")
MERGE_TREE = (2, 38)

LOOSE_MAX = 100
LOCK_AGE_S = 10
PUBLISHED, PUBLISHING = "refs/flyball/published", "refs/flyball/publishing"


class MergeResult(Struct, frozen=True):
    """A merge's tree; where there are conflicts, it holds their marks."""

    tree: str
    conflicts: tuple[str, ...]


class Point(NamedTuple):
    """A commit and its tree."""

    commit: str
    tree: str


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
            is_head = any(self.ref.encode() in head.read_bytes() for head in heads)
        except OSError:
            return True
        return is_head or (self.common_dir / "reftable").exists()

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

    def _send(self, commit: str, exclude: Sequence[str]) -> None:
        """The objects the user's store lacks, and then the proof that none is missing."""
        revisions = f"{commit}\n" + "".join(f"^{oid}\n" for oid in exclude)
        pack = self.own("pack-objects", "-q", "--revs", "--stdout", stdin=revisions.encode())
        count = int.from_bytes(pack[8:12], "big")
        if count:
            reader = ["unpack-objects", "-q"] if count <= LOOSE_MAX else ["index-pack", "--stdin"]
            self.user(*reader, stdin=pack)
        self.user("rev-list", "--objects", "--quiet", commit, *(f"^{oid}" for oid in exclude))

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


class Workspace:
    """One run's checkout. `dir` is the run's folder in the state directory."""

    def __init__(self, dir: Path, record: Record) -> None:  # noqa: A002
        self.dir, self.places = dir, RunDir(dir)
        self.record = record
        self.checkout, self.git_dir, self.objects = self.places.checkout, self.places.git, self.places.objects
        self.repo_root = Path(record.repo_root)
        self.base_commit = record.base_commit
        self.base_tree = record.base_tree
        self.branch = f"flyball/{record.run}"
        self._git = Git(self.git_dir)
        self._files = Files(
            self._git, self.checkout, self.git_dir / "index", self.git_dir / "rules", record.always
        )
        self._ignored = Ignored(self._files, self.git_dir / "index.ignored")
        self._listed: list[bytes] | None = None  # the ignored files, as `special_files` last listed them
        self._objects = Objects(self._git)
        self._links = Links(self._git, self._objects, self.git_dir / "links.json")
        self._heal()

    @classmethod
    def create(
        cls,
        dir: Path,  # noqa: A002
        repo: Repo,
        run: str,
        with_changes: bool = False,
        hidden: Sequence[str] = (),
    ) -> "Workspace":
        """A new workspace, or the one already there. `hidden` are further ignore rules, for shared folders."""
        require_git()
        record = read_record(dir)
        if record is None:
            record = build(dir, repo, run, with_changes, hidden)
            workspace = cls(dir, record)
            workspace._place(record.base_tree)
            write_record(dir, record)
        elif (record.run, record.repo_root) != (run, str(repo.root)):
            raise WorkspaceError(
                f"{dir} already belongs to run {record.run} of {record.repo_root}; choose another folder."
            )
        return cls(dir, record)

    @classmethod
    def open(cls, dir: Path) -> "Workspace":  # noqa: A002
        record = read_record(dir)
        if record is None and (pruning := RunDir(dir).last_pruning()):
            raise WorkspaceError(
                f"The files of run {dir.name} were pruned on {day_and_clock(pruning.at)}. Its journal, certificate and "
                "result commit are kept."
            )
        if record is None:
            raise WorkspaceError(f"There is no checkout in {dir}; start the run again.")
        if not Path(record.common_dir, "objects").is_dir():
            raise WorkspaceError(f"The repository {record.repo_root} is missing; put it back, then resume.")
        return cls(dir, record)

    def _heal(self) -> None:
        """Put our own configuration back if it was changed, and remove drafts that a crash left."""
        expected = config_text(self.record.object_format, bare=True).encode()
        if (self.git_dir / "config").read_bytes() != expected:
            write_whole(self.git_dir / "config", expected)
        for stray in ("config.worktree", "commondir", "info/grafts"):
            remove(self.git_dir / stray)
        for draft in self.git_dir.glob("index*.draft*"):
            if not _lives(draft.name):
                draft.unlink(missing_ok=True)

    # what is there

    def tree(self) -> str:
        """The tree id of the checkout now, by the base's ignore rules."""
        self._listed = None
        return self._files.tree()

    def changes(self, old_tree: str, new_tree: str) -> list[Change]:
        difference = changes.diff(self._git, old_tree, new_tree)
        self._links.follow(old_tree, new_tree, difference.rows)
        return changes.changes(difference, self._objects)

    def user_modes(self) -> str:
        """The modes of what decides in the user's own git directory."""
        files = (Path(self.record.common_dir, name) for name in ("", "config", "hooks", "HEAD"))
        return " ".join(f"{path.name}:{path.stat().st_mode:o}" for path in files if path.exists())

    def special_files(self) -> list[Change]:
        """What no tree can show: outside hard links, special files and bits, repositories within."""
        try:
            return self._special_files()
        except (OSError, WorkspaceError):
            unlock(self.checkout)
            return self._special_files()

    def _special_files(self) -> list[Change]:
        self._listed = self._files.ignored()
        return changes.special_files(self.checkout, self._listed)

    def diff(self, old_tree: str, new_tree: str, color: bool = False, stat: bool = False) -> str:
        shape = ["--stat=100"] if stat else ["-p"]
        hue = f"--color={'always' if color else 'never'}"
        options = ("-r", "-M", "--no-ext-diff", "--no-textconv", hue, *shape)
        return self._git("diff-tree", *options, old_tree, new_tree).decode("utf-8", "replace")

    def read(self, tree: str, path: str) -> bytes:
        """The content of one file of a tree."""
        return self._git("cat-file", "blob", f"{tree}:{path}")

    def read_all(self, queries: Sequence[tuple[str, str]]) -> list[bytes | None]:
        """The content of each (tree, path); None for what is not a file of that tree."""
        return self._objects.blobs([f"{tree}:{path}" for tree, path in queries])

    def paths(self, tree: str) -> list[str]:
        """Every plain file of a tree."""
        return paths(self._git, tree)

    def edited(self, tree: str, changes: Mapping[str, bytes | None]) -> str:
        """The tree with these files replaced, added or (None) removed."""
        return edited(self._git, tree, changes, like=self.base_tree)

    def links(self, tree: str) -> dict[str, str]:
        """Every symbolic link of a tree and its target."""
        return self._links.of(tree)

    def agent_git_report(self) -> list[str]:
        return checkouts.report(self._clone(), self.checkout)

    def object_stores(self) -> list[Path]:
        """The folders of objects the checkout's git reads, the user's first."""
        stores = [Path(os.path.realpath(self.objects))]
        for store in stores:
            listed = store / "info/alternates"
            lines = listed.read_text().splitlines() if listed.exists() else []
            further = [Path(os.path.realpath(store / line)) for line in lines if line and line[0] not in '#"']
            stores += [path for path in further if path not in stores and len(stores) < 20]
        return stores

    def hide_additions(self) -> None:
        """Ignore from now on whatever is there beyond the base: setup made it, not the agent."""
        paths = [text(name).strip("/") for name in self._files.untracked() if b"\n" not in name]
        rules = self.git_dir / "rules"
        added = b"".join(b"/" + raw(checkouts.literal(path)) + b"\n" for path in paths)
        write_whole(rules, rules.read_bytes() + added)

    # what is kept

    def checkpoint(self, tree: str, turn: int, message: str) -> str:
        """The tree as that turn's checkpoint, on the one before; ignored files are kept with it."""
        ignored = self._files.ignored() if self._listed is None else self._listed
        self._ignored.save(turn, ignored)
        commit = read_ref(self.git_dir, f"{TURN}{turn}")
        if commit and self._git.line("rev-parse", f"{commit}^{{tree}}") == tree:
            return commit
        before = [number for number in numbers_in(self.git_dir / TURN) if number < turn]
        parent = read_ref(self.git_dir, f"{TURN}{max(before)}") if before else self.base_commit
        commit = self._commit(tree, message, [parent])
        write_ref(self.git_dir, f"{TURN}{turn}", commit)
        return commit

    def turns(self) -> dict[int, Point]:
        """Every checkpoint, by its turn."""
        if not numbers_in(self.git_dir / TURN):
            return {}
        rows = self._git.line("for-each-ref", "--format=%(refname) %(objectname) %(tree)", TURN).splitlines()
        pairs = (row.split(" ") for row in rows)
        return dict(sorted((int(name.removeprefix(TURN)), Point(oid, tree)) for name, oid, tree in pairs))

    def keep(self, tree: str, name: str) -> str:
        """The tree under refs/flyball/quarantine/<name>, or interrupted/ or by-hand/ if the name says so."""
        match = KEPT.fullmatch(name)
        if not match or ".." in name or name.endswith(".lock"):
            raise WorkspaceError(f"'{name}' cannot name a kept change; use letters, digits, '-' and '_'.")
        ref = f"refs/flyball/{match[1] or 'quarantine'}/{match[2]}"
        write_ref(self.git_dir, ref, self._commit(tree, f"Kept: {name}", [self._latest().commit]))
        return ref

    def kept(self, ref: str) -> str:
        """The tree kept under a reference."""
        if not read_ref(self.git_dir, ref):
            raise WorkspaceError(f"No change is kept under {ref}.")
        return self._git.line("rev-parse", f"{ref}^{{tree}}")

    def commit(self, tree: str, message: str, parents: Sequence[str] | None = None) -> str:
        """A commit by the user of this tree, on the base unless other parents are given."""
        author = replace(self._git, author=self.record.author)
        return _commit(author, tree, message, parents if parents is not None else [self.base_commit])

    def _commit(self, tree: str, message: str, parents: Sequence[str]) -> str:
        return _commit(self._git, tree, message, parents)

    def _latest(self) -> Point:
        points = self.turns()
        return points[max(points)] if points else Point(self.base_commit, self.base_tree)

    # what is put back

    def restore(self, tree: str, ignored_from_turn: int | None = None) -> None:
        """The checkout holds exactly this tree; its git is new, its branch at the nearest checkpoint."""
        self._drop_strays()
        self._files.put(tree)
        if ignored_from_turn is not None:
            self._ignored.put(ignored_from_turn)
        self._place(tree)

    def _drop_strays(self) -> None:
        if not self.checkout.is_dir() or self.checkout.is_symlink():
            return
        for stray in self._strays():
            inner = "/.git" if stray.mode == changes.GITLINK else ""
            remove(self.checkout / (stray.path + inner))

    def _strays(self) -> list[Change]:
        for _ in range(TOO_DEEP_MOST):
            try:
                return self.special_files()
            except OSError as problem:
                remove_too_deep(self.checkout, problem)
        raise WorkspaceError(
            f"{self.checkout} holds folders nested deeper than a path can name; remove them."
        )

    def _place(self, tree: str) -> None:
        near = self._near(tree)
        staged = None if near.tree == tree else self._commit(tree, "Put back", [near.commit])
        checkouts.place(self._clone(), self.checkout, near.commit, self.git_dir / "index", staged)

    def _near(self, tree: str) -> Point:
        """The newest checkpoint of this tree; the base if it is the base's; else the newest checkpoint."""
        points = [Point(self.base_commit, self.base_tree), *self.turns().values()]
        return next((point for point in reversed(points) if point.tree == tree), points[-1])

    def _clone(self) -> checkouts.Clone:
        shallow = self.git_dir / "shallow"
        rows = (line.split(" ", 1) for line in (self.git_dir / "packed-refs").read_text().splitlines())
        plan = Plan(
            self.record.object_format,
            [self.objects],
            f"refs/heads/{self.branch}",
            {name: oid for oid, name in rows},
            shallow.read_bytes() if shallow.exists() else b"",
        )
        return checkouts.Clone(self._git, plan, [self.record.head])

    # what is proved

    def proof_checkout(self, tree: str, keep: Sequence[str] = ()) -> Path:
        """A clean checkout of the tree. Paths in `keep`, made there by setup, stay; all else that is left goes."""
        room = checkouts.Room.of(self._files, self.dir)
        room.prepare(tree, keep)
        near = self._near(tree)
        commit = near.commit if near.tree == tree else self._commit(tree, "Under proof", [near.commit])
        checkouts.place(self._clone(), room.root, commit, room.index)
        return room.root

    def proof_tree(self) -> str:
        """The tree of the proof's checkout now; what setup made and the base ignores does not count."""
        return checkouts.Room.of(self._files, self.dir).tree()

    def proof_extras(self) -> list[str]:
        """What is in the proof's checkout beyond its tree: after setup ran there, what setup made."""
        return checkouts.Room.of(self._files, self.dir).extras()

    # what is given back

    def publish(self, commit: str) -> None:
        """The user's repository has the branch of this run at the commit; nothing else of it changes."""
        self._branch().publish(commit)

    def published(self) -> str:
        """The commit last published; empty if none was."""
        return read_ref(self.git_dir, PUBLISHED)

    def left_at(self) -> set[str]:
        """Where the run's branch may be by our own doing, also if we were killed while it moved."""
        return {read_ref(self.git_dir, name) for name in (PUBLISHED, PUBLISHING)} - {""}

    def _branch(self) -> Branch:
        user = user_git(Path(self.record.git_dir))
        return Branch(self._git, user, Path(self.record.common_dir), self.branch, self.record.head)

    def merge(self, target_commit: str, ours: str | None = None) -> MergeResult:
        """The run's commit (the one published, unless named) and the target, merged; nothing is written."""
        if require_git() < MERGE_TREE:
            raise WorkspaceError("Merging a target that has moved needs git 2.38 or newer; update git.")
        mine = ours or self.published() or self._latest().commit
        options = ("--write-tree", "-z", "--name-only", "--no-messages")
        answer = self._git.ask("merge-tree", *options, mine, target_commit, ok=(0, 1))
        tree, *conflicts = answer.out.rstrip(b"\0").split(b"\0")
        conflicting = tuple(dict.fromkeys(text(path) for path in conflicts if path))
        return MergeResult(text(tree).strip(), conflicting if answer.code else ())

    def follows(self, commit: str, earlier: str) -> bool:
        """Whether the commit is the earlier one or has it in its history."""
        return self._git.ask("merge-base", "--is-ancestor", earlier, commit, ok=(0, 1, 128)).code == 0

    def tree_of(self, commit: str) -> str:
        return self._git.line("rev-parse", f"{commit}^{{tree}}")

    def close(self, remove_checkout: bool) -> str:
        """Clean up. The checkout goes only if nothing in it would be lost; else a sentence says why it stays."""
        remove(self.places.proof)
        remove(self.git_dir / "index.proof")
        if not remove_checkout or not self.checkout.exists():
            return ""
        if self.tree() not in self._safe_trees():
            return f"{self.checkout} holds changes that no checkpoint has; it was kept."
        remove(self.checkout)
        return ""

    def _safe_trees(self) -> set[str]:
        """Of the last checkpoint, and of what was published; a merge has the run's own work as a parent."""
        published, safe = self.published(), {self._latest().tree}
        if published:
            output = self._git("log", "--no-walk", "--format=%T", published, f"{published}^@")
            safe |= set(text(output).split())
        return safe


def _commit(git: Git, tree: str, message: str, parents: Sequence[str]) -> str:
    options = [part for parent in parents for part in ("-p", parent)]
    text_ = message.replace("\0", "").encode("utf-8", "replace")
    return git.line("commit-tree", tree, *options, "-F", "-", stdin=text_)


def _lives(draft: str) -> bool:
    """Whether the process that a draft names is still there."""
    match = re.search(r"\.(\d+)\.\d+\.draft", draft)
    if not match or int(match[1]) == os.getpid():
        return bool(match)
    return Path(f"/proc/{match[1]}").exists() if Path("/proc/self").exists() else True
