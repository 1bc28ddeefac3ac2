"""Where a path of the agent's really leads, as the agent would name it.

Its workspace is the run's checkout, seen at another path (that of the repository). So links are followed one by one,
each read where it truly lies: by whatever name the workspace is reached, what is looked at is the checkout.
"""

from __future__ import annotations

import os
from pathlib import Path

LINKS_MOST = 40


def real(path: str, workspace: str, files: str) -> str:
    """Where the path leads; `files` is what the agent sees at `workspace`. OSError: round in a circle."""
    if not path.startswith("/"):
        return path  # a home's short name, which no file of ours can have
    found, todo, links = "", _parts(path), 0
    while todo:
        part = todo.pop()
        if part == "..":
            found = found.rpartition("/")[0]
            continue
        target = _link(f"{found}/{part}", workspace, files)
        links += bool(target)
        if links > LINKS_MOST:
            raise OSError(f"{path} leads through too many links")
        todo += _parts(target)
        found = "" if target.startswith("/") else found if target else f"{found}/{part}"
    return _as_seen(found or "/", workspace, files)


def _parts(path: str) -> list[str]:
    """The last one first."""
    return [part for part in reversed(path.split("/")) if part not in ("", ".")]


def _link(path: str, workspace: str, files: str) -> str:
    """What the link says; "" if it is none, or leads to the workspace itself, which is named as it is."""
    if f"{workspace}/".startswith(f"{path}/"):
        return ""
    here = files + path[len(workspace) :] if path.startswith(f"{workspace}/") else path
    try:
        return str(Path(here).readlink())
    except OSError:
        return ""


def _as_seen(found: str, workspace: str, files: str) -> str:
    """The checkout by its own name is the workspace too, where the agent sees it there."""
    own = os.path.realpath(files)
    within = found == own or found.startswith(f"{own}/")
    return workspace + found[len(own) :] if within else found
