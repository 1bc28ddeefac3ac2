"""Stops an agent, within its turn, if it repeats the same calls with the same results.

The watch sees one tool call after the other, as they stream, and keeps only counts and fingerprints. A call counts as
the same only if its result is the same: a test run that fails differently, or a poll with a new answer, is work. Errors
are the same if tool and text are; paths keep their names, since looking for a file in six places is not a loop.
"""

import re
from typing import Literal

import msgspec

from flyball.domain.settings import CallLimits
from flyball.reading.terminal import Lazy, digest, normalise

_LONGEST_CYCLE = 5
_ERRORS_KEPT = 64


class Call(msgspec.Struct, frozen=True):
    """One tool call: its input as text, what came back, whether that was an error, whether it wrote anything."""

    tool: str
    input: str
    result: str
    error: bool = False
    writes: bool = False


class CallWatch(msgspec.Struct, frozen=True):
    """What the calls of a turn add up to. `recent` is bounded, `errors` too."""

    count: int = 0
    repeats: int = 0  # how often the last call came in a row, with the same result
    recent: tuple[str, ...] = ()  # fingerprints since the last write, newest last
    errors: tuple[tuple[str, int], ...] = ()  # (fingerprint, times), newest last
    last: str = ""  # tool and input of the last call, for the evidence


class FiredRule(msgspec.Struct, frozen=True):
    """A rule that fired: its code, whether it warns or halts, and its evidence. It is the caller who warns once."""

    code: str
    level: Literal["warn", "halt"]
    rule: str
    threshold: int
    observed: int
    evidence: str = ""


def observe(watch: CallWatch, call: Call) -> CallWatch:
    """The watch after one more call."""
    key = _WAIT * _waits(call) + digest(f"{call.tool}\n{call.input}\n{normalise(call.result, paths=False)}")
    wrote = call.writes and not call.error
    again = bool(watch.recent) and watch.recent[-1] == key
    window = (1 + _LONGEST_CYCLE) * 16
    recent = (key,) if wrote and not again else (*watch.recent, key)[-window:]
    return CallWatch(
        count=watch.count + 1,
        repeats=watch.repeats + 1 if again else 1,
        recent=recent,
        errors=_with_error(watch.errors, call) if call.error else watch.errors,
        last=f"{call.tool} {call.input}"[:200],
    )


_WAIT = "~"
_WAITING = Lazy(r"\b(?:sleep|timeout)\s+\d|\b(?:wait|poll)\b|BashOutput|TaskOutput", re.I)


def _waits(call: Call) -> bool:
    return _WAITING.search(f"{call.tool} {call.input[:1000]}") is not None


def _with_error(errors: tuple[tuple[str, int], ...], call: Call) -> tuple[tuple[str, int], ...]:
    key = digest(f"{call.tool}\n{normalise(call.result, paths=False)}")
    times = dict(errors).get(key, 0) + 1
    others = tuple(pair for pair in errors if pair[0] != key)
    return (*others, (key, times))[-_ERRORS_KEPT:]


def fired(watch: CallWatch, limits: CallLimits | None = None) -> FiredRule | None:
    """The rule that these calls break, halting rules first; None if there is none."""
    limits = limits or CallLimits()
    errors = watch.errors[-1][1] if watch.errors else 0
    cycles = _cycles(watch.recent)
    rules = (
        ("limit.actions", "halt", "tool calls in one turn", limits.halt, watch.count),
        (
            "loop.same_action",
            "halt",
            "the same call with the same result in a row",
            limits.same_call,
            watch.repeats,
        ),
        ("loop.same_error", "halt", "the same error from a tool", limits.same_error, errors),
        ("loop.same_action", "halt", "the same few calls in the same order", limits.cycles, cycles),
        ("limit.actions", "warn", "tool calls in one turn", limits.warn, watch.count),
    )
    for code, level, rule, threshold, observed in rules:
        if observed > threshold:
            return FiredRule(
                code, "halt" if level == "halt" else "warn", rule, threshold, observed, watch.last
            )
    return None


def _cycles(recent: tuple[str, ...]) -> int:
    """How often in a row the newest calls, two to five of them, repeat in the same order with the same results.

    Waiting and checking again is not a cycle: waiting has its own limits.
    """
    return max(_times(recent, length) for length in range(2, _LONGEST_CYCLE + 1))


def _times(recent: tuple[str, ...], length: int) -> int:
    cycle = recent[-length:]
    if len(cycle) < length or len(frozenset(cycle)) == 1 or any(key.startswith(_WAIT) for key in cycle):
        return 0
    times = 1
    while recent[len(recent) - (times + 1) * length : len(recent) - times * length] == cycle:
        times += 1
    return times
