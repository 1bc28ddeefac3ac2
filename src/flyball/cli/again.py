"""A person's hand in a run: take it over and hand it back, roll it back, try it again, decide it again."""

from __future__ import annotations

import getpass
from pathlib import Path
from typing import Any, cast

import click
import msgspec
from msgspec.structs import replace

from flyball.cli.drive import attached
from flyball.cli.runs import open_house, print_json, root_of
from flyball.cli.screen import Screen, open_screen
from flyball.cli.session import Session
from flyball.config import load
from flyball.core import events as e
from flyball.core.letters import AnyLetter, Ask, HandBack, Rollback
from flyball.core.run import Run
from flyball.core.settings import Settings
from flyball.errors import UserError
from flyball.runtime.app import App
from flyball.runtime.start import RunRequest, launch
from flyball.views import run_view
from flyball.views.replay import Parting
from flyball.views.replay import replay as replayed
from flyball.workspace import Workspace

EXAMPLE = "\b\nExample:\n  "


def _own(app: App, name: str) -> Run:
    """The top-level run that is meant: it is the one that has a checkout."""
    return app.read(root_of(app, app.find(name)))


def _deliver(app: App, run: Run, letter: AnyLetter) -> Run | None:
    """Send a letter, and apply it here if nothing drives the run. None: it waits for whoever does.

    A run that was killed in the middle of an act is left to `flyball resume`: taking it up would continue it.
    """
    if app.send(run, letter) or app.driven(run.id) or run.act is not None:
        return None
    with Session(app, Screen(), stay=False) as session:
        return session.run_errands(run.id)


def _sent(app: App, run: Run) -> str:
    if app.driven(run.id):
        return "Sent to the running process."
    return f"Saved. Run {run.id} is not running; continue with `flyball resume {run.id}`."


@click.command(name="take-over", epilog=EXAMPLE + "flyball take-over @last")
@click.argument("run_name", metavar="RUN")
def take_over(run_name: str) -> None:
    """Work in a run's checkout yourself: it stops after this turn and waits until you hand it back."""
    with open_house() as app:
        run = _own(app, run_name)
        after = _deliver(app, run, Ask(what="take-over", who=getpass.getuser()))
        folder = app.dirs.run(run.id).checkout
        taken = after is not None and after.stop is not None and after.stop.code == "wait.take_over"
        if not taken:
            click.echo(f"{_sent(app, run)} It stops after this turn.")
        click.echo(f"Work in {folder}, then run `flyball hand-back {run.id}`.")


@click.command(name="hand-back", epilog=EXAMPLE + "flyball hand-back @last && flyball resume @last")
@click.argument("run_name", metavar="RUN")
def hand_back(run_name: str) -> None:
    """Give a run back: what you changed is journaled as yours, and the state's act is done again."""
    with open_house() as app:
        run = _own(app, run_name)
        app.send(run, HandBack(who=getpass.getuser()))
        click.echo(_sent(app, run))


@click.command(epilog=EXAMPLE + "flyball rollback @last --to 3")
@click.argument("run_name", metavar="RUN")
@click.option(
    "--to",
    "turn",
    type=click.IntRange(min=0),
    help="The turn to go back to (0: the base); the one before the last if not given.",
)
def rollback(run_name: str, turn: int | None) -> None:
    """Bring a run's files back to where they were after an earlier turn, ignored files included.

    The run must stand still (paused, waiting, blocked). An ended run is tried again with `flyball retry`.
    """
    with open_house() as app:
        run = _own(app, run_name)
        if run.status == "ended":
            raise UserError(f"Run {run.id} has ended; `flyball retry {run.id}` starts again from its tree.")
        number, tree = _point(app, run, turn)
        before = app.journal.head(run.id)[0]
        if _deliver(app, run, Rollback(turn=number, tree=tree, who=getpass.getuser())) is None:
            click.echo(_sent(app, run))
            return
        click.echo(f"The files of run {run.id} are as they were after turn {number}.")
        for ref in _kept(app, run, before):
            git = app.dirs.run(run.id).git
            click.echo(f"Your edits are kept as {ref}; see them with `git --git-dir={git} show {ref}`.")


def _kept(app: App, run: Run, after: int) -> list[str]:
    """The references under which a rollback kept what a person had edited."""
    events = (e.decode(entry.body) for entry in app.journal.read(run.id, after))
    results = (event.result for event in events if isinstance(event, e.ActFinished))
    return [result.kept for result in results if isinstance(result, e.Restored) and result.kept]


def _point(app: App, run: Run, turn: int | None) -> tuple[int, str]:
    work = Workspace.open(app.dirs.run(run.id).path)
    points = {0: work.base_tree, **{n: point.tree for n, point in work.turns().items()}}
    known = sorted(points)
    number = known[-2] if turn is None and len(known) > 1 else turn or 0
    if number not in points:
        raise UserError(
            f"Run {run.id} has no checkpoint of turn {number}. There are: {', '.join(map(str, known))}."
        )
    return number, points[number]


