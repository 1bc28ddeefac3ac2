"""Inspect the user's repository, without writing to it. What Flyball cannot work with is refused here, with the reason.

Uncommitted changes are found with a git directory of our own and a copy of the user's index: no filter, monitor or hook
of theirs runs, and their index is not even refreshed.

Ignore rules and attributes are pinned: those of one commit, flattened into one file that no later edit reaches. A rule
of `docs/.gitignore` means the same as a rule at the top with `docs/` before it. Shallow files come first and deep ones
last, since in git the last match decides. What the agent does to its own `.gitignore` or `.gitattributes` changes files
of the tree like any other edit, and hides nothing.

The user's pre-commit and commit-msg hooks are copied as they were at the start, with the files beside them that they may
call. A copy counts as a hook because it is there: removing its executable bit does not switch it off. Where hooks are
in a folder of the repository (`core.hooksPath`, husky), that folder is copied whole, because they find each other there.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from flyball.errors import UserError, WorkspaceError
from flyball.reading.terminal import whole
from flyball.workspace.files import Files
from flyball.workspace.git import (
    EXACT,
    QUIET,
    Git,
    Objects,
    Plan,
    make_git_dir,
    names,
    reading_user,
    require_git,
    text,
)

# what runs ignore beside the rules of the repository
CACHES = (
    *("__pycache__/", "*.pyc", ".pytest_cache/", ".mypy_cache/", ".ruff_cache/", ".hypothesis/", ".coverage"),
    *(".coverage.*", "htmlcov/", ".nyc_output/", ".DS_Store", ".tox/", ".nox/", "node_modules/", ".venv/"),
)
INERT = (
    "core.autocrlf",
    "core.eol",
    "core.filemode",
    "core.symlinks",
    "core.ignorecase",
    "core.precomposeunicode",
)


class Repo(Struct, frozen=True):
    """A repository Flyball can work with, as it was when it was looked at."""

    root: Path
    git_dir: Path
    common_dir: Path
    head: str
    tree: str
    branch: str
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
    return Repo(
        root=root,
        git_dir=git_dir,
        common_dir=common_dir,
        head=head,
        tree=tree,
        branch=git.line("symbolic-ref", "-q", "HEAD", ok=(0, 1)).removeprefix("refs/heads/"),
        object_format=object_format,
        settings=settings,
        excludes=_excludes(settings, common_dir),
    )


def at_commit(repo: Repo, commit: str) -> Repo:
    """The repository as if this commit were checked out."""
    tree = repo.git.line("rev-parse", "-q", "--verify", f"{commit}^{{tree}}", ok=(0, 1, 128))
    if not tree:
        raise WorkspaceError(f"The commit {commit[:12]} from which the work should start no longer exists.")
    return replace(repo, head=commit, tree=tree)


def _places(path: Path) -> tuple[Path, Path, Path, str]:
    """Top level, git directory, common directory and object format."""
    where = _folder(path)
    kind = ("--is-bare-repository", "--is-inside-work-tree")
    options = ("--show-toplevel", "--absolute-git-dir", "--git-common-dir", "--show-object-format")
    answer = reading_user(where, "rev-parse", *kind, *options, ok=range(256))
    _refuse_place(path, answer.out, answer.err)
    lines = text(answer.out).splitlines()[len(kind) :]
    if len(lines) != len(options):
        raise WorkspaceError(f"{path} is in a folder with a line break in its name. Rename that folder.")
    root, git_dir = Path(os.path.realpath(lines[0])), Path(os.path.realpath(lines[1]))
    common = Path(os.path.realpath(where / lines[2]))
    return root, git_dir, common, lines[3]


def _folder(path: Path) -> Path:
    if not path.exists():
        raise WorkspaceError(f"{path} does not exist. Name a folder of a git repository.")
    return (path if path.is_dir() else path.parent).resolve()


def _refuse_place(path: Path, output: bytes, complaint: bytes) -> None:
    if b"dubious ownership" in complaint:
        raise WorkspaceError(
            f"{path.resolve()} belongs to another user. To use it anyway, run "
            f"`git config --global --add safe.directory {path.resolve()}`."
        )
    if not output:
        raise WorkspaceError(
            f"{path.resolve()} is not in a git repository. Run `git init` there and commit, or use --repo DIR."
        )
    bare, inside = output.split()[:2]
    if bare == b"true":
        raise WorkspaceError(f"{path.resolve()} is a bare repository. Use a clone of it that has files.")
    if inside != b"true":
        raise WorkspaceError(
            f"{path.resolve()} is inside a .git folder. Name the folder that holds the files."
        )


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
    queries = b"HEAD^{commit}\nHEAD^{tree}\nrefs/heads/flyball\n"
    rows = git.line("cat-file", "--batch-check=%(objectname)", stdin=queries).splitlines()
    head, tree, flyball = ("" if row.endswith(" missing") else row for row in rows)
    if not head:
        raise WorkspaceError(
            f"{root} has no commit yet. Commit your files first; a run starts from a commit."
        )
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
    return bool(uncommitted(repo, untracked=untracked, against=against))


def uncommitted(repo: Repo, *, untracked: bool = True, against: str | None = None) -> list[str]:
    """The files that differ from HEAD: staged, changed, deleted, unmerged, or new and not ignored.

    A new `.flyball/`, as `init` makes it, is no change: runs read it from the user's folder. Nor is a new cache.
    """
    with _probe(repo) as files:
        git = files.git.over(work_tree=repo.root, index=files.index)
        staged = git("diff-index", "--cached", "--name-only", "-z", against or repo.head, "--")
        changed = git("ls-files", "-z", "--modified", "--deleted", *_ignoring(files))
        unmerged = [row.partition(b"\t")[2] for row in names(git("ls-files", "-z", "--unmerged"))]
        others = names(git("ls-files", "-z", "--others", *_ignoring(files))) if untracked else []
        new = [name for name in others if not name.startswith(b".flyball/")]
        return [text(name) for name in dict.fromkeys([*names(staged), *names(changed), *unmerged, *new])]


def snapshot_changes(repo: Repo, objects: Path) -> str:
    """The user's files now, committed or not and as far as not ignored, as a tree kept in `objects`."""
    with _probe(repo, objects) as files:
        git = files.git.over(work_tree=repo.root, index=files.index)
        paths = names(git("ls-files", "-z", "--modified", "--deleted", "--others", *_ignoring(files)))
        unmerged = [row.partition(b"\t")[2] for row in names(git("ls-files", "-z", "--unmerged"))]
        files.stage(files.index, [name for name in [*paths, *unmerged] if not name.endswith(b"/")])
        return git.line("write-tree")


