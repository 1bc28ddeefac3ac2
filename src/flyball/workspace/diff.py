"""What changed between two trees, file by file, in the words the guard judges.

Text is read from a patch of its own, in which git quotes odd names, so that no file name can pass for a line.
Lines that are too many to carry are None, never an empty list: a judge may say that it has not seen them.
"""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from flyball.guard.change import Change, Op
from flyball.workspace.git import Git, text

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


def changes(git: Git, old: str, new: str) -> list[Change]:
    """The changes from one tree to another, in path order as git gives it."""
    if old == new:
        return []
    rows, counts = _summary(git("diff-tree", "-z", "--raw", "--numstat", *DIFF, old, new))
    texts = list(_texts(git, rows, counts, old, new))
    sizes = _sizes(git, [row.new for row in rows])
    found = zip(rows, counts, texts, strict=True)
    return [change for row, count, lines in found for change in _changes(git, row, count, lines, sizes)]


def _summary(listing: bytes) -> tuple[list[Row], list[Count]]:
    fields = iter(listing.split(b"\0"))
    rows: list[Row] = []
    counts: list[Count] = []
    for head in fields:
        if head.startswith(b":"):
            rows.append(_row(head, fields))
        elif head:
            counts.append(_count(head, fields))
    return rows, counts


def _row(head: bytes, fields: Iterator[bytes]) -> Row:
    old_mode, new_mode, old, new, status = head[1:].decode().split(" ")
    source = text(next(fields))
    path = text(next(fields)) if status[0] in "RC" else source
    return Row(old_mode, new_mode, old, new, status[0], source, path)


def _count(head: bytes, fields: Iterator[bytes]) -> Count:
    added, deleted, path = head.split(b"\t", 2)
    if not path:
        _ = (next(fields), next(fields))
    return Count(-1, -1) if added == b"-" else Count(int(added), int(deleted))


def _sizes(git: Git, oids: Sequence[str]) -> dict[str, int]:
    wanted = [oid for oid in dict.fromkeys(oids) if set(oid) != {"0"}]
    if not wanted:
        return {}
    told = git(
        "cat-file", "--batch-check=%(objectname) %(objectsize)", stdin="\n".join(wanted).encode() + b"\n"
    )
    pairs = (line.split(" ") for line in told.decode().splitlines())
    return {oid: int(size) for oid, size in pairs if size.isdigit()}


# the lines


class Text(NamedTuple):
    """The lines of one file's patch; None where they are too many."""

    added: Lines | None
    removed: Lines | None


def _texts(git: Git, rows: Sequence[Row], counts: Sequence[Count], old: str, new: str) -> Iterator[Text]:
    """The lines of each row, in the order of the rows; a changed type is two patches, one out and one in."""
    total = sum(count.added + count.deleted for count in counts if count.added > 0 or count.deleted > 0)
    if total > LINES_MAX * 10:
        yield from (Text(None, None) for _ in rows)
        return
    patches = _patches(git("diff-tree", "-p", "-U0", *DIFF, old, new)[:PATCH_BYTES_MAX])
    for row in rows:
        lines = next(patches, Text(None, None))
        if row.status == "T":
            lines = _joined(lines, next(patches, Text(None, None)))
        yield lines


def _joined(first: Text, second: Text) -> Text:
    added = None if first.added is None or second.added is None else first.added + second.added
    removed = None if first.removed is None or second.removed is None else first.removed + second.removed
    return Text(added, removed)


def _patches(patch: bytes) -> Iterator[Text]:
    lines = patch.split(b"\n")
    at, end = 0, len(lines)
    while at < end and not lines[at].startswith(b"diff --git "):
        at += 1
    while at < end:
        at, found = _patch(lines, at + 1)
        yield found


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


def _changes(git: Git, row: Row, count: Count, lines: Text, sizes: dict[str, int]) -> Iterator[Change]:
    if row.status == "R" and SYMLINK in (row.old_mode, row.new_mode):
        yield Change(row.source, "delete", mode=row.old_mode)
        row = row._replace(status="A", source=row.path)
    plain = _change(row, count, lines, sizes)
    if row.new_mode == SYMLINK:
        target = text(git("cat-file", "blob", row.new))
        plain = msgspec.structs.replace(plain, op="symlink", target=target)
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
    """The lines, if they are all of them; a binary file has none to show."""
    return lines if lines is not None and len(lines) == count else None


def _op(row: Row) -> Op:
    if GITLINK in (row.old_mode, row.new_mode) and row.status != "D":
        return "special"
    if row.status in "MT" and row.old == row.new:
        return "mode"
    by_status: dict[str, Op] = {"A": "add", "D": "delete", "R": "rename"}
    return by_status.get(row.status, "modify")
