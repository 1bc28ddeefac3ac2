"""The result of an act, as a word: `fails`, `rejected`, `plan 2`, `killed`; `WORD@5h` takes that long.

Any name in `players.MANNERS` is a word for a turn. Without a word an act goes well.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from flyball.core.decide import Finished
from flyball.domain import events as e
from flyball.domain.machine import duration_us
from flyball.domain.settings import SECOND
from flyball.lab.simulate.players import MANNERS, PlannedAct, Players
from flyball.state.run import Run

LASTS_US = 30 * SECOND
DOUBTS = e.Evidence(doubts=("test_login: it was removed",), doubts_key="a removed test")
GRAVE = e.Finding(id="S1", file="calc.py", severity="high", kind="security", text="a way in")
RISKY = ("It is T2: the dependencies change.",)


def key_of(run: Run, act: e.Act) -> str:
    """The name under which a task gives the results of an act: its state, or the purpose of the act."""
    if act.do == run.here.do:
        return f"{run.machine.name}.{run.state}"
    return act.why if act.do == "proof" or act.do.startswith("agent:") else act.do


class WeekActs:
    def __init__(self, players: Players, word_for: Callable[[Run, str], str]) -> None:
        self.players, self.word_for = players, word_for

    def play(self, run: Run, act: e.Act) -> PlannedAct:
        word, _, lasts = self.word_for(run, key_of(run, act)).partition("@")
        lasts_us = duration_us(lasts) if lasts else LASTS_US
        if act.do.startswith("agent:") and word in MANNERS:
            return self.players.turn(run, act, word)
        planned = self.players.well(run, act, lasts_us)
        result = self._result(run, act, word, planned.finished.result)
        finished = Finished(key=act.key, result=result, took_us=lasts_us, ruling=planned.finished.ruling)
        return PlannedAct(finished, lasts_us, word)

    def _result(self, run: Run, act: e.Act, word: str, well: e.AnyResult) -> e.AnyResult:
        match well:
            case e.TurnEnded():
                return self._turn(run, act, word, well)
            case e.ProofEnded() if word == "fails":
                return replace(well, passed=False, failing=1, summary="1 failed", fingerprint=f"f-{act.key}")
            case e.ProofEnded() if word == "cannot start":
                return replace(well, passed=False, cannot_start="The test runner is not installed.")
            case e.ProofEnded() if word == "doubts":
                return replace(well, evidence=DOUBTS)
            case e.ProofEnded():
                failing = int(act.why == "baseline")
                return replace(well, passed=not failing, failing=failing, evidence=e.Evidence())
            case e.CheckEnded() if word == "fails":
                return e.CheckEnded(outcome="failure", reason="something is missing")
            case e.CommitEnded() if word == "refused":
                return replace(well, outcome="refused", reason="a hook of the repository says no")
            case _:
                return well

    def _turn(self, run: Run, act: e.Act, word: str, turn: e.TurnEnded) -> e.TurnEnded:
        turn = replace(turn, message=f"{word or 'done'} {act.key}")
        role = act.role
        if role == "planner" and run.machine.standing:
            return self._plan(word, turn)
        if role == "cto" and "retry" in run.here.on:  # otherwise it reviews a plan file
            return replace(turn, claim=_recovery(run, word))
        if word == "grave":
            return replace(turn, claim=e.Claim(findings=(GRAVE,)))
        if word == "FAIL":
            return replace(turn, claim=e.Claim(signal="FAIL"))
        return replace(turn, claim=e.Claim(outcome=word)) if word else turn

    def _plan(self, word: str, turn: e.TurnEnded) -> e.TurnEnded:
        if word == "nothing":
            return replace(turn, claim=e.Claim(outcome="nothing"), message="There is nothing to do.")
        count = 2 if word == "plan 2" else 1
        steps = tuple(e.PlanStep(title=f"Step {n}", paths=("calc.py",)) for n in range(1, count + 1))
        plan = e.Assessment(steps=steps, basis="the defaults", cost_uusd=2_000_000, tokens=300_000)
        if word == "risky":
            plan = replace(plan, tier="T2", tier_why="the dependencies change", approval=RISKY)
        return replace(turn, claim=e.Claim(data={"steps": [{"title": "it"}]}), assessment=plan)


def _recovery(run: Run, word: str) -> e.Claim:
    """What the cto role answers: where to continue, or that a person is needed."""
    choices, kind = run.machine.targets(run.here.on["retry"]), word or "retry"
    place = choices.index(run.path.origin) if run.path.origin in choices else 0
    state = choices[max(0, place - 1)] if kind == "rollback" else choices[place]
    data = {"kind": kind} if kind in ("skip", "escalate") else {"kind": kind, "state": state}
    return e.Claim(outcome=kind, data=data)
