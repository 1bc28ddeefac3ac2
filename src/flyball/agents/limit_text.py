"""A limit is what the agent's command line reports as its own state, never what somebody writes about limits.

The text is read as the command line wrote it: a JSON event by its fields, anything else line by line; a known wording
must begin the statement. Code blocks, quotes, lists of words and the agent's prose are ignored.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any, Literal, cast

from flyball.agents import limit_patterns
from flyball.agents.limit_patterns import Kind
from flyball.agents.own_wordings import own_wordings
from flyball.agents.reset_times import reset_at
from flyball.reading.streams.stream_facts import Event
from flyball.reading.terminal import as_object, lines_of, plain, table

KINDS: tuple[Kind, ...] = (
    "billing",
    "auth",
    "plan_limit",
    "context",
    "rate_limited",
    "overloaded",
    "network",
)
"""Where several are reported, the one that a wait cures least comes first."""

_LONGEST = 100_000
_STATEMENT = 2_000
MESSAGE_LINES = 6
_BROKEN = re.compile(r"\S.{49,1999}(?<![.:;!?])$")  # a line that a width has broken is long
_OPENED = re.compile(r"[^{]{0,60}\berror:?[^{\w]{0,4}\{", re.I)
_GOES_ON = re.compile(r"[a-z']+[,;:.]?(?:\s|$)")


def read_limit(agent: str, text: str, now_us: int, zone: str = "UTC") -> tuple[Kind | None, int | None]:
    """The kind of limit that this output reports, and when it lifts; (None, None) if it reports none.

    A clock time without a zone is read in `zone`.
    """
    text = plain(text[-_LONGEST:]).replace("’", "'").replace("‘", "'")
    rows = [text] if as_object(text) else _unwrapped(lines_of(text))
    parts = ((at, part, "\n".join(rows[at : at + MESSAGE_LINES])) for at, part in _parts(rows))
    statements = [(at, kind) for at, part, message in parts if (kind := _kind(agent, part, message))]
    kind = _first(kind for kind in KINDS if any(kind == other for _, other in statements))
    if kind is None or kind in ("auth", "context"):
        return kind, None
    messages = (
        "\n".join(rows[at : at + MESSAGE_LINES]) for at, other in reversed(statements) if other == kind
    )
    resets = (reset_at(_about_the_limit(words), now_us, zone) for words in messages)
    return kind, next((instant for instant in resets if instant is not None), None)


def _unwrapped(rows: Iterable[str]) -> list[str]:
    """Lines that a terminal's width has broken, whole again: one that continues in lower case belongs to the one before.
    So does the body of an error whose brackets are open."""
    whole = list[str]()
    for row in rows:
        if whole and _OPENED.match(whole[-1]) and _is_open(whole[-1]):
            whole[-1] += f" {row.strip()}"
        elif whole and _GOES_ON.match(row) and _BROKEN.match(whole[-1]):
            whole[-1] = f"{whole[-1].rstrip()} {row}"
        else:
            whole.append(row)
    return whole


def _is_open(row: str) -> bool:
    return len(row) < _STATEMENT and row.count("{") > row.count("}")


def _first(kinds: Iterable[Kind | None]) -> Kind | None:
    return next((kind for kind in kinds if kind), None)


def _about_the_limit(text: str) -> str:
    """A spend limit may add when another, the session's, resets; an event says when it was written. Neither is when
    this one lifts."""
    text = re.sub(r'\\+"', '"', text)  # a body within a body
    return re.sub(r'your session limit resets [^\n]*|"(?:date|timestamp)"\s*:\s*(?:"[^"]*"|\d+)', "", text)


# ── what of the text is a report ────────────────────────────────────────────────────────────────────────────

Part = Event | str
_FENCE = re.compile(r"\s*(?:```|~~~)")
_NOT_A_REPORT = re.compile(
    r"\s*(?:>|<\s|//|#|\||\+|--|/\*|<!--|`|assert|E  |def |func |const |let |var |if |case |expect|return |print|echo )"
)


def _parts(rows: list[str]) -> Iterator[tuple[int, Part]]:
    fenced = False
    for at, line in enumerate(rows):
        fenced ^= _FENCE.match(line) is not None
        if not fenced and line.strip() and not _NOT_A_REPORT.match(line):
            event = as_object(line)
            yield at, (line.strip()[:_STATEMENT] if event is None else event)


def _kind(agent: str, part: Part, message: str) -> Kind | None:
    return _worded(agent, part, message) if isinstance(part, str) else _structured(agent, part)


# ── words ───────────────────────────────────────────────────────────────────────────────────────────────────


def _compiled(patterns: Iterable[str]) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{pattern})" for pattern in patterns), re.I)


_PREFIX = _compiled(limit_patterns.PREFIXES)
_WORDINGS: tuple[tuple[Kind | Literal["quota"], re.Pattern[str]], ...] = (
    ("billing", _compiled(limit_patterns.BILLING)),
    ("auth", _compiled(limit_patterns.AUTH)),
    ("plan_limit", _compiled(limit_patterns.PLAN)),
    ("quota", _compiled(limit_patterns.QUOTA)),
    ("context", _compiled(limit_patterns.CONTEXT)),
    ("rate_limited", _compiled(limit_patterns.RATE)),
    ("overloaded", _compiled(limit_patterns.OVERLOADED)),
    ("network", _compiled(limit_patterns.NETWORK)),
)
_RETRIES = re.compile(r"\bretrying\b|\battempt \d+ failed", re.I)


def _worded(agent: str, statement: str, whole: str = "") -> Kind | None:
    """The kind of a line: its wording after its prefixes, else the status code that it begins with, else, where what
    stands before it says that it is an error, whatever it is about. `whole`: the message that the line is of."""
    for peeled in _peeled(statement):
        kind = _by_wording(agent, peeled, whole or statement) or _by_body(agent, peeled)
        if kind:
            return kind
    return _by_subject(agent, statement) or _by_status(statement) or _by_class(statement)


def _peeled(statement: str) -> Iterator[str]:
    """The statement, and what is left of it prefix by prefix."""
    for _ in range(12):
        yield statement
        hit = _PREFIX.match(statement)
        if not hit or not hit.end():
            return
        statement = statement[hit.end() :]


def _by_wording(agent: str, words: str, statement: str) -> Kind | None:
    for own, beginning in own_wordings():
        if words.lower().startswith(beginning):
            return own
    for kind, pattern in _WORDINGS:
        if pattern.match(words):
            return _quota(agent, statement) if kind == "quota" else _refined(kind, words)
    return None


_WITH_CAUSE = re.compile(
    r"(?:request rejected \(429\)\s*[·:—-]|stream disconnected before completion:|rate limit exceeded:)\s*(.+)",
    re.I,
)


def _refined(kind: Kind, words: str) -> Kind:
    """A rejected request or a broken stream may give the reason; a rate counted by the day is the plan's limit."""
    caused = _WITH_CAUSE.match(words)
    inner = _by_wording("", caused.group(1), caused.group(1)) if caused else None
    if kind == "rate_limited" and not inner and _BY_THE_DAY.search(words):
        return "plan_limit"
    return inner or kind


