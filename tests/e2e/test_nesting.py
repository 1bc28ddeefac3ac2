"""Runs in runs have an end, and whoever drives them can always be reached."""

from __future__ import annotations

import os

from tests.e2e.helpers import Place

from flyball.journal.memory import MemoryJournal
from flyball.runtime.supervisor import Supervisor

NESTED = """
name  = "{name}"
start = "first"

[states]
first = {{ do = "run:{below}", on = {{ done = "last", success = "last", failure = "@fail", unproven = "first" }} }}
last  = {{ end = "success" }}

[anywhere]
on = {{ blocked = "@blocked", exhausted = "@fail", timeout = "@fail", error = "@fail", halted = "@fail", cancel = "@cancel" }}

[most]
turns = 3
"""


def test_a_machine_that_would_run_itself_is_refused(place: Place) -> None:
    folder = place.repo / ".flyball/machines"
    folder.mkdir(parents=True)
    for name, below in (("own", "own"), ("ping", "pong"), ("pong", "ping")):
        (folder / f"{name}.toml").write_text(NESTED.format(name=name, below=below))
    for name, way in (("own", "own → own"), ("ping", "ping → pong → ping")):
        said = place.run(place.script(), "--machine", name, "--trust")
        assert said.code == 2 and f"would run itself forever ({way})" in said.err
    assert place.fb("ls", "--json").json == []


class Busy(Supervisor):
    """There is always something to do, until somebody is heard."""

    heard, ticks = False, 0

    def tick(self) -> bool:
        self.ticks += 1
        return not self.heard and self.ticks < 1000


def test_a_signal_is_heard_though_there_is_always_something_to_do() -> None:
    read, write = os.pipe()
    supervisor = Busy(MemoryJournal(), None, None, driver="d", alive=bool, new_id=str, machine_table=dict)  # type: ignore[arg-type]

    def heard() -> None:
        supervisor.heard = bool(os.read(read, 1))

    supervisor.listen_to(read, heard)
    os.write(write, b".")
    supervisor.drive(lambda: True)
    supervisor.close()
    os.close(read)
    os.close(write)
    assert supervisor.heard and supervisor.ticks < 1000
