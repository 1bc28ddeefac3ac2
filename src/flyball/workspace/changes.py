"""What changed, file by file, as the guard checks it: between two trees, and what a git tree cannot show.

One git call lists the changed files, counts their lines and prints the patch. Git quotes odd file names there, so no
file name can look like a line of the patch. If there are too many lines to carry, they are None, never an empty list:
a check can then say that it has not seen them. The symbolic links of a tree are listed once and carried on from change
to change, because listing a large tree costs too much for its few links.

`special_files` lists links to files outside, devices and pipes, special mode bits and nested repositories. Folders that
the pinned rules ignore are not searched: package stores fill them with links, and nothing in them is ever published.
"""

from __future__ import annotations

import codecs
import contextlib
import os
import re
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from flyball.errors import WorkspaceError
from flyball.guard.change import Change, Op
from flyball.state_dir import write_whole
from flyball.workspace.git import Git, Objects, raw, text

LINES_MAX = 50_000
PATCH_BYTES_MAX = 64 * 1024 * 1024
SYMLINK, GITLINK = "120000", "160000"
DIFF = (
    "-r",
    "-M",
    "--no-ext-diff",
    "--no-textconv",
    "--no-color",
    "--full-index",
    "--ignore-submodules=none",
)
HUNK = re.compile(rb"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")

Lines = tuple[str, ...]


class Row(NamedTuple):
    """One line of git's raw diff."""

    old_mode: str
    new_mode: str
    old: str
    new: str
    status: str
    source: str
    path: str


class Count(NamedTuple):
    """Lines added and deleted; -1 each for a binary file."""

    added: int
    deleted: int


class Diff(NamedTuple):
    """Git's three views of the changes, in the same order: rows, line counts, and the patch."""

    rows: list[Row]
    counts: list[Count]
    patch: bytes


def diff(git: Git, old: str, new: str) -> Diff:
    """What differs between two trees, in path order as git gives it."""
    if old == new:
        return Diff([], [], b"")
    shape = ("diff-tree", "--raw", "--numstat", *DIFF, old, new)
    out = git.beginning(*shape, "-p", "-U0", most=PATCH_BYTES_MAX)
    summary, mark, patch = out.partition(b"\ndiff --git ")
    if not mark and len(out) == PATCH_BYTES_MAX:  # more files than that: even the list is too long
        summary = git(*shape)
    rows: list[Row] = []
    counts: list[Count] = []
    for line in summary.split(b"\n"):
        if line.startswith(b":"):
            rows.append(_row(line))
        elif line:
            counts.append(_count(line))
    return Diff(rows, counts, mark[1:] + patch)


def _row(line: bytes) -> Row:
    head, *paths = line[1:].split(b"\t")
    old_mode, new_mode, old, new, status = head.decode().split(" ")
    return Row(old_mode, new_mode, old, new, status[0], _name(paths[0]), _name(paths[-1]))


def _name(quoted: bytes) -> str:
    """A path as git prints it: in quotation marks, with C's escapes, if there is anything odd in it."""
    if not quoted.startswith(b'"'):
        return text(quoted)
    return text(codecs.escape_decode(quoted[1:-1])[0])


def _count(line: bytes) -> Count:
    added, deleted, _ = line.split(b"\t", 2)
    return Count(-1, -1) if added == b"-" else Count(int(added), int(deleted))


def changes(diff: Diff, objects: Objects) -> list[Change]:
    """The differences as the changes that the guard checks."""
    sizes = objects.sizes(row.new for row in diff.rows if set(row.new) != {"0"})
    rows = zip(diff.rows, diff.counts, _texts(diff), strict=True)
    return [change for row, count, lines in rows for change in _changes(objects, row, count, lines, sizes)]


# the lines


class Text(NamedTuple):
    """The lines of one file's patch; None where they are too many."""

    added: Lines | None
    removed: Lines | None


