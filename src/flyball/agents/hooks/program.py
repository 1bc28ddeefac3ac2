"""A hook's program: one question in, one answer out. Run as `python -I -S program.py MOMENT AGENT BRIEF SHA256`.

MOMENT is `pre` (may this tool run?), `post` (it has run) or `note` (anything else). It is started anew for each
tool call, so it imports next to nothing: the driver, which has the judge in memory, is asked over `sock` beside the
brief. Where no driver answers, the guard's own code is loaded and judges here, with the pinned brief.

Laws:
- Before a tool runs, whatever goes wrong is exit code 2: a CLI takes every other failure of a hook as a yes.
- A brief with another hash than the one given is no brief.
- Only the driver can be talked to: same user, and where the agent has a PID namespace of its own, from outside it.
"""

# ruff: noqa: PTH100, PTH120
import _socket
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from typing import NoReturn
else:  # the public module takes long to import
    import _signal as signal

PATIENCE_S, CPU_S = 20.0, 10.0  # below every timeout that `settings` writes
DRIVER_S = 3.0
PAYLOAD_MOST, REPLY_MOST, BRIEF_MOST = 8 << 20, 1 << 20, 4 << 20
QUIET = ("post", "note")
REFUSED = 2


def main(argv: "list[str]") -> int:
    quiet = len(argv) > 1 and argv[1] in QUIET
    try:
        _be_quick(quiet)
        moment, agent, brief, sha256 = argv[1:]
        code, out, err = answer(moment, agent, brief, sha256, _taken(0, PAYLOAD_MOST))
    except BaseException as fault:
        code, out, err = (
            REFUSED,
            b"",
            f"Flyball could not check this call ({type(fault).__name__}: {fault}).\n".encode(),
        )
    if quiet:
        return 0
    _give(2, err)
    _give(1, out)
    return code if code in (0, REFUSED) else REFUSED


def _be_quick(quiet: bool) -> None:
    """Out of wall time, refuse. Out of processor time the process ends, which the command in `settings` turns into a refusal."""

    def late(_number: int, _frame: object) -> "NoReturn":
        os.write(2, b"Flyball took too long to check this call.\n")
        os._exit(0 if quiet else REFUSED)

    signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, PATIENCE_S)
    signal.setitimer(signal.ITIMER_VIRTUAL, CPU_S)


def _taken(fd: int, most: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    while data := os.read(fd, 1 << 16):
        parts.append(data)
        size += len(data)
        if size > most:
            raise ValueError("it is too long")
    return b"".join(parts)


def _give(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]


def answer(moment: str, agent: str, brief: str, sha256: str, payload: bytes) -> "tuple[int, bytes, bytes]":
    if moment not in ("pre", *QUIET):
        raise ValueError(f"'{moment}' is neither pre, post nor note")
    data = _file(brief)
    pinned = _sha256(data) == sha256
    folder = os.path.dirname(os.path.abspath(brief))
    reply = ask_driver(folder, moment if pinned else "tampered", agent, payload, b'"confined":true' in data)
    if not pinned:
        return REFUSED, b"", b"Denied by Flyball: the rules of this run were changed.\n"
    return reply or _by_itself(data, moment, agent, payload)


def _file(path: str) -> bytes:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return _taken(fd, BRIEF_MOST)
    finally:
        os.close(fd)


def _sha256(data: bytes) -> str:
    """hashlib takes long to import."""
    try:
        from _sha256 import sha256  # type: ignore[reportMissingImports, reportUnknownVariableType]
    except ImportError:
        try:
            from _sha2 import sha256  # type: ignore[reportMissingImports, reportUnknownVariableType]
        except ImportError:
            from hashlib import sha256
    return str(sha256(data).hexdigest())  # type: ignore[reportUnknownMemberType]


# ---- asking the driver -----------------------------------------------------------------------------------


def ask_driver(
    folder: str, moment: str, agent: str, payload: bytes, confined: bool
) -> "tuple[int, bytes, bytes] | None":
    """The driver's answer; None without a driver or a readable answer."""
    door = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        door.settimeout(DRIVER_S)
        _connect(door, folder)
        if not _is_driver(door, confined):
            return None
        door.sendall(f"{moment} {agent} {len(payload)}\n".encode("ascii", "replace") + payload)
        return _understood(_receive(door))
    except (OSError, ValueError):
        return None
    finally:
        door.close()


def _connect(door: "_socket.socket", folder: str) -> None:
    """A socket's name has 107 bytes at most: go through an open folder where it is longer."""
    path = f"{folder}/sock"
    if len(path.encode()) < 100:
        door.connect(path)
        return
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        door.connect(f"/proc/self/fd/{fd}/sock")
    finally:
        os.close(fd)


def _is_driver(door: "_socket.socket", confined: bool) -> bool:
    """The same user; and a process outside of our PID namespace has the number 0 in here."""
    if not hasattr(_socket, "SO_PEERCRED"):
        return True
    raw = door.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12)
    pid, uid = (int.from_bytes(raw[at : at + 4], sys.byteorder) for at in (0, 4))
    return uid == os.geteuid() and (pid == 0 or not confined)


def _receive(door: "_socket.socket") -> bytes:
    parts: list[bytes] = []
    size = 0
    while (data := door.recv(1 << 16)) and size <= REPLY_MOST:
        parts.append(data)
        size += len(data)
    return b"".join(parts)


def _understood(reply: bytes) -> "tuple[int, bytes, bytes] | None":
    """`CODE OUT ERR` and a line's end, then OUT bytes and ERR bytes, and nothing more."""
    head, _, body = reply.partition(b"\n")
    code, out, err = (int(word) for word in head.split())
    whole = code in (0, REFUSED) and out >= 0 and err >= 0 and len(body) == out + err
    return (code, body[:out], body[out:]) if whole else None


# ---- judging here ----------------------------------------------------------------------------------------


def _by_itself(data: bytes, moment: str, agent: str, payload: bytes) -> "tuple[int, bytes, bytes]":
    import gc
    import json

    gc.disable()  # a fifth of the time, and nothing here lives long
    content = json.loads(data)
    for place in content["imports"]:
        if (place + "/").startswith(content["workspace"] + "/") and content["confined"]:
            raise ValueError("the guard's own code is in a place that the agent can write to")
    sys.path[:0] = content["imports"]
    _load_grammar()
    from flyball.agents.hooks.without_driver import rule

    return rule(data, moment, agent, payload)


def _load_grammar() -> None:
    """The grammar in the place of its package, which imports half the library for queries that nobody makes here."""
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec

    package = PathFinder.find_spec("tree_sitter_bash")
    spec = package and PathFinder.find_spec("_binding", package.submodule_search_locations)
    if spec and spec.loader:
        sys.modules["tree_sitter_bash"] = grammar = module_from_spec(spec)
        spec.loader.exec_module(grammar)


if __name__ == "__main__":
    sys.stdout = None  # nothing but the answer is said  # type: ignore[reportAttributeAccessIssue]
    os._exit(main(sys.argv))