def _ignoring(files: Files) -> list[str]:
    caches = (f"--exclude={pattern}" for pattern in CACHES)
    return ["--exclude-per-directory=.gitignore", f"--exclude-from={files.rules}", *caches]


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


BOM = b"\xef\xbb\xbf"
CONVERSIONS = b"!text !eol !crlf !ident !working-tree-encoding !filter !diff !merge"


class Entry(NamedTuple):
    """One file of a tree."""

    path: bytes
    mode: bytes
    oid: bytes


def entries(git: Git, tree: str) -> list[Entry]:
    """Every file of a tree, in git's order."""
    listed: list[Entry] = []
    for row in names(git("ls-tree", "-r", "-z", "--full-tree", tree)):
        head, path = row.split(b"\t", 1)
        mode, _, oid = head.split(b" ")
        listed.append(Entry(path, mode, oid))
    return listed


def ignore_rules(git: Git, files: Sequence[Entry], outer: Sequence[bytes]) -> bytes:
    """`outer` (user-wide first) and then every .gitignore of the tree, as rules of the top."""
    blocks = [_lines(block) for block in outer]
    blocks += [
        [_moved(rule, folder) for rule in _lines(content) if _is_rule(rule)]
        for folder, content in _contents(git, files, b".gitignore")
    ]
    return b"".join(rule + b"\n" for block in blocks for rule in block)


def attribute_rules(git: Git, files: Sequence[Entry]) -> bytes:
    """Every .gitattributes of the tree; attributes it does not give are unset, filters and diff drivers off."""
    lines = [b"* " + CONVERSIONS]
    for folder, content in _contents(git, files, b".gitattributes"):
        lines += [_moved_attributes(rule, folder) for rule in _lines(content) if _is_rule(rule)]
    return b"\n".join([*(line for line in lines if line), b"* -filter !diff", b""])


def uses_lfs(git: Git, files: Sequence[Entry]) -> bool:
    contents = _contents(git, files, b".gitattributes")
    return any(b"filter=lfs" in rule for _, text in contents for rule in _lines(text) if _is_rule(rule))


