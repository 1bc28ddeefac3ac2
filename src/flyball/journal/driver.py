"""The process that runs runs (the driver): its name, a lock that ends with it, and a socket that wakes it.

A lease in the journal names its holder; whether the holder lives is told by its lock, so a killed driver's
runs can be taken over at once and a living one's never.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path
from typing import TYPE_CHECKING

from flyball.state_dir import at_socket, private_folder

if TYPE_CHECKING:
    import socket

FOLDER = "drivers"


class Driver:
    """This process as a driver. Its leases end when it is closed, or with the process."""

    def __init__(self, state_dir: Path, name: str | None = None) -> None:
        self.folder = state_dir / FOLDER
        private_folder(self.folder)
        self.name = name or f"{os.getpid()}-{os.urandom(4).hex()}"
        self._lock = os.open(self.folder / f"{self.name}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)  # who only looks holds it for a moment
        os.write(self._lock, namespace().encode())
        self.bell = _bell()
        self.bell.setblocking(False)
        at_socket(self.folder, f"{self.name}.bell", self.bell.bind)

    def hear(self) -> None:
        """Consume every wake-up so far."""
        with contextlib.suppress(BlockingIOError):
            while self.bell.recv(16):
                pass

    def close(self) -> None:
        self.bell.close()
        for end in ("bell", "lock"):
            (self.folder / f"{self.name}.{end}").unlink(missing_ok=True)
        os.close(self._lock)


def _bell() -> socket.socket:
    import socket  # commands that only look need none, and start faster

    return socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)


def alive(state_dir: Path, name: str) -> bool:
    """Whether that driver's process still holds its lock."""
    try:
        lock = os.open(state_dir / FOLDER / f"{name}.lock", os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def others_at_work(state_dir: Path) -> list[str]:
    """The names of the drivers of other processes that live."""
    names = sorted(lock.stem for lock in (state_dir / FOLDER).glob("*.lock"))
    own = f"{os.getpid()}-"
    return [name for name in names if not name.startswith(own) and alive(state_dir, name)]


def namespace() -> str:
    """The PID namespace that this process lives in; "" where there is no such thing."""
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return ""


def namespaces(state_dir: Path) -> set[str]:
    """Those of all drivers that live."""
    found: set[str] = set()
    for lock in (state_dir / FOLDER).glob("*.lock"):
        with contextlib.suppress(OSError):
            if alive(state_dir, lock.stem):
                found.add(lock.read_text("utf-8", "replace"))
    return found - {""}


def ring(state_dir: Path, name: str) -> bool:
    """Wake a driver: there is mail. False if there is none."""
    if not name:
        return False
    bell = _bell()
    try:
        bell.setblocking(False)
        at_socket(state_dir / FOLDER, f"{name}.bell", bell.connect)
        bell.send(b"!")
    except BlockingIOError:
        return True  # so many wake-ups are pending that it will wake
    except OSError:
        return False
    finally:
        bell.close()
    return True
