"""Commands that only read: ls, show, why, log."""

from __future__ import annotations

import textwrap
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from flyball.cli import (
    JSON,
    MARKS,
    RUN_OR_LAST,
    columns_of_terminal,
    examples,
    fitted,
    headline,
    is_fancy,
    is_terminal,
    open_records,
    paint,
    print_json,
    repository_of,
    say,
    terminal_width,
)
from flyball.domain.settings import rough
from flyball.errors import UserError
from flyball.runtime.listing import STATUSES, is_cost_known, row_facts, status_of, task_of, tone_of
from flyball.views.text import clock, cost, day_and_clock, fields, first_line, fitting

if TYPE_CHECKING:
    from flyball.cli.follow import Output
    from flyball.domain.events import Act
    from flyball.journal import Entry, Row
    from flyball.journal.records import Records
    from flyball.state.run import Run
    from flyball.views.run_view import Timeline
    from flyball.views.task_record import TaskEvents

HEADERS = ("RUN", "STATUS", "MACHINE", "STATE", "TURNS", "COST", "AGE", "TASK")
OPTIONAL = ("MACHINE", "TURNS", "COST", "STATE")  # left out, in this order, on a narrow terminal
LIST_LIMIT = 100


# ---- ls --------------------------------------------------------------------------------------------------


@click.command(
    epilog=examples(
        "flyball ls",
        "flyball ls --all --status waiting",
        "flyball ls --json | jq '.[] | select(.status == \"blocked\") | .run'",
    )
)
@click.option("--all", "everywhere", is_flag=True, help="List the runs of all repositories.")
@click.option("--children", is_flag=True, help="Include child runs.")
@click.option(
    "--status",
    type=click.Choice(STATUSES),
    metavar="STATUS",
    help="running, waiting, paused, blocked or ended.",
)
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=LIST_LIMIT,
    show_default=True,
    metavar="N",
    help="The number of runs.",
)
@JSON
def ls(everywhere: bool, children: bool, status: str | None, limit: int, as_json: bool) -> None:
    """List the runs of this repository, newest first."""
    with open_records() as records:
        repo = None if everywhere else repository_of(Path.cwd())
        rows = records.journal.rows(
            repo=str(repo) if repo else None, status=status, parent=None if children else "", limit=limit
        )
        if as_json:
            print_json([row_facts(records, row) for row in rows])
        elif rows:
            _print_rows(records, rows, with_repository=repo is None)
        elif status:
            say(f"No runs{f' in {repo}' if repo else ''} have the status '{status}'.")
        else:
            where = f" in {repo}" if repo else ""
            say(f'No runs{where} yet. Start one with: flyball run "Fix the failing test"')


def _print_rows(records: Records, rows: list[Row], with_repository: bool) -> None:
    now = time.time_ns() // 1000
    width = columns_of_terminal() if is_terminal() else 0
    names = _short({row.repo for row in rows})
    cells = [_cells(records, row, now) | {"REPOSITORY": names[row.repo]} for row in rows]
    headers = [*HEADERS[:1], *(["REPOSITORY"] if with_repository else []), *HEADERS[1:]]
    lines = fitting([headers, *([row[header] for header in headers] for row in cells)], OPTIONAL, width)
    for number, line in enumerate(lines):
        click.echo(click.style(line, dim=True) if number == 0 else _coloured(line, rows[number - 1]))


def _short(folders: set[str]) -> dict[str, str]:
    """Each folder by its name, with as many of those above as tell it from the others."""

    def end(folder: str, count: int) -> str:
        return "/".join(Path(folder).parts[-count:])

    def alone(folder: str, count: int) -> bool:
        return all(end(other, count) != end(folder, count) for other in folders - {folder})

    most = max((len(Path(folder).parts) for folder in folders), default=1)
    counts = {f: next((n for n in range(1, most) if alone(f, n)), most) for f in folders}
    return {folder: end(folder, count) for folder, count in counts.items()}


