"""A policy is a named set of rules, written as data. It inherits "default" unless it says otherwise.

What no policy can change is in the code: secrets, paths outside the workspace, `.git` and `.flyball`.
"""

import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, TypeVar, cast

import msgspec

from flyball.errors import ConfigError
from flyball.guard.change import Op
from flyball.guard.paths import globs
from flyball.guard.paths.links import Place
from flyball.guard.verdict import SEVERITY, Decision

Count = Annotated[int, msgspec.Meta(ge=0)]
Tier = Literal["T0", "T3", "T2", "T1"]


class Radius(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How much a run may change. Above an `ask` limit a person is asked; from a `deny` limit on it is denied."""

    files_ask: Count
    files_deny: Count
    lines_ask: Count
    deletions_ask: Count
    deletions_deny: Count
    binary_bytes_ask: Count
    text_bytes_ask: Count
    bytes_deny: Count


class PathRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Paths that need approval or are denied. `also` adds to an inherited `match`."""

    verdict: Decision
    reason: str
    match: tuple[str, ...]
    also: tuple[str, ...] = ()
    except_: tuple[str, ...] = msgspec.field(default=(), name="except")

    def patterns(self) -> tuple[str, ...]:
        return globs.folded(self.match + self.also)

    def covers(self, place: Place) -> bool:
        """Does any name of the place match? An exemption needs the exact name."""
        if self.except_ and place.exact and all(globs.matches(self.except_, name) for name in place.exact):
            return False
        return any(globs.matches(self.patterns(), name) for name in place.folded)

    def lies_below(self, place: Place) -> bool:
        """Would a link at this place put other files where the rule applies?"""
        return any(globs.leads_into(self.patterns(), name) for name in place.folded)


class LineRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Added lines that need approval, in these files; `lines` are regular expressions."""

    verdict: Decision
    reason: str
    files: tuple[str, ...]
    lines: tuple[str, ...]
    ops: tuple[Op, ...] = ()
    """Only for these kinds of change; all if empty."""
    unseen: bool = False
    """Also where the lines are unknown."""

    def covers(self, place: Place) -> bool:
        return any(globs.matches(globs.folded(self.files), name) for name in place.folded)


class Commands(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The project's settings for the command guard."""

    declared: tuple[str, ...] = ()
    protected_branches: tuple[str, ...] = ("main", "master")
    remotes: tuple[str, ...] = ("origin",)
    critical: tuple[str, ...] = ()
    """CTO-7: a call that is denied by one of these rules ends the turn at once, and a person is asked."""


class Tools(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Verdicts on agents' tools that are neither commands nor file edits; `named` lists tools by name."""

    network: Decision = "ask"
    unknown: Decision = "ask"
    named: dict[str, Decision] = {}
    """`*` matches any text. An `allow` here counts only for network tools and unknown tools."""


class TierRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What raises a task to this tier: paths, rules of this policy by name, words in the plan."""

    paths: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    words: tuple[str, ...] = ()


class Policy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All rules of the guard."""

    name: str
    radius: Radius
    paths: dict[str, PathRule]
    lines: dict[str, LineRule]
    locks: dict[str, tuple[str, ...]]
    """Lock file to the manifests of which one must change with it."""
    test_weakening: Decision = "ask"
    commands: Commands = Commands()
    tools: Tools = Tools()
    tiers: dict[Literal["T1", "T2"], TierRule] = {}


class Policies(msgspec.Struct, frozen=True):
    """All policies of a file, by name."""

    named: dict[str, Policy]

    def get(self, name: str = "default") -> Policy:
        if name not in self.named:
            known = ", ".join(sorted(self.named))
            raise ConfigError(f"Unknown policy '{name}'. Known policies: {known}.")
        return self.named[name]


def parse(text: str, base: Policies | None = None) -> Policies:
    """The policies of a TOML text, over those of `base`. A ConfigError says what is wrong."""
    tables = _tables(text)
    raw: dict[str, dict[str, Any]] = {}
    if base is not None:
        raw = {name: _plain(policy) for name, policy in base.named.items()}
    for name in _in_order(tables, set(raw)):
        raw[name] = _with_parent(name, tables[name], raw)
    return Policies({name: _policy(name, table) for name, table in raw.items()})


def _tables(text: str) -> dict[str, dict[str, Any]]:
    try:
        held = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"The policy file is not valid TOML: {error}.") from None
    tables = held.pop("policy", {})
    if held or not isinstance(tables, dict):
        stray = ", ".join(sorted(held)) or "policy"
        raise ConfigError(f"Unknown key '{stray}' in the policy file. Put every rule under [policy.NAME].")
    for name, table in cast("dict[str, Any]", tables).items():
        if not isinstance(table, dict):
            raise ConfigError(f"[policy.{name}] must be a table of rules.")
    return cast("dict[str, dict[str, Any]]", tables)


def _in_order(tables: Mapping[str, dict[str, Any]], known: set[str]) -> list[str]:
    """Parents before children; a circle or an unknown parent is an error."""
    order: list[str] = []
    while len(order) < len(tables):
        ready = [
            n for n, t in tables.items() if n not in order and _parent(n, t, known) in {*order, *known, ""}
        ]
        if not ready:
            stuck = next(name for name in tables if name not in order)
            raise ConfigError(
                f"Policy '{stuck}' inherits '{_parent(stuck, tables[stuck], known)}', "
                f"which does not exist or inherits it back. Use an existing policy."
            )
        order += ready
    return order


def _parent(name: str, table: Mapping[str, Any], known: set[str]) -> str:
    stated = table.get("inherits")
    if stated is not None:
        return str(stated) if stated != name or name in known else f"{name}"
    return "" if name == "default" and name not in known else "default"


def _with_parent(name: str, table: Mapping[str, Any], raw: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    parent = _parent(name, table, set(raw))
    own = {key: value for key, value in table.items() if key != "inherits"}
    return _merge(raw.get(parent, {}), own) | {"name": name}


def _merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Tables merge key by key; `also` adds up; anything else is replaced."""
    merged = dict(below)
    for key, value in above.items():
        old = merged.get(key)
        if isinstance(old, dict) and isinstance(value, dict):
            merged[key] = _merge(cast("dict[str, Any]", old), cast("dict[str, Any]", value))
        elif key == "also" and isinstance(old, list | tuple) and isinstance(value, list):
            merged[key] = [*cast("list[Any]", old), *value]
        else:
            merged[key] = value
    return merged


def _policy(name: str, table: dict[str, Any]) -> Policy:
    try:
        policy = msgspec.convert({**table, "name": name}, Policy)
    except msgspec.ValidationError as error:
        raise ConfigError(f"Policy '{name}' is not valid: {error}.") from None
    for rule, lines in policy.lines.items():
        for pattern in lines.lines:
            _regular(name, rule, pattern)
    return policy


def _regular(name: str, rule: str, pattern: str) -> None:
    try:
        re.compile(pattern)
    except re.error as error:
        raise ConfigError(
            f"Policy '{name}', lines.{rule}: {pattern!r} is not a valid regular expression ({error})."
        ) from None


def _plain(policy: Policy) -> dict[str, Any]:
    return cast("dict[str, Any]", msgspec.to_builtins(policy))


def policy_hash(policy: Policy) -> str:
    """The sha256 of the policy in canonical form: keys sorted, nothing left out."""
    import hashlib

    return hashlib.sha256(msgspec.json.encode(policy, order="deterministic")).hexdigest()


def json_schema() -> dict[str, Any]:
    """What a policy file may hold: named policies, each with only what differs from the one it inherits."""
    types = cast("dict[str, dict[str, Any]]", msgspec.json.schema(Policy)["$defs"])
    for one in types.values():
        one.pop("required", None)
    own = types["Policy"]["properties"]
    own.pop("name")
    own["inherits"] = {
        "type": "string",
        "description": "The policy that this one starts from.",
        "default": "default",
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Policies of a repository (.flyball/policy.toml)",
        "type": "object",
        "properties": {"policy": {"type": "object", "additionalProperties": {"$ref": "#/$defs/Policy"}}},
        "additionalProperties": False,
        "$defs": types,
    }


def looser(a: Policy, b: Policy) -> list[str]:
    """What `b` allows that `a` did not, one sentence each; empty if it is as strict or stricter."""
    return [
        *_looser_radius(a, b),
        *_looser_rules("paths", a.paths, b.paths, _less_of_paths),
        *_looser_rules("lines", a.lines, b.lines, _less_of_lines),
        *_looser_rest(a, b),
    ]


def _looser_radius(a: Policy, b: Policy) -> list[str]:
    pairs = ((key, getattr(a.radius, key), getattr(b.radius, key)) for key in Radius.__struct_fields__)
    return [f"radius.{key} goes up from {old} to {new}." for key, old, new in pairs if new > old]


SomeRule = TypeVar("SomeRule", PathRule, LineRule)


def _looser_rules(
    table: str,
    olds: Mapping[str, SomeRule],
    news: Mapping[str, SomeRule],
    less_of: Callable[[SomeRule, SomeRule], Iterable[str]],
) -> Iterator[str]:
    for name, old in olds.items():
        new = news.get(name)
        if new is None:
            yield f"{table}.{name} is removed."
            continue
        yield from _lower(f"{table}.{name}", old.verdict, new.verdict)
        yield from (f"{table}.{name} {less}." for less in less_of(old, new))


def _lower(key: str, old: Decision, new: Decision) -> Iterator[str]:
    if SEVERITY[new] < SEVERITY[old]:
        yield f"{key} goes down from {old} to {new}."


def _less_of_paths(old: PathRule, new: PathRule) -> Iterator[str]:
    yield from (f"no longer covers {p}" for p in _lost(old.patterns(), new.patterns()))
    yield from (f"now exempts {p}" for p in _lost(new.except_, old.except_))


def _less_of_lines(old: LineRule, new: LineRule) -> Iterator[str]:
    if new.ops and (not old.ops or _lost(old.ops, new.ops)):
        yield f"now applies only to {', '.join(new.ops)}"
    yield from (f"no longer covers {p}" for p in (*_lost(old.files, new.files), *_lost(old.lines, new.lines)))


def _looser_rest(a: Policy, b: Policy) -> Iterator[str]:
    yield from _lower("test_weakening", a.test_weakening, b.test_weakening)
    yield from (f"locks.{name} is removed." for name in a.locks if name not in b.locks)
    for name, manifests in a.locks.items():
        yield from (f"locks.{name} now also accepts {m}." for m in _lost(b.locks.get(name, ()), manifests))
    old, new = a.commands, b.commands
    yield from (f"commands.declared adds {line}." for line in _lost(new.declared, old.declared))
    branches = _lost(old.protected_branches, new.protected_branches)
    yield from (f"commands.protected_branches removes {branch}." for branch in branches)
    yield from (f"commands.remotes adds {remote}." for remote in _lost(new.remotes, old.remotes))
    yield from (f"commands.critical removes {rule}." for rule in _lost(old.critical, new.critical))
    yield from _looser_tools(a.tools, b.tools)
    for tier, rule in a.tiers.items():
        kept = b.tiers.get(tier, TierRule())
        gone = [
            *_lost(rule.paths, kept.paths),
            *_lost(rule.rules, kept.rules),
            *_lost(rule.words, kept.words),
        ]
        yield from (f"tiers.{tier} no longer includes {item}." for item in gone)


def _looser_tools(a: Tools, b: Tools) -> Iterator[str]:
    gone: Decision = "allow"
    yield from _lower("tools.network", a.network, b.network)
    yield from _lower("tools.unknown", a.unknown, b.unknown)
    for name, old in a.named.items():
        yield from _lower(f"tools.named.{name}", old, b.named.get(name, gone))
    for name, new in b.named.items():
        if name not in a.named:
            yield from _lower(f"tools.named.{name}", b.unknown, new)


def _lost(old: Sequence[str], new: Sequence[str]) -> list[str]:
    return [item for item in old if item not in new]
