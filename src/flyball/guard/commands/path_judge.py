"""Judges the paths of a command, from every directory that the line may be in."""

from __future__ import annotations

import posixpath
import re

from flyball.guard import word_set
from flyball.guard.commands.args import HOLE, Arg
from flyball.guard.commands.command_policy import CommandPolicy
from flyball.guard.commands.context import Context
from flyball.guard.commands.places import glob_place, place_of, ruling

AT_HOME = frozenset({"temporary", "home-file", "home-cache", "home-settings"})
"""Places that a sandbox contains, besides the workspace."""
_PIPE = re.compile(r"/dev/fd/\d+")
_DECODES = word_set("base64 base32 xxd rev uudecode openssl gpg")
_SECRETIVE = re.compile(
    r"\benv\b|secret|cred|passw|token|id_[rde]|\.ssh|aws|netrc|pem\b|\.key", re.IGNORECASE
)


class PathJudge:
    """What is done with a path. `calls` are the commands of the line so far."""

    def __init__(self, policy: CommandPolicy) -> None:
        self.policy = policy
        self.calls: list[tuple[Arg, ...]] = []

    def path(self, use: str, arg: Arg, context: Context) -> None:
        """A path is judged from every directory the line may be in."""
        if arg.pipe and use in {"create", "delete"}:
            context.ask("opaque-operand", "Uses a process substitution where a file is needed.")
        if arg.text == "-" or (arg.pipe and _PIPE.fullmatch(arg.text)):
            return
        if arg.many and use not in {"look", "read"}:
            context.ask("many-files", "Changes files whose names come from another command.")
        if HOLE in arg.text or arg.word:
            self.opaque_path(use, arg, context)
        else:
            self.known_path(use, arg, context)

    def source(self, arg: Arg, context: Context) -> None:
        """A file for a linter or formatter: here a glob inside the workspace is fine."""
        if HOLE in arg.text or arg.word or not (arg.glob or arg.many):
            self.path("read" if self.policy.contained and HOLE in arg.text else "write", arg, context)
            return
        self.use_path("write", arg.text, arg.text, context, globbing=True)

    def opaque_path(self, use: str, arg: Arg, context: Context) -> None:
        start = arg.text.split(HOLE, 1)[0]
        prefix = posixpath.dirname(start if arg.word else start + "x")
        if prefix:
            self.known_path(use, Arg(prefix), context)
        stays = use in {"look", "read"} and not self.seeks_secrets()
        rule = "opaque-operand" if stays else "opaque-path"
        context.ask(rule, f"The file to {use} is unknown until the command runs.")

    def seeks_secrets(self) -> bool:
        """Does the line decode something or search for names of secrets? Then an unknown file may be one."""
        return any(
            call[0].text in _DECODES or any(_SECRETIVE.search(arg.text) for arg in call[1:])
            for call in self.calls
        )

    def known_path(self, use: str, arg: Arg, context: Context) -> None:
        text = self.policy.home + arg.text[1:] if re.match(r"~(?:/|$)", arg.text) else arg.text
        self.use_path(use, text, arg.text, context, globbing=arg.glob or arg.many)
        if use in {"create", "write"} and posixpath.basename(text).startswith("-"):
            context.ask("option-like-name", f"'{arg.text}' looks like an option when a glob matches it.")
        if arg.glob and use not in {"look", "read"}:
            context.ask("glob-operand", f"'{arg.text}' may match any file.")

    def use_path(self, use: str, text: str, shown: str, context: Context, globbing: bool) -> None:
        """The path is judged from every directory that the line may be in."""
        for cwd in context.cwds:
            place = (glob_place if globbing else place_of)(text, cwd, self.policy)
            verdict = ruling(place, use, shown, self.policy.contained)
            if verdict:
                context.add(verdict)

    def is_inside(self, arg: Arg, context: Context, also: frozenset[str] = frozenset()) -> bool:
        """Is it surely a path inside the workspace (or one of these other places)?"""
        places = {place_of(arg.text, cwd, self.policy) for cwd in context.cwds}
        return HOLE not in arg.text and places <= {"inside", "delicate"} | also

    def own_places(self) -> frozenset[str]:
        """Where a script may stand besides the workspace: in a sandbox also the private home and /tmp."""
        return AT_HOME if self.policy.contained else frozenset()
