"""The events of a run, as frozen structs. The journal stores only these; a run's state is computed from them.

Each event says when (`at`, microseconds UTC). To change a shape, add a field with a default, or a rule to
`upgrade`: old journals must fold forever.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from flyball.domain.results import (
    Action as Action,
    AnyResult as AnyResult,
    Assessment as Assessment,
    CheckEnded as CheckEnded,
    ChildEnded as ChildEnded,
    Claim as Claim,
    CommitEnded as CommitEnded,
    Evidence as Evidence,
    Fact as Fact,
    Finding as Finding,
    PlanStep as PlanStep,
    Prepared as Prepared,
    ProofCommand as ProofCommand,
    ProofEnded as ProofEnded,
    Question as Question,
    Restored as Restored,
    Result as Result,
    Ruling as Ruling,
    Stop as Stop,
    Trigger as Trigger,
    TurnEnded as TurnEnded,
    Usage as Usage,
)
from flyball.domain.settings import Settings

RULES = "4"  # the version of the deciding rules; a snapshot of another version is not used


class Act(Fact, frozen=True, kw_only=True):
    """One thing to do. Its key makes sure that it is not done twice."""

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

    @property
    def role(self) -> str:
        """The role of an agent's turn, or the machine of a child run."""
        return self.do.partition(":")[2]


# ---- events ----------------------------------------------------------------------------------------------


class Event(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="is", tag=True):
    at: int


class RunBegan(Event, frozen=True, kw_only=True):
    run: str
    machine: str
    table: dict[str, Any]
    settings: Settings
    task: str
    rules: str = "1"  # the first version did not write it; every later one does
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
    """A crash left the act's result unknown. It counts as not done: it costs nothing and is started again."""

    key: str
    reason: str
    kept: str = ""
    gone: bool = False  # something that acts need is missing: none is started until a person says so
    session: str = ""  # the agent's, to be resumed


class Ruled(Event, frozen=True, kw_only=True):
    key: str
    ruling: Ruling


class Held(Event, frozen=True, kw_only=True):
    """An outcome was reached, but something must happen before the run follows it."""

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
    """An agent is rate-limited until then. If a fallback is configured, it works meanwhile."""

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
    """A held outcome is discarded: the act of the state is done again."""

    why: str = ""


class RestoreOrdered(Event, frozen=True, kw_only=True):
    """The checkout must be restored to this tree before anything else is done."""

    tree: str
    why: str
    since: str = ""  # an approved change: the tree before it, so that its files are counted
    renews: bool = False  # the entries to limited states count anew, as in a rollback


class LetterRefused(Event, frozen=True, kw_only=True):
    letter: int
    reason: str


class Told(Event, frozen=True, kw_only=True):
    text: str
    who: str = ""
    fingerprint: str = ""  # a note that repeats a failing proof: the fingerprint of that error
    host: str = ""  # a host that a person has just allowed


class Asked(Event, frozen=True, kw_only=True):
    """A pause, stop or cancel that a person asked for and that takes effect at the next boundary."""

    what: str  # pause | stop | cancel | interrupt
    who: str = ""


class WindowSeen(Event, frozen=True, kw_only=True):
    """What all runs together spent in the last day and week, noted before a turn of this run."""

    day_uusd: int = 0
    day_tokens: int = 0
    week_uusd: int = 0
    week_tokens: int = 0


class Charged(Event, frozen=True, kw_only=True):
    """The cost of a descendant run."""

    run: str
    usage: Usage
    turns: int = 0
    agent: str = ""
    role: str = ""
    changed: tuple[str, ...] = ()
    took_us: int = 0
    said: str = ""  # role, tree and final message, as one fingerprint
    error: str = ""  # the fingerprint of the turn's error …
    error_text: str = ""  # … and what it said
    advanced: bool = False  # it made progress


class ChildStopped(Event, frozen=True, kw_only=True):
    run: str
    status: str
    stop: Stop
    until: int | None = None


class ChildWentOn(Event, frozen=True, kw_only=True):
    run: str


class Milestone(Event, frozen=True, kw_only=True):
    """A child run moved forward from one of its states."""

    run: str
    what: str


class PlanReviewed(Event, frozen=True, kw_only=True):
    """TASK-5: the code base was reviewed for the plan file that the task carries out, and the work may begin."""

    file: str
    text: str = ""  # what the reviewer says, for the turns that follow


class Triggered(Event, frozen=True, kw_only=True):
    """New work for the standing loop. `interrupts`: the current work is kept for later."""

    trigger: Trigger
    interrupts: bool = False
    assessment: Assessment | None = None  # the plan, if another lane has made it


class Parked(Event, frozen=True, kw_only=True):
    """The plan needs approval, and it interrupted work that needs none: another lane asks about it, and that work continues."""


class SetAside(Event, frozen=True, kw_only=True):
    """The child run is paused and kept, because of a more urgent trigger or because a rule stopped it."""

    run: str
    stop: Stop | None = None  # the rule


class TakenUp(Event, frozen=True, kw_only=True):
    """Interrupted work continues: a plan, or the child run. A parked plan continues in another lane."""

    what: str  # plan | run | parked
    run: str = ""  # the child run, or that lane


class Abandoned(Event, frozen=True, kw_only=True):
    """An interrupted child run was given up, or has ended in the meantime; `stop` says which."""

    run: str
    stop: Stop | None = None


class Ended(Event, frozen=True, kw_only=True):
    end: str  # success | failure | cancelled
    stop: Stop
    certificate: str = ""


class LandOrdered(Event, frozen=True, kw_only=True):
    """A person ordered the result of an ended run to be merged into this branch."""

    branch: str
    who: str = ""


class Proposed(Event, frozen=True, kw_only=True):
    """A pull request was opened or updated with the commit."""

    commit: str
    url: str


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
    | Milestone
    | PlanReviewed
    | Triggered
    | Parked
    | SetAside
    | TakenUp
    | Abandoned
    | Ended
    | LandOrdered
    | Landed
    | Proposed
)

_encoder = msgspec.json.Encoder()  # keeps the order of a table's lines: the first outcome is the first
_decoder = msgspec.json.Decoder(AnyEvent)


def encode(event: AnyEvent) -> bytes:
    """Encode an event: the same bytes on every machine."""
    return _encoder.encode(event)


def decode(body: bytes) -> AnyEvent:
    return _decoder.decode(body)


def kind(event: AnyEvent) -> str:
    return type(event).__name__
