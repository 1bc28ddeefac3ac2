"""`check`: whether everything that is kept still adds up."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from flyball.checking import Checked, Finding, find
from flyball.checking import check as check_house
from flyball.cli.runs import open_house, print_json
from flyball.cli.text import clean, many


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

    Loose ends that a killed driver leaves are named too. Nothing is changed; runs may be driven meanwhile.
    Exit codes: 0 all is well, 1 something was found, 2 the journal cannot be read.
    """
    with open_house() as house:
        checked = check_house(house, find(house, run_name) if run_name else None)
    if as_json:
        print_json(_facts(checked))
    else:
        click.echo("\n".join(_sentences(checked)))
    return 1 if checked.findings else 0


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
