"""What each command may do, read from the TOML files beside this package, and its arguments sorted by that.

See profiles/README.md for the format.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from pkgutil import get_data
from typing import Any, Literal, cast

import msgspec

from flyball.guard.change import SEVERITY, Decision, Verdict
from flyball.guard.commands.args import Arg

Takes = Literal["nothing", "needs", "may"]
_TOKEN = re.compile(r"(--?[^\s=?]+)(\?)?(?:=(\S+))?")


class Flag(msgspec.Struct, frozen=True):
    """One option: whether it takes a value, of which kind, and the verdict on using it."""

    name: str
    takes: Takes = "nothing"
    kind: str = "text"
    verdict: Decision = "allow"
    rule: str = ""


class Profile(msgspec.Struct, frozen=True):
    """One command or subcommand. `verdict` is for the command itself; flags and operands can make it worse."""

    name: str
    verdict: Decision = "allow"
    rule: str = ""
    why: str = ""
    style: str = "gnu"
    flags: dict[str, Flag] = {}
    operands: tuple[str, ...] = ()
    instead: frozenset[str] = frozenset()
    sub: Mapping[str, Profile] = {}
    words: tuple[tuple[str, Decision, str, str], ...] = ()
    check: str = ""
    wraps: int = -1
    globs: Decision = "allow"
    bare: Decision = "allow"

    @property
    def plain(self) -> bool:
        """Is nothing known of its arguments?"""
        return not (self.operands or self.sub or self.words or self.check or self.wraps >= 0)

    @property
    def is_service(self) -> bool:
        """Is it the command line of a remote service, without a closer description?"""
        return self.plain and self.rule == "network" and " " not in self.name


def stop(word: Decision, rule: str, name: str, why: str = "") -> Profile:
    return Profile(name=name, verdict=word, rule=rule, why=why)


class Subs(Mapping[str, Profile]):
    """Subcommands by name, each compiled when it is first used: git alone has 180."""

    def __init__(self, makers: dict[str, Callable[[], Profile]]) -> None:
        self._makers = makers
        self._made: dict[str, Profile] = {}

    def __getitem__(self, name: str) -> Profile:
        if name not in self._made:
            self._made[name] = self._makers[name]()
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._makers)

    def __len__(self) -> int:
        return len(self._makers)


@cache
def load(stem: str) -> dict[str, Any]:
    """A file of tables, by its name."""
    return tomllib.loads((get_data("flyball.guard", f"profiles/{stem}.toml") or b"").decode())


@cache
def _index() -> dict[str, str]:
    """Which file describes a command."""
    return {name: stem for stem, names in load("index").items() for name in cast("str", names).split()}


@cache
def environment() -> dict[str, list[str]]:
    """The lists of environment variables, as in environment.toml."""
    return {key: cast("str", names).split() for key, names in load("environment").items()}


@cache
def profile_of(name: str) -> Profile | None:
    """The profile of a command, or None if it has none."""
    stem = _index().get(name)
    return (_described(stem, name) if stem else None) or _stopped(name)


@cache
def runs_code(name: str) -> bool:
    """Is it a tool of a language (a runner, a linter, a builder), which runs the code it is given?

    Such tools do not take abbreviated options, as GNU's do.
    """
    return _index().get(name.partition(" ")[0]) in {"node", "build", "python"}


def _described(stem: str, name: str) -> Profile | None:
    tables = load(stem)
    for key, table in tables.items():
        if name in key.split():
            return _compile(name, table, tables.get("_sets", {}), {})
    return None


@cache
def _stops() -> dict[str, Profile]:
    profiles: dict[str, Profile] = {}
    for word, rules in load("stops").items():
        for rule, table in rules.items():
            for name in table["commands"].split():
                profiles[name] = stop(cast("Decision", word), rule, name, table["why"])
    return profiles


def _stopped(name: str) -> Profile | None:
    return _stops().get(name)


def _compile(name: str, table: dict[str, Any], sets: dict[str, str], inherited: dict[str, Flag]) -> Profile:
    style = table.get("style", "gnu")
    common = _flags(table.get("everywhere", ""), sets, style)
    worse = {**inherited, **common, **_worse_flags(table, sets, style)}
    flags = {**worse, **_flags(table.get("flags", ""), sets, style), **_worse_flags(table, sets, style)}
    return Profile(
        name=name,
        verdict=table.get("verdict", "allow"),
        rule=table.get("rule", ""),
        why=table.get("why", ""),
        style=style,
        flags=flags,
        operands=tuple(table.get("operands", "").split()),
        instead=frozenset(table.get("instead", "").split()),
        sub=_subs(name, table, sets, worse),
        words=tuple((pattern, word, rule, why) for pattern, word, rule, why in table.get("words", [])),
        check=table.get("check", ""),
        wraps=table.get("wraps", -1),
        bare=table.get("bare", "allow"),
        globs=table.get("globs", "allow"),
    )


def _subs(
    name: str, table: dict[str, Any], sets: dict[str, str], worse: dict[str, Flag]
) -> Mapping[str, Profile]:
    makers: dict[str, Callable[[], Profile]] = {}
    for word, rules in table.get("stop", {}).items():
        for rule, names in rules.items():
            entry = {"verdict": word, "rule": rule}
            makers.update(
                (sub, partial(_compile, f"{name} {sub}", entry, sets, worse)) for sub in names.split()
            )
    style = {"style": table["style"]} if "style" in table else {}
    for names, entry in table.get("sub", {}).items():
        whole = {**style, **entry}
        makers.update((sub, partial(_compile, f"{name} {sub}", whole, sets, worse)) for sub in names.split())
    return Subs(makers)


def _worse_flags(table: dict[str, Any], sets: dict[str, str], style: str) -> dict[str, Flag]:
    flags: dict[str, Flag] = {}
    for word in ("ask", "deny"):
        for rule, text in table.get(word, {}).items():
            for flag in _flags(text, sets, style).values():
                flags[flag.name] = msgspec.structs.replace(flag, verdict=cast("Decision", word), rule=rule)
    return flags


def _flags(text: str, sets: dict[str, str], style: str) -> dict[str, Flag]:
    """`-abc` is three flags; `-n=number` takes a value; `--color?` may; `@name` is a set of the file."""
    flags: dict[str, Flag] = {}
    for token in text.split():
        if token.startswith("@"):
            flags.update(_flags(sets[token[1:]], sets, style))
            continue
        for flag in _token(token, style):
            flags[flag.name] = flag
    return flags


def _token(token: str, style: str) -> list[Flag]:
    match = _TOKEN.fullmatch(token)
    if not match:
        return []
    name, optional, kind = match.groups()
    takes: Takes = "may" if optional else "needs" if kind else "nothing"
    single = not name.startswith("--") and name != "-NUM"
    if single and len(name) > 2 and not style.startswith("go") and takes == "nothing":
        return [Flag("-" + letter) for letter in name[1:]]
    return [Flag(name, takes, kind or "text")]


def verdict_of(profile: Profile) -> Verdict | None:
    """The verdict on the command itself, without its arguments."""
    if profile.verdict == "allow":
        return None
    return Verdict(profile.verdict, profile.rule, f"'{profile.name}' {profile.why or why(profile.rule)}.")


def why(rule: str) -> str:
    """What a command or option of this rule does."""
    return _WHY.get(rule, "is not on the list of harmless commands")


_WHY = {
    "network": "uses the network",
    "install": "downloads code",
    "publish": "publishes",
    "history-rewrite": "rewrites history",
    "work-loss": "can lose uncommitted changes",
    "background": "keeps running in the background",
    "inline-code": "runs code given on the command line",
    "hidden-command": "runs a command hidden in its arguments",
    "review-bypass": "bypasses review",
    "destruction": "destroys data",
    "secret": "reads or writes secrets",
    "force-push": "overwrites a branch on the remote",
    "foreign-code": "uses code or settings from elsewhere",
    "persistence": "stays after the run",
    "privilege": "changes permissions",
    "exfiltration": "sends data to another machine",
    "process": "acts on other processes",
    "mode": "changes modes or owners",
    "git-internals": "changes git's own data",
    "guard": "belongs to Flyball",
    "containers": "stops or removes containers outside this run",
    "interactive": "is interactive",
    "unlisted": "is not on the list of harmless commands",
    "agent-settings": "starts or changes an agent outside this run",
}


# --- arguments sorted into options and operands, as getopt would: clusters, abbreviations, attached values

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
    strictest = max(matches, key=lambda flag: SEVERITY[flag.verdict])
    if strictest.verdict != "allow":
        return strictest
    return strictest if len(matches) == 1 and not runs_code(profile.name) else None


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
