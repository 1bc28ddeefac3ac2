"""Flyball's own assessment of a plan before it is executed (CTO-2 to CTO-4): steps, tier, estimate, approval."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, cast

from flyball.acts.run_files import RunFiles
from flyball.core.stops import p90
from flyball.domain import events as e
from flyball.domain.settings import dollars
from flyball.guard.change import Change
from flyball.guard.changes import judge_changes
from flyball.guard.policy import Policy, Tier, needs_approval, needs_rollback_note, raise_to, tier_of
from flyball.journal import Row
from flyball.state.run import Run
from flyball.workspace import Workspace

LIKE = 200  # so many ended tasks are looked at for an estimate
ENOUGH = 5  # with fewer, defaults are used
DEFAULT_UUSD, DEFAULT_TOKENS = 2_000_000, 300_000  # of one step
STEPS_MOST = 20
MISSING = "missing"
TITLE_MOST = 500
TIERS: tuple[Tier, ...] = ("T0", "T3", "T2", "T1")


def assess(run_files: RunFiles, run: Run, work: Workspace, turn: e.TurnEnded) -> e.Assessment:
    data = turn.claim.data
    steps = _steps(data, run.task)
    cost_uusd, tokens, basis = estimate(run_files.ended_tasks(run, LIKE), len(steps))
    limit_uusd, limit_tokens = run.settings.approve_uusd, run.settings.approve_tokens
    over = (limit_uusd is not None and cost_uusd > limit_uusd) or (
        limit_tokens is not None and tokens > limit_tokens
    )
    tier, why = _tier(run_files, run, work, steps, data, over)
    rollback = str(data.get("rollback") or "")[:TITLE_MOST]
    approval = [f"It is {tier}: {why}"] if needs_approval(tier) else []
    if over:
        approval.append(f"The estimate of {dollars(cost_uusd)} or {tokens:,} tokens is over the threshold.")
    governance = _governance(run, work)
    blockers = [str(one)[:TITLE_MOST] for one in _texts(data.get("blockers"))]
    blockers += _refused(run_files.policy(run), steps, str(work.repo_root))
    blockers += [
        f"{name}, which plans must follow, is missing." for name in governance if governance[name] == MISSING
    ]
    if needs_rollback_note(tier) and not rollback:
        blockers.append("A T1 plan needs a note on how to roll it back, and this one has none.")
    return e.Assessment(
        steps=steps,
        tier=tier,
        tier_why=why,
        approval=tuple(approval),
        cost_uusd=cost_uusd,
        tokens=tokens,
        basis=basis,
        rollback=rollback,
        blockers=tuple(blockers),
        governance=governance,
    )


def _refused(policy: Policy, steps: Sequence[e.PlanStep], workspace: str) -> list[str]:
    """Planned files that the guard would refuse even if a person approved the plan (CTO-2)."""
    paths = dict.fromkeys(path for step in steps for path in step.paths)
    judged = [judge_changes([Change(path=path, op="modify")], policy, workspace=workspace) for path in paths]
    return [
        f"The plan changes {path}, which the guard denies: {one.reason}"
        for path, one in zip(paths, judged, strict=True)
        if one.verdict == "deny"
    ]


def _steps(data: dict[str, Any], task: str) -> tuple[e.PlanStep, ...]:
    """The planner's steps; a plan in words alone is one step."""
    rows = cast("list[dict[str, Any]]", data.get("steps") or [])[:STEPS_MOST]
    steps = [
        e.PlanStep(
            title=str(row["title"])[:TITLE_MOST],
            paths=tuple(_texts(row.get("paths"))),
            criteria=tuple(_texts(row.get("criteria"))),
        )
        for row in rows
    ]
    return tuple(steps) or (e.PlanStep(title=task[:TITLE_MOST]),)


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    return [str(one) for one in cast("list[Any]", value)] if isinstance(value, list) else []


def _tier(
    run_files: RunFiles,
    run: Run,
    work: Workspace,
    steps: Sequence[e.PlanStep],
    data: dict[str, Any],
    over: bool,
) -> tuple[Tier, str]:
    """By rules from paths and words; the planner may raise it."""
    paths = [path for step in steps for path in step.paths]
    text = words_of(run, steps)
    policy, root = run_files.policy(run), str(work.repo_root)
    tier, why = tier_of(paths, text, policy, over_cost=over, workspace=root)
    said = data.get("tier")
    if said in TIERS and raise_to(tier, said) != tier:
        return said, "The planner says so."
    return tier, why[0]


def words_of(run: Run, steps: Sequence[e.PlanStep]) -> str:
    """The text that decides the tier of a plan. A repair of failing checks may name them; that does not make it a change of CI."""
    repairs = run.plan.trigger is not None and run.plan.trigger.head
    return "\n".join((*([] if repairs else [run.task]), *(step.title for step in steps)))


def estimate(ended: Sequence[Row], steps: int) -> tuple[int, int, str]:
    """Cost, tokens and basis: the p90 of this repository's own tasks, else a default, for each step."""
    if len(ended) < ENOUGH:
        return (
            DEFAULT_UUSD * steps,
            DEFAULT_TOKENS * steps,
            "a default, because too few tasks have ended here",
        )
    cost, tokens = p90([row.cost_uusd for row in ended]), p90([row.tokens for row in ended])
    return cost * steps, tokens * steps, f"the p90 of the last {len(ended)} tasks here"


def _governance(run: Run, work: Workspace) -> dict[str, str]:
    """The files that say how work is done here, as they are in the tree that was planned on."""
    names = run.settings.governance
    contents = work.read_all([(run.tree, name) for name in names])
    return {
        name: hashlib.sha256(content).hexdigest() if content is not None else MISSING
        for name, content in zip(names, contents, strict=True)
    }
