"""Journals that earlier versions (and this one) wrote still fold to where they stood, event for event.

What is stored here is never changed; a new life is added with `python tests/histories/record.py`.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from lives import LIVES
from msgspec.structs import replace
from stored import FOLDER, FORMAT, ending, folded, head, read

from flyball.domain import events as e
from flyball.journal import Row, Write
from flyball.journal.chain import broken
from flyball.journal.memory import MemoryJournal
from flyball.machines import SHIPPED
from flyball.state.fold import fold, freeze, thaw

FILES = sorted(FOLDER.glob("*/*.jsonl.gz"))
MOST_BYTES = 300_000


def name(file: Path) -> str:
    return f"{file.parent.name}-{file.name.partition('.')[0]}"


@pytest.mark.parametrize("file", FILES, ids=name)
def test_a_stored_history_folds_to_its_recorded_end(file: Path) -> None:
    told, runs = read(file)
    assert told["format"] == FORMAT and set(told["runs"]) == set(runs)
    for run, entries in runs.items():
        recorded = told["runs"][run]
        found = {"head": head(entries), **ending(folded(entries))}
        assert {key: found.get(key) for key in recorded} == recorded


@pytest.mark.parametrize("file", FILES, ids=name)
def test_its_chain_holds_and_any_change_breaks_it(file: Path) -> None:
    _, runs = read(file)
    for entries in runs.values():
        before, seq = b"", 0
        for entry in entries:
            assert not broken(before, seq, entry)
            assert broken(before, seq, replace(entry, body=entry.body + b" "))
            before, seq = bytes.fromhex(entry.hash), entry.seq


@pytest.mark.parametrize("file", FILES, ids=name)
def test_a_snapshot_anywhere_in_it_leads_to_the_same_end(file: Path) -> None:
    _, runs = read(file)
    for entries in runs.values():
        events = [e.decode(entry.body) for entry in entries]
        for cut in range(1, len(events), 7):
            assert fold(thaw(freeze(fold(None, events[:cut]))), events[cut:]) == fold(None, events)


def test_a_stored_history_is_written_again_to_the_same_head() -> None:
    _, runs = read(FILES[0])
    journal = MemoryJournal()
    for run, entries in runs.items():
        fence = journal.acquire(run, "d", lambda _: True)
        journal.append([Write(run, 0, tuple(entries), Row(run=run), fence)])  # type: ignore[arg-type]
        assert journal.head(run) == (len(entries), entries[-1].hash)


def test_every_machine_and_every_kind_of_end_is_stored() -> None:
    ends = [end for file in FILES for end in read(file)[0]["runs"].values()]
    assert {end["status"] for end in ends} >= {"ended", "waiting", "paused", "blocked", "running"}
    assert {end["end"] for end in ends} == {"success", "failure", "cancelled", ""}
    machines = {folded(entries).machine.name for file in FILES for entries in read(file)[1].values()}
    assert machines == set(SHIPPED)
    kinds = {entry.kind for file in FILES for entries in read(file)[1].values() for entry in entries}
    assert kinds >= {
        "Answered",
        "RestoreOrdered",
        "ActInterrupted",
        "ChildStopped",
        "Charged",
        "FailureCounted",
    }


def test_every_life_is_stored_and_all_are_small() -> None:
    stored = {file.name.partition(".")[0] for file in FILES}
    assert {life.name for life in LIVES} <= stored
    assert sum(file.stat().st_size for file in FILES) < MOST_BYTES
