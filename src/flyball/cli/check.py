"""`check`: whether everything that is kept still adds up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import msgspec

from flyball.acts.run_files import shipped_policies
from flyball.cli.runs import open_house, print_json, repository
from flyball.config import POLICY_FILE, environment, load
from flyball.errors import ConfigError
from flyball.evidence.consistency import Checked, Finding
from flyball.evidence.consistency import check as check_house
from flyball.guard.policy_faults import faults
from flyball.runtime.start import policies_of
from flyball.views.text import clean, many


@click.command(
    epilog="""\b
Examples:
  flyball check              everything
  flyball check @last        what concerns one run
  flyball check --json | jq '.findings[] | select(.grave)'"""
)
@click.argument("run_name", metavar="[RUN]", default="")
@click.option("--json", "as_json", is_flag=True, help="Print one object.")
def check(run_name: str, as_json: bool) -> int:
    """Check that journal, signed heads, rows, certificates and pinned files are as they were written.

    Loose ends that a killed driver leaves are named too, and everything that is wrong with this repository's policy.
    Nothing is changed; runs may be driven meanwhile.
    Exit codes: 0 all is well, 1 something was found, 2 the journal or the policy cannot be read.
    """
    policy = [] if run_name else _policy_faults(Path.cwd())
    with open_house() as app:
        checked = check_house(app, app.find_known(run_name) if run_name else None)
    checked = msgspec.structs.replace(checked, findings=[*policy, *checked.findings])
    if as_json:
        print_json(_facts(checked))
    else:
        click.echo("\n".join(_sentences(checked)))
    return 2 if policy else 1 if checked.findings else 0


def _policy_faults(place: Path) -> list[Finding]:
    """What is wrong with the policy file of the repository here, and with the choice of a policy."""
    repo = repository(place)
    file = Path(repo) / POLICY_FILE
    if not repo or not file.is_file():
        return []
    found = faults(file.read_text("utf-8", "replace"), shipped_policies())
    told = [f"{POLICY_FILE}{f':{fault.line}' if fault.line else ''}: {fault.message}" for fault in found]
    return [Finding("policy", "", 0, sentence) for sentence in told or _chosen(Path(repo))]


def _chosen(root: Path) -> list[str]:
    loaded = load(root, environment())
    try:
        policies_of(loaded).get(loaded.settings().policy)
    except ConfigError as error:
        return [f"{loaded.origin('guard.policy') or 'The settings'}: {error}"]
    return []


def _facts(checked: Checked) -> dict[str, Any]:
    told: dict[str, Any] = msgspec.to_builtins(checked)
    return {"clean": not checked.findings, **told}


def _sentences(checked: Checked) -> list[str]:
    size = (
        f"{many(checked.runs, 'run')}, {many(checked.events, 'event')}, {many(checked.heads, 'signed head')}"
    )
    if not checked.findings:
        return [f"All is as it was written: {size}."]
    grave = [finding for finding in checked.findings if finding.grave]
    loose = [finding for finding in checked.findings if not finding.grave]
    return [
        *_listed("Not as it was written:", grave),
        *_listed("Loose ends:", loose),
        f"{many(len(checked.findings), 'finding')} in {size}.",
    ]


def _listed(head: str, findings: list[Finding]) -> list[str]:
    return (
        [head, *(f"  {finding.kind:<11} {clean(finding.message)}" for finding in findings)]
        if findings
        else []
    )
