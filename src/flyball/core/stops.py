"""How a stop is put: its code, its evidence, and the question that goes with it."""

from __future__ import annotations

import hashlib
from typing import Any

from msgspec.structs import replace

from flyball.core import codes
from flyball.core import events as e
from flyball.core.actors import actor_of
from flyball.core.machine import OURS
from flyball.core.money import dollars
from flyball.core.run import Run

VERBS: dict[str, tuple[str, ...]] = {
    "approval": ("approve", "reject", "retry", "redirect", "cancel"),
    "block": ("approve", "reject", "retry", "redirect", "cancel"),
    "clarification": ("answer", "redirect", "cancel"),
    "permission": ("approve", "grant", "reject", "answer", "cancel"),
    "budget": ("raise", "approve", "cancel"),
    "breakpoint": ("go-on", "approve", "reject", "redirect", "cancel"),
    "loop": ("go-on", "answer", "redirect", "retry", "cancel"),
    "infrastructure": ("go-on", "retry", "cancel"),
    "limit": ("go-on", "retry", "cancel"),
    "escalation": ("retry", "go-on", "answer", "cancel"),
}
ALIASES = {  # what people say -> the outcome of a state that asks
    "approve": "proceed",
    "go-on": "proceed",
    "reject": "drop",
    "redirect": "replan",
    "answer": "answered",
}
INTERRUPTIONS = 5  # so many in a row ask
NOT_SAID = (*OURS, "unproven", "third_failure", "stalled")  # outcomes that are no answers


def stop(
    run: Run,
    code: str,
    rule: str = "",
    threshold: Any = "",
    observed: Any = "",
    otherwise: str = "",
    detail: str = "",
) -> e.Stop:
    return e.Stop(
        code=code,
        rule=rule,
        threshold=str(threshold),
        observed=str(observed),
        turn=run.turns,
        otherwise=otherwise,
        detail=detail,
    )


def verbs_for(run: Run, kind: str, waivable: bool) -> tuple[str, ...]:
    verbs = VERBS[kind]
    if kind == "escalation" and run.here.act == "ask":
        own = [name for name in run.here.on if name not in NOT_SAID]
        verbs = (*own, *(said for said, name in ALIASES.items() if name in own and said not in own), "cancel")
    return verbs if waivable else tuple(v for v in verbs if v != "approve")


def ask(
    run: Run,
    seen: e.Stop,
    kind: str,
    text: str,
    now: int,
    status: str = "",
    waivable: bool = True,
    bound: str = "",
) -> e.Stopped:
    """Stop and ask. The answer will be bound to what is shown here."""
    shown = hashlib.sha256("\0".join((run.id, seen.code, text, run.tree, bound)).encode()).hexdigest()[:16]
    question = e.Question(
        id=f"{run.id}.{run.questions + 1}",
        kind=kind,
        text=text,
        verbs=verbs_for(run, kind, waivable),
        shown=shown,
        tree=run.tree,
    )
    return e.Stopped(at=now, status=status or codes.of(seen.code).status, stop=seen, question=question)


def infrastructure(run: Run, now: int) -> e.Stopped:
    """What acts stand on is gone, or they come to nothing again and again."""
    if run.gone:
        seen = stop(run, "wait.infrastructure", "gone", detail=run.cut)
        text = f"Nothing can be done: {run.cut}. Put it right, then go on."
        return ask(run, seen, "infrastructure", text, now)
    most, seen_of = INTERRUPTIONS, run.interruptions
    seen = stop(run, "wait.infrastructure", "interruptions", most, seen_of, detail=run.cut)
    text = f"Acts of this run keep being interrupted: {run.cut or 'no reason is known'}. Go on?"
    return ask(run, seen, "infrastructure", text, now)


def ended(run: Run, end: str, seen: e.Stop, now: int) -> e.Ended:
    return e.Ended(at=now, end=end, stop=seen, certificate=run.certificate if end == "success" else "")


def exhausted(run: Run, seen: e.Stop, now: int, outcome: str = "exhausted") -> list[e.AnyEvent]:
    """A limit is used up, time ran out or an error stays: end, move or ask, as the table says."""
    target = run.machine.place(run.state, outcome)
    if target == "@ask":
        return _asked_instead(run, seen, now)
    if target.startswith("@") or not target:
        return [ended(run, "failure", seen, now)]
    actor = actor_of(run, target, outcome) if run.machine.name == "task" else "flyball"
    moved = e.Moved(at=now, source=run.state, target=target, outcome=outcome, actor=actor, reason=seen.code)
    end = run.machine.states[target].end
    return [moved, ended(run, end, seen, now)] if end else [moved]


def _asked_instead(run: Run, seen: e.Stop, now: int) -> list[e.AnyEvent]:
    """What would have ended the run waits for a person: the evidence stays, the code that ends is the rule."""
    text = f"It cannot go on by itself: {seen.code}. What next?"
    if codes.of(seen.code).status == "ended":
        seen = replace(seen, code="wait.escalation", rule=seen.code)
    return [*let_go(run, now), ask(run, seen, "escalation", text, now, "waiting")]


def unapproved(run: Run, now: int) -> list[e.AnyEvent]:
    """It ends while somebody is asked about a change: the change goes, also for a run above or after it."""
    held = run.held
    before = held.data.get("before") if held and held.until in ("approval", "block") else ""
    return [e.RestoreOrdered(at=now, tree=before, why="putback")] if before else []


def let_go(run: Run, now: int) -> list[e.AnyEvent]:
    """An outcome that was held is not followed: the act of the state will be done again."""
    return [e.Dropped(at=now)] if run.held else []


NOBODY = e.WindowSeen(at=0)


def spent_up(run: Run) -> e.Stop | None:
    """The budget does not cover another turn: what is spent, and the p90 of a turn reserved on top (GUARD-4)."""
    budget, base = run.settings.budget, run.spent_base
    cost, tokens = run.spent.cost_uusd - base.cost_uusd, run.spent.tokens - base.tokens
    if budget.uusd is not None and cost + p90(run.turn_costs) > budget.uusd:
        seen = f"{dollars(cost)} spent, {dollars(p90(run.turn_costs))} reserved"
        return stop(run, "limit.budget_usd", "budget.usd", dollars(budget.uusd), seen)
    if budget.tokens is not None and tokens + p90(run.turn_tokens) > budget.tokens:
        seen = f"{tokens} used, {p90(run.turn_tokens)} reserved"
        return stop(run, "limit.budget_tokens", "budget.tokens", budget.tokens, seen)
    return _window_up(run)


def _window_up(run: Run) -> e.Stop | None:
    """The same of what all runs together spent in the last day and week."""
    budget, seen = run.settings.budget, run.window or NOBODY
    cost, tokens = p90(run.turn_costs), p90(run.turn_tokens)
    spans = (
        ("day", budget.day_uusd, seen.day_uusd, budget.day_tokens, seen.day_tokens),
        ("week", budget.week_uusd, seen.week_uusd, budget.week_tokens, seen.week_tokens),
    )
    for span, uusd, spent, most, used in spans:
        if uusd is not None and spent + cost > uusd:
            told = f"{dollars(spent)} spent by all runs in a {span}, {dollars(cost)} reserved"
            return stop(run, "limit.budget_usd", f"budget.{span}_usd", dollars(uusd), told)
        if most is not None and used + tokens > most:
            told = f"{used} used by all runs in a {span}, {tokens} reserved"
            return stop(run, "limit.budget_tokens", f"budget.{span}_tokens", most, told)
    return None


def p90(values: tuple[int, ...]) -> int:
    return sorted(values)[(9 * len(values) + 9) // 10 - 1] if values else 0
