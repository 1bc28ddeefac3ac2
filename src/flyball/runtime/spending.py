"""What all runs together have spent lately, from the acts that the journal says were finished (GUARD-4)."""

from __future__ import annotations

import msgspec

from flyball.core import events as e
from flyball.core.settings import HOUR
from flyball.journal import Journal

DAY_US = 24 * HOUR
WEEK_US = 7 * DAY_US


class _Result(msgspec.Struct):
    kind: str = ""
    usage: e.Usage = e.Usage()


class _Finished(msgspec.Struct):
    at: int
    result: _Result


_decoder = msgspec.json.Decoder(_Finished)


def windows(journal: Journal, now: int, since: int = 0) -> e.WindowSeen:
    """In the last day and week, to this moment, but not before `since`.

    What a child used is counted where it was used, once.
    """
    day, week = e.Usage(), e.Usage()
    acts = (_decoder.decode(body) for body in journal.finished(max(now - WEEK_US, since)))
    for act in (act for act in acts if act.result.kind == "turn"):
        week = week.plus(act.result.usage)
        if act.at >= now - DAY_US:
            day = day.plus(act.result.usage)
    return e.WindowSeen(
        at=now,
        day_uusd=day.cost_uusd,
        day_tokens=day.tokens,
        week_uusd=week.cost_uusd,
        week_tokens=week.tokens,
    )
