"""An independent count of what happened, made from the events and the real results, not from the run's own counts.

It sees each event as it is journaled and, when an act has finished, its real result. The laws compare its counts with
what the run does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from flyball.domain import events as e
from flyball.domain.machine import FAILING, READ_ONLY_ROLES
from flyball.lab.prove.act_results import FAILED, FREE
from flyball.lab.prove.premises import Premise
from flyball.state.run import Run

RENEWED = (
    "limit.turns",
    "limit.fix_attempts",
    "limit.iterations",
    "failed.tests",
)  # all counts that an answer resets
Name = Callable[[str], int]
Place = tuple[str, str, str, str]  # state, code, rule of a stop, and the limit that led to it


class Witness(Struct, frozen=True, kw_only=True):
    checkout: str = ""  # the tree that is really in the checkout
    wanted: str = ""  # the tree that must be there before the next act; "" the one that is
    before: str = ""  # the tree at the start of the last turn
    proved: str = ""  # the last tree that really passed a proof
    accepted: str = (
        ""  # the last tree whose proof the gate examined without a doubt, or with a person's approval
    )
    disproved: bool = False  # the last proof or commit of this tree failed
    committed: str = ""
    landed: str = ""  # the tree that a branch of the user took
    done: str = ""  # the tree of which the author said DONE

    turned: str = ""  # the key of the last turn here
    judged: str = ""  # the guard's verdict on it, or "approved" by a person
    diff: str = ""
    waived: str = ""
    signal: str = ""
    finishes: bool = False  # it claimed with two indicators and a signal
    passed: str = ""  # the tree that last really passed a probe …
    passes: int = 0  # … and how many it passed
    asked: bool = False  # it passed the first and no turn has ended since: the worker may say that it is done
    settled: bool = False  # it passed two, a person said that it is done, and no turn has started since
    fruitless: int = 0  # probes in a row with no fewer failing tests
    skipped: bool = False  # a left-out test was journaled since the state was entered
    broke: bool = False  # the breakpoint here was passed since the act
    answered: Place | None = None  # the stop answered last, until an act starts
    ran_out: str = ""  # the limit that led it to a state that asks, until somebody answers there

    iteration: int = 0
    entries: dict[str, int] = {}
    turns: int = 0
    failed: int = 0  # failed turns in a row
    contexts: int = 0
    idle: int = 0  # turns in a row without a fresh tree or fewer failing tests
    cut: int = 0  # interruptions in a row
    failures: dict[str, int] = {}
    interventions: int = 0
    origin: str = ""
    spent: int = 0  # of money, or of tokens, since the budget was last raised
    took_us: int = 0
    priced: bool = False  # one of its own turns has ended since, so the cost of the next one is known

    def key(self, run: Run, tree: Name, old: Name, premise: Premise) -> tuple[Any, ...]:
        """What the laws read; trees have the numbers that the run's own key gives them."""
        return (
            *(tree(self.checkout), tree(self.wanted), old(self.proved), old(self.committed)),
            old(self.landed),
            old(self.accepted),
            old(self.done) if premise.settings.consensus else -1,
            self.disproved and premise.machine.name == "review",
            tree(self.before) if self.judged in ("ask", "deny") else -1,
            *(bool(self.turned), self.judged, bool(self.waived)),
            *(self.signal, self.finishes, self.skipped, self.broke, self.answered, self.ran_out),
            *(old(self.passed), self.passes, self.settled, self.fruitless),
            *(self.iteration, tuple(sorted(self.entries.items())), self.turns, self.failed),
            min(self.contexts, 2),
            *(self.idle, self.cut, tuple(sorted(self.failures.items())), self.interventions),
            self.origin if run.state in premise.origins else "",
            *(self.spent, self.took_us, self.priced and premise.cost_uusd + premise.tokens > 0),
        )


def first(run: Run, premise: Premise) -> Witness:
    """At the start of a run."""
    return _entered(Witness(checkout=run.tree, iteration=run.iteration), run.state, premise)


def _entered(witness: Witness, state: str, premise: Premise) -> Witness:
    if state not in premise.machine.most:
        return witness
    return replace(witness, entries={**witness.entries, state: witness.entries.get(state, 0) + 1})