_SHORT = re.compile(
    r"per[ -_]?minute|\bafter \d+(?:\.\d+)?s\b|\bretry(?:ing)? (?:in|after) \d+(?:\.\d+)?\s*m?s\b|e\.g\. check quota",
    re.I,
)
_LONG = re.compile(
    r"per[ -_]?day|daily|terminalquotaerror|suggested retry|\bafter \d+h|\bafter \d+m\d*|billing period|tomorrow",
    re.I,
)


def _quota(agent: str, statement: str) -> Kind:
    """A quota that lifts in seconds is a rate limit, one of a day is the plan's. OpenAI's words for an empty account
    ("check your plan and billing") stand in Gemini's messages for both."""
    if agent != "gemini" and re.search(r"plan and billing", statement, re.I):
        return "billing"
    if _RETRIES.search(statement) or (_SHORT.search(statement) and not _LONG.search(statement)):
        return "rate_limited"
    if re.search(r"resource[ _](?:has been )?exhausted", statement, re.I) and not _LONG.search(statement):
        return "rate_limited"
    return "plan_limit" if agent != "codex" or _LONG.search(statement) else "billing"


def _by_body(agent: str, words: str) -> Kind | None:
    """`429 {"type":"error",…}`: the status and the body that came with it."""
    hit = re.match(r"(\d{3})?[^{]{0,40}(\{.*\})", words)
    body = as_object(hit.group(2)) if hit and ("error" in hit.group(2) or hit.group(1)) else None
    kind = _structured(agent, body) if body is not None else None
    return kind or (_status(int(hit.group(1))) if hit and hit.group(1) and body is not None else None)


