"""A pattern that is looked up matches exactly what its regular expression matches."""

import random
import re
import tomllib
from pathlib import Path
from typing import Any

from flyball.guard.paths import globs

POLICY = Path(globs.__file__).parents[1] / "policies" / "default.toml"
PIECES = (
    "a",
    "b",
    ".env",
    "**/",
    "**",
    "*",
    "?",
    "{",
    "}",
    ",",
    "/",
    "x.y",
    "{a,b}",
    "{a,}",
    "\\",
    "+",
    "\n",
)


def shipped(value: Any) -> list[tuple[str, ...]]:
    """Every list of patterns or words in the policy that ships."""
    if isinstance(value, dict):
        return [found for part in value.values() for found in shipped(part)]
    if isinstance(value, list) and value and all(isinstance(item, str) for item in value):
        return [tuple(value)]
    return [found for part in value for found in shipped(part)] if isinstance(value, list) else []


def pattern(chance: random.Random) -> str:
    return "".join(chance.choice(PIECES) for _ in range(chance.randint(0, 6)))


def path(chance: random.Random, patterns: tuple[str, ...]) -> str:
    """One that a pattern may match, or nearly."""
    made = chance.choice(patterns) if patterns else pattern(chance)
    made = re.sub(r"\{([^{}]*)\}", lambda found: chance.choice(found.group(1).split(",")), made)
    for wild, stands_for in (
        ("**/", ("", "q/", "q/r/")),
        ("**", ("", "z/y")),
        ("*", ("", "w.v")),
        ("?", "a/"),
    ):
        made = made.replace(wild, chance.choice(stands_for))
    change = chance.choice(("{}", "{}", "sub/{}", "{}/more", "{}x", "/{}", "x{}"))
    return change.format(made)


def told(patterns: tuple[str, ...], name: str, looked_up: bool) -> bool | str:
    try:
        if looked_up:
            return globs.matches(patterns, name)
        return bool(patterns) and globs.either(patterns).fullmatch(name) is not None
    except re.error:
        return "no pattern"


def test_what_is_looked_up_is_what_the_expression_says() -> None:
    chance, found = random.Random(1), 0
    known = shipped(tomllib.loads(POLICY.read_text("utf-8")))
    for _ in range(6_000):
        own = tuple(pattern(chance) for _ in range(chance.randint(0, 4)))
        patterns = chance.choice(known) if chance.random() < 0.5 else own
        name = path(chance, patterns)
        said = told(patterns, name, looked_up=False)
        assert told(patterns, name, looked_up=True) == said, (patterns, name)
        found += said is True
    assert found > 1_000
