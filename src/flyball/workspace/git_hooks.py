"""The user's pre-commit and commit-msg, copied as they stood; with them the files beside them they may call.

A hook of git's is one only where it may be executed. The copies are hooks because they are there: to take away the
mode of one does not switch it off. Where hooks live in a folder of the repository (`core.hooksPath`, husky), that
folder is copied whole, for they find each other by where they lie.
"""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from flyball.errors import UserError
from flyball.reading.terminal import whole
from flyball.workspace.repo import Repo

GIT_HOOKS = "git-hooks"  # where they lie among the pinned files
WANTED = ("pre-commit", "commit-msg")
HERE = ".here"  # names the folder of hooks within the copy
FILES_MAX = 256
BYTES_MAX = 1024 * 1024


def copy_hooks(repo: Repo, into: Path) -> None:
    """The folder of hooks; nothing of it is run here."""
    source = _folder(repo)
    wanted = [source / name for name in WANTED if _is_hook(source / name)]
    if not wanted:
        return
    top = _top(source, repo.root)
    for path in [*wanted, *sorted(_others(top, wanted))[: FILES_MAX - len(wanted)]]:
        copy = into / path.relative_to(top)
        if path in wanted and path.stat().st_size > BYTES_MAX:
            raise UserError(
                f"The hook {path} has more than {BYTES_MAX >> 20} MiB, too much to be kept with a run. Make it smaller, "
                "or turn it off."
            )
        copy.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        shutil.copy(path, copy)
    (into / HERE).write_text(str(source.relative_to(top)), "utf-8")


def found_hooks(folder: Path) -> dict[str, Path]:
    here = folder / HERE
    place = folder / here.read_text("utf-8") if here.exists() else folder
    return {name: place / name for name in WANTED if (place / name).is_file()}


def _folder(repo: Repo) -> Path:
    """core.hooksPath, which starts at the top of the checkout, or the repository's own hooks."""
    chosen = repo.settings.get("core.hookspath")
    return repo.root / Path(chosen).expanduser() if chosen else repo.common_dir / "hooks"


def _top(source: Path, root: Path) -> Path:
    """What is copied: of a folder in the repository the part below its root, else the folder alone."""
    inside = Path(os.path.normpath(source))
    if not inside.is_relative_to(root) or inside == root or ".git" in inside.parts:
        return source
    return root / inside.relative_to(root).parts[0]


def _others(top: Path, wanted: list[Path]) -> Iterator[Path]:
    for path in top.rglob("*"):
        stray = path.name in WANTED and path.parent == wanted[0].parent  # not executable: no hook
        small = path.suffix != ".sample" and path.is_file() and path.stat().st_size <= BYTES_MAX
        written = path.name == whole(path.name)  # other bytes than UTF-8 cannot be written down
        if small and written and path not in wanted and not stray:
            yield path


def _is_hook(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)
