"""Whatever an agent does to its checkout and its git, Flyball sees the files, runs nothing, and puts all back."""

import os
import shutil
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from test_workspace_tools import FILES, fingerprint, git, own_home, paths, repo, root, space, write

from flyball.errors import WorkspaceError
from flyball.workspace import Workspace

__all__ = ["own_home", "repo", "root", "space"]


@pytest.fixture
def trap(tmp_path: Path) -> Path:
    """A program that leaves a mark when it runs."""
    path = tmp_path / "trap.sh"
    path.write_text(f"#!/bin/sh\ntouch '{tmp_path}/sprung'\ncat\n")
    path.chmod(0o755)
    return path


def go_through(space: Workspace) -> str:
    """Everything Flyball does in a turn and at a run's end; gives the tree it saw."""
    tree = space.tree()
    space.changes(space.base_tree, tree)
    space.special_files()
    space.agent_git_report()
    space.diff(space.base_tree, tree)
    space.checkpoint(tree, 1, "turn 1")
    space.proof_checkout(tree)
    assert space.proof_tree() == tree
    space.publish(space.commit(tree, "done"))
    space.merge(space.base_commit)
    space.restore(space.base_tree)
    space.restore(tree)
    return tree


SETTINGS = (
    "core.fsmonitor core.pager core.editor diff.external core.sshCommand alias.status core.askPass "
    "filter.evil.clean filter.evil.smudge filter.evil.process diff.evil.textconv diff.evil.command merge.evil.driver "
    "gpg.program core.alternateRefsCommand credential.helper"
)


def test_nothing_an_agent_configures_runs(space: Workspace, root: Path, trap: Path, tmp_path: Path) -> None:
    for key in SETTINGS.split():
        git(space.checkout, "config", key, str(trap))
    git(space.checkout, "config", "filter.evil.required", "true")
    write(space.checkout, {".gitattributes": "* filter=evil diff=evil merge=evil\n", "new.py": "x\n"})
    write(space.checkout, {".git/info/attributes": "* filter=evil diff=evil\n"})
    git(space.checkout, "config", "core.hooksPath", str(tmp_path / "hooks"))
    for name in ("pre-commit", "post-checkout", "reference-transaction", "post-index-change", "post-merge"):
        for folder in (space.checkout / ".git/hooks", tmp_path / "hooks"):
            folder.mkdir(exist_ok=True)
            shutil.copy(trap, folder / name)
    (tmp_path / "sprung").unlink(missing_ok=True)
    before = fingerprint(root)
    tree = go_through(space)
    assert not (tmp_path / "sprung").exists()
    assert paths(space, tree) == sorted({*FILES, ".gitattributes", "new.py"})
    assert space.read(tree, "new.py") == b"x\n"
    assert fingerprint(root) == before


def test_the_users_own_hooks_do_not_run_when_a_branch_is_published(
    space: Workspace, root: Path, trap: Path, tmp_path: Path
) -> None:
    for name in (
        "reference-transaction",
        "post-update",
        "update",
        "pre-receive",
        "post-merge",
        "post-checkout",
    ):
        shutil.copy(trap, root / ".git/hooks" / name)
    go_through(space)
    assert not (tmp_path / "sprung").exists()


def test_what_an_agent_left_in_its_git_is_reported(space: Workspace, trap: Path) -> None:
    assert space.agent_git_report() == []
    git(space.checkout, "config", "user.name", "Agent")
    assert space.agent_git_report() == []
    git(space.checkout, "config", "core.fsmonitor", str(trap))
    write(space.checkout, {".git/hooks/pre-commit": "x", ".git/info/attributes": "* filter=x\n"})
    write(space.checkout, {".git/objects/info/alternates": "/elsewhere\n", ".git/commondir": "/x\n"})
    told = " ".join(space.agent_git_report())
    for word in ("fsmonitor", "'pre-commit'", "attributes", "borrow objects", "share another repository"):
        assert word in told
    space.restore(space.tree())
    assert space.agent_git_report() == []


