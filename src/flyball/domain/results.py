"""The results of acts, one class for each kind of act, the parts that results and events share, and the stop codes.

To change a shape, add a field with a default.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from flyball.errors import FlyballError


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
    """A finding of a reviewer, or its new status."""

    id: str = ""
    file: str = ""
    line: int = 0
    severity: str = "medium"  # high | medium | low
    kind: str = ""  # or "security": a high one stops the run (CTO-7)
    status: str = "open"  # open | fixed | disputed | accepted
    text: str = ""
    evidence: str = ""


class Claim(Fact, frozen=True, kw_only=True):
    """What the agent says it achieved in its turn. It is only a claim."""

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
    """The guard's verdict on one change."""

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
    unchanged: bool = False  # the turn had changed nothing
    kept: str = ""  # the ref under which a denied change was put aside
    others: tuple[str, ...] = ()
    tier: str = ""  # T0 T3 T2 T1: of the task and of all that the run has changed so far (CTO-3)
    tier_why: str = ""


class Stop(Fact, frozen=True, kw_only=True):
    """Why a run stopped: the code, the rule and the observed value."""

    code: str
    rule: str = ""
    threshold: str = ""
    observed: str = ""
    turn: int = 0
    otherwise: str = ""  # what would have happened had the rule not fired
    detail: str = ""
    call: str = ""  # the fingerprint of the call for which a permission is asked

    def grants(self, verb: str) -> tuple[str, ...]:
        """The tool call that an answer allows, always or once."""
        if self.code != "wait.permission" or not self.call:
            return ()
        return {"approve": (self.call,), "grant": (f"once:{self.call}",)}.get(verb, ())


class Question(Fact, frozen=True, kw_only=True):
    """A question to a person. `shown` is the hash of what the person sees; the answer is only valid for that."""

    id: str
    kind: (
        str  # approval | clarification | permission | budget | block | breakpoint | loop | escalation | limit
    )
    text: str
    verbs: tuple[str, ...]
    shown: str = ""
    tree: str = ""
    default: str = ""  # the answer that counts if nobody has answered by then …
    default_text: str = ""  # … with these words
    deadline: int = 0  # 0: it waits for ever
    asked_at: int = 0
    reminded: int = 0  # how often people were reminded


class Action(Fact, frozen=True, kw_only=True):
    """One tool call that the guard was asked about, with its verdict and its result."""

    tool: str
    input: str = ""
    verdict: str = ""  # allow | ask | deny
    rule: str = ""
    reason: str = ""
    result: str = ""
    failed: bool = False
    late: bool = False  # decided while no supervisor was running


ALIVE = ("running", "waiting", "paused", "blocked")  # statuses of a run that has not ended
KINDS = ("task", "ci", "performance", "security", "cost", "health", "schedule")  # of triggers
ORDINARY = 50  # the priority of a task, of 0 to 100
URGENT = {"security": 90, "ci": 80, "cost": 70, "performance": 60}


# ---- the standing loop: a trigger, and the plan that is made for it ----------------------------------------


