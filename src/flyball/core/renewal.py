"""A new allowance: what had run out begins again at zero."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

if TYPE_CHECKING:
    from flyball.core.run import Run

INSTEAD = ("wait.escalation", "blocked.table.")  # codes whose rule may be the code of what ran out
ENTRIES = ("limit.turns", "limit.fix_attempts", "limit.iterations", "failed.tests")  # renewed together


def renewed(run: Run) -> Run:
    """What had run out begins again at zero."""
    rule, code = (run.stop.rule, run.stop.code) if run.stop else ("", "")
    if rule.startswith(("budget.day", "budget.week")):
        fresh = replace(run.spending, window=None, window_from=run.at, turn_costs=(), turn_tokens=())
        return replace(run, spending=fresh)
    if code.startswith("limit.budget"):
        return replace(run, spending=replace(run.spending, base=run.spent, turn_costs=(), turn_tokens=()))
    tries = replace(run.tries, retries=0, contexts=0, interruptions=0, unclear=False, gone=False)
    return renewed_limit(unstalled(replace(run, tries=tries)), rule if code.startswith(INSTEAD) else "")


def renewed_limit(run: Run, code: str) -> Run:
    if code == "limit.time":
        return replace(run, spending=replace(run.spending, wall_base=run.spending.wall_us))
    if code not in ENTRIES:
        return run
    used = run.turns + run.spending.idle_children
    spending = replace(run.spending, turns_base=used, iteration_base=run.iteration)
    return replace(run, spending=spending, path=replace(run.path, entries={}))


def unstalled(run: Run) -> Run:
    return replace(run, progress=replace(run.progress, idle=0, wanders=False, errors=0, probes=0))
