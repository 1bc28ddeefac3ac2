"""A policy is a named set of rules, written as data. It inherits "default" unless it says otherwise.

What no policy can change is in the code: secrets, paths outside the workspace, `.git` and `.flyball`.
"""

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Annotated, Any, Literal, cast

import msgspec

from flyball.errors import ConfigError
from flyball.guard.change import Decision, Links, Op, Place, place

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
        return folded_patterns(self.match + self.also)

    def covers(self, at: Place) -> bool:
        """Does any name of the place match? An exemption needs the exact name."""
        if self.except_ and at.exact and all(matches(self.except_, name) for name in at.exact):
            return False
        return any(matches(self.patterns(), name) for name in at.folded)

    def lies_below(self, at: Place) -> bool:
        """Would a link at this place put other files where the rule applies?"""
        return any(leads_into(self.patterns(), name) for name in at.folded)


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

    def covers(self, at: Place) -> bool:
        return any(matches(folded_patterns(self.files), name) for name in at.folded)


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
            names = ", ".join(sorted(self.named))
            raise ConfigError(f"Unknown policy '{name}'. Known policies: {names}.")
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
        parsed = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"The policy file is not valid TOML: {error}.") from None
    tables = parsed.pop("policy", {})
    if parsed or not isinstance(tables, dict):
        stray = ", ".join(sorted(parsed)) or "policy"
        raise ConfigError(f"Unknown key '{stray}' in the policy file. Put every rule under [policy.NAME].")
    for name, table in cast("dict[str, Any]", tables).items():
        if not isinstance(table, dict):
            raise ConfigError(f"[policy.{name}] must be a table of rules.")
    return cast("dict[str, dict[str, Any]]", tables)


def _in_order(tables: Mapping[str, dict[str, Any]], names: set[str]) -> list[str]:
    """Parents before children; a circle or an unknown parent is an error."""
    order: list[str] = []
    while len(order) < len(tables):
        ready = [
            n for n, t in tables.items() if n not in order and _parent(n, t, names) in {*order, *names, ""}
        ]
        if not ready:
            stuck = next(name for name in tables if name not in order)
            raise ConfigError(
                f"Policy '{stuck}' inherits '{_parent(stuck, tables[stuck], names)}', "
                f"which does not exist or inherits it back. Use an existing policy."
            )
        order += ready
    return order


def _parent(name: str, table: Mapping[str, Any], names: set[str]) -> str:
    parent = table.get("inherits")
    if parent is not None:
        return str(parent) if parent != name or name in names else f"{name}"
    return "" if name == "default" and name not in names else "default"


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


# --- the risk tier of a task: T0 only reads, T3 is low (can be undone), T2 medium (dependencies, CI), T1 high (production)
# Rules decide it, first from the plan's paths and words, then from the files that really changed. An agent may raise it,
# never lower it.

RANK: dict[Tier, int] = {"T0": 0, "T3": 1, "T2": 2, "T1": 3}


def tier_of(
    paths: Sequence[str],
    text: str,
    policy: Policy,
    *,
    writes: bool = True,
    over_cost: bool = False,
    workspace: str = "/workspace",
) -> tuple[Tier, tuple[str, ...]]:
    """The tier of a plan, or of a change if `text` is empty, and why. `writes=False` only reads."""
    if not paths and not writes:
        return "T0", ("Only reads.",)
    reasons = [*_by_paths(paths, policy, workspace), *_by_words(text, policy)]
    if over_cost:
        reasons.append(("T2", "The cost estimate is over the threshold."))
    tier: Tier = "T3"
    for other, _ in reasons:
        tier = raise_to(tier, other)
    why = tuple(dict.fromkeys(reason for other, reason in reasons if other == tier))
    return tier, why or ("Can be undone, and changes nothing sensitive.",)


def raise_to(tier: Tier, at_least: Tier) -> Tier:
    """The higher of two tiers: only a person can lower one."""
    return max(tier, at_least, key=lambda one: RANK[one])


def exceeds(tier: Tier, approved: Tier) -> bool:
    """Is the tier higher than what was approved?"""
    return RANK[tier] > RANK[approved]


def needs_approval(tier: Tier) -> bool:
    return tier in ("T1", "T2")


def needs_rollback_note(tier: Tier) -> bool:
    return tier == "T1"


