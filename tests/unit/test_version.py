"""The version is written twice: for the installer, and where it can be read without asking the installer."""

import tomllib
from pathlib import Path

from flyball import __version__

ROOT = Path(__file__).parents[2]


def test_the_version_is_the_same_in_both_places() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert __version__ == project["version"]
