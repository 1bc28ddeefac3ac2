"""`flyball init --from-ralph`: prompts and open tasks are taken over; what cannot be read is one sentence."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.e2e.helpers import Place

PRD = {
    "branchName": "ralph/login",
    "userStories": [
        {"id": "2", "title": "Log out", "priority": 2, "passes": False},
        {"id": "3", "title": "Done already", "priority": 0, "passes": True},
        {
            "id": "1",
            "title": "Log in",
            "description": "As a user\nI log in",
            "acceptanceCriteria": ["a form", "tests pass"],
            "priority": 1,
        },
    ],
}
PLAN = "# Plan\n\n- [x] old\n- [ ] Fix `add`\n  1. [ ] Nested \x1b[31mred\n* [ ] Log out\n- a remark\n"


def test_a_ralph_loop_is_taken_over(place: Place) -> None:
    (place.repo / "PROMPT.md").write_text("Study the specs.\n")
    (place.repo / "fix_plan.md").write_text(PLAN)
    (place.repo / ".ralph").mkdir()
    (place.repo / ".ralph/prd.json").write_text(json.dumps(PRD))
    done = place.fb("init", "--from-ralph", "--no-try")
    assert done.code == 0, done.err
    assert (place.repo / ".flyball/tasks.md").read_text() == (
        "# Tasks\n\n- [ ] Log in: As a user I log in. Done when: a form; tests pass\n- [ ] Log out\n"
        "- [ ] Fix `add`\n- [ ] Nested red\n"
    )
    for role in ("coder", "worker"):
        assert "Study the specs." in (place.repo / f".flyball/prompts/{role}.md").read_text()
    assert ".flyball/tasks.md has 4 open tasks" in done.out
    assert (place.repo / "fix_plan.md").read_text() == PLAN
    place.git("add", ".")
    place.git("commit", "-qm", "Flyball")
    coder = place.script(
        planner=[{"say": "plan"}], coder=[{"write": {"calc.py": "def add(a, b):\n    return a + b\n"}}]
    )
    assert place.run(coder).code == 0, "what init wrote is trusted"
    assert "Study the specs." in place.fb("show", "@last", "--prompt", "2").out
    (place.repo / ".flyball/flyball.toml").unlink()
    again = place.fb("init", "--from-ralph", "--no-try")
    assert again.code == 2 and "already exists. Move it away" in again.err


@pytest.mark.parametrize(
    ("files", "sentence"),
    [
        ({}, "There is no PROMPT.md, fix_plan.md or prd.json"),
        ({"prd.json": b'{"userStories": [\n{]}'}, "prd.json, line 2: this is not JSON"),
        ({"prd.json": b"[]"}, "It needs userStories"),
        ({"prd.json": b'{"userStories": [{"title": 1}]}'}, "It needs userStories"),
        ({"prd.json": b"[" * 100_000}, "prd.json"),
        ({"fix_plan.md": b"- [ ] \xff\n"}, "fix_plan.md is not UTF-8 text (line 1)"),
        ({"PROMPT.md": b"x" * 1_000_001}, "is larger than a megabyte"),
    ],
)
def test_what_cannot_be_taken_over_is_refused_whole(
    place: Place, files: dict[str, bytes], sentence: str
) -> None:
    for name, data in files.items():
        (place.repo / name).write_bytes(data)
    done = place.fb("init", "--from-ralph", "--no-try")
    assert done.code == 2 and sentence in done.err and done.err.count("\n") == 1, done.err
    assert not Path(place.repo, ".flyball").exists()
