"""The checkout in which proofs run: the files of one tree, what setup made, and nothing left by earlier proofs."""

import os
from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from flyball.errors import WorkspaceError
from flyball.workspace.files import Files
from flyball.workspace.folders import remove, remove_too_deep
from flyball.workspace.git import raw, text
from flyball.workspace.special_files import special_files
from flyball.workspace.store import write_whole


class Room(Struct, frozen=True):
    """`files` are seen through an index of the room's own."""

    files: Files
    note: Path

    @classmethod
    def of(cls, files: Files, folder: Path) -> "Room":
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
        """The room holds this tree and the kept paths."""
        kept = [path.strip("/") for path in keep if path.strip("/")]
        write_whole(self.note, msgspec.json.encode(kept))
        self._drop_strays(kept)
        self._seen().put(tree)
        if self._clear(kept) and self.tree() != tree:
            raise WorkspaceError(
                f"The files of tree {tree} cannot be written to {self.root}; look at what setup keeps there."
            )

    def tree(self) -> str:
        return self._seen().tree()

    def extras(self) -> list[str]:
        return [text(name).rstrip("/") for name in self.files.extras()]

    def _seen(self) -> Files:
        """The room's files without what setup made."""
        kept: list[str] = (
            msgspec.json.decode(self.note.read_bytes(), type=list[str]) if self.note.exists() else []
        )
        return replace(self.files, hidden=tuple("/" + literal(path) for path in kept))

    def _drop_strays(self, kept: Sequence[str]) -> None:
        if not self.root.is_dir() or self.root.is_symlink():
            return
        try:
            strays = special_files(self.root, [raw(path) for path in kept])
        except OSError as problem:
            remove_too_deep(self.root, problem)
            strays = special_files(self.root, [raw(path) for path in kept])
        for stray in strays:
            remove(self.root / stray.path)

    def _clear(self, kept: Sequence[str]) -> bool:
        """Remove what is beyond the tree and not kept; whether there was anything."""
        extras = self.extras()
        for path in extras:
            self._clear_path(path, kept)
        return bool(extras)

    def _clear_path(self, path: str, kept: Sequence[str]) -> None:
        """Remove it, but for what is kept in it."""
        if any(path == name or path.startswith(name + "/") for name in kept):
            return
        inside = [name for name in kept if name.startswith(path + "/")]
        if not inside:
            remove(self.root / path)
            return
        for child in os.listdir(self.root / path):  # noqa: PTH208
            self._clear_path(f"{path}/{child}", inside)


def literal(path: str) -> str:
    """As an ignore rule that means this path alone."""
    return "".join("\\" + letter if letter in "\\*?[]!#" else letter for letter in path)
