"""A folder of files as a git tree, and a git tree as a folder of files.

`tree` depends only on the files and the pinned rules: every file that the rules do not ignore, with its content.
`put` is its inverse, and checks the result: after `put(t)`, `tree() == t`. `edited` makes a tree from another one: the
same files, except for a few with other content or removed.

`Ignored` keeps copies of ignored files so that a rollback can restore them: small ones, outside dependencies
and caches.
They are in Flyball's own object store as a separate tree, under a reference that nothing published reaches.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from msgspec import Struct

from flyball.errors import TooDeep, WorkspaceError
from flyball.state_dir import remove, unlock, write_whole
from flyball.workspace.git import Git, draft_of, names, raw, read_ref, text, write_ref

T = TypeVar("T")
SEED = b".flyball-seed"
DEEPEST_EMBEDDED = 20
INDEX_HASH_BYTES = 20
SLOW_S = 0.05  # a checkout that took less time has written no large file
LARGE_BYTES = 32_000_000
CLOCK_S = 0.05  # a file's time may lag the clock by a tick of the kernel's timer


class Files(Struct, frozen=True):
    """The files under `root`, seen through Flyball's own git directory and index."""

    git: Git
    root: Path
    index: Path
    rules: Path
    always: tuple[bytes, ...] = ()  # tracked by the base although its rules ignore them
    hidden: tuple[str, ...] = ()  # rules for this folder only, in addition to the pinned ones

    def tree(self) -> str:
        """The tree id of the files as they are now."""
        self._require_root()
        return self._retried(self._tree)

    def put(self, tree: str) -> None:
        """Make the folder hold exactly this tree, besides what the rules ignore."""
        self._make_root()
        if self._retried(lambda: self._put(tree)) or self.tree() == tree:
            return
        self._clear_differences(tree)
        if not self._put(tree) and self.tree() != tree:
            raise WorkspaceError(
                f"The files of tree {tree} cannot be written to {self.root}; stop the program that writes there."
            )

    def ignored(self) -> list[bytes]:
        """Files and folders (with a slash) that the rules ignore; an ignored folder stands for everything in it."""
        names_ = self._list("--others", "--ignored", "--directory", index=self.index)
        return [name for name in names_ if name.rstrip(b"/") not in self.always]

    def untracked(self) -> list[bytes]:
        """What exists, is not in the index and is not ignored; a folder (with a slash) stands for everything in it."""
        return self._list("--others", "--directory", index=self.index)

    def extras(self) -> list[bytes]:
        """What exists and is not in the index, ignored or not; a folder (with a slash) stands for everything in it."""
        listing = self._at(self.index)("ls-files", "-z", "--others", "--directory")
        return names(listing)

    def _at(self, index: Path) -> Git:
        return self.git.over(work_tree=self.root, index=index)

    def _retried(self, deed: Callable[[], T]) -> T:
        """Retry after repairing the permissions, then the index: an agent may have locked files."""
        for repair in (self._unlock, self._forget_index):
            try:
                return deed()
            except (WorkspaceError, OSError) as err:
                if isinstance(err, WorkspaceError) and "is full" in str(err):
                    raise
                repair()
        return deed()

    def _unlock(self) -> None:
        try:
            unlock(self.root)
        except OSError as err:
            if err.errno == errno.ENAMETOOLONG:
                raise TooDeep(f"{self.root} holds folders nested deeper than a path can name.") from err
            raise WorkspaceError(f"{self.root} cannot be made readable: {err.strerror}.") from err

    def _forget_index(self) -> None:
        self.index.unlink(missing_ok=True)

    def _require_root(self) -> None:
        if not stat.S_ISDIR(_mode(os.fsencode(self.root))):
            raise WorkspaceError(f"The checkout {self.root} is gone; `flyball rollback` makes it again.")

    def _make_root(self) -> None:
        if not stat.S_ISDIR(_mode(os.fsencode(self.root))):
            remove(self.root)
            self.root.mkdir(parents=True)

    # tree

    def _tree(self) -> str:
        with draft_of(self.index) as index:
            changed = self._changed(index)
            if not changed and (tree := self._noted(index)):
                return tree
            self.stage(index, changed)
            tree = self._at(index).line("write-tree")
            self._note(index, tree)
            return tree

    # The tree that an index holds is noted beside it, together with the hash at the end of the index file.

    @property
    def _tree_note(self) -> Path:
        return self.index.with_name(f"{self.index.name}.tree")

    def _note(self, index: Path, tree: str) -> None:
        with contextlib.suppress(OSError):
            write_whole(self._tree_note, f"{_end_of(index)} {tree}".encode(), mode=0o644, sync=False)

    def _noted(self, index: Path) -> str:
        """The tree that the index holds; "" if it is not known."""
        try:
            end, tree = self._tree_note.read_text().split(" ")
            return tree if end == _end_of(index) else ""
        except (OSError, ValueError):
            return ""

    def _changed(self, index: Path) -> list[bytes]:
        """Paths whose index entry may be wrong. Nested repositories are searched too."""
        for _ in range(DEEPEST_EMBEDDED):
            names_ = self._list("--others", "--modified", "--deleted", index=index)
            closed = [name for name in names_ if name.endswith(b"/")]
            if not closed:
                return [*names_, *(name for name in self.always if _mode(self._path(name)))]
            self._open(index, closed)
        raise WorkspaceError(f"{self.root} holds git repositories nested too deep; remove them.")

    def _open(self, index: Path, closed: Sequence[bytes]) -> None:
        """Git searches a nested repository only if the index has an entry below it, so one is added."""
        empty = self.git.line("hash-object", "-t", "blob", "--stdin").encode()
        rows = b"".join(b"100644 %s\t%s%s\0" % (empty, name, SEED) for name in closed)
        self._at(index)("update-index", "-z", "--add", "--replace", "--index-info", stdin=rows)

    def _list(self, *kinds: str, index: Path) -> list[bytes]:
        hidden = [f"--exclude={rule}" for rule in self.hidden]
        answer = self._at(index).ask("ls-files", "-z", *kinds, f"--exclude-from={self.rules}", *hidden)
        if b"could not open directory" in answer.err:
            raise WorkspaceError(f"{self.root} holds a folder that cannot be read.")
        return names(answer.out)

    def stage(self, index: Path, changed: Sequence[bytes]) -> None:
        links: dict[bytes, bool] = {}
        deleted = [name for name in changed if not self._is_content(name, links)]
        excluded = set(deleted)
        there = [name for name in changed if name not in excluded]
        for flags, paths in ((["--force-remove"], deleted), (["--add", "--remove", "--replace"], there)):
            if paths:
                self._at(index)("update-index", *flags, "-z", "--stdin", stdin=b"\0".join(paths) + b"\0")

    def _is_content(self, name: bytes, links: dict[bytes, bool]) -> bool:
        """A file or symbolic link that is not reached through a linked folder; a tree holds nothing else."""
        if self._beyond_link(name.rpartition(b"/")[0], links):
            return False
        mode = _mode(self._path(name))
        return stat.S_ISREG(mode) or stat.S_ISLNK(mode)

    def _beyond_link(self, folder: bytes, links: dict[bytes, bool]) -> bool:
        unknown: list[bytes] = []
        while folder and folder not in links:
            unknown.append(folder)
            folder = folder.rpartition(b"/")[0]
        beyond = links.get(folder, False)
        for name in reversed(unknown):
            beyond = links[name] = beyond or stat.S_ISLNK(_mode(self._path(name)))
        return beyond

    def _path(self, name: bytes) -> bytes:
        return os.path.join(os.fsencode(self.root), name)  # noqa: PTH118 (names may be no UTF-8)

    # put

    def _put(self, tree: str) -> bool:
        """Returns whether it is certain that the folder now holds the tree and nothing else."""
        with draft_of(self.index) as index:
            changed = self._changed(index)
            if changed or self._noted(index) != tree:
                self.stage(index, changed)
                self._check_out(tree, index)
            self._note(index, tree)
            if not self.always and not self._list(
                "--others", "--directory", "--modified", "--deleted", index=index
            ):
                return True
            self._sweep(index)
        return False

    def _check_out(self, tree: str, index: Path) -> None:
        start = time.monotonic()
        self._at(index)("read-tree", "--reset", "-u", tree)
        if time.monotonic() - start > SLOW_S:
            self._outwait_large_files(index)

    def _outwait_large_files(self, index: Path) -> None:
        """Git reads a file again if it was written in the same second as the index or later.

        For large files that costs seconds each time. Nobody else writes here now, so it is enough to wait for
        that second
        to pass and to give the index a later time.
        """
        index_time = int(index.stat().st_mtime)
        rows = self._at(index)("ls-files", "--debug").decode("utf-8", "replace")
        times, sizes = (
            re.findall(pattern, rows, re.M) for pattern in (r"^  mtime: (\d+):", r"^  size: (\d+)")
        )
        young = sum(int(size) for at, size in zip(times, sizes, strict=True) if int(at) >= index_time)
        if young >= LARGE_BYTES:
            later = index_time + 1
            time.sleep(max(0.0, later + CLOCK_S - time.time()))
            os.utime(index, (later, later))

    def _sweep(self, index: Path) -> None:
        """Remove what no tree shows and the rules do not ignore: nested repositories, empty folders."""
        for name in self._list("--others", index=index):
            remove(self._child(name))
        for name in self._list("--others", "--directory", index=index):
            remove_empty(self._child(name))

    def _child(self, name: bytes) -> Path:
        return Path(os.fsdecode(self._path(name.rstrip(b"/"))))

    def _clear_differences(self, tree: str) -> None:
        """Remove every path that still differs, and a symbolic link above it."""
        listing = self.git("diff-tree", "-r", "-z", "--name-only", "--no-renames", self.tree(), tree)
        for name in names(listing):
            parts = name.split(b"/")
            for depth in range(1, len(parts)):
                parent = b"/".join(parts[:depth])
                if not stat.S_ISDIR(_mode(self._path(parent))):
                    remove(self._child(parent))
            remove(self._child(name))