def wreck_nothing_left(space: Workspace, root: Path) -> None:
    shutil.rmtree(space.checkout / ".git")


def wreck_file(space: Workspace, root: Path) -> None:
    shutil.rmtree(space.checkout / ".git")
    (space.checkout / ".git").write_text(f"gitdir: {root}/.git\n")


def wreck_link(space: Workspace, root: Path) -> None:
    shutil.rmtree(space.checkout / ".git")
    (space.checkout / ".git").symlink_to(root / ".git")


def wreck_index(space: Workspace, root: Path) -> None:
    (space.checkout / ".git/index").write_bytes(b"DIRC rubbish")


def wreck_config(space: Workspace, root: Path) -> None:
    write(
        space.checkout,
        {".git/config": f"[core]\n\tworktree = {root}\n\trepositoryformatversion = 99\n[broken"},
    )


def wreck_objects(space: Workspace, root: Path) -> None:
    shutil.rmtree(space.checkout / ".git/objects")
    (space.checkout / ".git/objects").symlink_to(root / ".git/objects")


def wreck_pack_folder(space: Workspace, root: Path) -> None:
    shutil.rmtree(space.checkout / ".git/objects/pack")
    (space.checkout / ".git/objects/pack").symlink_to(root / ".git/hooks")


def wreck_locks(space: Workspace, root: Path) -> None:
    write(space.checkout, {".git/index.lock": "", ".git/HEAD.lock": "", ".git/config.lock": ""})


def wreck_refs(space: Workspace, root: Path) -> None:
    git(space.checkout, "checkout", "-q", "--orphan", "nowhere")
    git(space.checkout, "branch", "-D", "flyball/r1")


def wreck_rebase(space: Workspace, root: Path) -> None:
    write(space.checkout, {".git/MERGE_HEAD": "x", ".git/rebase-merge/head-name": "x"})


WRECKS = [value for name, value in sorted(globals().items()) if name.startswith("wreck_")]


@pytest.mark.parametrize("wreck", WRECKS)
def test_a_wrecked_git_hides_nothing_harms_nothing_and_is_repaired(
    space: Workspace, root: Path, wreck: "type[object]"
) -> None:
    before = fingerprint(root)
    wreck(space, root)  # pyright: ignore
    write(space.checkout, {"new.py": "x\n"})
    tree = go_through(space)
    assert paths(space, tree) == sorted([*FILES, "new.py"])
    assert git(space.checkout, "status", "--porcelain") == ""
    assert git(space.checkout, "branch", "--show-current") == "flyball/r1"
    assert (space.checkout / ".git").is_dir() and not (space.checkout / ".git").is_symlink()
    assert git(space.checkout, "fsck", "--connectivity-only", "--no-dangling") == ""
    assert fingerprint(root) == before


def test_a_git_that_leads_elsewhere_is_a_stray(space: Workspace, root: Path) -> None:
    wreck_link(space, root)
    assert [(found.path, found.op, found.target) for found in space.special_files()] == [
        (".git", "symlink", f"{root}/.git")
    ]
    (space.checkout / ".git").unlink()
    (space.checkout / ".git").write_text("gitdir: /x\n")
    assert [(found.path, found.op) for found in space.special_files()] == [(".git", "special")]


