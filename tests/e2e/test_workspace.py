"""A run's checkout is its own: trees, changes, checkpoints and rollback, with the user's repository untouched."""

import os
import shutil
from pathlib import Path

import pytest
from test_workspace_tools import FILES, fingerprint, git, make_repo, own_home, paths, repo, root, space, write

from flyball.errors import WorkspaceError
from flyball.guard.change import Change
from flyball.workspace import Repo, Workspace, damaged_objects, inspect_repo, snapshot_changes
from flyball.workspace.git import Git
from flyball.workspace.repo import copy_hooks, found_hooks, is_dirty, uncommitted

__all__ = ["own_home", "repo", "root", "space"]


def names_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def refused(path: Path) -> str:
    with pytest.raises(WorkspaceError) as caught:
        inspect_repo(path)
    return str(caught.value)


# what can be worked with


def test_a_repository_is_found_from_a_folder_and_a_file_in_it(root: Path) -> None:
    found = inspect_repo(root / "src/deep")
    assert (found.root, found.branch, is_dirty(found)) == (root, "main", False)
    assert found.head == git(root, "rev-parse", "HEAD")
    assert found.tree == git(root, "rev-parse", "HEAD^{tree}")
    assert inspect_repo(root / "README.md") == found


@pytest.mark.parametrize("deed", ["edit", "stage", "delete", "new", "mode"])
def test_every_kind_of_uncommitted_change_makes_a_repository_dirty(root: Path, deed: str) -> None:
    if deed in ("edit", "stage"):
        write(root, {"README.md": "other\n"})
        if deed == "stage":
            git(root, "add", "-A")
            (root / "README.md").write_text(FILES["README.md"])
    elif deed == "delete":
        (root / "README.md").unlink()
    elif deed == "new":
        write(root, {"new.txt": ""})
    else:
        (root / "README.md").chmod(0o755)
    assert is_dirty(inspect_repo(root))


def test_ignored_files_make_nothing_dirty(root: Path, tmp_path: Path) -> None:
    write(root, {"a.log": "", "src/secret.txt": "", "mine": "", "wide.tmp": ""})
    write(root / ".git/info", {"exclude": "/mine\n"})
    write(tmp_path / "home", {".config/git/ignore": "*.tmp\n"})
    assert not is_dirty(inspect_repo(root))


def test_changes_are_named_and_new_caches_are_none(root: Path) -> None:
    write(root, {"src/__pycache__/a.pyc": "", "node_modules/x/index.js": "", ".venv/pyvenv.cfg": ""})
    assert not is_dirty(inspect_repo(root))
    write(root, {"README.md": "other\n", "new.txt": "", "staged.txt": ""})
    git(root, "add", "staged.txt")
    assert sorted(uncommitted(inspect_repo(root))) == ["README.md", "new.txt", "staged.txt"]