def remove_empty(folder: Path) -> None:
    """Remove the folder and its subfolders where they are empty."""
    folders, todo = list[Path](), [folder]
    while todo:
        one = todo.pop()
        if one.is_dir() and not one.is_symlink():
            folders.append(one)
            todo += one.iterdir()
    for one in reversed(folders):
        with contextlib.suppress(OSError):  # it holds something
            one.rmdir()


def _end_of(index: Path) -> str:
    """The last bytes of an index file: the hash of everything before them."""
    with index.open("rb") as file:
        file.seek(-INDEX_HASH_BYTES, os.SEEK_END)
        return file.read().hex()


def _mode(path: bytes) -> int:
    try:
        return os.lstat(path).st_mode
    except OSError:
        return 0


def paths(git: Git, tree: str) -> list[str]:
    """Every plain file of a tree."""
    return [path for path, mode in modes(git, tree).items() if mode in (b"100644", b"100755")]


def modes(git: Git, tree: str) -> dict[str, bytes]:
    rows = git("ls-tree", "-r", "-z", "--full-tree", tree).split(b"\0")
    return {
        text(path): head.split(b" ")[0] for head, _, path in (row.partition(b"\t") for row in rows) if path
    }


def edited(git: Git, tree: str, edits: Mapping[str, bytes | None], like: str) -> str:
    """The tree with these files replaced, added or (None) removed; a new file has the mode that it has in the tree
    `like`.
    """
    modes_ = {**modes(git, like), **modes(git, tree)}
    blobs = _blobs(git, [data for data in edits.values() if data is not None])
    rows: list[bytes] = []
    for path, data in edits.items():
        mode = modes_.get(path, b"100644")
        mode = mode if mode in (b"100644", b"100755") else b"100644"
        rows.append(
            b"0 " + b"0" * 40 + b"\t" + raw(path)
            if data is None
            else b"%s %s\t%s" % (mode, next(blobs), raw(path))
        )
    with draft_of(git.git_dir / "index.edited") as index:
        over = git.over(index=index)
        over("read-tree", tree)
        over(
            "update-index",
            "-z",
            "--add",
            "--replace",
            "--index-info",
            stdin=b"".join(row + b"\0" for row in rows),
        )
        return over.line("write-tree")


