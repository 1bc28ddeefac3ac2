"""What Flyball keeps on the disk: du, prune, rm."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from flyball.cli import (
    JSON,
    RUN,
    SET,
    examples,
    open_app,
    print_json,
    print_table,
    require_repository,
    say,
)
from flyball.domain.settings import rough
from flyball.errors import UserError
from flyball.runtime.app import App
from flyball.system.disk_usage import RepoUsage, RunUsage, Usage, usage
from flyball.system.retention import (
    Outcome,
    Plan,
    Removal,
    forgotten,
    plan,
    prune as carry_out,
    remove_run,
)
from flyball.views.text import clean, one_line, plural
from flyball.workspace.landing import RunBranch

KINDS = ("checkouts", "checkpoints", "homes", "logs", "evidence", "journal")
KEPT = "Kept as evidence: the journal, certificates, pinned rules, and results that are on no other branch."
NAMES = {"branch": "the merged branch", "logs": "logs (compressed)", "run": "the whole run"}
OPTIONAL = (
    "HOMES",
    "EVIDENCE",
    "JOURNAL",
    "CHECKPOINTS",
    "LOGS",
    "CHECKOUTS",
)  # on a narrow terminal left out
SHOWN = 10
ONE_REPO = click.option(
    "--repo", type=click.Path(path_type=Path), metavar="DIR", help="Only this repository (default: all)."
)
YES = click.option("--yes", is_flag=True, help="Do it without asking.")


@click.command(epilog=examples("flyball du", "flyball du --repo . --json"))
@ONE_REPO
@click.option("--all", "everything", is_flag=True, help="List every run, not only the 10 largest.")
@JSON
def du(repo: Path | None, everything: bool, as_json: bool) -> None:
    """Show how much disk space each repository and run takes."""
    with open_app() as app:
        planned = plan(app, repo=_name(repo))
        now = app.clock.now()
    if as_json:
        print_json(_facts(planned))
        return
    for one in planned.usage.repos:
        _print_repo(one, now, None if everything else SHOWN)
    say(_sum(planned.usage))
    if planned.freed:
        say(f"`flyball prune` would free about {size(planned.freed)}.")


def _name(repo: Path | None) -> str | None:
    return str(require_repository(repo)) if repo else None


def size(count: int) -> str:
    """Bytes as people read them: `0.3 MB`, `12 MB`, `1.4 GB`."""
    mb = count / 1_000_000
    return f"{mb / 1000:.1f} GB" if mb >= 1000 else f"{mb:.0f} MB" if mb >= 10 else f"{mb:.1f} MB"


def _print_repo(one: RepoUsage, now: int, most: int | None) -> None:
    """The largest runs first, each with the kinds of files that it has."""
    say(f"{clean(one.repo)}: {size(one.total)} in {plural(len(one.runs), 'run')}, {_branches(one)}")
    runs = sorted(one.runs, key=lambda run: -run.total)
    rows = [_row(run, now) for run in runs[:most]]
    print_table([("  RUN", "STATUS", "AGE", "TOTAL", *map(str.upper, KINDS), "BRANCH"), *rows], OPTIONAL)
    if most is not None and len(runs) > most:
        say(f"  and {plural(len(runs) - most, 'smaller run')} (--all lists them)")
    say()


def _branches(one: RepoUsage) -> str:
    return clean(one.problem) or f"{one.branches} flyball/ branch{'' if one.branches == 1 else 'es'}"


def _row(run: RunUsage, now: int) -> tuple[str, ...]:
    kinds = (size(run.sizes[kind]) if run.sizes[kind] else "–" for kind in KINDS)
    branch = "–" if run.branch is None else "merged" if run.branch.merged else "not merged"
    return (f"  {run.run}", run.end or run.status, rough(now - run.since), size(run.total), *kinds, branch)


def _sum(usage_: Usage) -> str:
    total = sum(one.total for one in usage_.repos)
    runs = sum(len(one.runs) for one in usage_.repos)
    return (
        f"{size(total)} in {plural(runs, 'run')}. Journal: {size(usage_.journal_bytes)}. "
        f"Folder: {usage_.state_dir}"
    )


def _facts(planned: Plan) -> dict[str, Any]:
    usage_ = planned.usage
    repos = [
        {
            "repo": one.repo,
            "total": one.total,
            "branches": one.branches,
            "branch_bytes": one.branch_bytes,
            "problem": one.problem or None,
            "runs": [_run_facts(run) for run in one.runs],
        }
        for one in usage_.repos
    ]
    return {
        "state_dir": str(usage_.state_dir),
        "total": sum(one.total for one in usage_.repos),
        "journal_bytes": usage_.journal_bytes,
        "prunable_bytes": planned.freed,
        "repos": repos,
    }


def _run_facts(run: RunUsage) -> dict[str, Any]:
    branch = {"name": run.branch.name, "merged": run.branch.merged} if run.branch else None
    names = ("run", "task", "status", "end", "since", "total")
    return {**{name: getattr(run, name) for name in names}, "bytes": run.sizes, "branch": branch}


# ---- prune -----------------------------------------------------------------------------------------------


@click.command(epilog=examples("flyball prune", "flyball prune --set retention.age=2d --yes"))
@ONE_REPO
@SET
@click.option("--yes", is_flag=True, help="Remove it. Without this, the list is only shown.")
@JSON
def prune(repo: Path | None, sets: tuple[str, ...], yes: bool, as_json: bool) -> int:
    """Remove what old runs have left on the disk.

    Removes checkouts, homes and checkpoints of runs that are older than the settings in [retention] say, compresses their
    logs, and deletes merged branches. Runs that are running or waiting stay, and so do results that are on no other
    branch.
    """
    with open_app() as app:
        if yes:
            app.dirs.give_reserve()
        planned = plan(app, sets, _name(repo))
        stray = forgotten(app, planned.usage.unknown)
        if not yes:
            _show_plan(planned, stray, as_json)
            return 0
        app.require_person("prune")
        before = _total(planned.usage)
        outcomes = carry_out(app, planned)
        freed = max(before - _total(usage(app, _name(repo))), 0)
    problems = [*planned.problems, *(outcome.problem for outcome in outcomes if outcome.problem)]
    if as_json:
        print_json({"done": True, "freed": freed, "runs": _steps(outcomes), "problems": problems})
    else:
        _show_outcome(outcomes, len(stray), freed, problems)
    return 1 if problems else 0


def _total(usage_: Usage) -> int:
    return sum(one.total for one in usage_.repos) + usage_.journal_bytes


def _show_plan(planned: Plan, stray: list[Path], as_json: bool) -> None:
    if as_json:
        steps = [_step(removal) for removal in planned.removals]
        print_json({"done": False, "freed": planned.freed, "runs": steps, "problems": planned.problems})
        return
    for removal in planned.removals:
        say(f"{removal.usage.run}  {size(removal.bytes):>8}  {_parts(removal)}: {removal.why}")
    for path in stray:
        say(f"{clean(str(path))}  left by a removed run")
    for problem in planned.problems:
        say(clean(problem), err=True)
    if not planned.removals and not stray:
        say("Nothing to prune: no ended run is older than the setting retention.age.")
        return
    say(f"This would free about {size(planned.freed)}. Nothing was removed; add --yes to remove it.")
    say(KEPT)


def _parts(removal: Removal) -> str:
    return ", ".join(NAMES.get(part, part) for part in removal.parts)


def _step(removal: Removal) -> dict[str, Any]:
    facts = {"parts": removal.parts, "bytes": removal.bytes, "why": removal.why}
    return {"run": removal.usage.run, "repo": removal.usage.repo, **facts}


def _steps(outcomes: list[Outcome]) -> list[dict[str, Any]]:
    return [{**_step(outcome.removal), "problem": outcome.problem or None} for outcome in outcomes]


def _show_outcome(outcomes: list[Outcome], stray: int, freed: int, problems: list[str]) -> None:
    for problem in problems:
        say(clean(problem), err=True)
    removed = sum(not outcome.problem for outcome in outcomes)
    leftovers = f" and {plural(stray, 'leftover folder')}" if stray else ""
    say(f"Pruned {plural(removed, 'run')}{leftovers}: {size(freed)} freed.")
    say(KEPT)


# ---- rm --------------------------------------------------------------------------------------------------


@click.command(epilog=examples("flyball rm 9apx47xk --yes", "flyball rm @last --yes --keep-branch"))
@RUN
@YES
@click.option("--keep-branch", is_flag=True, help="Keep the branch flyball/RUN in the repository.")
def rm(run_name: str, yes: bool, keep_branch: bool) -> None:
    """Remove one ended run: files, journal, certificate and branch.

    One line in the journal's registry stays; it says when the run was removed. The branch stays if it is checked out.
    """
    with open_app() as app:
        run, *below = _family(app, app.find(run_name))
        branches = [one.branch for one in (run, *below) if one.branch and not keep_branch]
        branches = [branch for branch in branches if not branch.worktree]
        if not yes and not sys.stdin.isatty():
            raise UserError(
                f"Removing run {run.run} cannot be undone. Add --yes to remove it without asking."
            )
        if not yes:
            say("\n".join(_losses(run, branches)))
            click.confirm(f"Remove run {run.run}?", abort=True)
        remove_run(app, run, branches)
    say(f"Removed run {run.run} ({size(run.total)}).")


def _family(app: App, run_id: str) -> list[RunUsage]:
    """The run, then those below it that have files of their own; or the reason why it cannot be removed."""
    row = app.journal.row(run_id)
    assert row is not None
    if row.parent and row.root == run_id:
        raise UserError(
            f"Run {run_id} is a step of lane {row.parent} of `flyball up`, and goes with it: flyball rm {row.parent}."
        )
    if row.parent:
        raise UserError(f"Run {run_id} is part of run {row.root}, and goes with it: flyball rm {row.root}.")
    if row.status != "ended":
        raise UserError(
            f"Run {run_id} has not ended. End it with `flyball cancel {run_id}` first, then remove it."
        )
    runs = [run for one in usage(app, row.repo).repos for run in one.runs if run.root == run_id]
    return sorted(runs, key=lambda run: run.run != run_id)


def _losses(run: RunUsage, branches: list[RunBranch]) -> Iterator[str]:
    """What is lost for good."""
    yield f"Run {run.run} ({one_line(run.task, 80)}): {size(run.total)}, with its journal and certificate."
    if run.kept_checkout:
        yield "Its checkout holds changes that are saved nowhere else."
    for branch in branches:
        merged = "which is merged" if branch.merged else "whose commits are on no other branch"
        yield f"The branch {branch.name} goes too, {merged} (--keep-branch keeps it)."
