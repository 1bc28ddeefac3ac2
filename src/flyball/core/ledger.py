"""The findings ledger (PAIR-6): what a judge found, and what became of it. Only a judge or evidence closes one."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count

from msgspec.structs import replace

from flyball.domain.events import Finding
from flyball.domain.machine import JUDGING_ROLES

CLOSED = ("fixed", "accepted")
DISPUTES = 2  # so many of the same finding go to a person
KEPT = 200


def entered(ledger: tuple[Finding, ...], role: str, said: Iterable[Finding]) -> tuple[Finding, ...]:
    """The ledger after one turn's findings."""
    for finding in said:
        known = _known(ledger, finding)
        if known is None and (role in JUDGING_ROLES or finding.status == "open"):
            ledger = (*ledger, _new(ledger, finding))
        elif known is not None and _may(role, finding):
            told = {"evidence": finding.evidence or known.evidence, "text": known.text or finding.text}
            changed = replace(known, status=finding.status, **told)
            ledger = tuple(changed if f.id == known.id else f for f in ledger)
    return ledger[-KEPT:]


def _known(ledger: tuple[Finding, ...], finding: Finding) -> Finding | None:
    if finding.id:
        return next((f for f in ledger if f.id == finding.id), None)
    place = (finding.file, finding.line, finding.text)
    return next((f for f in ledger if (f.file, f.line, f.text) == place), None)


def _new(ledger: tuple[Finding, ...], finding: Finding) -> Finding:
    taken = {f.id for f in ledger}
    free = next(name for n in count(1) if (name := f"F{n}") not in taken)
    return replace(finding, id=finding.id or free, status="open")


def _may(role: str, finding: Finding) -> bool:
    """A judge may say anything of a finding; others may dispute it, or close it with evidence."""
    if role in JUDGING_ROLES:
        return finding.status in ("open", "disputed", *CLOSED)
    return finding.status == "disputed" or (finding.status == "fixed" and bool(finding.evidence))


def disputed(
    counts: dict[str, int], ledger: tuple[Finding, ...], role: str, said: Iterable[Finding]
) -> dict[str, int]:
    """How often each finding was disputed by those it was made to."""
    meant = [_known(ledger, f) for f in said if f.status == "disputed" and role not in JUDGING_ROLES]
    names = [f.id for f in meant if f is not None]
    return {**counts, **{name: counts.get(name, 0) + 1 for name in names}} if names else counts


def settled(ledger: tuple[Finding, ...], said: tuple[Finding, ...]) -> bool:
    """The judge closed everything that was open and raised or reopened nothing: read as PASS.

    A round in which it said nothing about the ledger never is.
    """
    return bool(said) and all(f.status in CLOSED for f in (*said, *ledger))


SHOWN = "The findings so far:\n"


def shown(ledger: tuple[Finding, ...]) -> str:
    lines = [f"{f.id} {f.severity} {f.status} {f.file}:{f.line} {f.text}".strip() for f in ledger]
    return SHOWN + "\n".join(lines) if lines else ""
