"""Landing a run that has ended: a person orders it, an act does it, and nothing else may follow the end."""

from __future__ import annotations

from flyball.core import events as e
from flyball.core.run import Run

LAND = "land"


def cannot_land(run: Run) -> str:
    """Why the run's result cannot be landed now, as a sentence; "" if it can."""
    if not run.owner:
        return f"Run {run.id} works in the checkout of {run.began.root}; land that one."
    if run.status != "ended":
        return f"Run {run.id} has not ended ({run.status} in '{run.state}'), so it cannot land yet; see `flyball why {run.id}`."
    if run.end != "success" or run.committed is None:
        code = run.stop.code if run.stop else run.end
        return f"Run {run.id} did not end in success ({code}), so there is nothing to land; see `flyball why {run.id}`."
    if run.landing is not None:
        return f"Run {run.id} is being landed on '{run.landing.branch}' already."
    return ""


def landing_due(run: Run) -> e.Act | None:
    """The act that an ended run still has to do, if a person ordered it."""
    if run.landing is None or run.act is not None:
        return None
    return e.Act(
        key=f"{run.id}-{run.acts + 1}",
        do=LAND,
        state=run.state,
        turn=run.turn + 1,
        why=LAND,
        tree=run.tree,
        branch=run.landing.branch,
    )


def landed(run: Run, done: e.CommitEnded, now: int) -> list[e.AnyEvent]:
    """The fact that follows if a branch of the user's took the commit."""
    if not done.landed:
        return []
    who = run.landing.who if run.landing else ""
    return [e.Landed(at=now, commit=done.commit, branch=done.landed, who=who)]


def may_follow_end(ended: Run, event: e.AnyEvent) -> bool:
    """HUMAN-3: after its end a run takes letters only to refuse them or to land, and does nothing but land."""
    match event:
        case e.LetterRefused() | e.LandOrdered() | e.Landed():
            return True
        case e.ActStarted():
            return event.act.do == LAND
        case e.ActFinished() | e.ActInterrupted():
            return ended.act is not None and ended.act.do == LAND
        case _:
            return False
