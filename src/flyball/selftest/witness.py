"""What really happened, as seen from outside: each turn and proof leaves a line, whoever drove it.

A line carries the mark of the process that wrote it; the act's folder says which act that was; the journal says
what became of the act. So an effect that was doubled, made up or never announced is told apart from one that was
interrupted and, said to be so, begun anew.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from msgspec import Struct

from flyball.core import events as e
from flyball.journal import Entry


class Effects(Struct, frozen=True):
    """Of one run and its descendants. `finished` counts the effects of acts that came to something, by name."""

    finished: dict[str, int] = {}
    witnessed: int = 0
    twice: int = 0  # one act's process did its work twice, or an act was begun again in silence
    unannounced: int = 0  # done before the journal said that it was begun
    interrupted: int = 0  # acts that came to nothing, and were said to


def effects(entries: list[Entry], acts: Path, witness: Path) -> Effects:
    runs = {entry.run for entry in entries}
    started, finished, dropped = _acts(entries)
    lines = [line for line in _lines(witness) if line[1] in runs]
    keys = _keys(acts, runs)
    by_process = Counter(mark for _, _, mark in lines)
    done = [(name, keys.get(mark, "")) for name, _, mark in lines]
    settled = finished | dropped
    return Effects(
        finished=dict(Counter(name for name, key in done if key in finished)),
        witnessed=len(lines),
        twice=sum(count - 1 for count in by_process.values())
        + sum(1 for _, key in done if key in started and key not in settled),
        unannounced=sum(1 for _, key in done if key not in started),
        interrupted=len(dropped),
    )


def _acts(entries: list[Entry]) -> tuple[set[str], set[str], set[str]]:
    """The keys of the acts that were begun, that finished, and that were said to be interrupted."""
    facts = [e.decode(entry.body) for entry in entries]
    return (
        {fact.act.key for fact in facts if isinstance(fact, e.ActStarted)},
        {fact.key for fact in facts if isinstance(fact, e.ActFinished)},
        {fact.key for fact in facts if isinstance(fact, e.ActInterrupted)},
    )


def _lines(witness: Path) -> list[tuple[str, str, str]]:
    """Name, run and mark of each line."""
    text = witness.read_text("utf-8") if witness.exists() else ""
    found = (line.split() for line in text.splitlines())
    return [(words[0], words[1], words[-1]) for words in found]


def _keys(acts: Path, runs: set[str]) -> dict[str, str]:
    """Which act each process was of, by its mark."""
    found: dict[str, str] = {}
    for folder in acts.iterdir() if acts.is_dir() else ():
        if folder.name.rpartition("-")[0] in runs:
            for claim in (*folder.glob("claim"), *folder.glob("*/claim")):
                found[claim.read_text().strip()] = folder.name
    return found
