"""`flyball simulate`: run the production code under a virtual clock, in a world made from a seed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from flyball.cli import JSON, examples, print_json
from flyball.domain.settings import elapsed
from flyball.lab.simulate.campaign import Campaign, aimed, simulate as play, traced
from flyball.lab.simulate.coverage import CoverageShare, reach
from flyball.lab.simulate.fault_kinds import FAULTS
from flyball.lab.simulate.world import SeedResult
from flyball.machines import SHIPPED
from flyball.views.text import plural

SEEDS = 100
SHOWN = 40  # of what was never reached


@click.command(epilog=examples("flyball simulate --seeds 200", "flyball simulate --seed 42 --trace"))
@click.option(
    "--seeds",
    type=click.IntRange(min=1),
    metavar="N",
    help=f"The number of seeds (default: {SEEDS}; 1 with --seed).",
)
@click.option("--seed", type=click.IntRange(min=0), metavar="S", help="The first seed (default: 0).")
@click.option("--machine", type=click.Choice(SHIPPED), metavar="M", help="Only simulate this machine.")
@click.option("--least", type=click.IntRange(0, 100), metavar="PERCENT", help="Fail below this coverage.")
@click.option("--trace", is_flag=True, help="Print every event.")
@click.option("--week", is_flag=True, help="A week of `flyball up` instead: tasks of all kinds, one report.")
@JSON
def simulate(
    seeds: int | None,
    seed: int | None,
    machine: str | None,
    least: int | None,
    trace: bool,
    week: bool,
    as_json: bool,
) -> int:
    """Simulate runs under random faults and check Flyball's laws.

    Agents lie, hang and die, disks fail, processes crash, limits run out and clocks jump. Most seeds aim for one of
    the states, outcomes and faults that `flyball prove` can reach. The same seed gives the same journal, byte for byte.

    Exit code 1 if a law is broken; with --week also if a state, transition, trigger, question or answer of the standing
    loop was never taken.
    """
    if week:
        return _week(trace)
    first, count, only = seed or 0, seeds or (SEEDS if seed is None else 1), machine or ""
    watch = _shown(only) if trace and not as_json else _quiet
    campaign = play(range(first, first + count), only, watch)
    if as_json:
        print_json(facts(campaign, first, only))
    else:
        click.echo("\n".join(page(campaign, first, only)))
    return 0 if campaign.good and not _short(_reached(campaign, only), least or 0) else 1


def _week(trace: bool) -> int:
    from flyball.lab.simulate.week import Week, missing, page as week_page

    week = Week()
    result = week.play()
    click.echo("\n".join((*(traced(result.lines) if trace else ()), *week_page(week, result))))
    return 1 if result.broken or missing(week) else 0


def _quiet(world: SeedResult) -> None:
    """Print nothing until the end."""


def _shown(machine: str) -> Any:
    def show(world: SeedResult) -> None:
        click.echo(f"seed {world.seed}: {aimed(world.seed, machine)}")
        click.echo("\n".join(traced(world.lines)))

    return show


def _reached(campaign: Campaign, machine: str) -> list[CoverageShare]:
    return [reach(name, campaign.coverage) for name in ([machine] if machine else SHIPPED)]


def _short(reached: list[CoverageShare], least: int) -> list[str]:
    return [r.machine for r in reached if r.triples[0] * 100 < r.triples[1] * least]


# ---- as text ----------------------------------------------------------------------------------------------------------


def page(campaign: Campaign, first: int, machine: str = "") -> Iterator[str]:
    yield from (line for world in campaign.failed for line in _failure(world, machine))
    last = first + campaign.seeds - 1
    yield f"{plural(campaign.seeds, 'seed')} ({first} to {last}), {plural(campaign.events, 'event')} in {campaign.took_s:.1f} s"
    virtual = f"{elapsed(campaign.virtual_us)} of virtual time, {campaign.hours_a_minute:,} virtual hours per minute"
    yield f"{virtual}, {campaign.events_a_second:,} events a second"
    yield ""
    yield "How the runs ended:"
    yield from (f"  {n:>6}  {end}" for end, n in campaign.coverage.ends.most_common() if n)
    yield ""
    reached = _reached(campaign, machine)
    yield "Coverage of what `flyball prove` can reach:"
    yield "          state × outcome     state × fault       state × outcome × fault"
    yield from (f"  {r.machine:<8}{_of(r.outcomes):<20}{_of(r.faults):<20}{_of(r.triples)}" for r in reached)
    yield from _missing(reached)
    yield ""
    yield (
        "All laws held."
        if campaign.good
        else f"FAILED: {', '.join(str(world.seed) for world in campaign.failed)}"
    )


def _of(pair: tuple[int, int]) -> str:
    share = f"  {pair[0] * 100 / pair[1]:.1f} %" if pair[1] else ""
    return f"{pair[0]} of {pair[1]}{share}"


def _missing(reached: list[CoverageShare]) -> Iterator[str]:
    """State and outcome that were not covered, or the faults that did not occur there."""
    yield ""
    yield "Not covered:"
    missing: dict[str, list[str]] = {}
    for machine, state, outcome in (pair for r in reached for pair in r.no_outcomes):
        missing[f"{machine} {state} × {outcome}"] = ["never reached"]
    for machine, state, outcome, fault in (triple for r in reached for triple in r.no_triples):
        missing.setdefault(f"{machine} {state} × {outcome}", []).append(fault)
    lines = [
        f"  {where}: {'never reached' if 'never reached' in faults else ', '.join(faults)}"
        for where, faults in missing.items()
    ]
    yield from lines[:SHOWN] or ["  nothing"]
    if len(lines) > SHOWN:
        yield f"  and {len(lines) - SHOWN} more (--json lists all)"


def _failure(world: SeedResult, machine: str) -> Iterator[str]:
    yield f"seed {world.seed}: {world.law} is broken: {world.broken}"
    yield from traced(world.lines)
    yield from world.detail.splitlines()
    only = f" --machine {machine}" if machine else ""
    yield f"Run it again: flyball simulate --seed {world.seed}{only} --trace"
    yield ""


# ---- as facts ----------------------------------------------------------------------------------------------------------


def facts(campaign: Campaign, first: int, machine: str = "") -> dict[str, Any]:
    return {
        "seeds": campaign.seeds,
        "first": first,
        "events": campaign.events,
        "virtual_hours": campaign.hours,
        "took_s": round(campaign.took_s, 3),
        "virtual_hours_a_minute": campaign.hours_a_minute,
        "ends": {end: n for end, n in campaign.coverage.ends.most_common() if n},
        "faults": {name: campaign.coverage.kinds[name] for name in FAULTS},
        "coverage": [_counted(r) for r in _reached(campaign, machine)],
        "failed": [{"seed": world.seed, "law": world.law, "says": world.broken} for world in campaign.failed],
        "good": campaign.good,
    }


def _counted(r: CoverageShare) -> dict[str, Any]:
    return {
        "machine": r.machine,
        **{name: list(getattr(r, name)) for name in ("outcomes", "faults", "triples")},
        "no_outcomes": [list(pair[1:]) for pair in r.no_outcomes],
        "no_faults": [list(pair[1:]) for pair in r.no_faults],
        "no_triples": [list(triple[1:]) for triple in r.no_triples],
    }
