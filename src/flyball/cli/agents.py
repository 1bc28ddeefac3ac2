"""`flyball agents`: which agents are here, and how the limits that they report are read."""

from __future__ import annotations

import shutil
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click
import msgspec

from flyball.cli.where import EXAMPLE, json_lines, print_json, print_table
from flyball.errors import AgentMissing
from flyball.views.text import one_line

if TYPE_CHECKING:
    from flyball.runtime.app import App
    from flyball.views.busy import Part

LISTED = {
    "claude": "claude",
    "codex": "codex",
    "acp:gemini --acp": "gemini",
    "acp:opencode acp": "opencode",
}
SECOND_US = 1_000_000
PARTS = ("agent", "role", "run", "status", "state", "loop", "circuit", "next", "task")
GOING = ("running", "waiting", "blocked", "paused")
RUNS_MOST = 200


@click.group(
    invoke_without_command=True,
    help=f"Agents: what is here, and how what they say is read.\n\n{EXAMPLE}flyball agents ls",
)
@click.pass_context
def agents(ctx: click.Context) -> None:
    if ctx.invoked_subcommand is None:
        ctx.invoke(ls)


@agents.command(help=f"List the agents and whether they are installed.\n\n{EXAMPLE}flyball agents ls --json")
@click.option("--json", "as_json", is_flag=True, help="Print facts for programs.")
def ls(as_json: bool = False) -> None:
    rows = [_listed(agent, program) for agent, program in LISTED.items()]
    if as_json:
        print_json(
            [
                {"agent": agent, "program": path or None, "usable": not why, "why": why or None}
                for agent, path, why in rows
            ]
        )
        return
    print_table([("agent", "program", ""), *((agent, path or "-", why) for agent, path, why in rows)])
    click.echo(
        "\nBuilt in: mechanic repairs small Python bugs by trying edits until the tests pass, without a model."
    )
    click.echo("Also: script:FILE plays a file, command:COMMAND runs any program.")


def _listed(agent: str, program: str) -> tuple[str, str, str]:
    """The agent, its program, and why it cannot be used, if it cannot."""
    from flyball.agents.registry import adapter

    path = shutil.which(program) or ""
    try:
        return agent, path, "" if path and not adapter(agent).missing() else "not installed"
    except AgentMissing as told:
        return agent, path, str(told) if path else "not installed"


@agents.command(
    help=f"Who works on what, in which loop state, and who takes what is next.\n\n{EXAMPLE}flyball agents busy"
)
@click.option("--json", "as_json", is_flag=True, help="Print facts for programs.")
def busy(as_json: bool) -> None:
    from flyball.cli.runs import open_house

    with open_house() as app:
        parts = _parts(app)
    if as_json:
        print_json([msgspec.to_builtins(part) for part in parts])
    elif not parts:
        click.echo(
            'No agent works now, and none has work waiting. Start one: flyball run "Fix the failing test".'
        )
    else:
        print_table([PARTS, *(_cells(part) for part in parts)])


def _parts(app: App) -> list[Part]:
    from flyball.views.busy import orchestra

    rows = [row for status in GOING for row in app.journal.rows(status=status, limit=RUNS_MOST)]
    return orchestra((app.read(row.run), app.driven(row.root or row.run)) for row in rows)


def _cells(part: Part) -> tuple[str, ...]:
    loop = f"{part.loop} ({part.no_progress} idle)" if part.no_progress else str(part.loop)
    place = f"{part.machine} · {part.state}"
    return (
        *(
            one_line(part.agent, 30) or "-",
            part.role or "-",
            part.run,
            part.status,
            place,
            loop,
            part.circuit,
        ),
        *(part.next or "-", one_line(part.task, 60)),
    )


@agents.command(
    help=f"Read what agents report of limits: {{id, agent, text, now}}.\n\n{EXAMPLE}flyball agents limit --json < messages.jsonl"
)
@click.option("--zone", default="UTC", show_default=True, help="The time zone of clock times that name none.")
@click.option("--json", "as_json", is_flag=True, help="JSON lines; there is no other form.")
def limit(zone: str, as_json: bool) -> None:
    bad = False
    for number, row in json_lines(sys.stdin.buffer):
        try:
            answer = _read(row if isinstance(row, dict) else {}, zone)
            problem = row if isinstance(row, str) else ""
        except (KeyError, TypeError, ValueError, OverflowError, msgspec.MsgspecError) as broken:
            told = f"it lacks {broken}" if isinstance(broken, KeyError) else str(broken)
            answer, problem = {}, f"Line {number} cannot be read: {told}."
        if problem:
            bad = True
            click.echo(f"flyball: {problem}", err=True)
            answer = {"id": row.get("id") if isinstance(row, dict) else None, "kind": None, "reset_at": None}
        click.echo(msgspec.json.encode(answer))
    sys.exit(2 if bad else 0)


def _read(row: dict[str, Any], zone: str) -> dict[str, Any]:
    from flyball.agents.limit_text import read_limit

    if not row:
        return {}
    words = msgspec.convert(row["text"], str)
    kind, reset = read_limit(str(row.get("agent", "")), words, _instant(row.get("now")), zone)
    return {"id": row.get("id"), "kind": kind, "reset_at": iso(reset) if reset is not None else None}


def _instant(given: Any) -> int:
    """Microseconds UTC from ISO text or seconds; this moment where nothing is given."""
    if given is None:
        return int(datetime.now(UTC).timestamp()) * SECOND_US
    if isinstance(given, int | float) and not isinstance(given, bool):
        return int(given * SECOND_US)
    moment = datetime.fromisoformat(msgspec.convert(given, str))
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return int(moment.timestamp()) * SECOND_US


def iso(us: int) -> str:
    """An instant as ISO UTC, without a fraction where there is none."""
    return datetime.fromtimestamp(us / SECOND_US, UTC).isoformat().replace("+00:00", "Z")
