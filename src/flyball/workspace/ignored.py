"""Copies of ignored files, so that a rollback can put them back: small ones, outside dependencies and caches.

They live in Flyball's own object store as a tree of their own, under a reference that nothing published reaches.
"""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from flyball.workspace.files import Files
from flyball.workspace.git import names
from flyball.workspace.store import draft_of, read_ref, write_ref

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
    """The ignored files of a checkout, kept turn by turn."""

    files: Files
    index: Path

    def save(self, turn: int, ignored: list[bytes]) -> None:
        """Keep these ignored files as they are now."""
        kept = list(_affordable(self.files.root, ignored))
        if not kept and not self.index.exists():
            return
        with draft_of(self.index) as index:
            git = self.files.git.over(work_tree=self.files.root, index=index)
            wanted = set(kept)
            stale = [name for name in names(git("ls-files", "-z", "--cached")) if name not in wanted]
            if stale:
                git("update-index", "--force-remove", "-z", "--stdin", stdin=b"\0".join(stale) + b"\0")
            self.files.stage(index, kept)
            write_ref(self.files.git.git_dir, _ref(turn), git.line("write-tree"))

    def put(self, turn: int) -> None:
        """The files kept at that turn hold again what they held; ignored files made since stay."""
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
    """Files within the bounds, by path; one that does not fit is left out, the next may fit."""
    left = ALL_BYTES_MAX
    count = 0
    for name, size in sorted(_small(os.fsencode(root), ignored)):
        if size <= left and count < FILES_MAX:
            left, count = left - size, count + 1
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
