"""One run: a durable transition, beside one bare commit of as many bytes and beside one append with fsync."""

from __future__ import annotations

import os
from pathlib import Path

import apsw

from bench.figure import Beside, Figure
from bench.timing import calm, in_turns, usual
from bench.yard import began, close, go_round, supervisor
from flyball.runtime.supervisor import Supervisor

GOAL = 1.35


def figures(folder: Path, quick: bool) -> list[Figure]:
    ring, turns = _driving(folder / "ring", "ring"), _driving(folder / "loop", "loop")
    bare, file = Bare(folder / "bare.db", _bytes(ring)), Appended(folder / "appended", _bytes(ring))
    deeds = {
        "bare": bare.commit,
        "fsync": file.append,
        "ring": lambda: go_round(ring),
        "loop": lambda: go_round(turns),
    }
    in_turns(deeds, 1, 50)
    taken = in_turns(deeds, 5 if quick else 20, 40)
    us = {name: usual(rounds) * 1e6 for name, rounds in taken.items()}
    least = {name: calm(rounds) * 1e6 for name, rounds in taken.items()}
    for driving in (ring, turns):
        close(driving)
    limits = (Beside("bare SQLite FULL commit", us["bare"]), Beside("fsync append", us["fsync"]))
    return [
        Figure(
            name="one run: durable transition ÷ bare SQLite commit",
            value=us["ring"] / us["bare"],
            unit="×",
            goal=GOAL,
            note=f"in calm moments (the lowest twentieth) {least['ring'] / least['bare']:.2f} ×",
        ),
        Figure(name="one run: a durable transition", value=us["ring"], unit="µs", beside=limits),
        Figure(name="one run: a durable agent's turn, judged", value=us["loop"], unit="µs", beside=limits),
    ]


def _driving(folder: Path, machine: str) -> Supervisor:
    folder.mkdir()
    made = supervisor(folder)
    made.begin(began("r1", machine))
    for _ in range(8):
        go_round(made)
    return made


def _bytes(driving: Supervisor) -> int:
    """What one transition adds to the journal."""
    sizes = [len(entry.body) + 40 for entry in driving.journal.read("r1", 1)]
    return sum(sizes[-9:]) // 3


class Bare:
    """What SQLite itself needs: one row, one commit, the same settings."""

    def __init__(self, path: Path, size: int) -> None:
        self.connection, self.body = apsw.Connection(str(path)), b"x" * size
        for setting in ("journal_mode = WAL", "synchronous = FULL", "wal_autocheckpoint = 4000"):
            self.connection.execute(f"PRAGMA {setting}").fetchall()
        self.connection.execute("CREATE TABLE event (id INTEGER PRIMARY KEY, body BLOB NOT NULL)")

    def commit(self) -> None:
        self.connection.execute("BEGIN IMMEDIATE")
        self.connection.execute("INSERT INTO event (body) VALUES (?)", (self.body,))
        self.connection.execute("COMMIT")


class Appended:
    """What the disk itself needs."""

    def __init__(self, path: Path, size: int) -> None:
        self.file = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        self.body = b"x" * size

    def append(self) -> None:
        os.write(self.file, self.body)
        os.fsync(self.file)
