"""How a run stops, waits or warns: its code, its evidence, the question that goes with it, and the rules that do so.

When a rate limit ends a turn, another agent takes over meanwhile, or the run waits (LOOP-5).

A worker's files are proved from time to time, as a probe (LOOP-3), because new trees alone count as progress only for a
while. A probe is due after `probe` changed turns without a proof, when the worker stops changing files that were not
proved yet, and once more when the files passed one and the worker neither changes them nor says that it is done. A probe
is neither a turn nor a gate. Two in a row with no fewer failing tests open the circuit (`stalled`). If the same files
pass two, a person is asked: only the worker or a person says that the task is done.

How long a run may stay in a state before somebody is told (TASK-6): at 80 % the journal says so, at 100 % people are
notified, at 150 % it shows in the inbox. Time in state is the time since the state was entered, whatever the run's
status. An alert warns and never stops a run.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from flyball.domain import events as e
from flyball.domain.machine import OURS
from flyball.domain.results import code_of
from flyball.domain.settings import (
    INDICATORS_MIN,
    SECOND,
    CallLimits,
    dollars,
    parse_default,
    rough,
    show_duration,
)
from flyball.state.fold import REMINDER, Events
from flyball.state.run import GUARDED, Run
from flyball.state.tally import ALARM, FRESH

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
WHO = "flyball"  # who answers when a default is used
INTERRUPTIONS = 5  # so many in a row ask
NOT_SAID = (*OURS, "unproven", "third_failure", "stalled")  # outcomes that nobody can answer with
ANOTHER_TURN = "Another turn would have started."
PROBES = 2  # this many in a row with no fewer failing tests count as no progress
NAMED = 10  # so many of the failing tests are named
NO_WINDOW = e.WindowSeen(at=0)


def stop(run: Run, code: str, rule: str = "", threshold: Any = "", observed: Any = "", **more: str) -> e.Stop:
    facts = {"threshold": str(threshold), "observed": str(observed), **more}
    return e.Stop(code=code, rule=rule, turn=run.turns, **facts)


def ask(
    events: Events,
    cause: e.Stop,
    kind: str,
    text: str,
    *,
    status: str = "",
    waivable: bool = True,
    bound: str = "",
    until: int | None = None,
) -> Events:
    """Stop and ask. The answer will be bound to what is shown here."""
    run = events.run
    version = hashlib.sha256("\0".join((run.id, cause.code, text, run.tree, bound)).encode()).hexdigest()[:16]
    question = e.Question(
        id=f"{run.id}.{run.questions + 1}",
        kind=kind,
        text=text,
        verbs=verbs_for(run, kind, waivable),
        shown=version,
        tree=run.tree,
        asked_at=events.now,
    )
    question = _with_deadline(run, question, events.now)
    status = status or code_of(cause.code).status
    return events.add(e.Stopped(at=events.now, status=status, stop=cause, question=question, until=until))


def _with_deadline(run: Run, question: e.Question, now: int) -> e.Question:
    """HUMAN-1: a default is used once. If the run asks again before a person has answered anything, it waits."""
    default = next(
        (one for one in map(parse_default, run.settings.defaults) if one.kind == question.kind), None
    )
    if default is None or default.verb not in question.verbs or run.path.answered_by == WHO:
        return question
    until = now + default.after_us
    return replace(question, default=default.verb, default_text=default.text, deadline=until)


def verbs_for(run: Run, kind: str, waivable: bool) -> tuple[str, ...]:
    verbs = VERBS[kind]
    if kind == "escalation" and run.here.act == "ask":
        own = [name for name in run.here.on if name not in NOT_SAID]
        verbs = (*own, *(word for word, name in ALIASES.items() if name in own and word not in own), "cancel")
    return verbs if waivable else tuple(v for v in verbs if v != "approve")


def pause(events: Events, code: str, rule: str) -> Events:
    return events.add(e.Stopped(at=events.now, status="paused", stop=stop(events.run, code, rule)))


def wait(events: Events, cause: e.Stop, until: int) -> Events:
    """Without a question: the wait is over at that instant."""
    return events.add(e.Stopped(at=events.now, status="waiting", stop=cause, until=until))


def end(events: Events, how: str, cause: e.Stop) -> Events:
    certificate = events.run.checkout.certificate if how == "success" else ""
    return events.add(e.Ended(at=events.now, end=how, stop=cause, certificate=certificate))


def cancel(events: Events, rule: str = "a person asked for it") -> Events:
    """A change that a person was asked about is undone, also for the parent run and the runs after it."""
    for plan in (events.run.plan, *events.run.plan.aside):
        if plan.act is not None:
            events.add(e.Abandoned(at=events.now, run=plan.act.child))
    pending = events.run.pending
    if pending and pending.waits in GUARDED and pending.before:
        events.put_back(pending.before)
    return end(events, "cancelled", stop(events.run, "cancelled", rule))


def let_go(events: Events, why: str = "") -> Events:
    """A pending outcome is dropped: the act of the state will be done again."""
    return events.add(e.Dropped(at=events.now, why=why)) if events.run.pending else events


# ---- what another turn would break -----------------------------------------------------------------------


def infrastructure(events: Events) -> Events:
    """Something that acts need is missing, or acts were interrupted several times in a row."""
    run, tries = events.run, events.run.tries
    if tries.gone:
        cause = stop(run, "wait.infrastructure", "gone", detail=tries.reason)
        text = f"Flyball cannot continue: {tries.reason.rstrip('.')}. Fix this, then answer go-on."
        return ask(events, cause, "infrastructure", text)
    count, reason = tries.interruptions, tries.reason
    cause = stop(run, "wait.infrastructure", "interruptions", INTERRUPTIONS, count, detail=reason)
    text = f"Interrupted {count} times in a row: {(reason or 'no reason is known').rstrip('.')}. Continue?"
    return ask(events, cause, "infrastructure", text)


def alarmed(events: Events) -> bool:
    """CTO-7: a high security finding stops the run until a person has seen it. The turn is then taken again."""
    run = events.run
    findings = [f for f in run.findings if f.id in run.talk.alarms]
    if not findings:
        return False
    lines = [f"{f.id} {f.file}{f':{f.line}' if f.line else ''} {f.text}".replace("  ", " ") for f in findings]
    cause = stop(
        run, "wait.escalation", ALARM, "none", len(findings), detail=lines[0], otherwise=ANOTHER_TURN
    )
    text = "A high security finding was reported:\n" + "\n".join(f"- {line}" for line in lines)
    ask(events, cause, "escalation", f"{text}\nAnswer with what the agent should do, or go-on to continue.")
    return True


def stalled(run: Run) -> e.Stop | None:
    """The circuit's rules (LOOP-3)."""
    progress, more = run.progress, {"otherwise": ANOTHER_TURN, "detail": run.progress.error_text}
    most = run.most("no_progress")
    if most is not None and progress.idle >= max(most, 1) and not (probe_due(run) or _may_finish(run)):
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
    """The question to a person when the circuit has opened."""
    what = {
        "loop.no_progress": f"{cause.observed} turns without progress",
        "loop.oscillation": f"{cause.observed} turns that only went back to earlier versions of the files",
        "loop.same_error": f"the same error {cause.observed} times in a row",
    }.get(cause.code, code_of(cause.code).says)
    error = f" Last error: {run.progress.error_text[-300:]}" if run.progress.error_text else ""
    if cause.rule == "probe":
        what = f"the files were checked {cause.observed} times over several changed turns, with no fewer failing tests"
        error = f" Still failing: {cause.detail}." if cause.detail else ""
    error += _checked(run)
    turns = "\nLast turns:\n" + "\n".join(f"- {line}" for line in run.talk.recent) if run.talk.recent else ""
    ways = "You can allow one more turn (go-on), give a hint (answer), suggest another approach (redirect), or cancel."
    return f"The run stopped: {what}.{error}{turns}\n{ways}"


