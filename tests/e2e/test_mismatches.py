"""What is compared when `up` starts and in `flyball check` (CTO-13, CTO-14), and what is decided about each difference."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.helpers import Yard
from tests.support import begun

from flyball.runtime.app import App
from flyball.state.fold import begin
from flyball.state.run import Run
from flyball.system.mismatches import Mismatch, mismatches


@pytest.fixture
def yard(tmp_path: Path) -> Yard:
    return Yard(tmp_path)


@pytest.fixture
def app(yard: Yard) -> Iterator[App]:
    made = App(yard.env)
    yield made
    made.close()


def lane(yard: Yard) -> Run:
    event = begun("cto", commit=yard.git("rev-parse", "main"), branch="main", repo=str(yard.repo))
    return begin(event)


def differences(app: App, yard: Yard) -> list[Mismatch]:
    return mismatches(app, yard.repo, [lane(yard)])


def test_an_object_that_cannot_be_read_is_for_a_person(app: App, yard: Yard) -> None:
    assert differences(app, yard) == []
    blob = yard.git("rev-parse", "HEAD:calc.py")
    stored = yard.repo / ".git" / "objects" / blob[:2] / blob[2:]
    stored.chmod(0o600)
    stored.write_bytes(stored.read_bytes()[:9] + b"??")
    (found,) = differences(app, yard)
    assert found.grave and "1 object of the commit" in found.text and "git fsck" in found.text
    (yard.repo / ".git" / "HEAD").write_text("ref: refs/heads/gone\n")
    (found,) = differences(app, yard)
    assert found.grave and found.run == "", "nothing can be compared"
