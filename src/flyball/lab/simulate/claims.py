"""What simulated agents say about their turns: the truth, and lies of every kind."""

from __future__ import annotations

import random

from flyball.core.turns import PLAN_REVIEW, REVIEWS
from flyball.domain import events as e
from flyball.state.run import Run

BOTH = ("task complete", "all done")


def truth(run: Run, role: str, good: bool) -> e.Claim:
    """What an honest agent says about a tree that is good or not."""
    match role:
        case "worker":
            return e.Claim(finished=True, indicators=BOTH) if good else e.Claim()
        case "author":
            return e.Claim(signal="DONE" if good else "")
        case "reviewer":
            return e.Claim(signal="PASS" if good else "")
        case "critic" | "validator" | "quality":
            honest = good or role == "validator"
            return e.Claim(outcome=next(iter(run.here.on)) if honest else "rejected")
        case "cto" if run.act is not None and run.act.why == PLAN_REVIEW:
            return e.Claim(outcome=REVIEWS[run.turn % 4 == 3])
        case "cto":
            return _recovery(run)
        case "planner":
            idle = "nothing" in run.here.on and run.turn % 4 == 3
            return e.Claim(outcome="nothing") if idle else e.Claim(data={"steps": [{"title": "mend it"}]})
        case _:
            again = not good and "rewrite" in run.here.on and run.turn % 2 == 0
            return e.Claim(outcome="rewrite" if again else "")


def _recovery(run: Run) -> e.Claim:
    """Try the state that called again, or the state before or after it, where that exists."""
    choices = run.machine.targets(run.here.on.get("retry", ""))
    if run.path.origin not in choices:
        return e.Claim(outcome="escalate")
    place, kind = choices.index(run.path.origin), ("retry", "rollback", "skip")[run.turn % 3]
    if kind == "rollback" and place:
        return e.Claim(outcome=kind, data={"kind": kind, "state": choices[place - 1]})
    return e.Claim(
        outcome=kind, data={"kind": "skip"} if kind == "skip" else {"kind": "retry", "state": run.path.origin}
    )


def lie(rng: random.Random, run: Run, role: str) -> e.Claim:
    """It says done though it is not, gives an outcome that is not its own, or data that does not fit."""
    names = [*run.here.on, "unproven", "exhausted", "passed", "success", "nonsense", "cancel", ""]
    match rng.randrange(6):
        case 0:
            return e.Claim(outcome=rng.choice(names), signal=rng.choice(("DONE", "PASS", "FAIL", "")))
        case 1:
            return e.Claim(finished=True, indicators=BOTH, signal="PASS" if role == "reviewer" else "DONE")
        case 2:
            return e.Claim(finished=True, indicators=("all done", "all done"), signal="DONE")
        case 3:
            return e.Claim(outcome=rng.choice(names), data=_data(rng, run))
        case 4:
            return e.Claim(finished=True, indicators=BOTH, missing=("CI is red.",))
        case _:
            return e.Claim(signal="FAIL", finished=True)


def _data(rng: random.Random, run: Run) -> dict[str, object]:
    kinds = ("retry", "rollback", "skip", "escalate", "nonsense")
    states = [*run.machine.states, "nowhere"]
    return {"kind": rng.choice(kinds), "state": rng.choice(states), "steps": rng.choice([1, []])}
