"""Checkouts, trees, checkpoints, rollback and landing. All git calls are here; the user's repository is not touched."""

from flyball.workspace.git import require_git
from flyball.workspace.landing import Landed, damaged_objects, land
from flyball.workspace.repo import Repo, inspect_repo, snapshot_changes
from flyball.workspace.workspace import MergeResult, Point, Workspace

__all__ = [
    "Landed",
    "MergeResult",
    "Point",
    "Repo",
    "Workspace",
    "damaged_objects",
    "inspect_repo",
    "land",
    "require_git",
    "snapshot_changes",
]
