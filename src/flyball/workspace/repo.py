"""Inspect the user's repository, without writing to it. What Flyball cannot work with is refused here, with the reason.

Uncommitted changes are found with a git directory of our own and a copy of the user's index: no filter, monitor or hook
of theirs runs, and their index is not even refreshed.
"""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Generator
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from flyball.errors import WorkspaceError
from flyball.workspace.files import Files
from flyball.workspace.git import EXACT, QUIET, Git, names, reading_user, require_git, text
from flyball.workspace.rules import entries, uses_lfs
from flyball.workspace.store import Plan, make_git_dir

INERT = (
    "core.autocrlf",
    "core.eol",
    "core.filemode",
    "core.symlinks",
    "core.ignorecase",
    "core.precomposeunicode",
)


class Repo(Struct, frozen=True):
    """A repository Flyball can work with, as it stood when it was looked at."""

    root: Path
    git_dir: Path
    common_dir: Path
    head: str
    tree: str
    branch: str
    dirty: bool
    object_format: str = "sha1"
    settings: dict[str, str] = {}
    excludes: tuple[bytes, ...] = ()

    @property
    def objects(self) -> Path:
        return self.common_dir / "objects"

    @property
    def shallow(self) -> bytes:
        path = self.common_dir / "shallow"
        return path.read_bytes() if path.exists() else b""

    @property
    def git(self) -> Git:
        """Git over the user's own directory, for reading; nothing of theirs runs."""
        return user_git(self.git_dir, self.root)


def user_git(git_dir: Path, root: Path | None = None) -> Git:
    return Git(git_dir, work_tree=root, settings={"core.logAllRefUpdates": "false"})


def inspect_repo(path: Path) -> Repo:
    """The repository the path is in; raises WorkspaceError with one sentence if it cannot be used."""
    require_git()
    root, git_dir, common_dir, object_format = _places(path)
    settings = _user_settings(root, git_dir)
    _refuse_settings(root, settings)
    git = user_git(git_dir, root)
    head, tree = _head(git, root)
    _refuse_content(git, root, head)
    repo = Repo(
        root=root,
        git_dir=git_dir,
        common_dir=common_dir,
        head=head,
        tree=tree,
        branch=git.line("symbolic-ref", "-q", "HEAD", ok=(0, 1)).removeprefix("refs/heads/"),
        dirty=False,
        object_format=object_format,
        settings=settings,
        excludes=_excludes(settings, common_dir),
    )
    return replace(repo, dirty=is_dirty(repo))


def at_commit(repo: Repo, commit: str) -> Repo:
    """The repository as if this commit were checked out."""
    tree = repo.git.line("rev-parse", "-q", "--verify", f"{commit}^{{tree}}", ok=(0, 1, 128))
    if not tree:
        raise WorkspaceError(
            f"The commit {commit[:12]} from which the work should start is not there any more."
        )
    return replace(repo, head=commit, tree=tree, dirty=False)


def _places(path: Path) -> tuple[Path, Path, Path, str]:
    """Top level, git directory, common directory and object format."""
    where = _folder(path)
    kind = reading_user(where, "rev-parse", "--is-bare-repository", "--is-inside-work-tree", ok=range(256))
    _refuse_place(path, kind.out, kind.err, kind.code)
    asked = ("--show-toplevel", "--absolute-git-dir", "--git-common-dir", "--show-object-format")
    lines = text(reading_user(where, "rev-parse", *asked).out).splitlines()
    if len(lines) != len(asked):
        raise WorkspaceError(f"{path} lies under a folder with a line break in its name; rename the folder.")
    root, git_dir = Path(os.path.realpath(lines[0])), Path(os.path.realpath(lines[1]))
    common = Path(os.path.realpath(where / lines[2]))
    return root, git_dir, common, lines[3]


def _folder(path: Path) -> Path:
    if not path.exists():
        raise WorkspaceError(f"{path} does not exist; name a folder of a git repository.")
    return (path if path.is_dir() else path.parent).resolve()


def _refuse_place(path: Path, told: bytes, complaint: bytes, code: int) -> None:
    if b"dubious ownership" in complaint:
        raise WorkspaceError(f"{path} belongs to another user; own it or add it to git's safe.directory.")
    if code != 0:
        raise WorkspaceError(f"{path} is not in a git repository; run `git init` there and commit.")
    bare, inside = told.split()
    if bare == b"true":
        raise WorkspaceError(f"{path} is a bare repository; use a clone of it that has files.")
    if inside != b"true":
        raise WorkspaceError(f"{path} is inside a .git folder; name the folder that holds the files.")


def _user_settings(root: Path, git_dir: Path) -> dict[str, str]:
    """The user's configuration, theirs and the repository's; the last value of a key counts."""
    listed = names(reading_user(root, "config", "--list", "-z", "--includes", git_dir=git_dir).out)
    pairs = (text(item).partition("\n") for item in listed)
    return {key: value if newline else "true" for key, newline, value in pairs}


