"""`flyball agents`: which agents are installed, what they work on, and how their limit messages are read."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click
import msgspec

from flyball.cli.shared import (
    JSON,
    JSON_LINES,
    answer_lines,
    examples,
    group_of,
    open_records,
    print_json,
    print_table,
)
from flyball.core.durations import SECOND
from flyball.errors import AgentMissing
from flyball.views.text import agent_name, iso, one_line

if TYPE_CHECKING:
    from flyball.journal.records import Records
    from flyball.views.busy import Assignment

PROGRAMS = {
    "claude": "claude",
    "codex": "codex",
    "acp:gemini --acp": "gemini",
    "acp:opencode acp": "opencode",
}
COLUMNS = ("agent", "role", "run", "status", "state", "loop", "circuit", "next", "task")
ACTIVE = ("running", "waiting", "blocked", "paused")
RUNS_LIMIT = 200


@click.command(epilog=examples("flyball agents ls", "flyball agents ls --json"))
@JSON
def ls(as_json: bool = False) -> None:
    """List the agents and whether they can be used."""
    rows = [_listed(agent, program) for agent, program in PROGRAMS.items()]
    if as_json:
        print_json(
            [
                {"agent": agent, "program": path or None, "usable": not problem, "why": problem or None}
                for agent, path, problem in rows
            ]
        )
        return
    print_table([("agent", "program", ""), *((agent, path or "-", problem) for agent, path, problem in rows)])
    click.echo(
        "\nBuilt in: mechanic fixes small Python bugs by trying edits until the tests pass, without a model."
    )
    click.echo("Always available: script:FILE (plays a file) and command:COMMAND (runs any program).")


def _listed(agent: str, program: str) -> tuple[str, str, str]:
    """The agent, its program, and why it cannot be used, if so."""
    from flyball.agents.registry import adapter

    path = shutil.which(program) or ""
    try:
        return agent, path, "" if path and not adapter(agent).missing() else "not installed"
    except AgentMissing as problem:
        return agent, path, str(problem) if path else "not installed"


@click.command(epilog=examples("flyball agents busy"))
@JSON
def busy(as_json: bool) -> None:
    """List what each agent works on and which run it takes next."""
    with open_records() as records:
        rows = _assignments(records)
    if as_json:
        print_json([msgspec.to_builtins(row) for row in rows])
    elif not rows:
        click.echo('No agent is working. Start one with: flyball run "Fix the failing test"')
    else:
        print_table([COLUMNS, *(_cells(row) for row in rows)])


def _assignments(records: Records) -> list[Assignment]:
    from flyball.views.busy import assignments

    rows = [row for status in ACTIVE for row in records.journal.rows(status=status, limit=RUNS_LIMIT)]
    return assignments((records.read(row.run), records.driven(row.root or row.run)) for row in rows)


def _cells(row: Assignment) -> tuple[str, ...]:
    loop = f"{row.loop} ({row.no_progress} without progress)" if row.no_progress else str(row.loop)
    return (
        *(agent_name(row.agent) or "-", row.role or "-", row.run, row.status, f"{row.machine} · {row.state}"),
        *(loop, row.circuit, row.next or "-", one_line(row.task, 60)),
    )


@click.command(epilog=examples("flyball agents limit --json < messages.jsonl"))
@click.option("--zone", default="UTC", show_default=True, help="The time zone of times that name none.")
@JSON_LINES
def limit(zone: str, as_json: bool) -> None:
    """Read limit messages of agents from standard input.

    Each line is {id, agent, text, now}; each answer is {id, kind, reset_at}.
    """
    answer_lines(
        lambda row: _limit(row, zone), lambda name, _problem: {"id": name, "kind": None, "reset_at": None}
    )


def _limit(row: dict[str, Any], zone: str) -> dict[str, Any]:
    from flyball.agents.limit_text import read_limit

    text = msgspec.convert(row["text"], str)
    kind, reset = read_limit(str(row.get("agent", "")), text, _instant(row.get("now")), zone)
    return {"id": row.get("id"), "kind": kind, "reset_at": iso(reset) if reset is not None else None}


def _instant(value: Any) -> int:
    """Microseconds UTC from ISO text or seconds; now if there is no value."""
    if value is None:
        return int(datetime.now(UTC).timestamp()) * SECOND
    if isinstance(value, int | float) and not isinstance(value, bool):
        return int(value * SECOND)
    moment = datetime.fromisoformat(msgspec.convert(value, str))
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return int(moment.timestamp()) * SECOND


agents = group_of("agents", "List agents and what they are working on.", "flyball agents ls", ls, busy, limit)
