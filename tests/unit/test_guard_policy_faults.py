"""What is wrong with a policy file is told with its key and its line, one sentence each; nothing that holds is blamed."""

from __future__ import annotations

import pytest

from flyball.acts.run_files import shipped_policies
from flyball.errors import ConfigError
from flyball.guard.policy import json_schema, parse
from flyball.guard.policy_faults import faults, line_of

BASE = shipped_policies()


@pytest.mark.parametrize(
    ("text", "line", "key", "words"),
    [
        ("[policy.own]\ntest_weakning = 'ask'", 2, "policy.own.test_weakning", "'test_weakening'"),
        ("[policy.own.radius]\nfile_ask = 3", 2, "policy.own.radius.file_ask", "'files_ask'"),
        ("[policy.own]\nradius = { files_ask = '5' }", 2, "policy.own.radius.files_ask", "'5'"),
        ("[policy.own]\nradius = { files_ask = -1 }", 2, "policy.own.radius.files_ask", "-1"),
        ("[policy.own]\n\npaths.ci = { verdict = 'aks' }", 3, "policy.own.paths.ci.verdict", "'ask'"),
        ("[policy.own.paths.ci]\nalso = 'x/'", 2, "policy.own.paths.ci.also", '["x/"]'),
        ("[policy.own.paths.ci]\nalso = ['a', 3]", 2, "policy.own.paths.ci.also[1]", "3"),
        ("[policy.own.paths.new]\nverdict = 'ask'", 1, "policy.own.paths.new", "reason, match"),
        ("[policy.own.lines.x]\nverdict='ask'\nreason='r'\nfiles=['a']\nlines=['(']", 1, "policy.own.lines.x", "'('"),
        ("[policy.own]\ninherits = 'defualt'", 2, "policy.own.inherits", "'default'"),
        ("[policy.a]\ninherits = 'b'\n[policy.b]\ninherits = 'a'", 2, "policy.a.inherits", "a → b → a"),
        ("[policy.own]\ninherits = 'own'", 2, "policy.own.inherits", "own → own"),
        ("[policy.own.tiers.T9]\npaths = []", 1, "policy.own.tiers.T9", "T1, T2"),
        ("[policy.own]\nradius = 3", 2, "policy.own.radius", "table"),
        ("budget = 3", 1, "budget", "[policy.NAME]"),
        ("[policy]\nown = 3", 2, "policy.own", "table"),
        ("[policy.own\n", 1, "", "TOML"),
    ],
)  # fmt: skip
def test_a_fault_is_told_with_its_line(text: str, line: int, key: str, words: str) -> None:
    first = faults(text, BASE)[0]
    assert (first.line, first.key) == (line, key)
    assert words in first.message
    with pytest.raises(ConfigError):
        parse(text, BASE)


def test_every_fault_is_told_at_once() -> None:
    text = "top = 1\n[policy.a]\nx = 1\ninherits = 'no'\nradius = { files_ask = 'n', y = 2 }\n"
    assert [fault.key for fault in faults(text, BASE)] == [
        "top",
        "policy.a.inherits",
        "policy.a.x",
        "policy.a.radius.files_ask",
        "policy.a.radius.y",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[policy.default]\n",
        "[policy.own]\nradius = { files_ask = 5 }\npaths.ci = { also = ['x/'] }\n",
        "[policy.a]\ninherits = 'b'\n[policy.b]\npaths.n = { verdict = 'ask', reason = 'r', match = ['n/'] }\n",
        "[policy.default]\ninherits = 'default'\n",
    ],
)
def test_a_policy_that_holds_has_no_fault(text: str) -> None:
    parse(text, BASE)
    assert faults(text, BASE) == []


def test_the_line_of_a_key_is_found_in_every_form_of_a_table() -> None:
    text = '[policy.a]\nradius.files_ask = 1\n\n[policy.a.paths]\nci = { also = [] }\n[policy.a.locks]\n"x.lock" = []\n'
    assert line_of(text, "policy.a.radius.files_ask") == 2
    assert line_of(text, "policy.a.paths.ci.also") == 5
    assert line_of(text, "policy.a.locks.x") == 6
    assert line_of(text, "policy.b.paths.ci") == 0


def test_the_schema_asks_for_nothing_that_is_inherited() -> None:
    schema = json_schema()
    assert "required" not in schema["$defs"]["Policy"]
    assert {"inherits", "radius", "paths"} <= set(schema["$defs"]["Policy"]["properties"])
    assert "name" not in schema["$defs"]["Policy"]["properties"]
    assert schema["properties"]["policy"]["additionalProperties"] == {"$ref": "#/$defs/Policy"}
