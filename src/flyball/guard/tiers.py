"""The risk tier of a task: T0 only reads, T3 is low (can be undone), T2 medium (dependencies, CI), T1 high (production).

Rules decide it, first from the plan's paths and words, then from the files that really changed. An agent may raise
it, never lower it.
"""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

from flyball.guard.paths import globs
from flyball.guard.paths.links import Links, Place, place
from flyball.guard.policy import Policy, Tier, TierRule

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
        named = policy.paths.get(name)
        if named is not None and named.covers(where):
            yield f"{path}: {named.reason}"
    if any(globs.matches(globs.folded(rule.paths), name) for name in where.folded):
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
