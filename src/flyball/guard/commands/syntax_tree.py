"""The syntax tree of a command line."""

from __future__ import annotations

from typing import Literal

import msgspec

from flyball.errors import UserError


class Unreadable(UserError):
    """The command line has something that the parser does not surely understand."""

    def __init__(self, rule: str, message: str) -> None:
        super().__init__(message)
        self.rule = rule


class Lit(msgspec.Struct, frozen=True, gc=False):
    """Literal text. Unquoted text may still contain globs, braces and a tilde."""

    text: str
    quoted: bool


class Var(msgspec.Struct, frozen=True):
    """`$name` or `${name…}`; `op` is what follows the name, `arg` the word after it."""

    name: str
    op: str
    arg: tuple[Part, ...]
    quoted: bool


class Sub(msgspec.Struct, frozen=True):
    """`$(…)`, backticks, `<(…)` or `>(…)`."""

    body: Script
    form: Literal["$", "<", ">"]
    quoted: bool


class Sum(msgspec.Struct, frozen=True):
    """`$((…))` and `((…))`: arithmetic, which can run substitutions."""

    parts: tuple[Part, ...]
    quoted: bool


Part = Lit | Var | Sub | Sum


class Word(msgspec.Struct, frozen=True):
    parts: tuple[Part, ...]
    start: int


class Assign(msgspec.Struct, frozen=True):
    """`name=value`, `name+=value`, `name[sub]=value` or `name=(…)`."""

    name: str
    value: Word
    items: tuple[Word, ...] = ()
    plus: bool = False
    subscript: tuple[Part, ...] = ()


class Redirect(msgspec.Struct, frozen=True):
    """`op` as written (`>`, `>>`, `<`, `<>`, `>|`, `>&`, `<&`, `&>`, `&>>`, `<<`, `<<<`).

    A heredoc's `body` is filled in when the reader reaches its lines.
    """

    op: str
    target: Word
    body: list[Part] = []
    fd: str = ""


class Simple(msgspec.Struct, frozen=True):
    assigns: tuple[Assign, ...]
    words: tuple[Word, ...]
    redirects: tuple[Redirect, ...]


class Pipe(msgspec.Struct, frozen=True):
    stages: tuple[Stage, ...]
    negated: bool = False


class Block(msgspec.Struct, frozen=True):
    """A compound command: its scripts are judged in turn, each may or may not run."""

    kind: Literal["group", "subshell", "if", "while", "case", "coproc"]
    scripts: tuple[Script, ...]
    words: tuple[Word, ...] = ()
    redirects: tuple[Redirect, ...] = ()


class Loop(msgspec.Struct, frozen=True):
    """`for name in words; do body; done`, and `select`."""

    name: str
    words: tuple[Word, ...] | None
    body: Script
    redirects: tuple[Redirect, ...] = ()


class Define(msgspec.Struct, frozen=True):
    name: str
    body: Stage


class Test(msgspec.Struct, frozen=True):
    """`[[ … ]]` and `((…))`: only their expansions can do anything."""

    words: tuple[Word, ...]
    redirects: tuple[Redirect, ...] = ()


Stage = Simple | Block | Loop | Define | Test


class Item(msgspec.Struct, frozen=True):
    """One pipeline and what follows it: `;`, `&`, `&&`, `||` or nothing."""

    pipe: Pipe
    after: str


class Script(msgspec.Struct, frozen=True):
    items: tuple[Item, ...]


EMPTY = Script(())