def _cells(records: Records, row: Row, now: int) -> dict[str, str]:
    mark = f"{MARKS[_tone(row)][0]} " if is_fancy() else ""
    return {
        "RUN": ("  " if row.parent else "") + row.run,
        "STATUS": mark + status_of(records, row),
        "MACHINE": row.machine,
        "STATE": row.state,
        "TURNS": str(row.turns),
        "COST": cost(row.cost_uusd, is_cost_known(records, row)),
        "AGE": rough(now - row.created_at),
        "TASK": first_line(task_of(records, row), 100),
    }


def _tone(row: Row) -> str:
    return tone_of(row.status, row.end, bool(row.question))


def _coloured(line: str, row: Row) -> str:
    """The status in its colour; the rest of the line is calm."""
    head, mark, rest = line.partition(MARKS[_tone(row)][0])
    status, space, tail = rest.partition("  ")
    return head + paint(_tone(row), mark + status) + space + tail if mark else line


# ---- show and why ----------------------------------------------------------------------------------------


@click.command(
    epilog=examples("flyball show 9apx47xk", "flyball show @last --json", "flyball show @last --prompt 2")
)
@RUN_OR_LAST
@click.option(
    "--prompt", "turn", type=int, default=None, metavar="TURN", help="Print what that turn was told."
)
@JSON
def show(run_name: str, turn: int | None, as_json: bool) -> None:
    """Show a run: its state, settings, result, proofs and question.

    Without RUN: the latest run of this repository.
    """
    from flyball.runtime.facts import facts

    with open_records() as records:
        run = records.read(records.find(run_name))
        if turn is not None:
            _print_prompts(records, run.id, turn, as_json)
        elif as_json:
            print_json(facts(records, run))
        else:
            first, *rest = _lines(records, run)
            tone = tone_of(run.status, run.end, run.question is not None)
            click.echo("\n".join((headline(tone, first), *map(fitted, rest))))


def _lines(records: Records, run: Run) -> list[str]:
    """`show` as text."""
    from flyball.cli.screen import question_lines
    from flyball.journal.records import asking
    from flyball.runtime.facts import facts, rows
    from flyball.views import reasons

    values, asker = facts(records, run), asking(records, run)
    happened, evidence, next_step = values["why"]
    story = [f"{reasons.used(run)}.", "", *question_lines(asker)] if asker else [evidence, "", next_step]
    return [happened, *story, "", *fields(rows(run, values), terminal_width())]


def _print_prompts(records: Records, run_id: str, turn: int, as_json: bool) -> None:
    """The prompt of a turn; of each attempt, where it was tried again."""
    from flyball.domain import events as e

    events = (e.decode(entry.body) for entry in records.journal.read(run_id))
    acts = [event.act for event in events if isinstance(event, e.ActStarted) and event.act.agent]
    prompts = [_prompt(records, act) for act in acts if act.turn == turn]
    if not prompts:
        last = max((act.turn for act in acts), default=0)
        raise UserError(
            f"Run {run_id} has no turn {turn}. Its turns: {f'1 to {last}' if last else 'none yet'}."
        )
    if as_json:
        print_json(prompts)
        return
    for facts in prompts:
        click.echo(headline("run", f"Turn {turn} ({facts['role']}) with {facts['agent']}"))
        click.echo(f"\n{facts['prompt']}" if facts["prompt"] else "It was pruned.")


def _prompt(records: Records, act: Act) -> dict[str, Any]:
    from flyball.guard.secrets import redact
    from flyball.system.packed_logs import act_files
    from flyball.views.text import clean

    text = clean(redact(act_files(records, act.key).get("prompt", b"").decode("utf-8", "replace")))
    return {"turn": act.turn, "role": act.role, "agent": act.agent, "prompt": text}


