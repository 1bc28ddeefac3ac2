"""A limit costs neither a turn nor a failure: another agent goes on while it lasts, or it is waited for (LOOP-5)."""

from __future__ import annotations

import hashlib

from flyball.core.run import Facts, Run
from flyball.core.stops import stop, wait
from flyball.core.tally import FRESH
from flyball.domain import events as e
from flyball.domain.settings import SECOND

SHORT_US = 10 * SECOND  # a shorter wait needs no jitter
JITTER_MOST_US = 2 * SECOND


def limited(facts: Facts, act: e.Act, turn: e.TurnEnded) -> Facts:
    """What follows from a turn that a limit ended."""
    now, until = facts.now, ends_at(facts.run, turn, facts.now)
    if facts.run.settings.fallback:
        facts.add(e.Limited(at=now, agent=act.agent, until=until))
        role = act.do.partition(":")[2]
        if free(facts.run, role, now):
            return facts.add(e.Told(at=now, text=so_far(facts.run), who="flyball"))
        until = min(facts.run.tries.limited[agent] for agent in candidates(facts.run, role))
    return wait(facts, stop(facts.run, "wait.rate_limit", turn.verdict, until, now, detail=turn.error), until)


def plan_used_up(run: Run, now: int) -> e.Stop | None:
    """GUARD-4: the share of the plan's window that a run may use is used up; it waits until the window is new."""
    most, used = run.settings.budget.plan_percent, run.spending.plan_percent
    if most is None or used < most or run.spending.plan_reset_at <= now:
        return None
    return stop(run, "wait.rate_limit", "budget.plan_percent", f"{most} %", f"{used} %")


def ends_at(run: Run, turn: e.TurnEnded, now: int) -> int:
    """When to try again. A reset that is past is tried at once, but not again and again without a pause."""
    reset = turn.reset_at
    if reset is None or (reset <= now and run.tries.limits > 1):
        return now + run.settings.retry_every_us
    wait_us = max(reset - now, 0)
    return now + wait_us + (_jitter_us(run, wait_us) if turn.verdict == "plan_limit" else 0)


def _jitter_us(run: Run, wait_us: int) -> int:
    """So that many runs do not come back in the same instant; the same run at the same turn always waits the same."""
    if wait_us < SHORT_US:
        return 0
    drawn = hashlib.sha256(f"{run.id}:{run.turns}".encode()).digest()
    return int.from_bytes(drawn[:8]) % (min(JITTER_MOST_US, wait_us // 100) + 1)


# ---- who plays a role ----------------------------------------------------------------------------------------


def candidates(run: Run, role: str) -> list[str]:
    """The agent of the role, then those that stand in for it."""
    if run.settings.consensus and run.iteration % 2 == 0:  # PAIR-3: they change places each iteration
        role = {"author": "reviewer", "reviewer": "author"}.get(role, role)
    return list(dict.fromkeys((run.settings.agent_for(role), *run.settings.fallback)))


def free(run: Run, role: str, now: int) -> str:
    """The first of them that no limit holds now; "" if there is none."""
    return next((agent for agent in candidates(run, role) if run.tries.limited.get(agent, 0) <= now), "")


def agent_for(run: Run, role: str, now: int) -> str:
    return free(run, role, now) or candidates(run, role)[0]


def so_far(run: Run) -> str:
    """What an agent in a fresh session must know; from the journal, since nobody else remembers."""
    lines = "\n".join(f"- {line}" for line in run.talk.recent)
    work = f"What was done so far:\n{lines}" if lines else "Nothing was done before you."
    files = run.checkout.changed[:50]
    changed = f"\nFiles changed so far: {', '.join(files)}." if files else ""
    error = f"\nThe last error: {run.progress.error_text[-1000:]}" if run.progress.error_text else ""
    return f"{FRESH} {work}{changed}{error}"
