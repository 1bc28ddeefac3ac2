"""Options of the heavy campaigns, the Python that tests call by name, and what is run first."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

pytest.register_assert_rewrite("support")  # what a table checks is shown like any other assertion

# `python3` in a proof or a script is this very Python, not a machine's shim that starts dozens of shells first.
os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"

HEAVY = ("tests/e2e/", "tests/redteam/", "tests/simulation/", "tests/unit/test_prove")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Each worker begins with its share of what takes long and ends with small ones, so all end together."""
    if not config.getoption("--whole"):
        _sample(config, items)
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    heavy = [item for item in items if item.nodeid.startswith(HEAVY)]
    light = [item for item in items if not item.nodeid.startswith(HEAVY)]
    items[:] = [item for n in range(workers) for part in (heavy, light) for item in _share(part, n, workers)]


def _sample(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of a test marked `sampled(n)`, n cases spread over its table are run."""
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("sampled"):
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    left_out: set[pytest.Item] = set()
    for some in cases.values():
        marker = some[0].get_closest_marker("sampled")
        most = min(len(some), marker.args[0] if marker else 0)
        left_out |= {*some} - {some[n * len(some) // most] for n in range(most)}
    config.hook.pytest_deselected(items=[item for item in items if item in left_out])
    items[:] = [item for item in items if item not in left_out]


def _share(items: list[pytest.Item], n: int, workers: int) -> list[pytest.Item]:
    return items[n * len(items) // workers : (n + 1) * len(items) // workers]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--attacks", type=int, default=12, help="how many of the red team's attacks are tried")
    parser.addoption("--flood", default="300,60M", help="files and bytes of the red team's floods")
    parser.addoption("--kills", type=int, default=4, help="how many kills a chaos campaign makes")
    parser.addoption("--real-agents", action="store_true", help="drive the real command lines of agents")
    parser.addoption("--whole", action="store_true", help="run every case of the tests marked `sampled`")
    parser.addoption("--tamperings", type=int, default=48, help="how many a campaign of them makes")