def _contents(git: Git, files: Sequence[Entry], name: bytes) -> list[tuple[bytes, bytes]]:
    """(folder, content) of each file of that name, shallow folders first; links are not followed."""
    queries = [
        file for file in files if file.path.rpartition(b"/")[2] == name and file.mode.startswith(b"100")
    ]
    queries.sort(key=lambda file: (file.path.count(b"/"), file.path))
    contents = Objects(git).blobs([file.oid.decode() for file in queries])
    return [
        (file.path.rpartition(b"/")[0], data or b"") for file, data in zip(queries, contents, strict=True)
    ]


def _lines(content: bytes) -> list[bytes]:
    return [line.removesuffix(b"\r") for line in content.removeprefix(BOM).split(b"\n")]


def _is_rule(line: bytes) -> bool:
    return bool(line.strip()) and not line.startswith(b"#")


def _moved(rule: bytes, folder: bytes) -> bytes:
    """The ignore rule as it reads one or more folders up."""
    if not folder:
        return rule
    negation, pattern = (b"!", rule[1:]) if rule.startswith(b"!") else (b"", rule)
    return negation + _below(folder, pattern)


def _below(folder: bytes, pattern: bytes) -> bytes:
    anchored = b"/" in pattern.rstrip(b" ")[:-1] or pattern == b"/"
    return b"/" + _literal(folder) + (b"/" if anchored else b"/**/") + pattern.removeprefix(b"/")


def _literal(folder: bytes) -> bytes:
    """A folder's name in which no character is a wildcard."""
    special = b"\\*?[]!#"
    return b"".join(b"\\" + bytes([byte]) if byte in special else bytes([byte]) for byte in folder)


def _moved_attributes(rule: bytes, folder: bytes) -> bytes:
    """The attribute line as it reads at the top; empty where git too would pass it over."""
    if not folder:
        return rule
    if rule.startswith((b"[attr]", b"!", b'"')):
        return b""
    pattern, *attributes = rule.split()
    if any(byte in b' \t"' for byte in folder):
        return b'"' + _quoted(_below(folder, pattern)) + b'" ' + b" ".join(attributes)
    return b" ".join([_below(folder, pattern), *attributes])


def _quoted(pattern: bytes) -> bytes:
    return pattern.replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\t", b"\\t")


GIT_HOOKS = "git-hooks"  # where they lie among the pinned files
WANTED = ("pre-commit", "commit-msg")
HERE = ".here"  # names the folder of hooks within the copy
FILES_MAX = 256
BYTES_MAX = 1024 * 1024


def copy_hooks(repo: Repo, into: Path) -> None:
    """The folder of hooks; nothing of it is run here."""
    source = _hooks_folder(repo)
    hooks = [source / name for name in WANTED if _is_hook(source / name)]
    if not hooks:
        return
    top = _top(source, repo.root)
    for path in [*hooks, *sorted(_others(top, hooks))[: FILES_MAX - len(hooks)]]:
        copy = into / path.relative_to(top)
        if path in hooks and path.stat().st_size > BYTES_MAX:
            raise UserError(
                f"The hook {path} has more than {BYTES_MAX >> 20} MiB, too much to be kept with a run. Make it smaller, "
                "or turn it off."
            )
        copy.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        shutil.copy(path, copy)
    (into / HERE).write_text(str(source.relative_to(top)), "utf-8")


def found_hooks(folder: Path) -> dict[str, Path]:
    here = folder / HERE
    place = folder / here.read_text("utf-8") if here.exists() else folder
    return {name: place / name for name in WANTED if (place / name).is_file()}


def _hooks_folder(repo: Repo) -> Path:
    """core.hooksPath, which starts at the top of the checkout, or the repository's own hooks."""
    configured = repo.settings.get("core.hookspath")
    return repo.root / Path(configured).expanduser() if configured else repo.common_dir / "hooks"


def _top(source: Path, root: Path) -> Path:
    """What is copied: of a folder in the repository the part below its root, else the folder alone."""
    inside = Path(os.path.normpath(source))
    if not inside.is_relative_to(root) or inside == root or ".git" in inside.parts:
        return source
    return root / inside.relative_to(root).parts[0]


def _others(top: Path, hooks: list[Path]) -> Iterator[Path]:
    for path in top.rglob("*"):
        stray = path.name in WANTED and path.parent == hooks[0].parent  # not executable: no hook
        small = path.suffix != ".sample" and path.is_file() and path.stat().st_size <= BYTES_MAX
        is_text = path.name == whole(path.name)  # other bytes than UTF-8 cannot be written down
        if small and is_text and path not in hooks and not stray:
            yield path


def _is_hook(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)
