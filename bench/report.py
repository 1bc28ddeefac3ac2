"""Figures for people: a line on the screen, a table in the documentation, and what the machine was."""

from __future__ import annotations

import os
import platform
import time
from pathlib import Path
from typing import Any

import apsw
import msgspec

from bench.figure import Figure, beside_text, goal_text, met_text, number

BEGIN, END = "<!-- figures -->", "<!-- end of figures -->"


def machine() -> str:
    """What kind of machine, and how busy; never its name."""
    load = os.getloadavg()[0]
    return (
        f"{time.strftime('%Y-%m-%d')} · {_processor()}, {os.cpu_count()} cores, load {load:.1f} at the start · "
        f"{platform.system()} · Python {platform.python_version()} · SQLite {apsw.sqlite_lib_version()}"
    )


def _processor() -> str:
    listed = Path("/proc/cpuinfo")
    lines = listed.read_text().splitlines() if listed.exists() else []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.machine()


def line(figure: Figure) -> str:
    first = f"{figure.name:<58}{number(figure.value, figure.unit):>15}{goal_text(figure):>17} {met_text(figure):<4}"
    more = [beside_text(figure), cpu_text(figure), parts_text(figure), figure.note]
    return "\n".join([first, *(f"    {text}" for text in more if text)])


def cpu_text(figure: Figure) -> str:
    return "" if figure.cpu is None else f"by CPU time alone {number(figure.cpu, figure.unit)}"


def parts_text(figure: Figure) -> str:
    return ", ".join(f"{name} {number(value, figure.unit)}" for name, value in figure.parts.items())


def summary(found: list[Figure]) -> str:
    goals = [figure for figure in found if figure.met is not None]
    missed = [figure.name for figure in goals if not figure.met]
    told = f"{len(goals) - len(missed)} of {len(goals)} goals are met."
    return told + (f" Not met: {'; '.join(missed)}." if missed else "")


def row(figure: Figure) -> dict[str, Any]:
    return {**msgspec.to_builtins(figure), "met": figure.met, "of_goal": figure.of_goal}


def put_into(page: Path, machine: str, found: list[Figure]) -> None:
    """The table between the page's two marks is replaced."""
    before, _, rest = page.read_text("utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    page.write_text(f"{before}{BEGIN}\n{_table(machine, found)}{END}{after}", "utf-8")


def _told(figure: Figure) -> str:
    return "; ".join(text for text in (beside_text(figure), cpu_text(figure), figure.note) if text)


def _table(machine: str, found: list[Figure]) -> str:
    rows = [
        f"| {f.name} | {number(f.value, f.unit)} | {goal_text(f)} | {met_text(f)} | {_told(f)} |"
        for f in found
    ]
    head = [
        "| figure | value | goal | met | beside, in the same run (ours ÷ theirs) |",
        "|---|---:|---:|---|---|",
    ]
    return "\n".join([machine, "", *head, *rows, "", ""])
