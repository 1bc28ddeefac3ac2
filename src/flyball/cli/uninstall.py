"""`flyball uninstall`: remove everything that Flyball keeps outside your projects."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from flyball.cli import examples, open_app, say
from flyball.cli.space import YES, size
from flyball.config.load import FOLDER
from flyball.errors import FlyballError, UserError
from flyball.journal.database import others_at_work
from flyball.runtime.app import App
from flyball.state_dir import remove
from flyball.system.disk_usage import usage
from flyball.views.text import first_few, plural
from flyball.workspace.landing import RunBranch, delete_branch, run_branches

OURS = (
    *(
        "runs",
        "acts",
        "heads",
        "seals",
        "drivers",
        "trust",
        "backups",
        "webhook",
        "up*.log",
        "up*.tasks",
        "prune.*",
        "*.key",
    ),
    "journal.db*",  # last: as long as it is there, uninstalling can be done again
)


@click.command(epilog=examples("flyball uninstall --yes"))
@YES
def uninstall(yes: bool) -> None:
    """Remove the journal, all runs, your settings and merged branches.

    In your repositories, `.flyball/` and branches that are not merged stay; they are listed. The program itself is removed
    the way it was installed.
    """
    with open_app() as app:
        if others_at_work(app.state_dir):
            raise UserError(
                "Flyball is running. Stop it first: `flyball stop --all` stops all runs, and `flyball down` in a "
                "repository stops its `flyball up`."
            )
        usage_ = usage(app)
        branches = [(one.repo, branch) for one in usage_.repos for branch in _branches(one.repo)]
        total = sum(one.total for one in usage_.repos) + usage_.journal_bytes
        consequences = [*_consequences(app, total, [one.repo for one in usage_.repos], branches)]
    say("\n".join(consequences))
    if not yes and not sys.stdin.isatty():
        raise UserError("Nothing was removed. Add --yes to remove it without asking.")
    if not yes:
        click.confirm("Remove this?", abort=True)
    for repo, branch in branches:
        if branch.merged and not branch.worktree:
            with contextlib.suppress(FlyballError):  # it has moved meanwhile, so it stays
                delete_branch(Path(repo), branch)
    for path in _ours(app):
        remove(path)
    for folder in (app.paths.config_file.parent, app.state_dir):
        with contextlib.suppress(OSError):  # something else lies in it, or it is not there
            folder.rmdir()
    say(f"Removed. To remove the program: {_how_to_remove()}")


def _ours(app: App) -> Iterator[Path]:
    """What Flyball has written, by name: FLYBALL_STATE_DIR may be a folder that holds other things too."""
    yield app.paths.config_file
    if app.dirs.journal.exists():
        yield from (path for pattern in OURS for path in app.state_dir.glob(pattern))


def _branches(repo: str) -> list[RunBranch]:
    with contextlib.suppress(FlyballError):
        return run_branches(Path(repo))
    return []


def _consequences(
    app: App, total: int, repos: list[str], branches: list[tuple[str, RunBranch]]
) -> Iterator[str]:
    """What stays, a line for each repository, and then what is lost."""
    for repo in repos:
        kept = [branch.name for name, branch in branches if name == repo and not branch.merged]
        parts = [f"{FOLDER}/ with its settings"] if (Path(repo) / FOLDER).is_dir() else []
        if kept:
            parts.append(f"{_branch_count(len(kept), '')} not merged: {first_few(kept, 3)}")
        if parts:
            yield f"Stays in {repo}: {' and '.join(parts)}"
    yield "To be removed:"
    yield f"  {app.state_dir}: journal, certificates, keys and runs, {size(total)}"
    unended = sum(row.status != "ended" for row in app.journal.rows(parent=""))
    if unended:
        asking = len(app.journal.rows(open_question=True))
        questions = f", {plural(asking, 'open question')}" if asking else ""
        yield f"  {plural(unended, 'run')} not ended yet{questions}: they cannot be continued afterwards"
    if app.paths.config_file.exists():
        yield f"  {app.paths.config_file}: your settings"
    merged = sum(branch.merged for _, branch in branches)
    if merged:
        yield f"  {_branch_count(merged, 'merged ')}"


def _branch_count(count: int, kind: str) -> str:
    return f"{count} {kind}flyball/ branch{'' if count == 1 else 'es'}"


def _how_to_remove() -> str:
    place = Path(sys.prefix)
    if "uv" in place.parts and "tools" in place.parts:
        return "uv tool uninstall flyball"
    if "pipx" in place.parts:
        return "pipx uninstall flyball"
    return f"{sys.executable} -m pip uninstall flyball"
