"""Commands joined by `&&` and `||`: which of them ran decides the state afterwards."""

from __future__ import annotations

import re

import msgspec

from flyball.guard.commands.context import ShellState
from flyball.guard.commands.syntax_tree import Assign, Item, Lit, Simple, Var


class Chain:
    """The state if the last command succeeded, and the state if it failed; None if that is impossible."""

    def __init__(self, start: ShellState) -> None:
        self.well: ShellState | None = start
        self.ill: ShellState | None = None
        self.joint = ""
        self.last = start

    def entry(self) -> ShellState:
        """The state in which the next command starts. A command that cannot be reached is judged all the same."""
        wanted = {"&&": self.well, "||": self.ill}.get(self.joint)
        return wanted.copy() if wanted else self.end()

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
    kept = dict(after.variables)
    kept.pop("OLDPWD", None)
    if "OLDPWD" in before.variables:
        kept["OLDPWD"] = before.variables["OLDPWD"]
    if before.variables.get("DIRSTACK"):  # without one a later `popd` fails, too
        kept["DIRSTACK"] = None if _is_deeper(after, before) else kept.get("DIRSTACK")
    return msgspec.structs.replace(after, cwds=before.cwds, variables=kept)


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
