"""`export` and `selftest`: what leaves the machine holds no secret and misses nothing; the trial finds no loss."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from tests.e2e.helpers import FIXED, Yard

TOKEN = "ghp_" + "aB3dE6gH9jK2mN5pQ8sT1vW4xY7zC0fL3hR6"
FINISH = {"indicators": ["task complete", "all done"]}


@pytest.fixture(scope="module")
def yard(tmp_path_factory: pytest.TempPathFactory) -> Yard:
    made = Yard(tmp_path_factory.mktemp("export"))
    agent = made.script(
        validator=[{"say": "OUTCOME: approved", "data": {"password": "xT9!vLq2#pWz7"}}],
        worker=[{"write": {"calc.py": FIXED}, "finish": FINISH}],
        critic=[{"say": "OUTCOME: accepted"}],
        reviewer=[{"say": "PASS"}],
    )
    words = made.words(agent, "--set", "guard.sandbox=none", machine="task", proof="grep -q a.+.b calc.py")
    words[1] = f"Mend it with {TOKEN}"
    done = made.flyball(*words)
    assert done.returncode == 0, done.stderr
    return made


def test_a_bundle_has_the_run_and_all_below_it(yard: Yard) -> None:
    told = json.loads(yard.flyball("export", "@last").stdout)
    listed = json.loads(yard.flyball("ls", "--children", "--json").stdout)
    assert {run["run"] for run in told["runs"]} == {row["run"] for row in listed}
    top = told["runs"][0]
    assert (top["run"], top["parent"], top["summary"]["end"]) == (told["run"], None, "success")
    assert [event["seq"] for event in top["events"]] == list(range(1, len(top["events"]) + 1))
    assert top["head"]["hash"] == top["events"][-1]["hash"]
    assert "+    return a + b" in top["diff"]
    assert top["certificate"]["sha256"] == top["certificate"]["journal_sha256"]
    assert all(run["events"][0]["kind"] == "RunBegan" for run in told["runs"])


def test_the_logs_hashes_are_those_of_the_files(yard: Yard) -> None:
    told = json.loads(yard.flyball("export", "@last").stdout)
    logs = [log for run in told["runs"] for log in run["logs"]]
    assert len(logs) > 8
    for log in logs:
        data = (yard.state / "acts" / log["act"] / log["file"]).read_bytes()
        assert (len(data), hashlib.sha256(data).hexdigest()) == (log["bytes"], log["sha256"])


def test_a_bundle_holds_no_secret_and_says_where_one_was(yard: Yard) -> None:
    text = yard.flyball("export", "@last").stdout
    told = json.loads(text)
    assert TOKEN not in text and "xT9!vLq" not in text
    assert told["redacted"] > 0 and "[redacted" in told["runs"][0]["events"][0]["event"]["task"]
    assert told["runs"][0]["events"][0]["redacted"] is True
    assert told["runs"][0]["certificate"]["envelope"] is None  # it is signed with the task in it
    assert sum("redacted" in event for event in told["runs"][0]["events"]) < 5


def test_a_bundle_goes_to_a_new_file_of_ones_own(yard: Yard, tmp_path: Path) -> None:
    out = tmp_path / "run.json"
    done = yard.flyball("export", "@last", "--out", str(out))
    assert done.returncode == 0 and done.stdout == "" and "redacted" in done.stderr
    assert out.stat().st_mode & 0o777 == 0o600 and json.loads(out.read_bytes())["runs"]
    again = yard.flyball("export", "@last", "--out", str(out))
    assert again.returncode == 2 and str(out) in again.stderr


@pytest.mark.sampled(0)
def test_a_few_kills_lose_and_double_nothing(yard: Yard) -> None:
    done = yard.flyball("selftest", "chaos", "--kills", "2", "--seed", "3", "--json", timeout=110)
    told = json.loads(done.stdout)
    assert done.returncode == 0 and told["good"], done.stderr
    assert (told["kills"], told["events_lost"], told["effects_doubled"], told["other_ends"]) == (2, 0, 0, 0)


@pytest.mark.parametrize("words", [("check",), ("export",), ("selftest",), ("selftest", "chaos")])
def test_every_command_shows_an_example(yard: Yard, words: tuple[str, ...]) -> None:
    told = yard.flyball(*words, "--help")
    assert told.returncode == 0 and "Example" in told.stdout and f"flyball {' '.join(words)}" in told.stdout
