"""The first event of a run that another run starts.

Most child runs work in their parent's checkout. Those of the standing loop have a checkout, a budget and a root
of their own: each is one step of a plan, and starts from the result of the step before.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from flyball.core import standing
from flyball.core.decide import phase_us
from flyball.domain import events as e
from flyball.domain.settings import Settings
from flyball.state.run import Run


def child_of(parent: Run, act: e.Act, table: dict[str, Any], now: int) -> e.RunBegan:
    options = dict(parent.here.options)
    began = e.RunBegan(
        at=now,
        run=act.child,
        machine=act.role,
        table=table,
        settings=parent.settings,
        task=parent.began.task,
        rules=e.RULES,
        parent=parent.id,
        root=parent.began.root or parent.id,
        repo=parent.began.repo,
        start=str(options.pop("start", "")),
        options=options,
        commit=parent.began.commit,
        version=parent.began.version,
        pinned=parent.began.pinned,
        environment=parent.began.environment,
    )
    return _of_a_plan(parent, began) if parent.machine.supervises else _within(parent, began)


def _within(parent: Run, began: e.RunBegan) -> e.RunBegan:
    """In the parent's checkout."""
    checkout = parent.checkout
    changed = [path for path in checkout.changed if path not in checkout.excused]
    approved = {"tier": parent.began.options["tier"]} if "tier" in parent.began.options else {}
    return replace(
        began,
        settings=_left(parent),
        owner=False,
        options={
            **began.options,
            **approved,
            "changed": changed,
            "lines": checkout.lines - checkout.excused_lines,
        },
        tree=parent.tree,
        base_tree=checkout.base_tree,
        within_us=phase_us(parent),
        sandbox=checkout.sandbox,
    )


def _left(parent: Run) -> Settings:
    """A child may use what is left of its parent's budget."""
    budget, spent, spending = parent.settings.budget, parent.spent, parent.spending
    used = spent.cost_uusd - spending.base.cost_uusd
    tokens, wall_us = spent.tokens - spending.base.tokens, spending.wall_us - spending.wall_base
    left = replace(
        budget,
        uusd=None if budget.uusd is None else max(0, budget.uusd - used),
        tokens=None if budget.tokens is None else max(0, budget.tokens - tokens),
        wall_us=None if budget.wall_us is None else max(0, budget.wall_us - wall_us),
    )
    return replace(parent.settings, budget=left)


def _of_a_plan(parent: Run, began: e.RunBegan) -> e.RunBegan:
    """In a checkout of its own. Only the last step of a plan lands."""
    plan, step = parent.plan, standing.step(parent)
    last = plan.step + 1 >= len(plan.steps)
    found, ticket = plan.assessment, plan.trigger.ticket if plan.trigger else ""
    options = {**began.options, "ticket": ticket, "step": plan.step + 1, "steps": len(plan.steps) or 1}
    if found and found.tier:
        options["tier"] = found.tier
    if step is not None and step.paths:
        options["files"] = len(step.paths)  # later estimates look at tasks of this size
    if plan.trigger and plan.trigger.plan:
        options["plan_file"] = plan.trigger.plan
    if plan.trigger and last:
        named = {"head": plan.trigger.head, "tick": list(plan.trigger.tick)}
        options |= {name: value for name, value in named.items() if value}
    return replace(
        began,
        task=_text(parent, step),
        root=began.run,
        options=options,
        commit=plan.commit or began.commit,
        branch=parent.began.branch,
        settings=parent.settings if last else replace(parent.settings, commit="branch"),
    )


def _text(parent: Run, step: e.PlanStep | None) -> str:
    """What the task is told: the whole plan, and which part of it is its own."""
    if step is None:
        return parent.task
    alone = len(parent.plan.steps) == 1
    parts = (
        [step.title] if not alone or step.title == parent.task else [parent.task, f"The plan: {step.title}"]
    )
    if step.criteria:
        parts.append("It is done when:\n" + "\n".join(f"- {one}" for one in step.criteria))
    if not alone:
        parts.append(f"This is step {parent.plan.step + 1} of {len(parent.plan.steps)} of: {parent.task}")
    return "\n\n".join(parts)
