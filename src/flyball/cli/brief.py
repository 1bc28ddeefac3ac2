"""`flyball brief`: what was done, what it cost and what waits for a person, as Markdown."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

import click

from flyball.cli import JSON, examples, is_fancy, open_records, print_json, say
from flyball.cli.stats import ALL, instant, place_of
from flyball.domain.settings import parse_duration

if TYPE_CHECKING:
    from flyball.journal.records import Records
    from flyball.views.daily_brief import Waiting


@click.command(epilog=examples("flyball brief", "flyball brief --all --since 7d > brief.md"))
@ALL
@click.option(
    "--since", default="yesterday", show_default=True, metavar="WHEN", help="7d, 12h, today or 2026-01-31."
)
@JSON
def brief(everywhere: bool, since: str, as_json: bool) -> None:
    """Say what was done, what it cost and what waits for you."""
    from flyball.runtime.facts import measures
    from flyball.views.daily_brief import facts, lines
    from flyball.views.run_stats import stats

    now = time.time_ns() // 1000
    begin = instant(since, now)
    with open_records() as records:
        total = stats(measures(records, place_of(everywhere), begin, now))
        waiting = _waiting(records, everywhere)
    if as_json:
        print_json(facts(total, waiting, begin, now))
    else:
        text = lines(total, waiting, begin, now, _frame(since))
        if is_fancy():
            _print(text)
        else:
            say("\n".join(text))


def _frame(since: str) -> str:
    words = {"yesterday": "Since yesterday", "today": "Today"}
    return words.get(since, f"The last {since}" if parse_duration(since) is not None else "")


def _print(lines: list[str]) -> None:
    """The Markdown, for a terminal: headings bold, without the marks."""
    for line in lines:
        plain = re.sub(r"\\([\\`*_\[\]<>#|!])", r"\1", re.sub(r"(?<!\\)\*\*", "", line))
        if line.startswith("#"):
            click.echo(click.style(plain.lstrip("# "), bold=True))
        else:
            say(plain)


def _waiting(records: Records, everywhere: bool) -> list[Waiting]:
    """The open questions, oldest first, whenever they were asked."""
    from flyball.views import reasons
    from flyball.views.daily_brief import Waiting

    rows = records.journal.rows(repo=place_of(everywhere), open_question=True)
    runs = [records.read(row.run) for row in reversed(rows)]
    return [
        Waiting(
            run=run.began.root or run.id,
            question=run.question.id,
            task=run.task,
            what=reasons.happened(run.stop, run.state),
            how=reasons.how_to_answer(run.question),
            since=run.at,
        )
        for run in runs
        if run.question and run.stop
    ]
