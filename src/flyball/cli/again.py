"""Take a run over and hand it back, roll it back, retry it, replay its decisions."""

from __future__ import annotations

import getpass
from pathlib import Path
from typing import Any, cast

import click
import msgspec
from msgspec.structs import replace

from flyball.cli import JSON, RUN, SET, TRUST, WAIT, examples, open_app, print_json, say
from flyball.cli.drive import Session, run_here
from flyball.cli.screen import Screen, open_screen
from flyball.config.load import load
from flyball.domain import events as e
from flyball.domain.messages import AnyMessage, Ask, HandBack, Rollback
from flyball.domain.settings import Settings
from flyball.errors import UserError
from flyball.journal.records import root_of
from flyball.runtime.app import App
from flyball.runtime.start import RunRequest, launch
from flyball.state.run import Run
from flyball.views.reasons import happened
from flyball.views.replay import Difference, Replay, replay as decide_again
from flyball.workspace import Workspace


def _top_level(app: App, name: str) -> Run:
    """The top-level run that is meant: the one with the checkout."""
    return app.read(root_of(app, app.find(name)))


def _deliver(app: App, run: Run, message: AnyMessage) -> Run | None:
    """Send a message, and apply it here if no process runs the run. None: it is left for the one that does.

    A run that was killed in the middle of an act is left to `flyball resume`: taking it up would continue it.
    """
    if app.send(run, message) or app.driven(run.id) or run.act is not None:
        return None
    with Session(app, Screen(), stay=False) as session:
        return session.run_errands(run.id)


def _sent(app: App, run: Run) -> str:
    if app.driven(run.id):
        return "Sent to the running process."
    return f"Saved. Run {run.id} is not running; continue with `flyball resume {run.id}`."


@click.command(name="take-over", epilog=examples("flyball take-over @last"))
@RUN
def take_over(run_name: str) -> None:
    """Pause a run and work in its checkout yourself."""
    with open_app() as app:
        run = _top_level(app, run_name)
        after = _deliver(app, run, Ask(what="take-over", who=getpass.getuser()))
        folder = app.dirs.run(run.id).checkout
        paused = after is not None and after.stop is not None and after.stop.code == "wait.take_over"
        if run.id != app.find(run_name):
            say(f"Run {app.find(run_name)} is part of run {run.id} and works in its checkout.")
        if paused:
            say(f"Run {run.id} is paused.")
        elif app.driven(run.id):
            say(f"Run {run.id} pauses after this turn. Wait for that: `flyball watch {run.id}`.")
        else:
            say(
                f"Run {run.id} was cut off in the middle of a turn. First run `flyball resume {run.id}`: it pauses then."
            )
        say(
            f"{'Work' if paused else 'Then work'} in {folder}. Give it back with `flyball hand-back {run.id}`."
        )


@click.command(name="hand-back", epilog=examples("flyball hand-back @last && flyball resume @last"))
@RUN
def hand_back(run_name: str) -> None:
    """Give a run back after `take-over`. Your changes are kept as yours."""
    with open_app() as app:
        run = _top_level(app, run_name)
        app.send(run, HandBack(who=getpass.getuser()))
        driven = app.driven(run.id)
        say(
            "Sent to the running process."
            if driven
            else f"Handed back. Continue with `flyball resume {run.id}`."
        )


@click.command(epilog=examples("flyball rollback @last --to 3"))
@RUN
@click.option(
    "--to",
    "turn",
    type=click.IntRange(min=0),
    help="The turn to go back to; 0 is the base commit. Default: one back.",
)
def rollback(run_name: str, turn: int | None) -> None:
    """Restore a run's files as they were after an earlier turn.

    Ignored files are restored too. The run must be paused, waiting or blocked; use `flyball retry` for one that has
    ended.
    """
    with open_app() as app:
        run = _top_level(app, run_name)
        if run.status == "ended":
            raise UserError(
                f"Run {run.id} has ended. Start a new run from its files with `flyball retry {run.id}`."
            )
        number, tree = _checkpoint(app, run, turn)
        before = app.journal.head(run.id)[0]
        if _deliver(app, run, Rollback(turn=number, tree=tree, who=getpass.getuser())) is None:
            say(_sent(app, run))
            return
        where = f"as they were after turn {number}" if number else "to the commit it started from"
        state = f"The run itself stays in '{run.state}'."
        say(f"Restored the files of run {run.id} {where}. {state} Continue with `flyball resume {run.id}`.")
        for ref in _kept(app, run, before):
            git = app.dirs.run(run.id).git
            say(f"Your edits are kept as {ref}; see them with `git --git-dir={git} show {ref}`.")


def _kept(app: App, run: Run, after: int) -> list[str]:
    """The references under which a rollback kept what a person had edited."""
    events = (e.decode(entry.body) for entry in app.journal.read(run.id, after))
    results = (event.result for event in events if isinstance(event, e.ActFinished))
    return [result.kept for result in results if isinstance(result, e.Restored) and result.kept]


