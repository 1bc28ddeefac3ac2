"""`flyball simulate`: the production code under a virtual clock, in worlds that are made of a seed each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from flyball.cli.text import many, span
from flyball.cli.where import EXAMPLE, print_json
from flyball.machines import SHIPPED
from flyball.testing.campaign import Campaign, traced
from flyball.testing.campaign import simulate as play
from flyball.testing.coverage import Reach, reach
from flyball.testing.world import Told

SEEDS = 100
SHOWN = 40  # of what was never reached


@click.command(
    help="Play Flyball under a virtual clock, in worlds made of a seed each: agents that lie, hang and die, disks "
    "that fail, crashes at any append, limits, people, clock jumps. Every fact is judged as it becomes durable. The "
    "same seed gives the same journal, byte for byte. Exit code 1 if a law is broken."
    f"\n\n{EXAMPLE}flyball simulate --seeds 1000\n  flyball simulate --seed 42 --trace"
)
@click.option("--seeds", type=click.IntRange(min=1), metavar="N", help=f"How many ({SEEDS}; with --seed 1).")
@click.option("--seed", type=click.IntRange(min=0), metavar="S", help="The first one (0).")
@click.option("--machine", type=click.Choice(SHIPPED), metavar="M", help="Only runs of this machine.")
@click.option("--trace", is_flag=True, help="Print every event of every seed.")
@click.option("--json", "as_json", is_flag=True, help="Print facts for programs.")
def simulate(seeds: int | None, seed: int | None, machine: str | None, trace: bool, as_json: bool) -> int:
    first, count = seed or 0, seeds or (SEEDS if seed is None else 1)
    found = play(range(first, first + count), machine or "", _shown if trace and not as_json else _quiet)
    if as_json:
        print_json(facts(found, first))
    else:
        click.echo("\n".join(page(found, first)))
    return 0 if found.good else 1


def _quiet(told: Told) -> None:
    """Only what comes of it is shown."""


def _shown(told: Told) -> None:
    click.echo(f"seed {told.seed}")
    click.echo("\n".join(traced(told.lines)))


# ---- in words ----------------------------------------------------------------------------------------------------------


def page(found: Campaign, first: int) -> Iterator[str]:
    yield from (line for told in found.failed for line in _failure(told))
    last = first + found.seeds - 1
    yield f"{many(found.seeds, 'seed')} ({first} to {last}), {many(found.events, 'event')} in {found.took_s:.1f} s"
    virtual = f"{span(found.virtual_us)} of virtual time, {found.hours_a_minute:,} virtual hours a minute"
    yield f"{virtual}, {found.events_a_second:,} events a second"
    yield ""
    yield "how the runs ended"
    yield from (f"  {n:>6}  {end}" for end, n in found.coverage.ends.most_common() if n)
    yield ""
    yield "what was reached    state × outcome   state × fault   state × outcome × fault"
    reached = [reach(name, found.coverage) for name in SHIPPED]
    yield from (f"  {r.machine:<18}{_of(r.outcomes):<18}{_of(r.faults):<16}{_of(r.triples)}" for r in reached)
    yield from _missing(reached)
    yield ""
    yield "every law held" if found.good else f"FAILED: {', '.join(str(told.seed) for told in found.failed)}"


def _of(pair: tuple[int, int]) -> str:
    return f"{pair[0]} of {pair[1]}"


def _missing(reached: list[Reach]) -> Iterator[str]:
    yield ""
    yield "never reached"
    for kind in ("outcomes", "faults"):
        pairs = [pair for r in reached for pair in (r.no_outcomes if kind == "outcomes" else r.no_faults)]
        names = [f"{machine}.{state} × {what}" for machine, state, what in pairs]
        more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
        yield f"  {kind}: {', '.join(names[:SHOWN]) or 'none'}{more}"


def _failure(told: Told) -> Iterator[str]:
    yield f"seed {told.seed}: {told.law} is broken: {told.broken}"
    yield from traced(told.lines)
    yield from told.detail.splitlines()
    yield f"again: flyball simulate --seed {told.seed} --trace"
    yield ""


# ---- as facts ----------------------------------------------------------------------------------------------------------


def facts(found: Campaign, first: int) -> dict[str, Any]:
    return {
        "seeds": found.seeds,
        "first": first,
        "events": found.events,
        "virtual_hours": found.hours,
        "took_s": round(found.took_s, 3),
        "virtual_hours_a_minute": found.hours_a_minute,
        "ends": {end: n for end, n in found.coverage.ends.most_common() if n},
        "faults": dict(found.coverage.kinds.most_common()),
        "coverage": [_reached(reach(name, found.coverage)) for name in SHIPPED],
        "failed": [{"seed": told.seed, "law": told.law, "says": told.broken} for told in found.failed],
        "good": found.good,
    }


def _reached(r: Reach) -> dict[str, Any]:
    return {
        "machine": r.machine,
        **{name: list(getattr(r, name)) for name in ("outcomes", "faults", "triples")},
        "no_outcomes": [list(pair[1:]) for pair in r.no_outcomes],
        "no_faults": [list(pair[1:]) for pair in r.no_faults],
    }
