"""The symbolic links of a tree. They are noted for one tree and carried on from change to change.

Listing a tree of many files costs more than the few links in it are worth.
"""

import contextlib
import re
from collections.abc import Sequence
from pathlib import Path

import msgspec

from flyball.errors import WorkspaceError
from flyball.state_dir import write_whole
from flyball.workspace.diff import SYMLINK, Row
from flyball.workspace.git import Git, raw, text
from flyball.workspace.objects import Objects

LINK = re.compile(rb"(?:^|\0)120000 blob ([0-9a-f]+)\t([^\0]+)")


class Note(msgspec.Struct, frozen=True):
    """Each link of a tree, as path and object id."""

    tree: str
    links: tuple[tuple[bytes, str], ...]


class Links:
    """`file` holds the note for the tree that was asked about last."""

    def __init__(self, git: Git, objects: Objects, file: Path) -> None:
        self._git, self._objects, self._file = git, objects, file

    def of(self, tree: str) -> dict[str, str]:
        """Every link of the tree and its target."""
        note = self._read()
        if note is None or note.tree != tree:
            rows = LINK.findall(self._git("ls-tree", "-r", "-z", "--full-tree", tree))
            note = Note(tree, tuple((path, oid.decode()) for oid, path in rows))
            self._write(note)
        targets = self._objects.blobs([oid for _, oid in note.links])
        if None in targets:
            raise WorkspaceError(f"The tree {tree} has a symbolic link whose target cannot be read.")
        pairs = zip(note.links, targets, strict=True)
        return {text(path): text(target or b"") for (path, _), target in pairs}

    def follow(self, old: str, new: str, rows: Sequence[Row]) -> None:
        """Where the links of the old tree are noted, note those of the new one."""
        note = self._read()
        if note is None or note.tree != old or old == new:
            return
        links = dict(note.links)
        for row in rows:
            if row.status != "C":
                links.pop(raw(row.source), None)
        links |= {raw(row.path): row.new for row in rows if row.new_mode == SYMLINK}
        self._write(Note(new, tuple(sorted(links.items()))))

    def _read(self) -> Note | None:
        try:
            return msgspec.json.decode(self._file.read_bytes(), type=Note)
        except (OSError, msgspec.MsgspecError):
            return None

    def _write(self, note: Note) -> None:
        with contextlib.suppress(OSError):
            write_whole(self._file, msgspec.json.encode(note), mode=0o644, sync=False)