def _checked(run: Run) -> str:
    """What is known about the worker's files as they are, and whether it says that it is done."""
    proof = run.evidence.proof
    if proof is None or proof.tree != run.tree or run.tree == run.checkout.base_tree:
        return ""
    names = ", ".join(proof.failing_tests[:NAMED])
    how = "pass" if proof.passed else f"fail ({names})" if names else "fail"
    claim = "" if _claims(run) else ", and the agent has not said that it is done"
    return f" The checks {how} on the files as they are now{claim}."


def spent_up(run: Run) -> e.Stop | None:
    """The stop if the budget does not cover another turn: what is spent, plus the p90 of a turn (GUARD-4)."""
    budget, spending = run.settings.budget, run.spending
    next_cost, next_tokens = p90(spending.turn_costs), p90(spending.turn_tokens)
    cost, tokens = run.spent.cost_uusd - spending.base.cost_uusd, run.spent.tokens - spending.base.tokens
    window = spending.window or NO_WINDOW
    in_day, in_week = " by all runs in a day", " by all runs in a week"
    own = not run.machine.supervises  # there each child run has the budget
    for key, limit, used, before, whose in (  # `before`: spent until a person raised the budget
        ("usd", budget.uusd if own else None, cost, spending.base.cost_uusd, ""),
        ("tokens", budget.tokens if own else None, tokens, spending.base.tokens, ""),
        ("day_usd", budget.day_uusd, window.day_uusd, 0, in_day),
        ("day_tokens", budget.day_tokens, window.day_tokens, 0, in_day),
        ("week_usd", budget.week_uusd, window.week_uusd, 0, in_week),
        ("week_tokens", budget.week_tokens, window.week_tokens, 0, in_week),
    ):
        money = key.endswith("usd")
        reserve, show = (next_cost, dollars) if money else (next_tokens, str)
        if limit is not None and used + reserve > limit:
            code, verb = ("limit.budget_usd", "spent") if money else ("limit.budget_tokens", "used")
            reserved = f"{show(reserve)} reserved for the next turn"
            observed = f"{show(before + used)} {verb}{whose}, {reserved}"
            return stop(run, code, f"budget.{key}", show(before + limit), observed)
    return None


