"""Why a run stopped, in plain sentences derived from its stop code, rule and numbers.

`why` is always three sentences: what happened, the evidence, and what to do next.
"""

from __future__ import annotations

import re

from msgspec.structs import replace

from flyball.domain import events as e
from flyball.domain.results import CODES, code_of
from flyball.domain.settings import MINUTE, elapsed, parse_duration, show_duration
from flyball.reading.test_output import failing_names
from flyball.state.run import Run
from flyball.views.choices import offered
from flyball.views.evidence_text import evidence_lines
from flyball.views.text import clean, clock, cost_text, day_and_clock, first_few, one_line, plural

QUOTE_WIDTH = 300
_ERROR = re.compile(
    r"\b\w*(?:Error|Exception)\b|\bassert\b|\b(?i:error)(?:\[\w+\]| TS\d+)?:|^[\w./-]+\.\w+:\d+:\d+: "
)
VERBS = {"waiting": "is waiting", "paused": "is paused", "blocked": "is blocked", "ended": "failed"}

# "CODE RULE" or CODE -> what happened. {limit} and {value} are the stop's threshold and observed value.
HAPPENED = {
    "cancelled": "it was cancelled",
    "failed.agent": "the agent failed",
    "failed.agent retries": "the agent failed {value} times in a row",
    "failed.start": "the agent could not be started",
    "failed.tests": "the proof failed",
    "failed.tests fix": "the proof failed and fix attempts are off (limits.fix = {limit})",
    "failed.tests iterations": "the proof still failed after {limit} of {limit} iterations",
    "failed.review": "the review failed",
    "failed.abandoned": "you abandoned it",
    "timeout.phase": "the time limit for '{state}' was exceeded",
    "timeout.idle": "the agent produced no output for {idle}, {value} times",
    "limit.iterations": "{limit} of {limit} iterations used",
    "limit.turns": "'{rule}' was entered {limit} of {limit} times",
    "limit.turns turns": "{limit} of {limit} turns used",
    "limit.fix_attempts": "{limit} of {limit} fix attempts used",
    "limit.time": "the time budget is used up: {value} of {limit}",
    "limit.budget_usd": "the budget of {limit} does not cover another turn: {value}",
    "limit.budget_usd the agent's own budget": "the agent's own budget is used up",
    "limit.budget_tokens": "the budget of {limit} tokens does not cover another turn: {value}",
    "limit.actions": "the agent made too many tool calls in one turn",
    "limit.actions turns": "{value} turns for this plan, {limit} allowed",
    "loop.no_progress": "{value} turns without progress",
    "loop.no_progress probe": "{value} checks in a row with no fewer failing tests",
    "loop.same_error": "the same error {value} times in a row",
    "loop.same_action": "the agent repeated the same tool call with the same result",
    "loop.same_action same_action": "{value} turns in a row with the same result",
    "loop.state_cycle": "the agent repeated the same steps without progress",
    "loop.oscillation": "{value} turns without progress: the files alternate between earlier versions",
    "loop.replan": "{value} plans without progress",
    "wait.approval": "a change needs your approval",
    "wait.approval plan": "a plan needs your approval",
    "wait.question": "the agent asked a question",
    "wait.question checks pass": "the checks pass, and the agent does not say whether it is done",
    "wait.question rejected twice": "the same files were rejected twice, though the proof passes",
    "wait.question disputed twice": "author and reviewer disagree",
    "wait.permission": "the agent asked for permission",
    "wait.dependency": "something outside this run must happen first",
    "wait.infrastructure": "{value} interruptions in a row",
    "wait.infrastructure environment": "the tests cannot run here",
    "wait.infrastructure gone": "something that the run needs is missing",
    "wait.conflict": "the change does not merge cleanly",
    "wait.mismatch": "files differ from what was recorded",
    "wait.auth": "the agent is not logged in",
    "wait.billing": "the agent's account has no credit",
    "wait.escalation": "it needs a decision from you",
    "wait.check_in": "no milestone for {value}",
    "wait.rate_limit": "the agent reached a rate limit",
    "wait.rate_limit plan_limit": "the agent reached the limit of its plan",
    "wait.rate_limit overloaded": "the model provider is overloaded",
    "wait.rate_limit network": "the model provider cannot be reached",
    "wait.rate_limit budget.plan_percent": "{value} of the agent's plan used, {limit} allowed",
    "wait.breakpoint": "breakpoint after '{state}'",
    "wait.paused": "a person paused it",
    "wait.paused stop": "stopped on request",
    "wait.paused set-aside": "it is paused for something more urgent",
    "wait.take_over": "you took it over",
    "blocked.tampering": "Flyball's own files were modified during the run",
    "blocked.guard": "the guard refused a change",
    "blocked.table": "its machine blocks it here ({rule})",
    "interrupted": "it was interrupted",
    "error": "something outside the run failed",
}

