"""What an onlooker knows who believes the facts and the world, not the run's own counts.

It sees each fact as it is journaled and, where an act finished, what truly came of it. The laws compare its count
with what the run does.
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
)  # by an answer, all at once
Name = Callable[[str], int]
Place = tuple[str, str, str, str]  # state, code, rule of a stop, and the limit that led to it


class Witness(Struct, frozen=True, kw_only=True):
    checkout: str = ""  # the tree that is truly there
    wanted: str = ""  # the tree that must be there before the next act; "" the one that is
    before: str = ""  # the tree at the start of the last turn
    proved: str = ""  # the last tree of which a proof truly passed
    accepted: str = ""  # the last tree whose proof the gate examined without a doubt, or with a person's yes
    disproved: bool = False  # the last proof or commit of this tree failed
    committed: str = ""
    landed: str = ""  # the tree that a branch of the user's took
    done: str = ""  # the tree of which the author said DONE

    turned: str = ""  # the key of the last turn here
    judged: str = ""  # the guard's word on it, or "approved" by a person
    diff: str = ""
    waived: str = ""
    signal: str = ""
    finishes: bool = False  # it claimed with two indicators and a signal
    passed: str = ""  # the tree of which a probe truly passed last …
    passes: int = 0  # … and how many
    settled: bool = False  # two of them did, a person said that it is done, and no turn began since
    fruitless: int = 0  # probes in a row with no fewer failing tests
    skipped: bool = False  # a left-out test was journaled since the state was entered
    broke: bool = False  # the breakpoint here was passed since the act
    answered: Place | None = None  # the stop last answered, until an act begins
    ran_out: str = ""  # the limit for which it came to a state that asks, until somebody answers there

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
    priced: bool = False  # a turn of its own ended since, so that the next one's cost is known

    def key(self, run: Run, tree: Name, known: Name, premise: Premise) -> tuple[Any, ...]:
        """As far as a law reads it; trees by the names that the run's own key gives them."""
        return (
            *(tree(self.checkout), tree(self.wanted), known(self.proved), known(self.committed)),
            known(self.landed),
            known(self.accepted),
            known(self.done) if premise.settings.consensus else -1,
            self.disproved and premise.machine.name == "review",
            tree(self.before) if self.judged in ("ask", "deny") else -1,
            *(bool(self.turned), self.judged, bool(self.waived)),
            *(self.signal, self.finishes, self.skipped, self.broke, self.answered, self.ran_out),
            *(known(self.passed), self.passes, self.settled, self.fruitless),
            *(self.iteration, tuple(sorted(self.entries.items())), self.turns, self.failed),
            min(self.contexts, 2),
            *(self.idle, self.cut, tuple(sorted(self.failures.items())), self.interventions),
            self.origin if run.state in premise.origins else "",
            *(self.spent, self.took_us, self.priced and premise.cost_uusd + premise.tokens > 0),
        )


def first(run: Run, premise: Premise) -> Witness:
    """At the start of a run."""
    return _entered(Witness(checkout=run.tree, iteration=run.iteration), run.state, premise)


def _entered(seen: Witness, state: str, premise: Premise) -> Witness:
    if state not in premise.machine.most:
        return seen
    return replace(seen, entries={**seen.entries, state: seen.entries.get(state, 0) + 1})


