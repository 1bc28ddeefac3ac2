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
    "failed.agent": Code("ended", 1, "the agent failed again and again", "ALO_AGENT_FAILED"),
    "failed.start": Code("ended", 1, "no process of the first turn could be started", "ALO_AGENT_FAILED"),
    "failed.tests": Code(
        "ended", 1, "the proof fails and no attempt to repair it is left", "ALO_TEST_FAILED"
    ),
    "failed.review": Code("ended", 1, "author or reviewer said FAIL"),
    "failed.abandoned": Code("ended", 1, "a person abandoned it"),
    "timeout.phase": Code("ended", 1, "a phase outlived its time", "ALO_PHASE_TIMEOUT"),
    "timeout.idle": Code("ended", 1, "the agent fell silent again and again", "ALO_AGENT_FAILED"),
    "limit.iterations": Code("ended", 5, "every allowed iteration is used", "ALO_MAX_ITERATIONS_EXCEEDED"),
    "limit.turns": Code("ended", 5, "every allowed turn is used", "ALO_MAX_ITERATIONS_EXCEEDED"),
    "limit.fix_attempts": Code(
        "ended", 5, "every allowed fix attempt is used", "ALO_MAX_FIX_ATTEMPTS_EXCEEDED"
    ),
    "limit.time": Code("ended", 5, "the wall-clock budget is used up"),
    "limit.budget_usd": Code("waiting", 5, "the money budget does not cover another turn"),
    "limit.budget_tokens": Code("waiting", 5, "the token budget does not cover another turn"),
    "limit.actions": Code("waiting", 3, "too many tool calls or turns"),
    "loop.no_progress": Code("waiting", 3, "several turns in a row changed nothing that counts"),
    "loop.same_action": Code("waiting", 3, "the same action had the same result again and again"),
    "loop.same_error": Code("waiting", 3, "the same error came back again and again"),
    "loop.state_cycle": Code("waiting", 3, "the states go round without advancing"),
    "loop.oscillation": Code("waiting", 3, "the tree goes back and forth between states it had before"),
    "loop.replan": Code("waiting", 3, "it planned again without progress"),
    "wait.approval": Code("waiting", 3, "a person must approve"),
    "wait.question": Code("waiting", 3, "the agent asked a question"),
    "wait.permission": Code("waiting", 3, "the agent asked for a permission"),
    "wait.dependency": Code("waiting", 3, "it waits for something else to finish"),
    "wait.infrastructure": Code("waiting", 3, "its acts were interrupted again and again"),
    "wait.conflict": Code("waiting", 3, "the change does not merge into its target"),
    "wait.mismatch": Code("waiting", 3, "what is there differs from what was recorded"),
    "wait.auth": Code("waiting", 3, "the agent is not logged in"),
    "wait.billing": Code("waiting", 3, "the agent's account has no credit"),
    "wait.escalation": Code("waiting", 3, "it was escalated to a person"),
    "wait.check_in": Code("waiting", 3, "a long time went by without a milestone"),
    "wait.rate_limit": Code("waiting", 3, "a rate limit must clear first"),
    "wait.trigger": Code("waiting", 3, "it waits for a trigger"),
    "wait.breakpoint": Code("paused", 3, "a breakpoint is set here"),
    "wait.paused": Code("paused", 3, "a person paused it"),
    "wait.take_over": Code("paused", 3, "a person works in its checkout"),
    "blocked.tampering": Code("blocked", 4, "the guard itself was touched", "ALO_GUARD_BLOCKED"),
    "interrupted": Code("paused", 130, "Ctrl+C"),
}
# Reserved for rules of `cto` and `up` that are not there yet: nothing stops a run with these.
NOT_EMITTED = (
    "loop.state_cycle",
    "loop.replan",
    "wait.dependency",
    "wait.mismatch",
    "wait.check_in",
    "wait.trigger",
)
GUARDED = Code("blocked", 4, "the guard refused the change", "ALO_GUARD_BLOCKED")
PLACED = Code("blocked", 4, "the machine blocks the run on this outcome")
BROKEN = Code("waiting", 3, "something outside the run is broken")

RECOVERY = {
    "ALO_LOOP_NOT_FOUND": "Create a new run; `flyball ls` lists the runs there are.",
    "ALO_LOOP_ALREADY_RUNNING": "Use the run that is already driven; `flyball watch RUN` follows it.",
    "ALO_LOOP_NOT_PAUSED": "Wait for a pause, or start a new run from its tree with `flyball retry RUN`.",
    "ALO_MAX_ITERATIONS_EXCEEDED": "Give up, or raise the limit with `--set limits.iterations=N` (or turns) and retry.",
    "ALO_MAX_FIX_ATTEMPTS_EXCEEDED": "Look at the failing proof yourself, or raise `limits.fix` and retry.",
    "ALO_GUARD_BLOCKED": "Look at the refused change; approve it, or reject it so that the agent does it otherwise.",
    "ALO_TEST_FAILED": "Debug the failing tests; `flyball show RUN` names the log.",
    "ALO_PHASE_TIMEOUT": "Raise `limits.phase_timeout`, or make the task smaller.",
    "ALO_INVALID_TRANSITION": "Check the machine: `flyball machines show NAME`.",
    "ALO_CANCELLED": "Start again if needed: `flyball retry RUN`.",
    "ALO_AGENT_FAILED": "Check the agent's configuration and log: `flyball log RUN`.",
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
        raise FlyballError(f"'{code}' is no stop code of this version.") from None
