"""A hundred runs that wait, half for a trigger and half for an answer. It sleeps until it is killed.

`python -m bench.idle_driver` drives them by a supervisor; with `up REPO` they are the lanes of `flyball up` there.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from msgspec.structs import replace

from bench.yard import began
from flyball.cli.drive import Session
from flyball.cli.screen import open_screen
from flyball.journal.database import Driver
from flyball.runtime.app import App
from flyball.runtime.start import RunRequest
from flyball.runtime.supervisor import Supervisor
from flyball.system.lanes import OBJECTIVE, Lanes

RUNS = 100


def main(words: list[str]) -> None:
    app = App()
    app.state_dir.mkdir(parents=True, exist_ok=True)
    match words:
        case ["up", repo]:
            _up(app, Path(repo))
        case ["lanes", repo]:
            supervisor = _waiting(app, repo)
            supervisor.drive(lambda: True)
            supervisor.close()
            app.close()
            os.execv(sys.executable, [sys.executable, "-m", "bench.idle_driver", "up", repo])
        case _:
            said: list[bool] = []
            _waiting(app, "").drive(lambda: bool(_ready(said)))


def _waiting(app: App, repo: str) -> Supervisor:
    supervisor = app.supervisor(Driver(app.state_dir))
    for number in range(RUNS):
        start = "WAITING_FOR_HUMAN" if number % 2 else "IDLE"
        supervisor.begin(replace(began(f"r{number}", "cto"), start=start, repo=repo))
    return supervisor


def _up(app: App, repo: Path) -> None:
    """As `flyball up` does it."""
    said: list[bool] = []
    with Session(app, open_screen(False), stay=True) as session:
        lanes = Lanes(app, session.supervisor, _request(repo))
        session.standing = True
        lanes.open()
        lanes.outdated.clear()  # they began with other settings, and are to stay
        assert len(session.roots) == RUNS
        session.drive(lambda: lanes.feed() or bool(_ready(said)), lanes.until)


def _request(repo: Path) -> RunRequest:
    return RunRequest(task=OBJECTIVE, repo=repo, machine="cto", agents=("command:true",))


def _ready(said: list[bool]) -> None:
    if not said:
        said.append(True)
        print("ready", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