_STATUS_NAME = (
    r"(?:too many (?:requests|tokens)|unauthorized|forbidden|payment required|service unavailable|bad gateway|overloaded|request time-?out"
    rf"|(?:payload|content|request(?: entity)?) too large|internal (?:server )?error|gateway time-?out){limit_patterns.END}"
)
_STATUS = re.compile(
    r"\W*(?:(?:fatal|error|api error|\[api error)\W+)*(?:attempt \d+ failed with status|reconnecting\.{3} \d+/\d+ \(|"
    r"unexpected status|exceeded retry limit, last status|http(?:/[\d.]+)?|status(?: code)?|error code|api error|request failed with status code)"
    rf"[\s:=(]*(?:exceeded retry limit, last status: |unexpected status )?(\d{{3}})(?=\s*(?:$|[:;,.)(\[{{·—-]|{_STATUS_NAME}))"
    rf"|\W*(\d{{3}}) {_STATUS_NAME}",
    re.I,
)


def _by_status(statement: str) -> Kind | None:
    hit = _STATUS.match(statement)
    return _status(int(hit.group(1) or hit.group(2))) if hit else None


_BY_THE_DAY = re.compile(r"\bper[ -](?:day|week|month)\b|\b(?:daily|weekly|monthly)\b", re.I)
_IN_LABEL = r"(?:\([^()\n]{0,60}\)|::|[^:{(\n])"
_LABEL = re.compile(
    rf"\W{{0,6}}({_IN_LABEL}{{0,90}}?(?:error|exception|fail(?:ed|ure)|fatal|timeout)(?!s?\.(?:md|py|js|ts|txt|log|json|html)\b){_IN_LABEL}{{0,70}}?)(?::\s+|\s-\s|\s(?=\{{))",
    re.I,
)
_PROSE = re.compile(
    r"^\W*(?:i|we|the|that|this|these|if|when|now|tool|command)\b"
    r"|\b(?:fix\w*|add(?:s|ed)?|handl\w+|logs?|print\w*|return\w*|expect\w*|assert\w*|rais\w+|tests?|pass(?:ed|es|ing)?)\b"
    r"|(?:assertion|type|value|key|index|attribute|name|import|modulenotfound|syntax|reference|range)error",
    re.I,
)
_OF_OTHERS = re.compile(
    r"\b(?:expected|assert\w*|to equal|password|for user|server at|database)\b|[!=]=|\bjavax?\.", re.I
)
_BARE_STATUS = re.compile(r"\W{0,6}(\d{3})\b[:\s]\s*(?=[A-Z<{])")
_LABELLED_STATUS = re.compile(r"(?:status(?: code)?|http|code)?[:=\s]*(\d{3})\b", re.I)
_SUBJECTS: tuple[tuple[Kind | Literal["quota"], re.Pattern[str]], ...] = tuple(
    (kind, _compiled(patterns)) for kind, patterns in limit_patterns.SUBJECTS
)
_SUBJECT_WITHIN = 240
_IDENTIFIER = re.compile(r"'[^'\s]*'|\"[^\"\s]*\"|`[^`\s]*`|\S*/\S*/\S*|\([^()\n]{0,60}\)")
"""A quoted name, a path, a remark: not what is said about it."""


def _by_subject(agent: str, statement: str, *, error: bool = False) -> Kind | None:
    """What an error is about, in any wording: `Execution failed: 402 You have no quota`, `API error from x (model
    y): …`.
    """
    words, labelled = _unlabelled(statement)
    is_known = error or labelled
    if not is_known and (not _BARE_STATUS.match(words) or _PROSE.search(words[:60])):
        return None
    if _OF_OTHERS.search(statement[:_SUBJECT_WITHIN]):
        return None
    body = as_object(words[words.find("{") : words.rfind("}") + 1])
    inner = _structured(agent, body, error=True) if body is not None else None
    about = inner or _by_wording(agent, words, statement) or _about(agent, words[:_SUBJECT_WITHIN])
    status = _LABELLED_STATUS.match(words) if is_known and not about else None
    return _status(int(status.group(1))) if status else about


