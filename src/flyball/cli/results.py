"""What a run leaves: `diff`, `verify`, `land`."""

from __future__ import annotations

import contextlib
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from flyball.cli.runs import open_house
from flyball.cli.where import EXAMPLE, print_json, root_of
from flyball.core.run import Run
from flyball.errors import FlyballError, UserError, WorkspaceError
from flyball.evidence.verify import Finding, Said, read, verify_file, verify_run
from flyball.runtime.app import App
from flyball.views.text import clean, one_line
from flyball.workspace import Workspace, inspect_repo

EXIT = {"good": 0, "stale": 1, "bad": 1, "none": 1}


# ---- diff -----------------------------------------------------------------------------------------------


@click.command(help=f"Show what a run changed, against its base.\n\n{EXAMPLE}flyball diff @last --stat")
@click.argument("run")
@click.option("--stat", is_flag=True, help="Only which files changed, and by how much.")
@click.option("--color/--no-color", default=None, help="Colour; on a terminal unless told otherwise.")
def diff(run: str, stat: bool, color: bool | None) -> None:
    with open_house() as app:
        found = app.read(app.find(run))
        told = diff_of(app, found, stat)
    if not told:
        click.echo(f"Run {found.id} has changed nothing.", err=True)
    elif color or (color is None and sys.stdout.isatty()):
        for line in clean(told).splitlines():
            click.echo(_coloured(line), color=True)
    else:
        click.echo(told, nl=False)


def diff_of(app: App, run: Run, stat: bool) -> str:
    tree = _shown_tree(run)
    if not run.base_tree or run.base_tree == tree:
        return ""
    try:
        work = Workspace.open(app.run_files().run_dir(run).path)
    except WorkspaceError:
        return _from_branch(run, tree, stat)
    return work.diff(run.base_tree, tree, stat=stat)


def _from_branch(run: Run, tree: str, stat: bool) -> str:
    """The run's own folder is gone: the user's repository has what was published."""
    repo = inspect_repo(Path(run.began.repo))
    shape = "--stat=100" if stat else "-p"
    options = ("-r", "-M", "--no-ext-diff", "--no-textconv", "--color=never", shape)
    return repo.git("diff-tree", *options, run.base_tree, tree).decode("utf-8", "replace")


def _shown_tree(run: Run) -> str:
    """With what a person is asked about, if there is such a thing; else what stands now."""
    if run.question and run.ruling and run.ruling.verdict != "allow" and run.ruling.tree:
        click.echo("This is with the change that you are asked about.", err=True)
        return run.ruling.tree
    return run.tree


HUES = (
    ("diff --git", "", True),
    ("+++", "", True),
    ("---", "", True),
    ("@@", "cyan", False),
    ("+", "green", False),
    ("-", "red", False),
)


def _coloured(line: str) -> str:
    for start, hue, bold in HUES:
        if line.startswith(start):
            return click.style(line, fg=hue or None, bold=bold or None)
    return line


# ---- verify ---------------------------------------------------------------------------------------------


@click.command(
    help=f"""Check a run's certificate, or a certificate file, offline.

    Exit code 0: good; 1: bad, stale, or there is none; 2: it cannot be read.

    {EXAMPLE}flyball verify @last --export certificate.json"""
)
@click.argument("what", metavar="RUN|FILE")
@click.option(
    "--key", default="", help="The public key (hex) that you trust, for a certificate of somebody else's."
)
@click.option("--export", type=click.Path(path_type=Path), help="Copy the certificate to this file.")
@click.option("--json", "as_json", is_flag=True, help="Print facts for programs.")
def verify(what: str, key: str, export: Path | None, as_json: bool) -> None:
    with open_house() as app:
        finding = _verified(app, what, key)
        if export and finding.word != "none":
            _export(Path(finding.file or app.dirs.run(finding.run).certificate), export)
    if as_json:
        print_json(_facts(finding))
    else:
        for line in _sentences(finding):
            click.echo(clean(line))
    sys.exit(EXIT[finding.word])


