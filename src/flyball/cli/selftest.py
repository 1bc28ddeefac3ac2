"""`selftest`: Flyball tried against itself on this machine, offline."""

from __future__ import annotations

import random
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import click

from flyball.cli.runs import print_json
from flyball.errors import UserError
from flyball.lab.selftest.chaos import LANES, Tally, facts
from flyball.lab.selftest.chaos import chaos as run_chaos
from flyball.lab.selftest.storage import Swept, sweep
from flyball.lab.selftest.trial import QUICK, USUAL, Part, Trial, trial
from flyball.lab.selftest.trial import facts as trial_facts
from flyball.runtime.app import App
from flyball.views.text import many

SHOWN = 8  # of what went wrong in one part


@click.group(
    invoke_without_command=True,
    epilog="""\b
Examples:
  flyball selftest
  flyball selftest --quick --report selftest.txt
  flyball selftest chaos --kills 50""",
)
@click.option("--quick", is_flag=True, help="Try little of everything.")
@click.option(
    "--seed", type=int, default=None, metavar="S", help="Which worlds, kills and faults; random unless given."
)
@click.option(
    "--report", type=click.Path(path_type=Path), metavar="FILE", help="Write the page to this file, too."
)
@click.option("--json", "as_json", is_flag=True, help="Print one object; progress goes to stderr.")
@click.pass_context
def selftest(ctx: click.Context, quick: bool, seed: int | None, report: Path | None, as_json: bool) -> int:
    """Try Flyball against itself on this machine and this disk: offline, in a folder of its own, in two minutes.

    The machines are proved, seeded worlds are played, a real supervisor is killed, the journal's laws are checked,
    and faults of the disk are tried, beside the state directory. Exit code 0 only if everything held.
    """
    if ctx.invoked_subcommand is not None:
        return 0
    found = trial(App().state_dir, QUICK if quick else USUAL, _progress(), seed)
    text = "\n".join(page(found))
    if report is not None:
        _write(report, text)
    if as_json:
        print_json(trial_facts(found))
    else:
        click.echo(text)
    return 0 if found.good else 1


def _progress() -> Callable[[str], None]:
    """On a terminal one line that changes; in a pipe a line each."""
    if not sys.stderr.isatty():
        return lambda text: click.echo(text, err=True)
    return lambda text: click.echo(f"\r\x1b[K{text[:100]}", err=True, nl=False)


def _write(file: Path, text: str) -> None:
    try:
        file.write_text(text + "\n", "utf-8")
    except OSError as problem:
        raise UserError(f"{file} cannot be written: {problem.strerror}. Choose another place.") from None


def page(found: Trial) -> Iterator[str]:
    """What was tried, how many, what held; on what."""
    if sys.stderr.isatty():
        click.echo("\r\x1b[K", err=True, nl=False)
    yield f"Flyball's self-test, seed {found.seed}: {'everything held' if found.good else 'FAILED'}"
    yield f"{found.took_s:.0f} s"
    yield ""
    yield from (line for part in found.parts for line in _part(part))
    yield "on"
    yield from (f"  {name:<12} {value}" for name, value in found.machine.items())
    yield f"  {'disk':<12} a page written and synced takes {found.sync_us} µs (median)"
    if found.kept:
        yield from ("", f"Everything is kept in {found.kept}.")


def _part(part: Part) -> Iterator[str]:
    yield f"{part.name:<10} {'held' if part.held else 'FAILED':<7} {part.took_s:>4.0f} s"
    yield from textwrap.wrap(part.tried, 100, initial_indent="  ", subsequent_indent="  ")
    plain = {name: value for name, value in part.figures.items() if isinstance(value, int)}
    told = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in plain.items())
    yield from textwrap.wrap(told, 100, initial_indent="  ", subsequent_indent="  ")
    yield from (f"  ! {what}" for what in part.wrong[:SHOWN])
    if len(part.wrong) > SHOWN:
        yield f"  ! and {len(part.wrong) - SHOWN} more"
    yield ""


@selftest.command(
    epilog="""\b
Examples:
  flyball selftest storage
  flyball selftest storage --points 200 --seed 7 --json"""
)
@click.option("--points", type=click.IntRange(min=1), metavar="N", help="How many; all unless given.")
@click.option(
    "--seed", type=int, default=0, show_default=True, metavar="S", help="Which, and what a power cut leaves."
)
@click.option("--json", "as_json", is_flag=True, help="Print one object; progress goes to stderr.")
def storage(points: int | None, seed: int, as_json: bool) -> int:
    """Let every write and every sync of a 200-event run fail, tear, be lost, or find the disk full.

    Real SQLite on a disk of ours. Each fault must leave a prefix of what was acknowledged, or a refusal in a sentence.
    """
    say = _progress()
    with tempfile.TemporaryDirectory(prefix="flyball-storage-") as folder:
        swept = sweep(Path(folder), points, seed, lambda done, of: _counted(say, done, of))
    if as_json:
        print_json({"good": swept.good, **{name: getattr(swept, name) for name in swept.__struct_fields__}})
    else:
        click.echo("\n".join(_swept(swept)))
    return 0 if swept.good else 1


def _counted(say: Callable[[str], None], done: int, of: int) -> None:
    if done % 200 == 0 or done == of:
        say(f"{done} of {of} faults")


def _swept(swept: Swept) -> Iterator[str]:
    deeds = ", ".join(many(count, kind) for kind, count in sorted(swept.deeds.items()))
    yield ""
    yield f"a run of {swept.events} events: {deeds}; {many(swept.points, 'fault')}"
    yield f"  everything acknowledged was there   {swept.kept:>5}   ({swept.unharmed} came to nothing)"
    yield f"  the disk lied, a prefix is left     {swept.shorter:>5}"
    yield f"  the disk lied, and it is refused    {swept.refused:>5}"
    yield f"  anything else                       {len(swept.wrong):>5}"
    yield ""
    yield "passed" if swept.good else "FAILED"
    yield from (f"  {what}" for what in swept.wrong[:SHOWN])


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