def names_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def embed(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    git(folder, "init", "-q")


def test_an_embedded_repository_hides_no_file_and_is_told(space: Workspace) -> None:
    write(
        space.checkout, {"lib/evil.py": "x\n", "lib/x.log": "", "lib/in/deep.py": "y\n", "src/more.py": "z\n"}
    )
    for folder in ("lib", "lib/in", "src"):
        embed(space.checkout / folder)
    write(space.checkout, {"box/.git/payload": "x\n"})
    tree = space.tree()
    assert paths(space, tree) == sorted([*FILES, "lib/evil.py", "lib/in/deep.py", "src/more.py"])
    assert space.tree() == tree
    found = [(stray.path, stray.op, stray.mode) for stray in space.special_files()]
    modes = {path: mode for path, _, mode in found}
    assert sorted(modes) == ["box/.git", "lib", "lib/in", "src"]
    assert modes["lib"] == modes["lib/in"] == modes["src"] == "160000"
    space.restore(space.base_tree)
    assert space.special_files() == []
    assert names_in(space.checkout / "lib") == ["x.log"]
    assert not (space.checkout / "src/.git").exists() and not (space.checkout / "box").exists()


def test_an_ignored_repository_is_left_alone(space: Workspace) -> None:
    embed(space.checkout / "cache/dep")
    write(space.checkout, {"cache/dep/x": "x\n"})
    assert space.tree() == space.base_tree
    assert space.special_files() == []


def test_what_a_tree_cannot_show_is_told_and_put_right(space: Workspace, tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("x\n")
    os.link(tmp_path / "outside", space.checkout / "linked")
    os.link(space.checkout / "README.md", space.checkout / "twin.md")
    os.mkfifo(space.checkout / "src/pipe")
    (space.checkout / "src/sum.py").unlink()
    os.mkfifo(space.checkout / "src/sum.py")
    (space.checkout / "run.sh").chmod(0o4755)
    with socket.socket(socket.AF_UNIX) as door:
        cwd = Path.cwd()
        os.chdir(space.checkout)
        door.bind("door")
        os.chdir(cwd)
    found = {stray.path: (stray.op, stray.mode) for stray in space.special_files()}
    assert found == {
        "linked": ("hardlink", "100644"),
        "src/pipe": ("special", "10644"),
        "src/sum.py": ("special", "10644"),
        "door": ("special", f"{(space.checkout / 'door').lstat().st_mode:o}"),
        "run.sh": ("mode", "104755"),
    }
    tree = space.tree()
    assert paths(space, tree) == sorted({*FILES, "linked", "twin.md"} - {"src/sum.py"})
    space.restore(space.base_tree)
    assert space.special_files() == []
    assert space.tree() == space.base_tree
    assert stat.S_IMODE((space.checkout / "run.sh").stat().st_mode) == 0o755
    assert (tmp_path / "outside").read_text() == "x\n"


def test_restoring_never_writes_through_a_link(space: Workspace, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    write(outside, {"sum.py": "theirs\n", "deep/one.txt": "theirs\n", "state": "theirs\n"})
    write(space.checkout, {"cache/state": "kept\n"})
    space.checkpoint(space.tree(), 1, "m")
    for name in ("src", "cache"):
        shutil.rmtree(space.checkout / name)
        (space.checkout / name).symlink_to(outside)
    (space.checkout / "README.md").unlink()
    (space.checkout / "README.md").symlink_to(outside / "state")
    space.restore(space.base_tree, ignored_from_turn=1)
    assert space.tree() == space.base_tree
    assert (space.checkout / "cache/state").read_text() == "kept\n"
    assert {path.read_text() for path in outside.rglob("*") if path.is_file()} == {"theirs\n"}
    assert not (space.checkout / "src").is_symlink()


def test_an_ignored_file_in_the_way_of_a_tree_gives_way(space: Workspace) -> None:
    shutil.rmtree(space.checkout / "src")
    write(space.checkout, {"cache/x": "x"})
    tree = space.tree()
    space.restore(space.base_tree)
    (space.checkout / "src/deep/one.txt").unlink()
    write(space.checkout, {"src/deep/one.txt/x.log": "ignored"})
    space.restore(space.base_tree)
    assert space.tree() == space.base_tree != tree
    assert (space.checkout / "src/deep/one.txt").is_file()


def test_a_vanished_or_replaced_checkout_is_named_and_comes_back(space: Workspace, tmp_path: Path) -> None:
    shutil.rmtree(space.checkout)
    (tmp_path / "other").mkdir()
    space.checkout.symlink_to(tmp_path / "other")
    with pytest.raises(WorkspaceError, match="is gone"):
        space.tree()
    space.restore(space.base_tree)
    assert space.tree() == space.base_tree
    assert not space.checkout.is_symlink()
    assert names_in(tmp_path / "other") == []


def test_a_tampered_configuration_of_flyballs_own_git_is_put_right(
    space: Workspace, trap: Path, tmp_path: Path
) -> None:
    with (space.git_dir / "config").open("a") as file:
        file.write(f'[filter "evil"]\n\tclean = {trap}\n')
    write(space.git_dir, {"info/attributes": "* filter=evil\n"})
    again = Workspace.open(space.dir)
    write(space.checkout, {"new.py": "x\n"})
    again.tree()
    assert not (tmp_path / "sprung").exists()


def test_a_spoofed_time_stamp_does_not_hide_an_edit(space: Workspace) -> None:
    path = space.checkout / "src/sum.py"
    info = path.stat()
    path.write_text(FILES["src/sum.py"].replace("-", "+"))
    os.utime(path, ns=(info.st_atime_ns, info.st_mtime_ns))
    assert space.tree() != space.base_tree


def test_a_broken_index_of_flyball_is_made_anew(space: Workspace) -> None:
    write(space.checkout, {"new.py": "x\n"})
    tree = space.tree()
    (space.git_dir / "index").write_bytes(b"rubbish")
    assert space.tree() == tree


def test_a_killed_git_leaves_no_lock_in_the_way(space: Workspace) -> None:
    write(space.git_dir, {"index.lock": "", "index.4194305.1.draft": "", "index.4194305.1.draft.lock": ""})
    write(space.git_dir, {"refs/flyball/turn/1.lock": "", "packed-refs.lock": ""})
    again = Workspace.open(space.dir)
    write(space.checkout, {"new.py": "x\n"})
    again.checkpoint(again.tree(), 1, "m")
    assert again.turns()[1].tree == again.tree()
    assert not list(space.git_dir.glob("*.draft*"))


LOCKED = """
import os, sys
from pathlib import Path
from flyball.workspace import Workspace, inspect_repo
root, state = Path(sys.argv[1]), Path(sys.argv[2])
if os.geteuid() == 0:
    os.setgroups([]), os.setgid(65534), os.setuid(65534)
space = Workspace.create(state, inspect_repo(root), "r1")
deep = space.checkout / "new/deep"
deep.mkdir(parents=True)
(deep / "hidden.py").write_text("x")
(space.checkout / "README.md").write_text("locked")
for path, mode in ((deep, 0), (deep.parent, 0), (space.checkout / "README.md", 0), (space.checkout / "src", 0o500)):
    path.chmod(mode)
tree = space.tree()
print(sorted(change.path for change in space.changes(space.base_tree, tree)))
for path in (deep, deep.parent, space.checkout / "src", space.checkout):
    path.chmod(0)
space.restore(space.base_tree)
print(space.tree() == space.base_tree, deep.parent.exists(), space.special_files())
space.checkout.chmod(0o500)
print(repr(space.close(remove_checkout=True)), space.checkout.exists())
"""


def test_locked_files_and_folders_hide_nothing_and_are_put_back(root: Path, tmp_path: Path) -> None:
    """As an ordinary user, for whom permissions mean something."""
    if os.geteuid() == 0:
        for path in [tmp_path, *tmp_path.rglob("*")]:
            os.chown(path, 65534, 65534, follow_symlinks=False)
        for path in tmp_path.parents:
            if not path.stat().st_mode & 0o001:
                path.chmod(path.stat().st_mode | 0o011)
    done = subprocess.run(
        [sys.executable, "-c", LOCKED, root, tmp_path / "state"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert done.stdout.splitlines() == [
        "['README.md', 'new/deep/hidden.py']",
        "True False []",
        "'' False",
    ], done.stderr
