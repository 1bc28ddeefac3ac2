"""`guard explain` and `guard schema`: the verdicts of a run with their rules, and the schema of a policy file."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import click
import msgspec
from msgspec import Struct

from flyball.cli import JSON, RUN, examples, open_records, print_json, say
from flyball.domain import events as e
from flyball.guard.policy import json_schema
from flyball.guard.policy_faults import line_of
from flyball.journal.records import Records, root_of
from flyball.views.text import clean

SHIPPED = "default.toml"
OWN = ".flyball/policy.toml"
NO_POLICY = "built in; a policy cannot change it"
COLOURS = {"allow": "green", "ask": "yellow", "deny": "red"}
_KEYS = {
    "radius-files": ("radius.files_ask", "radius.files_deny"),
    "radius-lines": ("radius.lines_ask",),
    "deletions": ("radius.deletions_ask", "radius.deletions_deny"),
    "big-file": ("radius.bytes_deny", "radius.binary_bytes_ask", "radius.text_bytes_ask"),
    "test-weakening": ("test_weakening",),
    "lockfile": ("locks",),
}


class Verdict(Struct, frozen=True):
    """The guard's verdict on the change of a turn, or on one tool call in it."""

    run: str
    turn: int
    state: str
    judged: str
    verdict: str
    rule: str
    reason: str
    place: str = ""
    policy: str = ""
    policy_hash: str = ""
    source: str = ""
    others: tuple[str, ...] = ()


# ---- explain ---------------------------------------------------------------------------------------------


@click.command(
    epilog=examples(
        "flyball guard explain @last",
        "flyball guard explain 9apx47xk --json | jq '.rulings[] | select(.verdict != \"allow\")'",
    )
)
@RUN
@click.option("--all", "everything", is_flag=True, help="Include tool calls that were allowed.")
@JSON
def explain(run_name: str, everything: bool, as_json: bool) -> None:
    """List the guard's verdicts in a run: what was checked, the rule and where it is defined."""
    with open_records() as records:
        run_id = records.find(run_name)
        pinned = records.read(run_id).began.pinned.get("policy.toml", "")
        verdicts = list(_verdicts(records, run_id))
    listed = [v for v in verdicts if everything or v.verdict != "allow" or not v.judged.startswith("call")]
    if as_json:
        print_json(
            {
                "run": run_id,
                "policy_file": pinned and OWN,
                "policy_file_hash": pinned,
                "rulings": msgspec.to_builtins(listed),
            }
        )
        return
    say(
        f"Policy file: {f'{OWN}, pinned as {pinned[:16]}' if pinned else 'none; the built-in policy applies'}."
    )
    for verdict in listed:
        say("\n".join(_lines(verdict)))
    if not verdicts:
        say(f"The guard has not checked anything in run {run_id} yet.")


def _lines(v: Verdict) -> Iterator[str]:
    colour = click.style(f"{v.verdict:<5}", fg=COLOURS.get(v.verdict))
    rule = f" by {v.rule}" if v.rule else ""
    place = f" at {v.place}" if v.place else ""
    yield clean(f"{v.run} turn {v.turn} {v.state:<12} ") + colour + clean(f" {v.judged}{rule}{place}")
    if v.verdict != "allow" or v.others:
        yield f"    {clean(v.reason)}"
        yield f"    policy '{v.policy}' {v.policy_hash[:16]}: {v.source}"
    yield from (f"    also {clean(other)}" for other in v.others[1:])


def _verdicts(records: Records, run_id: str) -> Iterator[Verdict]:
    """In order, run by run."""
    pending = [run_id]
    pinned = records.dirs.run(root_of(records, run_id)).pinned / "policy.toml"
    own = pinned.read_text("utf-8") if pinned.exists() else ""
    while pending:
        name = pending.pop(0)
        acts: dict[str, e.Act] = {}
        policy = ""
        for entry in records.journal.read(name):
            event = e.decode(entry.body)
            if isinstance(event, e.RunBegan):
                policy = event.settings.policy
            elif isinstance(event, e.ActStarted):
                acts[event.act.key] = event.act
                pending += (
                    [event.act.child] if event.act.child and records.journal.row(event.act.child) else []
                )
            yield from _of_event(name, policy, event, acts, own)


def _of_event(run: str, policy: str, event: object, acts: dict[str, e.Act], own: str) -> Iterator[Verdict]:
    act = acts.get(getattr(event, "key", ""))
    if act is None:
        return
    if isinstance(event, e.Ruled):
        yield _of_change(run, act, event.ruling, own)
    for action in getattr(getattr(event, "result", None), "actions", ()):
        yield _of_call(run, policy, act, action, own)


def _of_change(run: str, act: e.Act, ruling: e.Ruling, own: str) -> Verdict:
    place = f"{ruling.file}:{ruling.line}" if ruling.line else ruling.file
    return Verdict(
        run=run,
        turn=act.turn,
        state=act.state,
        judged=f"change {ruling.diff[:12]}",
        verdict=ruling.verdict,
        rule=ruling.rule,
        reason=ruling.reason,
        place=place,
        policy=ruling.policy,
        policy_hash=ruling.policy_hash,
        source=source_of(ruling.rule, ruling.policy, own),
        others=ruling.others if len(ruling.others) > 1 else (),
    )


def _of_call(run: str, policy: str, act: e.Act, action: e.Action, own: str) -> Verdict:
    return Verdict(
        run=run,
        turn=act.turn,
        state=act.state,
        judged=f"call {action.tool} {action.input}".strip()[:400],
        verdict=action.verdict,
        rule=action.rule,
        reason=action.reason,
        policy=policy,
        source=source_of(action.rule, policy, own),
    )


def source_of(rule: str, policy: str, own: str) -> str:
    """The file and line that define a rule: in the repository's policy, else the built-in one, else the code."""
    keys = [*_KEYS.get(rule, ()), f"paths.{rule}", f"lines.{rule}", f"tools.{rule}"]
    for file, text in ((OWN, own), (SHIPPED, _shipped())):
        for name in dict.fromkeys((policy, "default")):
            line = max((_exact(text, f"policy.{name}.{key}") for key in keys), default=0)
            if line:
                return f"{file}:{line}"
    return NO_POLICY


def _exact(text: str, key: str) -> int:
    """The line of exactly this key; 0 if only a table around it is there."""
    line = line_of(text, key)
    last = key.rpartition(".")[2]
    return line if line and last in text.splitlines()[line - 1] else 0


def _shipped() -> str:
    return Path(str(files("flyball.guard") / "policies" / SHIPPED)).read_text("utf-8")


# ---- schema ----------------------------------------------------------------------------------------------


@click.command(epilog=examples("flyball guard schema > policy.schema.json"))
def schema() -> None:
    """Print the JSON schema of a policy file (.flyball/policy.toml)."""
    click.echo(msgspec.json.format(msgspec.json.encode(json_schema()), indent=2))
