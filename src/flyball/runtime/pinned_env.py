"""The environment in which a run's commands find their programs: PATH and virtual environment, pinned at its start.

Tests call programs by name, so the project's virtual environment is active in every command, as in the shell of someone
who works on the project: the one that the repository shares with its checkouts, else the one that is active when a run
begins, else the one that `flyball init` remembers.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

import msgspec

from flyball.state_dir import private_folder, write_whole

PINNED = ("PATH", "VIRTUAL_ENV", "CONDA_PREFIX", "LANG", "LC_ALL", "LC_CTYPE", "TZ")


def remember(state_dir: Path, root: Path, env: dict[str, str]) -> None:
    """Keep the active virtual environment for the runs of this repository; none, where none is active."""
    note = _note(state_dir, root)
    active = env.get("VIRTUAL_ENV", "")
    if active and Path(active).is_dir():
        private_folder(note.parent)
        write_whole(note, msgspec.json.encode({"VIRTUAL_ENV": active}))
    else:
        note.unlink(missing_ok=True)


def pinned(state_dir: Path, root: Path, env: dict[str, str], share: Iterable[str] = ()) -> dict[str, str]:
    """What a new run keeps of the environment."""
    kept = {name: env[name] for name in PINNED if env.get(name)}
    shared = virtual_env(root, share)
    return activated(kept, shared or kept.get("VIRTUAL_ENV") or _remembered(state_dir, root))


def virtual_env(root: Path, names: Iterable[str]) -> str:
    """The first of these folders that is a virtual environment."""
    return next((str(root / name) for name in names if (root / name / "pyvenv.cfg").is_file()), "")


def activated(env: dict[str, str], venv: str) -> dict[str, str]:
    """As the environment's own script does it."""
    if not venv or env.get("VIRTUAL_ENV") == venv:
        return env
    path = os.pathsep.join((str(Path(venv, "bin")), env.get("PATH", "")))
    return {**env, "VIRTUAL_ENV": venv, "PATH": path}


def _remembered(state_dir: Path, root: Path) -> str:
    with contextlib.suppress(OSError, msgspec.MsgspecError):
        known = msgspec.json.decode(_note(state_dir, root).read_bytes(), type=dict[str, str])
        venv = known.get("VIRTUAL_ENV", "")
        return venv if Path(venv, "bin").is_dir() else ""
    return ""


def _note(state_dir: Path, root: Path) -> Path:
    return state_dir / "environments" / hashlib.sha256(os.fsencode(root)).hexdigest()[:32]


# ---- environments that a project's tool keeps elsewhere ---------------------------------------------------

ASK_S = 30
POETRY, HATCH = (
    (("poetry", "env", "info", "-p"),),
    tuple(("hatch", "env", "find", name) for name in ("hatch-test", "test", "")),
)
TOOLS = (  # a file of the project, what in it shows that the tool is used, and the questions to the tool
    ("poetry.lock", "", POETRY),
    ("Pipfile", "", (("pipenv", "--venv"),)),
    ("hatch.toml", "", HATCH),
    ("pyproject.toml", "[tool.poetry", POETRY),
    ("pyproject.toml", "[tool.hatch.envs", HATCH),
)


def kept_elsewhere(folder: Path, env: dict[str, str]) -> str:
    """The virtual environment that poetry, pipenv or hatch made for this project; "" if there is none."""
    for file, mark, questions in TOOLS:
        if mark in _text(folder / file) and (folder / file).is_file():
            for words in questions:
                if venv := _answer(folder, words, env):
                    return venv
    return ""


def _text(file: Path) -> str:
    try:
        return file.read_text("utf-8", "replace")
    except OSError:
        return ""


def _answer(folder: Path, words: tuple[str, ...], env: dict[str, str]) -> str:
    """The tool's answer, if it names an environment that is there."""
    program = shutil.which(words[0], path=env.get("PATH", ""))
    if program is None:
        return ""
    argv = [program, *(word for word in words[1:] if word)]
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        asked = subprocess.run(
            argv, cwd=folder, env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=ASK_S
        )
        lines = asked.stdout.decode("utf-8", "replace").splitlines()
        return next(
            (line for line in map(str.strip, lines) if line and Path(line, "pyvenv.cfg").is_file()), ""
        )
    return ""