LOG = ("flyball log {id} --output", "read the output")
RETRY = ("flyball retry {id}", "start a new run from its files")
NO_WORSE = ("flyball retry {id} --set proof.require=no-worse", "allow tests that failed before the run")
# CODE -> commands for a run that has failed, and what they are for. {more} and {longer} are twice the limit.
AFTER_FAILURE = {
    "limit.iterations": (LOG, ("flyball retry {id} --set limits.iterations={more}", "allow more iterations")),
    "limit.turns": (LOG, ("flyball retry {id} --set limits.{rule}={more}", "allow more")),
    "limit.fix_attempts": (LOG, ("flyball retry {id} --set limits.fix={more}", "allow more attempts")),
    "limit.time": (LOG, ("flyball retry {id} --set budget.wall={longer}", "allow more time")),
    "timeout.phase": (LOG, ("flyball retry {id} --set limits.phase_timeout={longer}", "allow more time")),
    "failed.start": (("flyball agents ls", "check the agent"), RETRY),
    "cancelled": (RETRY,),
}


def why(run: Run) -> list[str]:
    """Three sentences: what happened, the evidence, what to do next."""
    if run.stop is None:
        follow = f"Follow it with `flyball watch {run.began.root or run.id}`."
        return [_now(run), f"{used(run)} so far.", follow]
    evidence = _proved(run) if run.end == "success" else _evidence(run, run.stop)
    return [headline(run), evidence, _next(run)]


def _now(run: Run) -> str:
    doing = f" ({run.act.do.replace(':', ' ')})" if run.act else ""
    return f"Run {run.id} is running in '{run.state}'{doing}."


def headline(run: Run) -> str:
    """What happened, as one sentence with the code."""
    stop = run.stop
    assert stop is not None
    if run.end == "success":
        changed = (
            f"{plural(len(run.checkout.changed), 'file')} changed"
            if run.checkout.changed
            else "no files changed"
        )
        return f"Run {run.id} completed: {changed} in {effort(run)}{in_brackets(stop.code)}."
    if run.end == "cancelled":
        return f"Run {run.id} was cancelled in '{run.state}'."
    idle_us = run.settings.timeout_us(run.machine.name, "idle_timeout", 10 * MINUTE)
    clause = happened(stop, run.state, idle_us)
    return f"Run {run.id} {VERBS[run.status]} in '{run.state}': {clause}{in_brackets(stop.code)}."


def in_brackets(code: str) -> str:
    """A stop code after a sentence, unless the sentence already ends with that word."""
    return f" ({code})" if code not in ("completed", "cancelled", "interrupted") else ""


def happened(stop: e.Stop, state: str, idle_us: int = 10 * MINUTE) -> str:
    """The stop as a clause, with its numbers: "3 of 3 fix attempts used"."""
    instead = stop.code.startswith(("wait.escalation", "blocked.table."))  # of ending with the rule's code
    if instead and stop.rule in CODES:
        stop = replace(stop, code=stop.rule, rule="")
    clause = _clause(stop)
    values = {
        "limit": readable(stop.threshold),
        "value": readable(stop.observed),
        "rule": stop.rule,
        "state": state,
        "idle": show_duration(idle_us),
    }
    if not clause or any(f"{{{name}}}" in clause and not value for name, value in values.items()):
        return code_of(stop.code).says
    return clause.format(**values)


