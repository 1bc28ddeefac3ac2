"""Small runs of every kind, as data: what the agent does in each turn, what a person answers, what proves it.

Each turn and each proof leaves a line in a file that Flyball knows nothing of. `{w}` stands for its name.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

PROJECT = {"calc.py": "def add(a, b):\n    return a - b\n", "README": "A sum with a bug.\n"}
WORSE = {"calc.py": "def add(a, b):\n    return a * b\n"}
GOOD = {"calc.py": "def add(a, b):\n    return a + b\n"}
CI = {".github/workflows/test.yml": "on: push\n"}
PROOF = "echo proof $FLYBALL_RUN - $FLYBALL_ACT >> {w}; grep -q 'a + b' calc.py"
LINE = "echo {name} $FLYBALL_RUN $FLYBALL_TURN $FLYBALL_ACT >> {{w}}"
DONE = {"indicators": ["task complete", "all done"]}


class Plot(Struct, frozen=True):
    """One run. `answers` says what a person says to a question of that kind."""

    name: str
    machine: str
    roles: dict[str, list[dict[str, Any]]]
    answers: dict[str, str] = {}
    sets: tuple[str, ...] = ()


def _turn(name: str, **more: Any) -> dict[str, Any]:
    return {"sleep_s": 0.1, "run": f"{LINE.format(name=name)}; sleep 0.1", **more}


PLAN, ACCEPT = [_turn("plan", say="Mend it.")], [_turn("verify", say="OUTCOME: accepted")]

PLOTS = (
    Plot(
        "build: write, test, fix, verify",
        "build",
        {
            "planner": PLAN,
            "coder": [_turn("write", write=WORSE), _turn("fix", write=GOOD)],
            "critic": ACCEPT,
        },
    ),
    Plot(
        "loop: three turns",
        "loop",
        {
            "worker": [
                _turn("first", write=WORSE),
                _turn("second", write=GOOD),
                _turn("third", finish=DONE),
            ]
        },
    ),
    Plot(
        "review: rejected once",
        "review",
        {
            "author": [_turn("draft", write=WORSE, say="A draft."), _turn("rework", write=GOOD, say="DONE")],
            "reviewer": [_turn("reject", say="Not yet: it multiplies.")],
        },
    ),
    Plot(
        "task: a build, its loop and a review below it",
        "task",
        {
            "validator": [_turn("validate", say="OUTCOME: approved")],
            "planner": PLAN,
            "worker": [_turn("work", write=WORSE), _turn("finish", write=GOOD, finish=DONE)],
            "critic": ACCEPT,
            "reviewer": [_turn("review", say="PASS")],
        },
    ),
    Plot(
        "build: a rate limit is waited for",
        "build",
        {
            "planner": PLAN,
            "coder": [
                _turn("limited", limited={"kind": "rate_limited", "reset_in_s": 0.5}),
                _turn("write", write=GOOD),
            ],
            "critic": ACCEPT,
        },
    ),
    Plot(
        "build: the guard asks, a person rejects",
        "build",
        {
            "planner": PLAN,
            "coder": [_turn("overreach", write=GOOD | CI), _turn("write", write=GOOD)],
            "critic": ACCEPT,
        },
        answers={"approval": "reject", "block": "reject"},
    ),
    Plot(
        "build: the guard asks, a person approves",
        "build",
        {"planner": PLAN, "coder": [_turn("reach", write=GOOD | CI)], "critic": ACCEPT},
        answers={"approval": "approve", "block": "approve"},
    ),
)