class Trigger(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Why the standing loop should work (CTO-5)."""

    kind: (
        str  # task | start | schedule | health | ci | performance | security | cost; hold | release | cancel
    )
    text: str  # what is to be done
    ticket: str = ""  # the task of the backlog that it is
    priority: int = ORDINARY
    commit: str = ""  # the work starts from here …
    tree: str = ""  # … which is this tree
    after: tuple[str, ...] = ()  # tickets that must be done first
    later: bool = False  # it waits until somebody starts it
    plan: str = ""  # a plan file of the repository that it implements (TASK-5)
    head: str = (
        ""  # the branch of a run whose CI fails: the result goes there, and the work starts from its commit
    )
    tried: bool = False  # one repair of that branch was tried already: a person decides (CTO-8)
    tick: tuple[str, ...] = ()  # file and text of the item of a check-list that it is (CTO-6)


class PlanStep(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One step of a plan; it becomes a task."""

    title: str
    paths: tuple[str, ...] = ()
    criteria: tuple[str, ...] = ()


class Assessment(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A plan as Flyball judges it (CTO-2): from the planner's words, by rules, before anything is executed."""

    steps: tuple[PlanStep, ...]
    tier: str = "T3"
    tier_why: str = ""
    approval: tuple[str, ...] = ()  # why a person must say yes first; nothing: no need
    cost_uusd: int = 0  # the estimate, with the basis that it stands on
    tokens: int = 0
    median_uusd: int = 0
    median_tokens: int = 0
    basis: str = ""
    rollback: str = ""
    blockers: tuple[str, ...] = ()
    governance: dict[str, str] = {}  # file -> sha256, as the planner could read it

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why a person must approve the plan before it is executed (CTO-3, CTO-4); empty if nobody must."""
        return (*self.blockers, *self.approval)


# ---- what the gate learned about a proof besides exit 0 (EVID-7) -------------------------------------------


class Evidence(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Names of tests are at most fifty of a kind; the counts are whole."""

    require: str = "all"  # or "no-worse"
    judged: str = "command"  # by "tests", each by its id, or by the exit codes of commands alone
    runners: tuple[str, ...] = ()
    passed: int = 0
    skipped: int = 0
    fail_to_pass: tuple[str, ...] = ()
    fail_to_pass_count: int = 0
    pass_to_pass_count: int = 0
    removed: tuple[str, ...] = ()
    newly_skipped: tuple[str, ...] = ()
    still_failing: tuple[str, ...] = ()  # as "no-worse" allows
    new_count: int = 0
    flaky: tuple[str, ...] = ()
    bite: str = ""  # noticed | not noticed | nothing to break | not tried
    bite_places: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()  # what a person is asked about, a sentence each
    versions: tuple[str, ...] = ()  # how the tests in doubt were changed, as a diff
    doubts_key: str = ""  # an approval is of exactly these doubts about this tree


# ---- results -----------------------------------------------------------------------------------------------


class Result(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind"):
    """The result of an act; one class for each kind of act."""


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
    undone: tuple[str, ...] = ()  # what a read-only role changed and Flyball undid
    held: tuple[str, ...] = ()  # what it changed where the guard asks or refuses
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
    """`of` and `proof` are set if the target had new commits: `tree` is then the merge of them and `of`, proved again."""

    outcome: str  # committed | refused | conflict | unreachable
    tree: str
    commit: str = ""
    certificate: str = ""  # sha256 of the certificate file
    reason: str = ""
    of: str = ""
    proof: ProofEnded | None = None
    landed: str = ""  # the user's branch that took it, with `commit = "merge"`
    pull_request: str = ""  # that proposes it, with `commit = "pr"`

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
    changed: tuple[str, ...] = ()  # by an approved change that is kept now
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


# ---- stop codes: every way in which a run can stop, with its status, exit code and ALO code ------------------


class Code(Struct, frozen=True):
    status: str  # ended | waiting | paused | blocked
    exit: int
    says: str
    alo: str = ""


CODES: dict[str, Code] = {
    "completed": Code("ended", 0, "the work is done and proved"),
    "completed_unproven": Code("ended", 0, "the work is done, but no proof command is configured"),
    "cancelled": Code("ended", 1, "a person cancelled it", "ALO_CANCELLED"),
    "failed.agent": Code(
        "ended", 1, "the agent failed more often than the retries allow", "ALO_AGENT_FAILED"
    ),
    "failed.start": Code("ended", 1, "the agent could not be started", "ALO_AGENT_FAILED"),
    "failed.tests": Code("ended", 1, "the proof fails and no fix attempts are left", "ALO_TEST_FAILED"),
    "failed.review": Code("ended", 1, "the author or the reviewer reported FAIL"),
    "failed.abandoned": Code("ended", 1, "a person abandoned it"),
    "timeout.phase": Code("ended", 1, "a phase exceeded its time limit", "ALO_PHASE_TIMEOUT"),
    "timeout.idle": Code(
        "ended", 1, "the agent produced no output, several times in a row", "ALO_AGENT_FAILED"
    ),
    "limit.iterations": Code("ended", 5, "all iterations are used", "ALO_MAX_ITERATIONS_EXCEEDED"),
    "limit.turns": Code("ended", 5, "all turns are used", "ALO_MAX_ITERATIONS_EXCEEDED"),
    "limit.fix_attempts": Code("ended", 5, "all fix attempts are used", "ALO_MAX_FIX_ATTEMPTS_EXCEEDED"),
    "limit.time": Code("ended", 5, "the time budget is used up"),
    "limit.budget_usd": Code("waiting", 5, "the money budget does not cover another turn"),
    "limit.budget_tokens": Code("waiting", 5, "the token budget does not cover another turn"),
    "limit.actions": Code("waiting", 3, "too many tool calls in one turn, or turns for one plan"),
    "loop.no_progress": Code("waiting", 3, "several turns without progress"),
    "loop.same_action": Code("waiting", 3, "the same action with the same result, several times in a row"),
    "loop.same_error": Code("waiting", 3, "the same error, several times in a row"),
    "loop.state_cycle": Code("waiting", 3, "the states repeat without progress"),
    "loop.oscillation": Code("waiting", 3, "the files go back and forth between earlier versions"),
    "loop.replan": Code("waiting", 3, "several plans without progress"),
    "wait.approval": Code("waiting", 3, "a person must approve"),
    "wait.question": Code("waiting", 3, "the agent asks a question"),
    "wait.permission": Code("waiting", 3, "the agent asks for permission"),
    "wait.dependency": Code("waiting", 3, "something outside this run must happen first"),
    "wait.infrastructure": Code(
        "waiting", 3, "interrupted several times in a row, or something that the run needs is missing"
    ),
    "wait.conflict": Code("waiting", 3, "the change does not merge into its target"),
    "wait.mismatch": Code("waiting", 3, "files or branches differ from what the journal says"),
    "wait.auth": Code("waiting", 3, "the agent is not logged in"),
    "wait.billing": Code("waiting", 3, "the agent's account has no credit"),
    "wait.escalation": Code("waiting", 3, "a person must decide"),
    "wait.check_in": Code("waiting", 3, "a long time without a milestone"),
    "wait.rate_limit": Code("waiting", 3, "the agent reached a rate limit"),
    "wait.breakpoint": Code("paused", 3, "a breakpoint is set here"),
    "wait.paused": Code("paused", 3, "a person paused it"),
    "wait.take_over": Code("paused", 3, "a person works in its checkout"),
    "blocked.tampering": Code(
        "blocked", 4, "Flyball's own files were modified during the run", "ALO_GUARD_BLOCKED"
    ),
    "interrupted": Code("paused", 130, "Ctrl+C"),
}
GUARDED = Code("blocked", 4, "the guard refused the change", "ALO_GUARD_BLOCKED")
PLACED = Code("blocked", 4, "the machine's table blocks the run on this outcome")
BROKEN = Code("waiting", 3, "something outside the run is broken")

RECOVERY = {
    "ALO_LOOP_NOT_FOUND": "`flyball ls` lists the runs; `flyball run` starts one.",
    "ALO_LOOP_ALREADY_RUNNING": "Follow it with `flyball watch RUN`.",
    "ALO_LOOP_NOT_PAUSED": "Start a new run from its files with `flyball retry RUN`.",
    "ALO_MAX_ITERATIONS_EXCEEDED": "Allow more with `flyball retry RUN --set limits.iterations=N` (or limits.turns).",
    "ALO_MAX_FIX_ATTEMPTS_EXCEEDED": "Look at the failing tests, or allow more with `flyball retry RUN --set limits.fix=N`.",
    "ALO_GUARD_BLOCKED": "Look at the change with `flyball diff RUN`, then approve or reject it.",
    "ALO_TEST_FAILED": "Look at the failing tests with `flyball log RUN --output`.",
    "ALO_PHASE_TIMEOUT": "Raise limits.phase_timeout, or make the task smaller.",
    "ALO_INVALID_TRANSITION": "Check the machine: `flyball machines show NAME`.",
    "ALO_CANCELLED": "Start a new run from its files with `flyball retry RUN`.",
    "ALO_AGENT_FAILED": "Check the agent with `flyball agents`, and its output with `flyball log RUN --output`.",
}


def code_of(code: str) -> Code:
    """The row of a code; families (`blocked.guard.RULE`, `blocked.table.OUTCOME`, `error.WHAT`) have one row for all."""
    if code.startswith("blocked.guard."):
        return GUARDED
    if code.startswith("blocked.table."):
        return PLACED
    if code.startswith("error."):
        return BROKEN
    try:
        return CODES[code]
    except KeyError:
        raise FlyballError(f"'{code}' is not a stop code of this version.") from None
