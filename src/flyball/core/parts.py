"""The parts of a run, by what they are about. They hold counts, never histories: the journal is the history."""

from __future__ import annotations

from msgspec import Struct

from flyball.domain import events as e


class Part(Struct, frozen=True, kw_only=True):
    """A part of a run."""


class Path(Part, frozen=True, kw_only=True):
    """Where the run came from, and how often it was where."""

    previous: str = ""
    origin: str = ""  # the state that called the CTO or a human
    answered_by: str = ""
    entries: dict[str, int] = {}  # to each state, in this iteration
    failures: dict[str, int] = {}  # in each state, since it was left forwards
    interventions: int = 0  # of the CTO
    alerted: int = 0  # the last alert about the time in this state, in percent (TASK-6)
    child_stop: e.Stop | None = None  # why the last child failed


class Spending(Part, frozen=True, kw_only=True):
    """What was used up, and from where it counts since a limit was last renewed."""

    base: e.Usage = e.Usage()
    window: e.WindowSeen | None = None  # what all runs spent in the last day and week
    window_from: int = 0
    plan_percent: int = 0  # of the plan's own window, as last reported
    plan_reset_at: int = 0
    turn_costs: tuple[int, ...] = ()
    turn_tokens: tuple[int, ...] = ()
    wall_us: int = 0
    wall_base: int = 0
    child_turns: int = 0
    idle_children: int = 0  # children that ended without a turn
    turns_base: int = 0
    iteration_base: int = 0


class Checkout(Part, frozen=True, kw_only=True):
    """The files: what they were made from, and what this run changed in them."""

    sandbox: str = ""
    base_tree: str = ""
    changed: tuple[str, ...] = ()
    lines: int = 0
    deleted: int = 0
    excused: tuple[str, ...] = ()  # what a person let stand: the radius begins anew after it
    excused_lines: int = 0
    commit: e.CommitEnded | None = None
    certificate: str = ""
    hosts: tuple[str, ...] = ()  # that a person has allowed besides those of the settings
    pull_request: str = ""  # that has the commit
    landings: dict[str, str] = {}  # branch of the user's -> the commit of this run that it took last


class Proof(Struct, frozen=True):
    tree: str
    passed: bool
    failing: int | None = None
    summary: str = ""
    commands: tuple[e.ProofCommand, ...] = ()
    at: int = 0
    fingerprint: str = ""
    failing_tests: tuple[str, ...] = ()
    key: str = ""  # the act that proved it
    examined: bool = False  # at the gate: both sides of the change, repeated, broken on purpose
    evidence: e.Evidence = e.Evidence()  # what came of that


class Evidence(Part, frozen=True, kw_only=True):
    """What is known of the tree, and who said yes to what."""

    baseline: int | None = None  # failing tests of the base tree …
    before: tuple[str, ...] = ()  # … and their names
    fewest: int | None = None  # failing tests, in any proof
    proof: Proof | None = None
    done_tree: str = ""  # the tree of which the author last said DONE
    rejected: str = ""  # the tree that was last rejected though its proof passes
    ruling: e.Ruling | None = None
    waivers: tuple[str, ...] = ()  # changes that a person let stand, by diff
    accepted: str = ""  # the doubts about a proof that a person said yes to last, by key
    plan_reviewed: bool = False  # the code base was looked at for the plan file (TASK-5)
    grants: tuple[str, ...] = ()  # calls that a person allowed, by fingerprint; `once:` is for the next turn


class Progress(Part, frozen=True, kw_only=True):
    """Whether the work moves (LOOP-3)."""

    trees: tuple[str, ...] = ()  # all that there were, as far as 512
    idle: int = 0  # turns in a row without progress
    wanders: bool = False  # … in some of which the tree changed
    advanced: bool = False  # the last turn made progress
    unproved_turns: int = 0  # since the last proof …
    unproved: int = 0  # … and those of them that changed the tree
    probes: int = 0  # in a row with no fewer failing tests
    passed: str = ""  # the tree that last passed a probe …
    passes: int = 0  # … and how many it passed
    error: str = ""  # the fingerprint of the last turn's error …
    errors: int = 0  # … and how often it came in a row
    error_before: tuple[str, int] = ("", 0)
    error_text: str = ""


class Tries(Part, frozen=True, kw_only=True):
    """What came to nothing and is tried again."""

    retries: int = 0  # failed turns in a row
    contexts: int = 0  # overflows in a row
    limits: int = 0  # turns in a row that a limit ended, as far as two
    limited: dict[str, int] = {}  # agent -> until when a limit holds it, where others stand in
    interruptions: int = 0  # acts in a row
    reason: str = ""  # of the last interruption
    unclear: bool = False  # in this state a turn was asked again for its verdict or plan
    gone: bool = False  # something is missing that no act can do without


class Talk(Part, frozen=True, kw_only=True):
    """What agents said, and what the next one is told."""

    notes: tuple[str, ...] = ()  # for the next turn
    message: str = ""  # the last turn's final message
    plan: str = ""  # the planner's, for the turns that carry it out and judge it
    exit_signal: bool = False  # whether the last turn claimed to be done …
    indicators: tuple[str, ...] = ()  # … and by which indicators
    recent: tuple[str, ...] = ()  # the last turns, a line each, for questions and fresh sessions
    sessions: dict[str, str] = {}  # agent|role -> session
    played: dict[str, int] = {}  # agent|role -> finished turns, of this run and its descendants
    disputes: dict[str, int] = {}  # finding -> how often it was disputed since a person last answered
    alarms: tuple[str, ...] = ()  # high security findings that no person has answered yet


class Plan(Part, frozen=True, kw_only=True):
    """What the standing loop works on. It is empty while there is nothing to do."""

    trigger: e.Trigger | None = None
    assessment: e.Assessment | None = None
    approved: bool = False  # a person said yes to it
    step: int = 0  # so many steps are done
    commit: str = ""  # the result of the last one
    act: e.Act | None = None  # the act of the run below, while that is set aside
    halt: e.Stop | None = None  # the rule by which it was
    failures: int = 0  # of runs below
    replanned: bool = False  # made again after a failure
    turns: int = 0  # of the runs below, by those who write
    idle: int = 0  # … in a row without progress
    said: tuple[str, int] = ("", 0)  # the last result of a turn, and how often it came in a row
    error: tuple[str, int] = ("", 0)  # the last error, too
    advanced: bool = False  # some turn made progress
    worked_us: int = 0  # since the last milestone
    warned: tuple[str, ...] = ()
    aside: tuple[Plan, ...] = ()  # interrupted plans, the last one on top
    outcomes: dict[str, str] = {}  # ticket -> "done COMMIT" | "dropped", of the last ones
    nothings: tuple[str, int] = ("", 0)  # what was last found to need no work, and how often in a row

    @property
    def steps(self) -> tuple[e.PlanStep, ...]:
        return self.assessment.steps if self.assessment else ()

    @property
    def finished(self) -> bool:
        return self.step >= (len(self.steps) or 1)
