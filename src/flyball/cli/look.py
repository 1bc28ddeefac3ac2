"""Commands that look and touch nothing: ls, show, why, log."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click
import msgspec

from flyball.agents import process
from flyball.cli.facts import facts, shown
from flyball.cli.follow import Tail, print_entry, until_stopped
from flyball.cli.runs import open_house, print_json, repository, root_of, undriven
from flyball.cli.runs import why as why_of
from flyball.cli.screen import is_terminal
from flyball.core import events as e
from flyball.core.durations import elapsed
from flyball.core.stops import dollars
from flyball.journal import Entry, Row
from flyball.runtime.app import App
from flyball.views import run_view
from flyball.views.text import clean, columns, day_and_clock, iso, one_line
from flyball.views.timeline import Teller

COLOURS = {"good": "green", "bad": "red", "warn": "yellow", "dim": "bright_black"}
HEADERS = ("RUN", "MACHINE", "STATE", "STATUS", "TURNS", "COST", "AGE", "TASK")
LIST_MOST = 100


# ---- ls --------------------------------------------------------------------------------------------------


@click.command(
    epilog="""\b
Examples:
  flyball ls
  flyball ls --all --status waiting
  flyball ls --json | jq '.[] | select(.status == "blocked") | .run'"""
)
@click.option("--all", "everywhere", is_flag=True, help="Runs of all repositories, not only of this one.")
@click.option("--children", is_flag=True, help="Also the runs below others.")
@click.option("--status", default=None, metavar="STATUS", help="running, waiting, paused, blocked or ended.")
@click.option("--limit", default=LIST_MOST, show_default=True, metavar="N", help="At most so many.")
@click.option("--json", "as_json", is_flag=True, help="Print a list of objects.")
def ls(everywhere: bool, children: bool, status: str | None, limit: int, as_json: bool) -> None:
    """List the runs of this repository, newest first (outside of one: of all repositories)."""
    with open_house() as app:
        repo = "" if everywhere else repository(Path.cwd())
        found = app.journal.rows(
            repo=repo or None, status=status, parent=None if children else "", limit=limit
        )
        if as_json:
            print_json([_listed(app, row) for row in found])
        elif not found:
            where = f"in {repo}" if repo else "yet"
            click.echo(f'There is no run {where}. Start one: flyball run "Fix the failing test".')
        else:
            _print_table(app, found)


def _listed(app: App, row: Row) -> dict[str, Any]:
    told = msgspec.to_builtins(row)
    told.update(
        cost_usd=row.cost_uusd / 1_000_000,
        created=iso(row.created_at),
        updated=iso(row.updated_at),
        driven=app.driven(row.run),
    )
    return told


def _print_table(app: App, rows: list[Row]) -> None:
    now = time.time_ns() // 1000
    lines = columns(HEADERS, [_cells(app, row, now) for row in rows])
    width = shutil.get_terminal_size().columns if is_terminal() else 0
    for number, line in enumerate(lines):
        clipped = line if not width or len(line) <= width else line[: width - 1] + "…"
        click.echo(click.style(clipped, dim=True) if number == 0 else _coloured(clipped, rows[number - 1]))


def _cells(app: App, row: Row, now: int) -> tuple[str, ...]:
    below = "  " if row.parent else ""
    age = elapsed(now - row.created_at)
    return (
        *(below + row.run, row.machine, row.state, _status(app, row)),
        *(str(row.turns), dollars(row.cost_uusd), age, one_line(row.task, 100)),
    )


def _status(app: App, row: Row) -> str:
    if row.status == "running":
        return "running, not driven" if undriven(app, row) else "running"
    return row.code or row.status


def _coloured(line: str, row: Row) -> str:
    if row.status == "ended":
        return line if row.end == "success" else click.style(line, fg="red")
    return click.style(line, fg="green" if row.status == "running" else "yellow")


# ---- show and why ----------------------------------------------------------------------------------------


@click.command(
    epilog="""\b
Examples:
  flyball show 9apx47xk
  flyball show @last --json"""
)
@click.argument("run_name", metavar="RUN")
@click.option("--json", "as_json", is_flag=True, help="Print one object.")
def show(run_name: str, as_json: bool) -> None:
    """Show what there is to know of a run: where it is, its settings, turns, proofs, rulings and question."""
    with open_house() as app:
        found = app.read(app.find(run_name))
        if as_json:
            print_json(facts(app, found))
        else:
            click.echo("\n".join(shown(app, found)))


@click.command(
    epilog="""\b
Examples:
  flyball why 9apx47xk
  flyball why @last --json"""
)
@click.argument("run_name", metavar="RUN")
@click.option("--json", "as_json", is_flag=True, help="Print one object.")
def why(run_name: str, as_json: bool) -> None:
    """Say in three sentences why a run stopped: what happened, on what evidence, and what otherwise."""
    with open_house() as app:
        found = app.read(app.find(run_name))
        said = why_of(app, found)
        if not as_json:
            click.echo("\n".join(said))
            return
        told = run_view.summary(found)
        kept = ("run", "machine", "state", "status", "end", "stop_reason", "alo_code")
        print_json({**{name: told[name] for name in kept}, "why": said})


# ---- log -------------------------------------------------------------------------------------------------


@click.command(
    epilog="""\b
Examples:
  flyball log 9apx47xk
  flyball log @last --output
  flyball log @last --follow --json"""
)
@click.argument("run_name", metavar="RUN")
@click.option("--json", "as_json", is_flag=True, help="Print every event as a JSON line.")
@click.option("--follow", is_flag=True, help="Go on with what comes, until the run stops.")
@click.option("--output", is_flag=True, help="Also what agents and proofs wrote, act by act.")
def log(run_name: str, as_json: bool, follow: bool, output: bool) -> None:
    """Print what happened in a run and the runs below it, event by event."""
    with open_house() as app:
        root = root_of(app, app.find(run_name))
        only = "" if root == app.find(run_name) else app.find(run_name)
        tail, teller = Tail(app, root), Teller()

        def step() -> None:
            for entry in tail.news():
                if as_json and only in ("", entry.run):
                    print_entry(entry)
                elif not as_json:
                    _print_line(app, teller, entry, output, only)

        if follow:
            until_stopped(app, root, step, stay=True)
        else:
            step()


def _print_line(app: App, teller: Teller, entry: Entry, output: bool, only: str) -> None:
    event = e.decode(entry.body)
    line = teller.line(entry.run, event)
    if only not in ("", entry.run):
        return
    head = click.style(f"{day_and_clock(line.at)}  ", dim=True) + click.style(
        f"{line.where:<16}  ", fg="cyan"
    )
    click.echo(head + click.style(line.text, fg=COLOURS.get(line.tone)))
    if output and isinstance(event, e.ActFinished | e.ActInterrupted):
        for text in outputs(app, event.key):
            click.echo(text)


def outputs(app: App, key: str) -> Iterable[str]:
    """What the processes of an act wrote, indented and harmless."""
    from flyball.guard.secrets import redact

    folder = app.dirs.act(key)
    places = [folder, *sorted(path for path in folder.glob("*") if path.is_dir())]
    for place in places:
        name = "" if place == folder else f"{place.name}/"
        for stream, data in (("out", process.read_out(place)), ("err", process.read_err(place))):
            for text in clean(redact(data.decode("utf-8", "replace"))).splitlines():
                yield f"    {name}{stream} | {text}"
