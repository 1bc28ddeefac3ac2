"""Resume after a kill: from a journal that nobody has open to the act in flight, however long the history is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from bench.figure import Beside, Figure
from bench.timing import median, seconds
from bench.yard import DRIVER, Instant, began, close, finished, supervisor
from flyball.core.decide import Do, Finished, Interrupted, due, react
from flyball.domain import events as e
from flyball.journal.records import SNAPSHOT_EVERY, Batch, DrivenRun
from flyball.journal.sqlite import SqliteJournal
from flyball.runtime.supervisor import Supervisor
from flyball.state.fold import fold
from flyball.state.run import Run

GOAL = 50.0
AT_ONCE = 300


def figures(folder: Path, quick: bool, million: bool = False) -> list[Figure]:
    sizes = [10, 1_000, 10_000] + ([] if quick else [100_000]) + ([1_000_000] if million else [])
    return [_figure(folder / str(size), size, 5 if quick else 9) for size in sizes]


def _figure(folder: Path, size: int, times: int) -> Figure:
    folder.mkdir()
    write_history(folder, size)
    taken = [_resumed(folder) * 1e3 for _ in range(times)]
    beside = (Beside("every event folded", _whole(folder)),) if size <= 100_000 else ()
    return Figure(name=f"resume at {size:,} events", value=median(taken), unit="ms", goal=GOAL, beside=beside)


def write_history(folder: Path, size: int) -> None:
    """A run of turns, killed with an act in flight, as long after its last snapshot as can be."""
    journal = SqliteJournal(folder / "journal.db")
    driven: dict[str, DrivenRun] = {}
    batch = Batch(driven)
    batch.start(began("r1", "loop"), journal.acquire("r1", "dead", lambda name: False))
    while not _long_enough(_settle(journal, driven, batch), size):
        batch = Batch(driven)
        left = size - driven["r1"].seq
        for _ in range(AT_ONCE if left > 2_000 else 1):
            _take_turn(batch)
    journal.close()


def _settle(journal: SqliteJournal, driven: dict[str, DrivenRun], batch: Batch) -> int:
    """Append what is staged, as the supervisor does."""
    journal.append(batch.writes())
    driven.update(batch.after())
    return driven["r1"].seq


def _take_turn(batch: Batch) -> None:
    run = batch.run("r1")
    if run.act:
        batch.add("r1", react(run, finished(run.act), run.at + 1))
    asked = due(batch.run("r1"), run.at + 1)
    assert isinstance(asked, Do)
    batch.add("r1", [e.ActStarted(at=run.at + 1, act=asked.act)])


def _long_enough(seq: int, size: int) -> bool:
    return seq >= size and (size < SNAPSHOT_EVERY or seq % SNAPSHOT_EVERY >= SNAPSHOT_EVERY - 6)


class Seen(Instant):
    """Begins nothing: the clock stops when an act would be begun."""

    acts = 0

    def start(self, run: Run, act: e.Act, post: Callable[[Finished | Interrupted], None]) -> None:
        self.acts += 1


def _resumed(folder: Path) -> float:
    """Open, take the lease over from the dead, load, go on with the act in flight. Nothing is left behind."""
    performer = Seen()
    made: list[Supervisor] = []

    def resume() -> None:
        driving = supervisor(folder, performer)
        made.append(driving)
        driving.adopt("r1", waking=False)

    taken = seconds(resume)
    assert performer.acts == 1
    made[0].journal.release("r1", DRIVER)
    close(made[0])
    return taken


def _whole(folder: Path) -> float:
    journal = SqliteJournal(folder / "journal.db")
    taken = seconds(lambda: fold(None, (e.decode(entry.body) for entry in journal.read("r1"))))
    journal.close()
    return taken * 1e3