def _texts(diff: Diff) -> Iterator[Text]:
    """The lines of each row, in the order of the rows; a changed type is two patches, a deletion and an addition."""
    total = sum(max(count.added, 0) + max(count.deleted, 0) for count in diff.counts)
    patches = _patches(diff.patch) if total <= LINES_MAX * 10 else iter(())
    for row in diff.rows:
        lines = next(patches, Text(None, None))
        if row.status == "T":
            lines = _joined(lines, next(patches, Text(None, None)))
        yield lines


def _joined(first: Text, second: Text) -> Text:
    added = None if first.added is None or second.added is None else first.added + second.added
    removed = None if first.removed is None or second.removed is None else first.removed + second.removed
    return Text(added, removed)


def _patches(whole: bytes) -> Iterator[Text]:
    lines = whole.split(b"\n")
    at, end = 0, len(lines)
    while at < end and not lines[at].startswith(b"diff --git "):
        at += 1
    while at < end:
        at, patch = _patch(lines, at + 1)
        yield patch


def _patch(lines: list[bytes], at: int) -> tuple[int, Text]:
    """One file's patch from the line after its first; a hunk's header says how many lines are its own."""
    added: list[bytes] = []
    removed: list[bytes] = []
    while at < len(lines) and not lines[at].startswith(b"diff --git "):
        hunk = HUNK.match(lines[at])
        at += 1
        if hunk:
            at = _hunk(lines, at, int(hunk[1] or 1), int(hunk[2] or 1), added, removed)
    return at, Text(_bounded(added), _bounded(removed))


def _hunk(lines: list[bytes], at: int, out: int, into: int, added: list[bytes], removed: list[bytes]) -> int:
    while at < len(lines) and (out or into or lines[at].startswith(b"\\")):
        line = lines[at]
        if line.startswith(b"-"):
            removed.append(line[1:])
            out -= 1
        elif line.startswith(b"+"):
            added.append(line[1:])
            into -= 1
        at += 1
    return at


def _bounded(lines: list[bytes]) -> Lines | None:
    if len(lines) > LINES_MAX:
        return None
    return tuple(line.decode("utf-8", "replace") for line in lines)


# one row


def _changes(
    objects: Objects, row: Row, count: Count, lines: Text, sizes: dict[str, int]
) -> Iterator[Change]:
    if row.status == "R" and SYMLINK in (row.old_mode, row.new_mode):
        yield Change(row.source, "delete", mode=row.old_mode)
        row = row._replace(status="A", source=row.path)
    plain = _change(row, count, lines, sizes)
    if row.new_mode == SYMLINK:
        target = objects.blobs([row.new])[0]
        plain = msgspec.structs.replace(plain, op="symlink", target=text(target or b""))
    yield plain


def _change(row: Row, count: Count, lines: Text, sizes: dict[str, int]) -> Change:
    binary = count.added < 0
    return Change(
        path=row.path,
        op=_op(row),
        from_=row.source if row.status == "R" else None,
        lines_added=max(count.added, 0),
        lines_deleted=max(count.deleted, 0),
        added=_known(lines.added, count.added),
        removed=_known(lines.removed, count.deleted),
        binary=binary,
        bytes=sizes.get(row.new),
        mode=row.old_mode if row.status == "D" else row.new_mode,
    )


def _known(lines: Lines | None, count: int) -> Lines | None:
    """The lines, if all of them are there; a binary file has none to show."""
    return lines if lines is not None and len(lines) == count else None


def _op(row: Row) -> Op:
    if GITLINK in (row.old_mode, row.new_mode) and row.status != "D":
        return "special"
    if row.status in "MT" and row.old == row.new:
        return "mode"
    by_status: dict[str, Op] = {"A": "add", "D": "delete", "R": "rename"}
    return by_status.get(row.status, "modify")


LINK = re.compile(rb"(?:^|\0)120000 blob ([0-9a-f]+)\t([^\0]+)")


class Note(msgspec.Struct, frozen=True):
    """Each symbolic link of a tree, as path and object id."""

    tree: str
    links: tuple[tuple[bytes, str], ...]


class Links:
    """`file` holds the list for the tree that was asked for last."""

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
        """If the links of the old tree are listed, list those of the new one from the changes."""
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