def saw(seen: Witness, run: Run, event: e.AnyEvent, truth: e.AnyResult | None, premise: Premise) -> Witness:
    """After one more fact; `run` is as it was before it, `truth` what came of the act."""
    match event:
        case e.ActStarted():
            return _began(seen, event.act)
        case e.ActFinished():
            assert truth is not None
            return _finished(seen, run, event, truth, premise)
        case e.ActInterrupted():
            return _interrupted(seen, run, event.reason)
        case e.Ruled():
            verdict = "waived" if event.ruling.diff == seen.waived else event.ruling.verdict
            return replace(seen, judged=verdict, diff=event.ruling.diff)
        case e.Moved():
            return _moved(seen, run, event, premise)
        case e.Answered():
            return _answered(seen, run, event)
        case e.Resumed():
            seen = replace(seen, answered=_place(seen, run), broke=_passes(seen, run))
            return _begun_anew(_handed_back(seen, run), run)
        case e.Asked() | e.ChildStopped():
            return replace(seen, answered=None)
        case e.Skipped():
            return replace(seen, skipped=seen.skipped or event.what == "test")
        case e.FailureCounted():
            count = _to_limit(seen.failures.get(event.state, 0) + 1, premise, "failures")
            return replace(seen, failures={**seen.failures, event.state: count})
        case e.Charged():
            return _charged(seen, run, event, premise)
        case e.ChildWentOn():
            return _raised(seen, run)
        case e.Dropped() if event.why.startswith("@back"):
            return replace(seen, failed=0, **({"idle": 0, "fruitless": 0} if "stalled" in event.why else {}))
        case e.RestoreOrdered() if event.why == "approved":
            return replace(seen, wanted=event.tree)
        case e.RestoreOrdered() if event.why == "rollback":  # nothing of the last turn counts
            return replace(seen, wanted=event.tree, turned="", judged="")
        case _:
            return seen


def _began(seen: Witness, act: e.Act) -> Witness:
    wanted = seen.wanted if act.do == "restore" else ""
    return replace(
        seen, answered=None, wanted=wanted, settled=seen.settled and not act.do.startswith("agent:")
    )


def _charged(seen: Witness, run: Run, event: e.Charged, premise: Premise) -> Witness:
    seen = _spent(seen, event.usage, event.took_us, premise)
    if run.machine.supervises and run.plan.turns + event.turns <= (run.most("turns") or 0):
        seen = replace(seen, answered=None)  # the answer allowed a turn of a child run
    return replace(seen, turns=_to_limit(seen.turns + event.turns, premise, "turns"))


def _spent(seen: Witness, usage: e.Usage, took_us: int, premise: Premise) -> Witness:
    """Up to the budget: what is beyond it does not matter."""
    budget = premise.settings.budget
    most, used = (budget.uusd, usage.cost_uusd) if budget.tokens is None else (budget.tokens, usage.tokens)
    cost = 0 if most is None else min(seen.spent + used, most)
    time = 0 if budget.wall_us is None else min(seen.took_us + took_us, budget.wall_us)
    return replace(seen, spent=cost, took_us=time)


def _raised(seen: Witness, run: Run) -> Witness:
    code = run.stop.code if run.stop else ""
    return replace(seen, spent=0, priced=False) if code.startswith("limit.budget") else seen


def _as_read(truth: e.AnyResult, read: e.AnyResult) -> e.AnyResult:
    """A claim that does not fit makes a failed turn; in nothing else is the reading believed."""
    if isinstance(truth, e.TurnEnded) and isinstance(read, e.TurnEnded) and read.verdict == "unknown":
        return replace(truth, verdict=read.verdict)
    return truth


def _place(seen: Witness, run: Run) -> Place | None:
    return (run.state, run.stop.code, run.stop.rule, seen.ran_out) if run.stop else None


def _passes(seen: Witness, run: Run) -> bool:
    return seen.broke or (run.stop is not None and run.stop.code == "wait.breakpoint")


def _to_limit(count: int, premise: Premise, key: str) -> int:
    most = premise.most(key)
    return min(count, most + 1) if most is not None else 0


def _interrupted(seen: Witness, run: Run, reason: str) -> Witness:
    act = run.act
    wanted = act.tree if act and act.do.startswith("agent:") else seen.wanted
    dirty = "t-half" if act and act.do.startswith("agent:") else seen.checkout
    crashed = int(reason != "a person stopped it")
    return replace(seen, wanted=wanted, checkout=dirty, cut=seen.cut + crashed)


# ---- what came of an act ---------------------------------------------------------------------------------------


