"""Create a workspace: Flyball's git directory, the pinned rules, the files, the agent's git.

After a crash in the middle there is no record yet, and the workspace is created again from nothing.
"""

import re
from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from flyball.errors import WorkspaceError
from flyball.workspace.files import Files
from flyball.workspace.folders import remove
from flyball.workspace.git import EMAIL, NAME, Git, names
from flyball.workspace.repo import Repo, snapshot_changes
from flyball.workspace.rules import attribute_rules, entries, ignore_rules
from flyball.workspace.store import Plan, make_git_dir, write_whole

PARTS = ("git", "checkout", "checkout.git.new", "proof", "proof.git.new", "objects")
RUN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
FILE = "workspace.json"


class Record(Struct, frozen=True):
    """What a workspace remembers of its start; written last, so without a record there is no workspace.

    `head` is the user's commit; the base is that commit, or their uncommitted changes on it.
    """

    run: str
    repo_root: str
    git_dir: str
    common_dir: str
    object_format: str
    head: str
    branch: str
    base_commit: str
    base_tree: str
    author: tuple[str, str]
    always: tuple[bytes, ...] = ()


def read_record(folder: Path) -> Record | None:
    try:
        return msgspec.json.decode((folder / FILE).read_bytes(), type=Record)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError) as err:
        raise WorkspaceError(f"{folder / FILE} cannot be read ({err}); the run's checkout is lost.") from err


def write_record(folder: Path, record: Record) -> None:
    write_whole(folder / FILE, msgspec.json.encode(record))


def build(folder: Path, repo: Repo, run: str, with_changes: bool, hidden: Sequence[str]) -> Record:
    """Everything but the agent's git directory, from nothing; the caller places that and writes the record."""
    if not RUN_NAME.fullmatch(run) or run.endswith((".lock", ".")) or ".." in run:
        raise WorkspaceError(f"'{run}' cannot be part of a branch name; use letters, digits, '-' and '_'.")
    _clear(folder, repo)
    git = _own_git(folder, repo)
    base_commit, base_tree = _base(git, repo, with_changes)
    always = _pin_rules(git, base_tree, repo, hidden)
    Files(git, folder / "checkout", folder / "git/index", folder / "git/rules", always).put(base_tree)
    return Record(
        run=run,
        repo_root=str(repo.root),
        git_dir=str(repo.git_dir),
        common_dir=str(repo.common_dir),
        object_format=repo.object_format,
        head=repo.head,
        branch=repo.branch,
        base_commit=base_commit,
        base_tree=base_tree,
        author=_author(repo),
        always=always,
    )


def _clear(folder: Path, repo: Repo) -> None:
    """The folder, without the parts of a workspace; `objects` is where the user's store is found."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for part in PARTS:
            remove(folder / part)
        (folder / "checkout").mkdir()
        (folder / "objects").symlink_to(repo.objects)
    except OSError as err:
        raise WorkspaceError(f"{folder} cannot be made: {err.strerror}.") from err


def _own_git(folder: Path, repo: Repo) -> Git:
    refs = _known_refs(repo)
    plan = Plan(repo.object_format, [folder / "objects"], repo.head, refs, repo.shallow)
    make_git_dir(folder / "git", plan)
    return Git(folder / "git")


def _known_refs(repo: Repo) -> dict[str, str]:
    """The branch the run starts from and the tags, for whoever describes a version by them."""
    listed = repo.git.line("for-each-ref", "--format=%(objectname) %(refname)", "refs/tags")
    refs = {name: oid for oid, _, name in (row.partition(" ") for row in listed.splitlines())}
    return refs | ({f"refs/heads/{repo.branch}": repo.head} if repo.branch else {})


def _base(git: Git, repo: Repo, with_changes: bool) -> tuple[str, str]:
    """The commit that the run starts from, and its tree."""
    if not (with_changes and repo.dirty):
        return repo.head, repo.tree
    tree = snapshot_changes(repo, git.git_dir / "objects")
    return git.line("commit-tree", tree, "-p", repo.head, "-m", "Uncommitted changes"), tree


def _pin_rules(git: Git, tree: str, repo: Repo, hidden: Sequence[str]) -> tuple[bytes, ...]:
    """The rules as they are in the base; gives the files it tracks in spite of them."""
    files = entries(git, tree)
    rules, index = git.git_dir / "rules", git.git_dir / "index.rules"
    own = [rule.encode("utf-8", "surrogateescape") for rule in hidden]
    rules.write_bytes(ignore_rules(git, files, repo.excludes) + b"".join(rule + b"\n" for rule in own))
    (git.git_dir / "info/attributes").write_bytes(attribute_rules(git, files))
    git = git.over(work_tree=git.git_dir.parent / "checkout", index=index)
    git("read-tree", tree)
    always = git("ls-files", "-z", "--cached", "--ignored", f"--exclude-from={rules}")
    index.unlink()
    return tuple(names(always))


def _author(repo: Repo) -> tuple[str, str]:
    name, email = repo.settings.get("user.name", ""), repo.settings.get("user.email", "")
    return (name, email) if name and email else (NAME, EMAIL)
