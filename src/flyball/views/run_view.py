"""A run as the object that `--json` prints. Reads the run, decides nothing; `reasons` has the sentences."""

from __future__ import annotations

from typing import Any

from flyball.domain.machine import Machine
from flyball.domain.results import code_of
from flyball.errors import FlyballError
from flyball.state.run import Run
from flyball.views.text import UNKNOWN, cost, is_free


def exit_code(run: Run) -> int:
    """The exit code of `flyball run` for where the run is now."""
    if run.stop is None:
        return 0
    if run.stop.code.startswith("error.") and run.status == "ended":
        return 2
    return code_of(run.stop.code).exit


def alo_code(run: Run) -> str:
    return code_of(run.stop.code).alo if run.stop else ""


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
        "cost_usd": cost_usd(run),
        "tokens": run.spent.tokens,
        "tree": run.tree,
        "certificate": run.checkout.certificate or None,
        "alo_code": alo_code(run) or None,
        "iteration": run.iteration,
        "question": _question(run),
        "branch": f"flyball/{run.id}" if run.owner else None,
        "pull_request": run.checkout.pull_request or None,
        "unproven": run.end == "success" and not run.settings.proof,
        "sandbox": run.checkout.sandbox,
        "tier": (run.evidence.ruling.tier if run.evidence.ruling else "") or None,
        "task": run.task,
        "changed": list(run.checkout.changed),
        **({"run_state": run_state(run.machine, run.state)} if run.machine.run_states else {}),
    }


def cost_usd(run: Run) -> float | None:
    """What the run cost; None if nobody knows. Agents without a model cost nothing."""
    known = run.spent.cost_uusd > 0 or is_free(run.settings.agents.values(), run.spent.tokens)
    return run.spent.cost_uusd / 1_000_000 if known else None


def cost_text(run: Run, unknown: str = UNKNOWN) -> str:
    return cost(run.spent.cost_uusd, cost_usd(run) is not None, unknown)


def _reason(run: Run) -> dict[str, Any] | None:
    stop = run.stop
    if stop is None:
        return None
    evidence = {
        "threshold": stop.threshold,
        "observed": stop.observed,
        "turn": stop.turn,
        "otherwise": stop.otherwise or otherwise(stop.code),
        "detail": stop.detail,
    }
    return {"code": stop.code, "rule": stop.rule, "evidence": evidence}


def _question(run: Run) -> dict[str, Any] | None:
    question = run.question
    if question is None:
        return None
    return {"id": question.id, "kind": question.kind, "text": question.text, "verbs": list(question.verbs)}


# ---- what outside tools call a state (PAIR-5) --------------------------------------------------------------------


def run_state(machine: Machine, state: str) -> str:
    """What outside tools call a state of a machine that has such names."""
    if state not in machine.run_states:
        raise FlyballError(f"'{state}' has no run state. States with one: {', '.join(machine.run_states)}.")
    return machine.run_states[state]


def from_run_state(machine: Machine, name: str) -> str:
    """The state of `review` for a run state. An unknown one is an error, not a failure of the run."""
    state = next((state for state, known in machine.run_states.items() if known == name), "")
    if not state:
        raise FlyballError(f"'{name}' is not a run state. Known: {', '.join(machine.run_states.values())}.")
    return state


# ---- what would have happened otherwise (SYS-7) --------------------------------------------------------------

OTHERWISE = {
    "limit.iterations": "The agent would have had another iteration.",
    "limit.turns": "The agent would have had another turn.",
    "limit.fix_attempts": "The agent would have had another fix attempt.",
    "limit.time": "The next turn would have started.",
    "limit.budget_usd": "The next turn would have started.",
    "limit.budget_tokens": "The next turn would have started.",
    "failed.tests": "If the proof had passed, the run would have continued.",
    "timeout.phase": "The phase would have continued.",
    "timeout.idle": "The turn would have continued.",
    "failed.agent": "The run would have continued with the outcome of the turn.",
    "completed": "If a proof command had failed, the run would have continued.",
    "completed_unproven": "With a proof command in flyball.toml, the result would have been proved.",
    "wait.rate_limit": "The turn would have been tried at once.",
}


def otherwise(code: str) -> str:
    return OTHERWISE.get(code, "The run would have continued.")
