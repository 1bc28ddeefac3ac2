"""What is known at one point of the line: directory, variables, functions, what flows in."""

from __future__ import annotations

from typing import Literal

import msgspec

from flyball.guard.commands.args import Arg
from flyball.guard.commands.names import names
from flyball.guard.commands.tree import Stage

FeedKind = Literal["none", "text", "listed", "data", "decoded", "remote"]
Value = str | tuple[str, ...] | Arg | None  # None: set, but nobody knows to what


class Feed(msgspec.Struct, frozen=True):
    """What a command reads on standard input, as far as it is known."""

    kind: FeedKind = "none"
    text: str = ""
    whole: bool = False  # a listing of everything there is


NOTHING = Feed()
CWDS_MOST = 16
UNKNOWN_CWD = "?"
_UNSET = ("", "unset")
POSITIONS = (*map(str, range(1, 10)), "@")
_OWN = names(
    "_ RANDOM SRANDOM SECONDS LINENO UID EUID PPID BASHPID EPOCHSECONDS EPOCHREALTIME FUNCNAME GROUPS DIRSTACK PIPESTATUS"
    " PWD OLDPWD OPTARG OPTIND OPTERR COLUMNS LINES HISTCMD COPROC COMP_WORDS COMP_CWORD COMP_LINE COMP_POINT"
)
"""Variables that the shell itself sets, or does not let anybody set."""


class Scene(msgspec.Struct):
    """`cwds` are all directories the line may be in here (a `cd` may have failed)."""

    cwds: tuple[str, ...]
    variables: dict[str, Value] = {}
    functions: dict[str, tuple[Stage, ...]] = {}  # every body that a name may stand for
    feed: Feed = NOTHING
    depth: int = 0
    posix: bool = False  # whether a shell that is not bash reads the text
    odd: set[str] = msgspec.field(default_factory=lambda: set(_OWN))
    """Names that need not hold what is assigned to them: shared by the whole line, and never forgotten."""

    def copy(self) -> Scene:
        return msgspec.structs.replace(self, variables=dict(self.variables), functions=dict(self.functions))

    def hold(self, name: str, value: Value) -> None:
        """An assignment: to a variable, or to one item of an array, after which nobody knows the whole."""
        bare = name.partition("[")[0]
        self.variables[bare] = None if bare in self.odd or bare != name else value

    def define(self, name: str, body: Stage) -> None:
        known = self.functions.get(name, ())
        self.functions[name] = known if body in known else (*known, body)

    def beyond_functions(self) -> Scene:
        """For a command behind another: it is a program or a builtin, never a function of the line."""
        inner = self.copy()
        inner.functions, inner.depth = {}, self.depth + 1
        return inner

    def at_any_time(self) -> Scene:
        """For what runs later: nobody knows what a variable holds by then, nor what flows in."""
        later = self.fed(NOTHING)
        later.variables = dict.fromkeys((*self.variables, *self.odd, *POSITIONS))
        return later

    def fed(self, feed: Feed) -> Scene:
        """The same place with other input; variables and directory are shared no further."""
        inner = self.copy()
        inner.feed = feed
        return inner

    def in_new_shell(self) -> list[Scene]:
        """Where another shell reads the text: with all that was exported, and without; nobody keeps track of which."""
        given = {name: value for name, value in self.variables.items() if name not in POSITIONS}
        exported = msgspec.structs.replace(self, variables=given)
        bare = msgspec.structs.replace(self, variables={}, functions={})
        return [exported, bare] if self.variables or self.functions else [exported]

    def may_also(self, other: Scene) -> None:
        """After something that may or may not have run, both ways are possible."""
        cwds = tuple(dict.fromkeys((*self.cwds, *other.cwds)))
        self.cwds = cwds if len(cwds) <= CWDS_MOST else (*cwds[:CWDS_MOST], UNKNOWN_CWD)
        for name in {**self.variables, **other.variables}:
            if self.variables.get(name, _UNSET) != other.variables.get(name, _UNSET):
                self.variables[name] = None  # one thing or another
        for name, bodies in other.functions.items():
            for body in bodies:
                self.define(name, body)

    def is_like(self, other: Scene) -> bool:
        """Would a line that goes on here be judged as it would there?"""
        mine = (self.cwds, self.variables, self.functions)
        return mine == (other.cwds, other.variables, other.functions)

    def become(self, other: Scene) -> None:
        self.cwds, self.variables, self.functions = other.cwds, dict(other.variables), dict(other.functions)


def partly(feed: Feed) -> Feed:
    """Where several commands read in turn, nobody knows which of them gets what."""
    return Feed("data") if feed.kind == "text" else feed
