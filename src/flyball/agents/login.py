"""Agents get a copy of a login; a token that they renew is written back to the user's file.

The standard library only: the keeper does it, because it lives exactly as long as the agent.

Laws:
- The user's file is replaced, never written into: a reader sees the old login or the new one. It is never removed.
- Only what is well formed and of the same account goes back. A half-written or deleted copy is none.
- If both sides have changed, the user's stands, and the agent's is kept beside the ledger.
- The private home is the agent's: no link in it is followed, by reading or by writing.

The ledger holds the hash of what was last the same on both sides; it stands outside the agent's reach.
"""

# ruff: noqa: PTH110, PTH116, PTH118, PTH119, PTH120, PTH123
from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import stat
import time

TYPE_CHECKING = False  # typing takes long to import
if TYPE_CHECKING:
    from collections.abc import Generator
    from typing import Any

MOST = 1 << 20
EVERY_S = 1.0
SAME = ("account_id", "accountId", "email", "emailAddress", "active")  # whose login it is
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Login:
    """The files of one login: `files` are [the user's path, the path in the private home, rotates, only]."""

    def __init__(self, fields: dict[str, Any]) -> None:
        self.home: str = fields["home"]
        self.ledger: str = fields["ledger"]
        self.lock: str = fields["lock"]
        self.files: list[list[Any]] = fields["files"]
        self.looked: object = None
        self.next = 0.0

    def due(self) -> bool:
        """Whether it is time to check again, and something has changed since the last check."""
        if time.monotonic() < self.next:
            return False
        self.next = time.monotonic() + EVERY_S
        return self.looked != self.stamps()

    def stamps(self) -> list[tuple[int, ...]]:
        return [
            stamp(path)
            for theirs, ours, rotates, _ in self.files
            if rotates
            for path in (theirs, os.path.join(self.home, ours))
        ]

    def share(self, *, lend: bool = False) -> None:
        """Bring both copies in line. With `lend` (before a turn) also the files that are only lent."""
        self.looked = self.stamps()  # before: what changes meanwhile is looked at again
        with self.alone():
            token = self.known()
            for theirs, ours, rotates, only in self.files:
                before = token.get(ours, "")
                if rotates:
                    token[ours] = self.settle(theirs, ours, before, lend)
                elif lend:
                    token[ours] = self.give(theirs, ours, only, before)
            put(os.path.dirname(self.ledger), os.path.basename(self.ledger), json.dumps(token).encode())

    @contextlib.contextmanager
    def alone(self) -> Generator[None]:
        fd = os.open(self.lock, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield
        finally:
            os.close(fd)

    def known(self) -> dict[str, str]:
        try:
            with open(self.ledger, "rb") as file:
                return {str(k): str(v) for k, v in dict(json.load(file)).items()}
        except (OSError, ValueError, TypeError):
            return {}

    def settle(self, theirs: str, ours: str, before: str, lend: bool) -> str:
        """Synchronise a file that both sides may change. Returns its hash."""
        user, agent = read(theirs), self.read_ours(ours)
        if not user and not (lend and before):
            return before  # the file is missing, or another program is writing it
        if agent is None or digest(agent) == before or user == agent:
            if user != agent:
                self.write_ours(ours, user)
            return digest(user)
        if before and digest(user) == before:
            if not acceptable(agent, user or b""):
                return before  # perhaps half written: look again
            replace(theirs, agent)
            return digest(agent)
        if before:
            put(os.path.dirname(self.ledger), f"{os.path.basename(self.ledger)}.kept", agent)
        self.write_ours(ours, user)
        return digest(user)

    def give(self, theirs: str, ours: str, only: list[str], before: str) -> str:
        """Copy a file that only the user may change, if it has changed."""
        data = reduced(read(theirs), only)
        if data is not None and (digest(data) != before or self.read_ours(ours) is None):
            self.write_ours(ours, data)
        return digest(data)

    # ---- in the private home

    def read_ours(self, path: str) -> bytes | None:
        try:
            with self.folder_of(path) as (folder, name):
                fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
        except OSError:
            return None
        return taken(fd)

    def write_ours(self, path: str, data: bytes | None) -> None:
        with self.folder_of(path) as (folder, name):
            if data is None:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(name, dir_fd=folder)
            else:
                put_in(folder, name, data)

    @contextlib.contextmanager
    def folder_of(self, path: str) -> Generator[tuple[int, str]]:
        *parts, name = path.split("/")
        folder = os.open(self.home, FOLDER)
        try:
            for part in parts:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part, 0o700, dir_fd=folder)
                inner = os.open(part, FOLDER, dir_fd=folder)
                os.close(folder)
                folder = inner
            yield folder, name
        finally:
            os.close(folder)


def stamp(path: str) -> tuple[int, ...]:
    try:
        about = os.stat(path, follow_symlinks=True)
    except OSError:
        return ()
    return (about.st_ino, about.st_size, about.st_mtime_ns)


def read(path: str) -> bytes | None:
    try:
        return taken(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC))
    except OSError:
        return None


def taken(fd: int) -> bytes | None:
    """The content of a regular file that is not too large; the descriptor is closed."""
    with os.fdopen(fd, "rb") as file:
        about = os.fstat(file.fileno())
        if not stat.S_ISREG(about.st_mode) or about.st_size > MOST:
            return None
        return file.read(MOST)


def digest(data: bytes | None) -> str:
    return "" if data is None else hashlib.sha256(data).hexdigest()


def acceptable(new: bytes, old: bytes) -> bool:
    """Whether this is the old login with other tokens: JSON if it was JSON, with all its parts, for the same
    account.
    """
    was, now = table(old), table(new)
    if was is None:
        return bool(new.strip())
    return now is not None and set(was) <= set(now) and owners(was) == owners(now)


def table(data: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None  # pyright: ignore[reportUnknownVariableType]


def owners(value: Any, above: str = "") -> dict[str, str]:
    """Every field that says whose login it is, with its path."""
    if not isinstance(value, dict):
        return {}
    items: dict[str, Any] = value  # pyright: ignore[reportUnknownVariableType]
    fields = {f"{above}.{name}": str(items[name]) for name in items if name in SAME}
    for name, inner in items.items():
        fields.update(owners(inner, f"{above}.{name}"))
    return fields


def reduced(data: bytes | None, only: list[str]) -> bytes | None:
    """Only these keys of a JSON file; None if it has none of them."""
    if data is None or not only:
        return data
    value = table(data) or {}
    fields = {name: value[name] for name in only if name in value}
    return json.dumps(fields).encode() if fields else None


def replace(path: str, data: bytes) -> None:
    """Replace the user's file as a whole, with its mode; a symbolic link stays one."""
    real = os.path.realpath(path)
    mode = stat.S_IMODE(os.stat(real).st_mode) if os.path.exists(real) else 0o600
    put(os.path.dirname(real), os.path.basename(real), data, mode)


def put(folder: str, name: str, data: bytes, mode: int = 0o600) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        put_in(fd, name, data, mode)
        os.fsync(fd)
    finally:
        os.close(fd)


def put_in(folder: int, name: str, data: bytes, mode: int = 0o600) -> None:
    draft = f".{name[:100]}.{os.getpid()}.{time.monotonic_ns()}"
    fd = os.open(
        draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode, dir_fd=folder
    )
    try:
        with os.fdopen(fd, "wb") as file:
            os.fchmod(file.fileno(), mode)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.rename(draft, name, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(draft, dir_fd=folder)
        raise
