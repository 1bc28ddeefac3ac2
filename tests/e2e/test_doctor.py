"""doctor finds what is wrong and says what to do; uninstall removes everything but unmerged results."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from tests.e2e.helpers import FIXED, Place


def lines(place: Place, **env: str) -> dict[str, dict[str, Any]]:
    done = place.fb("doctor", "--json", env=env or None)
    assert "Traceback" not in done.err
    return {line["topic"]: line for line in done.json}


def test_doctor_on_a_machine_where_nothing_ever_ran(place: Place) -> None:
    done = place.fb("doctor")
    assert done.code == 0 and not place.state.exists(), "it only looks"
    assert "flyball init" in done.out and "does not exist yet" in done.out
    without_git = place.fb("doctor", "--json", env={"PATH": str(place.folder / "nothing")})
    assert without_git.code == 1
    assert next(line["text"] for line in without_git.json if line["topic"] == "git").startswith(
        "git was not found"
    )


def test_doctor_names_each_trouble_with_its_cure(place: Place) -> None:
    good = place.script(planner=[{"say": "plan"}], coder=[{"write": {"calc.py": FIXED}}])
    assert place.run(good).code == 0
    run = place.last()["run"]
    assert all(line["level"] != "bad" for line in lines(place).values())

    place.git("branch", "flyball/gone", "HEAD")
    (place.state / "runs" / run / "checkout").mkdir()
    (place.state / "runs" / run / "kept").write_text("changes")
    (place.state / "runs" / "oldleft1").mkdir()
    os.utime(place.state / "runs" / "oldleft1", (1, 1))
    lock = place.state / "drivers" / "1-dead.lock"
    lock.touch()
    os.utime(lock, (1, 1))
    (place.state / "signing.key").chmod(0o644)
    (place.repo / ".flyball").mkdir()
    (place.repo / ".flyball/flyball.toml").write_text("[proof]\ncomands = []\n")
    place.state.chmod(0o700)
    found = lines(place)
    for topic, level, cure in (
        ("branches", "warn", "git branch -d flyball/gone"),
        ("checkouts", "warn", f"flyball rm {run}"),
        ("leftovers", "warn", "flyball prune --yes"),
        ("runs", "warn", "flyball prune --yes"),
        ("state", "bad", f"chmod 600 {place.state / 'signing.key'}"),
        ("settings", "bad", ""),
    ):
        assert found[topic]["level"] == level and cure in found[topic]["cure"], (topic, found[topic])
    assert "comands" in found["settings"]["text"]
    assert place.fb("doctor").code == 1
    place.fb("prune", "--yes")
    assert not lock.exists() and lines(place)["runs"]["level"] == "ok"


def test_uninstall_removes_everything_but_what_is_not_merged(place: Place) -> None:
    good = place.script(planner=[{"say": "plan"}], coder=[{"write": {"calc.py": FIXED}}])
    assert place.run(good).code == 0
    place.git("branch", "flyball/merged", "HEAD")
    assert place.loop({"ask": "Plus or minus?"}).code == 3
    config = Path(place.env["HOME"], ".config/flyball/config.toml")
    config.parent.mkdir(parents=True)
    config.write_text("")
    asked = place.fb("uninstall")
    assert asked.code == 2 and "Nothing was removed. Add --yes" in asked.err and config.exists()
    (place.state / "mine.txt").write_text("not Flyball's")
    assert place.fb("task", "add", "Some work").code == 0
    (place.repo / ".flyball").mkdir()
    done = place.fb("uninstall", "--yes")
    stays, _, lost = done.out.partition("To be removed:\n")
    assert f"Stays in {place.repo}: .flyball/ with its settings and 1 flyball/ branch not merged: " in stays
    assert "1 run not ended yet, 1 open question" in lost and "1 merged flyball/ branch\n" in lost
    assert done.code == 0 and "To remove the program:" in done.out
    assert list(place.state.iterdir()) == [place.state / "mine.txt"] and not config.parent.exists()
    assert len(place.git("for-each-ref", "refs/heads/flyball").splitlines()) == 1
    assert place.fb("uninstall", "--yes").code == 0
