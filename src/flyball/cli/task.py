"""The backlog of `flyball up`: add, list, change and start tasks; triggers; hold and release."""

from __future__ import annotations

import getpass
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, cast

import click
import msgspec
from msgspec import Meta, Struct

from flyball.cli import (
    JSON,
    REPO,
    examples,
    open_app,
    print_json,
    print_table,
    require_repository,
    say,
    terminal_width,
)
from flyball.config.plugins import SOURCES, made
from flyball.domain.results import KINDS, ORDINARY, URGENT, Trigger
from flyball.domain.settings import rough
from flyball.errors import UserError
from flyball.journal.database import alive
from flyball.reading.checklist import items, unreadable
from flyball.runtime.app import App
from flyball.runtime.backlog import Ticket, circle, mailbox
from flyball.runtime.start import require_plan_file, task_text
from flyball.system import conditions, tasks
from flyball.system.task_sources import open_issues
from flyball.views.text import clean, decode_argument, fields, first_line, one_line, plural
from flyball.workspace import inspect_repo

PRIORITY = click.option(
    "--priority",
    type=click.IntRange(0, 100),
    default=None,
    help="0 to 100; 50 is ordinary, higher comes first.",
)
NOTHING = "none"
AFTER = click.option(
    "--after",
    multiple=True,
    metavar="NAME",
    help="Start only after this: a task (T1), a run, an issue or pull request (#12), or a gate (gate:NAME). Repeatable.",
)


@click.group(
    invoke_without_command=False,
    epilog=examples(
        'flyball task add "Fix the flaky login test" --priority 70',
        "flyball task import TODO.md",
        "flyball task ls",
    ),
)
def task() -> None:
    """Add, list, change and cancel the tasks of `flyball up`."""


def _require(app: App, root: Path, name: str) -> Ticket:
    """A task that waits."""
    ticket = app.backlog(root).get(name)
    if ticket is not None:
        return ticket
    active = next((one for one in tasks.active(app, root) if one.id == name), None)
    runs, became = tasks.runs_of(app, root, name), tasks.started(app, root).get(name, "")
    if active is not None:
        ask = active.lane.question if not active.interrupted else ""
        then = (
            f"`flyball answer {ask} drop` gives it up."
            if ask
            else f"`flyball pause {active.lane.run}` stops it and asks you."
        )
        raise UserError(f"Run {active.lane.run} works on {name} already. {then}")
    if runs and runs[-1].status != "ended":
        raise UserError(f"{name} has started as run {runs[-1].run}. `flyball cancel {runs[-1].run}` ends it.")
    if became or runs:
        raise UserError(
            f"{name} has ended ({became or runs[-1].end}). Add a new task with `flyball task add`."
        )
    raise UserError(f"No task '{name}' is waiting. `flyball task ls` lists all tasks.")


def _check_after(app: App, root: Path, name: str, after: tuple[str, ...]) -> None:
    tickets, started = app.backlog(root), tasks.started(app, root)
    for other in after:
        if other == name:
            raise UserError(f"Task {name} cannot wait for itself. Leave it out of --after.")
        wrong = "" if tickets.get(other) or other in started else conditions.fault(app, other)
        if wrong:
            raise UserError(wrong)
    way = circle(tickets, name, after)
    if way:
        raise UserError(f"These tasks would wait for each other forever: {' → '.join(way)}. Change --after.")


@task.command(
    epilog=examples(
        'flyball task add "Fix the flaky login test" --priority 70', "flyball task add @task.md --later"
    )
)
@click.argument("text", metavar="TEXT")
@PRIORITY
@AFTER
@click.option("--later", is_flag=True, help="Do not start it before `flyball task start`.")
@click.option("--plan", "plan_file", metavar="FILE", help="A plan file in the repository to carry out.")
@REPO
@JSON
def add(
    text: str,
    priority: int | None,
    after: tuple[str, ...],
    later: bool,
    plan_file: str | None,
    repo: Path,
    as_json: bool,
) -> None:
    """Add a task. TEXT says what to do; @FILE reads it from a file."""
    root = require_repository(repo)
    words = task_text(decode_argument(text), Path.cwd())
    if plan_file:
        require_plan_file(inspect_repo(root), plan_file)
    with open_app() as app:
        app.require_person("task add")
        _check_after(app, root, "the new one", after)
        trigger = Trigger(
            kind="task",
            text=words,
            priority=ORDINARY if priority is None else priority,
            after=after,
            later=later,
            plan=plan_file or "",
        )
        name = app.leave(root, trigger, getpass.getuser())
        _say(app, root, {"task": name}, f"{name} added.", as_json)


