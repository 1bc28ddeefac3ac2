"""What Flyball keeps on the disk: for each run that has files, by kind, and for each repository its branches."""

from __future__ import annotations

import os
import stat
from collections.abc import Container, Iterable
from pathlib import Path

from msgspec import Struct, field

from flyball.errors import WorkspaceError
from flyball.journal import Row
from flyball.journal.records import Records
from flyball.state_dir import RunDir
from flyball.workspace.landing import RunBranch, bytes_only_in, run_branches

KINDS = {
    "checkouts": ("checkout", "proof"),
    "homes": ("homes",),
    "logs": ("driver.log", "logs.tar.gz"),
    "evidence": ("certificate.json", "certificate.next.json", "pinned", "pruned.json", "kept"),
}
CHECKPOINTS = "checkpoints"  # everything else in a run's folder: it is needed to land or retry the run


class RunUsage(Struct, frozen=True):
    """One run and the runs that work in its checkout. `acts` are the folders with their logs."""

    run: str
    repo: str
    task: str
    status: str
    end: str
    parent: str
    root: str
    since: int
    sizes: dict[str, int]
    members: tuple[str, ...]
    acts: tuple[Path, ...]
    branch: RunBranch | None = None
    kept_checkout: bool = False
    without_repo: bool = False  # its repository cannot be read now, so nobody knows what is merged
    top_ended: bool = True

    @property
    def total(self) -> int:
        return sum(self.sizes.values())

    @property
    def has_result(self) -> bool:
        """It succeeded, and no branch of the user's has its commit yet."""
        return self.end == "success" and self.branch is not None and not self.branch.merged


class RepoUsage(Struct, frozen=True):
    """A repository: its runs, and what its `flyball/` branches hold that no other branch does."""

    repo: str
    runs: list[RunUsage]
    branches: int = 0
    branch_bytes: int = 0
    problem: str = ""

    @property
    def total(self) -> int:
        return sum(run.total for run in self.runs) + self.branch_bytes


class Usage(Struct, frozen=True):
    """`unknown` are files and folders of runs that the journal does not have (any more)."""

    state_dir: Path
    repos: list[RepoUsage]
    journal_bytes: int
    unknown: list[Path] = field(default_factory=list[Path])


class _Survey(Struct, frozen=True):
    """Every run's row, and by owner of a checkout: the runs that work in it and the folders of their acts."""

    rows: dict[str, Row]
    members: dict[str, list[str]]
    acts: dict[str, list[Path]]
    weights: dict[str, int]
    unknown: list[Path]


def usage(records: Records, repo: str | None = None) -> Usage:
    """What is kept, of all repositories or one. Reads only."""
    if not records.dirs.journal.exists():
        return Usage(records.state_dir, [], 0)
    survey = _survey(records)
    rows = [survey.rows[run] for run in survey.members if repo in (None, survey.rows[run].repo)]
    repos: list[RepoUsage] = []
    for name in sorted({row.repo for row in rows}):
        branches, size, problem = _branches(name)
        runs = [
            _run(records, survey, row, branches.get(row.run), bool(problem))
            for row in rows
            if row.repo == name
        ]
        repos.append(RepoUsage(name, runs, len(branches), size, problem))
    return Usage(records.state_dir, repos, _size(_journal_files(records)), survey.unknown)


def _survey(records: Records) -> _Survey:
    rows = {row.run: row for row in records.journal.rows()}
    folders = {folder.path.name: folder.path for folder in records.dirs.runs()}
    members: dict[str, list[str]] = {}
    for run in rows:
        members.setdefault(_owner(run, rows, folders), []).append(run)
    acts: dict[str, list[Path]] = {}
    unknown = [path for name, path in folders.items() if name not in rows]
    for path in sorted(records.dirs.acts.iterdir()) if records.dirs.acts.is_dir() else ():
        run = path.name.rpartition("-")[0]
        if run in rows:
            acts.setdefault(_owner(run, rows, folders), []).append(path)
        else:
            unknown.append(path)
    for path in (*records.dirs.heads.glob("[!@]*.json"), *records.dirs.path.glob("seals/*")):
        unknown += [path] if path.name.removesuffix(".json") not in rows else []
    return _Survey(rows, members, acts, records.journal.weights(), unknown)


def _owner(run: str, rows: dict[str, Row], folders: Container[str]) -> str:
    """The run in whose checkout it works: itself or the nearest above that has a folder, else the top one."""
    while run not in folders and rows[run].parent in rows:
        run = rows[run].parent
    return run


def _run(
    records: Records, survey: _Survey, row: Row, branch: RunBranch | None, without_repo: bool
) -> RunUsage:
    members, acts = survey.members[row.run], survey.acts.get(row.run, [])
    folder = records.dirs.run(row.run)
    sizes = _sizes(folder)
    sizes["logs"] += _size(acts)
    sizes["journal"] = sum(survey.weights.get(run, 0) for run in members)
    return RunUsage(
        run=row.run,
        repo=row.repo,
        task=row.task,
        status=row.status,
        end=row.end,
        parent=row.parent,
        root=row.root or row.run,
        since=row.updated_at,
        sizes=sizes,
        members=tuple(members),
        acts=tuple(acts),
        branch=branch,
        kept_checkout=folder.checkout.exists() and folder.why_kept.exists(),
        without_repo=without_repo,
        top_ended=survey.rows.get(row.root or row.run, row).status == "ended",
    )


def _sizes(folder: RunDir) -> dict[str, int]:
    kind_of = {name: kind for kind, names in KINDS.items() for name in names}
    sizes = {"checkouts": 0, CHECKPOINTS: 0, "homes": 0, "logs": 0, "evidence": 0}
    for path in folder.path.iterdir() if folder.path.is_dir() else ():
        sizes[kind_of.get(path.name, CHECKPOINTS)] += _size([path])
    return sizes


def _branches(repo: str) -> tuple[dict[str, RunBranch], int, str]:
    root = Path(repo)
    try:
        branches = run_branches(root)
        size = bytes_only_in(root, [one for one in branches if not one.merged])
    except WorkspaceError as problem:
        return {}, 0, str(problem)
    return {branch.run: branch for branch in branches}, size, ""


def _journal_files(records: Records) -> list[Path]:
    return [records.dirs.journal.with_name(records.dirs.journal.name + end) for end in ("", "-wal", "-shm")]


def _size(paths: Iterable[Path]) -> int:
    """What files and folders take up on the disk; a file with two names counts once, links are not followed."""
    total, counted, todo = 0, set[tuple[int, int]](), list(map(os.fspath, paths))
    while todo:
        path = todo.pop()
        try:
            info = os.lstat(path)
            if (info.st_dev, info.st_ino) not in counted:
                counted.add((info.st_dev, info.st_ino))
                total += info.st_blocks * 512
            if stat.S_ISDIR(info.st_mode):
                todo += [entry.path for entry in os.scandir(path)]
        except OSError:
            continue  # removed meanwhile, or not ours to read
    return total
