"""Landlock: a process gives up, for itself and all it starts, every way to files but those it lists.

The standard library only: `entry.py` does this just before it becomes the act's own program.

Laws:
- It is an allow-list. A folder cannot be listed without all that is in it, so what lies above a hidden folder is
  named child by child, and cannot itself be listed.
- What Landlock has no rule for stays as it was: modes and times of files, named sockets, UDP, hosts (a TCP rule names a port).
"""

from __future__ import annotations

import ctypes
import os
import stat
import sys

CREATE, ADD, RESTRICT = 444, 445, 446  # the same on every architecture
VERSION, PATH_BENEATH, NET_PORT = 1, 1, 2
NO_NEW_PRIVS = 38  # of prctl(2)
LEAST_ABI = 3  # before it any file could be cut to nothing
TCP_ABI, IOCTL_ABI, SCOPE_ABI = 4, 5, 6

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1, 2, 4, 8
TRUNCATE, IOCTL = 1 << 14, 1 << 15
READS = EXECUTE | READ_FILE | READ_DIR
MAKES = (1 << 14) - 1 & ~(
    READS | (1 << 6) | (1 << 11)
)  # all but devices; with it moving from folder to folder
WRITES = READS | MAKES | TRUNCATE | IOCTL
EVERYTHING = (1 << 15) - 1
ON_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL
BIND, CONNECT = 1, 2  # of TCP
SCOPES = 0b11  # abstract sockets and signals stay among those who are confined together


class Ruleset(ctypes.Structure):
    _fields_ = (("fs", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class Port(ctypes.Structure):
    _fields_ = (("allowed", ctypes.c_uint64), ("port", ctypes.c_uint64))


class Beneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32))


def abi() -> int:
    """The version of Landlock that this kernel has; 0 if it has none, or has it turned off."""
    if sys.platform != "linux":
        return 0
    number = _libc().syscall(CREATE, None, ctypes.c_size_t(0), ctypes.c_uint32(VERSION))
    return max(0, int(number))


def confine(read: list[str], write: list[str], connect: list[int] | None = None) -> None:
    """From here on, forever: only these files, and with `connect` only TCP connections to these ports (with none of
    them, no TCP at all)."""
    version = abi()
    if version < LEAST_ABI:
        raise OSError(0, f"Landlock is at version {version} here; {LEAST_ABI} is needed")
    net = 0 if connect is None or version < TCP_ABI else CONNECT if connect else CONNECT | BIND
    rules = Ruleset(
        fs=EVERYTHING | (IOCTL if version >= IOCTL_ABI else 0),
        net=net,
        scoped=SCOPES if version >= SCOPE_ABI else 0,
    )
    ruleset = _created(rules, version)
    for paths, allowed in ((read, READS), (write, WRITES)):
        for path in paths:
            _allow(ruleset, path, allowed & rules.fs)
    for port in connect or () if net else ():
        _add(ruleset, NET_PORT, Port(allowed=CONNECT, port=port))
    _restrict(ruleset)


def scope() -> None:
    """From here on, abstract sockets and signals of processes outside are out of reach, where this kernel has that."""
    version = abi()
    if version >= SCOPE_ABI:
        _restrict(_created(Ruleset(fs=0, net=0, scoped=SCOPES), version))


def _created(rules: Ruleset, version: int) -> int:
    size = 24 if version >= SCOPE_ABI else 16 if version >= TCP_ABI else 8
    return _called(CREATE, ctypes.byref(rules), ctypes.c_size_t(size), ctypes.c_uint32(0))


def _restrict(ruleset: int) -> None:
    _prctl(NO_NEW_PRIVS, 1)
    _called(RESTRICT, ctypes.c_int(ruleset), ctypes.c_uint32(0))
    os.close(ruleset)


def _add(ruleset: int, kind: int, rule: ctypes.Structure) -> None:
    _called(ADD, ctypes.c_int(ruleset), ctypes.c_int(kind), ctypes.byref(rule), ctypes.c_uint32(0))


def _allow(ruleset: int, path: str, allowed: int) -> None:
    """A path that no longer exists, or that we cannot reach, needs no rule."""
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except (FileNotFoundError, PermissionError):
        return
    folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
    rule = Beneath(allowed=allowed if folder else allowed & ON_FILES, parent=descriptor)
    _add(ruleset, PATH_BENEATH, rule)
    os.close(descriptor)


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _called(number: int, *arguments: object) -> int:
    answer = int(_libc().syscall(number, *arguments))
    if answer < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return answer


def _prctl(option: int, value: int) -> None:
    if _libc().prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