def _say(app: App, root: Path, facts: dict[str, Any], text: str, as_json: bool) -> None:
    if as_json:
        print_json(facts)
        return
    runs = alive(app.state_dir, app.journal.holder(mailbox(root)))
    say(text if runs else f"{text} `flyball up` is not running; start it to work on the tasks.")


@task.command(
    "import",
    epilog=examples("flyball task import TODO.md"),
)
@click.argument("source", metavar="FILE|github:OWNER/NAME|PLUGIN:TEXT")
@click.option("--label", default="flyball", help="Only GitHub issues with this label (flyball).")
@REPO
@JSON
def import_(source: str, label: str, repo: Path, as_json: bool) -> None:
    """Import tasks from a check-list, JSON or GitHub issues.

    A check-list gives its open items. JSON is a list of texts, or of objects with text, priority (0 to 100) and later.
    GitHub gives the open issues with the label, and needs GITHUB_TOKEN. A plug-in gives tasks of its own.
    """
    root = require_repository(repo)
    with open_app() as app:
        app.require_person("task import")
        triggers = _tasks_of(app, root, source, label)
        names = {*tasks.started(app, root)} | {one.id for one in app.backlog(root).tickets}
        there = tasks.imported_texts(app, root) | names
        new = [trigger for trigger in triggers if not {trigger.text, trigger.ticket} & there]
        names = [app.leave(root, trigger, getpass.getuser()) for trigger in new]
        old = len(triggers) - len(new)
        again = f" {old} {'was' if old == 1 else 'were'} there already." if old else ""
        _say(app, root, {"tasks": names}, f"{plural(len(names), 'task')} added.{again}", as_json)


def _tasks_of(app: App, root: Path, source: str, label: str) -> list[Trigger]:
    slug = source.removeprefix("github:")
    if slug != source:
        return open_issues(slug, label, app.env)
    if ":" not in source or Path(source).exists():
        return [*_read_tasks(root, Path(source))]
    plugin = made(source, SOURCES)
    if plugin is None:
        raise UserError(
            f"'{source}' is neither a file nor a plug-in. Write FILE, github:OWNER/NAME or PLUGIN:TEXT."
        )
    try:
        texts = [text.strip() for text in plugin()]
    except Exception as problem:
        raise UserError(f"The plug-in of '{source}' failed: {type(problem).__name__}: {problem}.") from None
    return [Trigger(kind="task", text=clean(text)) for text in texts if text]


def _read_tasks(root: Path, file: Path) -> Iterator[Trigger]:
    try:
        text = file.read_text("utf-8")
    except OSError as problem:
        raise UserError(f"{file} cannot be read: {problem.strerror}. Check the file.") from None
    except UnicodeDecodeError as problem:
        line = problem.object.count(b"\n", 0, problem.start) + 1
        raise UserError(f"{file}, line {line}: this is not UTF-8 text. Check the file.") from None
    if file.suffix == ".json":
        yield from _from_json(file, text)
        return
    ticks, wrong = [*items(text)], unreadable(text)
    if wrong:
        raise UserError(f"{file}, line {wrong}: this is not a check-list item. Write `- [ ] what to do`.")
    if not ticks:
        raise UserError(f"{file} has no check-list items. Write each task as a line `- [ ] what to do`.")
    inside = file.resolve().is_relative_to(root)
    for words, ticked in ticks:
        where = (str(file.resolve().relative_to(root)), words) if inside else ()
        if not ticked:
            yield Trigger(kind="task", text=words, tick=where)


def _in_words(problem: str) -> str:
    """What is wrong, with the item by its number instead of a path such as `$[0].priority`."""
    message, _, path = problem.replace("`", "").partition(" - at ")
    place = re.fullmatch(r"\$\[(\d+)\]\.?(.*)", path)
    return f"item {int(place[1]) + 1}, {place[2] or 'text'}: {message.lower()}" if place else message.lower()


class _Item(Struct, forbid_unknown_fields=True):
    text: str
    priority: Annotated[int, Meta(ge=0, le=100)] = ORDINARY
    later: bool = False


