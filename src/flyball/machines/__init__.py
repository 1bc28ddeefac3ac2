"""The five machines that ship, as data. A user's own machines are loaded in the same way."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from flyball.domain.faults import faults
from flyball.domain.machine import Machine, parse
from flyball.errors import MachineFault, NotFound, reason

SHIPPED = ("build", "loop", "review", "task", "cto")


@cache
def shipped(name: str) -> Machine:
    """One of the five, by name."""
    return parse(tomllib.loads(Path(__file__).with_name(f"{name}.toml").read_text("utf-8")))


def from_text(text: str, where: str) -> Machine:
    """A machine from TOML text; an error lists every fault that it has."""
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as broken:
        raise MachineFault(f"{where} is not valid TOML: {broken}. Correct the file.") from None
    try:
        machine = parse(table)
    except MachineFault as fault:
        raise MachineFault(f"{where}: {fault}") from None
    problems = faults(machine)
    if problems:
        raise MachineFault("\n".join(f"{where}: {fault}" for fault in problems))
    return machine


def from_file(path: Path) -> Machine:
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        raise MachineFault(f"Cannot read {path}: {reason(problem)}. Check the path.") from None
    return from_text(text, str(path))


def find(name: str, folder: Path | None) -> Machine:
    """The machine called `name`: the repository's own first (`.flyball/machines/`), else a shipped one."""
    own = folder / f"{name}.toml" if folder else None
    if own and own.is_file():
        return from_file(own)
    if name in SHIPPED:
        return shipped(name)
    raise unknown(name, names(folder))


def unknown(name: str, choices: Sequence[str]) -> NotFound:
    from difflib import get_close_matches  # only needed after a typing mistake

    close = get_close_matches(name, choices, 1)
    hint = f" Did you mean '{close[0]}'?" if close else ""
    return NotFound(f"There is no machine '{name}'.{hint} Machines: {', '.join(choices)}.")


def names(folder: Path | None) -> list[str]:
    own = sorted(p.stem for p in folder.glob("*.toml")) if folder and folder.is_dir() else []
    return list(dict.fromkeys([*SHIPPED, *own]))
