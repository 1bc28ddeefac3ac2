"""The whole self-test: five searches for faults, one after the other, on this machine and this disk."""

from __future__ import annotations

import random
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from flyball.errors import FlyballError
from flyball.lab.prove import LAWS
from flyball.lab.prove.many import proofs
from flyball.lab.selftest.chaos import chaos
from flyball.lab.selftest.conforming import conform
from flyball.lab.selftest.storage import sweep
from flyball.lab.selftest.this_machine import machine, sync_us
from flyball.machines import SHIPPED, shipped

Say = Callable[[str], None]


class Size(Struct, frozen=True):
    """The number of cases to try."""

    machines: tuple[str, ...] = SHIPPED
    seeds: int = 200
    kills: int = 20
    points: int = 600


USUAL = Size()
QUICK = Size(machines=("loop", "review"), seeds=16, kills=2, points=80)


class Part(Struct):
    """One search: what was tried, how many cases, and the result."""

    name: str
    tried: str = ""
    held: bool = False
    figures: dict[str, Any] = field(default_factory=dict[str, Any])
    wrong: list[str] = field(default_factory=list[str])
    took_s: float = 0.0


class Trial(Struct):
    seed: int
    machine: dict[str, str]
    sync_us: int
    parts: list[Part] = field(default_factory=list[Part])
    took_s: float = 0.0
    kept: str = ""  # where everything is kept, if something went wrong

    @property
    def good(self) -> bool:
        return all(part.held for part in self.parts)


def trial(where: Path, size: Size, say: Say, seed: int | None = None) -> Trial:
    """All searches, in a new folder below `where`, which is removed if nothing was found."""
    number = random.randrange(1 << 32) if seed is None else seed
    start, folder = time.monotonic(), _folder(where)
    result = Trial(number, machine(folder), sync_us(folder))
    try:
        for name, search in SEARCHES.items():
            result.parts.append(_searched(name, search, folder, size, number, say))
        result.took_s = time.monotonic() - start
        return result
    finally:
        if result.good and len(result.parts) == len(SEARCHES):
            shutil.rmtree(folder, ignore_errors=True)
        else:
            result.kept = str(folder)
            say(f"Everything is kept in {folder}.")


def _folder(where: Path) -> Path:
    try:
        where.mkdir(mode=0o700, parents=True, exist_ok=True)
        return Path(tempfile.mkdtemp(prefix="selftest-", dir=where))
    except OSError as problem:
        why = problem.strerror
        raise FlyballError(
            f"{where} cannot be written: {why}. Set FLYBALL_STATE_DIR to a folder of yours."
        ) from None


def _searched(name: str, search: Search, folder: Path, size: Size, seed: int, say: Say) -> Part:
    part, start = Part(name), time.monotonic()
    place = folder / name.replace(" ", "-")
    place.mkdir()
    try:
        search(part, place, size, seed, say)
        part.held = not part.wrong
    except Exception as problem:  # a search that breaks off has failed
        part.wrong.append(f"It broke off: {type(problem).__name__}: {problem}")
    part.took_s = time.monotonic() - start
    return part


Search = Callable[[Part, Path, Size, int, Say], None]

# ---- the five ----------------------------------------------------------------------------------------------------------


def _prove(part: Part, folder: Path, size: Size, seed: int, say: Say) -> None:
    say(f"prove: {', '.join(size.machines)}")
    results = [proof for _, proof, _ in proofs([(shipped(name), shipped) for name in size.machines])]
    states, transitions = sum(p.states for p in results), sum(p.transitions for p in results)
    part.tried = f"{len(results)} machines, {len(LAWS)} laws, {states} states, {transitions} transitions"
    part.figures = {
        "states": states,
        "transitions": transitions,
        "bounds": {p.machine: p.bound for p in results},
    }
    part.wrong = [f"{p.machine}: {p.broken.law}: {p.broken.says}" for p in results if p.broken]


def _simulate(part: Part, folder: Path, size: Size, seed: int, say: Say) -> None:
    part.tried, part.figures, part.wrong = worlds(size.seeds, seed % 1_000_000, say)


def worlds(seeds: int, first: int, say: Say) -> tuple[str, dict[str, Any], list[str]]:
    """Seeded worlds: what was tried, figures, and the seeds that broke a law."""
    from flyball.lab.simulate.campaign import simulate

    count = 0

    def watch(_: object) -> None:
        nonlocal count
        count += 1
        if count % 10 == 0 or count == seeds:
            say(f"simulate: {count} of {seeds} seeds")

    campaign = simulate(range(first, first + seeds), watch=watch)
    summary = f"{campaign.seeds} seeds, {campaign.events} events, {campaign.hours} virtual hours"
    figures = {
        "seeds": campaign.seeds,
        "first": first,
        "events": campaign.events,
        "virtual_hours": campaign.hours,
    }
    return (
        summary,
        figures,
        [f"seed {result.seed}: {result.law}: {result.broken}" for result in campaign.failed],
    )


def _kill(part: Part, folder: Path, size: Size, seed: int, say: Say) -> None:
    tally = chaos(size.kills, seed, lambda text: say(f"chaos: {text.strip()}"), where=folder)
    part.tried = f"{tally.kills} kills -9, {tally.runs} runs to the end, {tally.witnessed} effects witnessed"
    names = ("kills", "with_keepers", "runs", "events", "events_lost", "effects_doubled", "effects_missing")
    part.figures = {name: getattr(tally, name) for name in names}
    part.wrong = tally.complaints if not tally.good else []


def _conform(part: Part, folder: Path, size: Size, seed: int, say: Say) -> None:
    say("journal: its laws, on this disk and in memory")
    count = conform(folder)
    part.tried = f"{count.laws} laws, each on SQLite on this disk and in memory"
    part.figures, part.wrong = {"laws": count.laws}, count.broken


def _storage(part: Part, folder: Path, size: Size, seed: int, say: Say) -> None:
    def progress(finished: int, of: int) -> None:
        if finished % 50 == 0 or finished == of:
            say(f"storage: {finished} of {of} faults")

    swept = sweep(folder, size.points, seed, progress)
    part.tried = f"{swept.points} faults of the disk in a run of {swept.events} events: {_by(swept.by_fault)}"
    names = ("points", "kept", "shorter", "refused", "unharmed")
    part.figures = {name: getattr(swept, name) for name in names}
    part.wrong = swept.wrong


def _by(counts: dict[str, int]) -> str:
    words = {"fail": "failed", "tear": "torn", "lose": "lost", "fill": "disk full"}
    return ", ".join(f"{counts.get(kind, 0)} {word}" for kind, word in words.items())


SEARCHES: dict[str, Search] = {
    "prove": _prove,
    "simulate": _simulate,
    "chaos": _kill,
    "journal": _conform,
    "storage": _storage,
}


def facts(trial: Trial) -> dict[str, Any]:
    """The results for programs."""
    parts = [{name: getattr(part, name) for name in part.__struct_fields__} for part in trial.parts]
    data = {name: getattr(trial, name) for name in trial.__struct_fields__ if name != "parts"}
    return {"good": trial.good, **data, "parts": parts}
