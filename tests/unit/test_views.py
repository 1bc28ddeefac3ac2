"""What people read: why a run stopped, its timeline, and exactly the exit codes of the table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from flyball.core.stops import VERBS
from flyball.domain import events as e
from flyball.domain.results import CODES, RECOVERY, code_of
from flyball.domain.settings import Settings
from flyball.errors import FlyballError
from flyball.machines import shipped
from flyball.state.fold import begin
from flyball.state.run import Proof, Run
from flyball.views import reasons, run_view
from flyball.views.choices import choices
from flyball.views.run_view import Live, Timeline, call_text
from flyball.views.text import cost, fields, fitting, last_words, wrapped
from support import Script, begun, failing, ok, play, ruled

NO_CHANGE = "no files changed"

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
    reason = e.Stop(code=code, rule="a rule", threshold="3", observed="4", turn=1, **more)  # of a child run
    status = status or code_of(code).status
    end = "" if status != "ended" else "success" if code.startswith("completed") else "failure"
    return replace(run, turn=2, status=status, stop=reason, end=end)


@pytest.mark.parametrize("code", TABLE)
def test_status_exit_and_alo_code_are_those_of_the_table(code: str) -> None:
    run = stopped(code)
    assert (run.status, run_view.exit_code(run), run_view.alo_code(run)) == TABLE[code]


@pytest.mark.parametrize("code", ["error.config", "error.git", "error.agent_missing"])
def test_an_error_before_the_first_turn_exits_2(code: str) -> None:
    assert run_view.exit_code(stopped(code, "ended")) == 2


def test_there_is_no_code_beside_the_table() -> None:
    known = {code for code in TABLE if not code.startswith(("error.", "blocked.guard."))}
    assert set(CODES) == known


def test_an_unknown_code_is_an_error() -> None:
    with pytest.raises(FlyballError, match="'nonsense' is not a stop code"):
        code_of("nonsense")


def test_all_eleven_alo_codes_have_a_recovery() -> None:
    assert len(RECOVERY) == 11
    assert {alo for _, _, alo in TABLE.values() if alo} <= set(RECOVERY)


# ---- why -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", TABLE)
def test_why_is_three_sentences_for_every_code(code: str) -> None:
    happened, evidence, next_step = reasons.why(
        stopped(code, detail="First line.\nE  assert 1 == 2. It broke.")
    )
    assert code in happened and "r1" in happened
    assert code.startswith("completed") or ("2 turns" in evidence and "It broke" in evidence)
    assert next_step and not any("\n" in text for text in (happened, evidence, next_step))


@pytest.mark.parametrize(
    ("stop", "words"),
    [
        (e.Stop(code="limit.fix_attempts", rule="fix", threshold="3", observed="4"), "3 of 3 fix attempts"),
        (e.Stop(code="limit.iterations", rule="iterations", threshold="10", observed="11"), "10 of 10"),
        (e.Stop(code="limit.turns", rule="turns", threshold="7", observed="7"), "7 of 7 turns"),
        (
            e.Stop(code="limit.time", rule="budget.wall", threshold="14400s", observed="14461s"),
            "4h1m1s of 4h",
        ),
        (e.Stop(code="timeout.idle", rule="retries", threshold="3", observed="4"), "10m, 4 times"),
        (e.Stop(code="loop.no_progress", rule="no_progress", threshold="5", observed="5"), "5 turns"),
        (e.Stop(code="failed.agent", rule="retries", threshold="3", observed="4"), "4 times"),
        (
            e.Stop(code="wait.escalation", rule="limit.fix_attempts", threshold="3", observed="4"),
            "3 of 3 fix",
        ),
    ],
)
def test_what_happened_has_the_numbers(stop: e.Stop, words: str) -> None:
    assert words in reasons.happened(stop, "write")


def test_a_stop_without_numbers_still_says_what_happened() -> None:
    clauses = [reasons.happened(e.Stop(code=code), "write") for code in TABLE]
    assert all(clause and "{" not in clause for clause in clauses)


def test_why_of_a_success_says_what_was_proved() -> None:
    run = play(Script()).run
    run = replace(run, checkout=replace(run.checkout, changed=("a.py",)))
    happened, proved, next_step = reasons.why(run)
    assert run.evidence.proof and all(command.command in proved for command in run.evidence.proof.commands)
    assert run.evidence.proof.tree[:10] in proved and "flyball land r1" in next_step
    assert "would" not in happened + proved + next_step


def test_why_of_an_unproven_success_says_so() -> None:
    run = play(Script(), settings=Settings(agents={"default": "script:x"})).run
    assert "[proof] commands" in reasons.why(run)[1]


def test_why_of_a_block_names_the_rule_the_place_and_the_answers() -> None:
    _, evidence, next_step = reasons.why(play(Script(write=ruled("deny", "t1"))).run)
    assert "protected path" in evidence and "a.py:3" in evidence
    assert '`flyball answer r1.1 approve|reject|retry|redirect "TEXT"|cancel`' in next_step
    assert "flyball diff r1" in next_step


@pytest.mark.parametrize(
    ("code", "command"),
    [
        ("limit.fix_attempts", "--set limits.fix=6"),
        ("limit.iterations", "--set limits.iterations=6"),
        ("failed.tests", "flyball log r1 --output"),
        ("wait.paused", "flyball resume r1"),
        ("wait.take_over", "flyball hand-back r1"),
        ("cancelled", "flyball retry r1"),
    ],
)
def test_the_next_step_fits_the_code(code: str, command: str) -> None:
    assert command in reasons.why(stopped(code))[2]


@pytest.mark.parametrize(
    ("before", "count", "now", "offered"),
    [
        (("t::a", "t::b"), 2, ("t::a",), True),
        (("t::a", "t::b"), 2, ("t::a", "t::b"), False),
        (("t::b",), 1, ("t::a",), False),
        ((), 0, ("t::a",), False),
        (("t::a", "t::b"), 4, ("t::a", "t::c"), True),  # the list was cut after t::b
        (("t::a", "t::c"), 4, ("t::a", "t::b"), False),
        (("t::a", "t::b"), 2, ("t::a", "t::c"), False),
    ],
    ids=["one of both", "none repaired", "another one", "none before", "cut", "cut, a new one", "a new one"],
)
def test_a_red_start_is_allowed_for_where_some_of_it_was_repaired(
    before: tuple[str, ...], count: int, now: tuple[str, ...], offered: bool
) -> None:
    run = stopped("limit.fix_attempts")
    proof = Proof(tree=run.tree, passed=False, failing=len(now), failing_tests=now)
    run = replace(run, evidence=replace(run.evidence, proof=proof, before=before, baseline=count))
    _, evidence, next_step = reasons.why(run)
    assert ("failing, as before the run: t::a" in evidence) == (offered or set(now) == set(before))
    assert ("--set proof.require=no-worse" in next_step) == offered
    assert "--set limits.fix=6" in next_step
    for code in ("failed.agent", "timeout.idle", "limit.time"):
        tree = run.checkout.base_tree
        at_start = Proof(tree=tree, passed=False, failing=count, failing_tests=before)
        evidence_then = replace(run.evidence, proof=at_start)
        died = replace(run, stop=e.Stop(code=code), tree=tree, evidence=evidence_then)
        assert "no-worse" not in reasons.why(died)[2] and "before the run" not in reasons.why(died)[1]
    stop = e.Stop(code="cancelled")
    assert "no-worse" not in reasons.why(replace(run, stop=stop, end="cancelled"))[2]
    printed = replace(proof, failing_tests=(), summary="FAILED t::a\n")  # not told by id, so not compared
    run = replace(run, evidence=replace(run.evidence, proof=printed))
    assert "no-worse" not in reasons.why(run)[2]


@pytest.mark.parametrize(("uusd", "text"), [(0, "–"), (21_000, "$0.021"), (5_000_000, "$5.00")])
def test_an_unknown_cost_is_not_zero_dollars(uusd: int, text: str) -> None:
    assert cost(uusd) == text


# ---- the timeline ----------------------------------------------------------------------------------------


def told_of(ruling: e.Ruling, **turn: Any) -> list[str]:
    """The lines that are shown of a coder's turn and the guard's ruling on it."""
    act = e.Act(key="k", do="agent:coder", state="write", turn=2, tree="before")
    result = e.TurnEnded(verdict="ok", tree="before", **turn)
    timeline = Timeline()
    events = [
        e.ActStarted(at=1, act=act),
        e.ActFinished(at=2, key="k", result=result),
        e.Ruled(at=2, key="k", ruling=ruling),
    ]
    return [line.text for line in (timeline.line("r1", event) for event in events) if line.level == 2]


@pytest.mark.parametrize("verdict", ["ask", "deny"])
def test_a_change_that_the_guard_stopped_is_not_called_no_change(verdict: str) -> None:
    lines = told_of(e.Ruling(verdict=verdict, rule="ci", file="ci.yml", reason="No."), held=("ci.yml",))
    assert "ci.yml" in lines[-1] and not any(NO_CHANGE in line for line in lines)
    assert "changed ci.yml" in lines[0]


@pytest.mark.parametrize(
    ("findings", "shown"),
    [
        (
            [e.Finding(file="a.py", line=2, severity="high", text="Swapped.")],
            "1 finding: a.py:2 (high): Swapped.",
        ),
        ([e.Finding(text="One."), e.Finding(text="Two.")], "2 findings: (medium): One.; (medium): Two."),
        (
            [e.Finding(id="F1", status="fixed"), e.Finding(id="F2", status="accepted")],
            "F1 fixed, F2 accepted",
        ),
    ],
)
def test_the_findings_of_a_review_are_shown(findings: list[e.Finding], shown: str) -> None:
    ruling = e.Ruling(verdict="allow")
    assert shown in told_of(ruling, claim=e.Claim(findings=tuple(findings)))[0]


def test_a_coder_that_changed_nothing_is_reported() -> None:
    assert NO_CHANGE in told_of(e.Ruling(verdict="allow"))[-1]
    assert NO_CHANGE not in told_of(e.Ruling(verdict="allow"), changed=("a",))[-1]


# ---- the live lines --------------------------------------------------------------------------------------


def test_the_live_lines_say_tool_file_time_cost_and_turn_of_the_limit() -> None:
    run = begin(
        begun(settings=Settings(agents={"default": "script:/a/b.yaml"}, limits={"build": {"turns": 30}}))
    )
    act = e.Act(key="k", do="agent:coder", state="write", turn=2, agent="script:/a/b.yaml")
    live = Live()
    live.runs["r1"] = replace(run, turn=1, act=act, spent=e.Usage(cost_uusd=21_000))
    live.since["r1"] = run.at
    live.calls["r1"] = 'Edit {"file_path": "src/slug.py", "old": "x"}'
    now = run.at + 65_000_000
    assert live.counters(live.runs["r1"], now) == "turn 2 of 30 · 1m5s · $0.021"
    assert live.now(live.runs["r1"], now) == "coder (script:b.yaml) 1m5s: Edit src/slug.py"


@pytest.mark.parametrize(
    ("call", "text"),
    [
        ('Bash {"command": "pytest -q", "timeout": 3}', "Bash pytest -q"),
        ("Read calc.py", "Read calc.py"),
        ("Bash \x1b[31mred", "Bash red"),
        ('Edit {"file_path": "a/very/long', "Edit a/very/long"),
    ],
)
def test_a_tool_call_is_shown_without_its_json(call: str, text: str) -> None:
    assert call_text(call) == text


# ---- the summary -----------------------------------------------------------------------------------------


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


@pytest.mark.parametrize(
    ("agent", "usage", "cost_usd"),
    [
        ("claude", e.Usage(cost_uusd=1_250_000), 1.25),
        ("claude", e.Usage(output_tokens=9), None),
        ("command:aider {prompt}", e.Usage(), None),
        ("script:agent.yaml", e.Usage(output_tokens=9), None),
        ("mechanic", e.Usage(), 0.0),
    ],
)
def test_a_cost_that_nobody_knows_is_null(agent: str, usage: e.Usage, cost_usd: float | None) -> None:
    run = begin(begun(settings=Settings(agents={"default": agent})))
    run = replace(run, spent=usage)
    shown = {1.25: "$1.25", 0.0: "$0.00", None: "–"}[cost_usd]
    assert run_view.summary(run)["cost_usd"] == cost_usd
    assert run_view.cost_text(run) == shown and Live().counters(run, run.at).endswith(shown)
    assert reasons.effort(run).endswith("cost unknown" if cost_usd is None else shown)


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


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ("I will look.\nFixed add().", "Fixed add()."),
        ("Fixed add().\n\nOUTCOME: accepted", "Fixed add()."),
        ("Fixed add().\nDONE", "Fixed add()."),
        ("OUTCOME: accepted", ""),
        ("Two steps:\n- src/a.py:3 add a check", "src/a.py:3 add a check"),
        ("Fixed.\n---\n", "Fixed."),
        (
            "Fixed add().\n\n## Loop Status\n\n- [x] Task complete\n\n### Exit Decision\nEXIT_SIGNAL: true",
            "Fixed add().",
        ),
        (
            "## Loop Status\n\n**Reason**: add() is fixed\n\n### Exit Decision\nEXIT_SIGNAL: true",
            "Reason: add() is fixed",
        ),
        ("", ""),
    ],
)
def test_a_turn_is_quoted_by_its_last_words(message: str, words: str) -> None:
    assert last_words(message, 80) == words


def test_failing_tests_are_named_in_the_log() -> None:
    summary = "FAILED tests/test_a.py::test_add - assert 1 == 2\n1 failed in 0.1s"
    proof = e.ProofEnded(tree="t", passed=False, failing=1, summary=summary)
    line = Timeline().line("r", e.ActFinished(at=0, key="k", result=proof))
    assert line.text.endswith(": tests/test_a.py::test_add")


def test_what_all_runs_spent_is_shown_when_it_has_changed() -> None:
    timeline, spent = Timeline(), (0, 2_000_000, 2_000_000, 3_000_000, 3_000_000)
    lines = [timeline.line("r", e.WindowSeen(at=0, day_uusd=uusd, week_uusd=uusd)) for uusd in spent]
    assert [line.level for line in lines] == [0, 1, 0, 1, 0]


@pytest.mark.parametrize(("machine", "width"), [("build", 12), ("task", 16)])
def test_every_state_of_a_machine_fits_into_the_column_of_states(machine: str, width: int) -> None:
    timeline = Timeline()
    table = {"states": {name: {} for name in shipped(machine).states}}
    timeline.line("r", replace(begun(), table=table))
    assert timeline.width == width


@pytest.mark.parametrize(
    ("width", "headers", "last"),
    [
        (0, ["RUN", "LOOP", "ROLE", "TASK"], "a task of many words to read"),
        (80, ["RUN", "LOOP", "ROLE", "TASK"], "a task of many words to read"),
        (41, ["RUN", "ROLE", "TASK"], "a task of many words to…"),
        (20, ["RUN", "TASK"], "a task of…"),
    ],
)
def test_a_table_leaves_out_columns_before_it_is_cut(width: int, headers: list[str], last: str) -> None:
    row = ["9apx47xk", "1 of 10", "coder", "a task of many words to read"]
    header, line = fitting([["RUN", "LOOP", "ROLE", "TASK"], row], ("LOOP", "ROLE"), width)
    assert header.split() == headers and line.endswith(last) and (not width or len(line) <= width)


def test_a_path_is_never_broken(tmp_path: Path) -> None:
    path = f"{tmp_path}/{'x' * 80}"
    assert fields([("certificate", path)], 60) == [f"  certificate  {path}"]


def test_the_timeline_says_nothing_twice() -> None:
    """The tests that fail again, the task of a child run, and the state that a run leaves."""
    timeline = Timeline()
    failed = e.ProofEnded(tree="t", passed=False, failing=1, summary="FAILED test_a.py::test_add - no")
    events = [
        ("r1", begun()),
        ("r1", e.ActFinished(at=0, key="k", result=failed)),
        ("r1", e.ActFinished(at=0, key="k", result=failed)),
        ("r1", e.Moved(at=0, source="test", target="fix", outcome="failed")),
        ("r2", replace(begun(), run="r2", parent="r1")),
        ("r1", e.ActFinished(at=0, key="k", result=e.TurnEnded(verdict="ok", claim=e.Claim(ask="Why?")))),
    ]
    lines = [timeline.line(run, event) for run, event in events]
    assert [line.text.partition(" (")[0] for line in lines[1:]] == [
        "the step failed: 1 failing",
        "the step failed: 1 failing",
        "→ fix",
        "build run r2 started",
        "the step: asked a question, 0.0s",
    ]
    assert lines[1].text.endswith("test_add") and lines[2].text.endswith("the same tests as before")
    assert (lines[3].where, lines[3].level) == ("test", 0)


@pytest.mark.parametrize("kind", VERBS)
def test_each_answer_that_a_question_takes_is_explained(kind: str) -> None:
    question = e.Question(id="r.1", kind=kind, text="?", verbs=VERBS[kind], shown="")
    assert [verb for verb, _ in choices(question)] == list(VERBS[kind])
    assert choices(question, {"x": VERBS[kind][0]})[0][0] == f"x {VERBS[kind][0]}"


@pytest.mark.parametrize(
    ("line", "lines"),
    [
        ("short", ["short"]),
        ("  proof    one two three four five six", ["  proof    one two three four", "           five six"]),
        ("  - one two three four five six seven", ["  - one two three four five six", "  seven"]),
        ("see /a/very/long/path/without/any/space", ["see", "/a/very/long/path/without/any/space"]),
    ],
)
def test_a_long_line_is_wrapped_below_its_text_and_never_within_a_word(line: str, lines: list[str]) -> None:
    assert wrapped(line, 32) == lines
    assert wrapped(line, 0) == [line]