def test_looking_at_a_repository_changes_no_byte_of_it_and_runs_nothing(root: Path, tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    trap.write_text(f"#!/bin/sh\ntouch '{tmp_path}/sprung'\ncat\n")
    trap.chmod(0o755)
    for key in ("core.fsmonitor", "filter.f.clean", "filter.f.smudge", "diff.external", "core.pager"):
        git(root, "config", key, str(trap))
    write(root / ".git/info", {"attributes": "* filter=f\n"})
    write(root, {"README.md": "changed\n", ".gitattributes": "* filter=f\n"})
    before = fingerprint(root)
    found = inspect_repo(root)
    made = Workspace.create(tmp_path / "w", found, "r", with_changes=True)
    assert is_dirty(found)
    assert made.read(made.base_tree, "README.md") == b"changed\n"
    assert fingerprint(root) == before
    assert not (tmp_path / "sprung").exists()


def test_what_is_no_usable_repository_is_refused_in_a_sentence(root: Path, tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    git(tmp_path, "init", "-q", "--bare", "bare.git")
    git(tmp_path, "init", "-q", "empty")
    assert "is not in a git repository" in refused(tmp_path / "plain")
    assert "does not exist" in refused(tmp_path / "nowhere")
    assert "bare repository" in refused(tmp_path / "bare.git")
    assert "no commit yet" in refused(tmp_path / "empty")
    assert "inside a .git folder" in refused(root / ".git")


def test_a_missing_or_old_git_is_named(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = tmp_path / "bin/git"
    write(tmp_path, {"bin/git": "#!/bin/sh\necho git version 2.34.1\n"})
    old.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert "git 2.34 is too old" in refused(root)
    old.unlink()
    assert "git was not found" in refused(root)


def test_submodules_lfs_sparse_partial_and_a_clashing_branch_are_refused(root: Path, tmp_path: Path) -> None:
    git(root, "branch", "flyball")
    assert "branch 'flyball'" in refused(root)
    git(root, "branch", "-D", "flyball")
    git(root, "config", "core.sparseCheckout", "true")
    assert "sparse checkout" in refused(root)
    git(root, "config", "--unset", "core.sparseCheckout")
    git(root, "config", "remote.origin.promisor", "true")
    assert "partial clone" in refused(root)
    git(root, "config", "--unset", "remote.origin.promisor")
    git(root, "update-index", "--add", "--cacheinfo", f"160000,{git(root, 'rev-parse', 'HEAD')},lib/x")
    git(root, "commit", "-q", "-m", "module")
    assert "submodule at lib/x" in refused(root)
    lfs = make_repo(tmp_path / "lfs", files={"art/.gitattributes": "*.psd filter=lfs -text\n"})
    assert "Git LFS" in refused(lfs)


def test_shallow_clones_and_sha256_repositories_work(root: Path, tmp_path: Path) -> None:
    write(root, {"README.md": "second\n"})
    git(root, "commit", "-qam", "second")
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{root}", "shallow")
    strong = make_repo(tmp_path / "strong", "--object-format=sha256")
    for number, path in enumerate([tmp_path / "shallow", strong]):
        made = Workspace.create(tmp_path / f"w{number}", inspect_repo(path), f"r{number}")
        write(made.checkout, {"new.txt": "new\n"})
        commit = made.commit(made.tree(), "done")
        made.publish(commit)
        assert git(path, "rev-parse", f"flyball/r{number}") == commit
        assert git(path, "show", f"{commit}:new.txt") == "new"
        assert git(path, "log", "--format=%s", commit).splitlines()[0] == "done"
        assert git(made.checkout, "status", "--porcelain") == "?? new.txt"


def test_a_linked_worktree_with_an_odd_name_works(root: Path, tmp_path: Path) -> None:
    side = tmp_path / "sïde träe 🌳"
    git(root, "worktree", "add", "-q", "-b", "side", str(side))
    write(side, {"only-here.txt": "x\n"})
    found = inspect_repo(side)
    made = Workspace.create(tmp_path / "w", found, "r", with_changes=True)
    assert (found.root, found.branch, is_dirty(found)) == (side, "side", True)
    assert made.read(made.tree(), "only-here.txt") == b"x\n"
    before = fingerprint(root)
    made.publish(made.commit(made.tree(), "m"))
    assert fingerprint(root) == before


# the checkout


def test_a_new_checkout_holds_the_base_on_the_runs_branch(space: Workspace, repo: Repo) -> None:
    assert space.tree() == space.base_tree == repo.tree
    assert git(space.checkout, "status", "--porcelain") == ""
    assert git(space.checkout, "branch", "--show-current") == "flyball/r1"
    assert git(space.checkout, "log", "--format=%s", "main") == "first"
    assert git(space.checkout, "remote") == ""
    assert os.access(space.checkout / "run.sh", os.X_OK)


def test_the_agent_can_commit_in_its_checkout(space: Workspace) -> None:
    write(space.checkout, {"new.py": "x\n"})
    git(space.checkout, "add", "-A")
    git(space.checkout, "commit", "-q", "-m", "mine")
    assert git(space.checkout, "show", "HEAD:new.py") == "x"
    assert "new.py" in paths(space, space.tree())


def test_creating_twice_gives_the_same_workspace(space: Workspace, repo: Repo) -> None:
    write(space.checkout, {"new.py": "x\n"})
    again = Workspace.create(space.dir, repo, "r1")
    assert again.tree() == space.tree() != space.base_tree
    with pytest.raises(WorkspaceError, match="already belongs to run r1"):
        Workspace.create(space.dir, repo, "r2")


@pytest.mark.parametrize("lost", ["workspace.json", "git/index", "git/HEAD", "checkout", "objects", "git"])
def test_creation_after_a_crash_in_the_middle_ends_well(space: Workspace, repo: Repo, lost: str) -> None:
    (space.dir / "workspace.json").unlink()
    path = space.dir / lost
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    write(space.dir, {"checkout/half": "written"})
    made = Workspace.create(space.dir, repo, "r1")
    assert made.tree() == repo.tree
    assert git(made.checkout, "status", "--porcelain") == ""


def test_an_unknown_workspace_and_an_unusable_run_name_are_refused(tmp_path: Path, repo: Repo) -> None:
    with pytest.raises(WorkspaceError, match="There is no checkout"):
        Workspace.open(tmp_path / "none")
    for name in ("a b", "../x", "-x", "x.lock", "a..b", ""):
        with pytest.raises(WorkspaceError, match="branch name"):
            Workspace.create(tmp_path / "w", repo, name)


def test_uncommitted_changes_are_taken_only_when_asked(root: Path, tmp_path: Path) -> None:
    write(root, {"README.md": "edited\n", "new.txt": "new\n", "x.log": "ignored\n", "staged.txt": "s\n"})
    git(root, "add", "staged.txt")
    (root / "src/sum.py").unlink()
    before = fingerprint(root)
    plain = Workspace.create(tmp_path / "a", inspect_repo(root), "a")
    taken = Workspace.create(tmp_path / "b", inspect_repo(root), "b", with_changes=True)
    assert plain.base_commit == git(root, "rev-parse", "HEAD")
    expected = sorted({*FILES, "new.txt", "staged.txt"} - {"src/sum.py"})
    assert paths(taken, taken.tree()) == expected
    assert taken.read(taken.base_tree, "README.md") == b"edited\n"
    assert git(taken.checkout, "status", "--porcelain") == ""
    taken.publish(taken.commit(taken.tree(), "x"))
    assert fingerprint(root) == before


def test_a_snapshot_needs_a_store_that_borrows(repo: Repo, tmp_path: Path) -> None:
    (tmp_path / "objects").mkdir()
    with pytest.raises(WorkspaceError, match="does not borrow"):
        snapshot_changes(repo, tmp_path / "objects")


# trees


def test_a_tree_is_a_function_of_the_files(space: Workspace) -> None:
    write(space.checkout, {"src/new.py": "1\n", "a/b/c": "2\n"})
    changed = space.tree()
    shutil.rmtree(space.checkout / "a")
    (space.checkout / "src/new.py").unlink()
    assert space.tree() == space.base_tree
    write(space.checkout, {"src/new.py": "1\n", "a/b/c": "2\n"})
    assert space.tree() == changed
    (space.git_dir / "index").unlink()
    assert space.tree() == changed


def test_ignore_rules_are_those_of_the_base(space: Workspace) -> None:
    hidden = {
        "x.log": "",
        "src/deep/y.log": "",
        "cache/z": "",
        "src/secret.txt": "",
        "src/deep/secret.txt": "",
    }
    shown = {"secret.txt": "", "src/cache/z": "", "src/gen/keep.txt": "", "evil.py": "", "tests/t.py": ""}
    write(space.checkout, hidden | shown | {"src/gen/drop.txt": ""})
    write(space.checkout, {".gitignore": "*\n", "tests/.gitignore": "*\n", ".git/info/exclude": "*\n"})
    assert set(paths(space, space.tree())) == {*FILES, *shown, "tests/.gitignore"}


RULES = {
    ".gitignore": "\ufeff# note\n*.tmp\nfoo/\n!keep.tmp\n\\#odd\nend \nwin\r\n**/any\n/top\n",
    "a/.gitignore": "!*.tmp\n/only\nx/y\n!b/keep.tmp\n*\n!*/\n!k*\n",
    "a/[b]/.gitignore": "*.c\n!m.c\n/d/**\n",
    "s p/.gitignore": "q?\n[xy]\n",
}
CASES = [
    "t.tmp",
    "keep.tmp",
    "foo",
    "#odd",
    "end",
    "win",
    "any",
    "top",
    "only",
    "x/y",
    "k",
    "m.c",
    "n.c",
    "d/e",
    "qq",
    "x",
    "y",
    "foo/in",
]


def test_pinned_rules_read_as_git_reads_them_in_their_folders(tmp_path: Path) -> None:
    made = Workspace.create(tmp_path / "w", inspect_repo(make_repo(tmp_path / "r", files=RULES)), "r")
    for folder in ("", "a", "a/b", "a/[b]", "a/[b]/deep", "s p", "s p/a"):
        for number, name in enumerate(CASES):
            place = made.checkout / folder / f"{'' if '/' not in name else number}" / name
            if not place.is_dir() and not any(parent.is_file() for parent in place.parents):
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_text("x")
    shown = git(made.checkout, "ls-files", "-c", "-o", "--exclude-standard", "-z").split("\0")
    assert paths(made, made.tree()) == sorted(name for name in shown if name)
    assert made.special_files() == []


def test_a_file_the_base_tracks_in_spite_of_its_rules_stays_tracked(tmp_path: Path) -> None:
    path = make_repo(tmp_path / "r", files={".gitignore": "*.log\n/d/\n", "kept.log": "1\n", "d/in": "2\n"})
    made = Workspace.create(tmp_path / "w", inspect_repo(path), "r")
    (made.checkout / "kept.log").unlink()
    shutil.rmtree(made.checkout / "d")
    gone = made.tree()
    write(made.checkout, {"kept.log": "1\n", "other.log": "2\n", "d/in": "2\n", "d/other": "3\n"})
    assert paths(made, gone) == [".gitignore"]
    assert made.tree() == made.base_tree


def test_line_ends_follow_the_bases_attributes_and_not_the_agents(tmp_path: Path) -> None:
    files = {"win/.gitattributes": "*.bat eol=crlf\n", "win/a.bat": "x\n", "b.txt": "y\n"}
    made = Workspace.create(tmp_path / "w", inspect_repo(make_repo(tmp_path / "r", files=files)), "r")
    assert (made.checkout / "win/a.bat").read_bytes() == b"x\r\n"
    (made.checkout / "b.txt").write_bytes(b"y\r\n")
    write(made.checkout, {".gitattributes": "* text eol=lf\n"})
    assert made.read(made.tree(), "b.txt") == b"y\r\n"
    assert made.read(made.tree(), "win/a.bat") == b"x\n"


# changes


def by_path(space: Workspace) -> dict[str, Change]:
    return {change.path: change for change in space.changes(space.base_tree, space.tree())}


def test_changes_say_what_happened_to_each_file(space: Workspace) -> None:
    (space.checkout / "src/sum.py").write_text("def add(a, b):\n    return a + b\n")
    (space.checkout / "README.md").unlink()
    (space.checkout / "run.sh").chmod(0o644)
    (space.checkout / "src/deep/one.txt").rename(space.checkout / "src/deep/two.txt")
    (space.checkout / "blob.bin").write_bytes(b"\0\1\2")
    (space.checkout / "way").symlink_to("../outside")
    write(space.checkout, {"new.py": "a\nb"})
    assert by_path(space) == {
        "src/sum.py": Change(
            "src/sum.py",
            "modify",
            None,
            None,
            1,
            1,
            ("    return a + b",),
            ("    return a - b",),
            False,
            32,
            "100644",
        ),
        "README.md": Change("README.md", "delete", None, None, 0, 1, (), ("# Sum",), mode="100644"),
        "run.sh": Change("run.sh", "mode", added=(), removed=(), bytes=10, mode="100644"),
        "src/deep/two.txt": Change(
            "src/deep/two.txt", "rename", "src/deep/one.txt", added=(), removed=(), bytes=4, mode="100644"
        ),
        "blob.bin": Change("blob.bin", "add", binary=True, bytes=3, mode="100644"),
        "way": Change("way", "symlink", None, "../outside", 1, 0, ("../outside",), (), False, 10, "120000"),
        "new.py": Change("new.py", "add", None, None, 2, 0, ("a", "b"), (), False, 3, "100644"),
    }


def test_a_file_that_becomes_a_link_or_a_folder_is_told(space: Workspace) -> None:
    (space.checkout / "README.md").unlink()
    (space.checkout / "README.md").symlink_to("/etc/passwd")
    shutil.rmtree(space.checkout / "src/deep")
    (space.checkout / "src/deep").symlink_to("/etc")
    (space.checkout / "run.sh").unlink()
    write(space.checkout, {"run.sh/inner": "x\n"})
    found = by_path(space)
    assert (found["README.md"].op, found["README.md"].target) == ("symlink", "/etc/passwd")
    assert (found["src/deep"].op, found["src/deep"].target) == ("symlink", "/etc")
    assert found["src/deep/one.txt"].op == found["run.sh"].op == "delete"
    assert found["run.sh/inner"].op == "add"


def test_a_moved_link_is_judged_as_a_link(space: Workspace) -> None:
    (space.checkout / "a").symlink_to("x/y")
    old = space.tree()
    (space.checkout / "a").rename(space.checkout / "b")
    found = space.changes(old, space.tree())
    assert [(change.path, change.op, change.target) for change in found] == [
        ("a", "delete", None),
        ("b", "symlink", "x/y"),
    ]


def test_a_folder_moved_away_behind_a_link_is_not_taken_for_itself(space: Workspace, tmp_path: Path) -> None:
    shutil.move(space.checkout / "src", tmp_path / "moved")
    (space.checkout / "src").symlink_to(tmp_path / "moved")
    found = by_path(space)
    assert found["src"].target == str(tmp_path / "moved")
    assert found["src/sum.py"].op == "delete"


ODD = [
    "new\nline",
    '"quoted"',
    "-dash",
    "tab\tname",
    "back\\slash",
    "ünï",
    ":(top)x",
    "*",
    "\udcff\udcfe",
    "Readme.md",
]


def test_odd_names_come_through_unharmed(space: Workspace) -> None:
    for name in ODD:
        (space.checkout / name).write_text("+++ x\n--- y\n@@ -1 +1 @@\ndiff --git a/x b/x\n")
    tree = space.tree()
    found = by_path(space)
    assert set(found) == set(ODD)
    assert {change.op for change in found.values()} == {"add"}
    assert {change.added for change in found.values()} == {
        ("+++ x", "--- y", "@@ -1 +1 @@", "diff --git a/x b/x")
    }
    space.restore(space.base_tree)
    space.restore(tree)
    assert set(names_in(space.checkout)) >= set(ODD)


def test_lines_too_many_to_carry_are_unknown_and_not_empty(space: Workspace) -> None:
    write(space.checkout, {"long.txt": "x\n" * 50_001})
    found = by_path(space)["long.txt"]
    assert (found.lines_added, found.added, found.removed) == (50_001, None, ())


def test_an_attribute_cannot_hide_text_from_the_changes(space: Workspace) -> None:
    write(space.checkout, {".gitattributes": "*.py -diff -text binary\n", "evil.py": "steal()\n"})
    write(space.checkout, {".git/info/attributes": "* -diff\n"})
    assert by_path(space)["evil.py"].added == ("steal()",)


def test_a_diff_reads_as_git_shows_it(space: Workspace) -> None:
    (space.checkout / "README.md").write_text("# Product\n")
    tree = space.tree()
    assert "-# Sum\n+# Product" in space.diff(space.base_tree, tree)
    assert "\x1b[" in space.diff(space.base_tree, tree, color=True)
    assert "1 file changed" in space.diff(space.base_tree, tree, stat=True)


# checkpoints


def test_a_checkpoint_stands_on_the_one_before(space: Workspace) -> None:
    write(space.checkout, {"a": "1\n"})
    first = space.checkpoint(space.tree(), 1, "turn 1")
    write(space.checkout, {"a": "2\n"})
    second = space.checkpoint(space.tree(), 3, "turn 3")
    log = git(space.git_dir, "--git-dir", ".", "log", "--format=%H %an <%ae>", second).splitlines()
    assert log[0] == f"{second} Flyball <flyball@localhost>"
    assert [line.split(" ")[0] for line in log] == [second, first, space.base_commit]
    assert {turn: point.commit for turn, point in space.turns().items()} == {1: first, 3: second}


def test_a_checkpoint_made_again_is_the_same(space: Workspace) -> None:
    write(space.checkout, {"a": "1\n"})
    tree = space.tree()
    assert space.checkpoint(tree, 1, "m") == Workspace.open(space.dir).checkpoint(tree, 1, "m")


def test_a_rollback_puts_files_and_ignored_files_back(space: Workspace) -> None:
    write(
        space.checkout,
        {"a": "1\n", "x.log": "then\n", "cache/state": "then\n", "cache/node_modules/m": "then\n"},
    )
    tree = space.tree()
    space.checkpoint(tree, 1, "m")
    write(space.checkout, {"a": "2\n", "b": "\n", "x.log": "now\n", "cache/node_modules/m": "now\n"})
    shutil.rmtree(space.checkout / "src")
    (space.checkout / "cache/state").unlink()
    space.checkpoint(space.tree(), 2, "m")
    space.restore(tree, ignored_from_turn=1)
    assert space.tree() == tree
    assert (space.checkout / "x.log").read_text() == (space.checkout / "cache/state").read_text() == "then\n"
    assert (space.checkout / "cache/node_modules/m").read_text() == "now\n"
    assert not (space.checkout / "b").exists()


def test_large_ignored_files_are_not_kept(space: Workspace) -> None:
    (space.checkout / "big.log").write_bytes(b"x" * 1_000_001)
    write(space.checkout, {"small.log": "x"})
    space.checkpoint(space.tree(), 1, "m")
    kept = git(space.git_dir, "--git-dir", ".", "ls-tree", "-r", "--name-only", "refs/flyball/ignored/1")
    assert kept == "small.log"


def test_a_kept_change_can_be_taken_back(space: Workspace) -> None:
    write(space.checkout, {"a": "1\n"})
    tree = space.tree()
    ref = space.keep(tree, "turn-4")
    assert ref == "refs/flyball/quarantine/turn-4"
    assert space.keep(tree, "interrupted/turn-5") == "refs/flyball/interrupted/turn-5"
    space.restore(space.base_tree)
    space.restore(space.kept(ref))
    assert (space.checkout / "a").read_text() == "1\n"
    for name in ("../x", "a b", "x.lock", ""):
        with pytest.raises(WorkspaceError, match="cannot name"):
            space.keep(tree, name)


def test_restoring_leaves_no_empty_folders_and_repairs_the_agents_git(space: Workspace) -> None:
    write(space.checkout, {"x/y/z": "1\n"})
    (space.checkout / "hollow/inner").mkdir(parents=True)
    git(space.checkout, "add", "-A")
    git(space.checkout, "commit", "-q", "-m", "mine")
    space.restore(space.base_tree)
    assert sorted(names_in(space.checkout)) == sorted([".git", ".gitignore", "README.md", "run.sh", "src"])
    assert git(space.checkout, "status", "--porcelain") == ""
    assert git(space.checkout, "rev-parse", "HEAD") == space.base_commit


# proofs


def test_a_proofs_checkout_is_clean_but_for_what_setup_made(space: Workspace) -> None:
    write(space.checkout, {"new.py": "x\n", "agent.log": "x\n"})
    tree = space.tree()
    room = space.proof_checkout(tree)
    assert not (room / "agent.log").exists()
    write(room, {"env/lib/dep.py": "dep\n", "tools/bin/t": "t\n"})
    assert space.proof_extras() == ["env", "tools"]
    keep = ["env", "tools/bin"]
    space.proof_checkout(tree, keep)
    assert space.proof_tree() == tree
    write(
        room,
        {"left.log": "", "left.txt": "", "src/sum.py": "broken", "tools/left": "", "src/__pycache__/x": ""},
    )
    assert space.proof_tree() != tree
    space.proof_checkout(tree, keep)
    assert sorted(names_in(room)) == sorted(
        [".git", ".gitignore", "README.md", "env", "new.py", "run.sh", "src", "tools"]
    )
    assert names_in(room / "tools") == ["bin"]
    assert (room / "src/sum.py").read_text() == FILES["src/sum.py"]
    assert Workspace.open(space.dir).proof_tree() == tree


def test_ignored_files_made_by_a_proof_do_not_change_its_tree(space: Workspace) -> None:
    room = space.proof_checkout(space.base_tree)
    write(room, {"out.log": "x", "cache/x": "x"})
    assert space.proof_tree() == space.base_tree


def test_a_proofs_checkout_has_a_git_of_its_own(space: Workspace) -> None:
    write(space.checkout, {"new.py": "x\n"})
    room = space.proof_checkout(space.tree())
    assert "new.py" in git(room, "ls-files").splitlines()
    assert git(room, "status", "--porcelain") == ""
    git(room, "tag", "mine")
    assert git(space.checkout, "tag") == ""


def test_a_proof_moves_from_tree_to_tree(space: Workspace) -> None:
    first = space.proof_checkout(space.base_tree)
    (space.checkout / "src/sum.py").unlink()
    write(space.checkout, {"src/sum.py/now": "a folder\n"})
    tree = space.tree()
    assert space.proof_checkout(tree) == first
    assert (first / "src/sum.py/now").read_text() == "a folder\n"
    space.proof_checkout(space.base_tree)
    assert space.proof_tree() == space.base_tree


# hooks and closing


def test_hooks_are_copied_as_they_stood(root: Path, tmp_path: Path) -> None:
    write(root / ".git/hooks", {"pre-commit": "#!/bin/sh\nexit 0\n", "commit-msg": "not executable\n"})
    (root / ".git/hooks/pre-commit").chmod(0o755)
    copy_hooks(inspect_repo(root), tmp_path / "copies")
    write(root / ".git/hooks", {"pre-commit": "changed\n"})
    found = found_hooks(tmp_path / "copies")
    assert list(found) == ["pre-commit"]
    assert found["pre-commit"].read_text() == "#!/bin/sh\nexit 0\n"


def test_a_copied_hook_is_not_switched_off_by_its_mode(root: Path, tmp_path: Path) -> None:
    write(root / ".git/hooks", {"pre-commit": "#!/bin/sh\nexit 0\n"})
    (root / ".git/hooks/pre-commit").chmod(0o755)
    copy_hooks(inspect_repo(root), tmp_path / "copies")
    (tmp_path / "copies/pre-commit").chmod(0o644)
    assert list(found_hooks(tmp_path / "copies")) == ["pre-commit"]


def test_hooks_are_found_where_the_user_keeps_them(root: Path, tmp_path: Path) -> None:
    write(root, {".hooks/commit-msg": "#!/bin/sh\n", ".hooks/_lib.sh": "x\n"})
    (root / ".hooks/commit-msg").chmod(0o755)
    git(root, "config", "core.hooksPath", ".hooks")
    copy_hooks(inspect_repo(root), tmp_path / "copies")
    assert list(found_hooks(tmp_path / "copies")) == ["commit-msg"]
    assert (tmp_path / "copies/_lib.sh").exists()


def test_closing_removes_the_checkout_only_if_nothing_is_lost(space: Workspace) -> None:
    space.proof_checkout(space.base_tree)
    write(space.checkout, {"a": "unsaved\n"})
    assert "holds changes that no checkpoint has" in space.close(remove_checkout=True)
    assert not (space.dir / "proof").exists()
    space.checkpoint(space.tree(), 1, "m")
    assert space.close(remove_checkout=True) == ""
    assert not space.checkout.exists()


def test_missing_and_damaged_objects_are_found(space: Workspace) -> None:
    write(space.checkout, {"a": "precious\n"})
    commit = space.commit(space.tree(), "m")
    assert damaged_objects(Git(space.git_dir), commit) == []
    blob = git(space.git_dir, "--git-dir", ".", "rev-parse", f"{commit}:a")
    stored = space.git_dir / "objects" / blob[:2] / blob[2:]
    content = stored.read_bytes()
    stored.chmod(0o600)
    stored.write_bytes(content[:9] + b"??" + content[11:])
    assert damaged_objects(Git(space.git_dir), commit) == [blob]
    stored.unlink()
    assert damaged_objects(Git(space.git_dir), commit) == [blob]


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """A workspace of a repository with a tracked file of 128 MB."""
    folder = tmp_path_factory.mktemp("large")
    repo = make_repo(folder / "repo")
    (repo / "data.bin").write_bytes(os.urandom(1 << 20) * 128)
    git(repo, "-c", "core.compression=0", "add", "-A")
    git(repo, "commit", "-qm", "Data")
    return Workspace.create(folder / "run", inspect_repo(repo), "r1")


def test_git_need_not_read_a_large_file_again_after_a_checkout(large: Workspace) -> None:
    """Git trusts a file that is older, in whole seconds, than the index."""
    assert int((large.git_dir / "index").stat().st_mtime) > int((large.checkout / "data.bin").stat().st_mtime)
    proof = large.proof_checkout(large.base_tree)
    assert int((large.git_dir / "index.proof").stat().st_mtime) > int((proof / "data.bin").stat().st_mtime)


@pytest.mark.sampled(0)
def test_a_large_file_changed_right_after_a_checkout_is_noticed(large: Workspace) -> None:
    large.restore(large.base_tree)
    with (large.checkout / "data.bin").open("r+b") as file:
        file.write(b"other")
    assert large.tree() != large.base_tree
