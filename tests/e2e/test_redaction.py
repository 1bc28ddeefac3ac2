"""A secret that an agent utters, wherever it does, is in nothing that is journaled or shown."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.e2e.helpers import FIXED, Place, eventually, on_terminal
from tests.e2e.test_cli_run import AtTerminal

from flyball.acts.run_files import CHUNK, scrub

TOKEN = "ghp_" + "".join(f"{n}aZ" for n in range(10, 22))[:36]
KEYED = {"id": "F1", "text": f"it holds {TOKEN}", "evidence": TOKEN, "file": "calc.py"}


def test_a_secret_in_a_question_a_finding_or_data_is_redacted(place: Place) -> None:
    agent = place.script(
        planner=[{"say": TOKEN, "run": f"echo {TOKEN}", "data": {"steps": [{"title": TOKEN}]}}],
        coder=[
            {"ask": f"Is {TOKEN} the right one?"},
            {"say": TOKEN, "exit": 3},
            {"write": {"calc.py": FIXED}},
        ],
        critic=[{"outcome": "rejected", "finding": KEYED}, {"say": "OUTCOME: accepted"}],
    )
    assert place.run(agent).code == 3
    asked = place.fb("inbox")
    assert "the right one?" in asked.out and TOKEN not in asked.out
    run = place.last()["run"]
    place.fb("answer", run, "No")
    assert place.fb("resume", run).code == 0
    for words in (("log", run), ("log", run, "--json"), ("show", run), ("show", run, "--json"), ("why", run)):
        assert TOKEN not in place.fb(*words).out
    assert "[redacted" in place.fb("log", run, "--json").out
    assert TOKEN.encode() not in b"".join(file.read_bytes() for file in place.state.glob("journal.db*"))
    assert TOKEN not in place.fb("log", run, "--output").out
    acts = place.state / "acts"  # the script itself is the user's own
    written = [file for name in ("out", "err", "exit.json", "prompt") for file in acts.rglob(name)]
    assert len(written) > 10
    assert [file for file in written if TOKEN.encode() in file.read_bytes()] == []


SECRET_FILES = {
    "in a file": {"config.py": f'KEY = "{TOKEN}"\n'},
    "in a name": {f"{TOKEN}.txt": "hello\n"},
    "as a file of logins": {".netrc": f"machine example.org login me password {TOKEN[4:]}\n"},
}
EXITS = (
    *(
        ("diff",),
        ("diff", "--stat"),
        ("diff", "--color"),
        ("inbox",),
        ("inbox", "--json"),
        ("ls",),
        ("ls", "--json"),
    ),
    *(("show",), ("show", "--json"), ("show", "--prompt", "1"), ("why",), ("why", "--json"), ("log",)),
    *(
        ("log", "--json"),
        ("log", "--output"),
        ("log", "--format", "events"),
        ("stats",),
        ("brief",),
        ("watch",),
        ("watch", "--json"),
    ),
)
NO_RUN = ("inbox", "ls", "stats", "brief")


@pytest.mark.parametrize("files", SECRET_FILES.values(), ids=SECRET_FILES)
def test_a_secret_that_the_guard_blocks_is_shown_nowhere(
    place: Place, tmp_path: Path, files: dict[str, str]
) -> None:
    hidden = TOKEN[4:]
    ended = place.loop({"write": files})
    assert ended.code == 4 and hidden not in ended.out + ended.err
    for name, *more in EXITS:
        words = (name, *(() if name in NO_RUN else ("@last",)), *more)
        shown = place.fb(*words)
        assert hidden not in shown.out + shown.err, words
    shown = place.fb("diff", "@last")
    assert "[redacted" in shown.out and "Secrets are redacted" in shown.err
    assert "flyball land" not in shown.err, "what the guard refused is never landed"
    assert hidden not in on_terminal(place, 100, "diff", "@last")
    person = AtTerminal(place, "inbox")
    person.wait_for(b"q quit")
    eventually(lambda: person.process.poll() is not None or os.write(person.ours, b"q") == 0)
    assert b"[redacted" in person.screen
    assert person.code() == 0 and hidden.encode() not in person.screen
    place.fb("export", "@last", "--out", str(tmp_path / "run.json"))
    assert hidden not in (tmp_path / "run.json").read_text()
    kept = [file for file in place.state.rglob("*") if file.is_file() and not file.name.startswith("script")]
    assert [file for file in kept if hidden.encode() in file.read_bytes()] == [], (
        "the script is the user's own"
    )


def test_what_is_kept_of_a_long_output_holds_no_secret_and_loses_nothing_else(tmp_path: Path) -> None:
    line, key = b"all is well \xff\n", b"-----BEGIN RSA PRIVATE KEY-----\n" + b"MIIabcdefgh01234\n" * 400
    whole = line * (CHUNK // len(line) - 20) + key + b"-----END RSA PRIVATE KEY-----\n" + line * 5
    (tmp_path / "out").write_bytes(whole + f"it was {TOKEN}\n".encode())
    scrub(tmp_path)
    kept = (tmp_path / "out").read_bytes()
    assert b"MIIabc" not in kept and TOKEN.encode() not in kept
    assert kept.count(line) == CHUNK // len(line) - 15
    scrub(tmp_path)
    assert (tmp_path / "out").read_bytes() == kept
