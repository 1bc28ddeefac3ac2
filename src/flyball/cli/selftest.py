"""`flyball selftest`: test Flyball on this computer, offline."""

from __future__ import annotations

import random
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import click

from flyball.cli import JSON, examples, print_json
from flyball.errors import UserError
from flyball.lab.selftest.chaos import LANES, Tally, chaos as run_chaos, facts
from flyball.lab.selftest.searches import QUICK, USUAL, Part, Trial, facts as trial_facts, trial
from flyball.lab.selftest.storage import SweepResult, sweep
from flyball.runtime.app import App
from flyball.views.text import plural

SHOWN = 8  # of what went wrong in one part


@click.group(
    invoke_without_command=True,
    epilog=examples(
        "flyball selftest --quick",
        "flyball selftest --report selftest.txt",
        "flyball selftest chaos --kills 50",
    ),
)
@click.option("--quick", is_flag=True, help="A shorter test.")
@click.option("--seed", type=int, default=None, metavar="S", help="The random seed (default: random).")
@click.option(
    "--report", type=click.Path(path_type=Path), metavar="FILE", help="Also write the report to a file."
)
@JSON
@click.pass_context
def selftest(ctx: click.Context, quick: bool, seed: int | None, report: Path | None, as_json: bool) -> int:
    """Test Flyball on this computer and disk, in about two minutes.

    Proves the machines, simulates runs, kills a real process, checks the journal and injects disk faults, in a folder
    next to the state directory.

    Exit code 0 only if everything passed.
    """
    if ctx.invoked_subcommand is not None:
        return 0
    result = trial(App().state_dir, QUICK if quick else USUAL, _progress(), seed)
    text = "\n".join(page(result))
    if report is not None:
        _write(report, text)
    if as_json:
        print_json(trial_facts(result))
    else:
        click.echo(text)
    return 0 if result.good else 1


def _progress() -> Callable[[str], None]:
    """On a terminal one line that is replaced; in a pipe one line each."""
    if not sys.stderr.isatty():
        return lambda text: click.echo(text, err=True)
    return lambda text: click.echo(f"\r\x1b[K{text[:100]}", err=True, nl=False)


def _write(file: Path, text: str) -> None:
    try:
        file.write_text(text + "\n", "utf-8")
    except OSError as problem:
        raise UserError(f"Cannot write {file}: {problem.strerror}. Choose another file.") from None


def page(result: Trial) -> Iterator[str]:
    """What was tested and with what result, and the computer."""
    if sys.stderr.isatty():
        click.echo("\r\x1b[K", err=True, nl=False)
    yield f"Self-test {'passed' if result.good else 'FAILED'} in {result.took_s:.0f} s (seed {result.seed})"
    yield ""
    yield from (line for part in result.parts for line in _part(part))
    yield "computer"
    yield from (f"  {name:<12} {value}" for name, value in result.machine.items())
    yield f"  {'disk':<12} {result.sync_us} µs to write and sync a page (median)"
    if result.kept:
        yield from ("", f"The files are kept in {result.kept}.")


def _part(part: Part) -> Iterator[str]:
    yield f"{part.name:<10} {'passed' if part.held else 'FAILED':<7} {part.took_s:>4.0f} s"
    yield from textwrap.wrap(part.tried, 100, initial_indent="  ", subsequent_indent="  ")
    plain = {name: value for name, value in part.figures.items() if isinstance(value, int)}
    figures = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in plain.items())
    yield from textwrap.wrap(figures, 100, initial_indent="  ", subsequent_indent="  ")
    yield from (f"  ! {what}" for what in part.wrong[:SHOWN])
    if len(part.wrong) > SHOWN:
        yield f"  ! and {len(part.wrong) - SHOWN} more"
    yield ""


