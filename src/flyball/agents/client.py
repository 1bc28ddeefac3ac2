"""Which process of the act has a connection, found from outside by its local port.

Standard library only. The process may have ended meanwhile; then the answer is unknown.
"""

# ruff: noqa: PTH115, PTH123, PTH208
from __future__ import annotations

import os

TYPE_CHECKING = False  # typing takes long to import
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from flyball.agents.tree import descendants
else:
    from tree import descendants

COMMAND_MOST = 300
DEPTH_MOST = 20
INSTALLERS = (
    "pip",
    "pip3",
    "uv",
    "uvx",
    "pipx",
    "poetry",
    "pdm",
    "hatch",
    "npm",
    "npx",
    "pnpm",
    "yarn",
    "bun",
    "cargo",
    "go",
)


class Client:
    """A process's command line, and whether it or one that started it installs packages."""

    def __init__(self, command: str = "", installs: bool = False) -> None:
        self.command, self.installs = command, installs


def client_of(port: int) -> Callable[[], Client]:
    """The lookup is done on the first use, and only once: most connections are allowed without it."""
    clients: list[Client] = []

    def look() -> Client:
        if not clients:
            clients.append(_client(port))
        return clients[0]

    return look


def _client(port: int) -> Client:
    below = descendants(os.getpid())
    inode = next((inode_of_pid for pid in below if (inode_of_pid := _inode(pid, port))), "")
    holder = next((pid for pid in below if inode and _holds(pid, inode)), 0)
    if not holder:
        return Client()
    lines = [words for words in _lineage(holder) if words]
    return Client(
        " ".join(lines[0])[:COMMAND_MOST] if lines else "", any(_installs(words) for words in lines)
    )


def _inode(pid: int, port: int) -> str:
    """The socket that has this local port and is connected, in that process's network."""
    for name in ("tcp", "tcp6"):
        try:
            with open(f"/proc/{pid}/net/{name}", encoding="ascii") as file:
                for line in file.readlines()[1:]:
                    fields = line.split()
                    if int(fields[1].rpartition(":")[2], 16) == port and fields[3] == "01":
                        return fields[9]
        except (OSError, ValueError, IndexError):
            continue
    return ""


def _holds(pid: int, inode: str) -> bool:
    folder = f"/proc/{pid}/fd"
    try:
        return any(os.readlink(f"{folder}/{fd}") == f"socket:[{inode}]" for fd in os.listdir(folder))
    except OSError:
        return False


def _lineage(pid: int) -> Iterator[list[str]]:
    """The command lines of a process, of its parent, and so on up to ours."""
    for _ in range(DEPTH_MOST):
        if pid in (0, 1, os.getpid()):
            return
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                yield file.read(1 << 14).decode("utf-8", "backslashreplace").split("\0")[:-1]
            with open(f"/proc/{pid}/stat", "rb") as file:
                pid = int(file.read().rpartition(b")")[2].split()[1])
        except OSError:
            return


def _installs(words: list[str]) -> bool:
    """`pip install`, `python -m pip install`, `node …/npm ci`: an installer among the first words."""
    names = [word.rpartition("/")[2].removesuffix("-cli.js").removesuffix(".js") for word in words[:4]]
    return any(name in INSTALLERS for name in names)
