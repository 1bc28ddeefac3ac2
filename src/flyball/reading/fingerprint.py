"""Recognise the same error in two outputs.

`normalise` removes what differs from run to run (paths, line numbers, times, durations, addresses, ids, hashes,
temporary folders, colours) and keeps what says what went wrong, including the numbers of an assertion.

Only the end of an output is read, blank space is collapsed first, and every repeat in a pattern is bounded or cannot
start again inside itself, so the work is linear in the length of the text.
"""

import re
from hashlib import sha256

from flyball.reading.lazy import Lazy
from flyball.reading.terminal import plain

_LONGEST = 200_000  # the end of an output says what failed
_CLOCK = r"\d{1,2}:\d{2}:\d{2}(?:[.,]\d+)?"
_FIRST: tuple[tuple[Lazy, str], ...] = tuple(
    (Lazy(pattern, re.I), word)
    for pattern, word in (
        (r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", "<id>"),
        (rf"\b\d{{4}}-\d{{2}}-\d{{2}}(?:[T ]{_CLOCK})?(?:\s?(?:Z|UTC|[+-]\d{{2}}:?\d{{2}}))?", "<time>"),
        (
            rf"\b(?:mon|tue|wed|thu|fri|sat|sun)[a-z]*,?\s+(?:\d+\s+)?[a-z]{{3}}\s+\d+\s+(?:{_CLOCK}\s+)?\d{{4}}\b",
            "<time>",
        ),
        (rf"\b{_CLOCK}(?:\s?[ap]m)?\b", "<time>"),
        (r"\bhttps?://[^\s\"'<>)]+", "<url>"),
        (r"\b(?:\d{1,3}\.){3}\d{1,3}(?::\d+)?\b|\b(?:localhost|\[::1?\]):\d+\b", "<addr>"),
        (r"\b0x[0-9a-f]+\b", "<addr>"),
    )
)
_TEMP = Lazy(
    r"(?:/private)?/(?:tmp|var/tmp|var/folders|dev/shm)/[^\s\"'`:,;)\]]*|[A-Z]:\\[^\s\"']{0,200}\\Temp\\[^\s\"':]*",
    re.I,
)
_PATH = Lazy(
    r"(?:file://)?(?<![\w.@+~<-])(?:[A-Za-z]:)?[\\/]?(?:[\w.@+~-]+[\\/])+[\w.@+~-]*(?:\.[A-Za-z]\w*|[\w@+~-])"
    r"|(?<![\w/<])/[\w.@+~-]{2,}|\b[\w-]{1,80}\.(?:py|pyi|js|jsx|mjs|cjs|ts|tsx|go|rs|rb|php|java|kt|c|cc|cpp|h|hpp|cs|swift|scala|ex|sh)\b"
)
_LAST: tuple[tuple[Lazy, str], ...] = tuple(
    (Lazy(pattern, re.I | re.M), word)
    for pattern, word in (
        (r"(<path>|\.\w{1,4})(?:::?|\()\d+(?:[:,] ?\d+)?\)?(?!\w)", r"\1"),
        (r"\b(line|lines|ln|col|column|row|offset|char|position)( |=|: ?)\d+(?: ?- ?\d+)?", r"\1\2<n>"),
        (r"^(?:> ?)?\d+ ?\|", "<n> |"),
        (r"\b\d+(?:\.\d+)? ?(?:ns|µs|us|ms|s|secs?|seconds?|mins?|minutes?|h|hrs?|hours?)\b", "<dur>"),
        (r"\b(pid|tid|thread|process|worker|ppid|uid|fd|port|job|build|run|attempt|retry|iteration|turn|seed)( ?[#=:]? ?)\d+", r"\1\2<n>"),
        (r"==\d+==|\[\d{2,}\]", "<n>"),
        (r"\b((?:request|session|trace|span|correlation|message|thread|run|task|job|build)?[ _-]?id)( ?[=:] ?| )[\"']?[\w-]{3,}[\"']?", r"\1\2<id>"),
        (r"\b(?:req|msg|run|call|toolu|sess|resp|chatcmpl|thread|item)_[A-Za-z0-9_]{4,}\b", "<id>"),
        (r"\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,64}\b", "<hex>"),
        (r"\b\d{6,}\b", "<id>"),
        (r"\bgw\d+\b", "<n>"),
    )
)  # fmt: skip


def normalise(text: str, *, paths: bool = True) -> str:
    """The text without what differs from run to run; with `paths=False` only temporary paths are taken out."""
    rows = (" ".join(line.split()) for line in plain(text[-_LONGEST:]).splitlines())
    text = "\n".join(row for row in rows if row)
    for pattern, word in _FIRST:
        text = pattern.sub(word, text)
    text = _TEMP.sub("<path>", text)
    if paths:
        text = _PATH.sub("<path>", text)
    for pattern, word in _LAST:
        text = pattern.sub(word, text)
    return text


def error_fingerprint(text: str) -> str:
    """Sixteen hex digits, equal for two outputs with the same error; "" for an empty output."""
    return digest(normalise(text))


_MARKS = Lazy(r"[*_`#>~]+|^[^\S\n]*(?:[-+•]|\d+[.)])[^\S\n]+", re.M)


def message_fingerprint(text: str) -> str:
    """Sixteen hex digits of a final message; Markdown marks, case, spacing and changing numbers do not matter."""
    return digest(normalise(_MARKS.sub("", text[-_LONGEST:]), paths=False).casefold())


def digest(text: str) -> str:
    """Sixteen hex digits of the text's words; the empty string where there are none."""
    words = " ".join(text.split())
    return sha256(words.encode("utf-8", "surrogatepass")).hexdigest()[:16] if words else ""
