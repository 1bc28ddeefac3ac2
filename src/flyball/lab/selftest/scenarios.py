"""Small runs of every kind, as data: what the agent does in each turn, what a person answers, how it is proved.

Each turn and each proof appends a line to a file that Flyball does not know. `{w}` stands for its name.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

PROJECT = {"calc.py": "def add(a, b):\n    return a - b\n", "README": "A sum with a bug.\n"}
WORSE = {"calc.py": "def add(a, b):\n    return a * b\n"}
GOOD = {"calc.py": "def add(a, b):\n    return a + b\n"}
WORST = {"calc.py": "def add(a, b):\n    return 0\n"}
CI = {".github/workflows/test.yml": "on: push\n"}
PROOF = "run=${HOME%/homes/*}; echo proof ${run##*/} - $INVOCATION_ID >> {w}; grep -q 'a + b' calc.py"
LINE = "echo {name} $FLYBALL_RUN $FLYBALL_TURN $INVOCATION_ID >> {{w}}"
DONE = {"indicators": ["task complete", "all done"]}


class Plot(Struct, frozen=True):
    """One run. `answers` says what a person answers to a kind of question; `end` is how it ends without kills."""

    name: str
    machine: str
    roles: dict[str, list[dict[str, Any]]]
    answers: dict[str, str] = {}
    sets: tuple[str, ...] = ()
    end: str = "success"


def _turn(name: str, **more: Any) -> dict[str, Any]:
    return {"sleep_s": 0.1, "run": f"{LINE.format(name=name)}; sleep 0.1", **more}


def _boom(n: int) -> dict[str, Any]:
    return {"tool": "sh", "result": f"calc.py:{n}7: ValueError: boom at 0x7f{n}a", "error": True}


PLAN, ACCEPT = [_turn("plan", say="Mend it.")], [_turn("verify", say="OUTCOME: accepted")]
MENDED = _turn("mend", write=GOOD, finish=DONE)

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
    Plot(
        "build: the fixes are used up",
        "build",
        {"planner": PLAN, "coder": [_turn("write", write=WORSE), _turn("fix", write=WORST)]},
        sets=("limits.fix=1",),
        end="failure",
    ),
    Plot(
        "build: an agent that fails is tried again",
        "build",
        {"planner": PLAN, "coder": [_turn("die", exit=3), _turn("write", write=GOOD)], "critic": ACCEPT},
    ),
    Plot(
        "loop: a claim while the proof fails",
        "loop",
        {"worker": [_turn("claim", write=WORSE, finish=DONE), _turn("mend", write=GOOD, finish=DONE)]},
    ),
    Plot(
        "loop: no progress opens the circuit, a person goes on",
        "loop",
        {"worker": [*(_turn(f"idle{n}", say="Looking.") for n in (1, 2)), MENDED]},
        sets=("limits.no_progress=2",),
    ),
    Plot(
        "loop: the same error, wherever it stands",
        "loop",
        {
            "worker": [
                *(_turn(f"err{n}", actions=[_boom(n)], write={f"{n}.txt": "x"}) for n in (1, 2)),
                MENDED,
            ]
        },
        sets=("limits.same_error=2",),
    ),
    Plot(
        "loop: the tree goes back and forth",
        "loop",
        {"worker": [*(_turn(f"swing{n}", write=WORSE if n % 2 else PROJECT) for n in (1, 2, 3, 4)), MENDED]},
        sets=("limits.no_progress=2",),
    ),
    Plot(
        "loop: limits without a time, past, and of another kind",
        "loop",
        {
            "worker": [
                _turn("busy", limited={"kind": "overloaded"}),
                _turn("past", limited={"kind": "plan_limit", "reset_in_s": -5}),
                _turn("full", limited={"kind": "context"}),
                MENDED,
            ]
        },
        sets=("rate_limit.retry_every=1s",),
    ),
    Plot("loop: it asks, a person answers", "loop", {"worker": [_turn("ask", ask="Which one?"), MENDED]}),
    Plot(
        "loop: the turns are used up",
        "loop",
        {"worker": [_turn(f"step{n}", write={f"{n}.txt": "x"}) for n in (1, 2)]},
        sets=("limits.turns=2",),
        end="failure",
    ),
    Plot("review: FAIL ends it", "review", {"author": [_turn("give-up", say="FAIL")]}, end="failure"),
    Plot(
        "review: PASS while the proof fails",
        "review",
        {
            "author": [_turn("draft", write=WORSE, say="DONE"), _turn("rework", write=GOOD, say="DONE")],
            "reviewer": [_turn("pass", say="PASS")],
        },
    ),
    Plot(
        "review: a finding is raised, mended and closed",
        "review",
        {
            "author": [_turn("draft", write=GOOD, say="A draft."), _turn("more", write={"b.txt": "b"})],
            "reviewer": [
                _turn("find", finding={"id": "F1", "file": "calc.py", "severity": "high", "text": "wrong"}),
                _turn("close", finding={"id": "F1", "status": "accepted", "text": "right after all"}),
            ],
        },
        sets=("run.review=always",),
    ),
)
