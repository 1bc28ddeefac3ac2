"""What a run is: its agenda, its parts, and the run itself. All of it is computed from the run's events (`fold`).

The agenda lists what is due before the act of the state: `due` returns the act of its first step, and events only add
and remove steps. There is at most one step of each kind, and they are in the order in which they are done.

The parts hold counts, never histories: the journal is the history.
"""

from __future__ import annotations

from typing import Any, TypeVar

from msgspec import Struct

from flyball.domain import events as e
from flyball.domain.machine import Machine, State
from flyball.domain.settings import Settings

# ---- the agenda --------------------------------------------------------------------------------------------


class Step(Struct, frozen=True, tag=True):
    """Something to do before the act of the state."""


class Halt(Step, frozen=True, tag=True):
    """A request to stop the run at the next boundary."""

    what: str  # pause | stop | interrupt | take-over | cancel


class Restore(Step, frozen=True, tag=True):
    """The checkout must hold this tree."""

    tree: str
    why: str
    since: str = ""


class Prepare(Step, frozen=True, tag=True):
    """The checkout must be made."""


class Baseline(Step, frozen=True, tag=True):
    """The base tree must be proved, to know what failed before."""


class Prove(Step, frozen=True, tag=True):
    """The gate: this very tree must be proved."""


class Commit(Step, frozen=True, tag=True):
    """The proved tree must be committed."""


class Land(Step, frozen=True, tag=True):
    """The commit must be merged into a branch of the user; "" is the one that the run started from."""

    branch: str = ""
    who: str = ""  # the person who ordered it, after the end


class Follow(Step, frozen=True, tag=True):
    """An outcome was reached and will be followed; "" is the outcome of a turn without a result."""

    outcome: str
    data: dict[str, Any] = {}
    waits: str = ""  # approval | block | breakpoint | evidence | done: for the answer to that question
    before: str = ""  # approval, block: the tree without the change in question
    past_breakpoint: bool = False


S = TypeVar("S", bound=Step)
AnyStep = Halt | Restore | Prepare | Baseline | Prove | Commit | Land | Follow
ORDER = (Prepare, Baseline, Prove, Commit, Land, Follow)
TO_FOLLOW = (Prove, Commit, Land, Follow)  # one outcome, and what must happen before its transition
ASKED = ("approval", "block", "breakpoint", "evidence", "done")  # what a Follow may wait for
GUARDED = ("approval", "block")  # what a Follow waits for where the guard asked or refused


def put(agenda: tuple[AnyStep, ...], *steps: AnyStep) -> tuple[AnyStep, ...]:
    """The agenda with these steps, each at its place; a step replaces the earlier one of its kind."""
    kinds = tuple(type(step) for step in steps)
    return tuple(sorted((*without(agenda, *kinds), *steps), key=_place))


def without(agenda: tuple[AnyStep, ...], *kinds: type[Step]) -> tuple[AnyStep, ...]:
    return tuple(step for step in agenda if not isinstance(step, kinds)) if agenda else agenda


def _place(step: AnyStep) -> int:
    """A cancel comes first, then what a person wants undone. A pause does not wait until a tree is restored; a person
    who takes the checkout over gets the restored one."""
    match step:
        case Halt(what):
            return {"cancel": 0, "take-over": 4}.get(what, 2)
        case Restore():
            return 1 if step.why == "rollback" else 3
        case _:
            return 5 + ORDER.index(type(step))


# ---- the parts of a run, by what they are about --------------------------------------------------------------


class Part(Struct, frozen=True, kw_only=True):
    """A part of a run."""


class Path(Part, frozen=True, kw_only=True):
    """Where the run came from, and how often it was where."""

    previous: str = ""
    origin: str = ""  # the state that called the CTO or a human
    answered_by: str = ""
    entries: dict[str, int] = {}  # to each state, in this iteration
    failures: dict[str, int] = {}  # in each state, since it was left forwards
    failure: str = ""  # the last one, in words
    interventions: int = 0  # of the CTO
    alerted: int = 0  # the last alert about the time in this state, in percent (TASK-6)
    child_stop: e.Stop | None = None  # why the last child failed


class Spending(Part, frozen=True, kw_only=True):
    """What the run used, and the counts at which its limits were last renewed."""

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
    excused: tuple[str, ...] = ()  # what a person approved: the radius is counted anew after it
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
    fails: int = 0  # so often this tree has failed in a row


class Evidence(Part, frozen=True, kw_only=True):
    """What is known about the tree, and what people approved."""

    baseline: int | None = None  # failing tests of the base tree …
    before: tuple[str, ...] = ()  # … and their names
    fewest: int | None = None  # failing tests, in any proof
    proof: Proof | None = None
    done_tree: str = ""  # the tree of which the author last said DONE
    rejected: str = ""  # the tree that was last rejected though its proof passes
    ruling: e.Ruling | None = None
    waivers: tuple[str, ...] = ()  # changes that a person approved, by diff
    accepted: str = ""  # the doubts about a proof that a person said yes to last, by key
    plan_reviewed: bool = False  # the code base was looked at for the plan file (TASK-5)
    grants: tuple[str, ...] = ()  # calls that a person allowed, by fingerprint; `once:` is for the next turn