def _unlabelled(statement: str) -> tuple[str, bool]:
    """What follows `Error …:`, `SomeException:` or `… failed:`, and whether there was such a label."""
    labelled = False
    for _ in range(4):
        label = _LABEL.match(statement)
        if not label or _PROSE.search(label.group(1)):
            break
        statement, labelled = statement[label.end() :], True
    return statement, labelled


def _about(agent: str, words: str) -> Kind | None:
    words = " ".join(_IDENTIFIER.sub(" ", words).split())
    for kind, pattern in _SUBJECTS:
        if pattern.search(words):
            return _quota(agent, words) if kind == "quota" else _refined(kind, words)
    return None


_CLASS = re.compile(rf"(?:[\w.]+\.)?({'|'.join(limit_patterns.CLASSES)}): ")


def _by_class(statement: str) -> Kind | None:
    hit = _CLASS.match(statement)
    return limit_patterns.CLASSES[hit.group(1)] if hit else None


def _status(number: int) -> Kind | None:
    return limit_patterns.STATUSES.get(number)


# ── the last line of a program whose output is also its model's ─────────────────────────────────────────────

_OF_THE_API = re.compile(
    rf"\W*(?:(?:api|provider)[ _]error(?: \d{{3}})?\s*[:(·]|error from provider\b|(?:\w+\.)*(?:{'|'.join(limit_patterns.CLASSES)})\s*:)",
    re.I,
)
_OF_AN_ACCOUNT: tuple[Kind | None, ...] = ("plan_limit", "rate_limited", "billing")
_TO_ITS_END = re.compile(
    r"[^\w·∙•|(:]*(?:$|[·∙•|(:].*|(?:please|try|retry|wait|upgrade|visit|switch|add|get|contact|resets?|your|it|they|access|limits?|usage|quota|for \S+).*)",
    re.I,
)
_SPOKEN = re.compile(r"\b(?:I|we|so|because|but|which|when|if|now|test\w*|handl\w*)\b|\b(?:I|we)'", re.I)


def closing_report(agent: str, out: str) -> str:
    """The last line of an output if all of it is an API error or a limit as command lines print them; else "".

    An error that could as well be of the project's own tests (a refused connection, a login) counts only if the line
    says that it is the API's.
    """
    rows = [row for row in _unwrapped(lines_of(plain(out[-_LONGEST:]).replace("’", "'"))) if row.strip()]
    row = rows[-1][:_STATEMENT] if rows else ""
    if not row or row[0].isspace() or _NOT_A_REPORT.match(row):
        return ""
    event = as_object(row)
    if event is not None:
        return row if isinstance(event.get("error"), dict) and _structured(agent, event) else ""
    if _OF_THE_API.match(row):
        return row if _worded(agent, row) else ""
    spoken = _SPOKEN.search(row) or _OF_OTHERS.search(row)
    return row if not spoken and _of_the_account(agent, row) else ""


def _of_the_account(agent: str, row: str) -> bool:
    """Whether a known wording fills the line up to its end, or a status with its name begins it."""
    if _by_status(row) in _OF_AN_ACCOUNT:
        return True
    for words in _peeled(row):
        hits = (pattern.match(words) for _, pattern in _WORDINGS)
        own = words.lower().startswith(tuple(own for _, own in own_wordings()))
        if own or any(hit and _TO_ITS_END.match(words[hit.end() :]) for hit in hits):
            return _by_wording(agent, words, row) in _OF_AN_ACCOUNT
    return False


# ── events ──────────────────────────────────────────────────────────────────────────────────────────────────

_FOREIGN = frozenset(
    {"user", "tool_use", "tool_result", "init", "item.started", "item.updated", "thread.started"}
)

_SPEAKERS = ("assistant", "user", "tool")


