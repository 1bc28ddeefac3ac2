"""`flyball up`: work through the backlog until it is stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import click

from flyball.cli import REPO, SET, TRUST, examples, open_app, require_repository, say, service
from flyball.cli.drive import Session
from flyball.cli.screen import open_screen
from flyball.errors import UserError
from flyball.journal.database import alive
from flyball.runtime.app import App
from flyball.runtime.backlog import mailbox
from flyball.runtime.start import RunRequest
from flyball.system.lanes import OBJECTIVE, Lanes
from flyball.views.text import plural

STARTS_WITHIN_S = 60


@click.command(
    epilog=examples(
        'flyball task add "Fix the flaky login test" && flyball up',
        "flyball up --detach",
        "flyball up --print-service systemd",
    )
)
@click.option(
    "--agent",
    "agents",
    multiple=True,
    metavar="[ROLE=]AGENT",
    help="Agent for one role, or for all. Repeatable.",
)
@click.option("--detach", is_flag=True, help="Run in the background.")
@click.option(
    "--print-service",
    "kind",
    type=click.Choice(service.KINDS),
    help="Print the file that runs it as a service, and run nothing.",
)
@SET
@TRUST
@REPO
def up(
    agents: tuple[str, ...], detach: bool, kind: str | None, sets: tuple[str, ...], trusted: bool, repo: Path
) -> int:
    """Work through this repository's tasks until you stop it.

    Each task is planned; risky or expensive plans wait for your approval (`flyball inbox`). Each step of a plan is a
    task run with its own checkout. Ctrl+C stops after the current turn; `flyball up` continues from there.
    """
    root = require_repository(repo)
    request = RunRequest(task=OBJECTIVE, repo=root, agents=agents, sets=sets, trusted=trusted, machine="cto")
    if kind:
        return _print_service(kind, request)
    if detach:
        return _detach(request)
    with open_app() as app, Session(app, open_screen(False), stay=True) as session:
        session.screen.sums_up = False
        lanes = Lanes(app, session.supervisor, request)
        session.standing = True
        lanes.open()
        for lane, names in lanes.outdated.items():
            if lanes.run(lane).plan.trigger is not None:
                changed = f"{', '.join(names)} changed since"
                say(f"Run {lane} finishes its task with the settings it began with ({changed}).")
        for driven in session.supervisor.driven.values():
            session.screen.add(driven.run)
        try:
            session.drive(lanes.feed, lanes.until)
        finally:
            lanes.close()
        open_questions = len(app.journal.rows(repo=str(root), open_question=True))
        waits = f" {plural(open_questions, 'question')} open: `flyball inbox`." if open_questions else ""
        say(f"Stopped.{waits} Continue with `flyball up`.")
        return 0


def _print_service(kind: str, request: RunRequest) -> int:
    with open_app() as app:
        log = app.state_dir / f"{mailbox(request.repo)}.log"
        click.echo(service.service(kind, request.repo, _words(request), app.env, log), nl=False)
        return 0


def _detach(request: RunRequest) -> int:
    root = request.repo
    with open_app() as app:
        log = app.state_dir / f"{mailbox(root)}.log"
        app.state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        argv = [sys.executable, "-P", "-m", "flyball", "up", *_words(request), "--repo", str(root)]
        child = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True, cwd=app.state_dir
        )
        os.close(out)
        begun = time.monotonic()
        while child.poll() is None and time.monotonic() - begun < STARTS_WITHIN_S:
            if _works(app, root, child.pid):
                say(f"Running in the background (log: {log}). `flyball down` stops it.")
                return 0
            time.sleep(0.05)
        last = log.read_text("utf-8", "replace").strip().splitlines()[-1:]
        raise UserError(f"It did not start: {last[0].removeprefix('flyball: ') if last else log}")


def _works(app: App, root: Path, pid: int) -> bool:
    """Whether this process has begun to drive a lane: it has done everything that can fail at its start."""
    lanes = [row for row in app.journal.rows(repo=str(root), machine="cto") if row.status != "ended"]
    drivers = [app.journal.holder(lane.run) for lane in lanes]
    return any(name.startswith(f"{pid}-") and alive(app.state_dir, name) for name in drivers)


def _words(request: RunRequest) -> list[str]:
    """The options of this very command, for another process."""
    agents = [word for agent in request.agents for word in ("--agent", agent)]
    sets = [word for one in request.sets for word in ("--set", one)]
    return [*agents, *sets, *(["--trust"] if request.trusted else [])]


@click.command(epilog=examples("flyball down"))
@REPO
def down(repo: Path) -> int:
    """Stop `flyball up` after the current turn.

    The next `flyball up` continues from there.
    """
    root = require_repository(repo)
    with open_app() as app:
        app.require_person("down")
        holder = app.journal.holder(mailbox(root))
        if not alive(app.state_dir, holder):
            raise UserError(f"`flyball up` is not running for {root}.")
        os.kill(int(holder.partition("-")[0]), signal.SIGINT)
        say("Stopping after the current turn.")
        return 0
