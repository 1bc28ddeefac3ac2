"""The environment in which a run's commands find their programs: PATH and virtual environment, pinned at its start.

`flyball init` remembers the virtual environment that was active. A later run from a shell without one uses it, so that
the same Python proves the result as the one with which `init` tried the tests.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from pathlib import Path

import msgspec

from flyball.state_dir import write_whole

PINNED = ("PATH", "VIRTUAL_ENV", "CONDA_PREFIX", "LANG", "LC_ALL", "LC_CTYPE", "TZ")


def remember(state_dir: Path, root: Path, env: dict[str, str]) -> None:
    """Keep the active virtual environment for the runs of this repository; none, where none is active."""
    note = _note(state_dir, root)
    active = env.get("VIRTUAL_ENV", "")
    if active and Path(active).is_dir():
        note.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(note, msgspec.json.encode({"VIRTUAL_ENV": active}))
    else:
        note.unlink(missing_ok=True)


def pinned(state_dir: Path, root: Path, env: dict[str, str]) -> dict[str, str]:
    """What a new run keeps of the environment."""
    kept = {name: env[name] for name in PINNED if env.get(name)}
    venv = "" if "VIRTUAL_ENV" in kept else _remembered(state_dir, root)
    if venv:
        path = os.pathsep.join((str(Path(venv, "bin")), kept.get("PATH", "")))
        kept |= {"VIRTUAL_ENV": venv, "PATH": path}
    return kept


def _remembered(state_dir: Path, root: Path) -> str:
    with contextlib.suppress(OSError, msgspec.MsgspecError):
        known = msgspec.json.decode(_note(state_dir, root).read_bytes(), type=dict[str, str])
        venv = known.get("VIRTUAL_ENV", "")
        return venv if Path(venv, "bin").is_dir() else ""
    return ""


def _note(state_dir: Path, root: Path) -> Path:
    return state_dir / "environments" / hashlib.sha256(os.fsencode(root)).hexdigest()[:32]