def _structured(agent: str, event: Event, *, error: bool = False) -> Kind | None:
    """The kind that an event reports. What the agent says and what its tools print do not count."""
    kind = event.get("type")
    if kind == "rate_limit_event":
        return "plan_limit" if table(event.get("rate_limit_info")).get("status") == "rejected" else None
    if (
        kind in _FOREIGN
        or event.get("role") in _SPEAKERS
        or (kind == "system" and event.get("subtype") != "api_retry")
    ):
        return None
    if kind == "item.completed":
        item = table(event.get("item"))
        return _message(agent, item.get("message")) if item.get("type") == "error" else None
    if kind == "assistant" and not (
        event.get("error") or event.get("isApiErrorMessage") or event.get("api_error")
    ):
        return None
    error = error or bool(event.get("error")) or event.get("is_error") is True
    error = error or kind in ("error", "turn.failed") or event.get("object") == "error"
    return _reported(agent, event, error=error)


def _reported(agent: str, event: Event, *, error: bool) -> Kind | None:
    """Words come before codes, and codes before numbers: words tell a plan's limit from a short one, unless a code
    does.
    """
    levels = tuple(_levels(event))
    numbers = (level.get(name) for level in levels for name in _NUMBERS)
    worded = _first(_message(agent, words) for level in levels for words in _statements_of(level))
    coded = _first(_code(name) for level in levels for name in _codes(level))
    if worded == "rate_limited" and coded in ("plan_limit", "billing"):
        return coded
    return (
        worded
        or coded
        or (
            _first(_about_any(agent, words) for level in levels for words in _statements_of(level))
            if error
            else None
        )
        or _first(_status(number) for number in numbers if isinstance(number, int))
    )


def _about_any(agent: str, words: object) -> Kind | None:
    """What an error's message is about, in any wording; a message that is itself JSON has been read already."""
    if not isinstance(words, str) or as_object(words) is not None:
        return None
    return _by_subject(agent, words.strip()[:_STATEMENT], error=True)


_NESTED = ("error", "data", "message", "cause", "response", "params", "rate_limit_error")
_WORDS = ("message", "result", "text", "detail", "details", "responseBody", "error_description", "content")
_NAMES = (
    "code",
    "type",
    "error",
    "status",
    "name",
    "api_error",
    "errorKind",
    "codexErrorInfo",
    "codex_error_info",
    "reason",
    "terminal_reason",
)
_NUMBERS = (
    "status",
    "statusCode",
    "status_code",
    "api_error_status",
    "error_status",
    "apiErrorStatus",
    "code",
    "http_status_code",
)


def _levels(event: Event, depth: int = 0) -> Iterator[Event]:
    yield event
    for name in _NESTED if depth < 5 else ():
        inner = event.get(name)
        if isinstance(inner, dict):
            yield from _levels(cast("Event", inner), depth + 1)


def _statements_of(level: Event) -> Iterator[object]:
    for name in _WORDS:
        value: Any = level.get(name)
        if isinstance(value, list):
            yield from (table(block).get("text") for block in cast("list[object]", value))
        yield value
    errors: Any = level.get("errors")
    yield from cast("list[object]", errors) if isinstance(errors, list) else ()
    yield from (level[name] for name in ("error", "data") if isinstance(level.get(name), str))


def _message(agent: str, words: object) -> Kind | None:
    if not isinstance(words, str) or not words.strip():
        return None
    body = as_object(words)
    if body is not None:
        return _structured(agent, body)
    lines = (line.strip()[:_STATEMENT] for line in lines_of(words) if line.strip())
    return _first(_worded(agent, line, words) for line in lines)


def _codes(level: Event) -> Iterator[str]:
    for name in _NAMES:
        value: Any = level.get(name)
        if isinstance(value, str) and (name, value) != ("terminal_reason", "api_error"):
            yield value
        elif isinstance(value, dict) and name == "codexErrorInfo":
            for kind, detail in cast("Event", value).items():
                yield from (kind, str(table(detail).get("httpStatusCode")))


def _code(name: str) -> Kind | None:
    name = name.strip().lower()
    return limit_patterns.CODES.get(name) or (_status(int(name)) if name.isdecimal() else None)
