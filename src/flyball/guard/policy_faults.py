"""What is wrong with a policy file, each fault with its key, its line and one sentence; and what one allows more than another."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar, cast

import msgspec
from msgspec import inspect

from flyball.errors import ConfigError
from flyball.guard.change import SEVERITY, Decision
from flyball.guard.policy import LineRule, PathRule, Policies, Policy, Radius, TierRule, Tools, parse

_RULE = ("verdict", "reason", "match")


class Fault(msgspec.Struct, frozen=True):
    """`key` and `line` say where it is (line 0 if unknown)."""

    key: str
    line: int
    message: str


def faults(text: str, base: Policies) -> list[Fault]:
    """Everything that is wrong with a policy file; empty if `parse` accepts it."""
    try:
        parsed = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        line = re.search(r"line (\d+)", str(error))
        return [Fault("", int(line[1]) if line else 0, f"Not valid TOML: {error}.")]
    all_faults = [Fault(key, line_of(text, key), message) for key, message in _of_file(parsed, base)]
    return all_faults or _last(text, base)


def _last(text: str, base: Policies) -> list[Fault]:
    """Faults that show only when all is put together: an incomplete rule, a bad pattern."""
    try:
        parse(text, base)
    except ConfigError as error:
        match = re.search(r"`\$\.([\w.\[\]-]+)`|, (lines\.[\w-]+):", str(error))
        policy = re.search(r"Policy '([\w-]+)'", str(error))
        key = f"policy.{policy[1]}.{match[1] or match[2]}" if match and policy else ""
        return [Fault(key, line_of(text, key), str(error))]
    return []


def _of_file(parsed: Mapping[str, Any], base: Policies) -> Iterator[tuple[str, str]]:
    for key in parsed:
        if key != "policy":
            yield key, f"Unknown key '{key}'. Put every rule under [policy.NAME]."
    tables = parsed.get("policy", {})
    if not isinstance(tables, dict):
        yield "policy", "'policy' must be a table. Write [policy.NAME] and its rules below."
        return
    tables_ = cast("dict[str, Any]", tables)
    for name, table in tables_.items():
        if not isinstance(table, dict):
            yield f"policy.{name}", f"[policy.{name}] must be a table of rules."
            continue
        rules = cast("dict[str, Any]", table)
        yield from _parent(name, rules, tables_, base)
        own = {key: value for key, value in rules.items() if key != "inherits"}
        yield from _value(f"policy.{name}", own, inspect.type_info(Policy), hidden=("name",))
        yield from _incomplete(name, own, tables_, base)


def _incomplete(
    name: str, own: Mapping[str, Any], tables: Mapping[str, Any], base: Policies
) -> Iterator[tuple[str, str]]:
    """A rule that no other policy has must be complete."""
    for table, needed in (("paths", _RULE), ("lines", (*_RULE[:2], "files", "lines"))):
        rules_ = {rule for policy in base.named.values() for rule in getattr(policy, table)}
        rules_ |= {rule for other, rules in tables.items() if other != name for rule in _rules(rules, table)}
        for rule, fields in _rules(own, table).items():
            lacks = [field for field in needed if field not in fields] if isinstance(fields, dict) else []
            if rule not in rules_ and lacks:
                key = f"policy.{name}.{table}.{rule}"
                yield key, f"The new rule '{key}' needs {', '.join(lacks)}."


def _rules(policy: Any, table: str) -> dict[str, Any]:
    rules = cast("dict[str, Any]", policy).get(table) if isinstance(policy, dict) else None
    return cast("dict[str, Any]", rules) if isinstance(rules, dict) else {}


def _parent(
    name: str, table: Mapping[str, Any], tables: Mapping[str, Any], base: Policies
) -> Iterator[tuple[str, str]]:
    parent = table.get("inherits")
    key = f"policy.{name}.inherits"
    if parent is None:
        return
    if not isinstance(parent, str):
        yield key, f"'inherits' of '{name}' must be the name of a policy."
        return
    if parent not in tables and parent not in base.named:
        yield (
            key,
            f"'{name}' inherits '{parent}', which does not exist{_nearest(parent, [*tables, *base.named])}.",
        )
        return
    way = _circle(name, tables, base)
    if way:
        yield key, f"'{name}' inherits itself ({' → '.join(way)})."


def _circle(name: str, tables: Mapping[str, Any], base: Policies) -> list[str]:
    way, at = [name], name
    while at in tables:
        parent = tables[at].get("inherits") if isinstance(tables[at], dict) else None
        if not isinstance(parent, str) or (parent == at and at in base.named):
            return []
        way.append(parent)
        if parent in way[:-1]:
            return way if parent == name else []
        at = parent
    return []


# ---- values against their types --------------------------------------------------------------------------


def _value(
    key: str, value: Any, kind: inspect.Type, hidden: tuple[str, ...] = ()
) -> Iterator[tuple[str, str]]:
    kind = kind.type if isinstance(kind, inspect.Metadata) else kind
    if isinstance(kind, inspect.StructType):
        yield from _struct(key, value, kind, hidden)
    elif isinstance(kind, inspect.DictType):
        yield from _dict(key, value, kind)
    elif isinstance(kind, inspect.VarTupleType):
        yield from _list(key, value, kind)
    else:
        yield from _plain(key, value, kind)


def _struct(
    key: str, value: Any, kind: inspect.StructType, hidden: tuple[str, ...]
) -> Iterator[tuple[str, str]]:
    fields = {field.encode_name: field.type for field in kind.fields if field.name not in hidden}
    if not isinstance(value, dict):
        yield key, f"'{key}' must be a table with {_listed(fields)}, not {_shown(value)}."
        return
    for name, inner in cast("dict[str, Any]", value).items():
        if name in fields:
            yield from _value(f"{key}.{name}", inner, fields[name])
        else:
            suggestion = _nearest(name, fields) or f"; known keys: {_listed(fields)}"
            yield f"{key}.{name}", f"Unknown key '{name}' in '{key}'{suggestion}."


def _dict(key: str, value: Any, kind: inspect.DictType) -> Iterator[tuple[str, str]]:
    if not isinstance(value, dict):
        yield key, f"'{key}' must be a table, not {_shown(value)}."
        return
    for name, inner in cast("dict[str, Any]", value).items():
        if isinstance(kind.key_type, inspect.LiteralType) and name not in kind.key_type.values:
            words = [str(word) for word in kind.key_type.values]
            yield f"{key}.{name}", f"Unknown key '{name}' in '{key}'; known keys: {_listed(words)}."
        else:
            yield from _value(f"{key}.{name}", inner, kind.value_type)


def _list(key: str, value: Any, kind: inspect.VarTupleType) -> Iterator[tuple[str, str]]:
    if not isinstance(value, list):
        yield key, f"'{key}' must be a list, not {_shown(value)}. Write [{_toml(value)}]."
        return
    for at, inner in enumerate(cast("list[Any]", value)):
        yield from _value(f"{key}[{at}]", inner, kind.item_type)


def _plain(key: str, value: Any, kind: inspect.Type) -> Iterator[tuple[str, str]]:
    if isinstance(kind, inspect.LiteralType):
        if value not in kind.values:
            words = [str(word) for word in kind.values]
            yield (
                key,
                f"'{key}' must be one of {_listed(words)}, not {_shown(value)}{_nearest(value, words)}.",
            )
    elif isinstance(kind, inspect.BoolType):
        if not isinstance(value, bool):
            yield key, f"'{key}' must be true or false, not {_shown(value)}."
    elif isinstance(kind, inspect.IntType):
        if isinstance(value, bool) or not isinstance(value, int) or (kind.ge is not None and value < kind.ge):
            yield key, f"'{key}' must be a whole number of at least {kind.ge or 0}, not {_shown(value)}."
    elif isinstance(kind, inspect.StrType) and not isinstance(value, str):
        yield key, f"'{key}' must be text, not {_shown(value)}."


def _nearest(name: object, names: Iterable[str]) -> str:
    near = difflib.get_close_matches(str(name), sorted(set(names)), 1, 0.6)
    return f" (did you mean '{near[0]}'?)" if near else ""


def _listed(words: Iterable[str]) -> str:
    return ", ".join(sorted(words))


def _shown(value: Any) -> str:
    if isinstance(value, dict | list):
        return "a table" if isinstance(value, dict) else "a list"
    return repr(value) if isinstance(value, str) else str(value).lower()


def _toml(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value).lower()


# ---- the line of a key -------------------------------------------------------------------------------------

_HEADER = re.compile(r"\s*\[+\s*([^\]]+?)\s*\]+\s*(?:#.*)?")
_KEY = re.compile(r"\s*((?:[\w-]+|\"[^\"]+\"|'[^']+')(?:\s*\.\s*(?:[\w-]+|\"[^\"]+\"|'[^']+'))*)\s*=")


def line_of(text: str, key: str) -> int:
    """The line that says `key`, or the nearest table around it; 0 if there is none."""
    parts = _parts(re.sub(r"\[\d+\]", "", key))
    best, at = 0, 0
    folder: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        header, assigned = _HEADER.fullmatch(line), _KEY.match(line)
        if header:
            folder = _parts(header[1])
        path = folder if header else [*folder, *_parts(assigned[1])] if assigned else []
        depth = len(path) if path and path == parts[: len(path)] else 0
        if depth > best:
            best, at = depth, number
    return at if best > 1 or len(parts) <= 1 else 0


def _parts(key: str) -> list[str]:
    return [part.strip().strip("\"'") for part in re.findall(r"\"[^\"]+\"|'[^']+'|[^.]+", key)]


# ---- what another policy allows ------------------------------------------------------------------------------


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
        after_rule = b.tiers.get(tier, TierRule())
        missing = [
            *_lost(rule.paths, after_rule.paths),
            *_lost(rule.rules, after_rule.rules),
            *_lost(rule.words, after_rule.words),
        ]
        yield from (f"tiers.{tier} no longer includes {item}." for item in missing)


def _looser_tools(a: Tools, b: Tools) -> Iterator[str]:
    default: Decision = "allow"
    yield from _lower("tools.network", a.network, b.network)
    yield from _lower("tools.unknown", a.unknown, b.unknown)
    for name, old in a.named.items():
        yield from _lower(f"tools.named.{name}", old, b.named.get(name, default))
    for name, new in b.named.items():
        if name not in a.named:
            yield from _lower(f"tools.named.{name}", b.unknown, new)


def _lost(old: Sequence[str], new: Sequence[str]) -> list[str]:
    return [item for item in old if item not in new]
