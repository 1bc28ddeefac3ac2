"""Where a command of the line runs: the state of its shell, its input, and the loops and functions around it.

The state of the shell changes as the line continues. A Context is a value: it is handed down, and a part of the line that
reads other input or is nested deeper gets another one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Literal

import msgspec

from flyball.guard import word_set
from flyball.guard.change import Verdict
from flyball.guard.commands.args import HOLE, VALUE_MOST, Arg
from flyball.guard.commands.syntax_tree import Assign, Item, Lit, Simple, Stage, Var

StreamKind = Literal["none", "text", "listed", "data", "decoded", "remote"]
Value = str | tuple[str, ...] | Arg | None  # None: set, but the value is unknown

CWDS_MOST = 16
UNKNOWN_CWD = "?"
POSITIONS = (*map(str, range(1, 10)), "@")
SOME_NUMBER = Arg(HOLE, unknown=2, number=True)
_UNSET = ("", "unset")
_OWN = word_set(
    "_ RANDOM SRANDOM SECONDS LINENO UID EUID PPID BASHPID EPOCHSECONDS EPOCHREALTIME FUNCNAME GROUPS DIRSTACK PIPESTATUS"
    " PWD OLDPWD OPTARG OPTIND OPTERR COLUMNS LINES HISTCMD COPROC COMP_WORDS COMP_CWORD COMP_LINE COMP_POINT"
)
"""Variables that the shell sets by itself, or that cannot be set."""


class Stream(msgspec.Struct, frozen=True):
    """What a command reads or writes through a pipe, as far as it is known."""

    kind: StreamKind = "none"
    text: str = ""
    whole: bool = False  # a listing of every file


NO_INPUT = Stream()


def shared(stream: Stream) -> Stream:
    """A stream that several commands read in turn: which of them reads what is unknown."""
    return Stream("data") if stream.kind == "text" else stream


class ShellState(msgspec.Struct):
    """What the line has set so far. `cwds` are all the directories it may be in (a `cd` may have failed)."""

    cwds: tuple[str, ...]
    variables: dict[str, Value] = {}
    functions: dict[str, tuple[Stage, ...]] = {}  # every body that a name may stand for
    odd: set[str] = msgspec.field(default_factory=lambda: set(_OWN))
    """Names that may not hold what is assigned to them. All copies share this set; nothing leaves it."""

    def copy(self) -> ShellState:
        return msgspec.structs.replace(self, variables=dict(self.variables), functions=dict(self.functions))

    def hold(self, name: str, value: Value) -> None:
        """An assignment: to a variable, or to one item of an array, which makes the whole array unknown."""
        bare = name.partition("[")[0]
        unknown = bare in self.odd or bare != name or _length(value) > VALUE_MOST
        self.variables[bare] = None if unknown else value

    def define(self, name: str, body: Stage) -> None:
        known = self.functions.get(name, ())
        self.functions[name] = known if body in known else (*known, body)

    def may_also(self, other: ShellState) -> None:
        """After something that may or may not have run, both states are possible."""
        cwds = tuple(dict.fromkeys((*self.cwds, *other.cwds)))
        self.cwds = cwds if len(cwds) <= CWDS_MOST else (*cwds[:CWDS_MOST], UNKNOWN_CWD)
        for name in {**self.variables, **other.variables}:
            mine, its = self.variables.get(name, _UNSET), other.variables.get(name, _UNSET)
            if mine != its:  # one value or the other
                self.variables[name] = SOME_NUMBER if _is_number(mine) and _is_number(its) else None
        for name, bodies in other.functions.items():
            for body in bodies:
                self.define(name, body)

    def is_like(self, other: ShellState) -> bool:
        """Would the rest of the line be judged the same from either state?"""
        mine = (self.cwds, self.variables, self.functions)
        return mine == (other.cwds, other.variables, other.functions)

    def become(self, other: ShellState) -> None:
        self.cwds, self.variables, self.functions = other.cwds, dict(other.variables), dict(other.functions)


def _is_number(value: Value) -> bool:
    if isinstance(value, Arg):
        return value.number or (value.unknown == 1 and not value.word)
    return value == _UNSET or (isinstance(value, str) and value.isdecimal())


def _length(value: Value) -> int:
    if isinstance(value, Arg):
        return len(value.text)
    return sum(map(len, value)) if value else 0


class Report(msgspec.Struct):
    """The result for a part of the line: its verdicts, and how often it uses the network."""

    verdicts: list[Verdict] = []
    network: int = 0


class Context(msgspec.Struct, frozen=True):
    """The surroundings of a part of the line."""

    state: ShellState
    report: Report
    stdin: Stream = NO_INPUT
    depth: int = 0
    posix: bool = False  # read by a shell that may not be bash
    calls: tuple[str, ...] = ()  # functions of the line that are running
    in_loop: bool = False
    ends_jobs: bool = False  # the line itself ends its background jobs
    in_trap: bool = False
    exits: list[ShellState] = []
    """The states at each `return`, `break` and `continue` of the function or loop that is running."""

    # --- other contexts

    def copy(self) -> Context:
        """The same place with a state of its own: a subshell, or something that may not run."""
        return msgspec.structs.replace(self, state=self.state.copy())

    def reading(self, stream: Stream) -> Context:
        return msgspec.structs.replace(self, stdin=stream)

    def deeper(self) -> Context:
        return msgspec.structs.replace(self, state=self.state.copy(), depth=self.depth + 1)

    def aside(self) -> Context:
        """The same place with a report of its own, which does not count unless the caller uses it."""
        return msgspec.structs.replace(self, report=Report())

    @contextmanager
    def filtered(self, keep: Callable[[Verdict], bool]) -> Generator[Context]:
        """The same place; only some of its verdicts are kept."""
        inner = self.aside()
        try:
            yield inner
        finally:
            self.report.verdicts += filter(keep, inner.report.verdicts)
            self.report.network += inner.report.network

    def inside_loop(self) -> Context:
        return msgspec.structs.replace(self, in_loop=True, exits=[])

    def inside_function(self, name: str) -> Context:
        return msgspec.structs.replace(self, calls=(*self.calls, name), in_loop=False, exits=[])

    def beyond_functions(self) -> Context:
        """For a command behind another one: it is a program or a builtin, never a function of the line."""
        return msgspec.structs.replace(
            self, state=msgspec.structs.replace(self.state.copy(), functions={}), depth=self.depth + 1
        )

    def at_any_time(self) -> Context:
        """For what runs later: by then every variable may hold anything, and the input is gone."""
        unknown = dict.fromkeys((*self.variables, *self.state.odd, *POSITIONS))
        state = msgspec.structs.replace(self.state.copy(), variables=unknown)
        return msgspec.structs.replace(self, state=state, stdin=NO_INPUT)

    def in_new_shells(self) -> list[Context]:
        """For another shell: once with every variable exported and once with none, since either may be true."""
        exported = {name: value for name, value in self.variables.items() if name not in POSITIONS}
        states = [msgspec.structs.replace(self.state, variables=exported)]
        if self.variables or self.functions:
            states.append(msgspec.structs.replace(self.state, variables={}, functions={}))
        return [msgspec.structs.replace(self, state=state) for state in states]

    # --- what is known here

    @property
    def cwds(self) -> tuple[str, ...]:
        return self.state.cwds

    @property
    def variables(self) -> dict[str, Value]:
        return self.state.variables

    @property
    def functions(self) -> dict[str, tuple[Stage, ...]]:
        return self.state.functions

    # --- verdicts

    def add(self, verdict: Verdict) -> None:
        self.report.verdicts.append(verdict)

    def ask(self, rule: str, reason: str) -> None:
        self.add(Verdict("ask", rule, reason))

    def deny(self, rule: str, reason: str) -> None:
        self.add(Verdict("deny", rule, reason))


# --- commands joined by `&&` and `||`: which of them ran decides the state afterwards


class Chain:
    """The state if the last command succeeded, and the state if it failed; None if that is impossible."""

    def __init__(self, start: ShellState) -> None:
        self.well: ShellState | None = start
        self.ill: ShellState | None = None
        self.joint = ""
        self.last = start

    def entry(self) -> ShellState:
        """The state in which the next command starts. A command that cannot be reached is judged all the same."""
        state = {"&&": self.well, "||": self.ill}.get(self.joint)
        return state.copy() if state else self.end()

    def end(self) -> ShellState:
        return either(self.well, self.ill) or self.last

    def went(self, item: Item, before: ShellState, after: ShellState, is_left: bool) -> None:
        """Adds a command that was judged. It may have failed before it changed the directory."""
        failed = after.copy()
        failed.may_also(unmoved(after, before))
        well = failed if item.pipe.negated else after.copy()
        ill = None if never_fails(item, before) else failed
        well, ill = (None, None) if is_left else (well, ill)
        self.last = after.copy()
        self.well, self.ill = (
            either(self.well, well) if self.joint == "||" else well,
            either(self.ill, ill) if self.joint == "&&" else ill,
        )
        self.joint = item.after if item.after in {"&&", "||"} else ""


def unmoved(after: ShellState, before: ShellState) -> ShellState:
    """The state if a `cd` failed: other assignments stay."""
    variables = dict(after.variables)
    variables.pop("OLDPWD", None)
    if "OLDPWD" in before.variables:
        variables["OLDPWD"] = before.variables["OLDPWD"]
    if before.variables.get("DIRSTACK"):  # without one a later `popd` fails, too
        variables["DIRSTACK"] = None if _is_deeper(after, before) else variables.get("DIRSTACK")
    return msgspec.structs.replace(after, cwds=before.cwds, variables=variables)


def _is_deeper(after: ShellState, before: ShellState) -> bool:
    now, then = after.variables.get("DIRSTACK"), before.variables.get("DIRSTACK")
    return not (isinstance(now, tuple) and isinstance(then, tuple) and len(now) <= len(then))


def either(one: ShellState | None, other: ShellState | None) -> ShellState | None:
    joined = one or other
    if one is None or other is None or joined is None:
        return joined
    joined = one.copy()
    joined.may_also(other)
    return joined


def never_fails(item: Item, state: ShellState) -> bool:
    """A plain assignment to a plain variable; `true`."""
    stage = item.pipe.stages[0]
    if len(item.pipe.stages) > 1 or item.pipe.negated or not isinstance(stage, Simple):
        return False
    if stage.redirects or stage.words:
        return not (stage.redirects or stage.assigns) and _words(stage) in (["true"], [":"])
    return all(_is_plain(assign, state) for assign in stage.assigns)


def _is_plain(assign: Assign, state: ShellState) -> bool:
    usual = not (assign.items or assign.subscript or assign.name in state.odd)
    return usual and all(
        isinstance(part, Lit) or (isinstance(part, Var) and not part.op) for part in assign.value.parts
    )


def leaver(item: Item) -> str:
    """`exit`, `return`, `break` or `continue`, if the item surely is one; otherwise ''."""
    stage = item.pipe.stages[0]
    if len(item.pipe.stages) > 1 or item.after == "&" or not isinstance(stage, Simple):
        return ""
    words = _words(stage)
    plain = len(words) == 1 or (len(words) == 2 and re.fullmatch(r"[0-9]{1,3}", words[1]))
    return words[0] if plain and not stage.assigns and not stage.redirects else ""


def _words(stage: Simple) -> list[str]:
    """The words of a command, '' for those that are not plain."""
    alone = [word.parts[0] if len(word.parts) == 1 else None for word in stage.words]
    return [part.text if isinstance(part, Lit) else "" for part in alone]
