"""Folders that others have filled: removing them, and what a git tree cannot show of them.

They may be nested deeper than a path can name, or unreadable. A loop walks them, never recursion, and removal takes
time in proportion to what is there: each step opens the next folder from the one before, so that no path grows long.

`special_files` lists links to files outside, devices and pipes, special bits and repositories within. Folders that the
pinned rules ignore are not walked; package stores fill them with links, and nothing of them is ever published.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from flyball.errors import WorkspaceError
from flyball.guard.change import Change
from flyball.workspace.diff import GITLINK
from flyball.workspace.git import text

DEPTH_MOST = 64
_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def files_below(root: Path, depth_most: int = DEPTH_MOST) -> Iterator[Path]:
    """The plain files in a folder and in those below it, in order; what is nested deeper or cannot be read is left out."""
    todo = [(root, 0)]
    while todo:
        folder, depth = todo.pop()
        try:
            with os.scandir(folder) as listing:
                entries = sorted(listing, key=lambda entry: entry.name)
        except OSError:
            continue
        yield from (Path(entry.path) for entry in entries if entry.is_file(follow_symlinks=False))
        if depth < depth_most:
            inner = [Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False)]
            todo += [(path, depth + 1) for path in reversed(inner)]


def remove(path: Path) -> None:
    """Whatever is at the path is gone, whatever its permissions; links are not followed."""
    try:
        mode = os.lstat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return
    try:
        if stat.S_ISDIR(mode):
            _remove_folder(path)
        else:
            _unlink(path)
    except OSError as err:
        raise WorkspaceError(f"{path} cannot be removed: {err.strerror}.") from err


def _remove_folder(path: Path) -> None:
    unlock(path, deep=False)
    here = os.open(path, _OPEN)
    try:
        left, above = [_folders_left(here)], list[tuple[str, tuple[int, int]]]()
        while left:
            if left[-1]:
                above.append((left[-1].pop(), _identity(here)))
                here = _step(here, above[-1][0])
                left.append(_folders_left(here))
            else:
                left.pop()
                if above:
                    name, was = above.pop()
                    here = _step(here, "..")
                    if _identity(here) != was:
                        raise OSError(errno.EBUSY, "it was moved meanwhile")
                    os.rmdir(name, dir_fd=here)
    finally:
        os.close(here)
    unlock(path.parent, deep=False)
    path.rmdir()


def _step(here: int, name: str) -> int:
    """One folder down or up; the one that is left is closed."""
    there = os.open(name, _OPEN, dir_fd=here)
    os.close(here)
    return there


def _identity(folder: int) -> tuple[int, int]:
    info = os.fstat(folder)
    return info.st_dev, info.st_ino


def _folders_left(folder: int) -> list[str]:
    """The folders in a folder, made ours to enter; everything else in it is removed."""
    with os.scandir(folder) as entries:
        inside = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    for name, is_folder in inside:
        if is_folder:
            os.chmod(name, 0o700, dir_fd=folder)
        else:
            os.unlink(name, dir_fd=folder)
    return [name for name, is_folder in inside if is_folder]


def _unlink(path: Path) -> None:
    try:
        path.unlink()
    except PermissionError:
        unlock(path.parent, deep=False)
        path.unlink()


def unlock(folder: Path, *, deep: bool = True) -> None:
    """Everything in the folder can be read and replaced by us again; links are left alone."""
    mode = os.lstat(folder).st_mode
    if stat.S_ISDIR(mode) and mode & 0o700 != 0o700:
        folder.chmod(stat.S_IMODE(mode) | 0o700)
    todo = [folder] if deep else []
    while todo:
        with os.scandir(todo.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    unlock(Path(entry.path), deep=False)
                    todo.append(Path(entry.path))
                elif entry.is_file(follow_symlinks=False):
                    _unlock_file(Path(entry.path))


def remove_too_deep(root: Path, problem: OSError) -> None:
    """What is nested deeper than a path can name goes, with the top folder that it is in; git could not hold it."""
    if problem.errno != errno.ENAMETOOLONG or not problem.filename:
        raise problem
    remove(root / Path(os.fsdecode(problem.filename)).relative_to(root).parts[0])


def _unlock_file(path: Path) -> None:
    mode = os.lstat(path).st_mode
    if mode & 0o600 != 0o600:
        path.chmod(stat.S_IMODE(mode) | 0o600)


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