@click.command(epilog=examples("flyball why 9apx47xk", "flyball why @last --json"))
@RUN_OR_LAST
@JSON
def why(run_name: str, as_json: bool) -> None:
    """Say why a run stopped, with the evidence and what to do next.

    Without RUN: the latest run of this repository.
    """
    from flyball.runtime.facts import why as sentences_for
    from flyball.views.run_view import summary

    with open_records() as records:
        run = records.read(records.find(run_name))
        sentences = sentences_for(records, run)
        if as_json:
            values = summary(run)
            names = ("run", "machine", "state", "status", "end", "stop_reason", "alo_code")
            print_json({**{name: values[name] for name in names}, "why": sentences})
        else:
            first, *rest = sentences
            tone = tone_of(run.status, run.end, run.question is not None)
            click.echo("\n".join((headline(tone, first), *map(fitted, rest))))


# ---- log -------------------------------------------------------------------------------------------------


@click.command(
    epilog=examples(
        "flyball log 9apx47xk",
        "flyball log @last --output",
        "flyball log @last --follow --json",
        "flyball log @last --format events",
    )
)
@RUN_OR_LAST
@click.option("--json", "as_json", is_flag=True, help="Print every event as a JSON line.")
@click.option(
    "--format",
    "form",
    type=click.Choice(("text", "json", "events")),
    default="text",
    help="text, json (every event), or events (transitions, failures, warnings, agents and interventions of a task).",
)
@click.option("--follow", is_flag=True, help="Print new events until the run stops.")
@click.option("--output", is_flag=True, help="Include what agents and proof commands wrote.")
def log(run_name: str, as_json: bool, form: str, follow: bool, output: bool) -> None:
    """Print every event of a run and its child runs.

    Without RUN: the latest run of this repository.
    """
    from flyball.cli.follow import Output, Tail, print_entry, until_stopped
    from flyball.journal.records import root_of
    from flyball.views.run_view import Timeline
    from flyball.views.task_record import TaskEvents

    with open_records() as records:
        run_id = records.find(run_name)
        root = root_of(records, run_id)
        tail, timeline, only = Tail(records, root), Timeline(), run_id if run_id != root else ""
        form = "json" if as_json else form
        streams = Output(records) if output and form == "text" else None
        tasks: dict[str, TaskEvents] = {}

        def step() -> None:
            for entry in tail.news():
                if form == "events":
                    _print_task_events(tasks.setdefault(entry.run, TaskEvents()), entry, only)
                elif form == "json" and only in ("", entry.run):
                    print_entry(entry)
                elif form == "text":
                    _print_event(timeline, entry, streams, only)
            if follow and streams:
                members = [row.run for row in records.journal.rows(root=root)]
                for text in streams.news(records.read(member) for member in members if only in ("", member)):
                    click.echo(text)

        if follow:
            until_stopped(records, root, step, stay=True)
        else:
            step()


def _print_task_events(events: TaskEvents, entry: Entry, only: str) -> None:
    """In the form of seed 001, a JSON line each."""
    from flyball.domain.events import decode

    for event in events.of(decode(entry.body)):
        if only in ("", entry.run):
            click.echo(msgspec.json.encode(event))


def _print_event(timeline: Timeline, entry: Entry, streams: Output | None, only: str) -> None:
    from flyball.domain import events as e

    event = e.decode(entry.body)
    line = timeline.line(entry.run, event)
    if only not in ("", entry.run):
        return
    width = terminal_width()
    when, place = clock(line.at) if width else day_and_clock(line.at), f"{line.where:<{timeline.width}}"
    column = len(when) + len(place) + 4
    first, *more = textwrap.wrap(line.text, max(width - column, 30)) if width else [line.text]
    head = f"{click.style(when, dim=True)}  {click.style(place, fg='cyan')}  "
    click.echo(head + paint(line.tone, "\n".join((first, *(" " * column + part for part in more)))))
    if streams and isinstance(event, e.ActFinished | e.ActInterrupted):
        for text in streams.of(event.key, ended=True):
            click.echo(text)
