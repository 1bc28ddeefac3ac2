"""A worker's files are proved now and then, as a probe (LOOP-3): a new tree alone is progress only so long.

A probe is due after `probe` changed turns without a proof, and once more when the files passed one and the worker neither
changes them nor says that it is done. It is no turn and no gate. Two in a row with no fewer failing tests open the circuit
(`stops.stalled`). Of files that passed two a person is asked: only the worker or a person says that the task is done.
"""

from __future__ import annotations

from flyball.core import stops
from flyball.core.run import Facts, Run
from flyball.domain import events as e
from flyball.domain.settings import INDICATORS_MIN

PASSES = 2  # so many probes of the same files end the wait for a claim
FINISH = (
    "Flyball ran the checks on your files as they are now, and all of them passed. If the whole task is done, say so "
    "now, in full, as described under 'How to report'. If not, go on."
)


def due(run: Run) -> bool:
    """Whether the files are to be proved before the worker's next turn."""
    most, on, progress = run.most("probe"), run.here.on, run.progress
    works = run.here.of == "worker" and "done" in on and "progressed" not in on
    if not (most and works and run.owner and run.settings.proof) or run.tries.retries:
        return False
    still = progress.passed == run.tree and not progress.unproved
    silent = still and progress.passes == 1 and progress.unproved_turns > 0 and not _claims(run)
    return progress.unproved >= most or silent


def _claims(run: Run) -> bool:
    """The last turn tried to say that it is done: it is told what was missing."""
    return run.talk.exit_signal or len(set(run.talk.indicators)) >= INDICATORS_MIN


def after(facts: Facts, probe: e.ProofEnded) -> Facts:
    """What follows from a probe: the worker is told, or a person is asked."""
    now = facts.now
    if not probe.passed:
        text = f"Flyball ran the checks on your files as they are now:\n{probe.invalid or probe.summary}"
        return facts.add(e.Told(at=now, text=text, who="proof"))
    if facts.run.progress.passes < PASSES:
        return facts.add(e.Told(at=now, text=FINISH, who="proof"))
    facts.add(e.Held(at=now, outcome="done", until="done"))
    cause = stops.stop(facts.run, "wait.question", "checks pass", otherwise=stops.ANOTHER_TURN)
    text = "The checks pass and the files no longer change, but the agent does not say that the task is done. Is it?"
    return stops.ask(facts, cause, "done", text)
