"""Drives a run like `flyball run` or `flyball land`, but kills its own process -9 just before or just after its Nth append."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from flyball.domain.messages import Land
from flyball.journal import Entry, Write
from flyball.journal.database import Driver
from flyball.journal.sqlite import SqliteJournal
from flyball.runtime.app import App
from flyball.runtime.start import RunRequest, launch


class Deadly(SqliteJournal):
    when, left = "", 0

    def append(self, writes: Sequence[Write]) -> list[Entry]:
        self.left -= 1
        if self.left == 0 and self.when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        entries = super().append(writes)
        if self.left == 0 and self.when == "after":
            os.kill(os.getpid(), signal.SIGKILL)
        return entries


def main() -> None:
    when, at, repo, agent, machine, *sets = sys.argv[1:]
    app = App()
    app.state_dir.mkdir(parents=True, exist_ok=True)
    journal = Deadly(app.state_dir / "journal.db")
    journal.when, journal.left = when, int(at)
    app._journal = journal
    driver = Driver(app.state_dir)
    supervisor = app.supervisor(driver)
    if machine == "land":
        run = app.read(app.find("@last"))
        app.send(run, Land(branch="main"))
        supervisor.run_errands(run.id)
        return
    if app.journal.rows():
        run = supervisor.adopt(app.find("@last"))
    else:
        request = RunRequest(
            task="Make add() add", repo=Path(repo), machine=machine, agents=(agent,), sets=tuple(sets)
        )
        run = supervisor.begin(launch(app, request)[0])
    supervisor.drive(
        lambda: (
            supervisor.driven[run.id].run.status != "running" and supervisor.driven[run.id].run.until is None
        )
    )


if __name__ == "__main__":
    main()
