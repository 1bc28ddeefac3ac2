"""Options of the heavy campaigns."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--attacks", type=int, default=36, help="how many of the red team's attacks are tried")
    parser.addoption("--flood", default="300,60M", help="files and bytes of the red team's floods")
    parser.addoption("--kills", type=int, default=6, help="how many kills a chaos campaign makes")
    parser.addoption("--tamperings", type=int, default=120, help="how many a campaign of them makes")
