"""Making the checkouts of a run: Flyball's git directory, the pinned rules, the files, the agent's git, the
proof's checkout.

After a crash in the middle there is no record yet, and the workspace is created again from nothing.

A `Clone` is a git directory for someone else to use: the agent in its checkout, the tests in a proof's. It borrows
objects from the user's store through a path outside the repository, has no remotes, and is created anew whenever the
files are restored. Flyball never runs git in it and never trusts it; it only checks whether the agent left hooks or
settings there, to report them. A `Room` is the checkout in which proofs run: the files of one tree, what setup
made, and
nothing left by earlier proofs.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from flyball.errors import TooDeep, WorkspaceError
from flyball.state_dir import remove, remove_too_deep
from flyball.workspace.changes import special_files
from flyball.workspace.files import Files
from flyball.workspace.git import (
    EMAIL,
    NAME,
    Git,
    Plan,
    config_text,
    make_git_dir,
    names,
    pack_into,
    raw,
    text,
    write_whole,
)
from flyball.workspace.repo import Repo, attribute_rules, entries, ignore_rules, is_dirty, snapshot_changes


class Clone(Struct, frozen=True):
    """What such a git directory is made from; `commits` are in the user's store."""

    git: Git
    plan: Plan
    commits: Sequence[str]


def place(clone: Clone, checkout: Path, commit: str, index: Path, staged: str | None = None) -> None:
    """Create the checkout's .git, with its branch at the commit; `staged` is a commit of what the index holds, if
    that differs from the branch's tree.
    """
    draft = checkout.with_name(f"{checkout.name}.git.new")
    remove(draft)
    refs = dict(clone.plan.refs) | {clone.plan.head: commit}
    try:
        make_git_dir(draft, replace(clone.plan, refs=refs, bare=False))
        if (staged or commit) not in clone.commits:
            pack_into(clone.git, draft, [staged or commit], clone.commits)
        shutil.copy2(index, draft / "index")
        remove(checkout / ".git")
        draft.rename(checkout / ".git")
    except OSError as err:
        raise WorkspaceError(f"{checkout}/.git cannot be made: {err.strerror}.") from err


def report(clone: Clone, checkout: Path) -> list[str]:
    """A sentence for each thing in the agent's .git that could run a program or redirect git, if it were used."""
    path = checkout / ".git"
    if path.is_symlink():
        return [f"The agent replaced its .git by a link to {os.readlink(path)}; Flyball does not follow it."]  # noqa: PTH115
    if not path.is_dir():
        return ["The agent removed its .git; Flyball works without it." if not path.exists() else _FILE]
    try:
        return [*_settings(clone, path), *_hooks(path), *_redirects(clone, path)]
    except OSError:
        return ["The agent made its git folder unreadable; Flyball works without it."]


_FILE = "The agent replaced its .git folder by a file; Flyball does not follow it."


def _settings(clone: Clone, path: Path) -> list[str]:
    expected = config_text(clone.plan.object_format, bare=False).splitlines()
    lines = _read(path / "config").decode("utf-8", "replace").splitlines()
    added = [
        line.strip() for line in lines if line.strip() and line not in expected and not _is_harmless(line)
    ]
    examples = "; ".join(added[:3])
    messages = (
        [f"The agent changed its git configuration ({examples[:200]}); it has no effect here."]
        if added
        else []
    )
    if _read(path / "config.worktree").strip():
        messages.append("The agent added a config.worktree to its git folder; it has no effect here.")
    return messages


def _is_harmless(line: str) -> bool:
    """Section headings are harmless; a user name and an email address are the agent's choice."""
    key = line.partition("=")[0].strip().lower()
    return key.startswith("[") or key in ("name", "email", "merge", "remote")


def _hooks(path: Path) -> list[str]:
    folder = path / "hooks"
    if folder.is_symlink() or not folder.is_dir():
        return (
            ["The agent replaced its git hooks folder; it has no effect here."] if folder.is_symlink() else []
        )
    names = sorted(entry.name for entry in folder.iterdir() if not entry.name.endswith(".sample"))
    return [f"The agent added the git hook '{name}'; it has no effect here." for name in names[:20]]


