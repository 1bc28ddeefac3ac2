"""What an agent says itself: its own lines in its final message, and the outcome, question or error that they state.

Agents print JSON lines: their own messages, tool results, prompts. Where such a stream is handed over instead of the
final message, the final message is taken out of it, and what the stream says as a fact (an error, a refused limit)
is kept beside it. Text that is not a stream passes through untouched.

Fenced and indented code, quotes, comments, inline code, program output and other speakers' words are in the message
but are not the agent's own statements. Each line is marked as its own or not, and its list, heading and check-box marks
are removed. What a finished piece of work claims beyond one word is read by `signals` and `indicators`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Any, cast

import msgspec

from flyball.reading.terminal import Lazy, as_object, lines_of, plain, table

type_names = frozenset({
    "assistant", "user", "system", "result", "rate_limit_event", "message", "init", "tool_use", "tool_result",
    "text", "step_start", "step_finish", "error", "thread.started", "turn.started", "turn.completed",
    "turn.failed", "item.started", "item.updated", "item.completed", "stream_event",
})  # fmt: skip

Event = dict[str, Any]


class FinalMessage(msgspec.Struct, frozen=True):
    """The final message, and what the stream around it stated as facts."""

    message: str
    failed: bool = False
    limited: bool = False


def spoken(text: str) -> FinalMessage:
    """The agent's final message: the text itself, or the last word of the stream that it is."""
    events = _events(text)
    if events is None:
        return FinalMessage(message=text)
    return FinalMessage(message=_last_word(events), failed=_failed(events), limited=_limited(events))


def _events(text: str) -> list[Event] | None:
    if not text.lstrip().startswith("{"):
        return None
    whole = as_object(text)
    if whole is not None:
        return [whole]
    rows = [line for line in lines_of(text) if line.strip()]
    events = [event for event in map(as_object, rows) if event is not None]
    is_stream = any(event.get("type") in type_names for event in events) and len(events) * 2 >= len(rows)
    return events if is_stream else None


def _last_word(events: list[Event]) -> str:
    pieces: list[str] = []  # of a message that came in pieces, last first
    for event in reversed(events):
        kind = event.get("type")
        if isinstance(event.get("result"), str) and kind in ("result", None):
            return "" if event.get("is_error") else _text(event["result"])
        if event.get("delta") and event.get("role") == "assistant":
            pieces.append(_text(event.get("content")))
        elif pieces or kind in _INTERRUPTS:
            break
        elif words := "\n".join(_words(event)):
            return words
    return "".join(reversed(pieces))


_INTERRUPTS = frozenset({"user", "tool_use", "tool_result", "turn.failed", "error"})


def _words(event: Event) -> Iterator[str]:
    """What the agent itself says in this event of Claude's, Codex's, Gemini's or opencode's stream."""
    kind = event.get("type")
    item, part = table(event.get("item")), table(event.get("part"))
    if kind == "assistant":
        yield from _texts(table(event.get("message")).get("content"))
    elif kind == "item.completed" and item.get("type") == "agent_message":
        yield _text(item.get("text"))
    elif kind == "message" and event.get("role") == "assistant" and not event.get("delta"):
        yield _text(event.get("content"))
    elif kind == "text":
        yield _text(part.get("text"))


def _texts(content: object) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    elif isinstance(content, list):
        for block in map(table, cast("list[object]", content)):
            if block.get("type") == "text":
                yield _text(block.get("text"))


def _failed(events: list[Event]) -> bool:
    last = events[-1]
    return (
        bool(last.get("is_error"))
        or last.get("type") in ("turn.failed", "error")
        or last.get("status") == "error"
    )


def _limited(events: list[Event]) -> bool:
    last = events[-1]
    rejected = any(table(e.get("rate_limit_info")).get("status") == "rejected" for e in events)
    ended_well = last.get("type") == "result" and not last.get("is_error")
    return last.get("api_error_status") == 429 or (rejected and not ended_well)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


CODE = "\x00"
"""Stands where inline code stood: such a line can be no signal, such a phrase no indicator."""


class Line(msgspec.Struct, frozen=True):
    """One line: `text` without its marks; `own` if the agent says it; lines of one paragraph share a block."""

    raw: str
    text: str
    own: bool
    block: int
    kind: str  # text, item, heading, table, blank
    box: str = ""  # what is in the check box: "x" ticked, " " not; "" if there is no box


