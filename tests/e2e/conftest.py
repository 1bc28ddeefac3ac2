"""Fixtures for trying the command line as a user would."""

from pathlib import Path

import pytest
from helpers import Place


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)
