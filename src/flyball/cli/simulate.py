"""`flyball simulate`: the production code under a virtual clock, in worlds that are made of a seed each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from flyball.cli.where import EXAMPLE, print_json
from flyball.core.durations import elapsed
from flyball.lab.simulate.campaign import Campaign, aimed, traced
from flyball.lab.simulate.campaign import simulate as play
from flyball.lab.simulate.coverage import Reached, reach
from flyball.lab.simulate.fault_kinds import FAULTS
from flyball.lab.simulate.world import Told
from flyball.machines import SHIPPED
from flyball.views.text import many

SEEDS = 100
SHOWN = 40  # of what was never reached


@click.command(
    help="Play Flyball under a virtual clock, in worlds made of a seed each: agents that lie, hang and die, disks "
    "that fail, crashes at any append, limits, people, clock jumps. Most seeds aim for one of the states, outcomes and "
    "faults that `flyball prove` finds reachable; the rest go by lot. Every fact is judged as it becomes durable. The "
    "same seed gives the same journal, byte for byte. Exit code 1 if a law is broken."
    f"\n\n{EXAMPLE}flyball simulate --seeds 2000\n  flyball simulate --seed 42 --trace"
)
@click.option("--seeds", type=click.IntRange(min=1), metavar="N", help=f"How many ({SEEDS}; with --seed 1).")
@click.option("--seed", type=click.IntRange(min=0), metavar="S", help="The first one (0).")
@click.option("--machine", type=click.Choice(SHIPPED), metavar="M", help="Only runs of this machine.")
@click.option("--least", type=click.IntRange(0, 100), metavar="PERCENT", help="Fail if less was reached.")
@click.option("--trace", is_flag=True, help="Print every event of every seed.")
@click.option("--json", "as_json", is_flag=True, help="Print facts for programs.")
def simulate(
    seeds: int | None, seed: int | None, machine: str | None, least: int | None, trace: bool, as_json: bool
) -> int:
    first, count, only = seed or 0, seeds or (SEEDS if seed is None else 1), machine or ""
    watch = _shown(only) if trace and not as_json else _quiet
    found = play(range(first, first + count), only, watch)
    if as_json:
        print_json(facts(found, first, only))
    else:
        click.echo("\n".join(page(found, first, only)))
    return 0 if found.good and not _short(_reached(found, only), least or 0) else 1


def _quiet(told: Told) -> None:
    """Only what comes of it is shown."""


def _shown(machine: str) -> Any:
    def show(told: Told) -> None:
        click.echo(f"seed {told.seed}: {aimed(told.seed, machine)}")
        click.echo("\n".join(traced(told.lines)))

    return show


def _reached(found: Campaign, machine: str) -> list[Reached]:
    return [reach(name, found.coverage) for name in ([machine] if machine else SHIPPED)]


def _short(reached: list[Reached], least: int) -> list[str]:
    return [r.machine for r in reached if r.triples[0] * 100 < r.triples[1] * least]


# ---- in words ----------------------------------------------------------------------------------------------------------


def page(found: Campaign, first: int, machine: str = "") -> Iterator[str]:
    yield from (line for told in found.failed for line in _failure(told, machine))
    last = first + found.seeds - 1
    yield f"{many(found.seeds, 'seed')} ({first} to {last}), {many(found.events, 'event')} in {found.took_s:.1f} s"
    virtual = f"{elapsed(found.virtual_us)} of virtual time, {found.hours_a_minute:,} virtual hours a minute"
    yield f"{virtual}, {found.events_a_second:,} events a second"
    yield ""
    yield "how the runs ended"
    yield from (f"  {n:>6}  {end}" for end, n in found.coverage.ends.most_common() if n)
    yield ""
    reached = _reached(found, machine)
    yield "reached, of what `flyball prove` finds reachable"
    yield "          state × outcome     state × fault       state × outcome × fault"
    yield from (f"  {r.machine:<8}{_of(r.outcomes):<20}{_of(r.faults):<20}{_of(r.triples)}" for r in reached)
    yield from _missing(reached)
    yield ""
    yield "every law held" if found.good else f"FAILED: {', '.join(str(told.seed) for told in found.failed)}"


def _of(pair: tuple[int, int]) -> str:
    share = f"  {pair[0] * 100 / pair[1]:.1f} %" if pair[1] else ""
    return f"{pair[0]} of {pair[1]}{share}"


def _missing(reached: list[Reached]) -> Iterator[str]:
    """What was never reached: by state and outcome, with the faults that did not meet it."""
    yield ""
    yield "never reached"
    missing: dict[str, list[str]] = {}
    for machine, state, outcome in (pair for r in reached for pair in r.no_outcomes):
        missing[f"{machine} {state} × {outcome}"] = ["at all"]
    for machine, state, outcome, fault in (triple for r in reached for triple in r.no_triples):
        missing.setdefault(f"{machine} {state} × {outcome}", []).append(fault)
    lines = [
        f"  {where}: {'at all' if 'at all' in faults else ', '.join(faults)}"
        for where, faults in missing.items()
    ]
    yield from lines[:SHOWN] or ["  nothing"]
    if len(lines) > SHOWN:
        yield f"  and {len(lines) - SHOWN} more; `--json` lists them all"


def _failure(told: Told, machine: str) -> Iterator[str]:
    yield f"seed {told.seed}: {told.law} is broken: {told.broken}"
    yield from traced(told.lines)
    yield from told.detail.splitlines()
    only = f" --machine {machine}" if machine else ""
    yield f"again: flyball simulate --seed {told.seed}{only} --trace"
    yield ""


# ---- as facts ----------------------------------------------------------------------------------------------------------


def facts(found: Campaign, first: int, machine: str = "") -> dict[str, Any]:
    return {
        "seeds": found.seeds,
        "first": first,
        "events": found.events,
        "virtual_hours": found.hours,
        "took_s": round(found.took_s, 3),
        "virtual_hours_a_minute": found.hours_a_minute,
        "ends": {end: n for end, n in found.coverage.ends.most_common() if n},
        "faults": {name: found.coverage.kinds[name] for name in FAULTS},
        "coverage": [_counted(r) for r in _reached(found, machine)],
        "failed": [{"seed": told.seed, "law": told.law, "says": told.broken} for told in found.failed],
        "good": found.good,
    }


def _counted(r: Reached) -> dict[str, Any]:
    return {
        "machine": r.machine,
        **{name: list(getattr(r, name)) for name in ("outcomes", "faults", "triples")},
        "no_outcomes": [list(pair[1:]) for pair in r.no_outcomes],
        "no_faults": [list(pair[1:]) for pair in r.no_faults],
        "no_triples": [list(triple[1:]) for triple in r.no_triples],
    }
