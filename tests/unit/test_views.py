"""What people are told: three sentences for every stop, and exactly the exit codes of the table."""

from __future__ import annotations

import json
import re

import pytest
from msgspec.structs import replace

from flyball.core import codes
from flyball.core import events as e
from flyball.core.run import Run, begin
from flyball.core.settings import Settings
from flyball.errors import FlyballError
from flyball.views import run_view
from support import Script, begun, failing, ok, play, ruled

# code -> (status, exit, ALO code): the table of stop reasons
TABLE: dict[str, tuple[str, int, str]] = {
    "completed": ("ended", 0, ""),
    "completed_unproven": ("ended", 0, ""),
    "cancelled": ("ended", 1, "ALO_CANCELLED"),
    "failed.agent": ("ended", 1, "ALO_AGENT_FAILED"),
    "failed.start": ("ended", 1, "ALO_AGENT_FAILED"),
    "failed.tests": ("ended", 1, "ALO_TEST_FAILED"),
    "failed.review": ("ended", 1, ""),
    "failed.abandoned": ("ended", 1, ""),
    "timeout.phase": ("ended", 1, "ALO_PHASE_TIMEOUT"),
    "timeout.idle": ("ended", 1, "ALO_AGENT_FAILED"),
    "limit.iterations": ("ended", 5, "ALO_MAX_ITERATIONS_EXCEEDED"),
    "limit.turns": ("ended", 5, "ALO_MAX_ITERATIONS_EXCEEDED"),
    "limit.fix_attempts": ("ended", 5, "ALO_MAX_FIX_ATTEMPTS_EXCEEDED"),
    "limit.time": ("ended", 5, ""),
    "limit.budget_usd": ("waiting", 5, ""),
    "limit.budget_tokens": ("waiting", 5, ""),
    **dict.fromkeys(
        [
            *("loop.no_progress", "loop.same_action", "loop.same_error", "loop.state_cycle"),
            *("loop.oscillation", "loop.replan", "limit.actions"),
            *("wait.approval", "wait.question", "wait.permission", "wait.dependency", "wait.infrastructure"),
            *("wait.conflict", "wait.mismatch", "wait.auth", "wait.billing", "wait.escalation"),
            *("wait.check_in", "wait.rate_limit"),
        ],
        ("waiting", 3, ""),
    ),
    "wait.breakpoint": ("paused", 3, ""),
    "wait.paused": ("paused", 3, ""),
    "wait.take_over": ("paused", 3, ""),
    "blocked.guard.secrets": ("blocked", 4, "ALO_GUARD_BLOCKED"),
    "blocked.guard.radius.files": ("blocked", 4, "ALO_GUARD_BLOCKED"),
    "blocked.tampering": ("blocked", 4, "ALO_GUARD_BLOCKED"),
    "interrupted": ("paused", 130, ""),
    "error.journal": ("waiting", 3, ""),
    "error.git": ("waiting", 3, ""),
    "error.config": ("waiting", 3, ""),
}


def stopped(code: str, status: str = "", **more: str) -> Run:
    """A run that stopped with this code."""
    run = begin(begun())
    seen = e.Stop(code=code, rule="a rule", threshold="3", observed="4", turn=2, **more)
    status = status or codes.of(code).status
    end = "" if status != "ended" else "success" if code.startswith("completed") else "failure"
    return replace(run, status=status, stop=seen, end=end)


@pytest.mark.parametrize("code", TABLE)
def test_status_exit_and_alo_code_are_those_of_the_table(code: str) -> None:
    run = stopped(code)
    assert (run.status, run_view.exit_code(run), run_view.alo_code(run)) == TABLE[code]


@pytest.mark.parametrize("code", ["error.config", "error.git", "error.agent_missing"])
def test_an_error_before_the_first_turn_exits_2(code: str) -> None:
    assert run_view.exit_code(stopped(code, "ended")) == 2


def test_there_is_no_code_beside_the_table_but_the_trigger_of_up() -> None:
    known = {code for code in TABLE if not code.startswith(("error.", "blocked.guard."))}
    assert set(codes.CODES) - known == {"wait.trigger"}


