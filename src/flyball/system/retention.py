"""Prune what ended runs have left behind, as `[retention]` says, or remove one run whole.

Pruning never touches a run that is running or waiting, and never removes what is kept as evidence: the journal, the
certificate, the pinned rules and the result commit. A result that is on no other branch keeps its branch and the
files that `flyball land` needs. One process prunes at a time, and it holds the lease of the run that it prunes.

Every step can be cut off anywhere and done again. A run that is removed whole is first a tombstone in the journal;
files that a crash leaves after that are found by the next pruning.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Generator, Iterable, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from flyball.authority import trust
from flyball.config.load import load
from flyball.domain.settings import Retention, rough
from flyball.errors import AlreadyRunning, FlyballError, UserError
from flyball.journal.database import DRIVERS, Driver, alive, others_at_work
from flyball.journal.types import REGISTRY
from flyball.runtime.app import App
from flyball.runtime.start import tracked_files
from flyball.state_dir import Pruning, RunDir, remove, write_whole
from flyball.system.disk_usage import CHECKPOINTS, KINDS, RunUsage, Usage, usage
from flyball.system.packed_logs import pack
from flyball.workspace import Workspace
from flyball.workspace.landing import RunBranch, delete_branch

MB = 1_000_000
LOCK = "prune.lock"
LOCK_AGE_S = 3600
FORGOTTEN_S = 24 * 3600  # a folder that no run knows may belong to one that is just starting


class Removal(Struct, frozen=True):
    """What is removed of one run, and why. `parts` are kinds of files, `logs` (compressed), `branch` or `run` (all
    of it).
    """

    usage: RunUsage
    parts: tuple[str, ...]
    why: str

    @property
    def bytes(self) -> int:
        """About how much space becomes free; compressed logs are not subtracted."""
        parts = self.usage.sizes if "run" in self.parts else self.parts
        return sum(self.usage.sizes.get(part, 0) for part in parts)


class Outcome(Struct, frozen=True):
    """The result of a removal; `problem` says why it was not done."""

    removal: Removal
    problem: str = ""


# ---- what is due -----------------------------------------------------------------------------------------


def due(runs: Iterable[RunUsage], keep: Retention, now: int) -> list[Removal]:
    """What is to be removed of one repository's runs, oldest first."""
    ended = sorted((run for run in runs if run.status == "ended"), key=lambda run: run.since)
    removals: list[Removal] = []
    total = sum(run.total for run in ended)
    for run in ended:
        age = now - run.since
        too_much = keep.size_mb is not None and total > keep.size_mb * MB
        removal = _by_age(run, keep, age) or (_by_size(run, keep) if too_much and run.top_ended else None)
        if removal:
            removals.append(removal)
            total -= removal.bytes
    return removals


def _by_age(run: RunUsage, keep: Retention, age: int) -> Removal | None:
    if keep.runs_us is not None and age >= keep.runs_us and _may_be_forgotten(run):
        return Removal(run, ("run",), f"it ended {rough(age)} ago (retention.runs)")
    parts = _removable(run)
    return Removal(run, parts, f"it ended {rough(age)} ago") if parts and age >= keep.age_us else None


def _may_be_forgotten(run: RunUsage) -> bool:
    return not (run.parent or run.has_result or run.kept_checkout or run.without_repo)


def _by_size(run: RunUsage, keep: Retention) -> Removal | None:
    parts = _removable(run)
    return Removal(run, parts, f"this repository's runs hold more than {keep.size_mb} MB") if parts else None


def _removable(run: RunUsage) -> tuple[str, ...]:
    """The parts that can be removed without losing a result or a change that exists nowhere else."""
    saved = not run.kept_checkout and not run.without_repo
    parts = ["homes"] if run.sizes["homes"] else []
    if run.sizes["checkouts"] and saved:
        parts.append("checkouts")
    if run.sizes[CHECKPOINTS] and saved and not run.has_result:
        parts.append(CHECKPOINTS)
    if run.acts:
        parts.append("logs")
    if run.branch and run.branch.merged and not run.branch.worktree:
        parts.append("branch")
    return tuple(parts)