def _from_json(file: Path, text: str) -> Iterator[Trigger]:
    try:
        rows = msgspec.convert(json.loads(text), list[str | _Item])
    except json.JSONDecodeError as problem:
        raise UserError(
            f"{file}, line {problem.lineno}: this is not JSON ({problem.msg}). Correct it."
        ) from None
    except (msgspec.ValidationError, RecursionError) as problem:
        raise UserError(
            f"{file}: {_in_words(str(problem))}. Write a list of texts, or of objects with text, priority (0 to 100) and later."
        ) from None
    for number, row in enumerate(rows, 1):
        item = _Item(row) if isinstance(row, str) else row
        if not item.text.strip():
            raise UserError(f"{file}: item {number} has no text. Describe the task.")
        yield Trigger(kind="task", text=item.text.strip(), priority=item.priority, later=item.later)


@task.command(epilog=examples("flyball task ls", "flyball task ls --failing --json"))
@click.option("--state", metavar="STATE", help="Only tasks in this state, such as pending or in_progress.")
@click.option("--stuck", is_flag=True, help="Only tasks that exceed the alert time of their state.")
@click.option("--escalated", is_flag=True, help="Only tasks that need a person's decision.")
@click.option("--failing", is_flag=True, help="Only tasks that failed twice or more in their current state.")
@click.option("--cto", is_flag=True, help="Only tasks that the cto role is working on.")
@REPO
@JSON
def ls(
    state: str | None, stuck: bool, escalated: bool, failing: bool, cto: bool, repo: Path, as_json: bool
) -> None:
    """List waiting and started tasks."""
    root = require_repository(repo)
    if state is not None and (wrong := tasks.state_fault(state)):
        raise UserError(wrong)
    narrowed = any((state, stuck, escalated, failing, cto))
    state = "human_escalation" if escalated else "cto_intervention" if cto else state
    with open_app() as app:
        listing = tasks.listing(app, root, state, stuck, failing)
        if as_json:
            print_json(listing.facts)
        elif narrowed and not listing:
            say("No task matches. `flyball task ls` lists all tasks.")
        else:
            _print_tasks(listing, app.backlog(root).held, app.clock.now())


def _print_tasks(listing: tasks.Listing, held: bool, now: int) -> None:
    if held:
        say("On hold: no task starts until `flyball release`.")
    if not listing:
        say('No tasks. Add one with `flyball task add "Describe the task"`.')
        return
    lines = [("TASK", "RUN", "STATE", "SINCE", "WHAT")]
    for one in listing.waiting:
        note = (
            "later"
            if one.trigger.later
            else f"after {', '.join(one.trigger.after)}"
            if one.trigger.after
            else ""
        )
        what = one_line(one.trigger.text, 80) + (f" ({note})" if note else "")
        lines.append((one.id, "", "waiting", rough(now - one.at), what))
    for one in listing.active:
        what = first_line(one.trigger.text, 80)
        lines.append((one.id, one.lane.run, one.state, rough(now - one.lane.entered_at), what))
    for row in listing.started:
        state = row.state if row.status != "ended" else row.end
        what = first_line(row.task, 80)
        lines.append((row.ticket, row.run, state, rough(now - row.entered_at), what))
    print_table(lines)


@task.command(epilog=examples("flyball task show T1"))
@click.argument("name", metavar="T1")
@REPO
@JSON
def show(name: str, repo: Path, as_json: bool) -> None:
    """Show a task and, once it has started, its runs: one for each step of its plan."""
    root = require_repository(repo)
    with open_app() as app:
        became, rows = tasks.started(app, root).get(name), tasks.runs_of(app, root, name)
        if became or rows:
            runs = [tasks.facts_of_task(row) for row in rows]
            active = next((one for one in tasks.active(app, root) if one.id == name), None)
            about = tasks.facts_of_active(active) if active else {"task": name, "state": became or "active"}
            facts = {**about, "runs": runs}
        else:
            facts = tasks.facts_of_ticket(_require(app, root, name))
        if as_json:
            print_json(facts)
            return
        for line in fields(_shown(facts), terminal_width()):
            click.echo(line)


def _shown(facts: dict[str, Any]) -> list[tuple[str, str]]:
    runs = cast("list[dict[str, Any]]", facts.pop("runs", []))
    rows = [(key, _plain(value)) for key, value in facts.items() if value not in ([], False, "")]
    for number, one in enumerate(runs):
        what = first_line(one["text"], 80)
        text = f"{one['run']}  {one['state']}, {one['end'] or one['status']}: {what}"
        rows.append(("" if number else "runs", text))
    return [*rows, *(("details", f"flyball show {one['run']}") for one in runs[-1:])]


