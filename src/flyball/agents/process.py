"""The process of an act as the driver sees it: started once, watched by the current driver, ended with all its
children.

Everything about it is in the act's directory; the driver may die and another one may take over.

    unclaimed   no keeper has taken it: begin() it
    alive       its keeper lives: attend() it
    ended       exit.json says how
    lost        its keeper died without a report: what it did is unknown
"""

import contextlib
import fcntl
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import msgspec

from flyball.errors import AgentError
from flyball.state_dir import at_socket

Look = Literal["unclaimed", "alive", "ended", "lost"]
Reason = Literal["exit", "wall", "idle", "stopped", "orphaned", "swarm", "cannot_start", "lost"]

KEEPER = Path(__file__).with_name("keeper.py")
CHUNK = 1 << 16
TAIL_MOST = 1 << 20
CLEAR_ROUNDS = 200
RETRY_S = 0.01
PROXY_FD = 201  # through it a sandbox hands out the sockets that lead to the keeper's proxy
STATUS_FD = 200  # on it, where the spec asks for it, a sandbox tells its keeper what became of it


class Spec(msgspec.Struct, frozen=True, kw_only=True):
    """What to start. The environment is the whole environment: nothing is inherited."""

    argv: tuple[str, ...]
    cwd: str
    env: dict[str, str]
    stdin_file: str | None = None  # absolute, or relative to the act's directory
    stdin_held: bool = False  # the driver speaks on it, through Line.say
    wall_s: float | None = None
    idle_s: float | None = None
    grace_s: float = 5.0
    orphan_s: float = 60.0
    out_limit: int = 64 << 20
    processes: int | None = None  # more than this at once, and it is ended
    status: bool = False  # the program tells on STATUS_FD whether it began
    proxy: dict[str, Any] | None = None  # what proxy.Proxy is given: the hosts that may be reached
    login: dict[str, Any] | None = None  # what login.Login is given: files that are lent and brought back


class Exit(msgspec.Struct, frozen=True, kw_only=True):
    """How it ended: the `code` or `signal` of the process; `reason` says what ended it."""

    reason: Reason
    code: int | None = None
    signal: int | None = None
    error: str = ""
    started_at_us: int = 0
    took_us: int = 0
    out_bytes: int = 0
    err_bytes: int = 0
    dropped: int = 0
    swept: int = 0
    status: str | None = None  # what was told on STATUS_FD, if it was asked for

    @property
    def well(self) -> bool:
        """It ended by itself with exit code 0. A process that had to be ended has failed, whatever it wrote."""
        return self.reason == "exit" and self.code == 0


class Stop:
    """A stop request that many threads can wait for. Once set it stays set; `now` may follow."""

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe()
        self._one = threading.Lock()
        self.now = False
        self._set = self._closed = False

    def set(self, now: bool = False) -> None:
        """After close() it does nothing: another file may have the pipe's number by then."""
        with self._one:
            self.now = self.now or now
            if not self._set and not self._closed:
                self._set = True
                os.write(self._writer, b".")

    def is_set(self) -> bool:
        return self._set

    def fileno(self) -> int:
        return self._reader

    def close(self) -> None:
        with self._one:
            self._closed = True
            os.close(self._reader)
            os.close(self._writer)


def begin(directory: Path, spec: Spec) -> None:
    """Write the spec, start a keeper and return when the act is claimed. A second call does no harm."""
    if look(directory) != "unclaimed":
        return
    _write_spec(directory, spec)
    argv = [sys.executable, "-X", "utf8", "-I", "-S", str(KEEPER), str(directory)]
    started = subprocess.run(
        argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env={}
    )
    if look(directory) != "unclaimed":
        (directory / "spec.json").unlink(missing_ok=True)  # left by the later of two starts
    else:
        why = started.stderr.decode(errors="replace").strip().splitlines() or ["no reason given"]
        raise AgentError(f"No process can be started in '{directory}': {why[-1]}.")


