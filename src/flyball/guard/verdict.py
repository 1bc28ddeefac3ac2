"""A verdict says allow, ask or deny, by which rule and why. The worst of several decides."""

from collections.abc import Iterable
from typing import Literal

import msgspec

Word = Literal["allow", "ask", "deny"]

SEVERITY: dict[Word, int] = {"allow": 0, "ask": 1, "deny": 2}


class Verdict(msgspec.Struct, frozen=True):
    """One ruling; `file` and `line` are set where a change is judged."""

    verdict: Word
    rule: str
    reason: str
    file: str = ""
    line: int = 0


ORDINARY = Verdict("allow", "ordinary", "Nothing here needs a person.")


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The most severe verdict; of equals the first; allow if there is none."""
    return max(verdicts, key=severity, default=ORDINARY)


def severity(verdict: Verdict) -> int:
    return SEVERITY[verdict.verdict]
