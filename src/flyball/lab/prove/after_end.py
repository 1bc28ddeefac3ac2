"""What a run may do after its end: land if a person orders it, and nothing else. Every possible course is tried."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from flyball.core import decide, mail
from flyball.domain import events as e, messages
from flyball.state.fold import apply
from flyball.state.run import Run

WAYS = ("landed", "conflict", "interrupted")


def may_follow_end(run: Run, event: e.AnyEvent) -> bool:
    """HUMAN-3: after its end a run takes messages only to refuse them or to land, and does nothing but land."""
    match event:
        case e.LetterRefused() | e.LandOrdered():
            return True
        case e.ActStarted():
            return run.landing is not None and event.act.do == "land"
        case e.ActFinished() | e.ActInterrupted() | e.Ruled() | e.Landed() | e.Dropped():
            return run.landing is not None
        case _:
            return False


def wrong_landing(run: Run) -> str:
    """How an ended run that is told to land breaks the law, as a sentence; "" if it does not."""
    order = messages.encode(messages.Land(branch="main", who="anna"))
    ordered = mail.hear(run, order, 1, run.at)
    return next((wrong for way in WAYS if (wrong := _wrong(run, ordered, way))), "")


def _wrong(run: Run, ordered: Iterable[e.AnyEvent], way: str) -> str:
    after, wrong = _followed(run, ordered)
    step = decide.due(after, run.at)
    if isinstance(step, decide.Do) and not wrong:
        after, wrong = _followed(after, [e.ActStarted(at=run.at, act=step.act)])
        after, wrong = (after, wrong) if wrong else _followed(after, _came(after, step.act, way))
    unchanged = ("end", "state", "status", "stop", "turn", "spent")
    changed = [name for name in unchanged if getattr(run, name) != getattr(after, name)]
    if changed:
        return f"a landing ({way}) changes {', '.join(changed)}"
    return wrong or (
        "" if decide.due(after, run.at) == decide.Rest() else f"after a landing ({way}) it goes on"
    )


def _followed(run: Run, events: Iterable[e.AnyEvent]) -> tuple[Run, str]:
    for event in events:
        if not may_follow_end(run, event):
            return run, f"{e.kind(event)} follows the end of a run"
        run = apply(run, event)
    return run, ""


def _came(run: Run, act: e.Act, way: str) -> list[e.AnyEvent]:
    if way == "interrupted" or run.checkout.commit is None:
        return [e.ActInterrupted(at=run.at, key=act.key, reason="its keeper was killed")]
    commit = replace(run.checkout.commit, outcome="committed", landed="main")
    commit = commit if way == "landed" else replace(commit, outcome="conflict", landed="")
    return decide.react(run, decide.Finished(key=act.key, result=commit), run.at)
