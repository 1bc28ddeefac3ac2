"""Arguments sorted into options and operands, as getopt would: clusters, abbreviations, attached values."""

from __future__ import annotations

import re

import msgspec

from flyball.guard.change import SEVERITY
from flyball.guard.commands.args import Arg
from flyball.guard.commands.profiles import Flag, Profile, runs_code

_GO = frozenset({"go", "go-posix"})
LETTERS_MOST = 200
_NUMBER = re.compile(r"-[0-9]+")


class Option(msgspec.Struct, frozen=True):
    """One option as given; `flag` is None if the profile does not know it."""

    name: str
    flag: Flag | None
    value: Arg | None = None


class Arguments(msgspec.Struct):
    """The arguments of a command."""

    options: list[Option] = []
    operands: list[Arg] = []
    after_dashes: int = -1

    def has(self, *names: str) -> bool:
        return any(option.name in names for option in self.options)

    def values(self, *names: str) -> list[Arg]:
        return [option.value for option in self.options if option.name in names and option.value]


def parse_arguments(profile: Profile, args: list[Arg]) -> Arguments:
    """`posix` and `sub` styles stop at the first operand; `none` has no options at all."""
    given = Arguments()
    queue = list(reversed(args))
    stops = profile.style in {"posix", "go-posix"} or bool(profile.sub) or profile.wraps >= 0
    while queue:
        arg = queue.pop()
        if profile.style == "none" or not _is_option(arg, profile):
            given.operands.append(arg)
            if stops:
                break
        elif arg.text == "--":
            given.after_dashes = len(given.operands)
            break
        elif arg.text.startswith("--") or profile.style in _GO:
            _long(profile, arg, queue, given)
        else:
            _cluster(profile, arg, queue, given)
    given.operands.extend(reversed(queue))
    return given


def _is_option(arg: Arg, profile: Profile) -> bool:
    return arg.text.startswith("-") and arg.text != "-"


def _long(profile: Profile, arg: Arg, queue: list[Arg], given: Arguments) -> None:
    name, equals, _ = arg.text.partition("=")
    flag = _lookup(profile, name)
    if flag is None:
        given.options.append(Option(name, None, arg.tail(len(name) + 1) if equals else None))
        return
    value = arg.tail(len(name) + 1) if equals else None
    if value is None and flag.takes == "needs" and queue:
        value = queue.pop()
    if flag.kind in {"pair", "filepair"} and queue:  # `--arg name value`, `--rawfile name file`
        second = queue.pop()
        value = second if flag.kind == "filepair" else value
    missing = value is None and flag.takes == "needs"
    given.options.append(Option(flag.name, None if missing else flag, value))


def _lookup(profile: Profile, name: str) -> Flag | None:
    """The flag of that name, or the one it abbreviates; of several matches the worst."""
    exact = profile.flags.get(name)
    if exact or len(name) < 3:
        return exact
    if profile.style in _GO:
        return profile.flags.get(name[1:] if name.startswith("--") else "-" + name)
    matches = [flag for key, flag in profile.flags.items() if key.startswith(name)]
    if not matches:
        return None
    gravest = max(matches, key=lambda flag: SEVERITY[flag.verdict])
    if gravest.verdict != "allow":
        return gravest
    return gravest if len(matches) == 1 and not runs_code(profile.name) else None


def _cluster(profile: Profile, arg: Arg, queue: list[Arg], given: Arguments) -> None:
    """`-abc`, `-n5`, `-n 5`, `-20`; a letter that takes a value swallows the rest."""
    if "-NUM" in profile.flags and _NUMBER.fullmatch(arg.text):
        given.options.append(Option(arg.text, profile.flags["-NUM"]))
        return
    whole = profile.flags.get(arg.text.partition("=")[0])
    if whole and len(whole.name) > 2:  # a single-dash word such as -std=c99 or -Wall
        _long(profile, arg, queue, given)
        return
    if len(arg.text) > LETTERS_MOST:
        given.options.append(Option(arg.text[:8] + "…", None))
        return
    at = 1
    while at < len(arg.text):
        at = _letter(profile, arg, at, queue, given)


def _letter(profile: Profile, arg: Arg, at: int, queue: list[Arg], given: Arguments) -> int:
    flag = profile.flags.get("-" + arg.text[at])
    rest = arg.tail(at + 1) if at + 1 < len(arg.text) else None
    if flag is None or flag.takes == "nothing":
        given.options.append(Option("-" + arg.text[at], flag))
        return at + 1
    if rest is None and flag.takes == "needs" and queue:
        rest = queue.pop()
    missing = rest is None and flag.takes == "needs"
    given.options.append(Option(flag.name, None if missing else flag, rest))
    return len(arg.text)