_FENCE = re.compile(r"(`{3,})([^`]*)$|(~{3,})(.*)$")
_ITEM = re.compile(r"\s*(?:[-*+•‣◦]|\d{1,9}[.)])\s+(?=\S)")
_HEADING = re.compile(r"\s{0,3}#{1,6}\s+")
_BOX = re.compile(r"\[([^\[\]]?)\](?:\s+|$)|([☑☒☐✅✔✓❌✗✘⬜🔲⏳🚧🟡])\ufe0f?\s*")
_TICKS = {"x": "x", "X": "x", "✓": "x", "✔": "x", "✅": "x", "☑": "x"}
_QUOTE = re.compile(r"\s{0,3}>")
_RULE = re.compile(r"\s{0,3}(?:(?:-\s*){3,}|(?:\*\s*){3,}|(?:_\s*){3,}|=+\s*)$")
_FOREIGN = (
    r"tool[\w-]*|function[\w-]*|antml[\w:-]*|stdout|stderr|output|result|system[\w-]*|user|human|prompt|think(?:ing)?"
    r"|reasoning|scratchpad|examples?|files?|documents?|quote|blockquote|pre|code|instructions?|context|logs?"
    r"|template|commentary|script|style|textarea"
)
_TAG = Lazy(
    rf"\s*(?:[-*+]\s+)?<({_FOREIGN})(?:\s[^>]*)?>|\s*\[((?:tool|function)[\w -]*)[^\]]*\](?!\()", re.I
)
_INLINE_TAG = Lazy(r"<(code|pre|q|s|del|tt|kbd|samp|quote|blockquote)(?:\s[^>]{0,200})?>.{0,500}?</\1>", re.I)
_NEVER_PROSE = ("tool", "function", "antml", "system-", "think", "pre", "stdout", "stderr", "reasoning")
_DIFF = re.compile(r"diff --git |@@ -\d|\+\+\+ [ab]/|--- [ab]/|index [0-9a-f]{7,}\.\.")
_DIFF_BODY = re.compile(r"[ +\-@\\]|index |new file|deleted file|similarity|rename ")
_CONSOLE = re.compile(r"\s*(?:[$❯➜]\s+\S|⎿|>>>\s|\S+@\S+[:~].*[$#]\s)")
_SPEAKER = re.compile(
    r"\s*(?:#+\s*)?\W{0,2}(user|human|assistant|agent|claude|codex|gemini|ai)\W{0,2}:", re.I
)
_ASSISTANT = re.compile(r"(?im)^[^\w\n]{0,6}(?:assistant|agent|claude|codex|gemini|ai)[^\w\n]{0,2}:")
_LONGEST = 200_000  # a longer message is read from there to its end
_WIDEST = 10_000  # nobody states anything in a longer line
_EMIT = Lazy(
    r"\b(?:print|output|emit|say|write|set|report|send|add|end with|finish with|reply|respond|answer|include|put)\b",
    re.I,
)
_PAIRS = (  # a word of the first kind, and later in the line one of the second
    (
        Lazy(
            r"\b(?:prompts?|instructions?|template|readme|file|plan|spec|docs?|documentation|rules?|guide|comment|note|log)\b"
            r"|\w\.(?:md|txt|log|py|js|ts|go|rs|json|ya?ml|toml)\b",
            re.I,
        ),
        Lazy(
            r"\b(?:says?|said|reads?|states?|asks?|tells?|contains?|shows?|demands?|requires?|wants?|expects?|instructs?)\b",
            re.I,
        ),
    ),
    (
        Lazy(
            r"\b(?:will|would|should|must|shall|going to|supposed to|have to|has to|need to|told to|asked to"
            r"|when|once|if|until|unless|as soon as)\b",
            re.I,
        ),
        _EMIT,
    ),
)
_LABEL = Lazy(
    r"^\W*(?:for )?(?:examples?|e\.g\.|expected (?:output|format|reply)|format|template|sample(?: output)?)\W*:"
    r"|\bmust be explicit\b|\bneed(?:s|ed)? (?:>=|≥|at least)"
    r"|^\W*(?:the )?contents? of\b|^\W*(?:stdout|stderr)\b|\bfor example\b",
    re.I,
)


def announces_other_words(text: str) -> bool:
    """The sentence introduces somebody else's words, or words for later."""
    return _LABEL.search(text) is not None or any(_in_order(text, *pair) for pair in _PAIRS)


def _in_order(text: str, first: Lazy, second: Lazy) -> bool:
    start = first.search(text)
    return start is not None and second.search(text[start.end() :]) is not None


def read(text: str) -> tuple[Line, ...]:
    """The lines of a Markdown message, each marked as the agent's own or not."""
    text = text[-_LONGEST:]
    scan = _Scan(text)
    rows = [(raw, scan.visible(raw)) for raw in lines_of(text)]
    return tuple(_without_inline_code(_blocks(rows)))


