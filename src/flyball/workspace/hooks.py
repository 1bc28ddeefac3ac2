"""The user's pre-commit and commit-msg, copied as they stood; with them the files beside them they may call.

A hook of git's is one only where it may be executed. The copies are hooks because they are there: to take away the
mode of one does not switch it off.
"""

import os
import shutil
from pathlib import Path

from flyball.workspace.repo import Repo

GIT_HOOKS = "git-hooks"  # where they lie among the pinned files
WANTED = ("pre-commit", "commit-msg")
FILES_MAX = 64
BYTES_MAX = 1024 * 1024


def copy_hooks(repo: Repo, into: Path) -> None:
    """The folder of hooks, flat; nothing of it is run here."""
    source = _folder(repo)
    if not source.is_dir() or not any(_is_hook(source / name) for name in WANTED):
        return
    into.mkdir(mode=0o700, parents=True, exist_ok=True)
    for path in sorted(source.iterdir())[:FILES_MAX]:
        if path.name in WANTED and not _is_hook(path):
            continue
        if path.is_file() and path.suffix != ".sample" and path.stat().st_size <= BYTES_MAX:
            shutil.copy(path, into / path.name)


def found_hooks(folder: Path) -> dict[str, Path]:
    return {name: folder / name for name in WANTED if (folder / name).is_file()}


def _folder(repo: Repo) -> Path:
    """core.hooksPath, which starts at the top of the checkout, or the repository's own hooks."""
    chosen = repo.settings.get("core.hookspath")
    return repo.root / Path(chosen).expanduser() if chosen else repo.common_dir / "hooks"


def _is_hook(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)
