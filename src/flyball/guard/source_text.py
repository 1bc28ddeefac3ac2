"""Source as its language reads it: byte order marks, UTF-16, NULs, and encodings that a file declares for itself.

A reader who sees other text than the interpreter does cannot judge it, so what looks different asks.
"""

import codecs
import re
from collections.abc import Iterable, Sequence

from flyball.guard.change import Change
from flyball.guard.verdict import Verdict
from flyball.reading.terminal import HIDDEN

CODE = re.compile(
    r"\.(?:py|pyi|pyw|js|jsx|ts|tsx|mjs|cjs|go|rs|java|kt|rb|php|c|h|cc|cpp|hpp|cs|swift|sh|bash|sql|scala|lua|pl|toml|cfg|ini|ya?ml)$"
    r"|(?:^|/)makefile$",
    re.IGNORECASE,
)
_COOKIE = re.compile(r"^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")
_PLAIN_CHARSET = re.compile(
    r"utf[-_]?8(?:[-_]sig)?|ascii|us-ascii|latin[-_]?1|iso[-_]?(?:8859[-_]\d+|latin-1)(?:-unix)?|cp\d+|windows-\d+|euc[-_]\w+|gbk|gb\d+|big5\w*|koi8[-_]\w",
    re.IGNORECASE,
)
"""Charsets in which ASCII means itself."""
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_EMOJI = re.compile("[\u2190-\u2bff\ufe0f\U0001f000-\U0001faff]\u200d[\u2190-\u2bff\U0001f000-\U0001faff]")
PRINTABLE_LEAST = 90  # percent: what has less is no text


def text_of(data: bytes) -> str | None:
    """The text of a file that git takes for binary; None if there is no text in it."""
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return data.decode(encoding, "replace")
    wide = data[:4000]
    for encoding, nuls in (("utf-16-le", wide[1::2]), ("utf-16-be", wide[::2])):
        if len(nuls) > 1 and nuls.count(0) * 10 >= len(nuls) * 9:
            return data.decode(encoding, "replace")
    text = data.replace(b"\0", b"").decode("utf-8", "replace")
    seen = sum(1 for char in text[:4000] if char.isprintable() or char in "\n\r\t")
    return text if text and seen * 100 >= len(text[:4000]) * PRINTABLE_LEAST else None


def judge_source(change: Change, file: str, lines: Sequence[tuple[int, str]]) -> Iterable[Verdict]:
    """Source that people and interpreters read differently."""
    if change.op not in ("add", "modify", "rename") or not CODE.search(file):
        return
    if change.binary:
        yield Verdict(
            "ask", "odd-encoding", f"{file} is source, but not plain text (NUL bytes or UTF-16).", file
        )
    for number, line in lines:
        cookie = _COOKIE.match(line) if number <= 2 and file.endswith((".py", ".pyw", ".pyi")) else None
        if cookie and not _PLAIN_CHARSET.fullmatch(cookie[1]):
            yield Verdict("ask", "odd-encoding", f"{file} declares the encoding {cookie[1]}.", file, number)
            return
        hidden = None if line.isascii() and line.isprintable() else HIDDEN.search(_EMOJI.sub("", line))
        if hidden and not (number == 1 and hidden[0] == "\ufeff" and line[0] == "\ufeff"):
            name = f"U+{ord(hidden[0]):04X}"
            reason = f"{file} contains a character that cannot be seen or changes the reading order ({name})."
            yield Verdict("ask", "hidden-character", reason, file, number)
            return