class _Scan:
    """Where the reading stands: inside which fence, comment, tag, quote or foreign passage."""

    def __init__(self, text: str) -> None:
        self.closings = frozenset(re.findall(r"/([\w:-]+)", text.lower()))
        self.has_assistant = _ASSISTANT.search(text) is not None
        self.fence = self.tag = ""
        self.comment = self.lazy = self.output = self.announced = self.diff = self.other = self.listed = False

    def visible(self, line: str) -> str | None:
        """The part of the line that the agent says itself; None where the line is not its own."""
        if len(line) > _WIDEST:
            return None
        if self.fence:
            return self._close_fence(line)
        rest = self._uncommented(line)
        if rest is None or self.tag:
            return self._close_tag(line) if rest is not None else None
        if not rest.strip():
            return self._blank(line)
        return None if self._foreign(rest) else rest

    def _close_fence(self, line: str) -> None:
        mark = line.strip()
        closes = mark and set(mark) == {self.fence[0]} and len(mark) >= len(self.fence)
        if closes and (self.listed or columns(line) < 4):
            self.fence = ""

    def _uncommented(self, line: str) -> str | None:
        """The line without its comments; None where all of it is comment."""
        text, rest = "", line
        while rest:
            if self.comment:
                _, end, rest = rest.partition("-->")
                self.comment = not end
            else:
                before, start, rest = rest.partition("<!--")
                if start and before.count("`") % 2:  # a comment mark in inline code is a word
                    before, start = before + start, ""
                text, self.comment = text + before, bool(start)
        return None if not text.strip() and line.strip() else text

    def _close_tag(self, line: str) -> None:
        if f"/{self.tag}" in line.lower():
            self.tag = ""

    def _blank(self, line: str) -> str:
        self.lazy = self.diff = False
        self.output = self.announced  # an announced passage may begin after an empty line
        self.announced = False
        return line

    def _foreign(self, line: str) -> bool:
        item = _ITEM.match(line)
        bare = line[item.end() :] if item else line
        return (
            self._opens_fence(line, bare)
            or self._opens_tag(line)
            or self._quoted(line, bare)
            or self._indented(line)
            or self._transcribed(line)
        )

    def _opens_fence(self, line: str, bare: str) -> bool:
        fence = _FENCE.match(bare.strip()) if self.listed or columns(line) < 4 else None
        if fence:
            self.fence = fence.group(1) or fence.group(3)
        return fence is not None

    def _opens_tag(self, line: str) -> bool:
        tag = _TAG.match(_INLINE_TAG.sub("", line))
        if not tag:
            return False
        name = (tag.group(1) or tag.group(2).split()[0]).lower()
        if not name.startswith(_NEVER_PROSE) and name not in self.closings:
            return False
        if f"/{name}" not in line.lower()[tag.end() - 1 :]:
            self.tag = name
        return True

    def _quoted(self, line: str, bare: str) -> bool:
        if _QUOTE.match(line) or bare.lstrip().startswith(">"):
            self.lazy = bool(line.strip(" >\t"))
            return True
        paragraph = not (_ITEM.match(line) or _HEADING.match(line) or _RULE.match(line))
        self.lazy = self.lazy and paragraph  # a paragraph inside a quote runs on without the mark
        return self.lazy

    def _indented(self, line: str) -> bool:
        item, wide = bool(_ITEM.match(line)), columns(line) >= 4
        inside, self.listed = self.listed, item or (self.listed and columns(line) >= 2)
        return wide and not (inside and item)

    def _transcribed(self, line: str) -> bool:
        self._speaker(line)
        if _DIFF.match(line):
            self.diff = True
        self.diff = self.diff and bool(_DIFF.match(line) or _DIFF_BODY.match(line))
        if _CONSOLE.match(line):
            self.output, self.announced = True, False
        foreign = self.other or self.diff or self.output
        self.announced = line.rstrip(" *_").endswith(":") and announces_other_words(line)
        if self.announced and not foreign:
            self.output = True  # what follows, not this line
        return foreign

    def _speaker(self, line: str) -> None:
        speaker = _SPEAKER.match(line)
        if not speaker:
            return
        user = speaker.group(1).lower() in ("user", "human")
        if not user or self.has_assistant or not line[speaker.end() :].strip(" *_"):
            self.other = user


def columns(line: str) -> int:
    """How far the line is indented, a tab being four columns."""
    wide = line.expandtabs(4)
    return len(wide) - len(wide.lstrip(" "))


