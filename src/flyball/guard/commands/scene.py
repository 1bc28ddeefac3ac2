"""What is known at one point of the line: directory, variables, functions, what flows in."""

from __future__ import annotations

from typing import Literal

import msgspec

from flyball.guard.commands.args import Arg
from flyball.guard.commands.tree import Stage

FeedKind = Literal["none", "text", "listed", "data", "decoded", "remote"]
Value = str | tuple[str, ...] | Arg | None  # None: set, but nobody knows to what


class Feed(msgspec.Struct, frozen=True):
    """What a command reads on standard input, as far as it is known."""

    kind: FeedKind = "none"
    text: str = ""
    whole: bool = False  # a listing of everything there is


NOTHING = Feed()
_UNSET = ("", "unset")


class Scene(msgspec.Struct):
    """`cwds` are all directories the line may be in here (a `cd` may have failed)."""

    cwds: tuple[str, ...]
    variables: dict[str, Value] = {}
    functions: dict[str, Stage] = {}
    feed: Feed = NOTHING
    depth: int = 0
    posix: bool = False  # whether a shell that is not bash reads the text

    def copy(self) -> Scene:
        return Scene(self.cwds, dict(self.variables), dict(self.functions), self.feed, self.depth, self.posix)

    def fed(self, feed: Feed) -> Scene:
        """The same place with other input; variables and directory are shared no further."""
        inner = self.copy()
        inner.feed = feed
        return inner

    def in_new_shell(self) -> list[Scene]:
        """Where another shell reads the text: with all that was exported, and without; nobody keeps track of which."""
        bare = msgspec.structs.replace(self, variables={}, functions={})
        return [self, bare] if self.variables or self.functions else [self]

    def may_also(self, other: Scene) -> None:
        """After something that may or may not have run, both ways are possible."""
        self.cwds = tuple(dict.fromkeys((*self.cwds, *other.cwds)))[:6]
        self.variables_may_be(other)
        self.functions.update(other.functions)

    def variables_may_be(self, other: Scene) -> None:
        """A variable that may hold one thing or another is unknown."""
        for name in {**self.variables, **other.variables}:
            if self.variables.get(name, _UNSET) != other.variables.get(name, _UNSET):
                self.variables[name] = None
