"""What must hold at every step: each law with its id.

Most laws look at one event, with the run before and after it: what holds at each step holds forever.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from flyball.domain import events as e
from flyball.domain.machine import Machine
from flyball.lab.prove import conduct, transitions
from flyball.lab.prove.moves import STALE, Move
from flyball.lab.prove.observed import Observation
from flyball.lab.prove.witness import Witness
from flyball.state.run import Run

LAWS = {
    "SYS-1": "every state has a way on, and every run a way to an end",
    "SYS-2": "only transitions of the table",
    "SYS-3": "the rules always have an answer",
    "SYS-5": "an interruption costs nothing, and its tree is put back; five in a row ask",
    "SYS-7": "every stop has a known reason and the status that goes with it",
    "SYS-8": "an owner succeeds only with a proof and a commit of exactly this tree, landed where it must",
    "SYS-10": "an act begins on the tree that its run knows",
    "HUMAN-2": "an answer renews what ran out, and is bound to what was shown",
    "HUMAN-3": "a cancel ends, an ended run does nothing",
    "ALO-1": "the guard rules on every turn before its outcome counts",
    "ALO-2": "a passing proof of this tree before verify, or a journaled skip",
    "ALO-3": "no more entries to a limited state than one iteration allows, and no fewer",
    "ALO-4": "a breakpoint pauses at every visit",
    "ALO-5": "no changed file is forgotten",
    "ALO-6": "an iteration begins at each entry to its state, and nowhere else",
    "ALO-7": "no more iterations than allowed, and no fewer",
    "ALO-8": "facts are frozen, and nothing that was counted is taken back",
    "ALO-9": "a deny blocks where it is, and only a human lets it go on",
    "ALO-10": "every act in a state with a time limit carries one",
    "LOOP-1": "done needs two indicators and the signal, or a person's yes after two probes that pass; no turn beyond the limit of turns",
    "LOOP-3": "no turn once the circuit should be open",
    "LOOP-5": "a limit costs neither a turn nor a failure",
    "GUARD-2": "a call is granted by a person alone, and what was granted once is gone after one turn",
    "GUARD-4": "no turn begins that the budget does not cover",
    "RETRY": "a failed turn is tried again as often as allowed, no more and no less",
    "TASK-9": "failures and interventions within their limits; no skipping but the override",
    "CTO-1": "reasons where they are due; only a person's answer leads from waiting to idle",
    "PAIR-1": "DONE, PASS and FAIL lead where they must, and nothing else does",
    "BOUND": "every path ends or waits",
}
ONLY_IN = {"ALO-2": "build", "TASK-9": "task", "CTO-1": "cto", "PAIR-1": "review"}

Law = Callable[[Observation], str]


def laws_of(machine: Machine) -> list[str]:
    """The laws that apply to this machine."""
    return [law for law in LAWS if ONLY_IN.get(law, machine.name) == machine.name]


def broken(step: Observation) -> tuple[str, str] | None:
    """The law that this event breaks, and how."""
    for law, check in (*ALWAYS, *CHECKS.get(type(step.event), ())):
        says = check(step) if ONLY_IN.get(law) in (None, step.premise.machine.name) else ""
        if says:
            return law, says
    return None


ALWAYS: Sequence[tuple[str, Law]] = (
    ("GUARD-2", conduct.granted_by_a_person),
    ("ALO-5", conduct.files_remembered),
    ("ALO-8", conduct.only_appended),
)
CHECKS: dict[type[e.Event], Sequence[tuple[str, Law]]] = {
    e.Moved: (
        ("HUMAN-3", conduct.idle_when_ended),
        ("SYS-2", transitions.on_the_table),
        ("ALO-1", transitions.judged_first),
        ("ALO-2", transitions.tested_first),
        ("ALO-4", transitions.paused_first),
        ("SYS-8", transitions.through_the_gate),
        ("LOOP-1", transitions.truly_done),
        ("ALO-3", transitions.entries_allowed),
        ("ALO-7", transitions.iterations_allowed),
        ("ALO-6", transitions.iteration_counted),
        ("TASK-9", transitions.task_recovers),
        ("CTO-1", transitions.cto_gives_reasons),
        ("PAIR-1", transitions.pair_signals),
    ),
    e.ActStarted: (
        ("HUMAN-3", conduct.idle_when_ended),
        ("SYS-5", conduct.put_back_first),
        ("SYS-10", conduct.on_its_tree),
        ("ALO-10", conduct.carries_a_time),
        ("SYS-5", conduct.asks_after_crashes),
        ("GUARD-4", conduct.covered),
        ("LOOP-1", conduct.turn_allowed),
        ("LOOP-3", conduct.circuit_closed),
        ("RETRY", conduct.retry_allowed),
        ("TASK-9", conduct.may_intervene),
    ),
    e.ActFinished: (("LOOP-5", conduct.limits_are_free),),
    e.ActInterrupted: (("SYS-5", conduct.interruption_is_free),),
    e.FailureCounted: (("TASK-9", transitions.failures_counted),),
    e.Stopped: (
        ("SYS-7", conduct.known_code),
        ("HUMAN-2", conduct.no_same_stop),
        ("HUMAN-2", conduct.stays_unwaivable),
        ("ALO-7", conduct.no_fewer_iterations),
        ("ALO-3", conduct.no_fewer_entries),
        ("LOOP-1", conduct.no_fewer_turns),
        ("RETRY", conduct.no_fewer_retries),
    ),
    e.Ended: (
        ("HUMAN-3", conduct.idle_when_ended),
        ("SYS-7", conduct.known_code),
        ("SYS-8", conduct.succeeds_at_an_end),
        ("ALO-7", conduct.no_fewer_iterations),
        ("ALO-3", conduct.no_fewer_entries),
        ("LOOP-1", conduct.no_fewer_turns),
        ("RETRY", conduct.no_fewer_retries),
    ),
}


# ---- a whole step ------------------------------------------------------------------------------------------------------


def step_breaks(
    before: Run, move: Move, facts: Sequence[e.AnyEvent], after: Run, now: Witness
) -> tuple[str, str] | None:
    """What no single event shows."""
    kinds = {type(fact) for fact in facts}
    if before.status == "blocked" and after.status == "running" and not kinds & {e.Answered, e.ChildWentOn}:
        return "ALO-9", "a blocked run goes on without an answer"
    if before.asked == "cancel" and move.kind == "due" and after.status != "ended":
        return "HUMAN-3", "the run goes on though it is cancelled"
    finished = move.finished
    if finished is not None and finished.ruling is not None and finished.ruling.diff != now.waived:
        return _ruling_breaks(before, finished.ruling, after, now)
    if finished is not None and isinstance(finished.result, e.TurnEnded) and e.Ruled not in kinds:
        return "ALO-1", "a turn ends without a ruling"
    message = move.message
    if message is not None and getattr(message, "shown", "") == STALE and kinds != {e.LetterRefused}:
        return "HUMAN-2", "an answer to something else is taken"
    return None


def _ruling_breaks(before: Run, ruling: e.Ruling, after: Run, now: Witness) -> tuple[str, str] | None:
    cancelled = before.asked == "cancel" and after.end == "cancelled" and ruling.rule != "tampering"
    if ruling.verdict == "deny" and not cancelled:
        stays = after.status == "blocked" and after.state == before.state
        return None if stays else ("ALO-9", f"a deny leaves the run {after.status} in '{after.state}'")
    stands = before.act is not None and now.checkout != before.act.tree
    if ruling.verdict == "ask" and after.status == "running" and stands:
        return "ALO-1", "the run goes on though the guard asks"
    return None