def _blocks(rows: list[tuple[str, str | None]]) -> list[Line]:
    lines: list[Line] = []
    block, before = 0, "blank"
    for raw, visible in rows:
        line = _line(raw, visible, block)
        starts = not (line.own and line.kind == "text" and before in ("text", "item"))
        block += starts
        lines.append(msgspec.structs.replace(line, block=block))
        before = line.kind if line.own else "blank"
    return lines


def _line(raw: str, visible: str | None, block: int) -> Line:
    if visible is None or not visible.strip():
        return Line(raw=raw, text="", own=visible is not None, block=block, kind="blank")
    kind, text = _kind(_INLINE_TAG.sub(CODE, visible))
    box = _BOX.match(text)
    tick = "" if box is None else _TICKS.get(box.group(1) or box.group(2) or " ", " ")
    return Line(raw, text[box.end() :].strip() if box else text, own=True, block=block, kind=kind, box=tick)


def _kind(text: str) -> tuple[str, str]:
    if mark := _HEADING.match(text):
        return "heading", text[mark.end() :].strip().rstrip("#").rstrip()
    if mark := _ITEM.match(text):
        return "item", text[mark.end() :].strip()
    if text.lstrip().startswith("|"):
        return "table", text.strip()
    return "text", text.strip()


def _without_inline_code(lines: list[Line]) -> list[Line]:
    """Inline code may run over the lines of its block; it ends with the block."""
    result: list[Line] = []
    start = 0
    for i in range(1, len(lines) + 1):
        if i == len(lines) or lines[i].block != lines[start].block:
            result += _blanked(lines[start:i])
            start = i
    return result


_TICK_RUN = re.compile(r"`+")


def _blanked(block: list[Line]) -> list[Line]:
    joined = "\n".join(line.text for line in block)
    if "`" not in joined:
        return block
    texts = _blank_spans(joined).split("\n")
    return [msgspec.structs.replace(line, text=text) for line, text in zip(block, texts, strict=True)]


def _blank_spans(text: str) -> str:
    """Code between two runs of equally many back-ticks, replaced line by line."""
    runs = [(run.start(), run.end()) for run in _TICK_RUN.finditer(text)]
    last = {end - start: i for i, (start, end) in enumerate(runs)}
    parts: list[str] = []
    at = i = 0
    while i < len(runs):
        start, end = runs[i]
        length, i = end - start, i + 1
        if last[length] < i:  # no later run is as long
            continue
        while runs[i][1] - runs[i][0] != length:
            i += 1
        inside = text[start : runs[i][1]]
        parts += [text[at:start], "\n".join(CODE for _ in inside.split("\n"))]
        at, i = runs[i][1], i + 1
    return "".join((*parts, text[at:]))


# ---- statements --------------------------------------------------------------------------------------

TEST_LOG = Lazy(
    r"--- (?:PASS|FAIL|SKIP): |=== (?:RUN|CONT|PAUSE)|ok\s+\S+\s+(?:[\d.]+s|\(cached\))|coverage: "
)
_RUNS_ON = Lazy(
    r"(?:only\s+)?(?:when|once|if|unless|until|as soon as|after|before|would|will|is|means|only|and then)\b"
)
_SECTION = Lazy(r"\b(?:instructions?|prompts?|examples?|template|format)\b", re.I)


def statements(lines: tuple[Line, ...], word: str) -> Iterator[Line]:
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
    quoting = not before.endswith((".", "!")) and announces_other_words(before)
    return quoting or _RUNS_ON.match(after) is not None


def _is_text(line: Line) -> bool:
    return line.own and line.kind == "text"


# ---- outcomes and verdicts ----------------------------------------------------------------------------

LAST_LINES = 3  # a verdict without its label is looked for in so many of the last lines
_MARKUP = Lazy(r"[*`]+|(?<!\w)_+|_+(?!\w)")
_LABELLED = Lazy(r"(?:my |the )?(?:final )?(?:outcome|verdict|decision) ?: ?(.*)", re.I)
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
    if any(_LABELLED.fullmatch(line) for line in lines):
        return _labelled(lines, (*names, "pass", "fail"))
    first = [
        line for line in lines[:1] if line.strip(" .!:").lower() in names
    ]  # alone there, its reasons follow
    parts = (part for line in (*first, *lines[-LAST_LINES:]) for part in _SENTENCE.split(line))
    return _one(name for part in parts for name in _stated(part, names)) or _last_signal(lines)


def unlisted_claim(text: str, names: Sequence[str]) -> str:
    """The one name after a label such as `OUTCOME:` that is none of `names`; "" where one of those stands there too."""
    matches = (_LABELLED.fullmatch(line) for line in _own_words(text))
    claims = [name for label in matches if label for name in _NAME.findall(label.group(1).lower())[:1]]
    return "" if {*claims} & {*names, "pass", "fail"} else _one(iter(claims)) or ""


