"""How a run stops: its code, its evidence, and the question that goes with it; and the rules that stop it."""

from __future__ import annotations

import hashlib
from typing import Any

from flyball.core.agenda import GUARDED
from flyball.core.run import Facts, Run
from flyball.domain import codes, events as e
from flyball.domain.machine import OURS
from flyball.domain.units import dollars, show_duration

VERBS: dict[str, tuple[str, ...]] = {
    "approval": ("approve", "reject", "retry", "redirect", "cancel"),
    "evidence": ("approve", "reject", "redirect", "cancel"),
    "block": ("approve", "reject", "retry", "redirect", "cancel"),
    "clarification": ("answer", "redirect", "cancel"),
    "permission": ("approve", "grant", "reject", "answer", "cancel"),
    "budget": ("raise", "approve", "cancel"),
    "done": ("approve", "answer", "redirect", "cancel"),
    "breakpoint": ("go-on", "approve", "reject", "redirect", "cancel"),
    "loop": ("go-on", "answer", "redirect", "retry", "cancel"),
    "infrastructure": ("go-on", "retry", "cancel"),
    "limit": ("go-on", "retry", "cancel"),
    "escalation": ("retry", "go-on", "answer", "cancel"),
}
ALIASES = {  # what people say -> the outcome of a state that asks
    **dict.fromkeys(("approve", "go-on"), "proceed"),
    "reject": "drop",
    "redirect": "replan",
    "answer": "answered",
}
INTERRUPTIONS = 5  # so many in a row ask
NOT_SAID = (*OURS, "unproven", "third_failure", "stalled")  # outcomes that are no answers
ANOTHER_TURN = "another turn would have begun"
PROBES = 2  # so many in a row with no fewer failing tests are no progress
NAMED = 10  # so many of the failing tests are named
NO_WINDOW = e.WindowSeen(at=0)


def stop(run: Run, code: str, rule: str = "", threshold: Any = "", observed: Any = "", **more: str) -> e.Stop:
    given = {"threshold": str(threshold), "observed": str(observed), **more}
    return e.Stop(code=code, rule=rule, turn=run.turns, **given)


def ask(
    facts: Facts,
    cause: e.Stop,
    kind: str,
    text: str,
    *,
    status: str = "",
    waivable: bool = True,
    bound: str = "",
    until: int | None = None,
) -> Facts:
    """Stop and ask. The answer will be bound to what is shown here."""
    run = facts.run
    shown = hashlib.sha256("\0".join((run.id, cause.code, text, run.tree, bound)).encode()).hexdigest()[:16]
    question = e.Question(
        id=f"{run.id}.{run.questions + 1}",
        kind=kind,
        text=text,
        verbs=verbs_for(run, kind, waivable),
        shown=shown,
        tree=run.tree,
    )
    status = status or codes.of(cause.code).status
    return facts.add(e.Stopped(at=facts.now, status=status, stop=cause, question=question, until=until))


def verbs_for(run: Run, kind: str, waivable: bool) -> tuple[str, ...]:
    verbs = VERBS[kind]
    if kind == "escalation" and run.here.act == "ask":
        own = [name for name in run.here.on if name not in NOT_SAID]
        verbs = (*own, *(word for word, name in ALIASES.items() if name in own and word not in own), "cancel")
    return verbs if waivable else tuple(v for v in verbs if v != "approve")


def pause(facts: Facts, code: str, rule: str) -> Facts:
    return facts.add(e.Stopped(at=facts.now, status="paused", stop=stop(facts.run, code, rule)))


def wait(facts: Facts, cause: e.Stop, until: int) -> Facts:
    """Without a question: the wait is over at that instant."""
    return facts.add(e.Stopped(at=facts.now, status="waiting", stop=cause, until=until))


def end(facts: Facts, how: str, cause: e.Stop) -> Facts:
    certificate = facts.run.checkout.certificate if how == "success" else ""
    return facts.add(e.Ended(at=facts.now, end=how, stop=cause, certificate=certificate))


def cancel(facts: Facts, rule: str = "a person asked for it") -> Facts:
    """A change that somebody was asked about goes, also for a run above or after it."""
    for plan in (facts.run.plan, *facts.run.plan.aside):
        if plan.act is not None:
            facts.add(e.Abandoned(at=facts.now, run=plan.act.child))
    pending = facts.run.pending
    if pending and pending.waits in GUARDED and pending.before:
        facts.add(e.RestoreOrdered(at=facts.now, tree=pending.before, why="putback"))
    return end(facts, "cancelled", stop(facts.run, "cancelled", rule))


def let_go(facts: Facts, why: str = "") -> Facts:
    """An outcome that was to be followed is not: the act of the state will be done again."""
    return facts.add(e.Dropped(at=facts.now, why=why)) if facts.run.pending else facts


# ---- what another turn would break -----------------------------------------------------------------------


