"""How a stop is put: its code, its evidence, and the question that goes with it."""

from __future__ import annotations

import hashlib
from typing import Any

from flyball.core import codes
from flyball.core import events as e
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


def unapproved(run: Run, now: int) -> list[e.AnyEvent]:
    """It ends while somebody is asked about a change: the change goes, also for a run above or after it."""
    held = run.held
    before = held.data.get("before") if held and held.until in ("approval", "block") else ""
    return [e.RestoreOrdered(at=now, tree=before, why="putback")] if before else []


def let_go(run: Run, now: int) -> list[e.AnyEvent]:
    """An outcome that was held is not followed: the act of the state will be done again."""
    return [e.Dropped(at=now)] if run.held else []


def stalled(run: Run) -> e.Stop | None:
    """The circuit's rules (LOOP-3)."""
    most = run.most("no_progress")
    if most is not None and run.no_progress >= max(most, 1):
        code = "loop.oscillation" if run.moved_tree else "loop.no_progress"
        return stop(
            run, code, "no_progress", most, run.no_progress, "another turn would have begun", run.last_error
        )
    most = run.most("same_error")
    if most is not None and run.error_count >= max(most, 1):
        otherwise = "another turn would have begun"
        return stop(run, "loop.same_error", "same_error", most, run.error_count, otherwise, run.last_error)
    return None


def solutions(run: Run, seen: e.Stop) -> str:
    error = f" The last error: {run.last_error[-300:]}" if run.last_error else ""
    turns = f" The last turns: {'; '.join(run.lately)}." if run.lately else ""
    return (
        f"The circuit is open: {seen.code} ({seen.observed} of {seen.threshold}).{error}{turns} "
        "Possible: go on for one probing turn; answer with a hint; redirect to another approach; cancel."
    )


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
