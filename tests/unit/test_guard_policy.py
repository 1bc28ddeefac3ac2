"""Policies: read, inherited, hashed, compared."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

import flyball.guard
from flyball.errors import ConfigError
from flyball.guard.change import Change
from flyball.guard.changes import judge_changes
from flyball.guard.policy import Policy, json_schema, parse, policy_hash
from flyball.guard.policy_faults import looser

TEXT = (Path(flyball.guard.__file__).parent / "policies" / "default.toml").read_text("utf-8")
BASE = parse(TEXT)
DEFAULT = BASE.get()


def policy(text: str, name: str = "own") -> Policy:
    return parse(text, BASE).get(name)


def test_the_default_policy_has_the_known_limits() -> None:
    radius = DEFAULT.radius
    assert (radius.files_ask, radius.files_deny, radius.lines_ask) == (20, 200, 800)
    assert (radius.deletions_ask, radius.deletions_deny) == (5, 30)


def test_a_policy_inherits_what_it_does_not_say() -> None:
    own = policy('[policy.own]\ninherits = "default"\nradius = { files_ask = 5 }')
    assert (own.name, own.radius.files_ask, own.radius.lines_ask) == ("own", 5, 800)
    assert own.paths == DEFAULT.paths


def test_a_policy_without_a_parent_inherits_default() -> None:
    assert policy("[policy.own]\n").paths == DEFAULT.paths


def test_the_default_itself_can_be_extended() -> None:
    assert policy("[policy.default.radius]\nfiles_ask = 3", "default").radius.files_ask == 3


def test_a_chain_of_policies_is_followed_in_any_order() -> None:
    text = '[policy.c]\ninherits = "b"\n[policy.b]\nradius = { lines_ask = 7 }\n'
    assert policy(text, "c").radius.lines_ask == 7


def test_also_adds_to_what_is_inherited() -> None:
    own = policy(
        '[policy.own.paths.ci]\nalso = ["release/"]\n[policy.child]\ninherits = "own"\npaths.ci = {also = ["x/"]}'
    )
    child = policy(
        '[policy.own.paths.ci]\nalso = ["release/"]\n[policy.child]\ninherits = "own"\npaths.ci = {also = ["x/"]}',
        "child",
    )
    assert own.paths["ci"].also == ("release/",)
    assert child.paths["ci"].also == ("release/", "x/")
    ruling = judge_changes([Change("release/go.sh", "add")], own, workspace="/w")
    assert (ruling.verdict, ruling.rule) == ("ask", "ci")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[policy.own", "TOML"),
        ("x = 1", "'x'"),
        ("extra = 1\n[more]\n", "'extra, more'"),
        ("policy = 3", "'policy'"),
        ("[policy]\nown = 3", "policy.own"),
        ('[policy.own]\ninherits = "nobody"', "'nobody'"),
        ('[policy.a]\ninherits = "b"\n[policy.b]\ninherits = "a"', "inherits"),
        ("[policy.own]\nfoo = 1", "foo"),
        ("[policy.own.radius]\nfiles_ask = -1", "files_ask"),
        ('[policy.own.paths.x]\nverdict = "maybe"\nreason = "r"\nmatch = []', "verdict"),
        (
            '[policy.own.lines.x]\nverdict = "ask"\nreason = "r"\nfiles = []\nlines = ["("]',
            "lines.x",
        ),
    ],
)
def test_a_wrong_policy_is_named_in_a_sentence(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as told:
        parse(text, BASE)
    assert "\n" not in str(told.value)


def test_an_unknown_policy_is_named_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=r"'none'.*default"):
        BASE.get("none")


def test_the_hash_depends_on_the_rules_and_on_nothing_else() -> None:
    assert policy_hash(DEFAULT) == policy_hash(parse("# a remark\n" + TEXT).get())
    assert policy_hash(DEFAULT) != policy_hash(policy("[policy.own]\n"))
    assert len(policy_hash(DEFAULT)) == 64


def test_a_policy_survives_being_written_and_read() -> None:
    assert msgspec.json.decode(msgspec.json.encode(DEFAULT), type=Policy) == DEFAULT


def test_the_schema_knows_every_part() -> None:
    assert {"radius", "paths", "lines", "locks"} <= set(json_schema()["$defs"]["Policy"]["properties"])


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("radius = { files_ask = 50 }", "radius.files_ask"),
        ('paths.ci = { verdict = "allow" }', "paths.ci"),
        ("paths.ci = { match = [] }", "paths.ci"),
        ('paths.ci = { except = ["Jenkinsfile"] }', "paths.ci"),
        ('lines.install-scripts = { verdict = "allow" }', "lines.install-scripts"),
        ('test_weakening = "allow"', "test_weakening"),
        ('commands = { declared = ["make release"] }', "commands.declared"),
        ("commands = { protected_branches = [] }", "commands.protected_branches"),
        ("tiers.T1 = { words = [] }", "tiers.T1"),
    ],
)
def test_what_a_policy_loosens_is_named(text: str, key: str) -> None:
    assert {sentence.split(" ")[0] for sentence in looser(DEFAULT, policy(f"[policy.own]\n{text}"))} == {key}


def test_a_stricter_policy_loosens_nothing() -> None:
    text = '[policy.own]\nradius = { files_ask = 5 }\npaths.ci = { verdict = "deny", also = ["x/"] }'
    assert looser(DEFAULT, policy(text)) == []
