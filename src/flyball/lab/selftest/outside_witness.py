"""What really happened, recorded outside of Flyball: each turn and each proof writes a line, whichever process ran it.

A line names its run and turn, and has the mark of the process that wrote it; the act's folder says which act that was;
the journal says how the act ended. So effects that happened twice, never happened or were never announced can be told
apart from those that were interrupted, recorded as such, and started again.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct

from flyball.domain import events as e
from flyball.journal import Entry


class Effects(Struct, frozen=True):
    """The effects of one run and its descendants. `finished` counts the effects of acts that finished, by name."""

    finished: dict[str, int] = {}
    witnessed: int = 0
    doubled: int = (
        0  # done more often than acts were started for it, or by an act that the journal does not mention
    )
    unannounced: int = 0  # done before the journal recorded the start
    interrupted: int = 0  # acts recorded as interrupted


class Line(NamedTuple):
    """A line written by a turn or a proof (for which the turn is "-")."""

    name: str
    run: str
    turn: str
    mark: str


class _Acts(NamedTuple):
    """The acts of the journal by their keys: started (with run and turn), finished, recorded as interrupted."""

    begun: dict[str, tuple[str, str]]
    finished: set[str]
    interrupted: set[str]
    landings: dict[str, str]  # they may prove a merge; with their run


def effects(entries: list[Entry], acts: Path, witness: Path) -> Effects:
    journal_acts = _acts(entries)
    runs = {entry.run for entry in entries}
    lines = [line for line in _lines(witness) if line.run in runs]
    keys = _keys(acts, runs)
    _announce_merges(journal_acts, set(keys.values()))
    finished = [(line.name, keys.get(line.mark, "")) for line in lines]
    settled = journal_acts.finished | journal_acts.interrupted
    surplus = (
        Counter((line.run, line.turn) for line in lines) - Counter(journal_acts.begun.values())
    ).total()
    unknown = sum(1 for _, key in finished if key not in journal_acts.begun)
    return Effects(
        finished=dict(Counter(name for name, key in finished if key in journal_acts.finished)),
        witnessed=len(lines),
        doubled=surplus + sum(1 for _, key in finished if key in journal_acts.begun and key not in settled),
        unannounced=max(0, unknown - surplus),
        interrupted=len(journal_acts.interrupted),
    )


def _acts(entries: list[Entry]) -> _Acts:
    acts = _Acts({}, set(), set(), {})
    for entry in entries:
        match e.decode(entry.body):
            case e.ActStarted(act=act) if act.do == "proof" or act.do.startswith("agent:"):
                acts.begun[act.key] = (entry.run, "-" if act.do == "proof" else str(act.turn))
            case e.ActStarted(act=act) if act.do == "land":
                acts.landings[act.key] = entry.run
            case e.ActFinished(key=key):
                acts.finished.add(key)
            case e.ActInterrupted(key=key):
                acts.interrupted.add(key)
            case _:
                pass
    return acts


def _announce_merges(acts: _Acts, keys: set[str]) -> None:
    """A commit that lands on a branch that has moved is proved again, in a folder named after the landing and the
    merge.
    """
    for key in keys:
        act = key.rpartition("-")[0]
        if act in acts.landings:
            acts.begun[key] = (acts.landings[act], "-")
            (acts.finished if act in acts.finished else acts.interrupted).add(key)


def _lines(witness: Path) -> list[Line]:
    text = witness.read_text("utf-8") if witness.exists() else ""
    return [Line(*line.split()) for line in text.splitlines()]


def _keys(acts: Path, runs: set[str]) -> dict[str, str]:
    """The act of each process, by its mark."""
    keys: dict[str, str] = {}
    for folder in acts.iterdir() if acts.is_dir() else ():
        if folder.name.partition("-")[0] in runs:
            for claim in folder.rglob("claim"):
                keys[claim.read_text().strip()] = folder.name
    return keys
