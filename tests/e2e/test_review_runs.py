"""`review` from the outside: an author, a reviewer, a ledger of findings; DONE and PASS are claims, FAIL fails."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.helpers import FIXED, STILL_BROKEN, Ran, Yard

GOOD_TURN = {"write": {"calc.py": FIXED}}
WORSE_TURN = {"write": {"calc.py": STILL_BROKEN}}
DONE = {"say": "It adds now.\n\nDONE"}
PASS = {"say": "Looks right.\nPASS"}
NOTHING = {"say": "Hm."}


@pytest.fixture
def yard(tmp_path: Path) -> Yard:
    return Yard(tmp_path)


def review(yard: Yard, author: list[Any], reviewer: list[Any] | None = None, *sets: str, **run: Any) -> Ran:
    roles = {"author": author} if reviewer is None else {"author": author, "reviewer": reviewer}
    options = [word for pair in sets for word in ("--set", pair)]
    return yard.play(yard.script(**roles), *options, machine="review", **run)


def facts(yard: Yard, run: str, kind: str) -> list[dict[str, Any]]:
    rows = [json.loads(line) for line in yard.flyball("log", run, "--json").stdout.splitlines()]
    return [row for row in rows if row["is"] == kind]


def path(yard: Yard, run: str) -> list[str]:
    return [row["target"] for row in facts(yard, run, "Moved")]


def turns(yard: Yard, run: str) -> list[dict[str, Any]]:
    """The turns, in order: who was asked, and what they were told."""
    acts = [row["act"] for row in facts(yard, run, "ActStarted")]
    return [act for act in acts if act["do"].startswith("agent:")]


def told(turn: dict[str, Any]) -> str:
    return "\n".join(turn.get("told", []))


def prompts(yard: Yard, name: str) -> str:
    """A command agent that keeps what it was given."""
    return f"cat > {yard.folder}/{name}-$FLYBALL_TURN.txt"


# ---- PAIR-1: who completes, who fails ------------------------------------------------------------------------


def test_done_while_the_proof_fails_goes_to_the_reviewer_who_is_shown_it(yard: Yard) -> None:
    ran = review(yard, [{**WORSE_TURN, **DONE}, {**GOOD_TURN, **DONE}], [{"say": "Use plus."}])
    assert (ran.exit, ran.code, ran.turns) == (0, "completed", 3)
    assert path(yard, ran.run) == ["working", "reviewing", "working", "complete"]
    _, reviewer, author = turns(yard, ran.run)
    assert "The proof failed" in told(reviewer) and "It adds now." in told(reviewer)
    assert "Use plus." in told(author)


@pytest.mark.sampled(0)
def test_ctrl_c_interrupts_and_resume_goes_on_at_the_saved_state(yard: Yard) -> None:
    script = yard.script(author=[GOOD_TURN], reviewer=[{**PASS, "sleep_s": 3}])
    process = yard.start(*yard.words(script, machine="review"))
    _await_state(yard, "reviewing")
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    stopped = json.loads(out)
    assert process.returncode == 130, err
    assert (stopped["stop_reason"]["code"], stopped["status"]) == ("interrupted", "paused")
    assert (stopped["state"], stopped["run_state"], stopped["end"]) == ("reviewing", "reviewing", None)
    ran = yard.resume()
    assert (ran.exit, ran.code, ran.turns) == (0, "completed", 2)
    assert path(yard, ran.run) == ["working", "reviewing", "complete"]


def _await_state(yard: Yard, state: str) -> None:
    until = time.monotonic() + 60
    while time.monotonic() < until:
        seen = yard.peek()
        if seen and seen[0].state == state:
            return
        time.sleep(0.02)
    raise AssertionError(f"it was never in {state}")


# ---- PAIR-2: the signals ---------------------------------------------------------------------------------------


def test_the_done_word_is_configurable(yard: Yard) -> None:
    ran = review(yard, [{**GOOD_TURN, "say": "DONE"}, {"say": "SHIPPED"}], [NOTHING], "run.done_word=SHIPPED")
    assert (ran.code, ran.turns) == ("completed", 3)


def test_the_structured_channel_speaks_too(yard: Yard) -> None:
    """A FAIL over it beats the PASS that is said; `finish` is the author's DONE."""
    ran = review(yard, [GOOD_TURN], [{"outcome": "FAIL", "say": "PASS"}])
    assert path(yard, ran.run) == ["working", "reviewing", "failed"]
    ran = review(yard, [{**GOOD_TURN, "finish": {"indicators": []}}], [NOTHING])
    assert path(yard, ran.run) == ["working", "complete"]


# ---- PAIR-3: consensus -----------------------------------------------------------------------------------------


# ---- PAIR-4: messages ------------------------------------------------------------------------------------------


def test_what_is_told_is_delivered_once(yard: Yard) -> None:
    author = f"{prompts(yard, 'author')}; echo Use the force"
    reviewer = f"{prompts(yard, 'reviewer')}; echo Mind the gap"
    agents = ("--agent", f"author=command:{author}", "--agent", f"reviewer=command:{reviewer}")
    sets = ("--set", "guard.sandbox=none", "--set", "limits.iterations=2", "--breakpoint", "working")
    ran = yard.play(f"command:{author}", *agents, *sets, machine="review")
    assert (ran.exit, ran.code, ran.state) == (3, "wait.breakpoint", "working")
    for text in ("first message", "second message"):
        assert yard.flyball("tell", ran.run, text).returncode == 0
    ran = yard.resume()
    assert ran.code == "wait.breakpoint" and ran.turns == 3
    assert yard.resume().code == "limit.iterations"
    given = {n: (yard.folder / f"{who}-{n}.txt").read_text() for n, who in _order(4)}
    assert [n for n, text in given.items() if "first message" in text] == [2]
    assert [n for n, text in given.items() if "second message" in text] == [2]
    assert [n for n, text in given.items() if "Mind the gap" in text] == [3], "the reviewer's, to the author"
    assert [n for n, text in given.items() if "Use the force" in text] == [2, 4], "each of the author's, once"


def _order(most: int) -> list[tuple[int, str]]:
    return [(n, "author" if n % 2 else "reviewer") for n in range(1, most + 1)]


# ---- PAIR-6: the ledger ----------------------------------------------------------------------------------------

RAISED = {"file": "calc.py", "line": 2, "severity": "high", "text": "No check."}


def test_a_finding_disputed_twice_goes_to_the_inbox(yard: Yard) -> None:
    dispute = {"finding": {**RAISED, "status": "disputed"}}
    stands = {"finding": {"id": "F1", "status": "open"}}
    ran = review(yard, [GOOD_TURN, dispute, dispute, NOTHING], [{"finding": RAISED}, stands, PASS])
    assert (ran.exit, ran.code, ran.status, ran.state) == (3, "wait.question", "waiting", "working")
    (asked,) = json.loads(yard.flyball("inbox", "--json").stdout)
    assert "twice about F1" in asked["text"]
    assert yard.flyball("answer", ran.question, "The reviewer is right").returncode == 0
    ran = yard.resume()
    assert (ran.exit, ran.code, ran.iteration) == (0, "completed", 3), "the same act again, no new iteration"
    assert "The reviewer is right" in told(turns(yard, ran.run)[5])
