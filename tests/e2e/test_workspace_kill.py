"""A process killed at any instant leaves a workspace that goes on, and a user's repository that is whole."""

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from test_workspace_tools import fingerprint, git, own_home, root, write

from flyball.workspace import Workspace, damaged_objects, inspect_repo
from flyball.workspace.git import Git

__all__ = ["own_home", "root"]

TURNS = """
import sys
from pathlib import Path
from flyball.workspace import Workspace, inspect_repo
space = Workspace.create(Path(sys.argv[2]), inspect_repo(Path(sys.argv[1])), "r1")
print("made", flush=True)
for turn in range(1, 1000):
    for number in range(20):
        (space.checkout / f"{turn % 3}-{number}.txt").write_text(f"{turn}\\n")
    (space.checkout / "x.log").write_text(f"{turn}\\n")
    tree = space.tree()
    space.checkpoint(tree, turn, "m")
    space.proof_checkout(tree)
    space.publish(space.commit(tree, "m"))
    space.restore(space.base_tree)
    space.restore(tree, ignored_from_turn=turn)
"""


@pytest.mark.parametrize("seed", range(4))
def test_a_kill_at_any_instant_loses_nothing(root: Path, tmp_path: Path, seed: int) -> None:
    state = tmp_path / "state"
    before = fingerprint(root)
    _kill_midway(root, state, random.Random(seed))
    space = Workspace.create(state, inspect_repo(root), "r1")
    for turn, point in space.turns().items():
        space.restore(point.tree, ignored_from_turn=turn)
        assert space.tree() == point.tree
        assert (space.checkout / "x.log").read_text() == f"{turn}\n"
    write(space.checkout, {"after.txt": "x\n"})
    _wait_for_lock(root)
    commit = space.commit(space.tree(), "after")
    space.publish(commit)
    space.proof_checkout(space.tree())
    assert space.proof_tree() == space.tree()
    assert damaged_objects(Git(space.git_dir), commit) == []
    assert git(root, "rev-parse", "flyball/r1") == commit
    assert git(root, "fsck", "--no-dangling") == ""
    assert git(space.checkout, "fsck", "--connectivity-only", "--no-dangling") == ""
    assert fingerprint(root) == before


def _kill_midway(root: Path, state: Path, dice: random.Random) -> None:
    """Killed while it is being made, or some while after."""
    work = subprocess.Popen([sys.executable, "-c", TURNS, root, state], stdout=subprocess.PIPE)
    assert work.stdout
    if dice.random() < 0.7:
        work.stdout.readline()
        time.sleep(dice.random())
    else:
        time.sleep(0.1 + dice.random() / 4)
    work.send_signal(signal.SIGKILL)
    work.communicate()


def _wait_for_lock(root: Path) -> None:
    """A git whose parent was killed may still be at it for a moment; one that is stuck is not waited for."""
    for _ in range(20):
        if not list(root.glob(".git/refs/heads/flyball/*.lock")):
            return
        time.sleep(0.05)
