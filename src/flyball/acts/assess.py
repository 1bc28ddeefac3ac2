"""Flyball's own assessment of a plan before it is executed (CTO-2 to CTO-4): steps, tier, estimate, approval."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from statistics import median_low
from typing import Any, cast

from msgspec import Struct

from flyball.acts.run_files import RunFiles
from flyball.core.stops import p90
from flyball.domain import events as e
from flyball.domain.settings import dollars
from flyball.guard.change import Change
from flyball.guard.changes import judge_changes
from flyball.guard.policy import Policy, Tier, needs_approval, needs_rollback_note, raise_to, tier_of
from flyball.state.run import Run
from flyball.workspace import Workspace

LIKE = 200  # so many ended tasks are looked at for an estimate
ENOUGH = 5  # with fewer, defaults are used
DEFAULT_UUSD, DEFAULT_TOKENS = 2_000_000, 300_000  # of one step
SIZES = (1, 5)  # files: one, a few, many
WORKER = "worker"  # the role that does most of a task
NAMES_CI = re.compile(r"\bCI\b", re.IGNORECASE)  # each failure of CI does
STEPS_MOST = 20
MISSING = "missing"
TITLE_MOST = 500
TIERS: tuple[Tier, ...] = ("T0", "T3", "T2", "T1")


class EndedTask(Struct, frozen=True, kw_only=True):
    """A task that ended in success: what it cost, who worked, how many files its step named."""

    cost_uusd: int
    tokens: int
    agent: str = ""
    files: int = 0


def assess(run_files: RunFiles, run: Run, work: Workspace, turn: e.TurnEnded) -> e.Assessment:
    tasks = [
        EndedTask(
            cost_uusd=row.cost_uusd,
            tokens=row.tokens,
            agent=began.settings.agent_for(WORKER),
            files=int(began.options.get("files", 0)),
        )
        for row, began in run_files.ended_tasks(run, LIKE)
    ]
    root = str(work.repo_root)
    return assessed(run, turn.claim.data, run_files.policy(run), tasks, _governance(run, work), root)


def assessed(
    run: Run,
    data: dict[str, Any],
    policy: Policy,
    tasks: Sequence[EndedTask],
    governance: dict[str, str],
    workspace: str,
) -> e.Assessment:
    """The plan that a planner gave as data; in words alone it is one step."""
    steps = _steps(data, run.task)
    files = max(len(step.paths) for step in steps)
    estimate_ = estimate(tasks, run.settings.agent_for(WORKER), files, len(steps))
    limit_uusd, limit_tokens = run.settings.approve_uusd, run.settings.approve_tokens
    over = (limit_uusd is not None and estimate_.cost_uusd > limit_uusd) or (
        limit_tokens is not None and estimate_.tokens > limit_tokens
    )
    tier, why = _tier(run, steps, data, policy, over, workspace)
    rollback = str(data.get("rollback") or "")[:TITLE_MOST]
    approval = [f"It is {tier}: {why}"] if needs_approval(tier) else []
    if over:
        cost, tokens = dollars(estimate_.cost_uusd), f"{estimate_.tokens:,}"
        approval.append(f"The estimate of {cost} or {tokens} tokens is over the threshold.")
    blockers = _blockers(data, policy, steps, governance, workspace)
    if needs_rollback_note(tier) and not rollback:
        blockers.append("A T1 plan needs a note on how to roll it back, and this one has none.")
    return e.Assessment(
        steps=steps,
        tier=tier,
        tier_why=why,
        approval=tuple(approval),
        cost_uusd=estimate_.cost_uusd,
        tokens=estimate_.tokens,
        median_uusd=estimate_.median_uusd,
        median_tokens=estimate_.median_tokens,
        basis=estimate_.basis,
        rollback=rollback,
        blockers=tuple(blockers),
        governance=governance,
    )


def _blockers(
    data: dict[str, Any],
    policy: Policy,
    steps: Sequence[e.PlanStep],
    governance: dict[str, str],
    workspace: str,
) -> list[str]:
    texts = [str(one)[:TITLE_MOST] for one in _texts(data.get("blockers"))]
    missing = [name for name, digest in governance.items() if digest == MISSING]
    lacks = [f"{name}, which plans must follow, is missing." for name in missing]
    return [*texts, *_refused(policy, steps, workspace), *lacks]


def _refused(policy: Policy, steps: Sequence[e.PlanStep], workspace: str) -> list[str]:
    """Planned files that the guard would refuse even if a person approved the plan (CTO-2)."""
    paths = dict.fromkeys(path for step in steps for path in step.paths)
    rulings = [judge_changes([Change(path=path, op="modify")], policy, workspace=workspace) for path in paths]
    return [
        f"The plan changes {path}, which the guard denies: {one.reason}"
        for path, one in zip(paths, rulings, strict=True)
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
    run: Run, steps: Sequence[e.PlanStep], data: dict[str, Any], policy: Policy, over: bool, workspace: str
) -> tuple[Tier, str]:
    """By rules from paths and words; the planner may raise it."""
    paths = [path for step in steps for path in step.paths]
    tier, why = tier_of(paths, words_of(run, steps), policy, over_cost=over, workspace=workspace)
    value = data.get("tier")
    if value in TIERS and raise_to(tier, value) != tier:
        return value, "The planner says so."
    return tier, why[0]


def words_of(run: Run, steps: Sequence[e.PlanStep]) -> str:
    """The text that decides the tier of a plan. A repair of failing checks may name them; that does not make it a change of CI."""
    trigger = run.plan.trigger
    text = "\n".join((*([] if trigger and trigger.head else [run.task]), *(step.title for step in steps)))
    return NAMES_CI.sub("", text) if trigger and trigger.kind == "ci" else text


class Estimate(Struct, frozen=True, kw_only=True):
    """What a plan will cost in nine of ten cases, and in the middle one."""

    cost_uusd: int
    tokens: int
    median_uusd: int
    median_tokens: int
    basis: str


def estimate(tasks: Sequence[EndedTask], agent: str, files: int, steps: int) -> Estimate:
    """From the tasks that ended here and are most like its steps, else a default for each step."""
    like, basis = _like(tasks, agent, files)
    like = like or [EndedTask(cost_uusd=DEFAULT_UUSD, tokens=DEFAULT_TOKENS)]
    cost, tokens = tuple(one.cost_uusd for one in like), tuple(one.tokens for one in like)
    return Estimate(
        cost_uusd=p90(cost) * steps,
        tokens=p90(tokens) * steps,
        median_uusd=median_low(cost) * steps,
        median_tokens=median_low(tokens) * steps,
        basis=basis,
    )


def _like(tasks: Sequence[EndedTask], agent: str, files: int) -> tuple[Sequence[EndedTask], str]:
    same_agent = [one for one in tasks if one.agent == agent]
    same_size = [one for one in same_agent if _size(one.files) == _size(files)]
    for rows, what in ((same_size, " of this size and agent"), (same_agent, " of this agent"), (tasks, "")):
        if len(rows) >= ENOUGH:
            return rows, f"the p90 of the last {len(rows)} tasks{what} here"
    return (), "a default, because too few tasks have ended here"


def _size(files: int) -> int:
    """One file, a few, or many."""
    return sum(files > most for most in SIZES)


def _governance(run: Run, work: Workspace) -> dict[str, str]:
    """The files that say how work is done here, as they are in the tree that was planned on."""
    names = run.settings.governance
    contents = work.read_all([(run.tree, name) for name in names])
    return {
        name: hashlib.sha256(content).hexdigest() if content is not None else MISSING
        for name, content in zip(names, contents, strict=True)
    }
