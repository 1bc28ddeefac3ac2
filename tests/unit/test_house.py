"""What a reader must open to follow the main path."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
FILES_MOST = 60


def test_the_smallest_build_run_enters_few_files() -> None:
    """`flyball run` with a script agent, traced: a file counts if one of its functions is called."""
    traced = subprocess.run([sys.executable, "tools/entered.py"], cwd=ROOT, capture_output=True, text=True)
    total = re.search(r"^all +(\d+) files", traced.stdout, re.MULTILINE)
    assert total is not None, traced.stderr
    assert int(total[1]) <= FILES_MOST, f"{traced.stdout}\n`python tools/entered.py --files` lists them"