def _clause(stop: e.Stop) -> str:
    family = stop.code.partition(".")[0]
    codes = (f"{stop.code} {stop.rule}", stop.code, stop.code.rpartition(".")[0], f"{family}.guard", family)
    return next((HAPPENED[key] for key in codes if key in HAPPENED), "")


def readable(value: str) -> str:
    """A number of seconds as a duration; anything else as it is."""
    length = parse_duration(value)
    return value if length is None else show_duration(length)


def effort(run: Run) -> str:
    """Turns, time at work and cost: "5 turns, 12s, $0.06"."""
    return ", ".join(
        (plural(run.turns, "turn"), elapsed(run.spending.wall_us), cost_text(run, unknown="cost unknown"))
    )


def _proved(run: Run) -> str:
    """What the proof showed for a run that succeeded."""
    proof = run.evidence.proof
    if not run.settings.proof:
        return "The result is unproven, because no proof command is configured ([proof] commands)."
    if proof is None or not proof.passed:
        return "The parent run proves this tree."
    commands = [clean(command.command) for command in proof.commands] or list(run.settings.proof)
    tree, names = proof.tree[:10], first_few([f"`{command}`" for command in commands])
    passed = "Proof passed" if len(commands) == 1 else f"All {len(commands)} proof commands passed"
    about = "".join(f" {line[0].upper()}{line[1:]}." for line in evidence_lines(proof.evidence)[1:2])
    baseline = run.evidence.baseline if not about else 0
    before = f"; {plural(baseline, 'failure')} before the run" if baseline else ""
    return f"{passed} on this exact tree ({tree}): {names}{before}.{about}"


def _evidence(run: Run, stop: e.Stop) -> str:
    parts = [used(run)]
    if stop.threshold.startswith("policy "):
        policy = stop.threshold.removeprefix("policy ")
        where = f": {one_line(stop.observed, 120)}" if stop.observed else ""
        parts.append(f"rule '{stop.rule}' of policy '{policy}'{where}")
    elif stop.threshold and "{" not in _clause(stop):
        parts.append(f"{stop.rule}: {readable(stop.observed)}, limit {readable(stop.threshold)}")
    elif stop.rule and stop.rule not in CODES and stop.code in ("wait.escalation", "wait.conflict"):
        parts.append(one_line(stop.rule, 120))
    names = failing_now(run) if is_limited(stop) and not _died_untouched(run, stop) else []
    if names:
        which = "still failing" if fails_because_of_the_run(run) else "failing, as before the run"
        parts.append(f"{which}: {first_few(names, 3)}")
    quote = key_line(stop.detail)
    if quote and not (names and not _ERROR.search(quote)):
        message = quote.removeprefix(f"{stop.observed.partition(':')[0]}: ")  # the file is named already
        parts.append(f"{'last error: ' if is_limited(stop) else ''}“{message}”")
    return f"{'; '.join(parts)}."


def _died_untouched(run: Run, stop: e.Stop) -> bool:
    """The agent or the time gave out before anything was changed: the tests have nothing to do with it."""
    gave_out = stop.code.startswith(("failed.agent", "failed.start", "timeout.", "limit.time"))
    return gave_out and run.tree == run.checkout.base_tree


def is_limited(stop: e.Stop) -> bool:
    """Whether the run missed its goal, so that failing tests are part of the reason."""
    return stop.code.startswith(("limit.", "failed.", "timeout.", "loop."))


def used(run: Run) -> str:
    """What the run used until it stopped."""
    return f"Used {effort(run)}"


def failing_now(run: Run) -> list[str]:
    """The failing tests of the files as they are, by name."""
    proof = run.evidence.proof
    is_current = proof is not None and not proof.passed and proof.tree == run.tree
    names = (proof.failing_tests or failing_names(proof.summary)) if proof and is_current else ()
    return [one_line(name, 100) for name in names]