def _by_paths(paths: Sequence[str], policy: Policy, workspace: str) -> Iterable[tuple[Tier, str]]:
    links = Links(workspace, {})
    for path in paths:
        where = place(path, links)
        if where.outside:
            yield "T1", f"{path} is outside the workspace."
        for tier, rule in policy.tiers.items():
            for reason in _reasons(path, where, rule, policy):
                yield tier, reason


def _reasons(path: str, where: Place, rule: TierRule, policy: Policy) -> Iterable[str]:
    for name in rule.rules:
        path_rule = policy.paths.get(name)
        if path_rule is not None and path_rule.covers(where):
            yield f"{path}: {path_rule.reason}"
    if any(matches(folded_patterns(rule.paths), name) for name in where.folded):
        yield f"{path} is a sensitive path."


def _by_words(text: str, policy: Policy) -> Iterable[tuple[Tier, str]]:
    for tier, rule in policy.tiers.items():
        if rule.words:
            for match in _words(rule.words).finditer(text):
                yield tier, f"The plan mentions '{match.group().lower()}'."


@lru_cache(maxsize=16)
def _words(words: tuple[str, ...]) -> re.Pattern[str]:
    longest = sorted(words, key=lambda word: (-len(word), word))
    body = "|".join(re.escape(word).replace(r"\ ", r"[\s_-]+") for word in longest)
    return re.compile(rf"(?<![\w-])(?:{body})(?![\w-])", re.IGNORECASE)


# --- patterns, as in ignore files
# `name` is that file at any depth; `name/` that folder and all in it; a pattern with a slash inside counts from
# the root of the workspace; `**/` is any depth; `*` and `?` stay within a name; `{a,b}` is either.


def matches(patterns: tuple[str, ...], path: str) -> bool:
    return bool(patterns) and _either(patterns).fullmatch(path) is not None


def leads_into(patterns: Iterable[str], path: str) -> bool:
    """Is `path` a folder on the way to what a pattern counted from the root would match?"""
    parts = path.split("/")
    tails = ["/".join(parts[at:]) + "/" for at in range(len(parts))]
    return any(
        any(_prefix(pattern.removeprefix("**/")).startswith(tail) for tail in tails)
        if pattern.startswith("**/")
        else _prefix(pattern).startswith(tails[0])
        for pattern in patterns
    )


@lru_cache(maxsize=512)
def _either(patterns: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{_whole(pattern)})" for pattern in patterns), re.DOTALL)


@lru_cache(maxsize=512)
def folded_patterns(patterns: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(pattern.casefold() for pattern in patterns)


def _whole(pattern: str) -> str:
    start = "" if _is_anchored(pattern) else "(?:.*/)?"
    return start + _regex(_body(pattern)) + ("(?:/.*)?" if _is_folder(pattern) else "")


def _is_anchored(pattern: str) -> bool:
    return "/" in pattern.rstrip("/")


def _is_folder(pattern: str) -> bool:
    return pattern.removeprefix("/").endswith(("/", "/**"))


def _body(pattern: str) -> str:
    body = pattern.removeprefix("/")
    return body.removesuffix("**").rstrip("/") if _is_folder(pattern) else body


def _regex(body: str) -> str:
    out: list[str] = []
    depth = at = 0
    while at < len(body):
        piece, length = _piece(body, at, depth)
        depth += {"{": 1, "}": -1}.get(body[at], 0) if length == 1 else 0
        out.append(piece)
        at += length
    return "".join(out)


def _piece(body: str, at: int, depth: int) -> tuple[str, int]:
    if body.startswith("**/", at):
        return "(?:.*/)?", 3
    if body.startswith("**", at):
        return ".*", 2
    char = body[at]
    plain = {"*": "[^/]*", "?": "[^/]", "{": "(?:", "}": ")" if depth else "\\}"}
    if char == "," and depth:
        return "|", 1
    return plain.get(char, re.escape(char)), 1


def _prefix(pattern: str) -> str:
    """The literal folders that a pattern counted from the root begins with."""
    if "/" not in pattern.rstrip("/"):
        return ""
    literal = re.split(r"[*?{]", pattern.removeprefix("/"))[0]
    return literal if literal.endswith("/") else literal + "/"
