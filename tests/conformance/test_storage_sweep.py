"""Storage faults at a seeded sample of the deeds of a 200-event run; all of them: `make storage`.

A sweep is worth what it finds: a journal that does not wait for the disk must be found out.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from flyball.journal.sqlite import SqliteJournal
from flyball.lab.faulty_disk import FAULTS
from flyball.lab.selftest.storage import Bench, SweepResult, points, sweep, together
from flyball.lab.selftest.story import EVENTS, folded, story

SAMPLE = 120


def test_every_sampled_fault_leaves_a_prefix_or_a_refusal(tmp_path: Path) -> None:
    swept = sweep(tmp_path, SAMPLE, seed=4)
    assert (swept.wrong, swept.points, swept.good) == ([], SAMPLE, True)
    assert set(swept.by_fault) == set(FAULTS)
    assert swept.kept > swept.unharmed > 0 and swept.shorter > 0
    assert list(tmp_path.iterdir()) == []


def test_the_story_is_long_and_every_deed_of_the_disk_is_a_point(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    deeds = bench.undisturbed()
    bench.close()
    assert len(story().entries) >= EVENTS and folded(story().entries) == story().steps[-1].run
    assert deeds.count("write") > 500 and deeds.count("sync") > 100
    every = points(deeds, seed=0)
    assert {(p.at, p.kind) for p in every} == {(n + 1, kind) for n in range(len(deeds)) for kind in FAULTS}


class Careless(Bench):
    """A journal that does not wait for the disk."""

    def _open(self) -> SqliteJournal:
        journal = super()._open()
        journal._database.ask("PRAGMA synchronous = OFF")
        return journal


def test_a_journal_that_does_not_wait_for_the_disk_is_found_out(tmp_path: Path) -> None:
    careful, careless = Bench(tmp_path / "a"), Careless(tmp_path / "b")
    tears = [p for p in points(careful.undisturbed(), seed=1) if p.kind == "tear"][300::40]
    assert {careful.trial(point)[0] for point in tears} <= {"kept", "unharmed"}
    assert "wrong" in {careless.trial(point)[0] for point in tears}


class Forgetful(Bench):
    """A journal whose events are changed behind its back, once a new driver comes."""

    def _judged(self, lived: object, lies: bool, whole: bool) -> tuple[str, str]:
        journal = self._open()
        journal._database.ask("UPDATE event SET at = at + 1 WHERE id % 7 = 3")
        journal.close()
        return super()._judged(lived, lies, whole)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", FAULTS)
def test_what_is_not_the_story_is_never_taken_for_it(tmp_path: Path, kind: str) -> None:
    bench = Forgetful(tmp_path)
    point = next(p for p in points(bench.undisturbed(), seed=2) if p.kind == kind and p.at > 800)
    assert bench.trial(point)[0] == ("refused" if kind == "lose" else "wrong")


def test_shares_of_a_sweep_add_up(tmp_path: Path) -> None:
    whole = sweep(tmp_path, 12, seed=9)
    parts = [sweep(tmp_path, 12, seed=9, share=(n, 2)) for n in range(2)]
    assert together(parts) == whole
    assert not SweepResult(points=1).good