def after_event(
    witness: Witness, run: Run, event: e.AnyEvent, truth: e.AnyResult | None, premise: Premise
) -> Witness:
    """The witness after one more event; `run` is the run before it, `truth` the real result of the act."""
    match event:
        case e.ActStarted():
            return _began(witness, event.act)
        case e.ActFinished():
            assert truth is not None
            return _finished(witness, run, event, truth, premise)
        case e.ActInterrupted():
            return _interrupted(witness, run, event.reason)
        case e.Ruled():
            return _ruled(witness, event.ruling)
        case e.Moved():
            return _moved(witness, run, event, premise)
        case e.Answered():
            return _answered(witness, run, event)
        case e.Resumed():
            witness = replace(witness, answered=_place(witness, run), broke=_passes(witness, run))
            return _begun_anew(_handed_back(witness, run), run)
        case e.Asked() | e.ChildStopped():
            return replace(witness, answered=None)
        case e.Skipped():
            return replace(witness, skipped=witness.skipped or event.what == "test")
        case e.FailureCounted():
            return _failed(witness, event.state, premise)
        case e.Charged():
            return _charged(witness, run, event, premise)
        case e.ChildWentOn():
            return _raised(witness, run)
        case e.Dropped() if event.why.startswith("@back"):
            more = {"idle": 0, "fruitless": 0} if "stalled" in event.why else {}
            return replace(witness, failed=0, **more)
        case e.RestoreOrdered() if event.why == "approved":
            return replace(witness, wanted=event.tree)
        case e.RestoreOrdered() if event.why == "rollback":  # the last turn no longer counts
            return replace(witness, wanted=event.tree, turned="", judged="", entries={})
        case _:
            return witness


def _ruled(witness: Witness, ruling: e.Ruling) -> Witness:
    verdict = "waived" if ruling.diff == witness.waived else ruling.verdict
    return replace(witness, judged=verdict, diff=ruling.diff)


def _failed(witness: Witness, state: str, premise: Premise) -> Witness:
    count = _to_limit(witness.failures.get(state, 0) + 1, premise, "failures")
    return replace(witness, failures={**witness.failures, state: count})


def _began(witness: Witness, act: e.Act) -> Witness:
    expected = witness.wanted if act.do == "restore" else ""
    return replace(
        witness, answered=None, wanted=expected, settled=witness.settled and not act.do.startswith("agent:")
    )


def _charged(witness: Witness, run: Run, event: e.Charged, premise: Premise) -> Witness:
    witness = _spent(witness, event.usage, event.took_us, premise)
    if run.machine.supervises and run.plan.turns + event.turns <= (run.most("turns") or 0):
        witness = replace(witness, answered=None)  # the answer allowed a turn of a child run
    return replace(witness, turns=_to_limit(witness.turns + event.turns, premise, "turns"))


def _spent(witness: Witness, usage: e.Usage, took_us: int, premise: Premise) -> Witness:
    """Only up to the budget: more than that makes no difference."""
    budget = premise.settings.budget
    most, amount = (budget.uusd, usage.cost_uusd) if budget.tokens is None else (budget.tokens, usage.tokens)
    cost = 0 if most is None else min(witness.spent + amount, most)
    time = 0 if budget.wall_us is None else min(witness.took_us + took_us, budget.wall_us)
    return replace(witness, spent=cost, took_us=time)


def _raised(witness: Witness, run: Run) -> Witness:
    code = run.stop.code if run.stop else ""
    return replace(witness, spent=0, priced=False) if code.startswith("limit.budget") else witness


def _as_read(truth: e.AnyResult, reading: e.AnyResult) -> e.AnyResult:
    """A claim that does not fit makes a failed turn; everything else is taken from the real result."""
    if isinstance(truth, e.TurnEnded) and isinstance(reading, e.TurnEnded) and reading.verdict == "unknown":
        return replace(truth, verdict=reading.verdict)
    return truth


def _place(witness: Witness, run: Run) -> Place | None:
    return (run.state, run.stop.code, run.stop.rule, witness.ran_out) if run.stop else None


def _passes(witness: Witness, run: Run) -> bool:
    return witness.broke or (run.stop is not None and run.stop.code == "wait.breakpoint")


def _to_limit(count: int, premise: Premise, key: str) -> int:
    most = premise.most(key)
    return min(count, most + 1) if most is not None else 0


def _interrupted(witness: Witness, run: Run, reason: str) -> Witness:
    act = run.act
    expected = act.tree if act and act.do.startswith("agent:") else witness.wanted
    dirty = "t-half" if act and act.do.startswith("agent:") else witness.checkout
    crashed = int(reason != "a person stopped it")
    return replace(witness, wanted=expected, checkout=dirty, cut=witness.cut + crashed)