def _refuse_settings(root: Path, settings: dict[str, str]) -> None:
    if settings.get("core.sparsecheckout", "false").lower() in ("true", "yes", "on", "1"):
        raise WorkspaceError(f"{root} is a sparse checkout; run `git sparse-checkout disable` first.")
    promised = [key for key in settings if key.startswith("remote.") and key.endswith(".promisor")]
    if promised or "extensions.partialclone" in settings:
        raise WorkspaceError(f"{root} is a partial clone, which lacks objects; use a full clone.")


def _head(git: Git, root: Path) -> tuple[str, str]:
    """The commit that is checked out, and its tree."""
    wanted = b"HEAD^{commit}\nHEAD^{tree}\nrefs/heads/flyball\n"
    rows = git.line("cat-file", "--batch-check=%(objectname)", stdin=wanted).splitlines()
    head, tree, flyball = ("" if row.endswith(" missing") else row for row in rows)
    if not head:
        raise WorkspaceError(f"{root} has no commit yet; make a first commit, since a run starts from one.")
    if flyball:
        raise WorkspaceError(
            f"{root} has a branch 'flyball', so git cannot create a branch 'flyball/<run>'; rename it."
        )
    return head, tree


def _refuse_content(git: Git, root: Path, head: str) -> None:
    files = entries(git, head)
    modules = [file.path for file in files if file.mode == b"160000"]
    if modules:
        raise WorkspaceError(f"{root} has a submodule at {text(modules[0])}; submodules are not supported.")
    if uses_lfs(git, files):
        raise WorkspaceError(f"{root} keeps files in Git LFS (see .gitattributes); LFS is not supported.")


def _excludes(settings: dict[str, str], common_dir: Path) -> tuple[bytes, ...]:
    """The user's own ignore rules: user-wide, then of this repository."""
    default = Path(os.environ.get("XDG_CONFIG_HOME") or "~/.config") / "git/ignore"
    wide = Path(settings.get("core.excludesfile") or default)
    return tuple(_content(path) for path in (wide, common_dir / "info/exclude"))


def _content(path: Path) -> bytes:
    try:
        return path.expanduser().read_bytes()
    except (OSError, RuntimeError):
        return b""


# uncommitted changes


def is_dirty(repo: Repo, *, untracked: bool = True, against: str | None = None) -> bool:
    """Whether anything differs from HEAD: staged, changed, deleted, unmerged, or new and not ignored.

    A new `.flyball/`, as `init` makes it, is no change: runs read it from the user's folder.
    """
    with _probe(repo) as files:
        git = files.git.over(work_tree=repo.root, index=files.index)
        if git.ask("diff-index", "--cached", "--quiet", against or repo.head, "--", ok=(0, 1)).code:
            return True
        changed = git("ls-files", "-z", "--modified", "--deleted", "--unmerged", *_ignoring(files))
        others = git("ls-files", "-z", "--others", *_ignoring(files)) if untracked else b""
        return bool(changed) or any(not name.startswith(b".flyball/") for name in names(others))


def snapshot_changes(repo: Repo, objects: Path) -> str:
    """The user's files now, committed or not and as far as not ignored, as a tree kept in `objects`."""
    with _probe(repo, objects) as files:
        git = files.git.over(work_tree=repo.root, index=files.index)
        found = names(git("ls-files", "-z", "--modified", "--deleted", "--others", *_ignoring(files)))
        unmerged = [row.partition(b"\t")[2] for row in names(git("ls-files", "-z", "--unmerged"))]
        files.stage(files.index, [name for name in [*found, *unmerged] if not name.endswith(b"/")])
        return git.line("write-tree")


def _ignoring(files: Files) -> list[str]:
    return ["--exclude-per-directory=.gitignore", f"--exclude-from={files.rules}"]


@contextlib.contextmanager
def _probe(repo: Repo, objects: Path | None = None) -> Generator[Files]:
    """The user's files through a git directory of ours, with a copy of the user's index."""
    with tempfile.TemporaryDirectory(prefix="flyball-") as folder:
        probe = Path(folder) / "git"
        make_git_dir(probe, Plan(repo.object_format, [repo.objects], shallow=repo.shallow))
        (probe / "info/attributes").unlink()
        rules = probe / "info/exclude"
        rules.write_bytes(b"\n".join(repo.excludes) + b"\n")
        for path in [repo.git_dir / "index", *repo.git_dir.glob("sharedindex.*")]:
            if path.exists():
                shutil.copy2(path, probe / path.name)
        git = Git(probe, objects=_with_alternates(objects), settings=_inert(repo.settings))
        yield Files(git, repo.root, probe / "index", rules)


def _with_alternates(objects: Path | None) -> Path | None:
    if objects and not (objects / "info/alternates").exists():
        raise WorkspaceError(f"{objects} does not borrow from the repository; it cannot hold its trees.")
    return objects


def _inert(settings: dict[str, str]) -> dict[str, str]:
    """The user's say on line ends and file modes, which decides what counts as changed."""
    exact = {key: value for key, value in EXACT.items() if key.lower() not in INERT}
    return dict(QUIET) | exact | {key: settings[key] for key in INERT if key in settings}
