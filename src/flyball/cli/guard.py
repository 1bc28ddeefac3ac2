"""`flyball guard`: the judges behind a pipe. One JSON line in, one verdict out, in order, each at once.

What cannot be read is never let pass: it is refused like anything else that cannot be judged, and the command
ends with exit code 2.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, cast

import click
import msgspec

from flyball.cli.rulings import explain, schema
from flyball.cli.where import EXAMPLE, json_lines, root_of
from flyball.config import POLICY_FILE, environment, load, paths
from flyball.errors import FlyballError
from flyball.guard.policy import Policy

Row = dict[str, Any]
Judge = Callable[[Row], Row]
Unread = Callable[[Any, str], Row]

WORKSPACE = click.option(
    "--workspace",
    default=".",
    type=click.Path(path_type=Path),
    help="The folder that commands and paths are judged for (it need not exist).",
)
HOME = click.option(
    "--home", default="", help="The home folder that commands are judged for; yours unless given."
)
JSON = click.option("--json", "as_json", is_flag=True, help="JSON lines; there is no other form.")


@click.group(
    help=f'Judge JSON lines from standard input; explain what was judged in a run.\n\n{EXAMPLE}echo \'{{"id": 1, "command": "rm -rf /"}}\' | flyball guard command --json'
)
def guard() -> None:
    pass


guard.add_command(explain)
guard.add_command(schema)


def _judge_all(judge: Judge, unread: Unread) -> None:
    """Every line gets its answer; the exit code says whether all could be read."""
    bad = False
    for number, row in json_lines(sys.stdin.buffer):
        answer, problem = _answer(row, judge, unread, number)
        if problem:
            bad = True
            click.echo(f"flyball: {problem}", err=True)
        click.echo(msgspec.json.encode(answer))
    sys.exit(2 if bad else 0)


def _answer(row: Row | str, judge: Judge, unread: Unread, number: int) -> tuple[Row, str]:
    if isinstance(row, str):
        return unread(None, row), row
    try:
        return judge(row), ""
    except (msgspec.MsgspecError, FlyballError, KeyError, TypeError, ValueError, UnicodeError) as broken:
        told = f"it lacks {broken}" if isinstance(broken, KeyError) else str(broken)
        problem = f"Line {number} cannot be judged: {told}."
        return unread(row.get("id"), problem), problem


def _refused(name: Any, reason: str) -> Row:
    return {"id": name, "verdict": "deny", "rule": "unreadable", "reason": reason}


def _text(row: Row, key: str) -> str:
    value = row[key]
    if not isinstance(value, str):
        raise TypeError(f"'{key}' must be text")
    return value


# ---- commands and changes -------------------------------------------------------------------------------


@guard.command(
    help=f"Judge shell command lines: {{id, command}}.\n\n{EXAMPLE}flyball guard command --json --workspace . < commands.jsonl"
)
@WORKSPACE
@HOME
@JSON
def command(workspace: Path, home: str, as_json: bool) -> None:
    from flyball.guard.commands import judge_command, project_policy

    policy = project_policy(
        str(workspace.absolute()),
        home or environment().get("HOME", "/"),
        _policy(workspace).commands,
        (str(paths(environment()).state_dir),),
    )

    def judge(row: Row) -> Row:
        said = judge_command(_text(row, "command"), policy)
        return {"id": row.get("id"), "verdict": said.verdict, "rule": said.rule, "reason": said.reason}

    _judge_all(judge, _refused)


@guard.command(
    help=f"Judge sets of changes: {{id, changes: [{{path, op, …}}]}}.\n\n{EXAMPLE}flyball guard changes --json --workspace . < changes.jsonl"
)
@WORKSPACE
@JSON
def changes(workspace: Path, as_json: bool) -> None:
    from flyball.guard.change import read_changes, read_links
    from flyball.guard.changes import judge_changes

    policy = _policy(workspace)

    def judge(row: Row) -> Row:
        said = judge_changes(
            read_changes(row["changes"]),
            policy,
            workspace=str(workspace.absolute()),
            prior_changed_files=msgspec.convert(row.get("prior_changed_files") or 0, list[str] | int),
            existing_symlinks=read_links(row.get("existing_symlinks")),
        )
        return {"id": row.get("id"), "verdict": said.verdict, "rule": said.rule, "reason": said.reason}

    _judge_all(judge, _refused)


def _policy(workspace: Path) -> Policy:
    """The repository's own policy where there is one that a person agreed to, else the shipped one."""
    from flyball.runtime.start import policies_of

    root = root_of(workspace) if workspace.is_dir() else None
    loaded = load(root, environment())
    if root and POLICY_FILE in loaded.files:
        _check_trust(root, loaded.files[POLICY_FILE].text, loaded.files[POLICY_FILE].sha256)
    return policies_of(loaded).get(loaded.settings().policy)


def _check_trust(root: Path, text: str, sha256: str) -> None:
    from flyball.authority import trust
    from flyball.runtime.start import loosened, tracked_files

    asked = [trust.Need(POLICY_FILE, "", sentence) for sentence in loosened(text)]
    store = trust.TrustStore(paths(environment()).state_dir)
    known = store.trusted(root, POLICY_FILE, sha256)
    if asked and not known and trust.is_tracked(POLICY_FILE, tracked_files(root)):
        raise trust.refusal(asked)


# ---- words ----------------------------------------------------------------------------------------------


@guard.command(
    help=f"Read agents' final messages: {{id, dialect, role, text, runtime}}.\n\n{EXAMPLE}flyball guard output --json < messages.jsonl"
)
@WORKSPACE
@JSON
def output(workspace: Path, as_json: bool) -> None:
    from flyball.reading.signals import read_output

    def judge(row: Row) -> Row:
        dialect = msgspec.convert(row["dialect"], Literal["loop", "review"])
        role = msgspec.convert(row["role"], Literal["worker", "reviewer"])
        said = read_output(
            _text(row, "text"), dialect=dialect, role=role, runtime=_runtime(row.get("runtime"))
        )
        facts = {"reading": said.reading, "exit_signal": said.exit_signal, "indicators": said.indicators}
        return {"id": row.get("id"), **facts, "signal": said.signal}

    _judge_all(judge, _no_claim)


def _runtime(given: Any) -> Any:
    from flyball.reading.signals import Runtime

    row = msgspec.convert(given or {}, dict[str, Any])
    tests = msgspec.convert(row.get("tests") or {}, dict[str, Any])
    error = row.get("provider_error")
    known: dict[str, Any] = {
        "exit_code": row.get("exit_code") or 0,
        "timed_out": row.get("timed_out") or False,
        "provider_error": error
        if error is None or isinstance(error, str)
        else msgspec.json.encode(error).decode(),
        "tests_ran": tests.get("ran"),
        "tests_failed": tests.get("failed"),
    }
    return msgspec.convert(known, Runtime)


def _no_claim(name: Any, reason: str) -> Row:
    return {"id": name, "reading": "failed", "exit_signal": None, "indicators": [], "signal": None}


@guard.command(
    help=f"Look for secrets in lines of a diff: {{id, path, line}}.\n\n{EXAMPLE}flyball guard secrets --json < lines.jsonl"
)
@WORKSPACE
@JSON
def secrets(workspace: Path, as_json: bool) -> None:
    from flyball.guard.secrets import find_secret

    def judge(row: Row) -> Row:
        rule = find_secret(_text(row, "path"), _text(row, "line"), diff=True)
        return {"id": row.get("id"), "detected": rule is not None, "rule": rule}

    _judge_all(
        judge, lambda name, _reason: {"id": cast("object", name), "detected": True, "rule": "unreadable"}
    )
