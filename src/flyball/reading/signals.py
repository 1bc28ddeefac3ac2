"""Read an agent's final message strictly: is the work complete, not complete, blocked, rate limited or failed?

Only the agent's own words in its final message count (`prose`). A signal must be alone on its line; an indicator must
be affirmed (`indicators`). What the process did outranks what the agent said: failed > rate_limited > blocked >
complete > not_complete. Limits are never read from prose. Whatever is missing is reported back to the agent.
"""

from __future__ import annotations

import re
from typing import Literal

import msgspec

from flyball.reading import prose
from flyball.reading.indicators import Sentence, affirmed, needs, says_ci_is_red, sentences
from flyball.reading.prose import CODE, TEST_LOG, FinalMessage, Line, spoken, statements
from flyball.reading.terminal import Lazy, plain

Outcome = Literal["complete", "not_complete", "blocked", "rate_limited", "failed"]
Signal = Literal["DONE", "PASS", "FAIL"]


class Runtime(msgspec.Struct, frozen=True):
    """What the process did. `tests_*` is None where the proof is not this run's to make: then it vetoes nothing."""

    exit_code: int = 0
    timed_out: bool = False
    provider_error: str | None = None
    tests_ran: bool | None = None
    tests_failed: int | None = None


class Reading(msgspec.Struct, frozen=True):
    """How a final message is read, with what it claimed and, as sentences, what it lacked."""

    reading: Outcome
    exit_signal: bool | None = None  # None: nothing was said about it
    indicators: tuple[str, ...] = ()
    signal: Signal | None = None
    missing: tuple[str, ...] = ()


def read_output(
    text: str,
    *,
    dialect: Literal["loop", "review"],
    role: Literal["worker", "reviewer"],
    runtime: Runtime,
    done_word: str = "DONE",
    extra_indicators: tuple[str, ...] = (),
) -> Reading:
    """Read a final message by the rules of its dialect, under what the process did."""
    message = spoken(plain(text))
    lines = prose.read(message.message)
    if dialect == "loop":
        return _read_loop(lines, _process(runtime, message), _unproved(runtime), extra_indicators)
    return _read_review(lines, _process(runtime, message), _unproved(runtime), role, done_word)


# ── what the process did ────────────────────────────────────────────────────────────────────────────────────

_LIMITS = Lazy(r"rate|limit|quota|overload|throttl|capacity|429|529|too.?many|exhaust", re.I)
_KILLED = frozenset({124, 130, 137, 143})


def _process(runtime: Runtime, message: FinalMessage) -> Outcome | None:
    """What the process itself says, before any word is read. A limit explains a plain non-zero exit."""
    limited = message.limited or bool(runtime.provider_error and _LIMITS.search(runtime.provider_error))
    killed = runtime.timed_out or runtime.exit_code < 0 or runtime.exit_code in _KILLED
    if killed or (runtime.exit_code != 0 and not limited):
        return "failed"
    if limited:
        return "rate_limited"
    return "failed" if runtime.provider_error or message.failed else None


def _unproved(runtime: Runtime) -> tuple[str, ...]:
    if runtime.tests_ran is None and not runtime.tests_failed:
        return ()
    if runtime.tests_ran is False:
        return ("The proof commands have not run on this tree.",)
    if runtime.tests_failed is None:
        return ("The result of the proof commands is not known.",)
    if runtime.tests_failed:
        tests = "test fails" if runtime.tests_failed == 1 else "tests fail"
        return (f"{runtime.tests_failed} {tests}; whatever the reason, make every proof command pass.",)
    return ()


# ── the loop's dialect ──────────────────────────────────────────────────────────────────────────────────────


def _read_loop(
    lines: tuple[Line, ...], process: Outcome | None, unproved: tuple[str, ...], extra: tuple[str, ...]
) -> Reading:
    sentences_ = tuple(sentences(lines))
    signal, indicators, status = _exit_signal(lines), affirmed(sentences_, extra), _status(lines)
    missing = (*_lacks(signal, indicators), *_status_veto(status), *_red(sentences_), *unproved)
    reading = process or _loop_outcome(status, sentences_, missing)
    return Reading(reading=reading, exit_signal=signal, indicators=indicators, missing=missing)


def _loop_outcome(
    status: frozenset[str], sentences_: tuple[Sentence, ...], missing: tuple[str, ...]
) -> Outcome:
    if "blocked" in status or "open" in status or needs(sentences_):
        return "blocked"
    return "not_complete" if missing else "complete"


def _red(sentences_: tuple[Sentence, ...]) -> tuple[str, ...]:
    return ("CI is known to be red: make it pass first.",) if says_ci_is_red(sentences_) else ()


def red_ci(message: str) -> tuple[str, ...]:
    """What a known red CI adds to what is missing, also if the claim came over a structured channel (LOOP-1)."""
    return _red(tuple(sentences(prose.read(spoken(plain(message)).message))))


