"""The descendants of a process, as the system lists them. Standard library only."""

# ruff: noqa: PTH112, PTH123, PTH208
from __future__ import annotations

import os

TYPE_CHECKING = False  # typing takes long to import
if TYPE_CHECKING:
    from collections.abc import Iterator


def descendants(root: int) -> dict[int, bytes]:
    """Every living process below `root`, with its name."""
    below: dict[int, list[tuple[int, bytes]]] = {}
    for pid, parent, name in from_proc() if os.path.isdir("/proc/self") else from_ps():
        below.setdefault(parent, []).append((pid, name))
    names: dict[int, bytes] = {}
    waiting = [root]
    while waiting:
        for pid, name in below.pop(waiting.pop(), ()):
            names[pid] = name
            waiting.append(pid)
    return names


def from_proc() -> Iterator[tuple[int, int, bytes]]:
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/stat", "rb") as file:
                head, _, tail = file.read().rpartition(b")")
        except OSError:
            continue  # it has ended
        state, parent = tail.split()[:2]
        if state not in (b"Z", b"X"):
            yield int(entry), int(parent), head.partition(b"(")[2]


def from_ps() -> Iterator[tuple[int, int, bytes]]:
    """Where there is no /proc (macOS), and no subreaper either: orphans cannot be found there."""
    import subprocess

    listing = subprocess.run(["/bin/ps", "-axo", "pid=,ppid=,state=,comm="], stdout=subprocess.PIPE).stdout
    for line in listing.splitlines():
        pid, parent, state, name = line.split(None, 3)
        if not state.startswith(b"Z"):
            yield int(pid), int(parent), name