class Plan(Struct, frozen=True):
    """What is kept, what of it is to be removed, and why some repositories could not be read."""

    usage: Usage
    removals: list[Removal]
    problems: list[str]

    @property
    def freed(self) -> int:
        return sum(removal.bytes for removal in self.removals)


def plan(app: App, sets: Sequence[str] = (), repo: str | None = None, *, auto: bool = False) -> Plan:
    """Each repository by its own settings; with `auto`, only those that may be pruned unasked."""
    load(None, app.env, sets)  # a setting that cannot be read is refused, not skipped
    usage_ = usage(app, repo)
    removals: list[Removal] = []
    problems: list[str] = []
    for one in usage_.repos:
        try:
            keep = retention_of(app, one.repo, sets)
        except FlyballError as problem:
            problems.append(f"The runs of {one.repo} were skipped: {problem}")
            continue
        removals += due(one.runs, keep, app.clock.now()) if keep.auto or not auto else []
    return Plan(usage_, removals, problems)


def retention_of(app: App, repo: str, sets: Sequence[str] = ()) -> Retention:
    """The settings for a repository; what a tracked file asks for counts only if it is trusted."""
    root = Path(repo)
    if not repo or not root.is_dir():
        return load(None, app.env, sets).settings().retention
    loaded = load(root, app.env, sets)
    needs = [need for need in trust.needs(loaded, tracked_files(root)) if need.key.startswith("retention.")]
    if trust.untrusted(needs, loaded, root, trust.TrustStore(app.state_dir)):
        loaded = load(None, app.env, sets)
    return loaded.settings().retention


# ---- doing it --------------------------------------------------------------------------------------------


def prune(app: App, planned: Plan) -> list[Outcome]:
    """Carry a plan out, and remove leftovers of runs that are gone."""
    with _alone(app) as driver:
        outcomes = [_attempt(app, removal, driver) for removal in planned.removals]
        for path in forgotten(app, planned.usage.unknown):
            remove(path)
        for lock in dead_locks(app):
            lock.unlink(missing_ok=True)
            lock.with_suffix(".bell").unlink(missing_ok=True)
        app.seals.sweep(app.takes_no_messages)
        write_whole(app.dirs.last_prune, b"", sync=False)
        app.dirs.keep_reserve()
        if any("run" in outcome.removal.parts for outcome in outcomes):
            _compact(app)
        return outcomes


def remove_run(app: App, run: RunUsage, branches: Iterable[RunBranch]) -> None:
    """One ended run and those below it, with these branches; their lines in the registry stay."""
    with _alone(app) as driver:
        removal = Removal(run, ("run",), "")
        outcome = _attempt(app, removal, driver, branches)
        if outcome.problem:
            raise UserError(outcome.problem)
        _compact(app)


def prune_daily(app: App) -> None:
    """At the end of a command that ran runs, where `StateDir.is_prune_due`. A problem here never stops a run."""
    with contextlib.suppress(FlyballError, OSError):
        prune(app, plan(app, auto=True))