def _blobs(git: Git, contents: list[bytes]) -> Iterator[bytes]:
    """The ids of the contents, written with one call."""
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder, str(number)) for number in range(len(contents))]
        for file, content in zip(files, contents, strict=True):
            file.write_bytes(content)
        listing = "".join(f"{file}\n" for file in files).encode()
        ids = git("hash-object", "-w", "--no-filters", "--stdin-paths", stdin=listing) if files else b""
    return iter(ids.split())


FILE_BYTES_MAX = 1_000_000
ALL_BYTES_MAX = 50_000_000
FILES_MAX = 20_000
LEFT_OUT = frozenset(
    b".git .venv venv .tox .nox .eggs .cache __pycache__ __pypackages__ .mypy_cache .pytest_cache .ruff_cache"
    b" .hypothesis node_modules bower_components .npm .yarn .pnpm-store .parcel-cache .next .nuxt .turbo .svelte-kit"
    b" target dist build out obj .gradle .m2 .cargo vendor .bundle .terraform .dart_tool Pods DerivedData"
    b" htmlcov coverage .nyc_output".split()
)


class Ignored(Struct, frozen=True):
    """The ignored files of a checkout, saved for each turn."""

    files: Files
    index: Path

    def save(self, turn: int, ignored: list[bytes]) -> None:
        """Save these ignored files as they are now."""
        saved = list(_affordable(self.files.root, ignored))
        if not saved and not self.index.exists():
            return
        with draft_of(self.index) as index:
            git = self.files.git.over(work_tree=self.files.root, index=index)
            names_ = set(saved)
            stale = [name for name in names(git("ls-files", "-z", "--cached")) if name not in names_]
            if stale:
                git("update-index", "--force-remove", "-z", "--stdin", stdin=b"\0".join(stale) + b"\0")
            self.files.stage(index, saved)
            write_ref(self.files.git.git_dir, _ref(turn), git.line("write-tree"))

    def put(self, turn: int) -> None:
        """Restore the files saved at that turn; ignored files made since then stay."""
        tree = read_ref(self.files.git.git_dir, _ref(turn))
        if not tree:
            return
        with draft_of(self.index) as index:
            git = self.files.git.over(work_tree=self.files.root, index=index)
            git("read-tree", "--reset", tree)
            git("update-index", "-q", "--refresh", ok=(0, 1))
            git("checkout-index", "-q", "-f", "-u", "-a")


