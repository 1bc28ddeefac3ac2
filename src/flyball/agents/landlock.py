"""Landlock: a process gives up, for itself and all it starts, every way to files but those it lists.

Run as `python -I -S landlock.py RULES PROGRAM …`; RULES is JSON: {"read": […], "write": […], "tcp": bool, "tell": fd}.
The standard library only: this program runs before the act's own, and nothing of Flyball is needed for it.

Laws:
- It is all or nothing: what cannot be given up ends in exit code 125 before the program is started.
- It is an allow-list. A folder cannot be listed without all that is in it, so what lies above a hidden folder is
  named child by child, and cannot itself be listed.
- What Landlock has no rule for stays as it was: modes and times of files, named sockets, UDP, hosts.
"""

from __future__ import annotations

import ctypes
import json
import os
import stat
import sys

TYPE_CHECKING = False  # typing takes long to import
if TYPE_CHECKING:
    from typing import NoReturn

CREATE, ADD, RESTRICT = 444, 445, 446  # the same on every architecture
VERSION, PATH_BENEATH = 1, 1
NO_NEW_PRIVS, DROP_BOUND = 38, 24  # of prctl(2)
LEAST_ABI = 3  # before it any file could be cut to nothing
TCP_ABI, IOCTL_ABI, SCOPE_ABI = 4, 5, 6
REFUSED = 125

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1, 2, 4, 8
TRUNCATE, IOCTL = 1 << 14, 1 << 15
READS = EXECUTE | READ_FILE | READ_DIR
MAKES = (1 << 14) - 1 & ~(
    READS | (1 << 6) | (1 << 11)
)  # all but devices; with it moving from folder to folder
WRITES = READS | MAKES | TRUNCATE | IOCTL
EVERYTHING = (1 << 15) - 1
ON_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL
TCP = 0b11  # bind, connect
SCOPES = 0b11  # abstract sockets and signals stay among those who are confined together


class Ruleset(ctypes.Structure):
    _fields_ = (("fs", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class Beneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32))


def abi() -> int:
    """The version of Landlock that this kernel has; 0 if it has none, or has it turned off."""
    if sys.platform != "linux":
        return 0
    found = _libc().syscall(CREATE, None, ctypes.c_size_t(0), ctypes.c_uint32(VERSION))
    return max(0, int(found))


def confine(read: list[str], write: list[str], tcp: bool) -> None:
    """From here on, for ever: only these files, and TCP only if it is allowed."""
    version = abi()
    if version < LEAST_ABI:
        raise OSError(0, f"Landlock is at version {version} here; {LEAST_ABI} is needed")
    rules = Ruleset(
        fs=EVERYTHING | (IOCTL if version >= IOCTL_ABI else 0),
        net=TCP if version >= TCP_ABI and not tcp else 0,
        scoped=SCOPES if version >= SCOPE_ABI else 0,
    )
    size = 24 if version >= SCOPE_ABI else 16 if version >= TCP_ABI else 8
    made = _called(CREATE, ctypes.byref(rules), ctypes.c_size_t(size), ctypes.c_uint32(0))
    for paths, allowed in ((read, READS), (write, WRITES)):
        for path in paths:
            _allow(made, path, allowed & rules.fs)
    _drop_capabilities()
    _prctl(NO_NEW_PRIVS, 1)
    _called(RESTRICT, ctypes.c_int(made), ctypes.c_uint32(0))
    os.close(made)


def _allow(ruleset: int, path: str, allowed: int) -> None:
    """A path that has gone meanwhile needs no rule."""
    try:
        held = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    folder = stat.S_ISDIR(os.fstat(held).st_mode)
    rule = Beneath(allowed=allowed if folder else allowed & ON_FILES, parent=held)
    _called(
        ADD,
        ctypes.c_int(ruleset),
        ctypes.c_int(PATH_BENEATH),
        ctypes.byref(rule),
        ctypes.c_uint32(0),
    )
    os.close(held)


def _drop_capabilities() -> None:
    """Also for root: with them a process could load a module or trace another."""
    if os.geteuid() != 0:
        return
    number = 0
    while _libc().prctl(DROP_BOUND, number, 0, 0, 0) == 0:
        number += 1


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _called(number: int, *given: object) -> int:
    answer = int(_libc().syscall(number, *given))
    if answer < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return answer


def _prctl(option: int, value: int) -> None:
    if _libc().prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def main(given: str, argv: list[str]) -> NoReturn:
    rules = json.loads(given)
    __import__("warnings")  # execvp imports it, and would find it out of reach
    try:
        confine(rules["read"], rules["write"], rules["tcp"])
        if rules.get("tell"):
            os.write(rules["tell"], b'{"started": true}\n')
            os.close(rules["tell"])
        os.execvp(argv[0], argv)
    except OSError as fault:
        sys.stderr.write(f"landlock: {fault.filename or argv[0]}: {fault.strerror}\n")
    sys.exit(REFUSED)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
