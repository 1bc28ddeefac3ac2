"""What may go wrong while a run is in a state, by name, and how it is recognised.

A *visit* is the time from entering a state to its outcome. A triple (state, outcome, fault) is reached if that outcome
came in a visit in which that fault happened. What agents, proofs and people did is read from the events, by the same
function for `prove` and for the simulation; what happened in the world (disks, drivers, clocks) is reported by
the world.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from flyball.acts.run_files import INTERRUPTIONS
from flyball.core.turns import claimable
from flyball.domain import events as e
from flyball.domain.machine import WORKERS
from flyball.domain.settings import INDICATORS_MIN
from flyball.state.fold import BY_A_PERSON
from flyball.state.run import Run

ALONE = INTERRUPTIONS["orphaned"]  # why a keeper ends an act that has no driver
KEPT = (
    "agent",
    "proof",
    "commit",
    "land",
    "prepare",
)  # acts with a process; the others are simply done again

AGENTS = {  # read from a turn's end and the guard's ruling on it
    "dies": "the agent's process is killed, cannot start, or ends in no known way",
    "hangs": "it says nothing until the idle watchdog ends it",
    "is slow": "its phase runs out",
    "lies": "it claims what is not its to claim, what does not fit, or what the gate disproves",
    "repeats": "it leaves a tree that was there before, or makes the same call again and again",
    "hits a limit": "rate, plan, overload, network",
    "is locked out": "login or billing",
    "overflows": "its context",
    "overspends": "its own budget or the run's",
    "asks": "it asks, wants a permission, or says that it is blocked",
    "is refused": "the guard denies its change",
    "is doubted": "the guard asks about its change",
}
PROOFS = {
    "odd proof": "a proof or commit of another tree, of a changed tree, too late, not to be started, in conflict"
}
PEOPLE = {
    "pause": "a person pauses, stops, interrupts or takes over",
    "late answer": "a day after the question",
    "second answer": "a question is answered twice",
    "wrong answer": "to another question, with another verb, to what was shown before",
}
DOUBTS = {  # what a new driver finds for an act that has a process
    "act not begun": "its driver died between writing it down and beginning it",
    "act goes on": "its driver died, its keeper did not",
    "act ended alone": "its driver died, and then it ended",
    "act lost": "its keeper died with its driver",
    "act orphaned": "nobody came back in time, and its keeper ended it",
}
WORLD = {  # may happen at any append
    "crash before write": "the driver dies before a transaction",
    "crash after write": "the driver dies after a transaction, before anything follows from it",
    "killed": "the driver dies at some instant",
    "power cut": "the driver dies, its keepers too, and unsynced writes are lost, whole or torn",
    "write fails": "the disk fails in the middle of a transaction",
    "sync fails": "the disk fails when a transaction is made durable",
    "disk full": "there is no room for a transaction",
    "clock forward": "by 24 hours, or some",
    "clock back": "by 24 hours, or some",
    "second driver": "another driver wants the run, and is refused",
    "taken for dead": "another driver takes the run from one that only hangs",
    "zombie": "one that was taken for dead wakes up and writes, and is fenced off",
}
FAULTS: dict[str, str] = {**AGENTS, **PROOFS, **PEOPLE, **DOUBTS, **WORLD}

VERDICTS = {
    **dict.fromkeys(("killed", "unknown", "refused", "cannot_start"), "dies"),
    "hung": "hangs",
    "timeout": "is slow",
    **dict.fromkeys(("rate_limited", "plan_limit", "overloaded", "network"), "hits a limit"),
    **dict.fromkeys(("auth", "billing"), "is locked out"),
    "context": "overflows",
    "budget_limit": "overspends",
    "needs_approval": "asks",
}
OUTCOMES = {  # a stop's or end's code -> the outcome that it stands for
    "limit": "exhausted",
    "failed.tests": "exhausted",
    "timeout.phase": "timeout",
    "timeout.idle": "error",
    "failed.agent": "error",
    "failed.start": "error",
    "loop": "stalled",
    "blocked": "blocked",
    "cancelled": "cancel",
}


# ---- faults that facts tell ------------------------------------------------------------------------------------------


def faults_of(before: Run, event: e.AnyEvent) -> Iterable[str]:
    """The faults that this event shows; `before` is the run before it."""
    match event:
        case e.ActFinished(result=e.TurnEnded() as turn) if before.act:
            return _of_turn(before, before.act, turn)
        case e.ActFinished(result=e.ProofEnded() as proof) if before.act:
            return _of_proof(before.act, proof)
        case e.ActFinished(result=e.CommitEnded() as result) if before.act:
            odd = result.outcome in ("conflict", "unreachable") or result.tree != before.act.tree
            return ("odd proof",) if odd else ()
        case e.Ruled(ruling=e.Ruling() as ruling) if ruling.diff not in before.evidence.waivers:
            return {"deny": ("is refused",), "ask": ("is doubted",)}.get(ruling.verdict, ())
        case e.ActInterrupted() if before.act and before.act.do.partition(":")[0] in KEPT:
            alone = event.reason == ALONE
            return () if event.reason == BY_A_PERSON else ("act orphaned",) if alone else ("act lost",)
        case e.Asked() if event.what and event.what != "cancel":
            return ("pause",)
        case e.Stopped() if event.stop.code.startswith("limit.budget"):
            return ("overspends",)
        case _:
            return ()


def _of_turn(run: Run, act: e.Act, turn: e.TurnEnded) -> Iterator[str]:
    if _lies(run, act.role, turn):
        yield "lies"
    elif turn.verdict in VERDICTS:
        yield VERDICTS[turn.verdict]
    works = act.role in WORKERS and turn.verdict == "ok"
    if turn.halted or (works and (turn.tree == act.tree or turn.tree in run.progress.trees)):
        yield "repeats"
    if turn.verdict == "ok" and (turn.claim.ask or turn.claim.reading == "blocked"):
        yield "asks"


def _lies(run: Run, role: str, turn: e.TurnEnded) -> bool:
    claim = turn.claim
    if turn.verdict == "unknown" and turn.notes:  # data that do not fit
        return True
    if turn.verdict != "ok":
        return False
    enough = len(set(claim.indicators)) >= INDICATORS_MIN
    half = role == "worker" and (claim.finished != enough or bool(claim.missing))
    foreign = claim.signal == ("DONE" if role == "reviewer" else "PASS" if role == "author" else "-")
    return half or foreign or bool(claim.outcome and claim.outcome not in claimable(run))


def _of_proof(act: e.Act, proof: e.ProofEnded) -> Iterator[str]:
    if proof.cannot_start or proof.invalid or proof.tree != act.tree:
        yield "odd proof"
    elif act.why == "gate" and not proof.passed:
        yield "lies"


# ---- outcomes that facts tell ----------------------------------------------------------------------------------------


def outcome_of(before: Run, event: e.AnyEvent) -> str:
    """The outcome that an event stands for; "" if it stands for none."""
    match event:
        case e.Moved():
            return event.outcome
        case e.FailureCounted() if before.machine.place(before.state, "failure") == "@back":
            return "failure"
        case e.Ended() if not before.machine.states[before.state].end:
            return _by_code(before, event.stop)
        case e.Stopped() if before.here.act != "ask":
            return _by_code(before, event.stop)
        case _:
            return ""


def _by_code(run: Run, stop: e.Stop) -> str:
    code = stop.rule if stop.code == "wait.escalation" else stop.code
    if code.startswith("limit.budget") or code in ("limit.actions", "loop.same_action"):
        return ""
    outcome = OUTCOMES.get(code) or OUTCOMES.get(code.partition(".")[0])
    return outcome or (stop.rule if stop.rule in run.here.on and code.startswith("failed.") else "")
