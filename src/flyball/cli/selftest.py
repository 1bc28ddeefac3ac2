"""`selftest`: Flyball tried against itself on this machine, offline."""

from __future__ import annotations

import random

import click

from flyball.cli.runs import print_json
from flyball.cli.text import many
from flyball.selftest.chaos import LANES, Tally, facts
from flyball.selftest.chaos import chaos as run_chaos


@click.group(
    epilog="""\b
Example:
  flyball selftest chaos --kills 50"""
)
def selftest() -> None:
    """Try Flyball against itself on this machine: offline, in a folder of its own."""


@selftest.command(
    epilog="""\b
Examples:
  flyball selftest chaos
  flyball selftest chaos --kills 1000 --seed 7 --json"""
)
@click.option("--kills", default=50, show_default=True, metavar="N", help="How many.")
@click.option(
    "--seed", type=int, default=None, metavar="S", help="Which runs, and when; random unless given."
)
@click.option("--keep", is_flag=True, help="Leave the folder with its journals in place.")
@click.option("--json", "as_json", is_flag=True, help="Print one object; progress goes to stderr.")
def chaos(kills: int, seed: int | None, keep: bool, as_json: bool) -> int:
    """Kill a real supervisor with -9 at random instants, resume it, and count what was lost or done twice.

    Runs of every kind (build, loop, review, task; limits, questions) are played by scripts. Exit code 0 only if
    no event was lost, no effect doubled, and every run ended as it does undisturbed.
    """
    if kills < 1:
        raise click.BadParameter("at least one kill is needed.", param_hint="--kills")
    chosen = random.randrange(1 << 32) if seed is None else seed
    tally = run_chaos(kills, chosen, lambda text: click.echo(text, err=True), keep)
    if as_json:
        print_json(facts(tally))
    else:
        click.echo("\n".join(_page(tally)))
    return 0 if tally.good else 1


def _page(seen: Tally) -> list[str]:
    """One page: what was done, what must be zero, how fast."""
    return [
        "",
        f"{many(seen.kills, 'kill')} of a real supervisor, {seen.with_keepers} of them with the keepers of its acts",
        f"{LANES} at a time, seed {seen.seed}",
        f"{many(seen.runs, 'run')} to the end, {many(seen.events, 'event')} in the journals:",
        *(f"  {count:>4}  {name}" for name, count in sorted(seen.plots.items())),
        "",
        f"  events lost           {seen.events_lost:>5}   of {seen.acknowledged} heads read before the kills",
        f"  effects doubled       {seen.effects_doubled:>5}   of {seen.witnessed} witnessed from outside",
        f"  effects missing       {seen.effects_missing:>5}",
        f"  effects unannounced   {seen.effects_unannounced:>5}",
        f"  other ends            {seen.other_ends:>5}   of {seen.runs} runs, each held against the undisturbed one",
        f"  journal faults        {seen.faults:>5}",
        "",
        f"  acts interrupted, said so and begun anew: {seen.interrupted}",
        f"  loose ends that `flyball check` names: {_loose(seen)}",
        f"  {seen.took_s:.0f} s, {seen.kills_a_minute} kills a minute",
        "",
        "passed" if seen.good else "FAILED",
        *(f"  {complaint}" for complaint in seen.complaints),
    ]


def _loose(seen: Tally) -> str:
    return ", ".join(f"{count} {kind}" for kind, count in sorted(seen.loose_ends.items())) or "none"
