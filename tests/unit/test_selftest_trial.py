"""The self-test as a whole: it says what it tried, keeps what it found, and never takes a broken part for a good one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from flyball.cli.selftest import page
from flyball.errors import FlyballError
from flyball.lab.selftest import searches as module
from flyball.lab.selftest.conforming import conform
from flyball.lab.selftest.searches import SEARCHES, Part, Size, Trial, facts, trial

TINY = Size(machines=(), seeds=2, kills=0, points=4)


def test_every_search_is_made_and_told_on_one_page(tmp_path: Path) -> None:
    said: list[str] = []
    found = trial(tmp_path, TINY, said.append, seed=5)
    assert (found.good, [part.name for part in found.parts]) == (True, list(SEARCHES))
    text = "\n".join(page(found))
    assert "Self-test passed" in text.splitlines()[0] and len(text.splitlines()) < 60
    for words in (
        "30 laws",
        "2 seeds",
        "4 faults",
        "sqlite",
        "python",
        "git",
        "bwrap",
        "µs to write and sync a page (median)",
    ):
        assert words in text
    assert {line.partition(":")[0] for line in said} >= {"simulate", "journal", "storage"}
    assert list(tmp_path.iterdir()) == [], "nothing is left behind"
    assert msgspec.json.decode(msgspec.json.encode(facts(found)))["good"] is True


def test_a_search_that_finds_something_or_breaks_off_fails_the_whole(tmp_path: Path) -> None:
    kept = dict(SEARCHES)

    def finds(part: Part, *rest: object) -> None:
        part.wrong = ["seed 7: SYS-2: it moved"]

    def breaks(*rest: object) -> None:
        raise OSError("the disk is gone")

    SEARCHES.clear()
    SEARCHES.update({"one": finds, "two": breaks})
    try:
        found = trial(tmp_path, TINY, lambda text: None, seed=5)
    finally:
        SEARCHES.clear()
        SEARCHES.update(kept)
    text = "\n".join(page(found))
    assert not found.good and "FAILED" in text.splitlines()[0]
    assert "! seed 7: SYS-2: it moved" in text and "! It broke off: OSError: the disk is gone" in text
    assert found.kept in text and Path(found.kept).is_dir()


def test_a_place_that_cannot_be_written_is_a_sentence(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(FlyballError, match=r"cannot be written: .*FLYBALL_STATE_DIR"):
        module.trial(file / "below", TINY, lambda text: None)


def test_every_law_of_the_journal_holds_without_a_test_runner(tmp_path: Path) -> None:
    """Users have no pytest."""
    code = (
        "import sys; sys.modules['pytest'] = sys.modules['hypothesis'] = None\n"
        "from pathlib import Path\n"
        "from flyball.lab.selftest.conforming import conform\n"
        "import flyball.cli.selftest\n"
        f"found = conform(Path({str(tmp_path)!r})); print(found.laws, found.broken)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.stdout.split(), done.stderr) == (["30", "[]"], "")


def test_a_law_that_does_not_hold_is_named(tmp_path: Path) -> None:
    from flyball.journal.memory import MemoryJournal

    kept = MemoryJournal.resolve
    MemoryJournal.resolve = lambda self, prefix: []  # type: ignore[method-assign]
    try:
        broken = conform(tmp_path).broken
    finally:
        MemoryJournal.resolve = kept  # type: ignore[method-assign]
    assert any("MemoryJournal: a prefix finds its runs (AssertionError, line" in law for law in broken)
    assert not any("SqliteJournal" in law for law in broken)


def test_an_empty_trial_is_of_no_use() -> None:
    found = Trial(1, {}, 0, [Part("one", held=True), Part("two")])
    assert not found.good