def raised_to(run: Run, cause: e.Stop) -> str:
    """What the answer `raise` does to a budget that is used up: as much again is allowed from now on."""
    budget, spent = run.settings.budget, run.spent
    if cause.rule == "budget.usd":
        return f"raise it from {cause.threshold} to {dollars(spent.cost_uusd + (budget.uusd or 0))}"
    if cause.rule == "budget.tokens":
        return f"raise it from {cause.threshold} to {spent.tokens + (budget.tokens or 0)} tokens"
    unit = "" if cause.rule.endswith("usd") else " tokens"
    return f"allow another {cause.threshold}{unit} from now on"


def half_used(run: Run, totals: e.WindowSeen) -> list[e.Warned]:
    """CTO-4: a warning at half of what all runs together may use in a day or a week."""
    budget, before, warnings = run.settings.budget, run.spending.window or NO_WINDOW, list[e.Warned]()
    for name, period in (("day", "a day"), ("week", "a week")):
        for unit, code in (("uusd", "limit.budget_usd"), ("tokens", "limit.budget_tokens")):
            most, used = getattr(budget, f"{name}_{unit}"), getattr(totals, f"{name}_{unit}")
            if most and 2 * getattr(before, f"{name}_{unit}") < most <= 2 * used:
                spent = (
                    f"{used:,} of {most:,} tokens"
                    if unit == "tokens"
                    else f"{dollars(used)} of {dollars(most)}"
                )
                text = f"All runs together have used {spent} in {period}; at the limit you are asked."
                warnings.append(e.Warned(at=totals.at, code=code, text=text))
    return warnings


def p90(values: Sequence[int]) -> int:
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


# ---- rate limits, and who plays a role meanwhile -----------------------------------------------------------


SHORT_US = 10 * SECOND  # a shorter wait needs no jitter
JITTER_MOST_US = 2 * SECOND


def limited(events: Events, act: e.Act, turn: e.TurnEnded) -> Events:
    """What follows from a turn that a limit ended."""
    now, until = events.now, limit_ends_at(events.run, turn, events.now)
    if events.run.settings.fallback:
        events.add(e.Limited(at=now, agent=act.agent, until=until))
        if free_agent(events.run, act.role, now):
            return events.tell(so_far(events.run))
        until = min(events.run.tries.limited[agent] for agent in candidates(events.run, act.role))
    cause = stop(events.run, "wait.rate_limit", turn.verdict, until, now, detail=turn.error)
    return wait(events, cause, until)


