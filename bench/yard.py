"""Runs to measure with: they go round for ever, and their acts are over the moment they begin."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from flyball.core.decide import Finished, Interrupted
from flyball.domain import events as e
from flyball.domain.settings import Budget, Settings
from flyball.journal import Entry
from flyball.journal.records import Heads, load_or_create
from flyball.journal.sqlite import SqliteJournal
from flyball.machines import shipped
from flyball.runtime.supervisor import Supervisor
from flyball.state.run import Run

DRIVER = "bench"
RING: dict[str, Any] = {
    "name": "ring",
    "start": "here",
    "states": {
        "here": {"do": "check", "on": {"ready": "there"}},
        "there": {"do": "check", "on": {"ready": "here"}},
        "done": {"end": "success"},
    },
    "anywhere": {"on": {"cancel": "@cancel"}},
}
"""The lightest transition there is: an act of Flyball's own, and on to the next state."""

ENDLESS = Settings(
    agents={"default": "script:bench"},
    budget=Budget(uusd=None, tokens=None, wall_us=None),
    limits={"loop": {"turns": 1_000_000_000}},
)
ALLOWED = e.Ruling(verdict="allow", policy="default", policy_hash="5" * 64, diff="d" * 64, tree="7" * 40)
TURN = e.TurnEnded(
    verdict="ok",
    changed=("src/app.py", "tests/test_app.py"),
    lines=42,
    message="The parser now keeps the last line. Next: the empty file.",
    session="0b7c4a52-6a5e-4c0e-9d38-6f4b6a3f7c11",
    usage=e.Usage(input_tokens=1_200, cache_read_tokens=40_000, output_tokens=800, cost_uusd=21_000),
)


def began(run_id: str, machine: str) -> e.RunBegan:
    """A run of RING ("ring"), or of the shipped `loop`, whose worker never claims to be done."""
    table = RING if machine == "ring" else shipped(machine).table
    return e.RunBegan(
        at=now_us(),
        run=run_id,
        machine=machine,
        table=table,
        settings=ENDLESS,
        task="Go round",
        rules=e.RULES,
        owner=False,
        tree="0" * 40,
    )


def finished(act: e.Act) -> Finished:
    """What comes of an act: a check is ready; a turn leaves a tree never seen before."""
    if act.do == "check":
        return Finished(key=act.key, result=e.CheckEnded(outcome="ready"))
    number = int(act.key.rpartition("-")[2])
    turn = replace(TURN, tree=f"{number:040x}")
    return Finished(key=act.key, result=turn, took_us=90_000_000, ruling=ALLOWED)


def now_us() -> int:
    return time.time_ns() // 1_000


class WallClock:
    def now(self) -> int:
        return now_us()


class Instant:
    """A performer whose acts are over at once."""

    def start(self, run: Run, act: e.Act, post: Callable[[Finished | Interrupted], None]) -> None:
        post(finished(act))

    def stop(self, key: str, now: bool) -> None: ...

    def tidy(self, run: Run) -> None: ...


def supervisor(folder: Path, performer: Any = None) -> Supervisor:
    """As a app puts it together: SQLite, and signed heads noted after each commit."""
    heads = Heads(folder / "heads", load_or_create(folder))
    journal = SqliteJournal(folder / "journal.db")

    def committed(entries: Sequence[Entry]) -> None:
        heads.note_all(entries, journal)

    return Supervisor(
        journal,
        performer or Instant(),
        WallClock(),
        driver=DRIVER,
        alive=lambda name: False,
        new_id=lambda: "never",
        machine_table=lambda name, run: RING,
        on_commit=committed,
    )


def go_round(driving: Supervisor) -> None:
    """What the loop does when it is woken: look for mail, then write down and begin all that is due."""
    driving.take_mail()
    driving.tick()


def close(driving: Supervisor) -> None:
    driving.close()
    driving.journal.close()
