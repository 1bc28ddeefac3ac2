"""Folders that others have filled: nested deeper than a path can name, or made unreadable.

A loop walks them, never recursion, and removal takes time in proportion to what is there: each step opens the next
folder from the one before, so that no path grows long.
"""

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from flyball.errors import WorkspaceError

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