def _verified(app: App, what: str, key: str) -> Finding:
    file = Path(what)
    if "/" in what or file.is_file():
        return verify_file(app, file, key, _here())
    return verify_run(app, app.find_known(what))


def _here() -> Path | None:
    with contextlib.suppress(FlyballError):
        return root_of(Path.cwd())
    return None


def _export(source: Path, target: Path) -> None:
    data = read(source)
    try:
        with target.open("xb") as file:
            file.write(data)
    except FileExistsError:
        raise UserError(f"{target} is already there; choose another name.") from None
    except OSError as problem:
        raise UserError(f"{target} cannot be written: {problem.strerror}.") from None


def _facts(finding: Finding) -> dict[str, Any]:
    told = finding.statement
    return {
        "verdict": finding.word,
        "reason": finding.reason,
        "run": finding.run or None,
        "file": finding.file or None,
        "tree": told.tree if told else None,
        "commit": told.commit if told else None,
        "proven": told.predicate.proven if told else None,
        "key": finding.key or None,
        "ours": finding.ours,
        "says": told.predicate if told else None,
    }


def _sentences(finding: Finding) -> Iterator[str]:
    told = finding.statement
    unproven = finding.word == "good" and told and not told.predicate.proven
    yield f"{'good, but unproven' if unproven else finding.word}: {finding.reason}"
    if not told:
        return
    said = told.predicate
    yield f"It certifies commit {told.commit[:12]} (tree {told.tree[:12]}), made by run {said.run}."
    yield f"  task     {one_line(said.task, 80)}"
    yield from (f"  proof    {line}" for line in _proofs(said))
    yield f"  guard    {_ruled(said)}"
    yield f"  review   {said.review or 'none'}"
    yield f"  sandbox  {said.sandbox}"
    yield f"  signed   by {'your' if finding.ours else 'the'} key {finding.key[:16]}…"
    if finding.events:
        yield f"  journal  {finding.events} events, the chain is whole"
    yield f"  file     {finding.file}"


def _proofs(said: Said) -> Iterator[str]:
    if not said.proven:
        yield "unproven: no proof command was configured"
    for proof in said.proofs if said.proven else ():
        yield f"{proof.command}: exit {proof.exit}, log sha256 {proof.log[:16]}…"


def _ruled(said: Said) -> str:
    counted = Counter(str(ruling.get("verdict")) for ruling in said.rulings)
    verdicts = ", ".join(f"{count} × {verdict}" for verdict, count in counted.items())
    waived = f", {len(said.waived)} approved by a person" if said.waived else ""
    return (
        f"{verdicts or 'nothing to judge'} by policy '{said.policy.name}' ({said.policy.hash[:12]}){waived}"
    )


# ---- land -----------------------------------------------------------------------------------------------


@click.command(
    help=f"""Bring a finished run into your branch.

    By fast-forward; if the branch has moved on, the run is merged with it, proved and certified again first.

    {EXAMPLE}flyball land @last"""
)
@click.argument("run")
@click.option("--onto", default="", metavar="BRANCH", help="Another branch than the one checked out.")
@click.option("--json", "as_json", is_flag=True, help="Print facts for programs.")
def land(run: str, onto: str, as_json: bool) -> None:
    from flyball.runtime.landing import land_run

    with open_house() as app:
        run_id = app.find(run)
        _refuse_bad(verify_run(app, run_id))
        done = land_run(app, run_id, onto, app.env.get("USER", ""), lambda said: click.echo(said, err=True))
    if as_json:
        print_json(done)
    elif done.already:
        click.echo(f"Run {run_id} has already landed on '{done.branch}'; nothing was changed.")
    else:
        merged = ", merged with what was there and proved again" if done.merged else ""
        click.echo(
            f"Landed run {run_id} on '{done.branch}': {done.before[:12]} → {done.commit[:12]}{merged}."
        )


def _refuse_bad(finding: Finding) -> None:
    """What is landed is what was certified; a run without success is refused by the landing itself."""
    if finding.word == "bad":
        raise WorkspaceError(
            f"Run {finding.run} was not landed: {finding.reason} See `flyball verify {finding.run}`."
        )
