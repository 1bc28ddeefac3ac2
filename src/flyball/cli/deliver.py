"""The result of a run: diff, verify, land."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

import click
from msgspec import Struct

from flyball.cli import (
    JSON,
    REPO,
    RUN,
    RUN_OR_LAST,
    examples,
    headline,
    open_app,
    print_json,
    repository_of,
    say,
    write_new,
)
from flyball.cli.drive import Session
from flyball.cli.screen import Screen
from flyball.cli.shown_diff import coloured
from flyball.domain import events as e
from flyball.domain.messages import Land
from flyball.errors import FlyballError, UserError, WorkspaceError
from flyball.evidence.verify import Finding, facts_of, lines_of, read, verify_file, verify_run
from flyball.reading.terminal import spelled_out
from flyball.runtime.app import App
from flyball.runtime.facts import asked_about, diff_of
from flyball.state.run import Run
from flyball.views.text import clean
from flyball.workspace import Repo, inspect_repo
from flyball.workspace.landing import is_ancestor, tip_of

EXIT = {"good": 0, "stale": 1, "bad": 1, "none": 1}


# ---- diff -----------------------------------------------------------------------------------------------


@click.command(epilog=examples("flyball diff @last", "flyball diff @last --stat"))
@RUN_OR_LAST
@click.option("--stat", is_flag=True, help="List the changed files only.")
@click.option("--color/--no-color", default=None, help="Colour (default: on a terminal).")
def diff(run_name: str, stat: bool, color: bool | None) -> None:
    """Show what a run changed, including a change you are asked about.

    Without RUN: the latest run of this repository.
    """
    with open_app() as app:
        run = app.read(app.find(run_name))
        changes = diff_of(app, run, stat)
    if asked_about(run):
        refused = run.question is not None and run.question.kind == "block"
        what = "that the guard refused and undid" if refused else "that you are asked about"
        say(f"This includes the change {what}.", err=True)
    if changes.redacted:
        take = "" if asked_about(run) else f" To take the change, use `flyball land {run.id}`."
        say(f"Secrets are redacted, so this is not a patch to apply.{take}", err=True)
    if not changes.text:
        say(f"Run {run.id} has not changed any files.", err=True)
    elif color or (color is None and sys.stdout.isatty() and not app.env.get("NO_COLOR")):
        for line in spelled_out(changes.text).split("\n"):
            click.echo(coloured(line), color=True)
    else:
        click.echo(changes.text, nl=False)


# ---- verify ---------------------------------------------------------------------------------------------


@click.command(epilog=examples("flyball verify @last", "flyball verify @last --export certificate.json"))
@click.argument("what", metavar="[RUN|FILE]", default="@last")
@click.option("--key", default="", help="The public key (hex) to trust for someone else's certificate.")
@click.option(
    "--export", type=click.Path(path_type=Path), metavar="FILE", help="Copy the certificate to this file."
)
@JSON
def verify(what: str, key: str, export: Path | None, as_json: bool) -> None:
    """Check the certificate of a run, offline.

    Exit codes: 0 good; 1 bad, stale or missing; 2 unreadable.
    """
    with open_app() as app:
        finding = _check(app, what, key)
        if export and finding.word != "none":
            write_new(export, read(Path(finding.file or app.dirs.run(finding.run).certificate)))
    if as_json:
        print_json(facts_of(finding))
    else:
        first, *rest = (clean(line) for line in lines_of(finding))
        click.echo(headline({"good": "good", "bad": "bad"}.get(finding.word, "warn"), first))
        for line in rest:
            say(line)
    sys.exit(EXIT[finding.word])


def _check(app: App, what: str, key: str) -> Finding:
    file = Path(what)
    if "/" in what or file.is_file():
        return verify_file(app, file, key, _here())
    return verify_run(app, app.find_known(what))


def _here() -> Path | None:
    with contextlib.suppress(FlyballError):
        return repository_of(Path.cwd())
    return None


# ---- land -----------------------------------------------------------------------------------------------


class Landing(Struct, frozen=True):
    """What `land` did. `already`: the branch had it before; `merged`: the branch had new commits."""

    run: str
    branch: str
    commit: str
    before: str
    already: bool = False
    merged: bool = False


@click.command(epilog=examples("flyball land @last", "flyball land @last --into main"))
@RUN
@click.option(
    "--into",
    "--onto",
    default="",
    metavar="BRANCH",
    help="The branch to merge into (default: the current one).",
)
@REPO
@JSON
def land(run_name: str, into: str, repo: Path, as_json: bool) -> None:
    """Merge a completed run into your branch.

    The branch is fast-forwarded. If it has moved since the run started, the two are merged in the run's checkout and
    checked, proved and certified again first.
    """
    with open_app() as app:
        run_id = app.find(run_name)
        _refuse_elsewhere(app.read(run_id), repo)
        finding = verify_run(app, run_id)
        _refuse_bad(finding)
        landing = _land(app, run_id, into)
    if as_json:
        print_json(landing)
    elif landing.already:
        say(f"Run {run_id} is already in '{landing.branch}'. Nothing changed.")
    else:
        merged = ", merged with newer commits and proved again" if landing.merged else ""
        say(
            f"Merged run {run_id} into '{landing.branch}': {landing.before[:12]} → {landing.commit[:12]}{merged}."
        )
        if finding.statement and not finding.statement.predicate.proven:
            say("This result is unproven: no test command was configured, so Flyball ran no tests.")


def _refuse_elsewhere(run: Run, folder: Path) -> None:
    """The branch of another repository is not moved from here by accident."""
    here, there = repository_of(folder), Path(run.began.repo)
    if here is None or here.resolve() != there.resolve():
        raise UserError(
            f"Run {run.id} belongs to {there}. Run this there, or with `flyball land {run.id} --repo {there}`."
        )


def _refuse_bad(finding: Finding) -> None:
    """Only what was certified is merged. The landing itself refuses a run that did not succeed."""
    if finding.word == "bad":
        raise WorkspaceError(
            f"Run {finding.run} was not merged: {finding.reason} See `flyball verify {finding.run}`."
        )


def _land(app: App, run_id: str, into: str) -> Landing:
    """Order the landing and perform it here, unless another process drives the run. One cut off before is completed."""
    run = app.read(run_id)
    if run.status != "ended":
        raise UserError(f"Run {run_id} has not ended ({run.status}), so there is no result to merge yet.")
    repo = inspect_repo(Path(run.began.repo))
    branch = into or repo.branch
    if not branch:
        raise UserError(
            f"{repo.root} has no branch checked out. Check one out, or name it with --into BRANCH."
        )
    before, seq = tip_of(repo, branch), app.journal.head(run_id)[0]
    pending = run.act is not None or run.landing is not None
    if pending:
        _run_errands(app, run_id)
    already = _is_in(app.read(run_id), repo, branch)
    if not already:
        app.send(app.read(run_id), Land(branch=branch, who=app.env.get("USER", "")))
        _run_errands(app, run_id)
    after = app.read(run_id)
    if not _is_in(after, repo, branch):
        raise WorkspaceError(_why_not(app, run_id, seq))
    merged = _commit_of(run) != _commit_of(after)
    return Landing(run_id, branch, after.checkout.landings[branch], before, already and not pending, merged)


def _commit_of(run: Run) -> str:
    return run.checkout.commit.commit if run.checkout.commit else ""


def _is_in(run: Run, repo: Repo, branch: str) -> bool:
    """Whether the branch has the run's commit, and the journal says so."""
    tip, commit = tip_of(repo, branch), run.checkout.commit
    return (
        commit is not None
        and bool(run.checkout.landings.get(branch) and tip)
        and is_ancestor(repo, commit.commit, tip)
    )


def _run_errands(app: App, run_id: str) -> None:
    if app.driven(run_id):
        raise UserError(
            f"Another process is working on run {run_id}. Wait until it is done: `flyball watch {run_id}`."
        )
    with Session(app, Screen(), stay=False) as session:
        session.run_errands(run_id)


def _why_not(app: App, run_id: str, seq: int) -> str:
    """Why the merge failed: the last reason in the journal since then."""
    reason = f"Run {run_id} was not merged. See `flyball log {run_id}`."
    for entry in app.journal.read(run_id, seq):
        match e.decode(entry.body):
            case e.ActFinished(result=e.CommitEnded() as result) if result.reason:
                reason = result.reason
            case e.ActInterrupted() as cut:
                reason = (
                    f"Landing run {run_id} was interrupted ({cut.reason}). Run `flyball land {run_id}` again."
                )
            case e.LetterRefused() as event:
                reason = event.reason
            case _:
                pass
    return reason