def fails_because_of_the_run(run: Run) -> bool:
    """Whether a test fails now that did not fail before the run, as far as the names tell.

    A long list of names is cut: of a test that comes after its last name nothing is known."""
    names, proof, evidence = failing_now(run), run.evidence.proof, run.evidence
    if not names or proof is None or proof.failing is None or proof.failing > (evidence.baseline or 0):
        return True
    before = [one_line(name, 100) for name in evidence.before]
    if not proof.failing_tests:
        return proof.failing != len(names) or not set(names) <= set(before)
    last = before[-1] if before and len(before) < (evidence.baseline or 0) else ""
    return any(name not in before and (not last or name <= last) for name in names)


def key_line(text: str) -> str:
    """The last line that names an error, else the last line."""
    lines = [line.strip() for line in clean(text).strip().splitlines() if line.strip()]
    errors = [line for line in lines if _ERROR.search(line)]
    return (errors or lines or [""])[-1][:QUOTE_WIDTH].rstrip(".")


# ---- what to do ------------------------------------------------------------------------------------------


def _next(run: Run) -> str:
    if run.until is not None and run.question is None:
        return f"It continues by itself at {clock(run.until)}."
    if run.status == "ended" and not next_steps(run):
        return "There is nothing to merge." if run.owner else "The parent run has its changes."
    return next_step(run) or "It continues by itself."


def next_step(run: Run) -> str:
    """What a person can do now, as one sentence."""
    steps = [f"`{command}` to {purpose}" for command, purpose in next_steps(run)]
    return f"Next: {', '.join(steps)}." if steps else ""


def next_steps(run: Run) -> list[tuple[str, str]]:
    """The commands that a person can use now, and what each is for."""
    review = (f"flyball diff {run.id}", "review the change")
    if run.question:
        about_change = run.question.kind in ("approval", "block") and run.owner
        return [*([review] if about_change else []), (how_to_answer(run.question), "answer")]
    if run.stop and run.stop.code == "wait.take_over":
        return [(f"flyball hand-back {run.id}", "give it back")]
    if run.status == "paused" and run.machine.standing and run.stop and run.stop.code == "interrupted":
        return [("flyball up", "continue")]
    if run.status == "paused":
        return [(f"flyball resume {run.id}", "continue")]
    if run.end == "success":
        merge = (f"flyball land {run.id}", "merge it into your branch")
        return [review, merge] if run.checkout.changed and run.owner else []
    return _after_failure(run, run.stop) if run.stop and run.status == "ended" else []


def how_to_answer(question: e.Question) -> str:
    """The command, with what it takes; a text is given in quotes."""
    return answer_command(question, *offered(question))


def by_default(question: e.Question) -> str:
    """What Flyball answers if nobody does, and when; "" if it waits."""
    text = f' "{question.default_text}"' if question.default_text else ""
    by = f", if nobody answers by {day_and_clock(question.deadline)}"
    return f"{question.default}{text}{by}" if question.default else ""


def answer_command(question: e.Question, *verbs: str) -> str:
    forms = {"answer": '"TEXT"', "redirect": 'redirect "TEXT"'}
    return f"flyball answer {question.id} {'|'.join(forms.get(verb, verb) for verb in verbs)}"


def _after_failure(run: Run, stop: e.Stop) -> list[tuple[str, str]]:
    limit = stop.threshold
    length = parse_duration(limit) or 30 * MINUTE
    more = str(2 * int(limit)) if limit.isdigit() and int(limit) else "10"
    values = {"id": run.id, "more": more, "rule": stop.rule, "longer": show_duration(2 * length)}
    steps = AFTER_FAILURE.get(stop.code, (LOG, RETRY))
    proof, require = run.evidence.proof, run.settings.proof_require
    by_id = proof is not None and bool(proof.failing_tests)
    missed = is_limited(stop) and by_id and require == "all"
    if missed and _repaired_some(run) and not fails_because_of_the_run(run):
        steps = (*(step for step in steps if step is not RETRY), NO_WORSE)
    return [(command.format(**values), purpose) for command, purpose in steps]


def _repaired_some(run: Run) -> bool:
    """Fewer tests fail now than before the run."""
    proof = run.evidence.proof
    return proof is not None and proof.failing is not None and proof.failing < (run.evidence.baseline or 0)
