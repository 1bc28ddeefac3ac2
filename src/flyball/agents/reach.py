"""A view as Landlock rules: what may be read and what may be written; everything else is out of reach.

The view's hidden folders are left out child by child. Nothing is mounted: the checkout stays where it is, /tmp is
closed (TMPDIR is in the private home), and shared folders are used where they are.
"""

import os
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from flyball.agents import landlock
from flyball.agents.sandbox import SYSTEM, View, entry, own

PROBE_S = 10
DEVICES = (
    "null",
    "zero",
    "full",
    "random",
    "urandom",
    "tty",
    "ptmx",
    "pts",
    "fd",
    "stdin",
    "stdout",
    "stderr",
)
WRITABLE_DEVICES = ("null", "zero", "full", "tty", "ptmx", "pts")


def command(argv: Sequence[str], read: Iterable[str], write: Iterable[str], **more: Any) -> list[str]:
    """The command that gives up everything but these paths and then becomes `argv`."""
    return entry(argv, files={"read": sorted(set(read)), "write": sorted(set(write))}, **more)


def probe() -> str:
    """Try Landlock once: why it cannot be used here, or "" if it can."""
    try:
        return _probe()
    except OSError as fault:
        return f"Landlock cannot be tried here: {fault}"


def _probe() -> str:
    version = landlock.abi()
    if version < landlock.LEAST_ABI:
        return f"Landlock is {'not there' if not version else f'at version {version}, {landlock.LEAST_ABI} is needed'}"
    with tempfile.TemporaryDirectory(prefix="flyball-probe-") as room:
        mine, theirs = Path(room, "mine"), Path(room, "theirs")
        mine.mkdir()
        theirs.write_text("theirs")
        deed = f"echo x > {mine}/made && ! cat {theirs} && ! (echo y > {theirs})"
        read = {*less("/", [os.path.realpath(room)]), *own()}
        argv = command(("/bin/sh", "-c", deed), read, (str(mine), "/dev/null"))
        try:
            process = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=PROBE_S)
        except (OSError, subprocess.TimeoutExpired) as fault:
            return f"Landlock does not work here: {fault}"
        lines = process.stderr.decode(errors="replace").strip().splitlines() or [f"exit {process.returncode}"]
        is_confined = (mine / "made").exists() and theirs.read_text() == "theirs"
        return "" if process.returncode == 0 and is_confined else f"Landlock does not work here: {lines[-1]}"


def limits() -> str:
    """What this kernel's Landlock cannot prevent, as a sentence for the record."""
    version = landlock.abi()
    open_still = ["UDP and DNS are not kept to loopback", "modes and times of other files can be changed"]
    if version < landlock.SCOPE_ABI:
        open_still.append("other processes can be signalled")
    return f"Landlock (version {version}) has its limits: {', '.join(open_still)}."


def readable(view: View, closed: Sequence[str], keep: Sequence[str]) -> list[str]:
    """Everything that is not hidden; then, one by one, what must be visible anyway."""
    secret = [os.path.realpath(path) for path in (*view.hidden, view.at)]
    hidden = [*secret, *(os.path.realpath(path) for path in closed), "/dev"]
    roots = [place for place in (*SYSTEM, "/proc") if Path(place).exists()] if view.strict else ["/"]
    paths = {path for root in roots for path in less(os.path.realpath(root), hidden)}
    lent = [real for real, _ in (*view.ro_binds, *view.shares)]
    for path in (*keep, *own(), *lent, *(f"/dev/{name}" for name in DEVICES)):
        paths |= set(_lent(os.path.realpath(path), secret))
    return sorted({*paths, view.checkout, view.home})


def writable(view: View) -> list[str]:
    files = [] if view.read_only else [view.checkout]
    rest = (view.home, *(real for real, _ in view.rw_binds), *(f"/dev/{name}" for name in WRITABLE_DEVICES))
    return [*files, *rest]


def _lent(path: str, secret: Sequence[str]) -> list[str]:
    """A folder that is lent does not lend the secrets below it."""
    return less(path, [hidden for hidden in secret if hidden != path and _within(hidden, path)])


def less(path: str, hidden: Sequence[str]) -> list[str]:
    """The path without what is hidden in it. Links are left out: they are usable if their targets are allowed."""
    if any(_within(path, place) for place in hidden):
        return []
    inner = [place for place in hidden if _within(place, path)]
    if not inner:
        return [path]
    try:
        with os.scandir(path) as entries:
            children = sorted(entry.path for entry in entries if not entry.is_symlink())
    except OSError:
        return []
    return [part for child in children for part in less(child, inner)]


def _within(path: str, folder: str) -> bool:
    return Path(path).is_relative_to(folder)
