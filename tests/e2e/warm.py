"""The command line without its start-up: each command is a process of its own, forked from one that has it imported.

    python -P warm.py SOCKET        serves until its standard input is closed

A command sees its own words, folder, environment and streams, as after `python -m flyball`. `command` runs one;
`program` writes an executable for shells. How Flyball starts, and what depends on the start (a terminal, a signal,
a kill, what /proc tells of an agent's process), is tried with real processes.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import marshal
import os
import select
import shutil
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
from typing import Any, NoReturn

AT_START = ("LC_", "LANG", "PYTHON")  # what Python itself reads when it starts
OF_AGENTS = "FLYBALL_RUN"  # what is looked up in /proc, where a forked process has its parent's environment
LATE = ("prove", "simulate", "selftest", "demo")  # heavy, and seldom used
ALSO = (
    "flyball.runtime.supervisor",
    "flyball.agents.command",
    "flyball.agents.script",
    "cryptography.hazmat.primitives.serialization",
    "cryptography.hazmat.primitives.asymmetric.ed25519",
)
CLIENT = """#!{python} -ISE
import _socket, marshal, os, sys
line = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
line.connect({path!r})
order = marshal.dumps((sys.argv[1:], os.getcwd(), dict(os.environ)))
fds = b"".join(n.to_bytes(4, sys.byteorder) for n in (0, 1, 2))
line.sendmsg([len(order).to_bytes(8, "big")], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, fds)])
line.sendall(order)
line.recv(8, _socket.MSG_WAITALL)
code = int.from_bytes(line.recv(8, _socket.MSG_WAITALL), "big", signed=True)
os._exit(code if code >= 0 else 128 - code)
"""


def command(
    *words: str, cwd: Path | None, env: Mapping[str, str], stdin: bytes = b"", timeout: float = 60
) -> subprocess.CompletedProcess[bytes]:
    """`flyball WORDS`, to its end."""
    if OF_AGENTS in env or any(
        name.startswith(AT_START) and os.environ.get(name) != env[name] for name in env
    ):
        argv = [sys.executable, "-P", "-m", "flyball", *words]
        return subprocess.run(argv, cwd=cwd, env=env, input=stdin, capture_output=True, timeout=timeout)
    with contextlib.ExitStack() as files:
        given, out, err = (files.enter_context(tempfile.TemporaryFile()) for _ in range(3))
        given.write(stdin)
        given.seek(0)
        order = marshal.dumps((list(words), str(cwd or Path.cwd()), dict(env)))
        code = _ask(order, [file.fileno() for file in (given, out, err)], timeout)
        out.seek(0)
        err.seek(0)
        return subprocess.CompletedProcess(words, code, out.read(), err.read())


def program(path: Path) -> None:
    """Write an executable `flyball` that asks the server."""
    path.write_text(CLIENT.format(python=sys.executable, path=_server()))
    path.chmod(0o755)


def _ask(order: bytes, fds: Sequence[int], timeout: float) -> int:
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(_server())
        socket.send_fds(line, [len(order).to_bytes(8, "big")], fds)
        line.sendall(order)
        pid = _number(line)
        line.settimeout(timeout)
        try:
            return _number(line)
        except TimeoutError:
            os.kill(pid, signal.SIGKILL)
            raise subprocess.TimeoutExpired("flyball", timeout) from None


def _number(line: socket.socket) -> int:
    got = line.recv(8, socket.MSG_WAITALL)
    if len(got) < 8:
        raise RuntimeError("The process that commands are forked from has ended.")
    return int.from_bytes(got, "big", signed=True)


@cache
def _server() -> str:
    """The socket of a server, started at the first command; it ends when this process does."""
    folder = tempfile.mkdtemp(prefix="flyball-warm-")
    path = f"{folder}/socket"
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    server = subprocess.Popen(
        [sys.executable, "-P", __file__, path],
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert server.stdin and server.stdout
    server.stdout.readline()  # it listens
    server.stdout.close()
    for deed in (lambda: shutil.rmtree(folder), server.wait, server.stdin.close):
        atexit.register(deed)  # the last registered is the first called
    return path


# ---- the server


def serve(path: str) -> None:
    """Fork for every order."""
    _import_all()
    gc.freeze()
    door = socket.socket(socket.AF_UNIX)
    door.bind(path)
    door.listen(64)
    print(flush=True)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 1)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those who answer
    while 0 not in select.select([door, 0], [], [])[0]:
        line, _ = door.accept()
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            door.close()
            _answer(line)
        line.close()


def _answer(line: socket.socket) -> NoReturn:
    """Tell who carries the order out, then how that ended."""
    length, fds, _, _ = socket.recv_fds(line, 8, 3)
    words, cwd, env = marshal.loads(line.recv(int.from_bytes(length, "big"), socket.MSG_WAITALL))
    pid = os.fork()
    if pid == 0:
        line.close()
        _become(words, cwd, env, fds)
    for fd in (0, *fds):
        os.close(fd)
    with contextlib.suppress(OSError):  # who asked may be gone
        line.sendall(pid.to_bytes(8, "big", signed=True))
        _, status = os.waitpid(pid, 0)
        line.sendall(os.waitstatus_to_exitcode(status).to_bytes(8, "big", signed=True))
    os._exit(0)


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


def _become(words: list[str], cwd: str, env: dict[str, str], fds: Sequence[int]) -> NoReturn:
    for place, fd in enumerate(fds):
        os.dup2(fd, place)
        os.close(fd)
    os.environ.clear()
    os.environ.update(env)
    time.tzset()
    os.chdir(cwd)
    sys.argv = ["flyball", *words]
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
    serve(sys.argv[1])
