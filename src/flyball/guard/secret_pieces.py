"""Text with parts left out, and where its places are in the whole text.

A secret may be cut by colour codes, by characters that nobody sees, by escapes or by joined strings.
"""

import re
from bisect import bisect_right
from itertools import accumulate, pairwise

INVISIBLE = re.compile(
    "\x1b\\[[0-?]*[ -/]*[@-~]|\x1b\\][^\x07\x1b\n]{0,2000}(?:\x07|\x1b\\\\)"
    "|[\x00\u00ad\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff]"
)
"""Colours and titles of a terminal, NULs (UTF-16 read as bytes), and characters without width."""


class Pieces:
    """What is left of a text between its seams."""

    def __init__(self, text: str, seams: list[tuple[int, int]]) -> None:
        self.kept = [(a, b) for (_, a), (b, _) in pairwise([(0, 0), *seams, (len(text), 0)]) if a < b]
        self.begins = [0, *accumulate(end - start for start, end in self.kept)][:-1]
        self.text = "".join(text[start:end] for start, end in self.kept)

    def at(self, place: int) -> int:
        """Which piece a place of the shortened text is in."""
        return bisect_right(self.begins, place) - 1

    def span(self, start: int, end: int) -> tuple[int, int]:
        """The same part in the whole text."""
        first, last = self.at(start), self.at(end - 1)
        return self.kept[first][0] + start - self.begins[first], self.kept[last][0] + end - self.begins[last]


def visible(text: str) -> Pieces | None:
    """The text without what cannot be seen; None where all of it can."""
    seams = [match.span() for match in INVISIBLE.finditer(text)]
    return Pieces(text, seams) if seams else None
