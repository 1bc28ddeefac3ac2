"""Git directories written by hand: what stands in them is known to the byte, and nothing else is there.

Flyball is the only writer of its own references, so it writes them as files, whole or not at all; a killed
process leaves no lock behind.
"""

import contextlib
import errno
import itertools
import os
import shutil
import stat
import threading
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from flyball import state_dir
from flyball.errors import WorkspaceError
from flyball.workspace.git import EMAIL, NAME, Git

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Plan(Struct, frozen=True):
    """What a new git directory holds. `refs` are full names to object ids."""

    object_format: str
    alternates: Sequence[Path]
    head: str = "refs/heads/main"
    refs: Mapping[str, str] = {}
    shallow: bytes = b""
    attributes: bytes = b""
    bare: bool = True


def make_git_dir(path: Path, plan: Plan) -> None:
    """A git directory after the plan, complete enough for every git command."""
    for folder in ("objects/info", "objects/pack", "refs/heads", "refs/tags", "info", "hooks"):
        (path / folder).mkdir(parents=True, exist_ok=True)
    (path / "objects/info/alternates").write_bytes(b"".join(_alternate(store) for store in plan.alternates))
    (path / "config").write_text(config_text(plan.object_format, bare=plan.bare))
    (path / "packed-refs").write_text("".join(f"{oid} {name}\n" for name, oid in sorted(plan.refs.items())))
    (path / "info/attributes").write_bytes(plan.attributes)
    if plan.shallow:
        (path / "shallow").write_bytes(plan.shallow)
    target = plan.head if len(plan.head) in (40, 64) else f"ref: {plan.head}"
    (path / "HEAD").write_text(f"{target}\n")


def config_text(object_format: str, *, bare: bool) -> str:
    """The whole configuration of a git directory made here."""
    version = 0 if object_format == "sha1" else 1
    lines = ["[core]", f"\trepositoryformatversion = {version}", "\tfilemode = true"]
    lines += [f"\tbare = {str(bare).lower()}", "\tlogallrefupdates = true", "[gc]", "\tauto = 0"]
    lines += ["[user]", f"\tname = {NAME}", f"\temail = {EMAIL}"]
    if version:
        lines += ["[extensions]", f"\tobjectFormat = {object_format}"]
    return "\n".join(lines) + "\n"


def _alternate(store: Path) -> bytes:
    name = os.fsencode(store)
    quoted = name.replace(b"\\", b"\\\\").replace(b'"', b'\\"')
    return b'"' + quoted + b'"\n' if name.startswith((b'"', b"#")) or b"\\" in name else name + b"\n"


def read_ref(git_dir: Path, name: str) -> str:
    """The object id a reference of ours holds; empty if there is none."""
    try:
        return (git_dir / name).read_text().strip()
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return ""


def numbers_in(folder: Path) -> list[int]:
    """The references in a folder of ours that are called by a number, in order."""
    found = folder.iterdir() if folder.is_dir() else iter(())
    return sorted(int(path.name) for path in found if path.name.isdecimal())


def write_ref(git_dir: Path, name: str, oid: str) -> None:
    (git_dir / name).parent.mkdir(parents=True, exist_ok=True)
    write_whole(git_dir / name, f"{oid}\n".encode())


def write_whole(path: Path, content: bytes) -> None:
    """The file holds the old content or the new, never a part, also after a power cut."""
    try:
        state_dir.write_whole(path, content, mode=0o644)
    except OSError as err:
        raise WorkspaceError(f"{path} cannot be written: {err.strerror}.") from err


def pack_into(git: Git, target: Path, wanted: Sequence[str], known: Sequence[str]) -> None:
    """The objects of `wanted` that are not in `known`, as a pack in another git directory of ours."""
    revisions = "".join(f"{oid}\n" for oid in wanted) + "".join(f"^{oid}\n" for oid in known)
    base = str(target / "objects/pack/pack")
    git("pack-objects", "-q", "--revs", "--non-empty", base, stdin=revisions.encode())


@contextlib.contextmanager
def draft_of(index: Path) -> Generator[Path]:
    """A copy of an index to work on; it takes the original's place only if all went well.

    The copy keeps its time stamp: git tells by it which files changed too soon after the index to be trusted.
    """
    draft = index.with_name(f"{index.name}.{os.getpid()}.{threading.get_ident()}.draft")
    if index.exists():
        shutil.copy2(index, draft)
    try:
        yield draft
        if draft.exists():
            draft.replace(index)
    finally:
        draft.unlink(missing_ok=True)
        draft.with_name(draft.name + ".lock").unlink(missing_ok=True)


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
    """Subfolders are moved up before they are emptied: their nesting may be deeper than any path can name."""
    unlock(path, deep=False)
    top = os.open(path, FOLDER)
    try:
        todo, number = [""], itertools.count()
        while todo:
            name = todo.pop()
            for inner in _emptied(top, name):
                todo.append(f".flyball-removed-{os.getpid()}-{next(number)}" if name else inner)
                if name:
                    os.rename(f"{name}/{inner}", todo[-1], src_dir_fd=top, dst_dir_fd=top)
            if name:
                os.rmdir(name, dir_fd=top)
    finally:
        os.close(top)
    unlock(path.parent, deep=False)
    path.rmdir()


def _emptied(top: int, name: str) -> list[str]:
    """The folders in a folder, made ours to move; everything else in it is removed."""
    folder = os.open(name or ".", FOLDER, dir_fd=top)
    try:
        with os.scandir(folder) as entries:
            inside = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
        for inner, is_folder in inside:
            if is_folder:
                os.chmod(inner, 0o700, dir_fd=folder)
            else:
                os.unlink(inner, dir_fd=folder)
        return [inner for inner, is_folder in inside if is_folder]
    finally:
        os.close(folder)


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