def infrastructure(facts: Facts) -> Facts:
    """Something that acts need is missing, or they are interrupted again and again."""
    run, tries = facts.run, facts.run.tries
    if tries.gone:
        cause = stop(run, "wait.infrastructure", "gone", detail=tries.reason)
        text = f"Flyball cannot go on: {tries.reason.rstrip('.')}. Fix this, then run `flyball resume {run.began.root or run.id}`."
        return ask(facts, cause, "infrastructure", text)
    count, reason = tries.interruptions, tries.reason
    cause = stop(run, "wait.infrastructure", "interruptions", INTERRUPTIONS, count, detail=reason)
    text = f"Interrupted {count} times in a row: {(reason or 'no reason is known').rstrip('.')}. Continue?"
    return ask(facts, cause, "infrastructure", text)


def stalled(run: Run) -> e.Stop | None:
    """The circuit's rules (LOOP-3)."""
    progress, more = run.progress, {"otherwise": ANOTHER_TURN, "detail": run.progress.error_text}
    most = run.most("no_progress")
    if most is not None and progress.idle >= max(most, 1):
        code = "loop.oscillation" if progress.wanders else "loop.no_progress"
        return stop(run, code, "no_progress", most, progress.idle, **more)
    if progress.probes >= PROBES:
        proof = run.evidence.proof
        names = ", ".join(proof.failing_tests[:NAMED]) if proof else ""
        more = {"otherwise": ANOTHER_TURN, "detail": names or run.progress.error_text}
        return stop(run, "loop.no_progress", "probe", PROBES, progress.probes, **more)
    most = run.most("same_error")
    if most is not None and progress.errors >= max(most, 1):
        return stop(run, "loop.same_error", "same_error", most, progress.errors, **more)
    return None


def solutions(run: Run, cause: e.Stop) -> str:
    """What a person is asked when the circuit is open."""
    what = {
        "loop.no_progress": f"{cause.observed} turns without progress",
        "loop.oscillation": f"{cause.observed} turns that only went back to earlier versions of the files",
        "loop.same_error": f"the same error {cause.observed} times in a row",
    }.get(cause.code, codes.of(cause.code).says)
    error = f" Last error: {run.progress.error_text[-300:]}" if run.progress.error_text else ""
    if cause.rule == "probe":
        what = f"the files were checked {cause.observed} times over several changed turns, with no fewer failing tests"
        error = f" Still failing: {cause.detail}." if cause.detail else ""
    turns = f" Last turns: {'; '.join(run.talk.recent)}." if run.talk.recent else ""
    return (
        f"The run stopped: {what}.{error}{turns} "
        "You can let it try one more turn (go-on), answer with a hint, redirect it to another approach, or cancel."
    )


def spent_up(run: Run) -> e.Stop | None:
    """The budget does not cover another turn: what is spent, and the p90 of a turn reserved on top (GUARD-4)."""
    budget, spending = run.settings.budget, run.spending
    next_cost, next_tokens = p90(spending.turn_costs), p90(spending.turn_tokens)
    cost, tokens = run.spent.cost_uusd - spending.base.cost_uusd, run.spent.tokens - spending.base.tokens
    window = spending.window or NO_WINDOW
    in_day, in_week = " by all runs in a day", " by all runs in a week"
    own = not run.machine.supervises  # there each run below has the budget
    for key, limit, used, whose in (
        ("usd", budget.uusd if own else None, cost, ""),
        ("tokens", budget.tokens if own else None, tokens, ""),
        ("day_usd", budget.day_uusd, window.day_uusd, in_day),
        ("day_tokens", budget.day_tokens, window.day_tokens, in_day),
        ("week_usd", budget.week_uusd, window.week_uusd, in_week),
        ("week_tokens", budget.week_tokens, window.week_tokens, in_week),
    ):
        money = key.endswith("usd")
        reserve, written = (next_cost, dollars) if money else (next_tokens, str)
        if limit is not None and used + reserve > limit:
            code, verb = ("limit.budget_usd", "spent") if money else ("limit.budget_tokens", "used")
            observed = f"{written(used)} {verb}{whose}, {written(reserve)} reserved"
            return stop(run, code, f"budget.{key}", written(limit), observed)
    return None


def p90(values: tuple[int, ...]) -> int:
    return sorted(values)[(9 * len(values) + 9) // 10 - 1] if values else 0


def over_limit(run: Run) -> e.Stop | None:
    most, used = run.most("turns"), run.turns + run.spending.idle_children - run.spending.turns_base
    if most is not None and used >= most and not run.machine.supervises:
        return stop(run, "limit.turns", "turns", most, used)
    return out_of_time(run)


def out_of_time(run: Run) -> e.Stop | None:
    wall, used = run.settings.budget.wall_us, run.spending.wall_us - run.spending.wall_base
    if wall is None or used < wall or run.machine.supervises:
        return None
    return stop(run, "limit.time", "budget.wall", show_duration(wall), show_duration(used))
