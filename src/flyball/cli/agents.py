"""`flyball agents`: which agents are installed, what they work on, and how their limit messages are read."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from flyball.cli import (
    JSON,
    JSON_LINES,
    answer_lines,
    examples,
    group_of,
    open_app,
    print_json,
    print_table,
    say,
)
from flyball.domain.settings import SECOND
from flyball.errors import AgentMissing, UserError
from flyball.views.text import agent_name, first_line, iso, one_line

if TYPE_CHECKING:
    from flyball.agents.accounts import Status
    from flyball.agents.adapter import AgentResult
    from flyball.runtime.app import App
    from flyball.state.run import Run
    from flyball.views.busy import Assignment

COLUMNS = ("AGENT", "ROLE", "RUN", "STATUS", "STATE", "LOOP", "CIRCUIT", "NEXT", "TASK")
OPTIONAL = ("LOOP", "CIRCUIT", "ROLE", "NEXT", "STATE")  # left out, in this order, on a narrow terminal
ACTIVE = ("running", "waiting", "blocked", "paused")
RUNS_LIMIT = 200


@click.command(epilog=examples("flyball agents ls", "flyball agents ls --json"))
@JSON
def ls(as_json: bool = False) -> None:
    """List the agents: installed or not, version, login, and what each can do.

    mcp: it reports with Flyball's tools. hooks, asks: its tool calls pass the guard. defers: a call waits for your answer
    without a process. interrupt: its turn can be ended in an orderly way. resume: its sessions continue. cost, tokens: it
    reports them for each turn. budget: it is stopped when the budget is used up in the middle of a turn.
    """
    from flyball.agents.accounts import statuses
    from flyball.config.plugins import plugins
    from flyball.config.values import NAMED, WITH
    from flyball.state_dir import environment

    rows = statuses(environment())
    if as_json:
        print_json(
            [
                {**msgspec.to_builtins(row), "usable": not row.problem, "why": row.problem or None}
                for row in rows
            ]
        )
        return
    cells = ((row.agent, *_state(row), " ".join(row.can)) for row in rows)
    print_table([("AGENT", "VERSION", "LOGIN", "SUPPORTS"), *cells])
    say("\nBuilt in: mechanic fixes small Python bugs by trying edits until the tests pass, without a model.")
    if names := sorted(plugins().keys() - {*NAMED, *WITH}):
        say(f"From plug-ins: {', '.join(names)}. Use one as --agent NAME or NAME:TEXT.")
    say("Always available: command:COMMAND runs any program, script:FILE plays a file (docs/agents.md).")


def _state(row: Status) -> tuple[str, str]:
    if row.program is None:
        return "not installed", "–"
    return row.version or "–", row.login or "not logged in"


@click.command(epilog=examples("flyball agents probe claude", "flyball agents probe codex --json"))
@click.argument("name", type=click.Choice(["claude", "codex", "gemini", "opencode"]))
@JSON
def probe(name: str, as_json: bool) -> None:
    """Run one turn of an installed agent against a scripted model on this machine.

    Nothing leaves the machine and no login is used. It shows whether Flyball understands this version of the agent.
    """
    from flyball.agents.adapter import adapter
    from flyball.testing.probe import probe as run_probe
    from flyball.testing.vendors import VENDORS

    vendor = VENDORS[name]
    missing = adapter(vendor.agent).missing()
    if missing:
        raise AgentMissing(missing)
    trial = run_probe(vendor)
    facts = {"agent": name, "understood": trial.understood, "carried_out": trial.wrote, "asked": trial.asked}
    facts = {**facts, "unknown_events": trial.unknown, **_result(trial.result)}
    if as_json:
        print_json(facts)
    else:
        odd = ", ".join(f"{kind} ({n})" for kind, n in trial.unknown.items()) or "none"
        print_table(
            [
                *((key, str(facts[key])) for key in ("agent", "understood", "carried_out", "kind")),
                ("unknown events", odd),
            ]
        )
        if trial.result.error:
            click.echo(trial.result.error)
    if not trial.understood:
        raise SystemExit(1)


@click.command("try", epilog=examples("flyball agents try", "flyball agents try claude --json"))
@click.argument("agents", metavar="[AGENT]...", nargs=-1)
@JSON
def try_(agents: tuple[str, ...], as_json: bool) -> None:
    """Ask the model of each agent one short question, with your login, as a run would.

    AGENT is a name from `flyball agents ls` or any --agent value; without one, all that are installed and logged in are
    tried. Each costs one small request. The exit code is 0 if every login works.
    """
    from flyball.agents.accounts import KNOWN, statuses
    from flyball.agents.adapter import adapter
    from flyball.runtime.login_trial import try_login
    from flyball.state_dir import environment

    env = environment()
    by_program = {row.program: row.agent for row in KNOWN}
    names = [by_program.get(name, name) for name in agents]
    names = names or [row.agent for row in statuses(env) if not row.problem]
    if not names:
        raise UserError("No agent is installed and logged in. `flyball agents ls` says what each one lacks.")
    if missing := next((lack for agent in names if (lack := adapter(agent).missing())), ""):
        raise AgentMissing(missing)
    results = [try_login(agent, env) for agent in names]
    if as_json:
        print_json([msgspec.to_builtins(one) for one in results])
    else:
        cells = (
            (one.agent, one.login, one.kind.replace("_", " "), one_line(one.why, 160)) for one in results
        )
        print_table([("AGENT", "LOGIN", "RESULT", "WHY"), *cells])
    if any(one.login != "works" for one in results):
        raise SystemExit(1)


@click.command(epilog=examples("flyball agents busy"))
@JSON
def busy(as_json: bool) -> None:
    """List what each agent works on, and which run or task it takes next."""
    with open_app() as app:
        rows = _assignments(app)
    if as_json:
        print_json([msgspec.to_builtins(row) for row in rows])
    elif not rows:
        say('No agent is working. Start one with: flyball run "Fix the failing test"')
    else:
        print_table([COLUMNS, *(_cells(row) for row in rows)], OPTIONAL)


def _assignments(app: App) -> list[Assignment]:
    from flyball.views.busy import assignments

    rows = [row for status in ACTIVE for row in app.journal.rows(status=status, limit=RUNS_LIMIT)]
    runs = [(app.read(row.run), app.driven(row.root or row.run)) for row in rows]
    lanes = [run for run, driven in runs if driven and run.machine.standing]
    return assignments(runs, {run.began.repo: _ready(app, run.began.repo, lanes) for run in lanes})


def _ready(app: App, repo: str, lanes: list[Run]) -> list[str]:
    """The tasks of the backlog that can start now. What waits for GitHub is known to `flyball up` alone."""
    from flyball.runtime.backlog import ready
    from flyball.system.conditions import met
    from flyball.system.forge_watch import NOTHING

    waiting = app.backlog(repo)
    done = {name: how for run in lanes if run.began.repo == repo for name, how in run.plan.outcomes.items()}
    return [one.id for one in ready(waiting, done | met(app, waiting, NOTHING))]


def _cells(row: Assignment) -> tuple[str, ...]:
    loop = f"{row.loop} ({row.no_progress} without progress)" if row.no_progress else str(row.loop)
    return (
        *(agent_name(row.agent) or "-", row.role or "-", row.run, row.status, f"{row.machine} · {row.state}"),
        *(loop, row.circuit, row.next or "-", first_line(row.task, 60)),
    )


@click.command(epilog=examples("flyball agents limit --json < messages.jsonl"))
@click.option("--zone", default="UTC", show_default=True, help="The time zone of times without one.")
@JSON_LINES
def limit(zone: str, as_json: bool) -> None:
    """Recognise agents' rate-limit messages, read from standard input.

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
@click.argument("file", type=click.Path(dir_okay=False, allow_dash=True, path_type=Path))
@click.option(
    "--stderr",
    "err",
    type=click.Path(dir_okay=False, path_type=Path),
    help="What it wrote there.",
)
@click.option(
    "--exit", "code", default=0, show_default=True, help="Its exit code; a signal as a negative number."
)
@click.option("--now", help="When it ended, for reset times such as 3pm; now if not given.")
@click.option("--zone", default="UTC", show_default=True, help="The time zone of times without one.")
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
    try:
        return file.read_text("utf-8", "replace")
    except OSError as problem:
        raise UserError(
            f"{file} cannot be read: {problem.strerror}. Give the file of a recorded run."
        ) from None


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
    "agents",
    "List agents and what they are working on.",
    "flyball agents ls",
    ls,
    busy,
    probe,
    read,
    limit,
    try_,
)
