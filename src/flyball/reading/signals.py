"""Read an agent's final message strictly: is the work complete, not complete, blocked, rate limited or failed?

Only the agent's own words in its final message count (`prose`). A signal must be alone on its line; an indicator must
be affirmed (`indicators`). What the process did outranks what the agent said: failed > rate_limited > blocked >
complete > not_complete. Limits are never read from prose. Whatever is missing is reported back to the agent. So are
read the question with which a message ends, and the error that the agent says it still has.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Literal

import msgspec

from flyball.reading import prose
from flyball.reading.indicators import Sentence, affirmed, needs, says_ci_is_red, sentences
from flyball.reading.prose import CODE, FinalMessage, Line, spoken
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
    said = spoken(plain(text))
    lines = prose.read(said.message)
    if dialect == "loop":
        return _read_loop(lines, _process(runtime, said), _unproved(runtime), extra_indicators)
    return _read_review(lines, _process(runtime, said), _unproved(runtime), role, done_word)


# ── what the process did ────────────────────────────────────────────────────────────────────────────────────

_LIMITS = Lazy(r"rate|limit|quota|overload|throttl|capacity|429|529|too.?many|exhaust", re.I)
_KILLED = frozenset({124, 130, 137, 143})


def _process(runtime: Runtime, said: FinalMessage) -> Outcome | None:
    """What the process itself says, before any word is read. A limit explains a plain non-zero exit."""
    limited = said.limited or bool(runtime.provider_error and _LIMITS.search(runtime.provider_error))
    killed = runtime.timed_out or runtime.exit_code < 0 or runtime.exit_code in _KILLED
    if killed or (runtime.exit_code != 0 and not limited):
        return "failed"
    if limited:
        return "rate_limited"
    return "failed" if runtime.provider_error or said.failed else None


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
    stated = tuple(sentences(lines))
    signal, found, status = _exit_signal(lines), affirmed(stated, extra), _status(lines)
    missing = (*_lacks(signal, found), *_status_veto(status), *_red(stated), *unproved)
    reading = process or _loop_outcome(status, stated, missing)
    return Reading(reading=reading, exit_signal=signal, indicators=found, missing=missing)


def _loop_outcome(status: frozenset[str], stated: tuple[Sentence, ...], missing: tuple[str, ...]) -> Outcome:
    if "blocked" in status or "open" in status or needs(stated):
        return "blocked"
    return "not_complete" if missing else "complete"


def _red(stated: tuple[Sentence, ...]) -> tuple[str, ...]:
    return ("CI is known to be red: make it pass first.",) if says_ci_is_red(stated) else ()


def red_ci(message: str) -> tuple[str, ...]:
    """What a known red CI leaves missing, also where the claim itself came over a structured channel (LOOP-1)."""
    return _red(tuple(sentences(prose.read(spoken(plain(message)).message))))


def _lacks(signal: bool | None, found: tuple[str, ...]) -> tuple[str, ...]:
    lacks: list[str] = []
    if not signal:
        lacks.append(
            "No line of its own, outside code and quotes, says `EXIT_SIGNAL: true` without another saying false."
        )
    if len(found) < 2:
        have = f"only “{found[0]}” is" if found else "none is"
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
    for line in _statements(lines, "EXIT_SIGNAL"):
        if _EXIT_FALSE.match(line.text):
            return False
        found = _EXIT.fullmatch(line.text)
        said_true |= found is not None and found.group(1).lower() == "true" and _alone(line)
    return said_true or None


def _alone(line: Line) -> bool:
    """A box must be ticked with a letter: a picture before the signal is not a list mark, nor is a comment."""
    if line.box:
        return re.match(r"\s*(?:[-*+]|\d+[.)])?\s*\[[xX]\]", line.raw) is not None
    return "<!--" not in line.raw


_RUNS_ON = Lazy(
    r"(?:only\s+)?(?:when|once|if|unless|until|as soon as|after|before|would|will|is|means|only|and then)\b"
)
_SECTION = Lazy(r"\b(?:instructions?|prompts?|examples?|template|format)\b", re.I)


def _statements(lines: tuple[Line, ...], word: str) -> Iterator[Line]:
    """The agent's own lines with this word, except in a section of instructions or inside a longer sentence."""
    quoted_section = False
    for at, line in enumerate(lines):
        if word in line.text and line.own and not quoted_section and not _is_in_sentence(lines, at):
            yield line
        if line.own and line.kind == "heading":
            quoted_section = _SECTION.search(line.text) is not None


