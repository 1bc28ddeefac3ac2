"""Source is read as its language reads it, and nothing in it can hide from a reader."""

from __future__ import annotations

import codecs

import pytest

from flyball.acts.run_files import shipped_policies
from flyball.guard.change import Change, Verdict
from flyball.guard.changes import judge_changes, text_of
from flyball.guard.secrets import find_secret, redact
from flyball.reading.terminal import plain, spelled_out

POLICY = shipped_policies().get()
KEY = "Zx9kQ2pW7!"  # looks like a password, is none
TOKEN = "a1B2c3D4e5F6g7H8i9J0k1L2"


def judged(path: str, new: str, *, binary: bool = False) -> Verdict:
    change = Change(path=path, op="add", binary=binary)
    return judge_changes([change], POLICY, workspace="/w/repo", texts={path: (None, new)})


@pytest.mark.parametrize(
    ("path", "text", "rule"),
    [
        ("a.py", "# -*- coding: utf-7 -*-\nx = 1\n", "odd-encoding"),
        ("a.py", "#!/usr/bin/python\n# vim: set fileencoding=rot13 :\n", "odd-encoding"),
        ("a.py", "# coding: unicode_escape\nx = 1\n", "odd-encoding"),
        ("a.py", "x = 1  # \u202e esrever\n", "hidden-character"),
        ("a.js", "const is\u200bAdmin = true;\n", "hidden-character"),
        ("a.js", "const team = '👩\u202e';\n", "hidden-character"),
        ("a.go", "package x // \x1b[2K\n", "hidden-character"),
        ("a.sh", "echo hi \x08\x08\n", "hidden-character"),
        ("a.rb", "x = 1 #\u2066\n", "hidden-character"),
        ("a.c", "int a\u00adb;\n", "hidden-character"),
    ],
)
def test_source_that_people_and_interpreters_read_differently_asks(path: str, text: str, rule: str) -> None:
    verdict = judged(path, text)
    assert (verdict.verdict, verdict.rule, verdict.file) == ("ask", rule, path)
    assert verdict.line > 0


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("a.py", "# -*- coding: utf-8 -*-\nx = 'ä'\n"),
        ("a.py", "# coding: latin-1\nx = 1\n"),
        ("a.py", "x = 1\n\n# the coding: of a thing is rot13 here\n"),
        ("a.py", "\ufeffx = 1\n"),
        ("a.py", "def a():\n\x0c\n    return '日本語'\n"),
        ("a.js", "const team = '👩\u200d💻';\n"),
        ("notes.md", "a\u200bb\n"),
    ],
)
def test_ordinary_encodings_and_characters_do_not_ask(path: str, text: str) -> None:
    assert judged(path, text).verdict == "allow"


def test_source_that_is_not_plain_text_asks_and_its_secrets_are_seen() -> None:
    verdict = judged("a.py", "x = 1\n", binary=True)
    assert (verdict.verdict, verdict.rule) == ("ask", "odd-encoding")
    assert judged("settings.dat", f"password = {KEY}\n", binary=True).rule == "secret"


@pytest.mark.parametrize(
    "data",
    [
        codecs.BOM_UTF16_LE + "password = x\n".encode("utf-16-le"),
        codecs.BOM_UTF16_BE + "password = x\n".encode("utf-16-be"),
        codecs.BOM_UTF8 + b"password = x\n",
        "password = x\n".encode("utf-16-le"),
        "password = x\n".encode("utf-16-be"),
        "password = x\n".encode("utf-32"),
        b"password\0 = x\n\0",
    ],
)
def test_text_is_found_in_files_that_git_takes_for_binary(data: bytes) -> None:
    assert text_of(data) == "password = x\n"


def test_an_image_is_not_text() -> None:
    assert text_of(bytes(range(256)) * 20) is None


@pytest.mark.parametrize(
    "text",
    [
        f"pass\x1b[31mword={KEY}",
        f"pass\u200bword={KEY}",
        f"password={KEY[:4]}\u200b{KEY[4:]}",
        "\0".join(f"password={KEY}"),
        f"password:\n  {KEY}",
        f"password: >-\n  {KEY}",
        f"api_key: |\n    {TOKEN}",
        f"secret_key:\n  '{TOKEN}'",
        "postgres://user:Zx9/kQ2pW@db.example.com/app",
        "PASSWORD=/Zx9kQ2pW7",
        "PGPASSWORD='x/Zx9kQ2pW7' psql",
        "mysql://app:Zx9/Vb3/kQ2pW7@db.example.com",
        f"pw:\n  {KEY}",
        f"db:\n  - password:\n      {KEY}",
    ],
)
def test_a_secret_is_redacted_however_it_is_cut_or_broken(text: str) -> None:
    clear = "".join(char for char in redact(text) if char.isprintable())
    assert "[redacted" in clear
    assert not any(part in clear for part in (KEY, KEY[4:], TOKEN, "kQ2pW"))


@pytest.mark.parametrize(
    "text",
    [
        "token:\n  type: string",
        "password:\n  required: true",
        "http://localhost:3000/a@b.co",
        "PASSWORD=/run/secrets/db",
    ],
)
def test_what_only_looks_alike_is_not_redacted(text: str) -> None:
    assert redact(text) == text


def test_a_line_of_a_diff_with_nuls_holds_its_secret() -> None:
    assert find_secret("a.txt", "+" + "\0".join(f"password={KEY}"), diff=True) is not None


def test_a_diff_on_a_terminal_shows_all_of_the_code() -> None:
    text = "+a = 1 # \x1b]0;\n+evil()\n+b = 2 # \x07\n+c\rd\u202e\r\n"
    assert spelled_out(text) == "+a = 1 # \\x1b]0;\n+evil()\n+b = 2 # \\x07\n+c\\x0dd\\x202e\n"


def test_a_title_sequence_ends_with_its_line() -> None:
    assert plain("a\x1b]0;title\x07b") == "ab"
    assert "evil()" in plain("a\x1b]0;\nevil()\n\x07b")