def _redirects(clone: Clone, path: Path) -> list[str]:
    problems: list[str] = []
    if _read(path / "info/attributes") != clone.plan.attributes:
        problems.append("The agent added attributes to its git folder; they have no effect here.")
    stores = {os.fsencode(store) for store in clone.plan.alternates}
    if not stores >= {line.strip(b'"') for line in _read(path / "objects/info/alternates").splitlines()}:
        problems.append("The agent made its git borrow objects from elsewhere; Flyball does not.")
    if (path / "commondir").exists():
        problems.append("The agent made its git share another repository; Flyball does not.")
    return problems


def _read(path: Path) -> bytes:
    """The start of an ordinary file; empty for anything else."""
    try:
        if not stat.S_ISREG(path.lstat().st_mode):
            return b""
        with path.open("rb") as file:
            return file.read(1 << 20)
    except OSError:
        return b""


TOO_DEEP_MOST = 20  # top-level folders whose contents are nested too deep
PARTS = ("git", "checkout", "checkout.git.new", "proof", "proof.git.new", "objects")
RUN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
FILE = "workspace.json"


class Record(Struct, frozen=True):
    """What a workspace remembers of its start; written last, so without a record there is no workspace.

    `head` is the user's commit; the base is that commit, or their uncommitted changes on top of it.
    """

    run: str
    repo_root: str
    git_dir: str
    common_dir: str
    object_format: str
    head: str
    branch: str
    base_commit: str
    base_tree: str
    author: tuple[str, str]
    always: tuple[bytes, ...] = ()


def read_record(folder: Path) -> Record | None:
    try:
        return msgspec.json.decode((folder / FILE).read_bytes(), type=Record)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError) as err:
        raise WorkspaceError(f"{folder / FILE} cannot be read ({err}); the run's checkout is lost.") from err


def write_record(folder: Path, record: Record) -> None:
    write_whole(folder / FILE, msgspec.json.encode(record))


def build(folder: Path, repo: Repo, run: str, with_changes: bool, hidden: Sequence[str]) -> Record:
    """Create everything except the agent's git directory; the caller adds that and writes the record."""
    if not RUN_NAME.fullmatch(run) or run.endswith((".lock", ".")) or ".." in run:
        raise WorkspaceError(f"'{run}' cannot be part of a branch name; use letters, digits, '-' and '_'.")
    _clear(folder, repo)
    git = _own_git(folder, repo)
    base_commit, base_tree = _base(git, repo, with_changes)
    always = _pin_rules(git, base_tree, repo, hidden)
    Files(git, folder / "checkout", folder / "git/index", folder / "git/rules", always).put(base_tree)
    return Record(
        run=run,
        repo_root=str(repo.root),
        git_dir=str(repo.git_dir),
        common_dir=str(repo.common_dir),
        object_format=repo.object_format,
        head=repo.head,
        branch=repo.branch,
        base_commit=base_commit,
        base_tree=base_tree,
        author=_author(repo),
        always=always,
    )


