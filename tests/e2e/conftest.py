"""Fixtures for trying the command line as a user would."""

from collections.abc import Generator
from pathlib import Path

import pytest
from tests.e2e.helpers import Place


@pytest.fixture
def place(tmp_path: Path) -> Generator[Place]:
    made = Place(tmp_path)
    yield made
    made.clear()