@selftest.command(
    epilog=examples("flyball selftest storage", "flyball selftest storage --points 200 --seed 7 --json")
)
@click.option(
    "--points", type=click.IntRange(min=1), metavar="N", help="The number of faults (default: all)."
)
@click.option("--seed", type=int, default=0, show_default=True, metavar="S", help="The random seed.")
@JSON
def storage(points: int | None, seed: int, as_json: bool) -> int:
    """Let every write and sync of a run fail, tear, get lost or hit a full disk.

    After each fault the journal must hold a prefix of what was acknowledged, or be refused with a clear message.
    """
    say = _progress()
    with tempfile.TemporaryDirectory(prefix="flyball-storage-") as folder:
        swept = sweep(Path(folder), points, seed, lambda done, of: _counted(say, done, of))
    if as_json:
        print_json({"good": swept.good, **{name: getattr(swept, name) for name in swept.__struct_fields__}})
    else:
        click.echo("\n".join(_swept(swept)))
    return 0 if swept.good else 1


def _counted(say: Callable[[str], None], count: int, of: int) -> None:
    if count % 200 == 0 or count == of:
        say(f"{count} of {of} faults")


def _swept(swept: SweepResult) -> Iterator[str]:
    operations = ", ".join(plural(count, kind) for kind, count in sorted(swept.deeds.items()))
    yield ""
    yield f"A run of {swept.events} events ({operations}), {plural(swept.points, 'fault')}"
    yield f"  nothing lost                     {swept.kept:>5}   ({swept.unharmed} without effect)"
    yield f"  disk lost data, prefix remains   {swept.shorter:>5}"
    yield f"  disk lost data, journal refused  {swept.refused:>5}"
    yield f"  anything else (must be 0)        {len(swept.wrong):>5}"
    yield ""
    yield "passed" if swept.good else "FAILED"
    yield from (f"  {what}" for what in swept.wrong[:SHOWN])


@selftest.command(
    epilog=examples("flyball selftest chaos", "flyball selftest chaos --kills 1000 --seed 7 --json")
)
@click.option("--kills", default=50, show_default=True, metavar="N", help="The number of kills.")
@click.option("--seed", type=int, default=None, metavar="S", help="The random seed (default: random).")
@click.option("--keep", is_flag=True, help="Keep the folder with its journals.")
@JSON
def chaos(kills: int, seed: int | None, keep: bool, as_json: bool) -> int:
    """Kill real runs with -9 at random moments and count what was lost.

    Scripted runs of all kinds are killed and resumed. Exit code 0 only if no event was lost, nothing was done twice,
    and every run ended as it does without kills.
    """
    if kills < 1:
        raise click.BadParameter("at least one kill is needed.", param_hint="--kills")
    seed_ = random.randrange(1 << 32) if seed is None else seed
    tally = run_chaos(kills, seed_, lambda text: click.echo(text, err=True), keep)
    if as_json:
        print_json(facts(tally))
    else:
        click.echo("\n".join(_page(tally)))
    return 0 if tally.good else 1


def _page(tally: Tally) -> list[str]:
    """What was done, what must be zero, how fast."""
    return [
        "",
        f"{plural(tally.kills, 'kill')} of a real process, {tally.with_keepers} of them with the keepers of its agents",
        f"{LANES} runs at a time, seed {tally.seed}",
        f"{plural(tally.runs, 'run')} to the end, {plural(tally.events, 'event')} in the journals:",
        *(f"  {count:>4}  {name}" for name, count in sorted(tally.plots.items())),
        "",
        f"  events lost           {tally.events_lost:>5}   of {tally.acknowledged} read before the kills",
        f"  effects doubled       {tally.effects_doubled:>5}   of {tally.witnessed} observed from outside",
        f"  effects missing       {tally.effects_missing:>5}",
        f"  effects unannounced   {tally.effects_unannounced:>5}",
        f"  different results     {tally.other_ends:>5}   of {tally.runs} runs, compared with runs without kills",
        f"  journal faults        {tally.faults:>5}",
        "",
        f"  acts interrupted and restarted: {tally.interrupted}",
        f"  leftovers that `flyball check` lists: {_loose(tally)}",
        f"  {tally.took_s:.0f} s, {tally.kills_a_minute} kills per minute",
        "",
        "passed" if tally.good else "FAILED",
        *(f"  {complaint}" for complaint in tally.complaints),
    ]


def _loose(tally: Tally) -> str:
    return ", ".join(f"{count} {kind}" for kind, count in sorted(tally.loose_ends.items())) or "none"
