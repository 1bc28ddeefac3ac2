"""The command line without its start-up: each command is a process of its own, forked from one that has it imported.

    python -P warm.py FD        serves what `command` asks for, one order after the other, until FD is closed

A command sees its own words, folder, environment and streams, as after `python -m flyball`. How that starts, and what
depends on the start (a terminal, a signal, a kill, what /proc tells of an agent's process), is tried with real ones.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import IO, Any, NoReturn

AT_START = ("LC_", "LANG", "PYTHON")  # what Python itself reads when it starts
LATE = ("prove", "simulate", "selftest", "demo")  # heavy, and seldom used
ALSO = (
    "flyball.acts.performer",
    "flyball.agents.command",
    "flyball.agents.script",
    "cryptography.hazmat.primitives.serialization",
    "cryptography.hazmat.primitives.asymmetric.ed25519",
)


def command(
    *words: str, cwd: Path | None, env: Mapping[str, str], stdin: bytes = b"", timeout: float = 60
) -> subprocess.CompletedProcess[bytes]:
    """`flyball WORDS`, to its end."""
    if not _taken.acquire(blocking=False):
        return _started(words, cwd, env, stdin, timeout)  # one at a time: the other takes the long way
    try:
        if any(name.startswith(AT_START) and os.environ.get(name) != env[name] for name in env):
            return _started(words, cwd, env, stdin, timeout)
        return _forked(words, cwd, env, stdin, timeout)
    finally:
        _taken.release()


_taken = threading.Lock()


def _started(
    words: Sequence[str], cwd: Path | None, env: Mapping[str, str], stdin: bytes, timeout: float
) -> subprocess.CompletedProcess[bytes]:
    argv = [sys.executable, "-P", "-m", "flyball", *words]
    return subprocess.run(argv, cwd=cwd, env=env, input=stdin, capture_output=True, timeout=timeout)


def _forked(
    words: Sequence[str], cwd: Path | None, env: Mapping[str, str], stdin: bytes, timeout: float
) -> subprocess.CompletedProcess[bytes]:
    with contextlib.ExitStack() as files:
        given, out, err = (files.enter_context(tempfile.TemporaryFile()) for _ in range(3))
        given.write(stdin)
        given.seek(0)
        code = _ask(
            {"words": words, "cwd": str(cwd or Path.cwd()), "env": dict(env)}, (given, out, err), timeout
        )
        out.seek(0)
        err.seek(0)
        return subprocess.CompletedProcess(words, code, out.read(), err.read())


def _ask(order: dict[str, Any], files: Sequence[IO[bytes]], timeout: float) -> int:
    door = _server()
    try:
        return _answer(door, order, files, timeout)
    except subprocess.TimeoutExpired:
        raise
    except BaseException:  # an answer that nobody waited for would be taken for the next one's
        door.close()
        _server.cache_clear()
        raise


def _answer(door: socket.socket, order: dict[str, Any], files: Sequence[IO[bytes]], timeout: float) -> int:
    body = json.dumps(order).encode()
    socket.send_fds(door, [len(body).to_bytes(8, "big")], [file.fileno() for file in files])
    door.sendall(body)
    pid = _number(door)
    door.settimeout(timeout)
    try:
        return _number(door)
    except TimeoutError:
        os.kill(pid, signal.SIGKILL)
        door.settimeout(None)
        _number(door)
        raise subprocess.TimeoutExpired(order["words"], timeout) from None
    finally:
        door.settimeout(None)


def _number(door: socket.socket) -> int:
    got = door.recv(8, socket.MSG_WAITALL)
    if len(got) < 8:
        raise RuntimeError("The process that commands are forked from has ended.")
    return int.from_bytes(got, "big", signed=True)


@cache
def _server() -> socket.socket:
    """Started at the first command; it ends when this process closes its door, or ends."""
    ours, theirs = socket.socketpair()
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    argv, fd = [sys.executable, "-P", __file__], theirs.fileno()
    server = subprocess.Popen(
        [*argv, str(fd)], env=env, pass_fds=[fd], stdin=subprocess.DEVNULL, start_new_session=True
    )
    theirs.close()
    atexit.register(server.wait)
    atexit.register(ours.close)  # the last registered is the first called
    return ours


# ---- the server


def serve(door: socket.socket) -> None:
    """Fork for every order; tell who serves it, then how that ended."""
    _import_all()
    gc.freeze()
    while True:
        length, fds, _, _ = socket.recv_fds(door, 8, 3)
        if not length:
            return
        order = json.loads(door.recv(int.from_bytes(length, "big"), socket.MSG_WAITALL))
        pid = os.fork()
        if pid == 0:
            door.close()
            _become(order, fds)
        for fd in fds:
            os.close(fd)
        door.sendall(pid.to_bytes(8, "big", signed=True))
        _, status = os.waitpid(pid, 0)
        door.sendall(os.waitstatus_to_exitcode(status).to_bytes(8, "big", signed=True))


def _import_all() -> None:
    """Every command, and what runs import later; one judgement has the guard's patterns compiled."""
    from flyball.acts.run_files import shipped_policies
    from flyball.cli import COMMANDS
    from flyball.guard.change import Change
    from flyball.guard.changes import judge_changes

    for name in sorted(set(COMMANDS.values()) - set(LATE)):
        import_module(f"flyball.cli.{name}")
    for name in ALSO:
        import_module(name)
    change = Change("calc.py", added=("a",), removed=("b",))
    judge_changes([change], shipped_policies().get(), workspace="/")


def _become(order: dict[str, Any], fds: Sequence[int]) -> NoReturn:
    for place, fd in enumerate(fds):
        os.dup2(fd, place)
        os.close(fd)
    os.environ.clear()
    os.environ.update(order["env"])
    time.tzset()
    os.chdir(order["cwd"])
    sys.argv = ["flyball", *order["words"]]
    sys.stdin = os.fdopen(0, encoding=sys.stdin.encoding, closefd=False)
    sys.stdout = os.fdopen(1, "w", encoding=sys.stdout.encoding, closefd=False)
    sys.stderr = os.fdopen(
        2, "w", buffering=1, encoding=sys.stderr.encoding, errors="backslashreplace", closefd=False
    )
    os._exit(_run())


def _run() -> int:
    """As Python ends, without taking apart every module: the other threads first, then what is left to write."""
    from flyball.cli import main

    code: Any = 0
    try:
        main()
    except SystemExit as end:
        code = end.code
    except BaseException:
        traceback.print_exc()
        code = 1
    for thread in threading.enumerate():
        if thread is not threading.main_thread() and not thread.daemon:
            thread.join()
    sys.stdout.flush()
    sys.stderr.flush()
    return code if isinstance(code, int) else int(code is not None)


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
