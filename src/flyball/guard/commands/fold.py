"""Substitutions whose result can be known without running them: `$(echo x)`, `$(pwd)`, `$(date)`."""

from __future__ import annotations

import re

from flyball.guard.commands.args import HOLE, Arg
from flyball.guard.commands.expand import Host, expand_words
from flyball.guard.commands.listing import listing
from flyball.guard.commands.names import names
from flyball.guard.commands.scene import Scene
from flyball.guard.commands.tree import Script, Simple, Sub
from flyball.guard.commands.words import unescaped
from flyball.guard.verdict import Verdict

_COUNTING = names("date nproc whoami uname hostname id basename wc arch getconf seq expr")
_HASHES = names("rev-parse merge-base rev-list describe symbolic-ref write-tree branch log")
_FLAGS = re.compile(r"-[neE]+")
_PLAIN = Arg("x1", unknown=1, said=True)


def result_of(body: Script, scene: Scene, host: Host) -> Arg | None:
    """What a substitution leaves, as far as it is known; None if nothing is."""
    stages = [item.pipe.stages for item in body.items]
    if len(stages) != 1 or not isinstance(stages[0][-1], Simple):
        return None
    simple = stages[0][-1]
    args = expand_words(simple.words, scene, _Quiet(host))
    if not args or not all(arg.literal for arg in args):
        return _PLAIN if args and args[0].text in {"wc", "basename"} else None
    texts = [arg.text for arg in args]
    if len(stages[0]) > 1 or simple.redirects:
        return _PLAIN if texts[0] in _COUNTING else None
    return _answer(texts, scene, host)


def _answer(texts: list[str], scene: Scene, host: Host) -> Arg | None:
    name, rest = texts[0], texts[1:]
    names = listing(texts, scene.cwds, host.policy)
    if names and name != "ls":
        return Arg(names.text, many=True, said=True)
    if name in {"echo", "printf"}:
        return Arg(spoken(name, rest))
    if name == "pwd" and len(scene.cwds) == 1:
        return Arg(scene.cwds[0])
    if texts[:3] == ["git", "rev-parse", "--show-toplevel"]:
        return Arg(host.policy.workspace)
    if name == "git" and rest and rest[0] in _HASHES:
        return _PLAIN
    return _PLAIN if name in _COUNTING else None


def spoken(name: str, rest: list[str]) -> str:
    """What echo or printf says."""
    if name == "echo":
        flags = ""
        while rest and _FLAGS.fullmatch(rest[0]):
            flags += rest[0]
            rest = rest[1:]
        line = " ".join(rest)
        return unescaped(line) if "e" in flags else line
    rest = rest[1:] if rest[:1] == ["--"] else rest
    shape = unescaped(rest[0]) if rest else ""
    values = iter(rest[1:])
    return re.sub(r"%[-0-9.]*([sdbq%])", lambda match: "%" if match[1] == "%" else next(values, ""), shape)


class _Quiet:
    """Expands once more without judging again; what is nested deeper stays unknown."""

    def __init__(self, host: Host) -> None:
        self.policy = host.policy

    def substitute(self, sub: Sub, scene: Scene) -> Arg:
        return Arg(HOLE, unknown=2)

    def is_dangerous(self, name: str) -> bool:
        return False

    def add(self, verdict: Verdict) -> None: ...
    def hidden(self, text: str, scene: Scene) -> None: ...
