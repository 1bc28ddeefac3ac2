"""Terminal output as plain text: escape sequences removed, line endings unified, size bounded; and its fingerprint.

A program may print megabytes of anything. Readers that search with patterns read `last_lines`, so that a long output
costs no more than a short one.

A fingerprint recognises the same error in two outputs. `normalise` removes what differs from run to run (paths, line
numbers, times, durations, addresses, ids, hashes, temporary folders, colours) and keeps what says what went wrong,
including the numbers of an assertion. Only the end of an output is read, blank space is collapsed first, and every
repeat in a pattern is bounded or cannot start again inside itself, so the work is linear in the length of the text.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import re
from collections.abc import Callable, Iterator
from functools import cached_property
from hashlib import sha256
from itertools import groupby
from typing import Any, TypeVar, cast

import msgspec

Said = TypeVar("Said", bound=msgspec.Struct)


class Lazy:
    """Stands for `re.compile(pattern, flags)`, compiled when it is first used: most commands read no prose, and all of them
    must start quickly."""

    search: Callable[..., re.Match[str] | None]
    match: Callable[..., re.Match[str] | None]
    fullmatch: Callable[..., re.Match[str] | None]
    finditer: Callable[..., Iterator[re.Match[str]]]
    findall: Callable[..., list[Any]]
    sub: Callable[[str | Callable[[re.Match[str]], str], str], str]
    split: Callable[..., list[str]]

    def __init__(self, pattern: str, flags: int = 0) -> None:
        self.pattern, self.flags = pattern, flags

    @cached_property
    def compiled(self) -> re.Pattern[str]:
        return re.compile(self.pattern, self.flags)

    def __getattr__(self, name: str) -> Any:
        """A method of the pattern; after the first use it is found here directly."""
        value = self.__dict__[name] = getattr(self.compiled, name)
        return value


# ---- plain text --------------------------------------------------------------------------------------------

_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor
    r"|\x1b\][^\x07\x1b\n]{0,4096}(?:\x07|\x1b\\)"  # OSC: titles, links; no line ends in one
    r"|\x1b[PX^_][^\x1b\n]{0,4096}\x1b\\"  # DCS, SOS, PM, APC
    r"|\x1b[@-Z\\-_]|\x9b[0-?]*[ -/]*[@-~]"
)
HIDDEN = re.compile(
    "[\x00-\x08\x0b\x0e-\x1f\x7f-\x9f\u00ad\u061c\u115f\u1160\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e007f]"
)
"""Characters that control a terminal, cannot be seen, or change the reading order."""
_BREAKS = re.compile(r"\r\n|\n|\r")


def plain(text: str) -> str:
    """The text without escape sequences and without a byte order mark at its start."""
    text = text.removeprefix("\ufeff")
    return _ESCAPES.sub("", text) if "\x1b" in text or "\x9b" in text else text


def spelled_out(text: str) -> str:
    """The text with every hidden character written as its code. Nothing is left out: a diff must show all of it."""
    text = whole(text).replace("\r\n", "\n").replace("\r", "\\x0d")
    return HIDDEN.sub(lambda match: f"\\x{ord(match[0]):02x}", text)


def whole(text: str) -> str:
    """The text with a mark for each unpaired surrogate: JSON and terminals can hold them, no file can."""
    return text.encode("utf-8", "replace").decode()


def whole_text(value: Said) -> Said:
    """The same facts, with `whole` text everywhere: an agent's JSON can hold unpaired surrogates."""
    try:
        msgspec.json.encode(value)
    except UnicodeEncodeError:
        return msgspec.convert(_whole(msgspec.to_builtins(value)), type(value))
    return value


def _whole(value: Any) -> Any:
    match value:
        case str():
            return whole(value)
        case list() | tuple():
            return [_whole(item) for item in cast("list[Any]", value)]
        case dict():
            return {_whole(key): _whole(item) for key, item in cast("dict[Any, Any]", value).items()}
        case _:
            return value


def lines_of(text: str) -> list[str]:
    """The lines of the text, whichever of the three line endings it uses."""
    return _BREAKS.split(text)


def last_lines(text: str, most: int, widest: int) -> str:
    """The last `most` characters as plain lines of at most `widest` characters, with single empty lines only."""
    lines = (line.rstrip()[:widest] for line in lines_of(plain(text[-most:])))
    return "\n".join(line for key, run in groupby(lines) for line in (run if key else ("",)))


def from_base64(value: str) -> str | None:
    """The decoded text; None if it is not base64 of a text."""
    padded = value.replace("-", "+").replace("_", "/").rstrip("=")
    try:
        raw = base64.b64decode(padded + "=" * (-len(padded) % 4), validate=True)
        return raw.decode("utf-8")
    except (binascii.Error, ValueError):
        return None


# ---- fingerprints ------------------------------------------------------------------------------------------


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


# ---- JSON --------------------------------------------------------------------------------------------------


HALVES = Lazy(  # of surrogate pairs, as JSON writes them; whole pairs and backslashes are group 1
    r"(\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})|\\u[dD][89a-fA-F][0-9a-fA-F]{2}"
)


def as_object(text: str | bytes) -> dict[str, Any] | None:
    """The JSON object that this text is, if it is one. Half of a surrogate pair becomes a question mark."""
    value: object = None
    try:
        value = msgspec.json.decode(text)
    except RecursionError:
        return None
    except ValueError:
        words = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
        whole = HALVES.sub(lambda match: match[1] or "?", words)
        with contextlib.suppress(ValueError, RecursionError):
            value = msgspec.json.decode(whole) if whole != words else None
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def table(value: object) -> dict[str, Any]:
    """The value if it is a JSON object, else an empty one."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