# ---- what no tree can show -------------------------------------------------------------------------------------

SPECIAL_BITS = 0o7000

Found = tuple[bytes, os.stat_result]


def special_files(root: Path, ignored: list[bytes]) -> list[Change]:
    """One change for each thing below the root that no tree can hold, by path."""
    entries = list(_walk(root, {os.fsdecode(name.rstrip(b"/")) for name in ignored}))
    linked = [(name, info) for name, info in entries if stat.S_ISREG(info.st_mode) and info.st_nlink > 1]
    changes = [
        *_git_entry(root),
        *_links(linked),
        *(change for item in entries for change in _odd(root, *item)),
    ]
    return sorted(changes, key=lambda change: (change.path, change.op))


def _walk(root: Path, skipped: set[str]) -> Iterator[Found]:
    """Entries below the root that may need a closer look; not its own .git, the inside of nested repositories, or
    what is skipped.

    A file is opened relative to its folder, because long paths would take twice the time. Nearly every file is
    plain, so
    that is tested first, and no path is built for it.
    """
    todo = [""]
    while todo:
        folder = todo.pop()
        before = f"{folder}/" if folder else ""
        descriptor = os.open(root / folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            with os.scandir(descriptor) as entries:
                for entry in entries:
                    info = entry.stat(follow_symlinks=False)
                    if _is_plain(info) and entry.name[0] != ".":
                        continue
                    name = before + entry.name
                    if name == ".git" or name in skipped:
                        continue
                    git = _is_git(entry.name)
                    if stat.S_ISDIR(info.st_mode) and not git:
                        todo.append(name)
                    elif git or not _is_plain(info):
                        yield os.fsencode(name), info
        finally:
            os.close(descriptor)


def _is_git(name: str) -> bool:
    """In upper or lower case: git stores none of them in a tree, and does not say so."""
    return name.lower() == ".git"


def _is_plain(info: os.stat_result) -> bool:
    """A file with one name and no special bits, or a symbolic link: nearly everything is."""
    mode = info.st_mode
    return (mode & ~0o777 == stat.S_IFREG and info.st_nlink == 1) or stat.S_ISLNK(mode)


def _links(linked: list[Found]) -> Iterator[Change]:
    """Files with more hard links than the checkout holds: another name is somewhere else."""
    names: dict[tuple[int, int], list[bytes]] = {}
    for name, info in linked:
        names.setdefault((info.st_dev, info.st_ino), []).append(name)
    for name, info in linked:
        if info.st_nlink > len(names[info.st_dev, info.st_ino]):
            yield Change(text(name), "hardlink", bytes=info.st_size, mode=_octal(info))


def _odd(root: Path, name: bytes, info: os.stat_result) -> Iterator[Change]:
    mode = info.st_mode
    if _is_git(os.fsdecode(name.rpartition(b"/")[2])):
        yield _embedded(root, name, info)
    elif not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode)):
        yield Change(text(name), "special", mode=_octal(info))
    elif mode & SPECIAL_BITS and stat.S_ISREG(mode):
        yield Change(text(name), "mode", bytes=info.st_size, mode=_octal(info))


def _embedded(root: Path, name: bytes, info: os.stat_result) -> Change:
    """A nested repository is reported by its folder, as git would; anything else called .git by its own path."""
    if (
        name.endswith(b"/.git")
        and stat.S_ISDIR(info.st_mode)
        and (root / os.fsdecode(name) / "HEAD").exists()
    ):
        return Change(text(name.removesuffix(b"/.git")), "special", mode=GITLINK)
    return Change(text(name), "special", mode=_octal(info))


def _git_entry(root: Path) -> Iterator[Change]:
    """The checkout's own .git must be a folder; anything else would redirect git elsewhere."""
    path = root / ".git"
    if path.is_symlink():
        yield Change(".git", "symlink", target=str(path.readlink()))
    elif path.exists() and not path.is_dir():
        yield Change(".git", "special", mode=_octal(path.lstat()))


def _octal(info: os.stat_result) -> str:
    return f"{info.st_mode:o}"