@click.command(epilog=EXAMPLE + "flyball retry @last --set limits.iterations=20")
@click.argument("run_name", metavar="RUN")
@click.option("--set", "sets", multiple=True, metavar="KEY=VALUE", help="Change a setting for the new run.")
@click.option(
    "--agent", "agents", multiple=True, metavar="X|ROLE=X", help="Another agent for all roles, or for one."
)
@click.option("--trust", "trusted", is_flag=True, help="Trust what the repository's files ask for.")
@click.option("--json", "as_json", is_flag=True, help="Print one summary object.")
@click.option("--wait", is_flag=True, help="Stay while a question is open, also in a pipe.")
def retry(
    run_name: str, sets: tuple[str, ...], agents: tuple[str, ...], trusted: bool, as_json: bool, wait: bool
) -> int:
    """Start a new run from an ended one's tree and session, with the same task and machine."""
    with open_house() as app:
        old = _own(app, run_name)
        if old.status != "ended":
            raise UserError(
                f"Run {old.id} has not ended ({old.status}); `flyball resume {old.id}` goes on with it."
            )
        named = agents or tuple(
            x if role == "default" else f"{role}={x}" for role, x in sorted(old.settings.agents.items())
        )
        request = RunRequest(
            task=old.began.task,
            repo=Path(old.began.repo),
            machine=old.machine.name,
            agents=named,
            sets=(*_proof_of(old, sets), *sets),
            trusted=trusted,
        )
        began, repo = launch(app, request)
        tree = old.todo.tree if old.todo else old.tree  # nobody approved the rest
        began = replace(began, tree=tree, retry_of=old.id, sessions=old.sessions)
        return attached(app, began, repo, open_screen(as_json), wait, as_json)


def _proof_of(old: Run, sets: tuple[str, ...]) -> tuple[str, ...]:
    """What was given on the command line of the run before is meant again, unless said otherwise."""
    if any(one.startswith("proof.commands") for one in sets):
        return ()
    return (
        (f"proof.commands={msgspec.json.encode(old.settings.proof).decode()}",) if old.settings.proof else ()
    )


@click.command(epilog=EXAMPLE + "flyball replay @last --set limits.fix=1")
@click.argument("run_name", metavar="RUN")
@click.option(
    "--set", "sets", multiple=True, metavar="KEY=VALUE", help="A setting under which to decide again."
)
@click.option("--json", "as_json", is_flag=True, help="Print one object.")
def replay(run_name: str, sets: tuple[str, ...], as_json: bool) -> int:
    """Make a run's decisions again under other limits, and show where they would have differed. Nothing is run."""
    with open_house() as app:
        run_id = app.find(run_name)
        events = [e.decode(entry.body) for entry in app.journal.read(run_id)]
        run = app.read(run_id)
        found = replayed(events, _changed(app, run, sets))
        if as_json:
            print_json(_facts(run, found.decisions, found.parting))
        else:
            for line in _words(run, found.decisions, found.parting):
                click.echo(line)
    return 0


def _changed(app: App, run: Run, sets: tuple[str, ...]) -> Settings:
    """The run's own settings, with what `--set` says over them."""
    plain: dict[str, Any] = msgspec.to_builtins(load(None, app.env, ()).settings(run.machine))
    wanted: dict[str, Any] = msgspec.to_builtins(load(None, app.env, sets).settings(run.machine))
    mine: dict[str, Any] = msgspec.to_builtins(run.settings)
    return msgspec.convert(_over(mine, plain, wanted), Settings)


def _over(mine: dict[str, Any], plain: dict[str, Any], wanted: dict[str, Any]) -> dict[str, Any]:
    result = dict(mine)
    for key, value in wanted.items():
        if value == plain.get(key):
            continue
        deep = isinstance(value, dict) and isinstance(mine.get(key, {}), dict)
        result[key] = (
            _over(mine.get(key, {}), plain.get(key, {}), cast("dict[str, Any]", value)) if deep else value
        )
    return result


def _facts(run: Run, alike: int, parting: Parting | None) -> dict[str, Any]:
    differs = None
    if parting:
        differs = {
            "turn": parting.turn,
            "state": parting.state,
            "was": _told(parting.was),
            "now": _told(parting.now),
        }
    return {"run": run.id, "alike": alike, "differs": differs}


def _words(run: Run, alike: int, parting: Parting | None) -> list[str]:
    if parting is None:
        return [f"All {alike} decisions of run {run.id} would have been the same."]
    return [
        f"{alike} decisions of run {run.id} would have been the same; then, after turn {parting.turn} in '{parting.state}':",
        f"  it was     {_told(parting.was)}",
        f"  would be   {_told(parting.now)}",
    ]


def _told(event: e.AnyEvent | None) -> str:
    match event:
        case e.Moved():
            return f"{event.source} → {event.target} ({event.outcome})"
        case e.Stopped():
            return f"{event.status}: {event.stop.code} ({run_view.says(event.stop.code)})"
        case e.Ended():
            return f"ended: {event.stop.code} ({run_view.says(event.stop.code)})"
        case e.Held():
            return f"'{event.outcome}' held for the {event.until}"
        case None:
            return "it goes on: another act"
        case _:
            return e.kind(event)