def _lacks(signal: bool | None, indicators: tuple[str, ...]) -> tuple[str, ...]:
    lacks: list[str] = []
    if not signal:
        lacks.append(
            "No line of its own, outside code and quotes, says `EXIT_SIGNAL: true` without another saying false."
        )
    if len(indicators) < 2:
        have = f"only “{indicators[0]}” is" if indicators else "none is"
        lacks.append(
            f"Two different completion indicators must be stated as true; {have}. "
            "Tick both in the Loop Status block, as in `- [x] All tests passing`: that one counts only when it is ticked."
        )
    return tuple(lacks)


_MARK = r"[*_]{0,3}"
_EXIT = Lazy(rf"{_MARK}EXIT_SIGNAL(?:{_MARK}:|:{_MARK})\s*{_MARK}([A-Za-z]+){_MARK}")
_EXIT_FALSE = Lazy(rf"{_MARK}EXIT_SIGNAL{_MARK}\s*[:=]{_MARK}\s*{_MARK}false\b", re.I)


def _exit_signal(lines: tuple[Line, ...]) -> bool | None:
    """True where the agent says true on a line of its own and nowhere says false; None where it says nothing."""
    said_true = False
    for line in statements(lines, "EXIT_SIGNAL"):
        if _EXIT_FALSE.match(line.text):
            return False
        match = _EXIT.fullmatch(line.text)
        said_true |= match is not None and match.group(1).lower() == "true" and _alone(line)
    return said_true or None


def _alone(line: Line) -> bool:
    """A box must be ticked with a letter: a picture before the signal is not a list mark, nor is a comment."""
    if line.box:
        return re.match(r"\s*(?:[-*+]|\d+[.)])?\s*\[[xX]\]", line.raw) is not None
    return "<!--" not in line.raw


_FIELD = Lazy(
    rf"{_MARK}(task status|status|circuit(?: breaker)?(?: state| status)?){_MARK}\s*:{_MARK}\s*{_MARK}(.*)",
    re.I,
)
_UNFINISHED = Lazy(
    r"\W*(?:in[ _-]?progress|incomplete|not\b|pending|partial|ongoing|to-?do|waiting|paused|failed|failing|working|started|unfinished)",
    re.I,
)


def _status(lines: tuple[Line, ...]) -> frozenset[str]:
    """What the status fields say: blocked, open, unfinished. A template's choice in brackets says nothing."""
    values: set[str] = set()
    for line in lines:
        match = _FIELD.fullmatch(line.text) if line.own and line.box != " " else None
        if match and not re.match(r"\W*\[.*\|", match.group(2)) and "|" not in match.group(2):
            values |= _field(match.group(1).lower(), match.group(2))
    return frozenset(values)


def _field(key: str, value: str) -> set[str]:
    if key.startswith("circuit"):
        return {"open"} if re.match(r"\W*open(?:ed)?\b", value, re.I) else set()
    if re.match(r"\W*blocked\b", value, re.I):
        return {"blocked"}
    return {"unfinished"} if _UNFINISHED.match(value) else set()


def _status_veto(status: frozenset[str]) -> tuple[str, ...]:
    reasons = {
        "blocked": "The task status says blocked.",
        "open": "The circuit state says open.",
        "unfinished": "The task status does not say complete.",
    }
    return tuple(sentence for name, sentence in reasons.items() if name in status)


# ── the reviewer's dialect ──────────────────────────────────────────────────────────────────────────────────


def _read_review(
    lines: tuple[Line, ...], process: Outcome | None, unproved: tuple[str, ...], role: str, done_word: str
) -> Reading:
    signal = _last_word(lines, role, done_word)
    if signal == "FAIL":
        return Reading(reading=process or "failed", signal=signal)
    word = done_word if role == "worker" else "PASS"
    silent = () if signal else (f"The last line is not the word {word} alone, in capitals as written here.",)
    missing = (*silent, *unproved)
    return Reading(
        reading=process or ("not_complete" if missing else "complete"), signal=signal, missing=missing
    )


def _last_word(lines: tuple[Line, ...], role: str, done_word: str) -> Signal | None:
    """The word on the last line, if it is this role's to say. FAIL beats PASS and DONE, wherever it is alone.

    A test runner's log that ends in PASS is not a verdict.
    """
    words = [line.raw.strip() if line.own else CODE for line in lines if line.raw.strip()]
    if not words:
        return None
    last = words[-1]
    passes = last == (done_word if role == "worker" else "PASS")
    if last == "FAIL" or (passes and len(words) > 1 and words[-2] == "FAIL"):
        return "FAIL"
    if not passes or "FAIL" in words or (len(words) > 1 and TEST_LOG.match(words[-2])):
        return None
    return "DONE" if role == "worker" else "PASS"
