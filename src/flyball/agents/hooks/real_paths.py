"""Where a path given by the agent really leads, as the agent would name it.

The agent sees the run's checkout at another path (that of the repository). So each link is read where it really is:
whichever path leads into the workspace, the checkout is read.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from flyball.guard.change import Target, follow


def real(path: str, workspace: str, files: str) -> str:
    """Where the path leads; `files` is what the agent sees at `workspace`. OSError if its links are a circle."""
    if not path.startswith("/"):
        return path  # `~`: none of our files has such a name

    def target_of(names: Sequence[str]) -> Target | None:
        return _target("/" + "/".join(names), workspace, files)

    names = follow(_names(path), target_of)
    if names is None:
        raise OSError(f"{path} leads through too many links")
    return _as_seen("/" + "/".join(names), workspace, files)


def _names(path: str) -> list[str]:
    return [name for name in path.split("/") if name not in ("", ".")]


def _target(path: str, workspace: str, files: str) -> Target | None:
    """Where the link points; None if it is none, or is part of the path of the workspace itself."""
    if f"{workspace}/".startswith(f"{path}/"):
        return None
    here = files + path[len(workspace) :] if path.startswith(f"{workspace}/") else path
    try:
        target = str(Path(here).readlink())
    except OSError:
        return None
    return target.startswith("/"), _names(target)


def _as_seen(path: str, workspace: str, files: str) -> str:
    """The checkout by its own name is the workspace too."""
    own = os.path.realpath(files)
    within = path == own or path.startswith(f"{own}/")
    return workspace + path[len(own) :] if within else path
