"""The pages in `.flyball/out`: what a person reads who looks in now and then (CTO-12)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msgspec.structs import replace

from flyball.core.decide import Note, due
from flyball.core.mail import hear, order
from flyball.domain import events as e
from flyball.domain.messages import Start, encode
from flyball.journal.memory import MemoryJournal
from flyball.machines import shipped
from flyball.runtime.listeners import Artifacts
from flyball.runtime.supervisor import Supervisor
from flyball.state.fold import fold
from flyball.views.busy import assignments
from flyball.views.ledger import last_known_state, ledger
from support import begun, settings


class Acts:
    def start(self, run: Any, act: Any, post: Any) -> None: ...

    def stop(self, key: str, now: bool) -> None: ...

    def tidy(self, run: Any) -> None: ...


class Clock:
    at = 1_000_000

    def now(self) -> int:
        self.at += 1
        return self.at


def test_a_lane_stays_on_the_pages_however_many_runs_began_after_it(tmp_path: Path) -> None:
    out = tmp_path / ".flyball" / "out"
    out.mkdir(parents=True)
    journal, clock = MemoryJournal(), Clock()
    driver = Supervisor(
        journal,
        Acts(),
        clock,
        driver="d",
        alive=lambda name: False,
        new_id=lambda: f"k{clock.now()}",
        machine_table=lambda name, parent: shipped(name).table,
        on_event=Artifacts(journal).note,
    )
    lane = begun("cto", settings(), repo=str(tmp_path))
    driver.begin(lane)
    for number in range(60):
        step = begun("loop", repo=str(tmp_path), parent=lane.run)
        driver.begin(replace(step, run=f"x{number}", at=clock.now()))
    assert f"## {lane.run}: cto, IDLE, running" in (out / "STATUS_LEDGER.md").read_text()
    driver.close()


def test_a_lane_of_a_stopped_up_says_so() -> None:
    run = fold(None, [begun("cto")])
    run = fold(run, [e.ActStarted(at=1, act=e.Act(key="r1-1", do="prepare", state="IDLE", turn=1))])
    run = fold(run, [e.ActFinished(at=2, key="r1-1", result=e.Prepared(base_tree="b", tree="b"))])
    trigger = e.Trigger(kind="task", text="Mend add()", ticket="T1")
    run = fold(run, hear(run, encode(Start(trigger=trigger)), 1, 3))
    assert "**Active task**: Mend add()" in ledger([run], []) and "**Task**: Mend add()" in last_known_state(
        [run]
    )
    paused = fold(run, [e.Stopped(at=4, status="paused", stop=e.Stop(code="wait.paused"))])
    assert f"**Next**: `flyball resume {run.id}`" in ledger([paused], []), "while `up` runs"
    run = fold(run, order(run, "interrupt", "terminal", 4))
    step = due(run, 5)
    assert isinstance(step, Note)
    run = fold(run, step.events)
    position = last_known_state([run])
    assert "**Previous state**: IDLE" in position and "**Files**: tree b" in position
    assert "**Stopped**: it was interrupted (interrupted)" in position
    page = ledger([run], [])
    assert "**Waits for**: `flyball up`, which is not running" in page and "**Next**: `flyball up`" in page


def test_who_is_at_work_and_what_comes_next() -> None:
    lane = fold(None, [begun("cto", repo="/calc")])
    lane = fold(lane, [e.ActStarted(at=1, act=e.Act(key="r1-1", do="prepare", state="IDLE", turn=1))])
    lane = fold(lane, [e.ActFinished(at=2, key="r1-1", result=e.Prepared(base_tree="b", tree="b"))])
    planning = fold(lane, hear(lane, encode(Start(trigger=e.Trigger(kind="task", text="Mend"))), 1, 3))
    paused = fold(planning, [e.Stopped(at=4, status="paused", stop=e.Stop(code="wait.paused"))])
    other = fold(None, [begun("loop", repo="/calc")])
    for run, driven, status, following in (
        (lane, True, "idle", ""),
        (planning, True, "working", "T2"),
        (planning, False, "next", ""),
        (paused, True, "paused", ""),
        (other, True, "working", ""),
    ):
        (row,) = assignments([(run, driven)], {"/calc": ["T2", "T3"], "/slug": ["T1"]})
        assert (row.status, row.next) == (status, following), status
