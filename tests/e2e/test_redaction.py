"""A secret that an agent utters, wherever it does, is in nothing that is journaled or shown."""

from __future__ import annotations

from pathlib import Path

from tests.e2e.helpers import FIXED, Place

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
