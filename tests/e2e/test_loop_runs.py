"""`loop` from the outside: one agent until it is truly done, a circuit that opens, limits that cost nothing."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.helpers import FIXED, STILL_BROKEN, Ran, Yard

DONE: dict[str, Any] = {"finish": {"indicators": ["task complete", "all tests passing"]}}
GOOD_TURN = {"write": {"calc.py": FIXED}}
WORSE_TURN = {"write": {"calc.py": STILL_BROKEN}}
CLAIM = "Task complete. All done.\n\nEXIT_SIGNAL: true\n"
IDLE = {"say": "Still looking."}


@pytest.fixture
def yard(tmp_path: Path) -> Yard:
    return Yard(tmp_path)


def loop(yard: Yard, *turns: Any, sets: tuple[str, ...] = (), more: tuple[str, ...] = (), **run: Any) -> Ran:
    """A worker that plays these turns; the last one repeats."""
    options = [word for pair in sets for word in ("--set", pair)]
    return yard.play(yard.script(worker=list(turns)), *options, *more, machine="loop", **run)


def facts(yard: Yard, run: str, kind: str) -> list[dict[str, Any]]:
    """The journal's facts of one kind."""
    rows = [json.loads(line) for line in yard.flyball("log", run, "--json").stdout.splitlines()]
    return [row for row in rows if row["is"] == kind]


def path(yard: Yard, run: str) -> list[str]:
    return [row["target"] for row in facts(yard, run, "Moved")]


def told(yard: Yard, run: str) -> list[list[str]]:
    """What each turn was told, in order."""
    acts = [row["act"] for row in facts(yard, run, "ActStarted")]
    return [act.get("told", []) for act in acts if act["do"].startswith("agent:")]


def answered(yard: Yard, ran: Ran, *words: str) -> Ran:
    done = yard.flyball("answer", ran.question, *words)
    assert done.returncode == 0, done.stderr
    return yard.resume()


# ---- LOOP-1, LOOP-2: done is a claim -------------------------------------------------------------------------


def test_honest_work_completes_after_three_turns(yard: Yard) -> None:
    ran = loop(yard, WORSE_TURN, GOOD_TURN, {"say": CLAIM})
    assert (ran.exit, ran.code, ran.status, ran.end, ran.state) == (
        *(0, "completed", "ended", "success", "complete"),
    )
    assert ran.turns == 3 and path(yard, ran.run) == ["closed", "closed", "complete"]
    assert yard.git("show", f"flyball/{ran.run}:calc.py") == FIXED.strip()


def test_a_claim_while_the_proof_fails_goes_on_and_the_next_turn_is_told(yard: Yard) -> None:
    """A command agent, so that what it is really given can be read."""
    claims = f"cat > {yard.folder}/prompt-$FLYBALL_TURN.txt; printf 'Task complete. All done.\\nEXIT_SIGNAL: true\\n'"
    fixes = f"if [ $FLYBALL_TURN = 2 ]; then printf '{FIXED.replace(chr(10), chr(92) + 'n')}' > calc.py; fi"
    ran = yard.play(f"command:{claims}; {fixes}", "--set", "guard.sandbox=none", machine="loop")
    assert (ran.exit, ran.code, ran.turns) == (0, "completed", 2)
    assert path(yard, ran.run) == ["closed", "complete"]
    first, second = ((yard.folder / f"prompt-{n}.txt").read_text() for n in (1, 2))
    assert "The proof failed" not in first and "The proof failed" in second and "AssertionError" in second
    assert "Loop Status" in first and "EXIT_SIGNAL" in first, "it is asked to report (LOOP-4)"


# ---- LOOP-3: the circuit -------------------------------------------------------------------------------------


def test_the_circuit_opens_asks_probes_and_closes(yard: Yard) -> None:
    ran = loop(yard, *[IDLE] * 6, WORSE_TURN, {**GOOD_TURN, **DONE})
    assert (ran.exit, ran.code, ran.status, ran.state) == (3, "loop.no_progress", "waiting", "open")
    assert ran.turns == 5 and ran.stop_reason["evidence"]["threshold"] == "5"
    asked = ran.facts["question"]["text"]
    assert "5 turns without progress" in asked and "turn 5 (worker) changed no files" in asked
    assert "hint" in asked
    assert yard.resume().exit == 3, "only an answer goes on"
    ran = answered(yard, ran, "go-on")
    assert (ran.code, ran.state, ran.turns) == ("loop.no_progress", "open", 6), "one probing turn, no more"
    ran = answered(yard, ran, "redirect", "Look at the operator")
    assert (ran.exit, ran.code, ran.turns) == (0, "completed", 8)
    expected = [*["closed"] * 4, "open", "half_open", "open", "half_open", "closed", "complete"]
    assert path(yard, ran.run) == expected
    assert told(yard, ran.run)[6] == ["Message from a person: Look at the operator"]


