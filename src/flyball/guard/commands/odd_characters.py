"""Characters that make a line look different from what it does are never allowed."""

import re
import unicodedata

from flyball.guard.paths.folding import ignored

_ORDINARY = re.compile(r"[\t\n\x20-\x7e]*")
_BLANK = "\u2800"
_BAD_KINDS = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_JOINER, _EMOJI_STYLE = "\u200d", "\ufe0f"


def odd_character(text: str) -> str:
    """The name of the first invisible or misleading character in `text`, or ''."""
    if _ORDINARY.fullmatch(text):
        return ""
    strange = {char for char in set(text) if char not in "\t\n" and _is_strange(char)}
    if not strange:
        return ""
    for at, char in enumerate(text):
        if char in strange and not (char in (_JOINER, _EMOJI_STYLE) and _after_emoji(text, at)):
            return f"U+{ord(char):04X} {unicodedata.name(char, 'control character')}"
    return ""


def _is_strange(char: str) -> bool:
    return char == _BLANK or unicodedata.category(char) in _BAD_KINDS or ignored(char)


def _after_emoji(text: str, at: int) -> bool:
    before = text[at - 1 : at]
    return bool(before) and (before == _EMOJI_STYLE or unicodedata.category(before) in {"So", "Sk", "Sm"})