def _clear(folder: Path, repo: Repo) -> None:
    """The folder without the parts of a workspace; `objects` is where the user's store is."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for part in PARTS:
            remove(folder / part)
        (folder / "checkout").mkdir()
        (folder / "objects").symlink_to(repo.objects)
    except OSError as err:
        raise WorkspaceError(f"{folder} cannot be made: {err.strerror}.") from err


def _own_git(folder: Path, repo: Repo) -> Git:
    refs = _known_refs(repo)
    plan = Plan(repo.object_format, [folder / "objects"], repo.head, refs, repo.shallow)
    make_git_dir(folder / "git", plan)
    return Git(folder / "git")


def _known_refs(repo: Repo) -> dict[str, str]:
    """The branch that the run starts from, and the tags: `git describe` needs them to name a version."""
    listed = repo.git.line("for-each-ref", "--format=%(objectname) %(refname)", "refs/tags")
    refs = {name: oid for oid, _, name in (row.partition(" ") for row in listed.splitlines())}
    return refs | ({f"refs/heads/{repo.branch}": repo.head} if repo.branch else {})


def _base(git: Git, repo: Repo, with_changes: bool) -> tuple[str, str]:
    """The commit that the run starts from, and its tree."""
    if not (with_changes and is_dirty(repo)):
        return repo.head, repo.tree
    tree = snapshot_changes(repo, git.git_dir / "objects")
    return git.line("commit-tree", tree, "-p", repo.head, "-m", "Uncommitted changes"), tree


def _pin_rules(git: Git, tree: str, repo: Repo, hidden: Sequence[str]) -> tuple[bytes, ...]:
    """The ignore rules of the base; returns the tracked files that they would ignore."""
    files = entries(git, tree)
    rules, index = git.git_dir / "rules", git.git_dir / "index.rules"
    own = [rule.encode("utf-8", "surrogateescape") for rule in hidden]
    rules.write_bytes(ignore_rules(git, files, repo.excludes) + b"".join(rule + b"\n" for rule in own))
    (git.git_dir / "info/attributes").write_bytes(attribute_rules(git, files))
    git = git.over(work_tree=git.git_dir.parent / "checkout", index=index)
    git("read-tree", tree)
    always = git("ls-files", "-z", "--cached", "--ignored", f"--exclude-from={rules}")
    index.unlink()
    return tuple(names(always))


def _author(repo: Repo) -> tuple[str, str]:
    name, email = repo.settings.get("user.name", ""), repo.settings.get("user.email", "")
    return (name, email) if name and email else (NAME, EMAIL)


class Room(Struct, frozen=True):
    """The checkout in which proofs run. `files` have an index of their own."""

    files: Files
    note: Path

    @classmethod
    def of(cls, files: Files, folder: Path) -> Room:
        git_dir = files.git.git_dir
        return cls(
            replace(files, root=folder / "proof", index=git_dir / "index.proof"), git_dir / "proof-keep.json"
        )

    @property
    def root(self) -> Path:
        return self.files.root

    @property
    def index(self) -> Path:
        return self.files.index

    def prepare(self, tree: str, keep: Sequence[str]) -> None:
        """Make the checkout hold this tree and the kept paths."""
        paths = [path.strip("/") for path in keep if path.strip("/")]
        write_whole(self.note, msgspec.json.encode(paths))
        self._drop_strays(paths)
        self._content().put(tree)
        if self._clear(paths) and self.tree() != tree:
            raise WorkspaceError(
                f"The files of tree {tree} cannot be written to {self.root}; look at what setup keeps there."
            )

    def tree(self) -> str:
        return self._content().tree()

    def extras(self) -> list[str]:
        return [text(name).rstrip("/") for name in self.files.extras()]

    def _content(self) -> Files:
        """The files without what setup made."""
        paths: list[str] = (
            msgspec.json.decode(self.note.read_bytes(), type=list[str]) if self.note.exists() else []
        )
        return replace(self.files, hidden=tuple("/" + literal(path) for path in paths))

    def _drop_strays(self, keep: Sequence[str]) -> None:
        if not self.root.is_dir() or self.root.is_symlink():
            return
        for _ in range(TOO_DEEP_MOST):
            try:
                strays = special_files(self.root, [raw(path) for path in keep])
            except OSError as problem:
                remove_too_deep(self.root, problem)
            else:
                for stray in strays:
                    remove(self.root / stray.path)
                return
        raise TooDeep(f"{self.root} holds folders nested deeper than a path can name; remove them.")

    def _clear(self, keep: Sequence[str]) -> bool:
        """Remove what is neither in the tree nor kept; returns whether there was anything."""
        extras = self.extras()
        for path in extras:
            self._clear_path(path, keep)
        return bool(extras)

    def _clear_path(self, path: str, keep: Sequence[str]) -> None:
        """Remove it, except for what is kept inside it."""
        if any(path == name or path.startswith(name + "/") for name in keep):
            return
        inside = [name for name in keep if name.startswith(path + "/")]
        if not inside:
            remove(self.root / path)
            return
        for child in os.listdir(self.root / path):  # noqa: PTH208
            self._clear_path(f"{path}/{child}", inside)


def literal(path: str) -> str:
    """The path as an ignore rule that matches only this path."""
    return "".join("\\" + letter if letter in "\\*?[]!#" else letter for letter in path)