# ---- CTO-9: tool calls inside a turn ---------------------------------------------------------------------------


def test_the_same_call_with_the_same_result_halts_the_act(yard: Yard) -> None:
    again = {"tool": "shell", "input": "cat calc.py", "result": "def add"}
    turn = {"actions": [again] * 4, "hang": True}
    ran = loop(yard, {"actions": [again] * 3}, turn, {**GOOD_TURN, **DONE})
    assert (ran.exit, ran.code, ran.status, ran.turns) == (3, "loop.same_action", "waiting", 2)
    assert "cat calc.py" in ran.facts["question"]["text"]
    ran = answered(yard, ran, "go-on")
    assert (ran.code, ran.turns) == ("completed", 3)


# ---- LOOP-5: limits --------------------------------------------------------------------------------------------


def limited(kind: str, reset_in_s: float | None = None) -> dict[str, Any]:
    return {"limited": {"kind": kind, **({} if reset_in_s is None else {"reset_in_s": reset_in_s})}}


def test_limits_are_waited_for_and_cost_nothing(yard: Yard) -> None:
    limits = [limited("plan_limit", 2), limited("plan_limit", -3600), limited("rate_limited")]
    sets = ("rate_limit.retry_every=1s", "limits.turns=2", "limits.no_progress=1", "limits.retries=0")
    ran = loop(yard, WORSE_TURN, *limits, {**GOOD_TURN, **DONE}, sets=sets)
    assert (ran.exit, ran.code, ran.turns) == (0, "completed", 2)
    waits = facts(yard, ran.run, "Stopped")
    assert [w["stop"]["code"] for w in waits] == ["wait.rate_limit"] * 3
    assert [w["stop"]["rule"] for w in waits] == ["plan_limit", "plan_limit", "rate_limited"]
    spans = [w["until"] - w["at"] for w in waits]
    assert 1_000_000 < spans[0] <= 2_000_000 and spans[1] <= 1_000_000 and spans[2] == 1_000_000
    resumed = facts(yard, ran.run, "Resumed")
    assert all(r["at"] >= w["until"] for r, w in zip(resumed, waits, strict=True)), "none was cut short"
    assert sum("limit" in line and "continuing" in line for line in ran.err.splitlines()) == 3, (
        "one line each"
    )


@pytest.mark.sampled(0)
def test_a_killed_driver_waits_on_after_resume(yard: Yard) -> None:
    script = yard.script(worker=[limited("plan_limit", 4), {**GOOD_TURN, **DONE}])
    process = yard.start(*yard.words(script, machine="loop"))
    run = _await_status(yard, "waiting")
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    ran = yard.resume()
    assert (ran.exit, ran.code, ran.turns) == (0, "completed", 1)
    (wait,), (resumed,) = facts(yard, run, "Stopped"), facts(yard, run, "Resumed")
    assert resumed["at"] >= wait["until"], "the same wait, to its end"


def _await_status(yard: Yard, status: str) -> str:
    until = time.monotonic() + 60
    while time.monotonic() < until:
        seen = yard.peek()
        if seen and seen[0].status == status:
            return seen[0].run
        time.sleep(0.02)
    raise AssertionError(f"it was never {status}")


@pytest.mark.sampled(0)
def test_another_agent_stands_in_while_a_limit_lasts(yard: Yard) -> None:
    other = yard.script("other.yaml", worker=[{"write": {"b.txt": "b"}, "sleep_s": 2}, {"exit": 3}])
    first = yard.script(
        worker=[WORSE_TURN, limited("plan_limit", 2), {**GOOD_TURN, **DONE, "say": "Back again."}]
    )
    ran = yard.play(first, "--set", f"rate_limit.fallback={json.dumps([other])}", machine="loop")
    assert (ran.exit, ran.code, ran.turns) == (0, "completed", 3)
    agents = [row["act"].get("agent", "") for row in facts(yard, ran.run, "ActStarted")]
    assert [name for name in agents if name] == [first, first, other, first]
    assert facts(yard, ran.run, "Stopped") == [], "it did not have to wait"
    assert "turn 1 (worker) changed calc.py" in " ".join(told(yard, ran.run)[2]), "it is told what was done"


