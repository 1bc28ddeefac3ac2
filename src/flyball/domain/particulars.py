"""The parts that events and results are made of. To change a shape, add a field with a default."""

from __future__ import annotations

from typing import Any

from msgspec import Struct


class Fact(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A part of an event."""


class Usage(Fact, frozen=True, kw_only=True):
    input_tokens: int = 0  # uncached input
    cache_write_tokens: int = 0
    cache_read_tokens: int = 0  # shown apart, never charged against a token budget
    output_tokens: int = 0
    cost_uusd: int = 0

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.cache_write_tokens + self.output_tokens

    def plus(self, other: Usage) -> Usage:
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            cache_write_tokens=self.cache_write_tokens + other.cache_write_tokens,
            cache_read_tokens=self.cache_read_tokens + other.cache_read_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cost_uusd=self.cost_uusd + other.cost_uusd,
        )


class Finding(Fact, frozen=True, kw_only=True):
    """What a reviewer found, or what became of it."""

    id: str = ""
    file: str = ""
    line: int = 0
    severity: str = "medium"  # high | medium | low
    status: str = "open"  # open | fixed | disputed | accepted
    text: str = ""
    evidence: str = ""


class Claim(Fact, frozen=True, kw_only=True):
    """What the agent says came of its turn. It is only a claim."""

    outcome: str = ""
    data: dict[str, Any] = {}
    finished: bool = False  # said through the structured channel, or EXIT_SIGNAL: true
    indicators: tuple[str, ...] = ()
    signal: str = ""  # DONE | PASS | FAIL
    reading: str = ""  # complete | not_complete | blocked: how the words were read, where words decide
    missing: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    ask: str = ""


class Ruling(Fact, frozen=True, kw_only=True):
    """The guard's word on one change."""

    verdict: str  # allow | ask | deny
    rule: str = ""
    reason: str = ""
    file: str = ""
    line: int = 0
    policy: str = ""
    policy_hash: str = ""
    diff: str = ""  # sha256 of the change judged
    call: str = ""  # the refused tool call that ended the turn, if it was one
    waivable: bool = True
    tree: str = ""  # the tree judged
    kept: str = ""  # the ref under which a denied change was put aside
    others: tuple[str, ...] = ()
    tier: str = ""  # T0 T3 T2 T1: of the task and of all that the run has changed so far (CTO-3)
    tier_why: str = ""


class Stop(Fact, frozen=True, kw_only=True):
    """Why a run stopped: the code, the rule and what was seen."""

    code: str
    rule: str = ""
    threshold: str = ""
    observed: str = ""
    turn: int = 0
    otherwise: str = ""  # what would have happened had the rule not fired
    detail: str = ""
    call: str = ""  # the fingerprint of the call for which a permission is asked

    def grants(self, verb: str) -> tuple[str, ...]:
        """What an answer lets the agent do: the call that it asked about, for good or once."""
        if self.code != "wait.permission" or not self.call:
            return ()
        return {"approve": (self.call,), "grant": (f"once:{self.call}",)}.get(verb, ())


class Question(Fact, frozen=True, kw_only=True):
    """What a person is asked. `shown` is the hash of what the answer will be bound to."""

    id: str
    kind: (
        str  # approval | clarification | permission | budget | block | breakpoint | loop | escalation | limit
    )
    text: str
    verbs: tuple[str, ...]
    shown: str = ""
    tree: str = ""


class Action(Fact, frozen=True, kw_only=True):
    """One tool call that the guard was asked about: what it ruled, and what came of it."""

    tool: str
    input: str = ""
    verdict: str = ""  # allow | ask | deny
    rule: str = ""
    reason: str = ""
    result: str = ""
    failed: bool = False
    late: bool = False  # ruled while no driver was there to see it
