"""Terminal output as plain text: escape sequences removed, line endings unified, size bounded.

A program may print megabytes of anything. Readers that search with patterns read `last_lines`, so that a long output
costs no more than a short one.
"""

import re
from itertools import groupby
from typing import Any, TypeVar, cast

import msgspec

Said = TypeVar("Said", bound=msgspec.Struct)

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
    """The text with a mark for each half of a character: JSON and terminals can say them, no file takes them."""
    return text.encode("utf-8", "replace").decode()


def whole_text(said: Said) -> Said:
    """The same facts, with `whole` text everywhere: an agent's JSON can hold halves of characters."""
    try:
        msgspec.json.encode(said)
    except UnicodeEncodeError:
        return msgspec.convert(_whole(msgspec.to_builtins(said)), type(said))
    return said


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
