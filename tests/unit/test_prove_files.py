"""`flyball machines check FILE --prove`: faults first, then the laws, with the shortest counterexample."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from flyball.cli.machines import machines
from flyball.lab.prove import prove
from flyball.machines import from_text

GOOD = """
name = "mine"
start = "work"

[states]
work = { do = "agent:coder", on = { written = "look" } }
look = { do = "agent:critic", on = { accepted = "done", rejected = "work", unproven = "work" } }
done = { end = "success" }

[anywhere]
on = { blocked = "@blocked", exhausted = "@fail", timeout = "@fail", error = "@fail", cancel = "@cancel" }

[most]
turns = 2
"""
ASK = 'hm = { do = "ask", on = { answered = "TARGET", retry = "work" } }\ndone = { end'


def asking(target: str) -> str:
    """Who rejects asks a person, whose answer leads there."""
    asks = GOOD.replace("done = { end", ASK.replace("TARGET", target))
    return asks.replace('rejected = "work"', 'rejected = "hm"')


def checked(folder: Path, text: str, *words: str) -> Result:
    file = folder / "mine.toml"
    file.write_text(text)
    return CliRunner().invoke(machines, ["check", str(file), "--prove", *words])


def test_a_good_file_may_run_and_every_law_holds(tmp_path: Path) -> None:
    said = checked(tmp_path, asking("work"))
    assert said.exit_code == 0, said.output
    assert "'mine'" in said.output and "4 states" in said.output and "ALO-1" in said.output


def test_a_file_without_a_fault_may_break_a_law_and_the_shortest_way_there_is_shown(tmp_path: Path) -> None:
    said = checked(tmp_path, asking("hm"))
    assert said.exit_code == 1
    assert "HUMAN-2" in said.output
    steps = [line.split() for line in said.output.splitlines() if line.strip()[:1].isdigit()]
    assert [step[0] for step in steps] == [str(n) for n in range(1, 8)]
    assert steps[5][1:5] == ["a", "person", "answers:", "answered"]
    assert steps[6][-1].strip("()") == "wait.escalation"


def test_a_fault_comes_before_any_proof(tmp_path: Path) -> None:
    said = checked(tmp_path, GOOD.replace("turns = 2", ""))
    assert (said.exit_code, "law" in said.output) == (2, False)
    assert "Nothing bounds the cycle" in said.output
    told = json.loads(checked(tmp_path, GOOD.replace("turns = 2", ""), "--json").output)
    assert (told["ok"], len(told["faults"]), told["proof"]) == (False, 1, None)


def test_two_machines_that_run_each_other_have_no_bound(tmp_path: Path) -> None:
    runs = GOOD.replace('"agent:coder", on = { written = "look"', '"run:other", on = { success = "look"')
    (tmp_path / "other.toml").write_text(runs.replace("other", "mine").replace('"mine"\n', '"other"\n', 1))
    told = json.loads(checked(tmp_path, runs, "--json").output)
    assert (told["ok"], told["faults"]) == (False, [])
    assert told["proof"]["counterexample"]["law"] == "BOUND"
    assert "mine → other → mine" in told["proof"]["counterexample"]["says"]


def holds(text: str, *premises: str) -> bool:
    return prove(from_text(text, "mine.toml"), only=premises).holds


@pytest.mark.sampled(0)
def test_a_limit_that_leads_to_a_state_that_asks_is_renewed_by_the_answer() -> None:
    text = asking("work").replace('exhausted = "@fail"', 'exhausted = "hm"')
    assert holds(text, "every result", "time")


def test_third_failures_that_ask_are_counted_anew_after_the_answer() -> None:
    """What is counted without end would never be explored."""
    counts = GOOD.replace("turns = 2", "failures = 2")
    ways = 'cancel = "@cancel", failure = "@back", third_failure = "@ask"'
    assert holds(counts.replace('cancel = "@cancel"', ways), "every result", "failures")