# ---- what came of an act ---------------------------------------------------------------------------------------


def _finished(
    witness: Witness, run: Run, event: e.ActFinished, truth: e.AnyResult, premise: Premise
) -> Witness:
    act = run.act
    assert act is not None
    own = act.do == run.here.do or act.why == "write"
    cut = witness.cut if isinstance(truth, e.Restored) else 0
    witness = replace(witness, cut=cut, broke=witness.broke and not own)
    if isinstance(truth, e.TurnEnded):
        witness = _spent(witness, truth.usage, event.took_us, premise)
    match _as_read(truth, event.result):
        case e.TurnEnded() as truth:
            return _turned(witness, run, act, truth, premise)
        case e.ProofEnded() as truth:
            return _proved(witness, run, act, truth)
        case e.CommitEnded() as truth:
            true = truth.outcome == "committed" and truth.tree == witness.checkout
            if act.do == "land":
                return replace(
                    witness,
                    landed=witness.checkout
                    if true and (truth.landed or truth.pull_request)
                    else witness.landed,
                )
            return replace(
                witness, committed=witness.checkout if true else witness.committed, disproved=not true
            )
        case e.Prepared() as truth:
            return replace(witness, checkout=truth.base_tree)
        case e.Restored() as truth:
            return replace(witness, checkout=truth.tree, wanted="")
        case e.ChildEnded() as truth:
            final = witness.checkout if premise.machine.supervises else truth.tree or witness.checkout
            below = replace(witness, checkout=final, turned=act.key, judged="below")
            return (
                below if truth.turns else replace(below, turns=_to_limit(witness.turns + 1, premise, "turns"))
            )
        case e.CheckEnded():
            return witness


def _proved(witness: Witness, run: Run, act: e.Act, proof: e.ProofEnded) -> Witness:
    true = proof.passed and not proof.invalid and proof.tree == witness.checkout
    fewer = proof.failing is not None and (run.evidence.fewest is None or proof.failing < run.evidence.fewest)
    idle = 0 if fewer and act.why != "baseline" else witness.idle
    examined = true and act.why == "gate" and not (proof.evidence and proof.evidence.doubts)
    probe, passes = act.why == "probe", witness.passes if true and witness.passed == witness.checkout else 0
    passes = min(passes + 1, 2) if true and probe else passes
    fails = probe and not true and not fewer
    return replace(
        witness,
        passed=witness.checkout if passes else "",
        passes=passes,
        asked=true and probe and passes == 1,
        fruitless=witness.fruitless + 1 if fails else witness.fruitless if not (true or fewer) else 0,
        proved=witness.checkout if true else witness.proved,
        accepted=witness.checkout if examined else witness.accepted,
        disproved=not true,
        idle=idle,
    )


def _turned(witness: Witness, run: Run, act: e.Act, turn: e.TurnEnded, premise: Premise) -> Witness:
    claim, role = turn.claim, act.role
    well = turn.verdict == "ok" and not turn.halted
    says_done = role == "author" and claim.signal == "DONE" and turn.verdict not in FREE
    witness = replace(
        witness,
        checkout=turn.tree,
        before=act.tree,
        turned=act.key,
        judged="",
        signal=_signal(role, claim, run.findings) if well else "",
        finishes=well and claim.finished and len({*claim.indicators}) > 1 and not claim.missing,
        done=turn.tree if says_done else witness.done,
        contexts=_contexts(witness, turn.verdict),
    )
    free = turn.verdict in FREE and not (turn.verdict == "context" and witness.contexts > 1)
    return witness if free else _counted(witness, run, role, turn, premise)


def _contexts(witness: Witness, verdict: str) -> int:
    """Overflows in a row; a limit between two of them is not a turn."""
    if verdict == "context":
        return witness.contexts + 1
    return witness.contexts if verdict in FREE else 0


def _signal(role: str, claim: e.Claim, findings: tuple[e.Finding, ...]) -> str:
    """A round in which the reviewer closed the only finding is read as PASS (PAIR-6)."""
    ids = {finding.id for finding in findings}
    closed = [f.status in ("fixed", "accepted") and f.id in ids for f in claim.findings]
    return "PASS" if role == "reviewer" and closed and all(closed) and not claim.signal else claim.signal