def _ref(turn: int) -> str:
    return f"refs/flyball/ignored/{turn}"


def _affordable(root: Path, ignored: list[bytes]) -> Iterator[bytes]:
    """Files that fit into the size limit, by path; one that does not fit is left out, the next may fit."""
    bytes_left = ALL_BYTES_MAX
    count = 0
    for name, size in sorted(_small(os.fsencode(root), ignored)):
        if size <= bytes_left and count < FILES_MAX:
            bytes_left, count = bytes_left - size, count + 1
            yield name


def _small(root: bytes, ignored: list[bytes]) -> Iterator[tuple[bytes, int]]:
    for name in ignored:
        if LEFT_OUT.isdisjoint(name.rstrip(b"/").split(b"/")):
            yield from _below(root, name.rstrip(b"/"))


def _below(root: bytes, name: bytes) -> Iterator[tuple[bytes, int]]:
    todo = [name]
    while todo:
        name = todo.pop()
        path = os.path.join(root, name)  # noqa: PTH118 (names may be no UTF-8)
        try:
            info = os.lstat(path)
            children = os.listdir(path) if stat.S_ISDIR(info.st_mode) else []  # noqa: PTH208
        except OSError:
            continue
        todo += [name + b"/" + child for child in children if child not in LEFT_OUT]
        if (stat.S_ISREG(info.st_mode) and info.st_size <= FILE_BYTES_MAX) or stat.S_ISLNK(info.st_mode):
            yield name, info.st_size
