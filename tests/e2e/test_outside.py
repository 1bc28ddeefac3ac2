"""What `flyball up` learns from outside: CI of its own pull requests, and what tasks wait for (CTO-8, CTO-13)."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.forge import Forge
from tests.e2e.helpers import Yard
from tests.e2e.test_up import DONE, MEND, add, outcomes, plan, rows, stop, up, wait

from flyball.journal import Row

MORE = {"run": "sed -i s/-/+/ calc.py; echo '# more' >> calc.py", **DONE}  # another change each time
SETS = ("run.commit=pr", "forge.repository=ann/calc", "up.poll=1s")


@pytest.fixture
def forge() -> Iterator[Forge]:
    made = Forge()
    yield made
    made.close()


@pytest.fixture
def yard(tmp_path: Path, forge: Forge) -> Iterator[Yard]:
    """With a bare remote beside it, whose branches the forge knows."""
    made = Yard(tmp_path)
    remote = tmp_path / "remote.git"
    subprocess.run(["git", "init", "-q", "--bare", str(remote)], check=True)
    made.git("remote", "add", "origin", str(remote))
    made.env |= {"GITHUB_API_URL": forge.url, "GITHUB_TOKEN": "t0ken"}

    def tip(branch: str) -> str:
        words = ["git", "-C", str(remote), "rev-parse", "-q", "--verify", branch]
        return subprocess.run(words, capture_output=True, text=True).stdout.strip()

    forge.tip = tip
    yield made
    made.clear()


def asking(yard: Yard) -> list[Row]:
    return [row for row in rows(yard, machine="cto") if row.question]


def log(yard: Yard, run: str) -> str:
    return yard.flyball("log", run).stdout


def findings(yard: Yard) -> list[str]:
    found = json.loads(yard.flyball("check", "--json").stdout)["findings"]
    return [one["message"] for one in found if one["kind"] == "standing"]


@pytest.mark.sampled(0)
def test_red_ci_is_repaired_once_and_then_a_person_is_asked(yard: Yard, forge: Forge) -> None:
    """The repair starts from the red commit and goes to the same pull request."""
    forge.checks = {"build": "failure", "lint": "success"}
    task = add(yard, "Make add() add")
    process = up(yard, *SETS, planner=[plan("Mend")], worker=[MORE], repeat="last")
    wait(process, lambda: asking(yard))
    (pull,) = forge.pulls
    branch = pull["head"]["ref"]
    red, again = yard.git("rev-parse", branch), forge.tip(branch)
    ticket = f"CI-{branch.removeprefix('flyball/')}-{red[:7]}"
    assert outcomes(yard) == {task: "done", ticket: "done"}
    _, repaired = rows(yard, machine="task")
    assert again == yard.git("rev-parse", f"flyball/{repaired.run}") != red
    assert yard.git("merge-base", red, again) == red, "nothing of the first commit is lost"
    (lane,) = asking(yard)
    assert (lane.code, lane.state) == ("wait.dependency", "WAITING_FOR_HUMAN")
    assert "A repair was tried already" in yard.flyball("inbox").stdout
    assert any(f"CI fails for {pull['html_url']} (build)" in text for text in findings(yard))
    assert yard.flyball("answer", lane.question, "drop").returncode == 0
    wait(process, lambda: not asking(yard) and rows(yard, machine="cto")[-1].state == "IDLE")
    stop(process)
    assert len(rows(yard, machine="task")) == 2 and len(forge.pulls) == 1


@pytest.mark.sampled(0)
def test_a_repair_that_changes_nothing_is_for_a_person_too(yard: Yard, forge: Forge) -> None:
    """The same commit is still red."""
    forge.checks = {"build": "failure"}
    task = add(yard, "Make add() add")
    process = up(yard, *SETS, planner=[plan("Mend")], worker=[MEND], repeat="last")
    wait(process, lambda: asking(yard))
    stop(process)
    assert [row.code for row in asking(yard)] == ["wait.dependency"]
    assert outcomes(yard).keys() > {task} and len(rows(yard, machine="task")) == 2


@pytest.mark.sampled(0)
def test_a_task_waits_for_a_gate_a_run_and_a_pull_request(yard: Yard, forge: Forge) -> None:
    forge.pulls = [
        {"number": 7, "html_url": "https://example.org/pull/7", "state": "open", "head": {"ref": "x"}}
    ]
    first = add(yard, "Make add() add")
    tasks = {name: add(yard, f"After {name}", "--after", name) for name in ("gate:open", "gate:shut", "#7")}
    for word in ("release", "hold", "release"):
        assert yard.flyball(word, "gate:open").returncode == 0
    process = up(
        yard, "forge.repository=ann/calc", "up.poll=1s", planner=[plan("It")], worker=[MEND], repeat="last"
    )
    wait(process, lambda: outcomes(yard).get(tasks["gate:open"]) == "done")
    assert outcomes(yard).keys() == {first, tasks["gate:open"]}
    (made, _) = rows(yard, machine="task")
    after = add(yard, "After a run", "--after", made.run)
    wait(process, lambda: outcomes(yard).get(after) == "done")
    forge.pulls[0] |= {"state": "closed", "pull_request": {"merged_at": "2026-01-01T00:00:00Z"}}
    wait(process, lambda: outcomes(yard).get(tasks["#7"]) == "done")
    assert yard.flyball("release", "gate:shut").returncode == 0
    wait(process, lambda: outcomes(yard).get(tasks["gate:shut"]) == "done")
    stop(process)


@pytest.mark.sampled(0)
def test_a_forge_that_fails_is_said_once_and_nothing_changes(yard: Yard, forge: Forge) -> None:
    yard.flyball("hold")
    forge.fails = 500
    process = up(yard, *SETS)
    wait(process, lambda: len(forge.asked) > 3)
    (lane,) = rows(yard, machine="cto")
    assert log(yard, lane.run).count("GitHub answered 500") == 1
    assert any("GitHub answered 500" in text for text in findings(yard))
    forge.fails = 0
    head: dict[str, Any] = {"ref": "flyball/unknown"}
    forge.pulls = [{"number": 1, "html_url": "https://example.org/pull/1", "state": "open", "head": head}]
    (text,) = findings(yard)
    assert "belongs to no known run" in text
    stop(process)
