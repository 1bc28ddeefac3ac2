"""A verdict says allow, ask or deny, by which rule and why. The worst of several decides."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

Decision = Literal["allow", "ask", "deny"]

SEVERITY: dict[Decision, int] = {"allow": 0, "ask": 1, "deny": 2}


NOT_WAIVABLE = frozenset({"secret", "secret-file", "outside", "git-internals", "tampering", "guard-error"})
"""A change denied by one of these rules cannot be approved by a person."""


class Verdict(msgspec.Struct, frozen=True):
    """Allow, ask or deny, by which rule and why. `file` and `line` say where, if a change was judged."""

    verdict: Decision
    rule: str
    reason: str
    file: str = ""
    line: int = 0
    findings: tuple[Verdict, ...] = ()
    """All findings, where this is the worst of several."""

    @property
    def waivable(self) -> bool:
        """Can a person approve it?"""
        return not any(v.verdict == "deny" and v.rule in NOT_WAIVABLE for v in (self, *self.findings))


ORDINARY = Verdict("allow", "ordinary", "No rule applies.")


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The most severe verdict; of equals the first; allow if there is none."""
    return max(verdicts, key=severity, default=ORDINARY)


def severity(verdict: Verdict) -> int:
    return SEVERITY[verdict.verdict]
