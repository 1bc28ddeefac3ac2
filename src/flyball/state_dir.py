"""The state directory: where it is, where each thing in it is kept, how files are written and folders removed.

A file is written whole or not at all. Folders that others have filled may be nested deeper than a path can name, or
unreadable: a loop walks them, never recursion, and each step opens the next folder from the one before.

Of a user's repository only `.flyball/out` is written, and `out_folder` says whether it is there.

Imports next to nothing, since every command needs it.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from flyball.errors import ConfigError, WorkspaceError


def private_folder(path: Path) -> None:
    """Create a folder, and the folders above it that are missing, readable only by their owner."""
    for folder in (*reversed(path.parents), path):
        folder.mkdir(mode=0o700, exist_ok=True)


def at_socket(folder: Path, name: str, use: Callable[[str], object]) -> None:
    """Bind or connect a socket of that name. A socket path has at most 104 bytes; a longer one goes through an
    open folder.
    """
    path = str(folder / name)
    if len(os.fsencode(path)) < 100:
        use(path)
        return
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        use(f"/proc/self/fd/{fd}/{name}")
    finally:
        os.close(fd)


RESERVE = "prune.reserve"
RESERVE_BYTES = 256 << 10  # what SQLite and the first steps of pruning need on a full disk


class StateDir(Struct, frozen=True):
    """One user's state directory."""

    path: Path

    @property
    def journal(self) -> Path:
        return self.path / "journal.db"

    @property
    def heads(self) -> Path:
        return self.path / "heads"

    @property
    def acts(self) -> Path:
        return self.path / "acts"

    def act(self, key: str) -> Path:
        """What an act's processes wrote, and what its keeper noted."""
        return self.acts / key

    def run(self, run_id: str) -> RunDir:
        return RunDir(self.path / "runs" / run_id)

    def runs(self) -> list[RunDir]:
        folder = self.path / "runs"
        return [RunDir(path) for path in sorted(folder.iterdir())] if folder.is_dir() else []

    @property
    def last_prune(self) -> Path:
        """A file that is written whenever old runs were pruned."""
        return self.path / "prune.last"

    def is_prune_due(self, now: int) -> bool:
        """A day after the last time, or after the first run."""
        for file in (self.last_prune, self.path / RESERVE):
            if file.exists():
                return now // 1_000_000 - file.stat().st_mtime > 24 * 3600
        return False

    def keep_reserve(self) -> None:
        """A little space for `give_reserve`."""
        with contextlib.suppress(OSError):
            if not (self.path / RESERVE).exists():
                write_whole(self.path / RESERVE, os.urandom(RESERVE_BYTES), sync=False)

    def give_reserve(self) -> None:
        """Free the reserve. On a full disk nothing can be pruned, because not even the journal can be opened."""
        with contextlib.suppress(OSError):
            (self.path / RESERVE).unlink(missing_ok=True)


class RunDir(Struct, frozen=True):
    """The folder of a run that owns a checkout."""

    path: Path

    @property
    def checkout(self) -> Path:
        """The agent's files, with a git directory that the agent may use or damage."""
        return self.path / "checkout"

    @property
    def git(self) -> Path:
        """Flyball's own git directory: trees, checkpoints, kept changes. The only one that Flyball reads from."""
        return self.path / "git"

    @property
    def objects(self) -> Path:
        """A link to the user's object store: the one thing of the repository that the agent can read."""
        return self.path / "objects"

    @property
    def proof(self) -> Path:
        """A second, clean checkout in which proofs run."""
        return self.path / "proof"

    @property
    def pinned(self) -> Path:
        """Copies of the repository's own configuration and hooks, as they were when the run began."""
        return self.path / "pinned"

    @property
    def certificate(self) -> Path:
        return self.path / "certificate.json"

    @property
    def next_certificate(self) -> Path:
        """A certificate that is written, but not yet named by the journal."""
        return self.path / "certificate.next.json"

    @property
    def setup_made(self) -> Path:
        """A list of what `[workspace] setup` made in the proof's checkout."""
        return self.path / "proof.kept"

    @property
    def setup_layer(self) -> Path:
        """What `[workspace] setup` made, as it was: every proof gets a copy."""
        return self.path / "setup"

    @property
    def baseline_report(self) -> Path:
        """Which tests ran on the base, before the first turn."""
        return self.path / "baseline.json"

    @property
    def notify(self) -> Path:
        """Where people are notified about the run. The addresses may hold passwords."""
        return self.path / "notify.json"

    @property
    def why_kept(self) -> Path:
        """Why the checkout of an ended run is still there."""
        return self.path / "kept"

    @property
    def logs(self) -> Path:
        """The logs of an ended run, compressed."""
        return self.path / "logs.tar.gz"

    @property
    def pruned(self) -> Path:
        """What `flyball prune` removed, and when."""
        return self.path / "pruned.json"

    @property
    def driver_log(self) -> Path:
        return self.path / "driver.log"

    def home(self, name: str) -> Path:
        """A private home for the processes of one role."""
        return self.path / "homes" / name

    def last_pruning(self) -> Pruning | None:
        """What was removed by `flyball prune`; None if nothing was."""
        try:
            return msgspec.json.decode(self.pruned.read_bytes(), type=Pruning)
        except (OSError, msgspec.MsgspecError):
            return None


