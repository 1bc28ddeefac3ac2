"""Every way in which a run can stop, with the status, exit code and ALO code that go with it."""

from __future__ import annotations

from msgspec import Struct

from flyball.errors import FlyballError


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
    "limit.actions": Code("waiting", 3, "too many tool calls in one turn"),
    "loop.no_progress": Code("waiting", 3, "several turns without progress"),
    "loop.same_action": Code("waiting", 3, "the same tool call with the same result, several times in a row"),
    "loop.same_error": Code("waiting", 3, "the same error, several times in a row"),
    "loop.state_cycle": Code("waiting", 3, "the states repeat without progress"),
    "loop.oscillation": Code("waiting", 3, "the files go back and forth between earlier versions"),
    "loop.replan": Code("waiting", 3, "several plans without progress"),
    "wait.approval": Code("waiting", 3, "a person must approve"),
    "wait.question": Code("waiting", 3, "the agent asks a question"),
    "wait.permission": Code("waiting", 3, "the agent asks for permission"),
    "wait.dependency": Code("waiting", 3, "another task must finish first"),
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
    "wait.trigger": Code("waiting", 3, "it waits for a trigger"),
    "wait.breakpoint": Code("paused", 3, "a breakpoint is set here"),
    "wait.paused": Code("paused", 3, "a person paused it"),
    "wait.take_over": Code("paused", 3, "a person works in its checkout"),
    "blocked.tampering": Code(
        "blocked", 4, "Flyball's own files were modified during the run", "ALO_GUARD_BLOCKED"
    ),
    "interrupted": Code("paused", 130, "Ctrl+C"),
}
# Reserved for rules of `cto` and `up` that do not exist yet: no run stops with these.
NOT_EMITTED = (
    "wait.dependency",
    "wait.trigger",
)
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


def of(code: str) -> Code:
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
