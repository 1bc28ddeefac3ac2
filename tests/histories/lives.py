"""The lives that are recorded: what agents do, what people say in between, and how far it is played."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from flyball.lab.selftest.scenarios import ACCEPT, DONE, GOOD, PLAN, PLOTS, WORSE, Plot

REJECTED = {"say": "OUTCOME: rejected"}
RESUME = ("resume", "@last", "--json")
BLOCKED = {".flyball/policy.toml": "anything = true\n"}
LONG = {"sleep_s": 60}


class Life(Struct, frozen=True):
    """`then` are words for the command line, in order; `kill`: the driver and its keepers die in the first long turn."""

    name: str
    plot: Plot
    about: str
    then: tuple[tuple[str, ...], ...] = ()
    kill: bool = False
    second: dict[str, list[dict[str, Any]]] = {}  # what another agent plays, as the reviewer


def _build(coder: list[dict[str, Any]], *sets: str, critic: Any = ACCEPT) -> Plot:
    return Plot("Mend the sum", "build", {"planner": PLAN, "coder": coder, "critic": critic}, sets=sets)


def _loop(*worker: dict[str, Any], sets: tuple[str, ...] = ()) -> Plot:
    return Plot("Mend the sum", "loop", {"worker": list(worker)}, sets=sets)


def _review(author: list[dict[str, Any]], reviewer: list[dict[str, Any]], *sets: str) -> Plot:
    return Plot("Mend the sum", "review", {"author": author, "reviewer": reviewer}, sets=sets)


def _task(**roles: list[dict[str, Any]]) -> Plot:
    given = {**PLOTS[3].roles, **roles}
    return Plot("Mend the sum", "task", given)


APPROVED = {"say": "OUTCOME: approved"}
ESCALATED = {"outcome": "escalate", "data": {"kind": "escalate", "guidance": "A person must look."}}
GUIDED = {"outcome": "retry", "data": {"kind": "retry", "guidance": "Try it once more."}}
FINDING = {"id": "F1", "severity": "high", "file": "calc.py", "line": 2, "text": "It subtracts."}

LIVES = (
    Life("build-finished", PLOTS[0], "written, tested, fixed, accepted"),
    Life("loop-finished", PLOTS[1], "three turns until truly done"),
    Life("review-finished", PLOTS[2], "rejected once, then done"),
    Life("task-finished", PLOTS[3], "a build, its loop and a review below it"),
    Life("build-rate-limit", PLOTS[4], "a limit was waited for"),
    Life(
        "build-guard-rejected", PLOTS[5], "the guard asked, a person said no", (("reject", "@last"), RESUME)
    ),
    Life(
        "build-guard-approved", PLOTS[6], "the guard asked, a person said yes", (("approve", "@last"), RESUME)
    ),
    Life("build-blocked", _build([{"write": GOOD | BLOCKED}]), "the guard was touched: it waits, blocked"),
    Life(
        "build-fix-attempts",
        _build([{"write": WORSE}, {}, {"write": {"calc.py": "x\n"}}], "limits.iterations=2", "limits.fix=1"),
        "never right: no more fixes, it failed",
    ),
    Life(
        "build-iterations",
        _build([{"write": GOOD}, {"write": {"notes.txt": "a"}}], "limits.iterations=2", critic=[REJECTED]),
        "never accepted: no more iterations, it failed",
    ),
    Life(
        "build-breakpoint", _build([{"write": GOOD}], 'run.breakpoints=["write"]'), "paused at a breakpoint"
    ),
    Life(
        "build-rollback",
        _build([{"write": WORSE}, {"write": GOOD}], 'run.breakpoints=["fix"]'),
        "put back to an earlier turn by a person, then on",
        (("rollback", "@last", "--to", "2"), ("answer", "@last", "go-on"), RESUME),
    ),
    Life(
        "build-taken-over",
        _build([{"write": WORSE}, {"write": GOOD}], 'run.breakpoints=["write"]'),
        "a person worked in its checkout meanwhile",
        (("take-over", "@last"), ("hand-back", "@last"), RESUME, ("answer", "@last", "go-on"), RESUME),
    ),
    Life(
        "build-budget",
        _build([{"write": GOOD, "usage": {"cost_usd": 0.4}}], "budget.usd=0.5"),
        "the budget does not cover another turn: it waits",
    ),
    Life(
        "build-raised",
        _build([{"write": GOOD, "usage": {"cost_usd": 0.4}}], "budget.usd=0.5"),
        "the budget was raised",
        (("answer", "@last", "raise"), RESUME),
    ),
    Life(
        "build-asked",
        _build([{"ask": "Which sum?"}, {"write": GOOD}]),
        "the agent asked, a person answered",
        (("answer", "@last", "answer", "Both."), RESUME),
    ),
    Life(
        "build-cancelled",
        _build([{"ask": "Which sum?"}]),
        "cancelled while it waited",
        (("cancel", "@last"), RESUME),
    ),
    Life("build-unproven", _build([{"write": GOOD}], "proof.commands=[]"), "no proof is configured"),
    Life("loop-open", _loop({"say": "Hm."}, sets=("limits.no_progress=2",)), "the circuit is open: it waits"),
    Life(
        "loop-answered",
        _loop({"say": "Hm."}, {}, {"write": GOOD}, {"finish": DONE}, sets=("limits.no_progress=2",)),
        "the circuit was open, an answer closed it",
        (("answer", "@last", "answer", "Add, do not subtract."), RESUME),
    ),
    Life("loop-turns", _loop({"write": WORSE}, {}, sets=("limits.turns=2",)), "no more turns: it failed"),
    Life("loop-failed", _loop({"exit": 7}, sets=("limits.retries=1",)), "the agent died too often"),
    Life("loop-killed", _loop({"write": WORSE}, LONG), "killed with its keepers in a turn", kill=True),
    Life(
        "loop-interrupted",
        _loop({"write": WORSE}, {**LONG, "sleep_s": 4, "write": GOOD}, {"finish": DONE}),
        "killed in a turn, resumed, finished",
        (RESUME,),
        kill=True,
    ),
    Life("review-failed", _review([{"write": GOOD}], [{"say": "FAIL"}]), "the reviewer said FAIL"),
    Life(
        "review-findings",
        _review(
            [{"write": WORSE, "say": "Draft."}, {"write": GOOD, "say": "Better."}],
            [
                {"finding": FINDING, "say": "Not yet."},
                {"finding": {**FINDING, "status": "fixed"}, "say": "Good."},
            ],
        ),
        "a finding, closed by who made it",
    ),
    Life(
        "review-consensus",
        _review([{"write": GOOD, "say": "DONE"}, {"say": "DONE"}], [{"say": "Hm."}], "run.consensus=true"),
        "two agents change places until both agree on one tree",
        second={
            "author": [{"write": {"notes.txt": "b"}, "say": "DONE"}],
            "reviewer": [{"say": "Hm."}, {"say": "PASS"}],
        },
    ),
    Life(
        "task-cto",
        _task(validator=[REJECTED, REJECTED, REJECTED, APPROVED], cto=[GUIDED]),
        "three rejections called the CTO, who guided a retry",
    ),
    Life(
        "task-escalated",
        _task(validator=[REJECTED], cto=[ESCALATED]),
        "the CTO passed it on: it waits for a person",
    ),
    Life(
        "task-abandoned",
        _task(validator=[REJECTED], cto=[ESCALATED]),
        "a person gave it up",
        (("answer", "@last", "abandon"), RESUME),
    ),
    Life(
        "task-asks-below",
        _task(worker=[{"ask": "Which sum?"}, {"write": GOOD, "finish": DONE}]),
        "the innermost run asks, and all above it wait",
    ),
)