class Pruning(Struct, frozen=True):
    """When a run was pruned last, which of its parts are gone since then or before, and why."""

    at: int
    parts: tuple[str, ...]
    why: str = ""


def sha256_of(file: Path) -> str:
    """The hash of a file's content; "" if it cannot be read."""
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest()
    except OSError:
        return ""


def changed_files(folder: Path, hashes: Mapping[str, str]) -> list[str]:
    """Files in a folder that are new, gone or not what `known` (name -> hash) says, by name."""
    there = {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir()}
    return [name for name in sorted(there | set(hashes)) if sha256_of(folder / name) != hashes.get(name)]


def write_whole(path: Path, data: bytes, *, mode: int = 0o600, sync: bool = True) -> None:
    """Replace a file: a reader sees the old content or the new, never a part, also after a power cut."""
    draft = _draft(path, data, mode, sync)
    try:
        draft.replace(path)
    except OSError:
        draft.unlink(missing_ok=True)
        raise


def create_whole(path: Path, data: bytes, *, mode: int = 0o600) -> None:
    """Create a file with its whole content. If several processes do it at once, the first one's content stays."""
    draft = _draft(path, data, mode, sync=True)
    try:
        with contextlib.suppress(FileExistsError):
            os.link(draft, path)
    finally:
        draft.unlink(missing_ok=True)


def _draft(path: Path, data: bytes, mode: int, sync: bool) -> Path:
    draft = path.with_name(f".{path.name[:100]}.{os.urandom(8).hex()}.draft")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    handle = os.open(draft, flags, mode)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            if sync:
                file.flush()
                os.fsync(file.fileno())
    except OSError:
        draft.unlink(missing_ok=True)
        raise
    return draft


# ---- folders that others have filled ---------------------------------------------------------------------------

DEPTH_MOST = 64
_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def files_below(root: Path, depth_most: int = DEPTH_MOST) -> Iterator[Path]:
    """The plain files in a folder and its subfolders, in order; what is nested too deep or cannot be read is left
    out.
    """
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
    """Remove whatever is at the path, whatever its permissions; links are not followed."""
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
        levels, above = [_folders_left(here)], list[tuple[str, tuple[int, int]]]()
        while levels:
            if levels[-1]:
                above.append((levels[-1].pop(), _identity(here)))
                here = _step(here, above[-1][0])
                levels.append(_folders_left(here))
            else:
                levels.pop()
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
    """The folders in a folder, with permissions that let us in; everything else in it is removed."""
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
    """Make everything in the folder readable and writable for us again; links are left alone."""
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
    """Remove what is nested deeper than a path can name, together with its top folder; git could not store it."""
    if problem.errno != errno.ENAMETOOLONG or not problem.filename:
        raise problem
    remove(root / Path(os.fsdecode(problem.filename)).relative_to(root).parts[0])


def _unlock_file(path: Path) -> None:
    mode = os.lstat(path).st_mode
    if mode & 0o600 != 0o600:
        path.chmod(stat.S_IMODE(mode) | 0o600)


# ---- where it is -----------------------------------------------------------------------------------------------


class Paths(Struct, frozen=True):
    """Where a user's state and configuration are."""

    state_dir: Path
    config_file: Path


def environment() -> dict[str, str]:
    """The process's environment. Nothing else reads it."""
    return dict(os.environ)


def paths(env: Mapping[str, str]) -> Paths:
    state = _xdg(env, "XDG_STATE_HOME", ".local/state") / "flyball"
    config = _xdg(env, "XDG_CONFIG_HOME", ".config") / "flyball" / "config.toml"
    return Paths(_absolute(env, "FLYBALL_STATE_DIR") or state, config)


def _xdg(env: Mapping[str, str], name: str, default: str) -> Path:
    """By the XDG rules a relative or empty value is ignored."""
    value = env.get(name, "")
    return Path(value) if value.startswith("/") else _home(env) / default


def _home(env: Mapping[str, str]) -> Path:
    value = env.get("HOME", "")
    if value.startswith("/"):
        return Path(value)
    try:
        return Path("~").expanduser()
    except RuntimeError:
        raise ConfigError("There is no home folder; set HOME or FLYBALL_STATE_DIR.") from None


def _absolute(env: Mapping[str, str], name: str) -> Path | None:
    value = env.get(name, "")
    if value and not value.startswith("/"):
        raise ConfigError(f"{name} is '{value}', but must be an absolute path; correct or unset it.")
    return Path(value) if value else None


def out_folder(repo: str) -> Path | None:
    """`.flyball/out`, if it exists and is really inside the repository."""
    parts = (Path(repo, ".flyball"), Path(repo, ".flyball", "out"))
    real = bool(repo) and all(part.is_dir() and not part.is_symlink() for part in parts)
    return parts[1] if real else None