def _finished(seen: Witness, run: Run, event: e.ActFinished, truth: e.AnyResult, premise: Premise) -> Witness:
    act = run.act
    assert act is not None
    own = act.do == run.here.do or act.why == "write"
    cut = seen.cut if isinstance(truth, e.Restored) else 0
    seen = replace(seen, cut=cut, broke=seen.broke and not own)
    if isinstance(truth, e.TurnEnded):
        seen = _spent(seen, truth.usage, event.took_us, premise)
    match _as_read(truth, event.result):
        case e.TurnEnded() as truth:
            return _turned(seen, run, act, truth, premise)
        case e.ProofEnded() as truth:
            return _proved(seen, run, act, truth)
        case e.CommitEnded() as truth:
            true = truth.outcome == "committed" and truth.tree == seen.checkout
            if act.do == "land":
                return replace(
                    seen,
                    landed=seen.checkout if true and (truth.landed or truth.pull_request) else seen.landed,
                )
            return replace(seen, committed=seen.checkout if true else seen.committed, disproved=not true)
        case e.Prepared() as truth:
            return replace(seen, checkout=truth.base_tree)
        case e.Restored() as truth:
            return replace(seen, checkout=truth.tree, wanted="")
        case e.ChildEnded() as truth:
            left = seen.checkout if premise.machine.supervises else truth.tree or seen.checkout
            below = replace(seen, checkout=left, turned=act.key, judged="below")
            return below if truth.turns else replace(below, turns=_to_limit(seen.turns + 1, premise, "turns"))
        case e.CheckEnded():
            return seen


def _proved(seen: Witness, run: Run, act: e.Act, proof: e.ProofEnded) -> Witness:
    true = proof.passed and not proof.invalid and proof.tree == seen.checkout
    fewer = proof.failing is not None and (run.evidence.fewest is None or proof.failing < run.evidence.fewest)
    idle = 0 if fewer and act.why != "baseline" else seen.idle
    examined = true and act.why == "gate" and not (proof.evidence and proof.evidence.doubts)
    probe, passes = act.why == "probe", seen.passes if true and seen.passed == seen.checkout else 0
    passes = min(passes + 1, 2) if true and probe else passes
    fails = probe and not true and not fewer
    return replace(
        seen,
        passed=seen.checkout if passes else "",
        passes=passes,
        fruitless=seen.fruitless + 1 if fails else seen.fruitless if not (true or fewer) else 0,
        proved=seen.checkout if true else seen.proved,
        accepted=seen.checkout if examined else seen.accepted,
        disproved=not true,
        idle=idle,
    )


def _turned(seen: Witness, run: Run, act: e.Act, turn: e.TurnEnded, premise: Premise) -> Witness:
    claim, role = turn.claim, act.role
    well = turn.verdict == "ok" and not turn.halted
    says_done = role == "author" and claim.signal == "DONE" and turn.verdict not in FREE
    seen = replace(
        seen,
        checkout=turn.tree,
        before=act.tree,
        turned=act.key,
        judged="",
        signal=_signal(role, claim, run.findings) if well else "",
        finishes=well and claim.finished and len({*claim.indicators}) > 1 and not claim.missing,
        done=turn.tree if says_done else seen.done,
        contexts=_contexts(seen, turn.verdict),
    )
    free = turn.verdict in FREE and not (turn.verdict == "context" and seen.contexts > 1)
    return seen if free else _counted(seen, run, role, turn, premise)


def _contexts(seen: Witness, verdict: str) -> int:
    """Overflows in a row; a limit between two of them is not a turn."""
    if verdict == "context":
        return seen.contexts + 1
    return seen.contexts if verdict in FREE else 0


def _signal(role: str, claim: e.Claim, findings: tuple[e.Finding, ...]) -> str:
    """A round in which the reviewer closed the one finding that there is, is read as PASS (PAIR-6)."""
    known = {finding.id for finding in findings}
    closed = [f.status in ("fixed", "accepted") and f.id in known for f in claim.findings]
    return "PASS" if role == "reviewer" and closed and all(closed) and not claim.signal else claim.signal


def _counted(seen: Witness, run: Run, role: str, turn: e.TurnEnded, premise: Premise) -> Witness:
    """A turn that costs a turn."""
    waits = bool(turn.claim.ask) or turn.claim.reading == "blocked" or turn.verdict == "needs_approval"
    idle = (
        seen.idle
        if role in READ_ONLY_ROLES or waits
        else 0
        if turn.tree not in run.progress.trees
        else seen.idle + 1
    )
    return replace(
        seen,
        turns=_to_limit(seen.turns + 1, premise, "turns"),
        failed=seen.failed + 1 if _fails(turn.verdict) else 0,
        priced=True,
        idle=_to_limit(idle, premise, "no_progress"),
    )


