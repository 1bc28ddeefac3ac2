"""`flyball check`: check that stored records were not changed or lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import msgspec

from flyball.acts.run_files import shipped_policies
from flyball.cli import JSON, examples, open_app, print_json, repository_of, say
from flyball.config.load import POLICY_FILE, load
from flyball.errors import ConfigError
from flyball.evidence.consistency import CheckReport, Finding, check as check_records
from flyball.guard.policy_faults import faults
from flyball.runtime.app import App
from flyball.runtime.start import policies_of
from flyball.state_dir import environment
from flyball.system.forge_watch import NOTHING, look, wanted
from flyball.system.mismatches import mismatches
from flyball.views.text import clean, plural
from flyball.workspace import inspect_repo


@click.command(
    epilog=examples(
        "flyball check", "flyball check @last", "flyball check --json | jq '.findings[] | select(.grave)'"
    )
)
@click.argument("run_name", metavar="[RUN]", default="")
@JSON
def check(run_name: str, as_json: bool) -> int:
    """Check that journal, certificates and pinned files are intact.

    Also lists leftovers of killed processes and faults in this repository's policy file. Nothing is changed, and runs
    may be running meanwhile.

    Exit codes: 0 no findings, 1 findings, 2 the journal or the policy cannot be read.
    """
    policy = [] if run_name else _policy_faults(Path.cwd())
    repo = repository_of(Path.cwd()) if not run_name else None
    with open_app() as app:
        standing = _standing(app, repo) if repo else []
        checked = check_records(app, app.find_known(run_name) if run_name else None)
    checked = msgspec.structs.replace(checked, findings=[*policy, *checked.findings, *standing])
    if as_json:
        print_json(_facts(checked))
    else:
        say("\n".join(_as_text(checked)))
    return 2 if policy else 1 if checked.findings else 0


def _standing(app: App, repo: Path) -> list[Finding]:
    """What does not fit together in the standing loop of this repository."""
    lanes = [
        app.read(row.run) for row in app.journal.rows(repo=str(repo), machine="cto") if row.status != "ended"
    ]
    pictures = (
        look(wanted(lanes[0].settings, inspect_repo(repo), app.backlog(repo)), app.env) if lanes else NOTHING
    )
    differences = mismatches(app, repo, lanes, pictures)
    return [Finding("standing", one.run, 0, one.text, grave=one.grave) for one in differences]


def _policy_faults(place: Path) -> list[Finding]:
    """What is wrong with the policy file of this repository, and with the choice of a policy."""
    repo = repository_of(place)
    if repo is None or not (repo / POLICY_FILE).is_file():
        return []
    problems = faults((repo / POLICY_FILE).read_text("utf-8", "replace"), shipped_policies())
    lines = [f"{POLICY_FILE}{f':{fault.line}' if fault.line else ''}: {fault.message}" for fault in problems]
    return [Finding("policy", "", 0, line) for line in lines or _choice_faults(repo)]


def _choice_faults(root: Path) -> list[str]:
    loaded = load(root, environment())
    try:
        policies_of(loaded).get(loaded.settings().policy)
    except ConfigError as error:
        return [f"{loaded.origin('guard.policy') or 'Settings'}: {error}"]
    return []


def _facts(checked: CheckReport) -> dict[str, Any]:
    facts: dict[str, Any] = msgspec.to_builtins(checked)
    return {"clean": not checked.findings, **facts}


def _as_text(checked: CheckReport) -> list[str]:
    size = f"{plural(checked.runs, 'run')}, {plural(checked.events, 'event')}, {plural(checked.heads, 'signed head')}"
    if not checked.findings:
        return [f"No problems found: {size}."]
    grave = [finding for finding in checked.findings if finding.grave]
    loose = [finding for finding in checked.findings if not finding.grave]
    return [
        *_listed("Changed or missing:", grave),
        *_listed("Leftovers:", loose),
        f"{plural(len(checked.findings), 'finding')} in {size}.",
    ]


def _listed(head: str, findings: list[Finding]) -> list[str]:
    return (
        [head, *(f"  {finding.kind:<11} {clean(finding.message)}" for finding in findings)]
        if findings
        else []
    )
