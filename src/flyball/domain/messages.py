"""Messages that people and other processes send to a run. The process that runs it turns them into events."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from flyball.domain import events as e


class Answer(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="is", tag=True):
    question: str
    verb: str
    text: str = ""
    who: str = ""
    how: str = ""
    shown: str = ""  # the hash of what the person saw; "" binds to nothing
    data: dict[str, Any] = {}


class Tell(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="is", tag=True):
    text: str
    who: str = ""


class Allow(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="is", tag=True):
    """Agents may reach one more host."""

    host: str
    who: str = ""


class Ask(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="is", tag=True):
    """Pause or take over after this turn, stop now, cancel; or continue after a pause."""

    what: str  # pause | stop | cancel | take-over | resume
    who: str = ""


class HandBack(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="is", tag=True):
    """A person has worked in the checkout; what they changed is theirs, and the run continues."""

    who: str = ""


class Rollback(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="is", tag=True):
    """Restore the checkout to the tree of an earlier turn."""

    turn: int
    tree: str
    who: str = ""


class Land(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="is", tag=True):
    """Merge the result of an ended run into this branch."""

    branch: str
    who: str = ""


class Start(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="is", tag=True):
    """There is work for the standing loop."""

    trigger: e.Trigger
    who: str = ""


AnyMessage = Start | Answer | Tell | Allow | Ask | HandBack | Rollback | Land
RESUME = "resume"
ASKS = ("pause", "stop", "cancel", "interrupt", "take-over", RESUME)
_decoder = msgspec.json.Decoder(AnyMessage)


def encode(message: AnyMessage) -> bytes:
    return msgspec.json.encode(message, order="deterministic")


def decode(body: bytes) -> AnyMessage:
    """The message; a MsgspecError if it cannot be decoded, whatever the reason."""
    try:
        return _decoder.decode(body)
    except RecursionError:
        raise msgspec.DecodeError("it is nested too deeply") from None


def readable(body: bytes) -> AnyMessage | None:
    """The message, or None if it cannot be decoded."""
    try:
        return decode(body)
    except msgspec.MsgspecError:
        return None


def for_who_works(body: bytes) -> bool:
    """A message or a hand-back goes to the run that is working, not to the runs that wait for it."""
    return isinstance(readable(body), Tell | HandBack)


def replaces(later: bytes, earlier: bytes) -> bool:
    """Whether a later answer replaces an earlier unused one: same question, same author."""
    new, old = readable(later), readable(earlier)
    if not (isinstance(new, Answer) and isinstance(old, Answer)):
        return False
    return (new.question, new.who) == (old.question, old.who)


def contradiction(one: bytes, other: bytes) -> str:
    """CTO-8: a message if two people answered the same question differently, else ""."""
    first, second = readable(one), readable(other)
    if not (isinstance(first, Answer) and isinstance(second, Answer)) or first.question != second.question:
        return ""
    same = (first.verb, first.text, first.data) == (second.verb, second.text, second.data)
    if same or first.who == second.who:
        return ""
    answers = sorted(f"{one.who} answered {one.verb}" for one in (first, second))
    return f"{answers[0]} and {answers[1]}. Neither answer was used; agree on one, then answer again"


def resumes(body: bytes) -> bool:
    """Whether the message says that a run, and those below it, continue."""
    message = readable(body)
    return isinstance(message, Ask) and message.what == RESUME
