"""A secret that an agent utters, wherever it does, is in nothing that is journaled or shown."""

from __future__ import annotations

from helpers import FIXED, Place

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
