"""mechanic's program: one turn of an agent that needs no model.

    python -P -m flyball.agents.mechanic --role coder --proof 'python -m pytest -q' --seconds 300

It works in the current folder and reports on standard output in the script agent's rows, a JSON line each.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from flyball.agents.mechanic import roles
from flyball.agents.mechanic.search import Search
from flyball.agents.mechanic.suite import suite_here
from flyball.agents.mechanic.trials import CannotTry, Trials


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="mechanic", description="Repairs small Python bugs by test-guided search."
    )
    parser.add_argument("--role", required=True)
    parser.add_argument(
        "--proof", action="append", default=[], help="a command that proves the tree; may be repeated"
    )
    parser.add_argument("--seconds", type=float, default=300.0, help="the most time to take")
    arguments = parser.parse_args(argv)
    for row in _turn(Path.cwd(), arguments.role, arguments.proof, arguments.seconds):
        emit(row)
    return 0


def _turn(root: Path, role: str, proofs: list[str], seconds: float) -> Iterator[dict[str, Any]]:
    deadline = time.monotonic() + seconds
    suite = suite_here(root, proofs, os.environ.get("PATH", ""))
    if suite is None:
        yield from roles.cannot(
            role, "There are no pytest or unittest tests here, and I repair nothing else."
        )
        return
    try:
        with Trials(root, suite) as trials:
            search = Search(trials, deadline, lambda where, what: emit(roles.action("try", where, what)))
            yield from roles.take(role, root, search, seconds, Path(os.environ.get("HOME", "/nowhere")))
    except CannotTry as problem:
        yield from roles.cannot(role, f"I cannot run the tests. {problem}")


def emit(row: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(row) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