def _checkpoint(app: App, run: Run, turn: int | None) -> tuple[int, str]:
    work = Workspace.open(app.dirs.run(run.id).path)
    trees = {0: work.base_tree, **{n: point.tree for n, point in work.turns().items()}}
    turns = sorted(trees)
    number = turns[-2] if turn is None and len(turns) > 1 else turn or 0
    if number not in trees:
        raise UserError(
            f"Run {run.id} has no checkpoint for turn {number}. Checkpoints: {', '.join(map(str, turns))}."
        )
    return number, trees[number]


@click.command(epilog=examples("flyball retry @last --set limits.iterations=20"))
@RUN
@SET
@click.option(
    "--agent", "agents", multiple=True, metavar="[ROLE=]X", help="Another agent, for all roles or one."
)
@TRUST
@JSON
@WAIT
def retry(
    run_name: str,
    sets: tuple[str, ...],
    agents: tuple[str, ...],
    trusted: bool,
    as_json: bool,
    wait: bool | None,
) -> int:
    """Start a new run from the files of one that has ended.

    Task, machine, settings and agent sessions are those of the old run.
    """
    with open_app() as app:
        old = _top_level(app, run_name)
        if old.status != "ended":
            raise UserError(
                f"Run {old.id} has not ended ({old.status}). Continue it with `flyball resume {old.id}`."
            )
        same = tuple(
            agent if role == "default" else f"{role}={agent}"
            for role, agent in sorted(old.settings.agents.items())
        )
        request = RunRequest(
            task=old.began.task,
            repo=Path(old.began.repo),
            machine=old.machine.name,
            agents=agents or same,
            sets=(*_proof_of(old, sets), *sets),
            trusted=trusted,
        )
        began, repo = launch(app, request)
        tree = old.restore.tree if old.restore else old.tree  # without a change that nobody approved
        began = replace(began, tree=tree, retry_of=old.id, sessions=old.talk.sessions)
        return run_here(app, began, repo, open_screen(as_json), wait, as_json)


def _proof_of(old: Run, sets: tuple[str, ...]) -> tuple[str, ...]:
    """The old run's proof commands, unless others are given."""
    if any(assignment.startswith("proof.commands") for assignment in sets):
        return ()
    return (
        (f"proof.commands={msgspec.json.encode(old.settings.proof).decode()}",) if old.settings.proof else ()
    )


@click.command(epilog=examples("flyball replay @last --set limits.fix=1"))
@RUN
@SET
@JSON
def replay(run_name: str, sets: tuple[str, ...], as_json: bool) -> int:
    """Show how a run's decisions would differ with other settings. Nothing is run."""
    with open_app() as app:
        run_id = app.find(run_name)
        events = [e.decode(entry.body) for entry in app.journal.read(run_id)]
        run = app.read(run_id)
        result = decide_again(events, _changed(app, run, sets))
        if as_json:
            print_json(_facts(run, result))
        else:
            say("\n".join(_as_text(run, result)))
    return 0


def _changed(app: App, run: Run, sets: tuple[str, ...]) -> Settings:
    """The run's settings with the `--set` values over them."""
    usual: dict[str, Any] = msgspec.to_builtins(load(None, app.env, ()).settings(run.machine))
    values: dict[str, Any] = msgspec.to_builtins(load(None, app.env, sets).settings(run.machine))
    own: dict[str, Any] = msgspec.to_builtins(run.settings)
    return msgspec.convert(_over(own, usual, values), Settings)


def _over(own: dict[str, Any], usual: dict[str, Any], values: dict[str, Any]) -> dict[str, Any]:
    result = dict(own)
    for key, value in values.items():
        if value == usual.get(key):
            continue
        deep = isinstance(value, dict) and isinstance(own.get(key, {}), dict)
        result[key] = (
            _over(own.get(key, {}), usual.get(key, {}), cast("dict[str, Any]", value)) if deep else value
        )
    return result


def _facts(run: Run, result: Replay) -> dict[str, Any]:
    difference = result.difference
    differs = difference and {
        "turn": difference.turn,
        "state": difference.state,
        "was": _decision(difference, difference.was),
        "now": _decision(difference, difference.now),
    }
    return {"run": run.id, "alike": result.same, "differs": differs}


def _as_text(run: Run, result: Replay) -> list[str]:
    difference = result.difference
    if difference is None:
        return [f"All {result.same} decisions of run {run.id} would be the same."]
    place = f"after turn {difference.turn} in '{difference.state}'"
    return [
        f"{result.same} decisions of run {run.id} would be the same. The next one, {place}, differs:",
        f"  recorded   {_decision(difference, difference.was)}",
        f"  replayed   {_decision(difference, difference.now)}",
    ]


def _decision(difference: Difference, event: e.AnyEvent | None) -> str:
    match event:
        case e.Moved():
            return f"{event.source} → {event.target} ({event.outcome})"
        case e.Stopped():
            return f"{event.status}: {event.stop.code} ({happened(event.stop, difference.state)})"
        case e.Ended():
            return f"ended: {event.stop.code} ({happened(event.stop, difference.state)})"
        case e.Held():
            return f"outcome '{event.outcome}' on hold: {event.until}"
        case None:
            return "the run continues"
        case _:
            return e.kind(event)