def plan_used_up(run: Run, now: int) -> e.Stop | None:
    """GUARD-4: the share of the plan's window that a run may use is used up; it waits until the window is new."""
    most, used = run.settings.budget.plan_percent, run.spending.plan_percent
    if most is None or used < most or run.spending.plan_reset_at <= now:
        return None
    return stop(run, "wait.rate_limit", "budget.plan_percent", f"{most} %", f"{used} %")


def limit_ends_at(run: Run, turn: e.TurnEnded, now: int) -> int:
    """When to try again: at once if the reset is past, but never twice without a pause."""
    reset = turn.reset_at
    if reset is None or (reset <= now and run.tries.limits > 1):
        return now + run.settings.retry_every_us
    wait_us = max(reset - now, 0)
    return now + wait_us + (_jitter_us(run, wait_us) if turn.verdict == "plan_limit" else 0)


def _jitter_us(run: Run, wait_us: int) -> int:
    """A jitter, so that many runs do not continue in the same instant. The same run at the same turn always gets the same one."""
    if wait_us < SHORT_US:
        return 0
    digest = hashlib.sha256(f"{run.id}:{run.turns}".encode()).digest()
    return int.from_bytes(digest[:8]) % (min(JITTER_MOST_US, wait_us // 100) + 1)


# ---- who plays a role ----------------------------------------------------------------------------------------


def candidates(run: Run, role: str) -> list[str]:
    """The agent of the role, then its fallbacks."""
    if run.settings.consensus and run.iteration % 2 == 0:  # PAIR-3: they change places each iteration
        role = {"author": "reviewer", "reviewer": "author"}.get(role, role)
    return list(dict.fromkeys((run.settings.agent_for(role), *run.settings.fallback)))


def free_agent(run: Run, role: str, now: int) -> str:
    """The first candidate that is not rate-limited now; "" if there is none."""
    return next((agent for agent in candidates(run, role) if run.tries.limited.get(agent, 0) <= now), "")


def agent_for(run: Run, role: str, now: int) -> str:
    return free_agent(run, role, now) or candidates(run, role)[0]


def so_far(run: Run) -> str:
    """What an agent in a fresh session must know, from the journal."""
    lines = "\n".join(f"- {line}" for line in run.talk.recent)
    work = f"Done so far:\n{lines}" if lines else "Nothing was done before this turn."
    files = run.checkout.changed[:50]
    changed = f"\nFiles changed so far: {', '.join(files)}." if files else ""
    error = f"\nThe last error: {run.progress.error_text[-1000:]}" if run.progress.error_text else ""
    return f"{FRESH} {work}{changed}{error}"


# ---- probes of a worker's files ----------------------------------------------------------------------------


PROBE_PASSES = 2  # so many probes of the same files, and a person is asked
ASK_TO_FINISH = (
    "Flyball ran the checks on your files as they are now, and all of them passed. If the whole task is done, say so "
    "now, in full, as described under 'How to report'. If not, continue."
)


def probe_due(run: Run) -> bool:
    """Whether the files must be proved before the worker's next turn."""
    most, on, progress = run.most("probe"), run.here.on, run.progress
    works = run.here.of == "worker" and "done" in on and "progressed" not in on
    if not (most and works and run.owner and run.settings.proof) or run.tries.retries:
        return False
    silent = _passed_once(run) and progress.unproved_turns > 0 and not _claims(run)
    return progress.unproved >= most or silent or _stops_unproved(run)


def _passed_once(run: Run) -> bool:
    progress = run.progress
    return progress.passed == run.tree and not progress.unproved and progress.passes == 1


def _stops_unproved(run: Run) -> bool:
    """The worker has stopped changing the files, and nobody knows yet whether they pass."""
    most, progress = run.most("no_progress"), run.progress
    stopped = most is not None and progress.idle >= max(most, 1) and not progress.wanders
    return stopped and progress.unproved > 0


def _may_finish(run: Run) -> bool:
    """The files have just passed: the worker has one turn to say that it is done."""
    return _passed_once(run) and not (run.progress.unproved_turns or run.progress.wanders)


def _claims(run: Run) -> bool:
    """The last turn tried to say that it is done: it is told what was missing."""
    return run.talk.exit_signal or len(set(run.talk.indicators)) >= INDICATORS_MIN


def after_probe(events: Events, probe: e.ProofEnded) -> Events:
    """What follows from a probe: the worker is told, or a person is asked."""
    if not probe.passed:
        summary = probe.invalid or probe.summary
        return events.tell(f"Flyball ran the checks on your files as they are now:\n{summary}", who="proof")
    if events.run.progress.passes < PROBE_PASSES:
        return events.tell(ASK_TO_FINISH, who="proof")
    events.add(e.Held(at=events.now, outcome="done", until="done"))
    cause = stop(events.run, "wait.question", "checks pass", otherwise=ANOTHER_TURN)
    text = "The checks pass and the files no longer change, but the agent has not said that the task is done. Is it done?"
    return ask(events, cause, "done", text)


# ---- alerts about the time in a state ----------------------------------------------------------------------


ALERT_STEPS = (80, 100, 150)  # percent of the state's alert time
ALERT_CODE = "alert."
NOTIFY, RAISE = f"{ALERT_CODE}100", f"{ALERT_CODE}150"


def alert_time_us(run: Run) -> int:
    """The alert time of the state that the run is in: as configured, else the machine's; 0: there is none."""
    if run.machine.supervises and run.here.act == "run":
        return 0  # the standing loop has a rule of its own for this (CTO-9)
    usual = run.machine.alert_us.get(run.state, 0)
    return run.settings.timeout_us(run.machine.name, f"alert.{run.state}", usual)


def due_alert(run: Run, now: int) -> list[e.Warned]:
    """The alert that is due: the highest step reached, once; and a reminder of an open question, each day."""
    if run.status == "ended":
        return []
    allowed, passed, reminder = alert_time_us(run), now - run.entered_at, _due_reminder(run, now)
    step = alert_reached(passed, allowed)
    if step <= run.path.alerted:
        return reminder
    text = f"in '{run.state}' for {rough(passed)}, {step}% of its alert time ({show_duration(allowed)})"
    return [e.Warned(at=now, code=f"{ALERT_CODE}{step}", text=text), *reminder]


def alert_reached(passed: int, allowed: int) -> int:
    """The highest of the steps that this time in a state has reached; 0: none."""
    return max((step for step in ALERT_STEPS if allowed and passed * 100 >= allowed * step), default=0)


def next_alert_at(run: Run) -> int | None:
    """When the next alert or reminder is due."""
    if run.status == "ended":
        return None
    allowed, reminder = alert_time_us(run), _next_reminder_at(run)
    step = next((step for step in ALERT_STEPS if step > run.path.alerted), None)
    at = run.entered_at - (-allowed * step // 100) if allowed and step else None
    return min((one for one in (at, reminder) if one is not None), default=None)


def _next_reminder_at(run: Run) -> int | None:
    """A question that is open for a day is asked again, and again each day (CTO-9)."""
    question, every_us = run.question, run.settings.remind_us
    return question.asked_at + every_us * (question.reminded + 1) if question and question.asked_at else None


def _due_reminder(run: Run, now: int) -> list[e.Warned]:
    at, question = _next_reminder_at(run), run.question
    if at is None or question is None or now < at:
        return []
    times, every_us = (now - question.asked_at) // run.settings.remind_us, run.settings.remind_us
    text = f"Question {question.id} has been open for {show_duration(times * every_us)}."
    return [e.Warned(at=now, code=REMINDER, text=text)]


def alert_step(code: str) -> int:
    """The step that a warning's code names; 0 for another code."""
    return int(code.removeprefix(ALERT_CODE)) if code.startswith(ALERT_CODE) else 0


def call_limits(run: Run) -> CallLimits:
    """How many tool calls a turn may have (CTO-9), as configured."""
    usual = CallLimits()
    calls, same = run.most("calls") or usual.halt, run.most("same_action") or usual.same_call
    errors, warn = run.most("call_errors") or usual.same_error, min(usual.warn, calls // 2)
    return replace(usual, same_call=same, same_error=errors, halt=calls, warn=warn)
