"""What came of an act; one class a kind of act."""

from __future__ import annotations

from msgspec import Struct

from flyball.domain.examined import Evidence
from flyball.domain.particulars import Action, Claim, Fact, Stop, Usage
from flyball.domain.plans import Assessment


class Result(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind"):
    """What came of an act; one class a kind of act."""


class TurnEnded(Result, frozen=True, kw_only=True, tag="turn"):
    """One engagement of an agent."""

    verdict: str  # AGENT-2: ok rate_limited plan_limit overloaded auth billing context network hung killed …
    tree: str = ""  # the tree it left, after the guard
    changed: tuple[str, ...] = ()
    lines: int = 0
    deleted: int = 0
    message: str = ""
    session: str = ""
    usage: Usage = Usage()
    models: dict[str, Usage] = {}  # the same by model, where the agent names them
    claim: Claim = Claim()
    reset_at: int | None = None
    plan_percent: int | None = None  # how much of the plan's window is used up, where the agent says so
    plan_reset_at: int = 0
    error: str = ""  # what went wrong, in words
    fingerprint: str = ""  # of the error, if any
    said: str = ""  # fingerprint of the final message
    calls: int = 0
    halted: str = ""  # the tool-call rule that halted it, as a code
    halted_why: str = ""
    commit: str = ""  # the checkpoint made of it
    undone: tuple[str, ...] = ()  # what a read-only role changed and we put back
    reported: tuple[str, ...] = ()  # what it did to its own git, as sentences; it has no effect (GUARD-5)
    notes: tuple[str, ...] = ()
    actions: tuple[Action, ...] = ()  # those that passed the guard's hooks; at most a hundred
    wanted: str = ""  # the fingerprint of the call that needs a person's permission
    refused: tuple[str, ...] = ()  # hosts that it wanted and did not reach, as sentences (GUARD-3)
    assessment: Assessment | None = None  # of a plan for the standing loop


class ProofCommand(Fact, frozen=True, kw_only=True):
    command: str
    exit: int
    log: str = ""  # sha256
    took_us: int = 0
    timed_out: bool = False


class ProofEnded(Result, frozen=True, kw_only=True, tag="proof"):
    tree: str
    passed: bool
    commands: tuple[ProofCommand, ...] = ()
    failing: int | None = None
    fingerprint: str = ""
    summary: str = ""  # the tail of the first failing log, to show the next turn
    invalid: str = ""  # it changed the tree, or could not be made
    cannot_start: str = ""
    lacks: str = ""  # what the environment of the tests lacks, as a sentence; only of a baseline
    sandbox: str = ""
    failing_tests: tuple[str, ...] = ()
    evidence: Evidence | None = None  # at the gate


class CheckEnded(Result, frozen=True, kw_only=True, tag="check"):
    outcome: str  # ready | failure | cannot_start
    reason: str = ""


class CommitEnded(Result, frozen=True, kw_only=True, tag="commit"):
    """`of` and `proof` are there where the target had moved: `tree` is then the merge of it and `of`, proved anew."""

    outcome: str  # committed | refused | conflict
    tree: str
    commit: str = ""
    certificate: str = ""  # sha256 of the certificate file
    reason: str = ""
    of: str = ""
    proof: ProofEnded | None = None
    landed: str = ""  # the user's branch that took it, with `commit = "merge"`

    @property
    def work(self) -> str:
        """The run's own tree in it."""
        return self.of or self.tree


class Prepared(Result, frozen=True, kw_only=True, tag="prepared"):
    """The checkout is there."""

    base_commit: str = ""
    base_tree: str = ""
    tree: str = ""  # a retry begins at the tree of the run before
    changed: tuple[str, ...] = ()
    lines: int = 0
    sandbox: str = ""
    notes: tuple[str, ...] = ()
    error: str = ""  # why it could not be made
    code: str = ""  # error.config, error.git …


class Restored(Result, frozen=True, kw_only=True, tag="restored"):
    tree: str
    changed: tuple[str, ...] = ()  # by an approved change that now stands
    lines: int = 0
    kept: str = ""  # the reference under which a person's edits are kept that a rollback took away


class ChildEnded(Result, frozen=True, kw_only=True, tag="child"):
    run: str
    end: str
    stop: Stop
    tree: str = ""
    usage: Usage = Usage()
    turns: int = 0
    commit: str = ""  # what it made, where it has a checkout of its own


AnyResult = TurnEnded | ProofEnded | CheckEnded | CommitEnded | Prepared | Restored | ChildEnded
