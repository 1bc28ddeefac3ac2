"""What a tree cannot show: links to files outside, devices and pipes, special bits, repositories within.

Folders that the pinned rules ignore are not walked; package stores fill them with links, and nothing of them is
ever published.
"""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from flyball.guard.change import Change
from flyball.workspace.diff import GITLINK
from flyball.workspace.git import text

SPECIAL_BITS = 0o7000

Found = tuple[bytes, os.stat_result]


def special_files(root: Path, ignored: list[bytes]) -> list[Change]:
    """One change for each thing under the root that no tree would hold, by path."""
    found = list(_walk(root, {os.fsdecode(name.rstrip(b"/")) for name in ignored}))
    linked = [(name, info) for name, info in found if stat.S_ISREG(info.st_mode) and info.st_nlink > 1]
    seen = [*_git_entry(root), *_links(linked), *(change for item in found for change in _odd(root, *item))]
    return sorted(seen, key=lambda change: (change.path, change.op))


def _walk(root: Path, skipped: set[str]) -> Iterator[Found]:
    """What may be odd below the root; not in its own .git, the insides of others and what is skipped."""
    todo = [""]
    while todo:
        folder = todo.pop()
        for name, entry in _listed(root, folder):
            if name == ".git" or name in skipped:
                continue
            if entry.is_dir(follow_symlinks=False) and not _is_git(entry.name):
                todo.append(name)
            elif _is_git(entry.name) or not _is_plain(entry.stat(follow_symlinks=False)):
                yield os.fsencode(name), entry.stat(follow_symlinks=False)


def _is_git(name: str) -> bool:
    """In any case: git holds none of them in a tree, and says nothing."""
    return name.lower() == ".git"


def _listed(root: Path, folder: str) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """The entries of a folder, looked at from within it: a long way to each file would take twice the time."""
    held = os.open(root / folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        with os.scandir(held) as entries:
            for entry in entries:
                yield (f"{folder}/{entry.name}" if folder else entry.name), entry
    finally:
        os.close(held)


def _is_plain(info: os.stat_result) -> bool:
    """A file with one name and no special bits, or a link: what nearly everything is."""
    mode = info.st_mode
    return (stat.S_ISREG(mode) and info.st_nlink == 1 and not mode & SPECIAL_BITS) or stat.S_ISLNK(mode)


def _links(linked: list[Found]) -> Iterator[Change]:
    """Files with more names than the checkout shows: some other name is elsewhere."""
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
    """A repository within is named by its folder, as git would name it; anything else called .git by itself."""
    if (
        name.endswith(b"/.git")
        and stat.S_ISDIR(info.st_mode)
        and (root / os.fsdecode(name) / "HEAD").exists()
    ):
        return Change(text(name.removesuffix(b"/.git")), "special", mode=GITLINK)
    return Change(text(name), "special", mode=_octal(info))


def _git_entry(root: Path) -> Iterator[Change]:
    """The checkout's own .git is a folder, or it is something that leads git elsewhere."""
    path = root / ".git"
    if path.is_symlink():
        yield Change(".git", "symlink", target=str(path.readlink()))
    elif path.exists() and not path.is_dir():
        yield Change(".git", "special", mode=_octal(path.lstat()))


def _octal(info: os.stat_result) -> str:
    return f"{info.st_mode:o}"
