"""Substitutions whose result can be known without running them: `$(echo x)`, `$(pwd)`, `$(date)`."""

from __future__ import annotations

import posixpath
import re

from flyball.guard.commands.args import HOLE, Arg
from flyball.guard.commands.context import Context
from flyball.guard.commands.expand import Host, expand_one, expand_words
from flyball.guard.commands.known_output import file_listing, is_chosen, is_harmless
from flyball.guard.commands.syntax_tree import Redirect, Script, Simple, Sub
from flyball.guard.commands.words import unescaped

_DISPUTED = re.compile(r"\\(?![nt])")
_FLAGS = re.compile(r"-[neE]+")


def result_of(body: Script, context: Context, host: Host) -> Arg | None:
    """The output of a substitution, as far as it is known; None if it is unknown."""
    stages = [item.pipe.stages for item in body.items]
    if len(stages) != 1 or not isinstance(stages[0][-1], Simple):
        return None
    simple = stages[0][-1]
    args = expand_words(simple.words, context.aside(), _Quiet(host))
    if not args or not all(arg.literal for arg in args):
        return Arg("x1", unknown=1, from_output=True) if args and _names_of_files(args) else None
    texts = [arg.text for arg in args]
    if texts == ["cat"] and len(stages[0]) == 1 and [r.op for r in simple.redirects] in (["<<"], ["<<<"]):
        return _quoted(simple.redirects[0], context, host)
    if len(stages[0]) > 1 or simple.redirects:
        return _printed(texts, simple)
    return _answer(texts, simple, context, host)


def _printed(texts: list[str], simple: Simple) -> Arg | None:
    """A number, a date, a hash; or a name."""
    chosen = is_chosen(texts) or bool(simple.assigns)
    return Arg("x1", unknown=1, from_output=True, word=chosen) if is_harmless(texts) else None


def _quoted(redirect: Redirect, context: Context, host: Host) -> Arg | None:
    """`$(cat <<'EOF' …)`: the text itself."""
    parts = redirect.body if redirect.op == "<<" else redirect.target.parts
    value = expand_one(parts, context.aside(), _Quiet(host))
    return Arg(value.text.rstrip("\n"), from_output=True) if value.literal else None


def _names_of_files(args: list[Arg]) -> bool:
    """`basename "$f"` and `wc -l *.py` over files of the workspace."""
    if args[0].text not in {"wc", "basename"}:
        return False
    return all(arg.literal or ((arg.many or arg.glob) and HOLE not in arg.text) for arg in args)


def _answer(texts: list[str], simple: Simple, context: Context, host: Host) -> Arg | None:
    name, rest = texts[0], texts[1:]
    names = file_listing(texts, context.cwds, host.policy)
    if names and name != "ls":
        return Arg(names.text, many=True, from_output=True)
    if name in {"echo", "printf"}:
        text = printed_text(name, rest)
        return None if text is None else Arg(text.rstrip("\n"))
    if name == "pwd" and len(context.cwds) == 1:
        return Arg(context.cwds[0])
    if (
        name == "mktemp"
        and host.policy.contained
        and all(re.fullmatch(r"-[dqt]+|[\w.-]+", text) for text in rest)
    ):
        return Arg("/tmp/tmp.x1", from_output=True)
    if texts == ["git", "rev-parse", "--show-toplevel"]:
        return Arg(host.policy.workspace)
    if len(rest) != 1 or rest[0].startswith("-"):
        return _printed(texts, simple)
    if name == "basename":
        return Arg(posixpath.basename(rest[0].rstrip("/")))
    if name == "dirname":
        return Arg(posixpath.dirname(rest[0].rstrip("/")) or ("/" if rest[0][:1] == "/" else "."))
    return _printed(texts, simple)


def printed_text(name: str, rest: list[str]) -> str | None:
    """The output of echo or printf; None where shells differ (backslashes)."""
    if any(_DISPUTED.search(text) for text in rest):
        return None
    if name == "echo":
        flags = ""
        while rest and _FLAGS.fullmatch(rest[0]):
            flags += rest[0]
            rest = rest[1:]
        line = " ".join(rest)
        return line if "\\" not in line else unescaped(line) if "e" in flags else None
    rest = rest[1:] if rest[:1] == ["--"] else rest
    shape = unescaped(rest[0]) if rest else ""
    return _formatted(shape, rest[1:])


def _formatted(shape: str, values: list[str]) -> str | None:
    """printf goes through its format until the values are used up."""
    wanted = len(re.findall(r"%s", shape.replace("%%", "")))
    if re.search(r"%[^s%]", shape) or len(values) > 64:
        return None
    rounds = [values[at : at + wanted] for at in range(0, len(values), wanted)] if wanted else []
    return "".join(_filled(shape, some) for some in rounds or [[]])


def _filled(shape: str, values: list[str]) -> str:
    left = iter(values)
    return re.sub("%[s%]", lambda match: "%" if match[0] == "%%" else next(left, ""), shape)


class _Quiet:
    """Expands once more without judging again; nested substitutions stay unknown."""

    def __init__(self, host: Host) -> None:
        self.policy = host.policy

    def substitute(self, sub: Sub, context: Context) -> Arg:
        return Arg(HOLE, unknown=2)

    def is_dangerous(self, name: str) -> bool:
        return False

    def hidden(self, text: str, context: Context) -> None: ...
