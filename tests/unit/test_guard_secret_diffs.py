"""A diff as people see it holds no secret, and is otherwise the same."""

from __future__ import annotations

import difflib

import pytest

from flyball.guard.secret_diffs import redact_diff

TOKEN = "ghp_" + "aB3dE6gH9jK2mN5pQ8sT1vW4xY7zC0fL3hR6"
BODY = ["MIIEpAIBAAKCAQEAzRqYc3vVw", "Q9dS8kfLmPp2oXe7uYtRrEwW", "qZxSdCfVgBhNjMkLpOiUyTrE"]
KEY = ["-----BEGIN RSA PRIVATE KEY-----", *BODY, "-----END RSA PRIVATE KEY-----"]

# path, lines before, lines after, what must not be shown
HIDDEN = (
    ("config.py", [], [f'KEY = "{TOKEN}"'], [TOKEN]),
    ("config.py", [f'KEY = "{TOKEN}"'], [], [TOKEN]),
    ("config.py", [f'KEY = "{TOKEN}"'], [f'KEY = "{TOKEN}"', "x = 1"], [TOKEN]),
    ("config.py", ["x = 1"], [f'a, b = "{TOKEN}", "{TOKEN[:-3]}abc"'], [TOKEN, f"{TOKEN[:-3]}abc"]),
    ("settings.yaml", ["a: 1"], ["password:", "  gK8#mQ2!vX7zR4pW"], ["gK8#mQ2!vX7zR4pW"]),
    ("settings.yaml", ["password:"], ["password:", "  gK8#mQ2!vX7zR4pW"], ["gK8#mQ2!vX7zR4pW"]),
    (".netrc", [], ["machine example.org login me password gK8mQ2vX7zR4pW"], ["gK8mQ2vX7zR4pW"]),
    (".pgpass", [], ["db:5432:shop:me:gK8mQ2vX7zR4pW"], ["gK8mQ2vX7zR4pW"]),
    ("id_rsa", [], KEY, BODY),
    ("id_rsa", KEY, ["gone"], BODY),
    (
        "app.py",
        ["import os"],
        ["import os", 'URL = "postgres://me:gK8mQ2vX7zR4pW@db/shop"'],
        ["gK8mQ2vX7zR4pW"],
    ),
    ("app.py", [], [f'T = "{TOKEN[:12]}" + "{TOKEN[12:]}"'], [TOKEN[:12], TOKEN[12:]]),
    (f"{TOKEN}.txt", ["a"], ["b"], [TOKEN]),
    ("a.py", [f"def f(token='{TOKEN}'):", *"abcdefgh"], [f"def f(token='{TOKEN}'):", *"abcdefgX"], [TOKEN]),
)


def diff_of(path: str, before: list[str], after: list[str]) -> str:
    """As git writes it, with a hunk's head that ends in the line above."""
    lines = list(difflib.unified_diff(before, after, f"a/{path}", f"b/{path}", lineterm="", n=3))
    return "\n".join(
        (
            f"diff --git a/{path} b/{path}",
            *(f"{x} {before[0]}" if x[:2] == "@@" and before else x for x in lines),
            "",
        )
    )


@pytest.mark.parametrize(("path", "before", "after", "hidden"), HIDDEN)
def test_a_diff_shows_no_secret(path: str, before: list[str], after: list[str], hidden: list[str]) -> None:
    other = diff_of("other.py", ["password = ask()"], ["password = ask(1)"])
    diff = f"{diff_of(path, before, after)}{other}"
    shown = redact_diff(diff)
    assert [part for part in hidden if part in shown.text] == []
    assert shown.redacted > 0 and shown.text.endswith(other)
    marks = [line[:1] for line in diff.split("\n")]
    assert [line[:1] for line in shown.text.split("\n")] == marks, (
        "every line keeps its mark, and none is lost"
    )


def test_a_diff_without_secrets_is_not_changed() -> None:
    diff = diff_of("app.py", ["password = ask()", "b", "c"], ["password = input()", "b", "d"])
    assert redact_diff(diff).text == diff and redact_diff(diff).redacted == 0
    assert redact_diff("").text == ""


@pytest.mark.sampled(0)
def test_a_large_diff_full_of_names_is_redacted_in_linear_time() -> None:
    line = 'password_token_key = secret_name("x"); '
    one = diff_of("big.py", [], [line * 4 for _ in range(3000)])
    diff = one * 3 + diff_of("last.py", [], [f'KEY = "{TOKEN}"'])
    shown = redact_diff(diff)
    assert TOKEN not in shown.text and shown.text.count("\n") == diff.count("\n")
