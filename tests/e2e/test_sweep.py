"""A kill between an end and its tidying leaves a checkout; the next driver tidies it, and keeps what would be lost."""

from __future__ import annotations

from pathlib import Path

from tests.e2e.helpers import ACCEPTS, FIXED, Yard

from flyball.workspace import Workspace


def test_what_a_killed_driver_left_is_tidied_by_the_next(tmp_path: Path) -> None:
    yard = Yard(tmp_path)
    agent = yard.script(coder=[{"write": {"calc.py": FIXED}}], critic=ACCEPTS)
    first, second = yard.play(agent), yard.play(agent)
    for ran in (first, second):
        work = Workspace.open(yard.state / "runs" / ran.run)
        assert not work.checkout.exists()
        work.restore(ran.tree)  # as if the kill had come before the tidying
    (yard.state / "runs" / second.run / "checkout" / "mine.txt").write_text("not saved anywhere\n")
    assert yard.play(agent).code == "completed"
    assert not (yard.state / "runs" / first.run / "checkout").exists()
    assert (yard.state / "runs" / second.run / "checkout" / "mine.txt").exists(), "nothing is lost"
