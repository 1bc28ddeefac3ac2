"""File names as the most lenient file system compares them, and names that are odd.

Protection compares folded names: composed, case folded, without characters that a file system ignores and without
trailing dots and spaces. An exemption compares exact names.
"""

import unicodedata
from typing import Literal

_IGNORED = (
    (0x00AD, 0x00AD),
    (0x034F, 0x034F),
    (0x061C, 0x061C),
    (0x115F, 0x1160),
    (0x17B4, 0x17B5),
    (0x180B, 0x180F),
    (0x200B, 0x200F),
    (0x202A, 0x202E),
    (0x2060, 0x206F),
    (0x3164, 0x3164),
    (0xFE00, 0xFE0F),
    (0xFEFF, 0xFEFF),
    (0xFFA0, 0xFFA0),
    (0xFFF0, 0xFFFB),
    (0x1D173, 0x1D17A),
    (0xE0000, 0xE0FFF),
)

_LOOKALIKES = str.maketrans(
    "\u0131\u0456\u04cf\u0261\u03b9\u0442\u0430\u0435\u043e\u0441\u04bb\u0455\u0501\u0406\u2024\u00b7",
    "iilgitaeochsdi..",
)
"""Letters of other alphabets that look like Latin ones, and dots that are not full stops."""

_SHELL_SYNTAX = ("$(", "`", ";", "|", "<", ">")


def fold(name: str) -> str:
    """One name of a path as a lenient file system sees it."""
    if name.isascii() and name.islower() and name[-1] not in ". " and ":" not in name and "~" not in name:
        return name
    folded = _folded(name, "NFC")
    return _long_name(folded.partition(":")[0].rstrip(". ") or folded)


def _folded(text: str, form: Literal["NFC", "NFKC"]) -> str:
    kept = "".join(c for c in unicodedata.normalize(form, text) if not ignored(c))
    return unicodedata.normalize("NFC", kept.casefold())


def _long_name(name: str) -> str:
    """The long name behind an old eight-letter one (`git~1`)."""
    stem, mark, number = name.partition("~")
    if mark and number.isdigit():
        return {"git": ".git", "flybal": ".flyball", "claude": ".claude"}.get(stem, name)
    return name


def fold_path(path: str) -> str:
    return "/".join(fold(name) for name in path.split("/"))


def fold_written(path: str) -> str:
    """A path of a command line, where a name may hold a colon or end with a dot, and look-alike forms are one."""
    return path.casefold() if path.isascii() else _folded(path, "NFKC")


def ignored(char: str) -> bool:
    return not char.isascii() and any(low <= ord(char) <= high for low, high in _IGNORED)


def looks_like(name: str) -> str:
    """The plain name that this one looks like."""
    plain = unicodedata.normalize("NFKC", name).casefold().translate(_LOOKALIKES)
    bare = "".join(c for c in unicodedata.normalize("NFKD", plain) if not unicodedata.combining(c))
    return fold(bare) if bare else bare


def printable(path: str) -> str:
    """The path as it can be shown to a person."""
    return path if path.isprintable() else ascii(path)


def oddity(path: str) -> str:
    """What is odd about the name itself, or ''."""
    if not path.strip():
        return "the name is empty"
    if any(unicodedata.category(c) in ("Cc", "Cs", "Co", "Zl", "Zp") for c in path):
        return "the name has control characters"
    if any(0x202A <= ord(c) <= 0x202E or 0x2066 <= ord(c) <= 0x2069 or c in "\u200e\u200f" for c in path):
        return "the name changes the reading direction"
    if any(ignored(c) for c in path):
        return "the name has invisible characters"
    return _oddity_of_names(path.replace("\\", "/").split("/"), path)


def _oddity_of_names(names: list[str], path: str) -> str:
    if len(path) > 1024 or any(len(name.encode("utf-8", "replace")) > 255 for name in names):
        return "the name is too long for a disk"
    if any(name.startswith("-") for name in names):
        return "the name looks like an option"
    if any(name != name.strip() or (name.endswith(".") and name.strip(".")) for name in names):
        return "the name begins or ends with a space or a dot"
    if any(mark in path for mark in _SHELL_SYNTAX):
        return "the name contains shell syntax"
    return ""
