"""Folders nested deeper than a path can name, in the places that a test run can write to."""

from __future__ import annotations

import os
from collections.abc import Generator
from pathlib import Path

import pytest

from flyball.proofs.exchange import Room
from flyball.runners.observe import Observer, collect
from flyball.state_dir import files_below, remove

DEPTH, NAME = 1_100, "dddd"  # more than Python recurses, and more letters than a path may have
JUNIT = "<testsuite><testcase classname='a' name='b'/></testsuite>"


def dig(folder: Path) -> None:
    here = Path.cwd()
    try:
        os.chdir(folder)
        for _ in range(DEPTH):
            Path(NAME).mkdir()
            os.chdir(NAME)
        Path("file").write_text("x")
    finally:
        os.chdir(here)


@pytest.fixture
def folder(tmp_path: Path) -> Generator[Path]:
    """pytest cannot remove folders nested so deep."""
    yield tmp_path
    for path in tmp_path.iterdir():
        remove(path)


def test_reports_beside_deep_folders_are_read_and_the_next_proof_starts_clean(folder: Path) -> None:
    room, checkout = folder / "room", folder / "checkout"
    observer = Observer(Room(), str(checkout))
    observer.prepare(room, {})
    reports = checkout / "target/surefire-reports"
    reports.mkdir(parents=True)
    (reports / "TEST-a.xml").write_text(JUNIT)
    dig(room / "report")
    dig(checkout)
    report = collect(room, checkout, str(checkout), "")
    assert report is not None and len(report.tests) == 1
    observer.prepare(room, {})
    assert list((room / "report").iterdir()) == []


def test_what_is_removed_is_the_folder_alone(folder: Path) -> None:
    outside, top = folder / "outside", folder / "top"
    (outside / "inner").mkdir(parents=True)
    (outside / "inner/kept.txt").write_text("x")
    locked = top / "a/locked"
    locked.mkdir(parents=True)
    (locked / "file").write_text("x")
    (top / "link").symlink_to(outside)
    (top / "a/b/c").mkdir(parents=True)
    locked.chmod(0)
    remove(top)
    assert not top.exists()
    assert [path.name for path in files_below(outside)] == ["kept.txt"]
    assert list(files_below(outside, depth_most=0)) == []