def test_a_stand_in_that_is_not_there_is_refused_at_the_start(yard: Yard) -> None:
    gone = json.dumps(["command:no-such-agent"])
    done = yard.flyball(*yard.words(yard.script(worker=[DONE]), "--set", f"rate_limit.fallback={gone}"))
    assert done.returncode == 2 and "no-such-agent" in done.stderr and "Traceback" not in done.stderr


# ---- LOOP-4, LOOP-6: what is rendered ----------------------------------------------------------------------------


def test_the_loop_status_and_the_agents_state_are_rendered(yard: Yard) -> None:
    out = yard.repo / ".flyball" / "out"
    out.mkdir(parents=True)
    ran = loop(yard, WORSE_TURN, *[{**IDLE, **DONE}] * 2, GOOD_TURN, DONE, sets=("limits.no_progress=2",))
    assert ran.code == "loop.no_progress"
    text = (out / "LOOP_STATUS.md").read_text()
    for line in (
        "**Iteration**: 3",
        "**Progress**: turn 3 (worker) changed no files: “Still looking.”",
        "**Circuit State**: open",
        "**Task Status**: blocked",
        "- [x] task complete",
        "- [ ] all done",
        "EXIT_SIGNAL: true",
        "**Decision**: wait",
    ):
        assert line in text.splitlines(), text
    assert "loop.no_progress" in text.split("**Reason**: ")[1]
    (agent,) = json.loads((out / "agents.json").read_text())
    state = agent["loopState"]
    assert agent["id"] == ran.run and state.pop("lastProgress")
    assert state == {
        "currentLoop": 3,
        "noProgressLoops": 2,
        "repeatedErrorLoops": 2,
        "circuitState": "open",
        "exitSignal": True,
        "completionIndicators": ["task complete", "all tests passing"],
    }
    (out / "agents.json").write_text("[] edited by hand")
    ran = answered(yard, ran, "go-on")
    assert ran.code == "completed"
    assert "**Task Status**: complete" in (out / "LOOP_STATUS.md").read_text()
    (agent,) = json.loads((out / "agents.json").read_text())
    assert agent["loopState"]["currentLoop"] == 5, "rendered anew, never read back"


def test_nothing_is_rendered_where_the_folder_is_not_or_leads_elsewhere(yard: Yard) -> None:
    ran = loop(yard, {**GOOD_TURN, **DONE})
    assert ran.code == "completed" and not (yard.repo / ".flyball").exists()
    elsewhere = yard.folder / "elsewhere"
    elsewhere.mkdir()
    (yard.repo / ".flyball").mkdir()
    (yard.repo / ".flyball" / "out").symlink_to(elsewhere)
    assert loop(yard, {**GOOD_TURN, **DONE}).code == "completed"
    assert list(elsewhere.iterdir()) == []


def test_a_folder_that_cannot_be_written_stops_no_run(yard: Yard) -> None:
    out = yard.repo / ".flyball" / "out"
    (out / "agents.json" / "in-the-way").mkdir(parents=True)
    ran = loop(yard, {**GOOD_TURN, **DONE})
    assert (ran.exit, ran.code) == (0, "completed")
    assert [p.name for p in out.iterdir()] == ["agents.json"], "no draft is left behind"


# ---- LOOP-7: who works on what ----------------------------------------------------------------------------------


def test_the_orchestra_shows_who_works_on_what_and_takes_what_is_next(yard: Yard) -> None:
    asked = loop(yard, {"ask": "Which one?"})
    agent = yard.script("slow.yaml", worker=[{"sleep_s": 60}])
    first = yard.start(*yard.words(agent, machine="loop"))
    one = _await_part(yard, "working")
    first.kill()  # nobody drives it: it is next
    first.communicate()
    assert _await_part(yard, "next")["run"] == one["run"]
    second = yard.start(*yard.words(agent, machine="loop"))
    two = _await_part(yard, "working")
    assert (two["agent"], two["role"], two["circuit"], two["next"]) == (agent, "worker", "closed", one["run"])
    shown = {part["run"]: part["status"] for part in busy(yard)}
    assert shown == {asked.run: "asks", one["run"]: "next", two["run"]: "working"}
    table = yard.flyball("agents", "busy").stdout
    assert all(run in table for run in shown)
    second.kill()
    second.communicate()


def busy(yard: Yard) -> list[dict[str, Any]]:
    return json.loads(yard.flyball("agents", "busy", "--json").stdout)


def _await_part(yard: Yard, status: str) -> dict[str, Any]:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        for part in busy(yard):
            if part["status"] == status:
                return part
        time.sleep(0.1)
    raise AssertionError(f"no part is {status}: {busy(yard)}")