def _own_words(text: str) -> list[str]:
    """The agent's own lines without markup, except empty ones and boxes that are not ticked."""
    lines = statements(read(spoken(plain(text)).message), "")
    own = (line for line in lines if line.text and line.box != " " and "<!--" not in line.raw)
    bare = (line.raw.strip().lstrip("#>-+ ") if CODE in line.text else line.text for line in own)
    return [" ".join(_MARKUP.sub("", words).split()) for words in bare]


def _labelled(lines: list[str], names: Sequence[str]) -> str | None:
    """After a label, on the line or, where that ends with it, on the next."""
    matches = ((label.group(1), after) for line, after in zip_longest(lines, lines[1:], fillvalue="")
             if (label := _LABELLED.fullmatch(line)))  # fmt: skip
    return _one(name for words, after in matches for name in _first_name(words or after, names))


def _last_signal(lines: list[str]) -> str | None:
    """A test runner's log that ends in PASS is not a verdict."""
    signal = re.fullmatch(r"(pass|fail)(?:\W.*)?", lines[-1], re.I) if lines else None
    logged = len(lines) > 1 and TEST_LOG.match(lines[-2])
    return signal.group(1).lower() if signal and not logged else None


def _one(names: Iterator[str]) -> str | None:
    """The name, if all are the same one."""
    claims = set(names)
    return claims.pop() if len(claims) == 1 else None


def _first_name(words: str, names: Sequence[str]) -> list[str]:
    """The name that the words begin with, unless a condition or another name follows at once."""
    words = re.sub(r"^\W+", "", words.lower())
    names_ = _NAME.findall(words)
    if not names_ or not words.startswith(names_[0]) or names_[0] not in names:
        return []
    return [] if names_[1:2] and (names_[1] in names or names_[1] in _CONDITIONS) else [names_[0]]


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
    match = _SAID.match(bare)
    ends = re.search(r"(?:^|[\s:\"'“‘(])([A-Za-z][\w-]*)[\"'”’]?$", bare)
    quoted_name = ends and (bare[-1].isalpha() or _VERDICT.search(bare))  # a name in quotes is mostly a value
    last = ends.group(1).lower() if ends and quoted_name and not _OF_MANY.match(bare) else ""
    candidates = {match.group(1).lower() if match else "", last} & set(names)
    return sorted(candidates.difference(_OF_TESTS if last else ()))


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
    lines = [line for line in read(spoken(plain(text)).message) if line.raw.strip()]
    end = len(lines)
    while end > 1 and (lines[end - 1].kind == "item" or _THANKS.fullmatch(lines[end - 1].text)):
        end -= 1
    for at in dict.fromkeys((len(lines) - 1, end - 1)):
        if at < 0 or not lines[at].own or lines[at].kind not in ("text", "item"):
            continue
        questions = [line.text for line in lines if line.block == lines[at].block]
        if _asks(_QUESTION_END.split(" ".join(questions)), last=at == len(lines) - 1):
            rest = (line.text for line in lines[at + 1 :] if line.block != lines[at].block)
            return "\n".join((*questions, *rest))[-QUESTION_LONGEST:]
    return ""


_QUESTION_END = Lazy(r"(?<=[.!?])\s+")
_THANKS = Lazy(r"\W*(?:many )?(?:thanks|thank you)\b.{0,40}", re.I)
_TO_READER = Lazy(r"\b(?:you|your|(?:should|may|can|could|must|am) i)\b|^\W*(?:which|should|do we)\b", re.I)
_REQUEST = Lazy(
    r"\W*(?:(?:please|kindly) (?:tell me|clarify|confirm|specify|choose|decide|advise|let me know (?:which|whether|what|how|where|when))"
    r"|i need (?:a decision|to know|you to|your (?:input|decision|answer|help|guidance|approval)))\b",
    re.I,
)


def _asks(sentences: list[str], *, last: bool) -> bool:
    """Its last sentence is a question or a request; one before it, or before a list, must be put to the reader."""
    questions = [sentence for sentence in sentences if _ends_asking(sentence) and not _OFFER.search(sentence)]
    if _REQUEST.match(sentences[-1]) or (last and sentences[-1] in questions):
        return True
    return any(_TO_READER.search(sentence) for sentence in questions)


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
    own = [line.text for line in read(spoken(plain(text)).message) if line.own and line.text]
    errors = [line for line in own if _ERROR.search(line) and not _OVER.search(line)]
    return errors[-1][:QUESTION_LONGEST] if errors else ""