def _is_in_sentence(lines: tuple[Line, ...], at: int) -> bool:
    """The signal is part of a sentence that continues on the lines around it."""
    before = lines[at - 1].text if at and _is_text(lines[at - 1]) else ""
    after = lines[at + 1].text if at + 1 < len(lines) and _is_text(lines[at + 1]) else ""
    quoting = not before.endswith((".", "!")) and prose.announces_other_words(before)
    return quoting or _RUNS_ON.match(after) is not None


def _is_text(line: Line) -> bool:
    return line.own and line.kind == "text"


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
    said: set[str] = set()
    for line in lines:
        found = _FIELD.fullmatch(line.text) if line.own and line.box != " " else None
        if found and not re.match(r"\W*\[.*\|", found.group(2)) and "|" not in found.group(2):
            said |= _field(found.group(1).lower(), found.group(2))
    return frozenset(said)


def _field(key: str, value: str) -> set[str]:
    if key.startswith("circuit"):
        return {"open"} if re.match(r"\W*open(?:ed)?\b", value, re.I) else set()
    if re.match(r"\W*blocked\b", value, re.I):
        return {"blocked"}
    return {"unfinished"} if _UNFINISHED.match(value) else set()


def _status_veto(status: frozenset[str]) -> tuple[str, ...]:
    told = {
        "blocked": "The task status says blocked.",
        "open": "The circuit state says open.",
        "unfinished": "The task status does not say complete.",
    }
    return tuple(sentence for name, sentence in told.items() if name in status)


# ── the reviewer's dialect ──────────────────────────────────────────────────────────────────────────────────


def _read_review(
    lines: tuple[Line, ...], process: Outcome | None, unproved: tuple[str, ...], role: str, done_word: str
) -> Reading:
    signal = _last_word(lines, role, done_word)
    if signal == "FAIL":
        return Reading(reading=process or "failed", signal=signal)
    wanted = done_word if role == "worker" else "PASS"
    silent = (
        () if signal else (f"The last line is not the word {wanted} alone, in capitals as written here.",)
    )
    missing = (*silent, *unproved)
    return Reading(
        reading=process or ("not_complete" if missing else "complete"), signal=signal, missing=missing
    )