class Progress(Part, frozen=True, kw_only=True):
    """Whether the work makes progress (LOOP-3)."""

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
    """Failed attempts that are tried again."""

    retries: int = 0  # failed turns in a row
    contexts: int = 0  # overflows in a row
    limits: int = 0  # turns in a row that a limit ended, as far as two
    limited: dict[str, int] = {}  # agent -> until when it is rate limited, where fallback agents take over
    interruptions: int = 0  # acts in a row
    reason: str = ""  # of the last interruption
    unclear: bool = False  # in this state a turn was asked again for its verdict or plan
    gone: bool = False  # something is missing that no act can do without


class Talk(Part, frozen=True, kw_only=True):
    """What agents said, and what the next agent is told."""

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
    act: e.Act | None = None  # the act of the child run, while that is paused
    halt: e.Stop | None = None  # the rule by which it was
    failures: int = 0  # of child runs
    replanned: bool = False  # made again after a failure
    turns: int = 0  # of the child runs, by writing roles
    idle: int = 0  # … in a row without progress
    said: tuple[str, int] = ("", 0)  # the last result of a turn, and how often it came in a row
    error: tuple[str, int] = ("", 0)  # the last error, too
    advanced: bool = False  # some turn made progress
    worked_us: int = 0  # since the last milestone
    warned: tuple[str, ...] = ()
    aside: tuple[Plan, ...] = ()  # interrupted plans, the last one on top
    parked: tuple[Plan, ...] = ()  # plans that another lane will ask about
    outcomes: dict[str, str] = {}  # ticket -> "done COMMIT" | "dropped", of the last ones
    nothings: tuple[str, int] = ("", 0)  # what was last found to need no work, and how often in a row

    @property
    def steps(self) -> tuple[e.PlanStep, ...]:
        return self.assessment.steps if self.assessment else ()

    @property
    def finished(self) -> bool:
        return self.step >= (len(self.steps) or 1)

    @property
    def waiting(self) -> tuple[Plan, ...]:
        """The plans that this one keeps waiting."""
        return (*self.aside, *self.parked)


# ---- the run -----------------------------------------------------------------------------------------------


class Run(Struct, frozen=True, kw_only=True):
    id: str
    machine: Machine
    settings: Settings
    began: e.RunBegan
    state: str
    status: str = "running"  # running | waiting | paused | blocked | ended
    end: str = ""
    stop: e.Stop | None = None
    question: e.Question | None = None
    until: int | None = None  # a wait ends by itself at this instant
    agenda: tuple[AnyStep, ...] = ()  # what is due before the act of the state
    act: e.Act | None = None
    child: str = ""
    at: int
    entered_at: int
    acts: int = 0
    questions: int = 0
    turn: int = 0
    iteration: int
    tree: str = ""
    spent: e.Usage = e.Usage()
    findings: tuple[e.Finding, ...] = ()
    path: Path = Path()
    spending: Spending = Spending()
    checkout: Checkout = Checkout()
    evidence: Evidence = Evidence()
    progress: Progress = Progress()
    tries: Tries = Tries()
    talk: Talk = Talk()
    plan: Plan = Plan()

    @property
    def here(self) -> State:
        return self.machine.states[self.state]

    @property
    def plan_file(self) -> str:
        """The plan file of the repository that a task carries out."""
        return str(self.began.options.get("plan_file") or self.settings.plan_file)

    @property
    def owner(self) -> bool:
        return self.began.owner

    @property
    def task(self) -> str:
        """The task that the run works on; in the standing loop, the current trigger."""
        return self.plan.trigger.text if self.plan.trigger else self.began.task

    @property
    def turns(self) -> int:
        """Agent turns of the run and its descendants."""
        return self.turn + self.spending.child_turns

    @property
    def asked(self) -> str:
        """The request for the next boundary: pause, stop, interrupt, take-over or cancel."""
        halt = self._step(Halt)
        return halt.what if halt else ""

    @property
    def restore(self) -> Restore | None:
        """The tree that the checkout must hold before anything else."""
        return self._step(Restore)

    @property
    def pending(self) -> Follow | None:
        """The outcome that is reached, but not followed yet."""
        return self._step(Follow)

    @property
    def landing(self) -> Land | None:
        """The merge into a branch of the user that is still to be done."""
        return self._step(Land)

    @property
    def prepared(self) -> bool:
        return self._step(Prepare) is None

    def _step(self, kind: type[S]) -> S | None:
        return next((step for step in self.agenda if isinstance(step, kind)), None)

    def most(self, key: str) -> int | None:
        """A limit: from the parent's table, else the configuration, else the machine's own."""
        option = self.began.options.get(key)
        if isinstance(option, int) and not isinstance(option, bool):
            return option
        return self.settings.limit(self.machine.name, key, self.machine.most.get(key))

    def option(self, key: str) -> Any:
        """`write`, `review` …: from the parent's table, else the settings."""
        return self.began.options.get(key, getattr(self.settings, key, None))
