"""A limit costs neither a turn nor a failure: another agent goes on while it lasts, or it is waited for (LOOP-5)."""

from __future__ import annotations

import hashlib

from flyball.core import events as e
from flyball.core.run import Run, apply
from flyball.core.settings import SECOND
from flyball.core.stops import stop
from flyball.core.tally import FRESH

SHORT_US = 10 * SECOND  # a shorter wait needs no jitter
JITTER_MOST_US = 2 * SECOND


def limited(run: Run, act: e.Act, turn: e.TurnEnded, now: int) -> list[e.AnyEvent]:
    """What follows from a turn that a limit ended."""
    until = ends_at(run, turn, now)
    if not run.settings.fallback:
        return [_wait(run, turn, until, now)]
    noted = e.Limited(at=now, agent=act.agent, until=until)
    run = apply(run, noted)
    role = act.do.partition(":")[2]
    if free(run, role, now):
        return [noted, e.Told(at=now, text=so_far(run), who="flyball")]
    times = [run.limited[agent] for agent in candidates(run, role)]
    return [noted, _wait(run, turn, min(times), now)]


def _wait(run: Run, turn: e.TurnEnded, until: int, now: int) -> e.Stopped:
    seen = stop(run, "wait.rate_limit", turn.verdict, until, now, detail=turn.error)
    return e.Stopped(at=now, status="waiting", stop=seen, until=until)


def plan_used_up(run: Run, now: int) -> e.Stopped | None:
    """GUARD-4: the share of the plan's window that a run may use is used up; it waits until the window is new."""
    most, until = run.settings.budget.plan_percent, run.plan_reset_at
    if most is None or run.plan_percent < most or until <= now:
        return None
    seen = stop(run, "wait.rate_limit", "budget.plan_percent", f"{most} %", f"{run.plan_percent} %")
    return e.Stopped(at=now, status="waiting", stop=seen, until=until)


def ends_at(run: Run, turn: e.TurnEnded, now: int) -> int:
    """When to try again. A reset that is past is tried at once, but not again and again without a pause."""
    reset = turn.reset_at
    if reset is None or (reset <= now and run.limits > 1):
        return now + run.settings.retry_every_us
    wait = max(reset - now, 0)
    return now + wait + (_jitter_us(run, wait) if turn.verdict == "plan_limit" else 0)


def _jitter_us(run: Run, wait_us: int) -> int:
    """So that many runs do not come back in the same instant; the same run at the same turn always waits the same."""
    if wait_us < SHORT_US:
        return 0
    drawn = hashlib.sha256(f"{run.id}:{run.turns}".encode()).digest()
    return int.from_bytes(drawn[:8]) % (min(JITTER_MOST_US, wait_us // 100) + 1)


# ---- who plays a role ----------------------------------------------------------------------------------------


def candidates(run: Run, role: str) -> list[str]:
    """The agent of the role, then those that stand in for it."""
    return list(dict.fromkeys((run.settings.agent_for(_place(run, role)), *run.settings.fallback)))


def _place(run: Run, role: str) -> str:
    """Under consensus author and reviewer change places each iteration (PAIR-3)."""
    if run.settings.consensus and run.iteration % 2 == 0:
        return {"author": "reviewer", "reviewer": "author"}.get(role, role)
    return role


def free(run: Run, role: str, now: int) -> str:
    """The first of them that no limit holds now; "" if there is none."""
    return next((agent for agent in candidates(run, role) if run.limited.get(agent, 0) <= now), "")


def agent_for(run: Run, role: str, now: int) -> str:
    return free(run, role, now) or candidates(run, role)[0]


def so_far(run: Run) -> str:
    """What an agent that begins afresh must know; from the journal, since nobody else remembers."""
    lines = "\n".join(f"- {line}" for line in run.lately)
    work = f"What was done so far:\n{lines}" if lines else "Nothing was done before you."
    changed = f"\nFiles changed so far: {', '.join(run.changed[:50])}." if run.changed else ""
    error = f"\nThe last error: {run.last_error[-1000:]}" if run.last_error else ""
    return f"{FRESH} {work}{changed}{error}"
