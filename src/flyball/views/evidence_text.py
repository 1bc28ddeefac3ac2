"""What the gate found out about a proof, in a few lines (EVID-7)."""

from __future__ import annotations

from flyball.domain.results import Evidence
from flyball.views.text import first_few, plural

# What happened when Flyball broke the changed code on purpose.
BITES = {
    "noticed": "the proof fails, as it should, when Flyball breaks the change on purpose",
    "not noticed": "the proof still passes when Flyball breaks the change on purpose",
    "nothing to break": "",
    "only the change itself is noticed": "the proof reads the code and does not run it; it fails without the change",
    "not tried": "breaking the change on purpose was not tried",
}

BROKEN = {
    "expectations": "wrong expected values",
    "changes": "changed functions raise an error",
    "functions": "functions raise an error",
}


def evidence_lines(evidence: Evidence, accepted_by: str = "") -> list[str]:
    """At most five; none where the gate examined nothing."""
    if not evidence.bite:
        return []
    lines = [_judged(evidence), _mended(evidence), _others(evidence), _bite(evidence)]
    if evidence.doubts:
        lines.append(f"in doubt, accepted by {accepted_by or 'nobody'}: {first_few(evidence.doubts, 2)}")
    return [line for line in lines if line]


def _judged(evidence: Evidence) -> str:
    if evidence.judged != "tests":
        return "only the exit code is known, not which tests ran"
    skipped = f", {evidence.skipped} skipped" if evidence.skipped else ""
    return f"{plural(evidence.passed, 'test')} passed{skipped} (reported by {', '.join(evidence.runners)})"


def _mended(evidence: Evidence) -> str:
    if evidence.judged != "tests":
        return ""
    both, only_now = evidence.pass_to_pass_count, evidence.fail_to_pass_count
    unchanged = f"; {both} passed before and still {'passes' if both == 1 else 'pass'}" if both else ""
    if not only_now:
        return f"the tests also pass without this change{unchanged}"
    verb = "fails" if only_now == 1 else "fail"
    names = first_few(evidence.fail_to_pass, 3)
    return f"{plural(only_now, 'test')} {verb} without the change ({names}){unchanged}"


def _others(evidence: Evidence) -> str:
    counts = {
        "removed": len(evidence.removed),
        "newly skipped": len(evidence.newly_skipped),
        "new": evidence.new_count,
        "flaky": len(evidence.flaky),
        "still failing": len(evidence.still_failing),
    }
    return ", ".join(f"{count} {what}" for what, count in counts.items() if count)


def _bite(evidence: Evidence) -> str:
    places = (
        f" ({', '.join(_broken(place) for place in evidence.bite_places)})" if evidence.bite_places else ""
    )
    text = BITES.get(evidence.bite, evidence.bite)
    return f"{text}{places}" if text else ""


def _broken(place: str) -> str:
    kind, name, where = place.partition(" in ")
    return f"{BROKEN[kind]} in {where}" if name and kind in BROKEN else place


def tests_by_name(failing: tuple[str, ...], evidence: Evidence) -> list[tuple[str, tuple[str, ...]]]:
    """The tests that a proof names, by what became of them; at most fifty of a kind."""
    groups = {
        "failing": failing,
        "fail without the change": evidence.fail_to_pass,
        "removed": evidence.removed,
        "newly skipped": evidence.newly_skipped,
        "flaky": evidence.flaky,
        "still failing": evidence.still_failing,
    }
    return [(what, names) for what, names in groups.items() if names]