def _counted(witness: Witness, run: Run, role: str, turn: e.TurnEnded, premise: Premise) -> Witness:
    """A turn that counts as a turn."""
    waits = bool(turn.claim.ask) or turn.claim.reading == "blocked" or turn.verdict == "needs_approval"
    idle = (
        witness.idle
        if role in READ_ONLY_ROLES or waits
        else 0
        if turn.tree not in run.progress.trees
        else witness.idle + 1
    )
    return replace(
        witness,
        asked=False,
        turns=_to_limit(witness.turns + 1, premise, "turns"),
        failed=witness.failed + 1 if _fails(turn.verdict) else 0,
        priced=True,
        idle=_to_limit(idle, premise, "no_progress"),
    )


def _fails(verdict: str) -> bool:
    return verdict in (*FAILED, "context")


# ---- transitions and answers -----------------------------------------------------------------------------------


def _moved(witness: Witness, run: Run, event: e.Moved, premise: Premise) -> Witness:
    machine = premise.machine
    if machine.states[event.target].end:
        return witness
    source, target = machine.states[event.source], machine.states[event.target]
    to_cto, again = target.do == "agent:cto", event.target == machine.iteration
    forwards = event.outcome not in (*FAILING, "error", "timeout")
    failures = {**witness.failures, event.source: 0} if forwards or to_cto else witness.failures
    witness = replace(
        witness,
        interventions=witness.interventions + int(source.do == "agent:cto" and bool(witness.turned)),
        origin=event.source if to_cto else witness.origin,
        ran_out=event.reason if event.outcome == "exhausted" else witness.ran_out,
        idle=0 if event.outcome == "stalled" and target.act != "ask" else witness.idle,
        answered=None if source.act == "listen" else witness.answered,  # something new came from outside
        iteration=_to_limit(witness.iteration + int(again), premise, "iterations"),
        entries={} if again else witness.entries,
        failures={k: n for k, n in failures.items() if n},
        **FORGOTTEN,
    )
    return _entered(witness, event.target, premise)


FORGOTTEN: dict[str, Any] = {  # counts for one visit to a state
    "turned": "",
    "judged": "",
    "signal": "",
    "finishes": False,
    "settled": False,
    "skipped": False,
    "broke": False,
    "failed": 0,
}


def _answered(witness: Witness, run: Run, event: e.Answered) -> Witness:
    stop, pending = run.stop, run.pending
    witness = _raised(replace(witness, answered=_place(witness, run), broke=_passes(witness, run)), run)
    witness = _begun_anew(witness, run)
    if stop is not None and stop.rule == "limit.time":
        witness = replace(witness, took_us=0)
    if stop is not None and not stop.code.startswith("limit.budget"):
        witness = replace(witness, failed=0, contexts=0, idle=0, cut=0, fruitless=0)
    if (
        stop is not None
        and stop.code.startswith(("wait.escalation", "blocked.table."))
        and stop.rule in RENEWED
    ):
        witness = replace(witness, turns=0, iteration=0, entries={})
    if stop is not None and stop.rule == "third_failure":
        witness = replace(witness, failures={k: n for k, n in witness.failures.items() if k != run.state})
    if run.question is not None and run.question.kind == "evidence":
        yes = event.verb == "approve"
        witness = replace(witness, accepted=witness.checkout) if yes else replace(witness, disproved=True)
    if run.question is not None and run.question.kind == "done":
        witness = replace(witness, settled=event.verb == "approve" and witness.passes > 1)
    if pending is not None and pending.waits in ("approval", "block") and run.question is not None:
        return _ruled_by_a_person(witness, event)
    return witness


def _handed_back(witness: Witness, run: Run) -> Witness:
    """A person has worked in the checkout, so earlier turns say nothing about the next ones."""
    taken_over = run.stop is not None and run.stop.code == "wait.take_over"
    forgotten = replace(witness, idle=0, answered=None, turned="", judged="", signal="", finishes=False)
    return forgotten if taken_over else witness


def _begun_anew(witness: Witness, run: Run) -> Witness:
    """Where a limit leads to a state that asks, the answer there (or a cooldown) resets the limits."""
    if not witness.ran_out or run.here.act != "ask":
        return witness
    if witness.ran_out == "limit.time":
        return replace(witness, ran_out="", took_us=0)
    return replace(witness, ran_out="", turns=0, iteration=0, entries={})


def _ruled_by_a_person(witness: Witness, event: e.Answered) -> Witness:
    if event.verb == "approve":
        return replace(witness, judged="approved", waived=witness.diff)
    return (
        witness if event.verb == "cancel" else replace(witness, judged="", turned="", wanted=witness.before)
    )
