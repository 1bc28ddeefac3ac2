"""The user's repository gets a branch, and on `land` a fast-forward; nothing else of it is ever written."""

import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from test_workspace_tools import fingerprint, git, own_home, repo, root, space, write

from flyball.errors import LandConflict, WorkspaceError
from flyball.workspace import Landed, Repo, Workspace, inspect_repo, land

__all__ = ["own_home", "repo", "root", "space"]


@pytest.fixture
def done(space: Workspace) -> str:
    """A published commit that mends a file and adds one."""
    write(space.checkout, {"src/sum.py": "def add(a, b):\n    return a + b\n", "new.txt": "new\n"})
    commit = space.commit(space.tree(), "Mend the sum\n\nIt was a difference.\n")
    space.publish(commit)
    return commit


# publishing


def test_publishing_gives_the_branch_and_changes_nothing_else(space: Workspace, root: Path) -> None:
    git(root, "update-ref", "FETCH_HEAD", "HEAD", ok=False)
    write(root, {".git/FETCH_HEAD": "x\n", "README.md": "stashed\n"})
    git(root, "stash", "-q")
    git(root, "config", "core.logAllRefUpdates", "always")
    before = fingerprint(root)
    write(space.checkout, {f"many/{number}.txt": f"{number}\n" for number in range(150)})
    first = space.commit(space.tree(), "first")
    space.publish(first)
    write(space.checkout, {"one.txt": "1\n"})
    second = space.commit(space.tree(), "second")
    space.publish(second)
    space.publish(second)
    assert git(root, "rev-parse", "flyball/r1") == second == space.published()
    assert (
        git(root, "for-each-ref", "--format=%(refname)", "refs/heads")
        == "refs/heads/flyball/r1\nrefs/heads/main"
    )
    assert git(root, "fsck", "--full", "--strict", "--no-dangling") == ""
    assert fingerprint(root) == before


def test_the_commit_is_the_users_and_on_the_base(done: str, root: Path) -> None:
    shown = git(root, "log", "-1", "--format=%an <%ae>|%cn|%P|%B", done)
    assert (
        shown
        == f"Ada <ada@example.org>|Flyball|{git(root, 'rev-parse', 'main')}|Mend the sum\n\nIt was a difference."
    )


def test_without_an_identity_the_commit_is_flyballs(root: Path, tmp_path: Path) -> None:
    git(root, "config", "--unset", "user.name")
    made = Workspace.create(tmp_path / "w", inspect_repo(root), "r")
    made.publish(made.commit(made.base_tree, "m"))
    assert git(root, "log", "-1", "--format=%an <%ae>", "flyball/r") == "Flyball <flyball@localhost>"


def test_a_branch_that_someone_moved_is_not_overwritten(done: str, space: Workspace, root: Path) -> None:
    git(root, "branch", "-f", "flyball/r1", "main")
    with pytest.raises(WorkspaceError, match="Somebody else moved"):
        space.publish(space.commit(space.base_tree, "m"))
    assert git(root, "rev-parse", "flyball/r1") == git(root, "rev-parse", "main")


def test_a_branch_the_user_has_checked_out_is_not_moved(done: str, space: Workspace, root: Path) -> None:
    git(root, "checkout", "-q", "flyball/r1")
    with pytest.raises(WorkspaceError, match="is checked out in"):
        space.publish(space.commit(space.base_tree, "m"))
    space.publish(done)


def test_a_deleted_branch_is_made_again(done: str, space: Workspace, root: Path) -> None:
    git(root, "branch", "-D", "flyball/r1")
    space.publish(done)
    assert git(root, "rev-parse", "flyball/r1") == done


def test_publishing_goes_on_after_a_crash_in_the_middle(done: str, space: Workspace, root: Path) -> None:
    """The branch was moved, but that it was is not written down yet."""
    later = space.commit(space.base_tree, "later")
    (space.git_dir / "refs/flyball/published").write_text(space.base_commit + "\n")
    (space.git_dir / "refs/flyball/publishing").write_text(done + "\n")
    lock = root / ".git/refs/heads/flyball/r1.lock"
    lock.write_text("")
    os.utime(lock, (1, 1))
    space.publish(later)
    assert git(root, "rev-parse", "flyball/r1") == later


# landing


def test_landing_is_a_fast_forward_of_branch_files_and_index(done: str, repo: Repo, root: Path) -> None:
    trap = root / ".git/hooks/post-merge"
    trap.write_text("#!/bin/sh\ntouch sprung\n")
    trap.chmod(0o755)
    write(root, {"mine.txt": "untracked\n"})
    assert land(inspect_repo(root), "r1", done) == Landed("main", repo.head, done)
    assert git(root, "rev-parse", "HEAD") == done
    assert git(root, "status", "--porcelain") == "?? mine.txt"
    assert (root / "src/sum.py").read_text() == "def add(a, b):\n    return a + b\n"
    assert land(inspect_repo(root), "r1", done).before == done


def test_a_dirty_checkout_is_refused_and_stays_as_it_was(done: str, root: Path) -> None:
    write(root, {"README.md": "mine\n"})
    for _ in range(2):
        before = fingerprint(root)
        with pytest.raises(WorkspaceError, match="uncommitted changes"):
            land(inspect_repo(root), "r1", done)
        assert fingerprint(root) == before
        git(root, "add", "-A")


def test_landing_goes_on_after_a_crash_just_before_the_branch_moved(done: str, root: Path) -> None:
    git(root, "read-tree", "-m", "-u", "HEAD", done)
    assert git(root, "rev-parse", "HEAD") != done
    land(inspect_repo(root), "r1", done)
    assert git(root, "rev-parse", "main") == done
    assert git(root, "status", "--porcelain") == ""


