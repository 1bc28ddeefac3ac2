"""The environment of the self-test: this machine, its programs, and how long its disk takes to sync."""

from __future__ import annotations

import os
import platform
import shutil
import statistics
import subprocess
import time
from pathlib import Path

import apsw

from flyball import __version__

SYNCS = 50
PAGE = bytes(4096)


def machine(folder: Path) -> dict[str, str]:
    """Names and versions, in a word or two each."""
    return {
        "flyball": __version__,
        "python": platform.python_version(),
        "sqlite": apsw.sqlite_lib_version(),
        "git": _version("git"),
        "bwrap": _version("bwrap"),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}, {os.cpu_count()} cores",
        "file system": _file_system(folder),
        "free": f"{shutil.disk_usage(folder).free // 1_000_000_000} GB",
    }


def _version(program: str) -> str:
    path = shutil.which(program)
    if path is None:
        return "not installed"
    try:
        process = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.SubprocessError):
        return "cannot be run"
    return next((word for word in process.stdout.split() if word[:1].isdigit()), "unknown")


def _file_system(folder: Path) -> str:
    """The kind of the file system, if the kernel says so; the longest mount point that contains the folder."""
    place = str(folder.resolve())
    try:
        mounts = [line.split()[1:3] for line in Path("/proc/mounts").read_text("utf-8").splitlines()]
    except (OSError, UnicodeDecodeError):
        return "unknown"
    inside = [(len(at), kind) for at, kind in mounts if place == at or place.startswith(f"{at.rstrip('/')}/")]
    return max(inside)[1] if inside else "unknown"


def sync_us(folder: Path) -> int:
    """The median time to write and sync one page."""
    took: list[int] = []
    with (folder / "sync").open("wb", buffering=0) as file:
        for _ in range(SYNCS):
            start = time.perf_counter_ns()
            file.write(PAGE)
            os.fsync(file.fileno())
            took.append(time.perf_counter_ns() - start)
    return int(statistics.median(took)) // 1000
