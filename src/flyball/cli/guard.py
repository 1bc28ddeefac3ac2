"""`flyball guard`: try the guard from a script. One JSON line in, one verdict out.

A line that cannot be read is refused, never allowed, and the exit code is 2.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Literal

import click
import msgspec

from flyball.cli import JSON_LINES, answer_lines, examples, print_json, repository_of, say
from flyball.cli.rulings import explain, schema
from flyball.config.load import POLICY_FILE, load
from flyball.guard.change import Verdict
from flyball.guard.policy import Policy
from flyball.state_dir import environment, paths

Row = dict[str, Any]
EXIT = {"allow": 0, "ask": 3, "deny": 4}  # as `flyball run`, which waits for a person or is blocked

WORKSPACE = click.option(
    "--workspace",
    default=".",
    type=click.Path(path_type=Path),
    help="The folder of the checkout (default: .).",
)
HOME = click.option("--home", default="", help="The home folder (default: yours).")


@click.group(epilog=examples('echo \'{"id": 1, "command": "rm -rf /"}\' | flyball guard command --json'))
def guard() -> None:
    """Try the guard on your own input, or list a run's verdicts.

    `command`, `changes`, `output` and `secrets` read JSON lines from standard input and answer each with a JSON line.
    """


guard.add_command(explain)
guard.add_command(schema)


def _reply(row: Row, verdict: Verdict) -> Row:
    return {"id": row.get("id"), "verdict": verdict.verdict, "rule": verdict.rule, "reason": verdict.reason}


def _refused(name: Any, reason: str) -> Row:
    return {"id": name, "verdict": "deny", "rule": "unreadable", "reason": reason}


def _text(row: Row, key: str) -> str:
    value = row[key]
    if not isinstance(value, str):
        raise TypeError(f"'{key}' must be text")
    return value


# ---- commands and changes -------------------------------------------------------------------------------


@guard.command(
    epilog=examples(
        "flyball guard command --sandbox bwrap 'npm publish'",
        "flyball guard command --json --workspace . < commands.jsonl",
    )
)
@click.argument("line", metavar="[COMMAND]", required=False)
@WORKSPACE
@HOME
@click.option(
    "--sandbox",
    type=click.Choice(["none", "bwrap", "landlock"]),
    default="none",
    help="Check as if run in this sandbox: what stays inside it is allowed (default: none).",
)
@JSON_LINES
def command(line: str | None, workspace: Path, home: str, sandbox: str, as_json: bool) -> None:
    """Check one COMMAND, or JSON lines from standard input: {id, command}.

    Exit codes for one COMMAND: 0 allow, 3 ask, 4 deny; 2 if it cannot be read.
    """
    from flyball.guard.commands import judge_command, project_policy

    policy = project_policy(
        str(workspace.absolute()),
        home or environment().get("HOME", "/"),
        _policy(workspace).commands,
        (str(paths(environment()).state_dir),),
        sandbox,
    )

    def judge(row: Row) -> Row:
        return _reply(row, judge_command(_text(row, "command"), policy))

    if line is None:
        answer_lines(judge, _refused)
        return
    row = judge({"id": 1, "command": line})
    if as_json:
        print_json(row)
    else:
        say(f"{row['verdict']} ({row['rule']}): {row['reason']}")
    sys.exit(EXIT[row["verdict"]])


@guard.command(epilog=examples("flyball guard changes --json --workspace . < changes.jsonl"))
@WORKSPACE
@JSON_LINES
def changes(workspace: Path, as_json: bool) -> None:
    """Check sets of file changes: {id, changes: [{path, op, …}]}."""
    from flyball.guard.change import read_changes, read_links
    from flyball.guard.changes import judge_changes

    policy = _policy(workspace)

    def judge(row: Row) -> Row:
        verdict = judge_changes(
            read_changes(row["changes"]),
            policy,
            workspace=str(workspace.absolute()),
            prior_changed_files=msgspec.convert(row.get("prior_changed_files") or 0, list[str] | int),
            existing_symlinks=read_links(row.get("existing_symlinks")),
        )
        return _reply(row, verdict)

    answer_lines(judge, _refused)


def _policy(workspace: Path) -> Policy:
    """The repository's own policy if it has one that is trusted, else the built-in one."""
    from flyball.runtime.start import policies_of

    root = repository_of(workspace) if workspace.is_dir() else None
    loaded = load(root, environment())
    if root and POLICY_FILE in loaded.files:
        _check_trust(root, loaded.files[POLICY_FILE].text, loaded.files[POLICY_FILE].sha256)
    return policies_of(loaded).get(loaded.settings().policy)


def _check_trust(root: Path, text: str, sha256: str) -> None:
    from flyball.authority import trust
    from flyball.runtime.start import loosened, tracked_files

    needs = [trust.Need(POLICY_FILE, "", sentence) for sentence in loosened(text)]
    store = trust.TrustStore(paths(environment()).state_dir)
    trusted = store.trusted(root, POLICY_FILE, sha256)
    if needs and not trusted and trust.is_tracked(POLICY_FILE, tracked_files(root)):
        raise trust.refusal(needs)


# ---- text -----------------------------------------------------------------------------------------------


@guard.command(epilog=examples("flyball guard output --json < messages.jsonl"))
@WORKSPACE
@JSON_LINES
def output(workspace: Path, as_json: bool) -> None:
    """Read agents' final messages: {id, dialect, role, text, runtime}."""
    from flyball.reading.signals import read_output

    def read(row: Row) -> Row:
        dialect = msgspec.convert(row["dialect"], Literal["loop", "review"])
        role = msgspec.convert(row["role"], Literal["worker", "reviewer"])
        reading = read_output(
            _text(row, "text"), dialect=dialect, role=role, runtime=_runtime(row.get("runtime"))
        )
        return {
            "id": row.get("id"),
            "reading": reading.reading,
            "exit_signal": reading.exit_signal,
            "indicators": reading.indicators,
            "signal": reading.signal,
        }

    no_claim: Row = {"reading": "failed", "exit_signal": None, "indicators": [], "signal": None}
    answer_lines(read, lambda name, _problem: {"id": name, **no_claim})


def _runtime(value: Any) -> Any:
    from flyball.reading.signals import Runtime

    row = msgspec.convert(value or {}, dict[str, Any])
    tests = msgspec.convert(row.get("tests") or {}, dict[str, Any])
    error = row.get("provider_error")
    values: dict[str, Any] = {
        "exit_code": row.get("exit_code") or 0,
        "timed_out": row.get("timed_out") or False,
        "provider_error": error
        if error is None or isinstance(error, str)
        else msgspec.json.encode(error).decode(),
        "tests_ran": tests.get("ran"),
        "tests_failed": tests.get("failed"),
    }
    return msgspec.convert(values, Runtime)


@guard.command(epilog=examples("flyball guard secrets --json < lines.jsonl"))
@WORKSPACE
@JSON_LINES
def secrets(workspace: Path, as_json: bool) -> None:
    """Look for secrets in lines of a diff: {id, path, line}."""
    from flyball.guard.secrets import find_secret

    def judge(row: Row) -> Row:
        rule = find_secret(_text(row, "path"), _text(row, "line"), diff=True)
        return {"id": row.get("id"), "detected": rule is not None, "rule": rule}

    answer_lines(judge, lambda name, _problem: {"id": name, "detected": True, "rule": "unreadable"})
