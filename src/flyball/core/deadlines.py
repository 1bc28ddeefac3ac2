"""What an unanswered question comes to (HUMAN-1): a default after a while, or a reminder every day.

A default is set with `inbox.defaults`. What would let a change, a result or more money through can only be refused by
one, and a default is used once: if the run asks again before a person has answered anything, that question waits.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from flyball.domain import events as e
from flyball.domain.machine import duration_us
from flyball.domain.settings import DAY, show_duration
from flyball.errors import MachineFault

if TYPE_CHECKING:
    from flyball.core.run import Run

WHO = "flyball"
REMINDER = "wait.escalation"  # the code of the warning
WORDS = 4  # KIND VERB after DURATION, then a text
TAKES_TEXT = ("answer", "redirect")
DEFAULTS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("approval", "evidence", "block", "permission"), ("reject",)),
    "clarification": ("answer", "redirect", "cancel"),
    "done": ("answer", "redirect", "cancel"),
    "breakpoint": ("go-on", "reject", "cancel"),
    "loop": ("go-on", "answer", "redirect", "retry", "cancel"),
    "infrastructure": ("go-on", "retry", "cancel"),
    "limit": ("go-on", "retry", "cancel"),
}


class Default(Struct, frozen=True):
    kind: str
    verb: str
    after_us: int
    text: str


@lru_cache(maxsize=64)
def parse(line: str) -> Default:
    """`clarification answer after 4h Decide yourself.`; a ValueError says what is wrong with it."""
    kind, verb, after, length, *text = [*line.split(None, WORDS), *[""] * WORDS][: WORDS + 1]
    if kind not in DEFAULTS:
        raise ValueError(f"questions of one of these kinds: {', '.join(DEFAULTS)} (others wait)")
    if verb not in DEFAULTS[kind]:
        raise ValueError(f"for {kind} one of: {', '.join(DEFAULTS[kind])}")
    words = text[0].strip() if text else ""
    try:
        if after == "after" and bool(words) == (verb in TAKES_TEXT):
            return Default(kind, verb, duration_us(length), words)
    except MachineFault:
        pass
    raise ValueError(f"'{kind} {verb} after 4h{' TEXT' if verb in TAKES_TEXT else ''}'")


def with_deadline(run: Run, question: e.Question, now: int) -> e.Question:
    found = next((one for one in map(parse, run.settings.defaults) if one.kind == question.kind), None)
    if found is None or found.verb not in question.verbs or run.path.answered_by == WHO:
        return question
    return replace(question, default=found.verb, default_text=found.text, deadline=now + found.after_us)


# ---- reminders -------------------------------------------------------------------------------------------


def next_reminder_at(run: Run) -> int | None:
    """A question that is open for a day is asked again, and again each day (CTO-9)."""
    return (
        run.question.asked_at + DAY * (run.question.reminded + 1)
        if run.question and run.question.asked_at
        else None
    )


def due_reminder(run: Run, now: int) -> list[e.Warned]:
    at = next_reminder_at(run)
    if at is None or run.question is None or now < at:
        return []
    days = (now - run.question.asked_at) // DAY
    text = f"Question {run.question.id} has been open for {show_duration(days * DAY)}."
    return [e.Warned(at=now, code=REMINDER, text=text)]


def reminded(question: e.Question, now: int) -> e.Question:
    return replace(question, reminded=(now - question.asked_at) // DAY)
