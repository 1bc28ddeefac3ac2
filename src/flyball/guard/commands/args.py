"""Arguments as the command gets them: expanded, with unknown parts marked."""

from __future__ import annotations

import re

import msgspec

VALUE_MOST = 32_000
"""A longer value is not followed: `a=$a$a` doubles it each time."""

HOLE = "\0"  # stands for an unknown part of an argument's text

_GLOB = re.compile(r"[*?]|\[[^\]]+\]")


class Arg(msgspec.Struct, frozen=True):
    """One argument.

    `unknown`: 0 literal, 1 unknown but harmless as text (a date, a count), 2 unknown. `glob`: unquoted `*?[`.
    `many`: stands for files of the workspace that some command listed. `remote`: came over the network.
    `pipe`: a process substitution's file. `from_output`: holds the output of some command. `loose`: unknown and not in
    quotes, so that it may become several arguments, options among them. `word`: holds a name that somebody chose (a
    branch): harmless as text, but as a path it may be any file. `number`: unknown, but some number or unset.
    """

    text: str
    unknown: int = 0
    glob: bool = False
    many: bool = False
    remote: bool = False
    pipe: bool = False
    quoted: bool = False
    from_output: bool = False
    loose: bool = False
    word: bool = False
    number: bool = False

    @property
    def literal(self) -> bool:
        return not (self.unknown or self.glob or self.many or self.pipe)

    def tail(self, start: int) -> Arg:
        return msgspec.structs.replace(self, text=self.text[start:])


def merged(pieces: list[Arg]) -> Arg:
    """Pieces of one word, side by side."""
    if len(pieces) == 1:
        return pieces[0]
    long = sum(len(piece.text) for piece in pieces) > VALUE_MOST
    return Arg(
        HOLE if long else "".join(piece.text for piece in pieces),
        2 if long else max((piece.unknown for piece in pieces), default=0),
        any(piece.glob for piece in pieces),
        any(piece.many for piece in pieces),
        any(piece.remote for piece in pieces),
        any(piece.pipe for piece in pieces),
        any(piece.quoted for piece in pieces),
        any(piece.from_output for piece in pieces),
        any(piece.loose for piece in pieces),
        any(piece.word for piece in pieces),
        not long and all(piece.number for piece in pieces if piece.unknown == 2),
    )


def piece(text: str, quoted: bool) -> Arg:
    return Arg(text, glob=not quoted and _GLOB.search(text) is not None, quoted=quoted)