_TEST_LOG = Lazy(
    r"--- (?:PASS|FAIL|SKIP): |=== (?:RUN|CONT|PAUSE)|ok\s+\S+\s+(?:[\d.]+s|\(cached\))|coverage: "
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
    if not passes or "FAIL" in words or (len(words) > 1 and _TEST_LOG.match(words[-2])):
        return None
    return "DONE" if role == "worker" else "PASS"


# ── outcomes ────────────────────────────────────────────────────────────────────────────────────────────────

LAST_LINES = 3  # a verdict without its label is looked for in so many of the last lines
_MARKUP = Lazy(r"[*`]+|(?<!\w)_+|_+(?!\w)")
_LABEL = Lazy(r"(?:my |the )?(?:final )?(?:outcome|verdict|decision) ?: ?(.*)", re.I)
_HEDGE = Lazy(
    r"\b(?:not|never|cannot|no longer|nor|neither|if|when|once|unless|until|provided|would|could|should|must|may"
    r"|might|or|either|whether|pending|almost|nearly|can be|to be|(?:previous|earlier|last) \w+)\b|n['’]t\b|\?",
    re.I,
)
_NAME = Lazy(r"[a-z][\w-]*")
_CONDITIONS = ("if", "once", "when", "unless", "until", "only", "after", "provided", "or", "pending")
_SENTENCE = Lazy(r"(?<=[.!?;])\s+")
_CLAUSE = Lazy(r"(?:,|;|\s[–—-])\s+(?:but|so|hence|therefore|thus)\s+|;\s+", re.I)
_OF_TESTS = ("passed", "failed", "done", "fixed")  # at the end of a sentence these are said of tests
_OF_MANY = Lazy(r"(?!.*\b(?:changes|edits|they|these)\b).*\bare\b", re.I)  # "invalid inputs are rejected"
_VERDICT = Lazy(r"\b(?:verdict|outcome|decision|conclusion|answer)\b", re.I)
_WORK = r"(?:(?:the|this|that|your) )?(?:[\w-]+ )?(?:change|diff|patch|work|implementation|result|solution|plan|pull request|pr|one|it|this)"
_SAID = Lazy(
    rf"(?:(?:so|hence|thus|therefore|overall),? )?{_WORK} is (?:\w+ly |now )?([a-z][\w-]*)(?: (\w+))?", re.I
)
_DEED = Lazy(
    rf"(?:(?:so|hence|thus|therefore|overall),? )?I(?:['’]m| am)? (?:\w+ly )?([a-z]+?)(?:e|ing)? {_WORK}\b(?: (\w+))?",
    re.I,
)


def read_outcome(text: str, names: Sequence[str]) -> str | None:
    """The one of `names` that a line `OUTCOME: name` claims; None where there is none or two of them differ.

    Case, markup, a full stop and words after the name do not matter.
    """
    return _labelled(_own_words(text), names)


def read_verdict(text: str, names: Sequence[str]) -> str | None:
    """What a judging role claims: one of `names`, `pass` or `fail`. A label is not needed on the last lines.

    There a name counts where it begins or ends a sentence, and PASS or FAIL alone on the very last line.
    """
    lines = _own_words(text)
    if any(_LABEL.fullmatch(line) for line in lines):
        return _labelled(lines, (*names, "pass", "fail"))
    first = [
        line for line in lines[:1] if line.strip(" .!:").lower() in names
    ]  # alone there, its reasons follow
    parts = (part for line in (*first, *lines[-LAST_LINES:]) for part in _SENTENCE.split(line))
    return _one(name for part in parts for name in _stated(part, names)) or _last_signal(lines)


def _own_words(text: str) -> list[str]:
    """The agent's own lines without markup, except empty ones and boxes that are not ticked."""
    lines = _statements(prose.read(spoken(plain(text)).message), "")
    own = (line for line in lines if line.text and line.box != " " and "<!--" not in line.raw)
    bare = (line.raw.strip().lstrip("#>-+ ") if CODE in line.text else line.text for line in own)
    return [" ".join(_MARKUP.sub("", words).split()) for words in bare]


def _labelled(lines: list[str], names: Sequence[str]) -> str | None:
    """After a label, on the line or, where that ends with it, on the next."""
    found = ((label.group(1), after) for line, after in zip_longest(lines, lines[1:], fillvalue="")
             if (label := _LABEL.fullmatch(line)))  # fmt: skip
    return _one(name for words, after in found for name in _first_name(words or after, names))


def _last_signal(lines: list[str]) -> str | None:
    """A test runner's log that ends in PASS is not a verdict."""
    signal = re.fullmatch(r"(pass|fail)(?:\W.*)?", lines[-1], re.I) if lines else None
    logged = len(lines) > 1 and _TEST_LOG.match(lines[-2])
    return signal.group(1).lower() if signal and not logged else None


def _one(names: Iterator[str]) -> str | None:
    """The name, if all are the same one."""
    claims = set(names)
    return claims.pop() if len(claims) == 1 else None


def _first_name(words: str, names: Sequence[str]) -> list[str]:
    """The name that the words begin with, unless a condition or another name follows at once."""
    words = re.sub(r"^\W+", "", words.lower())
    said = _NAME.findall(words)
    if not said or not words.startswith(said[0]) or said[0] not in names:
        return []
    return [] if said[1:2] and (said[1] in names or said[1] in _CONDITIONS) else [said[0]]


def _stated(sentence: str, names: Sequence[str]) -> list[str]:
    """The names that a sentence begins or ends with, or says of the work; where it hedges, none."""
    return [name for clause in _CLAUSE.split(sentence) for name in _in_clause(clause, names)]


def _in_clause(clause: str, names: Sequence[str]) -> list[str]:
    bare = clause.rstrip(" .!:;,)")
    begins = re.match(r"\W*([A-Za-z][\w-]*)(?:$|\s*[.:;,!–—(]+|\s+[-–—])\s*(\w*)", bare)
    if begins and begins.group(1).lower() in names:  # what follows is the reason
        return [] if begins.group(2).lower() in _CONDITIONS else [begins.group(1).lower()]
    if _HEDGE.search(clause):
        return []
    if deed := _DEED.match(bare):
        stem = deed.group(1).lower()
        return [
            name for name in names if name in (f"{stem}ed", f"{stem}d") and deed.group(2) not in _CONDITIONS
        ]
    said = _SAID.match(bare)
    ends = re.search(r"(?:^|[\s:\"'“‘(])([A-Za-z][\w-]*)[\"'”’]?$", bare)
    named = ends and (bare[-1].isalpha() or _VERDICT.search(bare))  # a name in quotes is mostly a value
    last = ends.group(1).lower() if ends and named and not _OF_MANY.match(bare) else ""
    stated = {said.group(1).lower() if said else "", last} & set(names)
    return sorted(stated.difference(_OF_TESTS if last else ()))


# ---- questions and errors in the agent's own words ---------------------------------------------------------


QUESTION_LONGEST = 1_000
_OFFER = Lazy(
    r"\b(?:would you like|(?<![a-z] )do you want|shall i|should i (?:also|go ahead|proceed|continue|start|begin)|want (?:me )?to"
    r"|let me know if|anything else|any questions|sound good|(?:how )?does (?:that|this) (?:help|work|look|sound|seem)"
    r"|would (?:that|this) (?:work|be)|ready (?:to|for))\b",
    re.I,
)


def final_question(text: str) -> str:
    """The last paragraph, if it asks the reader something and is no mere offer to continue; "" if it does not.

    The choices that it lists, or thanks, may follow.
    """
    lines = [line for line in prose.read(spoken(plain(text)).message) if line.raw.strip()]
    end = len(lines)
    while end > 1 and (lines[end - 1].kind == "item" or _THANKS.fullmatch(lines[end - 1].text)):
        end -= 1
    for at in dict.fromkeys((len(lines) - 1, end - 1)):
        if at < 0 or not lines[at].own or lines[at].kind not in ("text", "item"):
            continue
        asked = [line.text for line in lines if line.block == lines[at].block]
        if _asks(_QUESTION_END.split(" ".join(asked)), last=at == len(lines) - 1):
            rest = (line.text for line in lines[at + 1 :] if line.block != lines[at].block)
            return "\n".join((*asked, *rest))[-QUESTION_LONGEST:]
    return ""


_QUESTION_END = Lazy(r"(?<=[.!?])\s+")
_THANKS = Lazy(r"\W*(?:many )?(?:thanks|thank you)\b.{0,40}", re.I)
_TO_READER = Lazy(r"\b(?:you|your|(?:should|may|can|could|must|am) i)\b|^\W*(?:which|should|do we)\b", re.I)
_REQUEST = Lazy(
    r"\W*(?:(?:please|kindly) (?:tell me|clarify|confirm|specify|choose|decide|advise|let me know (?:which|whether|what|how|where|when))"
    r"|i need (?:a decision|to know|you to|your (?:input|decision|answer|help|guidance|approval)))\b",
    re.I,
)


def _asks(said: list[str], *, last: bool) -> bool:
    """Its last sentence is a question or a request; one before it, or before a list, must be put to the reader."""
    asked = [sentence for sentence in said if _ends_asking(sentence) and not _OFFER.search(sentence)]
    if _REQUEST.match(said[-1]) or (last and said[-1] in asked):
        return True
    return any(_TO_READER.search(sentence) for sentence in asked)


def _ends_asking(sentence: str) -> bool:
    """A question that is quoted within a sentence is not asked."""
    bare = sentence.rstrip(" *_)")
    return bare.endswith("?") or (bare[:1] in "\"'“" and bare.rstrip("\"'”").endswith("?"))


_ERROR = Lazy(
    r"\b(?:\w+(?:Error|Exception)|error|failure|failed|fails)\b\W{0,3}:(?!\W{0,5}(?:0|none)\b)", re.I
)
_OVER = Lazy(
    r"\b(?:fixed|resolved|no longer|no more|solved|gone|handled|avoid(?:s|ed)?|prevent(?:s|ed)?)\b", re.I
)


def reported_error(text: str) -> str:
    """The last line in which the agent itself names an error that it has not got over; "" if there is none."""
    own = [line.text for line in prose.read(spoken(plain(text)).message) if line.own and line.text]
    errors = [line for line in own if _ERROR.search(line) and not _OVER.search(line)]
    return errors[-1][:QUESTION_LONGEST] if errors else ""
