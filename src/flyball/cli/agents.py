"""`flyball agents`: which agents are installed, what they work on, and how their limit messages are read."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path
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
from flyball.domain.durations import SECOND
from flyball.errors import AgentMissing
from flyball.views.text import agent_name, iso, one_line

if TYPE_CHECKING:
    from flyball.agents.adapter import AgentResult
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

    Each line is {id, agent, text, now}; each answer is {id, kind, reset_at}. Add wordings of your own in limits.toml
    beside the user configuration: plan_limit = ["your seat has no tokens left"].
    """
    from flyball.agents import own_wordings

    if own_wordings.file().exists():
        own_wordings.parse(own_wordings.file().read_text("utf-8"))
    answer_lines(
        lambda row: _limit(row, zone), lambda name, _problem: {"id": name, "kind": None, "reset_at": None}
    )


def _limit(row: dict[str, Any], zone: str) -> dict[str, Any]:
    from flyball.agents.limit_text import read_limit

    text = msgspec.convert(row["text"], str)
    kind, reset = read_limit(str(row.get("agent", "")), text, _instant(row.get("now")), zone)
    return {"id": row.get("id"), "kind": kind, "reset_at": iso(reset) if reset is not None else None}


@click.command(
    epilog=examples(
        "flyball agents read claude stream.jsonl --exit 1",
        "flyball agents read codex stream.jsonl --stderr stderr.txt --exit 0 --json",
    )
)
@click.argument("name", metavar="NAME")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path))
@click.option(
    "--stderr",
    "err",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="What it wrote there.",
)
@click.option(
    "--exit", "code", default=0, show_default=True, help="Its exit code; a signal as a negative number."
)
@click.option("--now", help="When it ended, for reset times such as 3pm; now if not given.")
@click.option("--zone", default="UTC", show_default=True, help="The time zone of times that name none.")
@JSON
def read(
    name: str, file: Path, err: Path | None, code: int, now: str | None, zone: str, as_json: bool
) -> None:
    """Read the recorded output FILE of the agent NAME and print its result.

    NAME is claude, codex, gemini, opencode, acp, or the program of a command agent (aider, mini …).
    """
    from flyball.agents.outcome import read_result
    from flyball.agents.process import Exit

    ended = Exit(reason="exit", signal=-code) if code < 0 else Exit(reason="exit", code=code)
    out = click.open_file(str(file), errors="replace").read() if str(file) == "-" else _text(file)
    facts = _result(read_result(name, out, _text(err) if err else "", ended, _instant(now), zone))
    if as_json:
        print_json(facts)
    else:
        cost = "–" if facts["cost_usd"] is None else f"${facts['cost_usd']:.4f}"
        rows = {
            **facts,
            "cost_usd": cost,
            "actions": len(facts["actions"]),
            "message": one_line(facts["message"], 200),
        }
        used = ", ".join(f"{key.replace('_', ' ')} {n}" for key, n in facts["usage"].items())
        print_table(
            [
                (key, "–" if value in (None, "") else str(value))
                for key, value in {**rows, "usage": used}.items()
            ]
        )


def _text(file: Path) -> str:
    return file.read_text("utf-8", "replace")


def _result(result: AgentResult) -> dict[str, Any]:
    used = result.usage
    return {
        "kind": result.verdict,
        "reset_at": iso(result.reset_at) if result.reset_at is not None else None,
        "message": result.message,
        "session_id": result.session or None,
        "model": result.model or None,
        "usage": {
            "input_tokens": used.input_tokens,
            "cache_write_tokens": used.cache_write_tokens,
            "cache_read_tokens": used.cache_read_tokens,
            "output_tokens": used.output_tokens,
        },
        "cost_usd": used.cost_uusd / 1_000_000 if result.priced else None,
        "actions": [msgspec.to_builtins(call) for call in result.calls],
        "error": result.error or None,
    }


def _instant(value: Any) -> int:
    """Microseconds UTC from ISO text or seconds; now if there is no value."""
    if value is None:
        return int(datetime.now(UTC).timestamp()) * SECOND
    if isinstance(value, int | float) and not isinstance(value, bool):
        return int(value * SECOND)
    moment = datetime.fromisoformat(msgspec.convert(value, str))
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return int(moment.timestamp()) * SECOND


agents = group_of(
    "agents", "List agents and what they are working on.", "flyball agents ls", ls, busy, read, limit
)
