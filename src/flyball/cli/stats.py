"""`flyball stats`: what the runs did, how long it took, what it cost and what repeated itself."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import click

from flyball.cli import JSON, examples, open_records, print_json, repository_of, say
from flyball.domain.settings import SECOND, parse_duration
from flyball.errors import UserError

if TYPE_CHECKING:
    from flyball.views.metrics import Family

ALL = click.option("--all", "everywhere", is_flag=True, help="Include the runs of all repositories.")


@click.command(
    epilog=examples(
        "flyball stats",
        "flyball stats --since 7d --machine task",
        "flyball stats --all --json | jq .cost_per_outcome",
        "flyball stats --all --prometheus > flyball.prom",
    )
)
@ALL
@click.option("--machine", default=None, metavar="MACHINE", help="Only runs of this machine.")
@click.option(
    "--since", default="", metavar="WHEN", help="Only what happened since: 7d, yesterday or 2026-01-31."
)
@click.option("--prometheus", "as_prometheus", is_flag=True, help="Print the Prometheus text format.")
@click.option(
    "--otlp", "collector", default="", metavar="URL", help="Send the metrics to this OpenTelemetry collector."
)
@JSON
def stats(
    everywhere: bool, machine: str | None, since: str, as_prometheus: bool, collector: str, as_json: bool
) -> None:
    """Show turns, times, costs, repeats and recoveries of runs."""
    from flyball.runtime.facts import measures
    from flyball.views.metrics import families, prometheus
    from flyball.views.run_stats import facts, stats as added_up
    from flyball.views.stats_text import lines

    if as_json + as_prometheus + bool(collector) > 1:
        raise UserError("--json, --prometheus and --otlp exclude each other. Choose one.")
    now = time.time_ns() // 1000
    with open_records() as records:
        total = added_up(measures(records, place_of(everywhere), instant(since, now), now, machine))
        if collector:
            _send(collector, families(total))
        elif as_prometheus:
            click.echo(prometheus(families(total)), nl=False)
        elif as_json:
            print_json(facts(total))
        elif not total.jobs:
            say("There are no runs to count. `flyball ls --all` lists the runs of all repositories.")
        else:
            click.echo("\n".join(lines(total)))


def _send(collector: str, metrics: Sequence[Family]) -> None:
    from flyball.runtime.otel import send_metrics

    if not send_metrics(collector, metrics):
        raise UserError(
            f"{collector} did not take the metrics. Check that an OTLP/HTTP collector listens there."
        )
    say(f"Sent {len(metrics)} metrics.", err=True)


def place_of(everywhere: bool) -> str | None:
    """The repository whose runs are counted; None for all."""
    repo = None if everywhere else repository_of(Path.cwd())
    return str(repo) if repo else None


def instant(text: str, now: int) -> int:
    """The moment that a person means, in microseconds; 0 for no text."""
    if not text:
        return 0
    length = parse_duration(text)
    if length is not None:
        return now - length
    today = datetime.fromtimestamp(now / SECOND, UTC).astimezone()
    midnight = today.replace(hour=0, minute=0, second=0, microsecond=0)
    try:
        days = {"today": midnight, "yesterday": midnight - timedelta(days=1)}
        moment = days.get(text) or datetime.fromisoformat(text)
        return int(moment.astimezone().timestamp()) * SECOND
    except (ValueError, OverflowError, OSError):
        raise UserError(
            f"'{text}' is not a time. Use a duration such as 7d or 12h, today, yesterday, or a date such as 2026-01-31."
        ) from None
