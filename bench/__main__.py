"""`python -m bench`: every figure beside its limit or peer, as a table, as JSON and as a picture."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from bench import (
    core,
    gate,
    group,
    hook,
    idle,
    mechanic,
    one_run,
    report,
    resume,
    rows,
    start,
    turn,
    verdicts,
)
from bench.figure import Figure
from bench.peers import peer

OUT = Path(__file__).parent / "out"
DOCS = Path(__file__).parents[1] / "docs/speed.md"


def main() -> int:
    asked = _asked()
    OUT.mkdir(exist_ok=True)
    machine = report.machine()
    print(f"{machine}\n")
    began, found = time.monotonic(), list[Figure]()
    for measure in _measures(asked):
        figures = _in_a_folder(measure)
        found += figures
        for figure in figures:
            print(report.line(figure), flush=True)
    print(f"\n{report.summary(found)} It took {time.monotonic() - began:.0f} s.")
    _write(machine, found, asked)
    return 0


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="smaller and fewer: a look, not a measurement")
    parser.add_argument("--million", action="store_true", help="also resume at 1,000,000 events")
    parser.add_argument("--only", metavar="NAME", help="one file's figures: core, group, turn …")
    parser.add_argument("--docs", action="store_true", help="put the figures into docs/speed.md")
    return parser.parse_args()


Measure = Callable[[Path], list[Figure]]


def _measures(asked: argparse.Namespace) -> list[Measure]:
    quick = asked.quick
    every: dict[str, Measure] = {
        "core": lambda _: core.figures(quick),
        "one_run": lambda folder: one_run.figures(folder, quick),
        "group": lambda folder: group.figures(folder, quick),
        "resume": lambda folder: resume.figures(folder, quick, asked.million),
        "rows": lambda folder: rows.figures(folder, quick),
        "verdicts": lambda _: verdicts.figures(quick),
        "hook": lambda folder: hook.figures(folder, quick),
        "start": lambda folder: start.figures(folder, quick),
        "turn": lambda folder: turn.figures(folder, quick),
        "gate": lambda folder: gate.figures(folder, quick),
        "idle": lambda folder: idle.figures(folder, quick),
        "mechanic": lambda folder: mechanic.figures(folder, quick),
    }
    if asked.only and asked.only not in every:
        sys.exit(f"There is no figure called '{asked.only}'. There are: {', '.join(every)}.")
    return [every[asked.only]] if asked.only else list(every.values())


def _in_a_folder(measure: Measure) -> list[Figure]:
    """In a folder on the disk that holds the project, not in one that may be memory."""
    with tempfile.TemporaryDirectory(prefix="work-", dir=OUT) as folder:
        found = measure(Path(folder))
    os.sync()  # what one leaves to be written does not slow the next
    return found


def _write(machine: str, found: list[Figure], asked: argparse.Namespace) -> None:
    body = {"machine": machine, "quick": asked.quick, "figures": [report.row(figure) for figure in found]}
    json = OUT / "figures.json"
    json.write_bytes(msgspec.json.format(msgspec.json.encode(body), indent=2) + b"\n")
    drawn = peer("plot", str(json), str(OUT / "figures.png"))
    print(
        f"Written: {', '.join(p.name for p in [json, *([OUT / 'figures.png'] if drawn else [])])} in bench/out."
    )
    if asked.docs:
        report.put_into(DOCS, machine, found)


if __name__ == "__main__":
    sys.exit(main())
