"""Facts, in the past tense, frozen. The journal holds nothing else, and a run is what they add up to.

Each event says when (`at`, microseconds UTC). To change a shape, add a field with a default, or a rule to
`upgrade`: old journals must fold for ever.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from flyball.domain.examined import Evidence
from flyball.domain.settings import Settings

RULES = "3"  # the version of the deciding rules; a snapshot of another version is not used


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


# ---- what came of an act ---------------------------------------------------------------------------------


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


AnyResult = TurnEnded | ProofEnded | CheckEnded | CommitEnded | Prepared | Restored | ChildEnded


class Act(Fact, frozen=True, kw_only=True):
    """Something to do, with a key by which nothing is done twice."""

    key: str
    do: str  # agent:ROLE, run:MACHINE, proof, check, commit, land, prepare, restore
    state: str
    why: str = ""  # baseline | test | gate | putback | quarantine | …
    tree: str = ""  # the tree when it began (restore: the tree to bring back)
    turn: int = 0
    agent: str = ""
    place: int = 0  # a script's place: finished turns of its role …
    place_in_file: int = 0  # … and of the whole file
    session: str = ""
    resume: bool = False
    child: str = ""
    told: tuple[str, ...] = ()
    since: str = ""  # restore: the tree before an approved change
    head: str = ""  # the journal's head just before, for a certificate
    branch: str = ""  # land: the branch that takes the commit
    wall_us: int = 0
    idle_us: int = 0


# ---- events ----------------------------------------------------------------------------------------------


class Event(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="is", tag=True):
    at: int


class RunBegan(Event, frozen=True, kw_only=True):
    run: str
    machine: str
    table: dict[str, Any]
    settings: Settings
    task: str
    rules: str = "1"  # left out by the first version; every later one says its own
    parent: str = ""
    root: str = ""
    repo: str = ""
    start: str = ""
    owner: bool = True  # it owns its checkout
    options: dict[str, Any] = {}  # from the parent's table: `with`
    tree: str = ""
    base_tree: str = ""
    with_changes: bool = False
    retry_of: str = ""
    commit: str = ""  # HEAD when it was started
    branch: str = ""  # and the branch that was checked out: the target of `commit = "merge"`
    within_us: int = 0  # the parent's time for each turn in here
    sessions: dict[str, str] = {}  # a retry takes up the sessions of the run before
    version: str = ""
    pinned: dict[str, str] = {}  # sha256 of each file of the repository as the run uses it
    sandbox: str = ""  # a child's is its parent's
    environment: dict[str, str] = {}  # PATH and virtual environment, for every process of the run


class ActStarted(Event, frozen=True, kw_only=True):
    act: Act


class ActFinished(Event, frozen=True, kw_only=True):
    key: str
    result: AnyResult
    took_us: int = 0


class ActInterrupted(Event, frozen=True, kw_only=True):
    """It was in doubt and is settled as never having happened: it costs nothing and is begun anew."""

    key: str
    reason: str
    kept: str = ""
    gone: bool = False  # what acts stand on is not there: none is begun until a person says so
    session: str = ""  # the agent's, to be resumed


class Ruled(Event, frozen=True, kw_only=True):
    key: str
    ruling: Ruling


class Held(Event, frozen=True, kw_only=True):
    """An outcome is reached, but something stands before its transition."""

    outcome: str
    until: str  # gate | commit | land | breakpoint | approval | block
    data: dict[str, Any] = {}


class Moved(Event, frozen=True, kw_only=True):
    source: str
    target: str
    outcome: str
    actor: str = ""
    reason: str = ""


class FailureCounted(Event, frozen=True, kw_only=True):
    state: str
    count: int
    reason: str = ""


class Skipped(Event, frozen=True, kw_only=True):
    what: str
    reason: str


class Warned(Event, frozen=True, kw_only=True):
    code: str
    text: str


class Limited(Event, frozen=True, kw_only=True):
    """An agent is held by a limit until then; another one stands in for it meanwhile, if there is one."""

    agent: str
    until: int


class Stopped(Event, frozen=True, kw_only=True):
    status: str  # waiting | paused | blocked
    stop: Stop
    question: Question | None = None
    until: int | None = None


class Resumed(Event, frozen=True, kw_only=True):
    why: str = ""


class Answered(Event, frozen=True, kw_only=True):
    question: str
    verb: str
    text: str = ""
    who: str = ""
    how: str = ""
    data: dict[str, Any] = {}


class Dropped(Event, frozen=True, kw_only=True):
    """A held outcome is not followed: the act of the state is done again."""

    why: str = ""


class RestoreOrdered(Event, frozen=True, kw_only=True):
    """The checkout is to hold this tree before anything else is done."""

    tree: str
    why: str
    since: str = ""  # an approved change: the tree before it, so that its files are counted


class LetterRefused(Event, frozen=True, kw_only=True):
    letter: int
    reason: str


class Told(Event, frozen=True, kw_only=True):
    text: str
    who: str = ""
    fingerprint: str = ""  # of the failing proof that it tells of again: the turn's error
    host: str = ""  # that agents may reach from now on, because a person said so


class Asked(Event, frozen=True, kw_only=True):
    """A pause, stop or cancel that a person asked for and that takes effect at the next boundary."""

    what: str  # pause | stop | cancel | interrupt
    who: str = ""


class WindowSeen(Event, frozen=True, kw_only=True):
    """What all runs together had spent in the last day and week when this one was about to take a turn."""

    day_uusd: int = 0
    day_tokens: int = 0
    week_uusd: int = 0
    week_tokens: int = 0


class Charged(Event, frozen=True, kw_only=True):
    """What a descendant used up."""

    run: str
    usage: Usage
    turns: int = 0
    agent: str = ""
    role: str = ""
    changed: tuple[str, ...] = ()
    took_us: int = 0


class ChildStopped(Event, frozen=True, kw_only=True):
    run: str
    status: str
    stop: Stop
    until: int | None = None


class ChildWentOn(Event, frozen=True, kw_only=True):
    run: str


class Ended(Event, frozen=True, kw_only=True):
    end: str  # success | failure | cancelled
    stop: Stop
    certificate: str = ""


class LandOrdered(Event, frozen=True, kw_only=True):
    """A person wants the result of an ended run on this branch of theirs."""

    branch: str
    who: str = ""


class Landed(Event, frozen=True, kw_only=True):
    commit: str
    branch: str
    who: str = ""


AnyEvent = (
    RunBegan
    | ActStarted
    | ActFinished
    | ActInterrupted
    | Ruled
    | Held
    | Moved
    | FailureCounted
    | Skipped
    | Warned
    | Limited
    | Stopped
    | Resumed
    | Answered
    | Dropped
    | RestoreOrdered
    | LetterRefused
    | Told
    | Asked
    | Charged
    | WindowSeen
    | ChildStopped
    | ChildWentOn
    | Ended
    | LandOrdered
    | Landed
)

_encoder = msgspec.json.Encoder()  # keeps the order of a table's lines: the first outcome is the first
_decoder = msgspec.json.Decoder(AnyEvent)


def encode(event: AnyEvent) -> bytes:
    """The same event gives the same bytes, on any machine."""
    return _encoder.encode(event)


def decode(body: bytes) -> AnyEvent:
    return _decoder.decode(body)


def kind(event: AnyEvent) -> str:
    return type(event).__name__
