"""Characters that make a line look like something it is not are never allowed."""

import re
import unicodedata

_ORDINARY = re.compile(r"[\t\n\x20-\x7e]*")
_IGNORABLE = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180e\u2800\u3164\uffa0")
_BAD_KINDS = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_JOINER, _EMOJI_STYLE = "\u200d", "\ufe0f"


def strange_letter(text: str) -> str:
    """The name of the first character nobody can see or trust in `text`, or ''."""
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
    return char in _IGNORABLE or unicodedata.category(char) in _BAD_KINDS or _is_selector(char)


def _after_emoji(text: str, at: int) -> bool:
    before = text[at - 1 : at]
    return bool(before) and (before == _EMOJI_STYLE or unicodedata.category(before) in {"So", "Sk", "Sm"})


def _is_selector(char: str) -> bool:
    return "\ufe00" <= char <= "\ufe0f" or "\U000e0100" <= char <= "\U000e01ef"


def plain_form(name: str) -> str:
    """A name as the most forgiving file system would read it: folded, composed, without ignorables."""
    if name.isascii():
        return name.casefold()
    kept = "".join(char for char in unicodedata.normalize("NFKC", name) if not _dropped(char))
    return unicodedata.normalize("NFC", kept.casefold())


def _dropped(char: str) -> bool:
    return char in _IGNORABLE or unicodedata.category(char) == "Cf" or _is_selector(char)
