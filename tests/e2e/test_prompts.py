"""What agents are told: each role gets its task, what failed, how to report, and the repository's own words."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.e2e.helpers import FIXED, PROOF, STILL_BROKEN, Yard


@pytest.fixture
def yard(tmp_path: Path) -> Yard:
    return Yard(tmp_path)


def prompts(yard: Yard, *words: str, turns: dict[str, str], machine: str = "build") -> dict[str, list[str]]:
    """Role -> the prompts it was given, in a run whose turns run these shell commands (without a sandbox)."""
    folder = yard.folder / "prompts"
    folder.mkdir()
    cases = " ".join(f"{role}) {line};;" for role, line in turns.items())
    line = f"cat > {folder}/$FLYBALL_TURN-$FLYBALL_ROLE; case $FLYBALL_ROLE in {cases} esac"
    yard.play(f"command:{line}", "--set", "guard.sandbox=none", *words, machine=machine)
    found: dict[str, list[str]] = {}
    for file in sorted(folder.iterdir(), key=lambda file: int(file.name.partition("-")[0])):
        found.setdefault(file.name.partition("-")[2], []).append(file.read_text())
    return found


def test_the_roles_of_build_are_told_what_they_need(yard: Yard) -> None:
    (yard.folder / "worse.py").write_text(STILL_BROKEN)
    (yard.folder / "good.py").write_text(FIXED)
    write = f"cp {yard.folder}/$([ $FLYBALL_TURN = 2 ] && echo worse || echo good).py calc.py"
    critic = f"git status --short > {yard.folder}/status; echo OUTCOME: accepted"
    told = prompts(yard, turns={"planner": "echo 1. Use plus.", "coder": write, "critic": critic})
    assert list(told) == ["planner", "coder", "critic"]
    for texts in told.values():
        assert all("# Task\n\nMake add() add\n" in text and PROOF in text for text in texts)
    first, fix = told["coder"]
    assert "You cannot change files" in told["planner"][0] and "You cannot change files" not in first
    assert all("# The plan\n\n1. Use plus.\n" in text for text in (first, fix, told["critic"][0]))
    assert "# The plan" not in told["planner"][0]
    assert "# Failing now" in first and "AssertionError" in first
    assert "The proof failed" in fix and fix.count("AssertionError") == 1
    assert "    OUTCOME: accepted\n    OUTCOME: rejected\n\n- accepted: " in told["critic"][0]
    assert "    OUTCOME: fixed\n    OUTCOME: rewrite\n\n- fixed: " in fix
    assert "# Failing now" not in told["critic"][0]
    assert (yard.folder / "status").read_text() == " M calc.py\n"


@pytest.mark.parametrize(
    ("machine", "role", "words"),
    [
        ("loop", "worker", ("EXIT_SIGNAL: true | false", "set Task Status to blocked")),
        ("review", "author", ("READY alone on the last line", "FAIL alone on the last line")),
        ("review", "reviewer", ("PASS alone on the last line", "with file and line")),
    ],
)
def test_a_role_is_told_how_to_report(yard: Yard, machine: str, role: str, words: tuple[str, ...]) -> None:
    more = ("--set", "run.done_word=READY", "--set", "limits.turns=2")
    told = prompts(yard, *more, machine=machine, turns={"author": "touch x", "worker": "touch x"})
    assert all(word in told[role][0] for word in words)
    if role == "worker":
        assert "# Failing now" in told[role][0]
        assert "# Failing before the latest change" in told[role][1] and "AssertionError" in told[role][1]


def test_the_repository_replaces_the_words_for_a_role(yard: Yard) -> None:
    folder = yard.repo / ".flyball/prompts"
    folder.mkdir(parents=True)
    (folder / "coder.md").write_text("Use type hints.\n")
    (folder / "planner.md").write_text("{shipped}\n\nPlan in French.\n")
    told = prompts(yard, "--set", "limits.fix=0", turns={"planner": "echo Le plan.", "coder": "true"})
    coder, planner = told["coder"][0], told["planner"][0]
    assert "Use type hints." in coder and "smallest change" not in coder
    assert "numbered steps" in planner and "Plan in French." in planner
    assert "do not delete or weaken tests" in coder and "# Checks" in coder


def test_who_judges_sees_the_change_and_the_proof(yard: Yard) -> None:
    (yard.folder / "good.py").write_text(FIXED)
    told = prompts(
        yard,
        turns={
            "planner": "echo plan",
            "coder": f"cp {yard.folder}/good.py calc.py",
            "critic": "echo accepted.",
        },
    )
    critic = told["critic"][0]
    assert "```diff\n" in critic and "+++ b/calc.py" in critic
    assert "All checks passed on exactly this change." in critic
    assert "# The change" not in told["coder"][0]


def test_a_question_at_the_end_of_a_turn_without_a_change_waits_for_a_person(yard: Yard) -> None:
    ran = yard.play("command:echo Which database should I use?", "--set", "guard.sandbox=none")
    assert ran.code == "wait.question"


def test_show_prints_what_a_turn_was_told(yard: Yard) -> None:
    prompts(yard, "--set", "limits.fix=0", turns={"planner": "echo plan", "coder": "true"})
    shown = yard.flyball("show", "@last", "--prompt", "1")
    assert "# Task\n\nMake add() add\n" in shown.stdout and "(planner)" in shown.stdout
    assert "few other hosts" not in shown.stdout, (
        "nobody knows which hosts this agent needs, so it reaches all"
    )
    assert yard.flyball("show", "@last", "--prompt", "99").returncode == 2