@contextlib.contextmanager
def _alone(app: App) -> Generator[Driver]:
    """One process prunes at a time. The driver is the name under which leases are held."""
    app.state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = os.open(app.state_dir / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError("Another process is pruning right now. Try again when it has finished.") from None
        driver = Driver(app.state_dir)
        try:
            yield driver
        finally:
            driver.close()
    finally:
        os.close(lock)


def _attempt(app: App, removal: Removal, driver: Driver, branches: Iterable[RunBranch] = ()) -> Outcome:
    run = removal.usage.run
    try:
        app.journal.acquire(run, driver.name, lambda name: alive(app.state_dir, name))
    except AlreadyRunning:
        return Outcome(removal, f"Run {run} was skipped: another process is using it.")
    try:
        problem = "" if _is_over(app, removal.usage) else f"Run {run} was skipped: it has not ended."
        if not problem:
            for branch in branches:
                delete_branch(Path(removal.usage.repo), branch)
            _carry_out(app, removal)
        return Outcome(removal, problem)
    except (FlyballError, OSError) as trouble:
        return Outcome(removal, f"Run {run} was not pruned completely: {trouble}")
    finally:
        app.journal.release(run, driver.name)


def _is_over(app: App, run: RunUsage) -> bool:
    """Every member has ended, and no landing was cut off: asked again under the lease."""
    rows = [app.journal.row(member) for member in run.members]
    if any(row is None or row.status != "ended" for row in rows):
        return False
    whole = app.read(run.run)
    return whole.act is None and whole.landing is None


def _carry_out(app: App, removal: Removal) -> None:
    run, parts = removal.usage, removal.parts
    folder = app.dirs.run(run.run)
    if "branch" in parts and run.branch:
        delete_branch(Path(run.repo), run.branch)
    if "run" in parts:
        _forget(app, run)
        return
    if "homes" in parts:
        remove(folder.path / "homes")  # first: on a full disk the steps below need the space
    _mark(folder, removal, app.clock.now())
    if "checkouts" in parts:
        _close_checkout(folder)
    if CHECKPOINTS in parts and not folder.checkout.exists():
        _remove_checkpoints(folder)
    if "logs" in parts:
        pack(folder, list(run.acts))


def _mark(folder: RunDir, removal: Removal, now: int) -> None:
    """Written first: whoever misses something later can read when and why it was removed."""
    folder.path.mkdir(mode=0o700, parents=True, exist_ok=True)
    before = folder.last_pruning()
    parts = sorted({*removal.parts, *(before.parts if before else ())})
    write_whole(folder.pruned, msgspec.json.encode(Pruning(now, tuple(parts), removal.why)))


def _close_checkout(folder: RunDir) -> None:
    """The checkout goes only if its content is saved; else it stays, with the reason beside it."""
    if not folder.checkout.exists():
        remove(folder.proof)
        return
    why = Workspace.open(folder.path).close(remove_checkout=True)
    if why:
        folder.why_kept.write_text(why, "utf-8")


def _remove_checkpoints(folder: RunDir) -> None:
    """The record goes first, so that nobody opens half of a workspace."""
    stays = {name for names in KINDS.values() for name in names}
    remove(folder.path / "workspace.json")
    for path in sorted(folder.path.iterdir()):
        if path.name not in stays:
            remove(path)


# ---- whole runs ------------------------------------------------------------------------------------------


def _forget(app: App, run: RunUsage) -> None:
    """Children first, so that a run of which anything is left can still be named and removed again."""
    below = [row.run for row in app.journal.rows(root=run.run) if row.run != run.run]
    for member in [*below, run.run]:
        app.journal.prune(member, app.clock.now())
        app.heads.forget(member)
    app.heads.note(REGISTRY, *app.journal.registry_head(), app.clock.now(), at_once=True)
    for path in _places(app, [*below, run.run]):
        remove(path)


def _places(app: App, runs: Sequence[str]) -> list[Path]:
    acts = app.dirs.acts.iterdir() if app.dirs.acts.is_dir() else ()
    ids = set(runs)
    return [
        *(path for path in acts if path.name.rpartition("-")[0] in ids),
        *(app.dirs.run(run).path for run in runs),
        *(app.state_dir / "seals" / run for run in runs),
    ]


def forgotten(app: App, unknown: Iterable[Path]) -> list[Path]:
    """What a crash has left of removed runs, and old folders of runs that never began.

    A signed head of a run that was not removed stays: it shows that the journal has lost the run."""
    old = time.time() - FORGOTTEN_S
    folders = (app.dirs.acts, app.dirs.path / "runs")
    return [
        path
        for path in unknown
        if _was_removed(app, path) or (path.parent in folders and path.lstat().st_mtime < old)
    ]


def _was_removed(app: App, path: Path) -> bool:
    names = (path.name.removesuffix(".json"), path.name.rpartition("-")[0])
    return any(name and app.journal.pruned_at(name) for name in names)


def _compact(app: App) -> None:
    """Only while nobody else needs the journal: it is locked meanwhile."""
    if not others_at_work(app.state_dir):
        app.journal.compact()


def dead_locks(app: App) -> list[Path]:
    """Locks of drivers that are gone; one that was just made may not be held yet."""
    old = time.time() - LOCK_AGE_S
    locks = sorted((app.state_dir / DRIVERS).glob("*.lock"))
    return [lock for lock in locks if lock.stat().st_mtime < old and not alive(app.state_dir, lock.stem)]
