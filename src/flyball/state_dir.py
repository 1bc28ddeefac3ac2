"""The state directory: where it is, where each thing in it is kept, and how a file is written whole or not at all.

Imports next to nothing, since every command needs it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from flyball.errors import ConfigError


def private_folder(path: Path) -> None:
    """Create a folder, and the folders above it that are missing, readable only by their owner."""
    for folder in (*reversed(path.parents), path):
        folder.mkdir(mode=0o700, exist_ok=True)


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


class RunDir(Struct, frozen=True):
    """The folder of a run that owns a checkout."""

    path: Path

    @property
    def checkout(self) -> Path:
        """The agent's files, with a git directory that the agent may use, or wreck."""
        return self.path / "checkout"

    @property
    def git(self) -> Path:
        """Flyball's own git directory: trees, checkpoints, kept changes. The only one that is believed."""
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
    def runners_counted(self) -> Path:
        """Which proof commands said how many tests they ran, at the baseline."""
        return self.path / "proof.told"

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


def changed_files(folder: Path, known: Mapping[str, str]) -> list[str]:
    """Files in a folder that are new, gone or not what `known` (name -> hash) says, by name."""
    there = {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir()}
    return [name for name in sorted(there | set(known)) if sha256_of(folder / name) != known.get(name)]


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
    draft = path.with_name(f".{path.name[:100]}.{secrets.token_hex(8)}.draft")
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
    """By the XDG rules a relative or empty value counts for nothing."""
    given = env.get(name, "")
    return Path(given) if given.startswith("/") else _home(env) / default


def _home(env: Mapping[str, str]) -> Path:
    given = env.get("HOME", "")
    if given.startswith("/"):
        return Path(given)
    try:
        return Path("~").expanduser()
    except RuntimeError:
        raise ConfigError("There is no home folder; set HOME or FLYBALL_STATE_DIR.") from None


def _absolute(env: Mapping[str, str], name: str) -> Path | None:
    given = env.get(name, "")
    if given and not given.startswith("/"):
        raise ConfigError(f"{name} is '{given}', but must be an absolute path; correct or unset it.")
    return Path(given) if given else None