def _plain(value: Any) -> str:
    return ", ".join(map(str, cast("list[Any]", value))) if isinstance(value, list) else str(value)


@task.command(epilog=examples("flyball task edit T1 --priority 90"))
@click.argument("name", metavar="T1")
@click.option("--text", help="What to do.")
@PRIORITY
@AFTER
@REPO
def edit(name: str, text: str | None, priority: int | None, after: tuple[str, ...], repo: Path) -> None:
    """Change a waiting task. `--after none` lets it wait for nothing."""
    if text is None and priority is None and not after:
        raise UserError("Say what to change: --text, --priority or --after.")
    root = require_repository(repo)
    with open_app() as app:
        app.require_person("task edit")
        before = _require(app, root, name).trigger
        waits = () if after == (NOTHING,) else after or before.after
        _check_after(app, root, name, waits)
        words = task_text(decode_argument(text), Path.cwd()) if text is not None else before.text
        level = before.priority if priority is None else priority
        trigger = Trigger(kind="edit", ticket=name, text=words, priority=level, after=waits)
        app.leave(root, trigger, getpass.getuser())
        say(f"{name} changed.")


@task.command(epilog=examples("flyball task start T1"))
@click.argument("name", metavar="T1")
@REPO
def start(name: str, repo: Path) -> None:
    """Start a task that was added with --later."""
    _about(name, repo, "start", "may start now")


@task.command(epilog=examples("flyball task cancel T1"))
@click.argument("name", metavar="T1")
@REPO
def cancel(name: str, repo: Path) -> None:
    """Remove a task from the backlog.

    `flyball cancel RUN` ends one that was started.
    """
    _about(name, repo, "cancel", "cancelled")


def _about(name: str, repo: Path, kind: str, says: str) -> None:
    root = require_repository(repo)
    with open_app() as app:
        app.require_person(f"task {kind}")
        ticket = _require(app, root, name)
        app.leave(root, Trigger(kind=kind, ticket=name, text=ticket.trigger.text), getpass.getuser())
        say(f"{name} {says}.")


# ---- triggers --------------------------------------------------------------------------------------------


@click.command(epilog=examples('flyball trigger ci --text "The nightly build fails in test_login"'))
@click.argument("kind", type=click.Choice(KINDS))
@click.option("--text", required=True, help="What happened, and what to do.")
@PRIORITY
@REPO
@JSON
def trigger(kind: str, text: str, priority: int | None, repo: Path, as_json: bool) -> None:
    """Tell `flyball up` that something needs work.

    Urgent kinds (security, ci, cost, performance) interrupt what is being done.
    """
    root = require_repository(repo)
    with open_app() as app:
        app.require_person("trigger")
        level = URGENT.get(kind, ORDINARY) if priority is None else priority
        words = task_text(decode_argument(text), Path.cwd())
        name = app.leave(root, Trigger(kind=kind, text=words, priority=level), getpass.getuser())
        _say(app, root, {"task": name, "priority": level}, f"{name} added with priority {level}.", as_json)


WHAT = click.argument("gate", metavar="[gate:NAME]", default="")


@click.command(epilog=examples("flyball hold", "flyball hold gate:release-2"))
@WHAT
@REPO
def hold(gate: str, repo: Path) -> None:
    """Start no more tasks until `flyball release`.

    Tasks that have started continue. With a gate, only tasks that were added with `--after gate:NAME` wait.
    """
    _tell("hold", gate, repo)
    say(f"{gate} is closed." if gate else "On hold: no task starts until `flyball release`.")


@click.command(epilog=examples("flyball release", "flyball release gate:release-2"))
@WHAT
@REPO
def release(gate: str, repo: Path) -> None:
    """Start tasks again after `flyball hold`, or open a gate."""
    _tell("release", gate, repo)
    say(f"{gate} is open: tasks that wait for it may start." if gate else "Released: tasks start again.")


def _tell(word: str, gate: str, repo: Path) -> None:
    root = require_repository(repo)
    if gate and not conditions.NAMED_GATE.fullmatch(gate):
        raise UserError(f"'{gate}' is not a gate. Write gate:NAME.")
    with open_app() as app:
        app.require_person(word)
        app.leave(root, Trigger(kind=word, text=word, ticket=gate), getpass.getuser())
