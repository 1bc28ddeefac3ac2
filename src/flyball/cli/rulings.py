"""`guard explain` and `guard schema`: what ruled in a run and why, and what a policy file may hold."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import click
import msgspec
from msgspec import Struct

from flyball.cli.runs import open_house, print_json, root_of
from flyball.core import events as e
from flyball.guard.policy import json_schema
from flyball.guard.policy_faults import line_of
from flyball.runtime.app import App
from flyball.views.text import clean

SHIPPED = "default.toml"
OWN = ".flyball/policy.toml"
NO_POLICY = "built in, no policy can change it"
COLOURS = {"allow": "green", "ask": "yellow", "deny": "red"}
_KEYS = {
    "radius-files": ("radius.files_ask", "radius.files_deny"),
    "radius-lines": ("radius.lines_ask",),
    "deletions": ("radius.deletions_ask", "radius.deletions_deny"),
    "big-file": ("radius.bytes_deny", "radius.binary_bytes_ask", "radius.text_bytes_ask"),
    "test-weakening": ("test_weakening",),
    "lockfile": ("locks",),
}


class Told(Struct, frozen=True):
    """One ruling: on the change of a turn, or on one tool call in it."""

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
    epilog="""\b
Examples:
  flyball guard explain @last
  flyball guard explain 9apx47xk --json | jq '.rulings[] | select(.verdict != "allow")'"""
)
@click.argument("run_name", metavar="RUN")
@click.option("--all", "everything", is_flag=True, help="Also the tool calls that were allowed.")
@click.option("--json", "as_json", is_flag=True, help="Print one object.")
def explain(run_name: str, everything: bool, as_json: bool) -> None:
    """Show every ruling of a run and of the runs below it: what was judged, the verdict, the rule and its source."""
    with open_house() as app:
        run_id = app.find(run_name)
        pinned = app.read(run_id).began.pinned.get("policy.toml", "")
        told = list(_rulings(app, run_id))
    shown = [one for one in told if everything or one.verdict != "allow" or not one.judged.startswith("call")]
    if as_json:
        print_json(
            {
                "run": run_id,
                "policy_file": pinned and OWN,
                "policy_file_hash": pinned,
                "rulings": msgspec.to_builtins(shown),
            }
        )
        return
    click.echo(
        f"Policy file: {f'{OWN}, pinned as {pinned[:16]}' if pinned else 'none; the shipped policy holds'}."
    )
    for one in shown:
        click.echo("\n".join(_lines(one)))
    if not told:
        click.echo(f"Nothing has been judged in run {run_id} yet.")


def _lines(one: Told) -> Iterator[str]:
    verdict = click.style(f"{one.verdict:<5}", fg=COLOURS.get(one.verdict))
    rule = f" by {one.rule}" if one.rule else ""
    place = f" at {one.place}" if one.place else ""
    yield (
        clean(f"{one.run} turn {one.turn} {one.state:<12} ") + verdict + clean(f" {one.judged}{rule}{place}")
    )
    if one.verdict != "allow" or one.others:
        yield f"    {clean(one.reason)}"
        yield f"    policy '{one.policy}' {one.policy_hash[:16]}: {one.source}"
    yield from (f"    also {clean(other)}" for other in one.others[1:])


def _rulings(app: App, run_id: str) -> Iterator[Told]:
    """In the order in which they fell, run by run."""
    pending = [run_id]
    pinned = app.dirs.run(root_of(app, run_id)).pinned / "policy.toml"
    own = pinned.read_text("utf-8") if pinned.exists() else ""
    while pending:
        name = pending.pop(0)
        acts: dict[str, e.Act] = {}
        policy = ""
        for entry in app.journal.read(name):
            event = e.decode(entry.body)
            if isinstance(event, e.RunBegan):
                policy = event.settings.policy
            elif isinstance(event, e.ActStarted):
                acts[event.act.key] = event.act
                pending += [event.act.child] if event.act.child and app.journal.row(event.act.child) else []
            yield from _told(name, policy, event, acts, own)


def _told(run: str, policy: str, event: object, acts: dict[str, e.Act], own: str) -> Iterator[Told]:
    act = acts.get(getattr(event, "key", ""))
    if act is None:
        return
    if isinstance(event, e.Ruled):
        yield _of_change(run, act, event.ruling, own)
    for action in getattr(getattr(event, "result", None), "actions", ()):
        yield _of_call(run, policy, act, action, own)


def _of_change(run: str, act: e.Act, ruling: e.Ruling, own: str) -> Told:
    place = f"{ruling.file}:{ruling.line}" if ruling.line else ruling.file
    return Told(
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


def _of_call(run: str, policy: str, act: e.Act, action: e.Action, own: str) -> Told:
    return Told(
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
    """The file and line that a rule comes from: the repository's policy, else the shipped one, else the code."""
    keys = [*_KEYS.get(rule, ()), f"paths.{rule}", f"lines.{rule}", f"tools.{rule}"]
    for file, text in ((OWN, own), (SHIPPED, _shipped())):
        for name in dict.fromkeys((policy, "default")):
            found = max((_exact(text, f"policy.{name}.{key}") for key in keys), default=0)
            if found:
                return f"{file}:{found}"
    return NO_POLICY


def _exact(text: str, key: str) -> int:
    """The line of that very key; 0 where only a table around it stands."""
    line = line_of(text, key)
    last = key.rpartition(".")[2]
    return line if line and last in text.splitlines()[line - 1] else 0


def _shipped() -> str:
    return Path(str(files("flyball.guard") / "policies" / SHIPPED)).read_text("utf-8")


# ---- schema ----------------------------------------------------------------------------------------------


@click.command(epilog="\b\nExample:\n  flyball guard schema > policy.schema.json")
def schema() -> None:
    """Print the JSON schema of a policy file (.flyball/policy.toml)."""
    click.echo(msgspec.json.format(msgspec.json.encode(json_schema()), indent=2))