def _write_spec(directory: Path, spec: Spec) -> None:
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = directory / f"spec.{os.getpid()}.{time.monotonic_ns()}"
        with open(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as file:  # noqa: PTH123
            json.dump(msgspec.to_builtins(spec), file)  # escapes what is no UTF-8, as msgspec would not
            file.flush()
            os.fsync(file.fileno())
        draft.rename(directory / "spec.json")
        for folder in (directory, directory.parent):
            _sync(folder)
    except OSError as fault:
        raise AgentError(f"'{directory}' cannot be written: {fault.strerror}.") from fault


def _sync(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def look(directory: Path) -> Look:
    """The state of the act. The lock on the claim tells a living keeper from a dead one."""
    if (directory / "exit.json").exists():
        return "ended"
    try:
        fd = os.open(directory / "claim", os.O_RDONLY)
    except (FileNotFoundError, NotADirectoryError):
        return "unclaimed"
    try:
        fcntl.flock(
            fd, fcntl.LOCK_SH | fcntl.LOCK_NB
        )  # shared: two readers do not take each other for the keeper
    except BlockingIOError:
        return "alive"
    finally:
        os.close(fd)
    return "ended" if (directory / "exit.json").exists() else "lost"


def attend(
    directory: Path,
    *,
    on_output: Callable[[bytes], None] | None = None,
    stop: Stop | None = None,
    offset: int = 0,
) -> Exit:
    """Wait until the act has ended, passing on its standard output from `offset` on.

    Meanwhile the act has a driver. If the driver goes, another has `orphan_s` to take over."""
    output = _Output(directory / "out", offset, on_output)
    while (state := look(directory)) == "alive":
        try:
            line = Line(directory)
        except OSError:
            time.sleep(RETRY_S)  # it has just gone
            continue
        with line:
            _follow(line, output, stop)
    output.pump()
    if state == "unclaimed":
        raise AgentError(f"The act in '{directory}' was never started.")
    return read_exit(directory)


def read_exit(directory: Path) -> Exit:
    """What the keeper wrote; if the act is lost, its remaining processes are ended first."""
    try:
        return msgspec.json.decode((directory / "exit.json").read_bytes(), type=Exit)
    except FileNotFoundError:
        return Exit(reason="lost", swept=clear(directory))
    except msgspec.MsgspecError as fault:
        raise AgentError(f"'{directory / 'exit.json'}' is not what a keeper wrote: {fault}.") from fault


class Line:
    """A connection to a living keeper. While one is open the act is not orphaned."""

    def __init__(self, directory: Path) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            at_socket(directory, "sock", self.socket.connect)
        except OSError:
            self.socket.close()
            raise

    def __enter__(self) -> "Line":
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def end(self, now: bool = False) -> None:
        self._send({"end": "stopped", "now": now})

    def hold(self, held: bool) -> None:
        """Stop the wall and idle clocks while the agent waits for Flyball."""
        self._send({"hold": held})

    def say(self, text: str | None) -> None:
        """Write to a held stdin; None closes it."""
        self._send({"in": text})

    def _send(self, message: dict[str, Any]) -> None:
        with contextlib.suppress(ConnectionError):  # whom it would have told has ended
            self.socket.sendall(json.dumps(message).encode() + b"\n")

    def hung_up(self) -> bool:
        """Read what the keeper sent; True at its end."""
        try:
            return not self.socket.recv(CHUNK)
        except ConnectionError:
            return True


def end(directory: Path, *, now: bool = False) -> None:
    """Ask the keeper to end the process tree, if it is alive. Returns at once; attend() waits."""
    with contextlib.suppress(OSError), Line(directory) as line:
        line.end(now)


class _Output:
    """What the act has written since we last looked."""

    def __init__(self, path: Path, offset: int, give: Callable[[bytes], None] | None) -> None:
        self.path, self.offset, self.give = path, offset, give

    def pump(self) -> None:
        if self.give is None or not self.path.exists():
            return
        with self.path.open("rb") as file:
            file.seek(self.offset)
            while data := file.read(CHUNK):
                self.offset += len(data)
                self.give(data)


def _follow(line: Line, output: _Output, stop: Stop | None) -> None:
    """Until the keeper hangs up. It wakes us for output; a stop is passed on, and again if it is `now`."""
    request: bool | None = None
    poll = select.poll()
    poll.register(line.socket, select.POLLIN)
    if stop:
        poll.register(stop, select.POLLIN)
    while True:
        ready = [fd for fd, _ in poll.poll(100 if request is False else None)]
        if stop and stop.is_set() and stop.now is not request:
            if request is None:
                poll.unregister(stop)  # it stays readable, and would keep us awake
            request = stop.now
            line.end(now=request)
        hung_up = line.socket.fileno() in ready and line.hung_up()
        output.pump()
        if hung_up:
            return


def clear(directory: Path) -> int:
    """End every process that a dead keeper left, found by its mark. Returns how many there were."""
    try:
        mark = (directory / "claim").read_bytes().strip()
    except FileNotFoundError:
        return 0
    killed: set[int] = set()
    for _ in range(CLEAR_ROUNDS):
        if not (pids := _marked(b"INVOCATION_ID=" + mark)):
            break
        for pid in pids:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        killed |= pids
        time.sleep(RETRY_S)
    return len(killed)


def _marked(mark: bytes) -> set[int]:
    pids: set[int] = set()
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended, or is another user's
            if mark in (entry / "environ").read_bytes().split(b"\0"):
                pids.add(int(entry.name))
    return pids - {os.getpid()}


def read_out(directory: Path, most: int = TAIL_MOST) -> bytes:
    """The last `most` bytes of stdout."""
    return _tail(directory / "out", most)


def read_err(directory: Path, most: int = TAIL_MOST) -> bytes:
    """The last `most` bytes of stderr."""
    return _tail(directory / "err", most)


def _tail(path: Path, most: int) -> bytes:
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - most))
            return file.read(most)
    except FileNotFoundError:
        return b""