def test_an_unknown_code_is_an_error() -> None:
    with pytest.raises(FlyballError, match="'nonsense' is no stop code"):
        codes.of("nonsense")


def test_all_eleven_alo_codes_have_a_recovery() -> None:
    assert len(codes.RECOVERY) == 11
    assert {alo for _, _, alo in TABLE.values() if alo} <= set(codes.RECOVERY)


def sentences(text: str) -> int:
    """Sentences outside quotations and code."""
    plain = re.sub(r"“.*?”|`.*?`|'.*?'|\(.*?\)|\$[0-9]+\.[0-9]+", "x", text, flags=re.DOTALL)
    return len(re.findall(r"[.!?](?=\s|$)", plain))


@pytest.mark.parametrize("code", TABLE)
def test_why_is_three_sentences_for_every_code(code: str) -> None:
    run = stopped(code, detail="First line.\nE  assert 1 == 2. It broke. Twice.")
    told = run_view.why(run)
    assert [sentences(text) for text in told] == [1, 1, 1], told
    assert code in told[0] and "r1" in told[0]
    assert all(word in told[1] for word in ("a rule", "3", "4", "2 turns", "It broke"))
    assert all("\n" not in text for text in told)


def test_why_of_a_running_run_is_three_sentences_too() -> None:
    assert [sentences(text) for text in run_view.why(begin(begun()))] == [1, 1, 1]


def test_why_says_what_would_have_happened_and_what_to_do() -> None:
    told = run_view.why(play(Script(write=ruled("deny", "t1"))).run)
    assert "'written' would have been followed" in told[2]
    assert "`flyball answer r1.1 approve|reject|retry|redirect|cancel`" in told[2]
    assert "protected path" in told[1] and "a.py:3" in told[1]


@pytest.mark.parametrize(
    ("code", "what"),
    [
        ("limit.fix_attempts", "tried another fix"),
        ("limit.iterations", "written again"),
        ("failed.tests", "would have completed"),
        ("completed", "flyball land r1"),
        ("wait.paused", "flyball resume r1"),
        ("cancelled", "flyball retry"),
    ],
)
def test_the_last_sentence_fits_the_code(code: str, what: str) -> None:
    assert what in run_view.why(stopped(code))[2]


def test_the_summary_has_the_stable_names_and_is_json() -> None:
    usage = e.Usage(input_tokens=3, output_tokens=4, cost_uusd=1_250_000)
    run = play(Script(write=ok("t1", usage=usage))).run
    said = json.loads(json.dumps(run_view.summary(run)))
    names = [
        "run",
        "machine",
        "state",
        "status",
        "end",
        "stop_reason",
        "turns",
        "cost_usd",
        "tokens",
        "tree",
        "certificate",
    ]
    assert [name for name in names if name not in said] == []
    assert (said["end"], said["turns"], said["cost_usd"], said["tokens"]) == ("success", 3, 1.25, 7)
    assert said["stop_reason"]["code"] == "completed"
    assert set(said["stop_reason"]) == {"code", "rule", "evidence"}


def test_the_summary_says_unproven() -> None:
    run = play(Script(), settings=Settings(agents={"default": "script:x"})).run
    assert run_view.summary(run)["unproven"] is True
    assert run_view.summary(play(Script()).run)["unproven"] is False


def test_the_summary_of_a_failure_carries_the_alo_code() -> None:
    said = run_view.summary(play(Script(test=failing())).run)
    assert (said["alo_code"], said["end"]) == ("ALO_MAX_FIX_ATTEMPTS_EXCEEDED", "failure")
    assert said["stop_reason"]["evidence"]["otherwise"]


def test_the_summary_shows_the_open_question() -> None:
    said = run_view.summary(play(Script(write=ok("t1", ask="Which?"))).run)
    assert said["question"]["text"] == "Which?"
    assert (said["status"], said["end"]) == ("waiting", None)
