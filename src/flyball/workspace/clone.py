"""A git directory for someone else to use: the agent in its checkout, the tests in a proof's.

It borrows objects from the user's store through a path outside the repository, names no remote, and is made
anew whenever the files are put back. Flyball never runs git in it and never believes it; it only looks whether
the agent left hooks or settings there, to say so.
"""

import os
import shutil
import stat
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from flyball.errors import WorkspaceError
from flyball.workspace.folders import remove
from flyball.workspace.git import Git
from flyball.workspace.store import Plan, config_text, make_git_dir, pack_into


class Clone(Struct, frozen=True):
    """What such a git directory is made from; `known` commits are in the user's store."""

    git: Git
    plan: Plan
    known: Sequence[str]


def place(clone: Clone, checkout: Path, commit: str, index: Path, staged: str | None = None) -> None:
    """The checkout's .git is new, its branch at the commit; `staged` is a commit of what the index holds, if
    that is another tree than the branch's."""
    draft = checkout.with_name(f"{checkout.name}.git.new")
    remove(draft)
    refs = dict(clone.plan.refs) | {clone.plan.head: commit}
    try:
        make_git_dir(draft, replace(clone.plan, refs=refs, bare=False))
        if (staged or commit) not in clone.known:
            pack_into(clone.git, draft, [staged or commit], clone.known)
        shutil.copy2(index, draft / "index")
        remove(checkout / ".git")
        draft.rename(checkout / ".git")
    except OSError as err:
        raise WorkspaceError(f"{checkout}/.git cannot be made: {err.strerror}.") from err


def report(clone: Clone, checkout: Path) -> list[str]:
    """A sentence for each thing in the agent's .git that could run or redirect something, were it believed."""
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
    made = config_text(clone.plan.object_format, bare=False).splitlines()
    found = _read(path / "config").decode("utf-8", "replace").splitlines()
    added = [line.strip() for line in found if line.strip() and line not in made and not _is_harmless(line)]
    shown = "; ".join(added[:3])
    said = (
        [f"The agent changed its git configuration ({shown[:200]}); it has no effect here."] if added else []
    )
    if _read(path / "config.worktree").strip():
        said.append("The agent added a config.worktree to its git folder; it has no effect here.")
    return said


def _is_harmless(line: str) -> bool:
    """Headings say nothing by themselves; a name and an address are the agent's to choose."""
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
    said: list[str] = []
    if _read(path / "info/attributes") != clone.plan.attributes:
        said.append("The agent added attributes to its git folder; they have no effect here.")
    stores = {os.fsencode(store) for store in clone.plan.alternates}
    if not stores >= {line.strip(b'"') for line in _read(path / "objects/info/alternates").splitlines()}:
        said.append("The agent made its git borrow objects from elsewhere; Flyball does not.")
    if (path / "commondir").exists():
        said.append("The agent made its git share another repository; Flyball does not.")
    return said


def _read(path: Path) -> bytes:
    """The start of an ordinary file; nothing of anything else."""
    try:
        if not stat.S_ISREG(path.lstat().st_mode):
            return b""
        with path.open("rb") as file:
            return file.read(1 << 20)
    except OSError:
        return b""