@pytest.mark.parametrize("ignored", [False, True])
def test_a_file_of_the_users_in_the_way_is_not_overwritten(done: str, root: Path, ignored: bool) -> None:
    write(root, {"new.txt": "precious\n"})
    write(root / ".git/info", {"exclude": "new.txt\n" if ignored else ""})
    with pytest.raises(WorkspaceError, match=r"would not fast-forward.*new\.txt"):
        land(inspect_repo(root), "r1", done)
    assert (root / "new.txt").read_text() == "precious\n"
    assert git(root, "rev-parse", "HEAD") != done


def test_a_target_that_moved_on_asks_for_a_merge(done: str, space: Workspace, root: Path) -> None:
    write(root, {"README.md": "moved on\n"})
    git(root, "commit", "-qam", "theirs")
    theirs = git(root, "rev-parse", "HEAD")
    before = fingerprint(root)
    with pytest.raises(LandConflict, match="has moved on"):
        land(inspect_repo(root), "r1", done)
    assert fingerprint(root) == before
    merged = space.merge(theirs)
    assert merged.conflicts == ()
    space.restore(merged.tree)
    assert (space.checkout / "README.md").read_text() == "moved on\n"
    assert (space.checkout / "new.txt").read_text() == "new\n"
    commit = space.commit(merged.tree, "merged", [theirs, done])
    space.publish(commit)
    land(inspect_repo(root), "r1", commit)
    assert git(root, "rev-parse", "main") == commit
    assert git(root, "status", "--porcelain") == ""


def test_work_that_was_merged_is_not_lost_with_the_checkout(done: str, space: Workspace, root: Path) -> None:
    write(root, {"README.md": "moved on\n"})
    git(root, "commit", "-qam", "theirs")
    theirs = git(root, "rev-parse", "HEAD")
    space.publish(space.commit(space.merge(theirs).tree, "merged", [theirs, done]))
    assert space.close(remove_checkout=True) == ""
    assert not space.checkout.exists()


def test_conflicts_are_named(done: str, space: Workspace, root: Path) -> None:
    write(root, {"src/sum.py": "def add(*all):\n    return sum(all)\n", "new.txt": "theirs\n"})
    git(root, "add", "-A")
    git(root, "commit", "-qm", "theirs")
    merged = space.merge(git(root, "rev-parse", "HEAD"))
    assert merged.conflicts == ("new.txt", "src/sum.py")
    assert b"<<<<<<<" in space.read(merged.tree, "src/sum.py")


def test_another_branch_is_moved_without_touching_the_checkout(done: str, root: Path) -> None:
    git(root, "branch", "stable")
    files = {name: seen for name, seen in fingerprint(root).items() if not name.startswith(".git/")}
    assert land(inspect_repo(root), "r1", done, "stable").branch == "stable"
    assert git(root, "rev-parse", "stable") == done
    assert files == {name: seen for name, seen in fingerprint(root).items() if not name.startswith(".git/")}


def test_landing_where_it_cannot_be_is_refused_in_a_sentence(done: str, root: Path, tmp_path: Path) -> None:
    with pytest.raises(WorkspaceError, match="no branch 'none'"):
        land(inspect_repo(root), "r1", done, "none")
    with pytest.raises(WorkspaceError, match="publish it first"):
        land(inspect_repo(root), "r1", "1" * 40)
    git(root, "worktree", "add", "-q", "-b", "side", str(tmp_path / "side"))
    with pytest.raises(WorkspaceError, match="is checked out in"):
        land(inspect_repo(root), "r1", done, "side")
    write(root, {".git/MERGE_HEAD": git(root, "rev-parse", "HEAD") + "\n"})
    with pytest.raises(WorkspaceError, match="A merge is under way"):
        land(inspect_repo(root), "r1", done)
    (root / ".git/MERGE_HEAD").unlink()
    git(root, "checkout", "-q", "--detach")
    with pytest.raises(WorkspaceError, match="is on no branch"):
        land(inspect_repo(root), "r1", done)


def test_landing_works_from_a_linked_worktree(done: str, root: Path, tmp_path: Path) -> None:
    git(root, "worktree", "add", "-q", "-b", "side", str(tmp_path / "side"))
    assert land(inspect_repo(tmp_path / "side"), "r1", done).branch == "side"
    assert (tmp_path / "side/new.txt").exists()
    assert not (root / "new.txt").exists()


def test_a_branch_survives_the_end_of_its_workspace(done: str, space: Workspace, root: Path) -> None:
    shutil.rmtree(space.dir)
    git(root, "fsck", "--full")
    assert git(root, "show", "flyball/r1:new.txt") == "new"


def test_several_that_land_at_once_do_so_one_after_the_other(root: Path, tmp_path: Path) -> None:
    """Each has the commit that forwards main, or is told that main has moved on; the checkout stays clean."""
    commits = list[str]()
    for number in range(12):
        made = Workspace.create(tmp_path / f"w{number}", inspect_repo(root), f"r{number}")
        write(made.checkout, {f"{n}/{number}.txt": f"{number}\n" for n in range(40)})
        commits.append(made.commit(made.tree(), f"{number}"))
        made.publish(commits[-1])
    with ThreadPoolExecutor(12) as pool:
        tries = [pool.submit(land, inspect_repo(root), f"r{n}", one) for n, one in enumerate(commits)]
        errors = [one.exception() for one in tries]
    (first,) = (n for n, error in enumerate(errors) if error is None)
    assert {type(error) for error in errors} == {type(None), LandConflict}
    assert git(root, "rev-parse", "main") == commits[first] and git(root, "status", "--porcelain") == ""