def _fails(verdict: str) -> bool:
    return verdict in (*FAILED, "context")


# ---- transitions and answers -----------------------------------------------------------------------------------


def _moved(seen: Witness, run: Run, event: e.Moved, premise: Premise) -> Witness:
    machine = premise.machine
    if machine.states[event.target].end:
        return seen
    source, target = machine.states[event.source], machine.states[event.target]
    to_cto, again = target.do == "agent:cto", event.target == machine.iteration
    forwards = event.outcome not in (*FAILING, "error", "timeout")
    failures = {**seen.failures, event.source: 0} if forwards or to_cto else seen.failures
    seen = replace(
        seen,
        interventions=seen.interventions + int(source.do == "agent:cto" and bool(seen.turned)),
        origin=event.source if to_cto else seen.origin,
        ran_out=event.reason if event.outcome == "exhausted" else seen.ran_out,
        idle=0 if event.outcome == "stalled" and target.act != "ask" else seen.idle,
        answered=None if source.act == "listen" else seen.answered,  # something new came from outside
        iteration=_to_limit(seen.iteration + int(again), premise, "iterations"),
        entries={} if again else seen.entries,
        failures={k: n for k, n in failures.items() if n},
        **FORGOTTEN,
    )
    return _entered(seen, event.target, premise)


FORGOTTEN: dict[str, Any] = {  # what concerns a visit to a state
    "turned": "",
    "judged": "",
    "signal": "",
    "finishes": False,
    "settled": False,
    "skipped": False,
    "broke": False,
    "failed": 0,
}


def _answered(seen: Witness, run: Run, event: e.Answered) -> Witness:
    stop, held = run.stop, run.pending
    seen = _raised(replace(seen, answered=_place(seen, run), broke=_passes(seen, run)), run)
    seen = _begun_anew(seen, run)
    if stop is not None and stop.rule == "limit.time":
        seen = replace(seen, took_us=0)
    if stop is not None and not stop.code.startswith("limit.budget"):
        seen = replace(seen, failed=0, contexts=0, idle=0, cut=0, fruitless=0)
    if (
        stop is not None
        and stop.code.startswith(("wait.escalation", "blocked.table."))
        and stop.rule in RENEWED
    ):
        seen = replace(seen, turns=0, iteration=0, entries={})
    if stop is not None and stop.rule == "third_failure":
        seen = replace(seen, failures={k: n for k, n in seen.failures.items() if k != run.state})
    if run.question is not None and run.question.kind == "evidence":
        yes = event.verb == "approve"
        seen = replace(seen, accepted=seen.checkout) if yes else replace(seen, disproved=True)
    if run.question is not None and run.question.kind == "done":
        seen = replace(seen, settled=event.verb == "approve" and seen.passes > 1)
    if held is not None and held.waits in ("approval", "block") and run.question is not None:
        return _ruled_by_a_person(seen, event)
    return seen


def _handed_back(seen: Witness, run: Run) -> Witness:
    """Somebody has worked on it: what went before says nothing of the turns to come."""
    taken = run.stop is not None and run.stop.code == "wait.take_over"
    forgotten = replace(seen, idle=0, answered=None, turned="", judged="", signal="", finishes=False)
    return forgotten if taken else seen


def _begun_anew(seen: Witness, run: Run) -> Witness:
    """Where a limit leads to a state that asks, what is answered there (or a cooldown) is a new allowance."""
    if not seen.ran_out or run.here.act != "ask":
        return seen
    if seen.ran_out == "limit.time":
        return replace(seen, ran_out="", took_us=0)
    return replace(seen, ran_out="", turns=0, iteration=0, entries={})


def _ruled_by_a_person(seen: Witness, event: e.Answered) -> Witness:
    if event.verb == "approve":
        return replace(seen, judged="approved", waived=seen.diff)
    return seen if event.verb == "cancel" else replace(seen, judged="", turned="", wanted=seen.before)
