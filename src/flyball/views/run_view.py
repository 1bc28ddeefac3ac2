"""What people are told of a run: its summary, why it stopped, what it asks. Reads the fold, decides nothing."""

from __future__ import annotations

from typing import Any

from flyball.core import codes
from flyball.core.run import Run
from flyball.core.stops import dollars
from flyball.errors import FlyballError


def exit_code(run: Run) -> int:
    """The exit code of `flyball run` for where the run is now."""
    if run.stop is None:
        return 0
    if run.stop.code.startswith("error.") and run.status == "ended":
        return 2
    return codes.of(run.stop.code).exit


def alo_code(run: Run) -> str:
    return codes.of(run.stop.code).alo if run.stop else ""


def summary(run: Run) -> dict[str, Any]:
    """The one object that `--json` prints (SYS-12)."""
    return {
        "run": run.id,
        "machine": run.machine.name,
        "state": run.state,
        "status": run.status,
        "end": run.end or None,
        "stop_reason": _reason(run),
        "turns": run.turns,
        "cost_usd": run.spent.cost_uusd / 1_000_000,
        "tokens": run.spent.tokens,
        "tree": run.tree,
        "certificate": run.certificate or None,
        "alo_code": alo_code(run) or None,
        "iteration": run.iteration,
        "question": _question(run),
        "branch": f"flyball/{run.id}" if run.owner else None,
        "unproven": run.end == "success" and not run.settings.proof,
        "sandbox": run.sandbox,
        "tier": (run.ruling.tier if run.ruling else "") or None,
        "task": run.began.task,
        "changed": list(run.changed),
        **({"run_state": run_state(run.state)} if _is_pair(run) else {}),
    }


def _reason(run: Run) -> dict[str, Any] | None:
    seen = run.stop
    if seen is None:
        return None
    evidence = {
        "threshold": seen.threshold,
        "observed": seen.observed,
        "turn": seen.turn,
        "otherwise": seen.otherwise or otherwise(seen.code),
        "detail": seen.detail,
    }
    return {"code": seen.code, "rule": seen.rule, "evidence": evidence}


def _question(run: Run) -> dict[str, Any] | None:
    question = run.question
    if question is None:
        return None
    return {"id": question.id, "kind": question.kind, "text": question.text, "verbs": list(question.verbs)}


# ---- the states of a pair's run (PAIR-5) --------------------------------------------------------------------

RUN_STATES = {
    "init": "submitted",
    "working": "working",
    "reviewing": "reviewing",
    "complete": "completed",
    "failed": "failed",
}


def _is_pair(run: Run) -> bool:
    return run.machine.name == "review" and run.state in RUN_STATES  # not a user's own of that name


def run_state(state: str) -> str:
    """A state of `review` as the state of its run."""
    if state not in RUN_STATES:
        raise FlyballError(f"'{state}' is no state of a pair's run. Known: {', '.join(RUN_STATES)}.")
    return RUN_STATES[state]


def from_run_state(name: str) -> str:
    """And back: where a run in that state goes on. An unknown one is an error, not a failure of the run."""
    found = next((state for state, known in RUN_STATES.items() if known == name), "")
    if not found:
        raise FlyballError(f"'{name}' is no run state. Known: {', '.join(RUN_STATES.values())}.")
    return found


# ---- why -------------------------------------------------------------------------------------------------

OTHERWISE = {
    "limit.iterations": "Had one more been allowed, the agent would have written again.",
    "limit.turns": "Had one more been allowed, the agent would have had another turn.",
    "limit.fix_attempts": "Had one more been allowed, the agent would have tried another fix.",
    "limit.time": "With more time the next turn would have begun.",
    "limit.budget_usd": "With a larger budget the next turn would have begun.",
    "limit.budget_tokens": "With a larger budget the next turn would have begun.",
    "failed.tests": "Had the proof passed, the run would have completed.",
    "timeout.phase": "With more time the phase would have gone on.",
    "timeout.idle": "Had the agent said anything in time, its turn would have gone on.",
    "failed.agent": "Had the agent ended its turn well, its outcome would have been followed.",
    "completed": "Had any proof command failed, the run would have gone on as unproven.",
    "completed_unproven": "With a proof command in flyball.toml the end would have been proved.",
    "cancelled": "Otherwise the run would have gone on.",
    "wait.rate_limit": "Otherwise the turn would have been tried at once; it costs no turn and no failure.",
    "wait.paused": "`flyball resume` goes on where it was.",
    "interrupted": "`flyball resume` goes on where it was.",
}


def otherwise(code: str) -> str:
    return OTHERWISE.get(code, "Otherwise the run would have gone on.")


def why(run: Run) -> list[str]:
    """Three sentences: what happened, on what evidence, and what would have happened otherwise or comes next."""
    if run.stop is None:
        return [
            _running(run),
            f"It has had {run.turns} turns and cost {dollars(run.spent.cost_uusd)}.",
            "It goes on by itself.",
        ]
    return [_what(run), _evidence(run), _then(run)]


def _running(run: Run) -> str:
    doing = f", doing {run.act.do}" if run.act else ""
    return f"Run {run.id} is in '{run.state}'{doing}."


def _what(run: Run) -> str:
    seen = run.stop
    assert seen is not None
    verb = {"ended": "ended", "waiting": "waits", "paused": "is paused", "blocked": "is blocked"}.get(
        run.status, "stopped"
    )
    return f"Run {run.id} {verb} in '{run.state}' ({seen.code}): {says(seen.code)}."


def says(code: str) -> str:
    return codes.of(code).says


def _evidence(run: Run) -> str:
    seen = run.stop
    assert seen is not None
    parts = [f"after {seen.turn} turn{'s' if seen.turn != 1 else ''} costing {dollars(run.spent.cost_uusd)}"]
    if seen.rule:
        parts.append(f"rule '{seen.rule}'")
    if seen.threshold:
        parts.append(f"limit {seen.threshold}")
    if seen.observed:
        parts.append(f"seen {seen.observed}")
    detail = f": “{_first_line(seen.detail)}”" if seen.detail.strip() else ""
    return f"Evidence: {', '.join(parts)}{detail}."


def _first_line(text: str) -> str:
    lines = [line.strip() for line in text.strip().splitlines() if line.strip()]
    return (lines[-1] if lines else "")[:300].rstrip(".")


def _then(run: Run) -> str:
    seen = run.stop
    assert seen is not None
    sentence = _sentence(seen.otherwise) if seen.otherwise else otherwise(seen.code)
    following = next_step(run)
    return f"{sentence.rstrip('.')}; {following[0].lower()}{following[1:]}" if following else sentence


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."


def next_step(run: Run) -> str:
    """What a person can do now, as a command."""
    if run.question:
        return f"Answer with `flyball answer {run.question.id} {'|'.join(run.question.verbs)}`."
    if run.stop and run.stop.code == "wait.take_over":
        return f"`flyball hand-back {run.id}` gives it back."
    if run.status == "paused":
        return f"`flyball resume {run.id}` goes on."
    if run.end == "success":
        return f"`flyball land {run.id}` brings it into your branch."
    if run.status == "ended":
        alo = codes.of(run.stop.code).alo if run.stop else ""
        return codes.RECOVERY.get(alo, f"`flyball retry {run.id}` starts again from its tree.")
    return ""
