"""What an act may result in. Trees are symbols: the same one, a new one, an earlier one.

In each turn one dimension deviates from the ordinary: its claim, its verdict, the guard's ruling, or a halt. Two are
combined only where one takes precedence (a ruling with a failed process, a claim with a failed process). Rare results
are tried in a first attempt; in a second one, or after a waiver, only common ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from flyball.core.decide import Finished
from flyball.core.turns import PLAN_REVIEW, RECOVERIES, REVIEWS, judgement
from flyball.domain import events as e
from flyball.domain.machine import JUDGING_ROLES, READ_ONLY_ROLES, WRITING_ROLES
from flyball.lab.prove.premises import SOON, Premise
from flyball.state.run import Run

FAILING_TESTS = 2  # of the base tree
FAULT = "error-1"  # the fingerprint of the only error that occurs
LIMITS = ("rate_limited", "auth", "billing", "budget_limit")
BOTH = ("one", "two")

SILENT = e.Claim()
TWO_STEPS = e.Assessment(steps=(e.PlanStep(title="first"), e.PlanStep(title="second")))
# Repeated here, so that the laws do not depend on the rules that they check.
FREE = ("rate_limited", "plan_limit", "overloaded", "network", "auth", "billing", "context")  # cost no turn
FAILED = ("killed", "hung", "unknown", "refused", "cannot_start")


class ActReport(Struct, frozen=True):
    """The result of an act, in words and as the shell reports it."""

    says: str
    finished: Finished


def results(run: Run, act: e.Act, premise: Premise) -> Iterator[ActReport]:
    kind = act.do.partition(":")[0]
    outcomes: Iterable[tuple[str, e.AnyResult | Finished]]
    match kind:
        case "agent":
            outcomes = _turns(run, act, premise)
        case "proof":
            outcomes = _proofs(run, act, premise)
        case "commit":
            outcomes = _commits(act, premise)
        case "land":
            outcomes = _landings(run)
        case "check":
            outcomes = ((f"check: {o}", e.CheckEnded(outcome=o, reason=o)) for o in _checks(premise))
        case "prepare":
            outcomes = _prepared(premise)
        case "restore":
            outcomes = _restored(run, act)
        case _:
            outcomes = _children(run, act, premise)
    for says, result in outcomes:
        finished = result if isinstance(result, Finished) else Finished(key=act.key, result=result)
        yield ActReport(says, replace(finished, took_us=premise.took_us) if kind == "agent" else finished)


# ---- plain acts ----------------------------------------------------------------------------------------------


def _prepared(premise: Premise) -> Iterator[tuple[str, e.AnyResult]]:
    yield "the checkout is made", e.Prepared(base_tree="t0", base_commit="c0")
    if premise.results == "all":
        yield "the checkout cannot be made", e.Prepared(error="no", code="error.git")


def _restored(run: Run, act: e.Act) -> Iterator[tuple[str, e.AnyResult]]:
    """A restored tree is what was asked for; a checkout that a person hands back may hold anything."""
    if act.why != "hand-back":
        yield "the tree is put back", e.Restored(tree=act.tree)
        return
    yield "a person had changed nothing", e.Restored(tree=act.tree)
    yield "a person had changed something", e.Restored(tree=fresh(run), changed=("theirs",), lines=1)


def _checks(premise: Premise) -> tuple[str, ...]:
    return ("ready", "failure") if premise.results == "onward" else ("ready", "failure", "cannot_start")


def _proofs(run: Run, act: e.Act, premise: Premise) -> Iterator[tuple[str, e.AnyResult]]:
    count = FAILING_TESTS if premise.counts else None
    failed = e.ProofEnded(
        tree=act.tree, passed=False, failing=count, summary="it failed", fingerprint=_fault(premise)
    )
    if act.why == "baseline":
        yield "the baseline fails", failed
        if premise.results == "all":
            yield "no proof can start", replace(failed, cannot_start="no such program")
            yield "the tests cannot run", replace(failed, lacks="a module is not installed")
        return
    passed = replace(failed, passed=True, failing=0 if premise.counts else None, summary="", fingerprint="")
    yield "the proof passes", passed
    if act.why == "gate" and premise.results != "onward":
        doubts = e.Evidence(doubts=("test_a: it was removed",), doubts_key=f"doubts of {act.tree}")
        yield "the proof passes, with doubts", replace(passed, evidence=doubts)
    yield "the proof fails", failed
    if premise.counts:
        yield "the proof fails, with fewer failing", replace(failed, failing=FAILING_TESTS - 1)
    if premise.results == "all":
        yield "the proof passes, but changed the tree", replace(passed, invalid="it changed the tree")
        yield "another tree is proved", replace(passed, tree="t-other")
        yield "no proof can start", replace(failed, cannot_start="no such program")
        yield "the proof outlives its phase", replace(failed, invalid="phase timeout")


def _fault(premise: Premise) -> str:
    """The only error that may repeat, where that makes a difference; otherwise all errors differ."""
    return FAULT if premise.counts else ""


def _commits(act: e.Act, premise: Premise) -> Iterator[tuple[str, e.AnyResult]]:
    committed = e.CommitEnded(outcome="committed", tree=act.tree, commit="c1", certificate="k")
    yield "committed", committed
    yield "the commit is refused", replace(committed, outcome="refused", reason="a hook says no")
    if premise.results == "all":
        yield "another tree is committed", replace(committed, tree="t-other")


def _landings(run: Run) -> Iterator[tuple[str, e.AnyResult]]:
    commit = run.checkout.commit
    assert commit is not None
    if run.act is not None and run.act.why == "pr":
        yield "a pull request is opened", replace(commit, pull_request="url")
        yield "no pull request can be opened", replace(commit, outcome="unreachable", reason="no answer")
        return
    yield "the branch takes it", replace(commit, landed="main")
    yield "it does not merge", replace(commit, outcome="conflict", reason="it does not merge")


# ---- runs below ----------------------------------------------------------------------------------------------


def _children(run: Run, act: e.Act, premise: Premise) -> Iterator[tuple[str, e.AnyResult]]:
    """A child run ends; that it can end is proved for its own machine."""
    good = e.Stop(code="completed")
    success = e.ChildEnded(run=act.child, end="success", stop=good, tree=fresh(run), turns=1)
    yield "the run below succeeds", success
    bad = replace(success, end="failure", stop=e.Stop(code="failed.agent"))
    yield "the run below fails", bad
    if premise.results == "onward":
        return
    yield "the run below succeeds, changing nothing", replace(success, tree=act.tree)
    yield "the run below ends without a turn", replace(bad, tree=act.tree, turns=0)
    yield "the run below is cancelled", replace(bad, end="cancelled", stop=e.Stop(code="cancelled"))
    if premise.results == "all":
        yield "the run below succeeds without a turn", replace(success, tree=act.tree, turns=0)
        for code in ("limit.iterations", "limit.turns", "timeout.phase", "failed.tests", "failed.review"):
            yield f"the run below fails: {code}", replace(bad, stop=e.Stop(code=code))


# ---- turns ---------------------------------------------------------------------------------------------------


def usage_of(premise: Premise) -> e.Usage:
    return e.Usage(cost_uusd=premise.cost_uusd, output_tokens=premise.tokens)


class Turn(Struct, frozen=True):
    """Builds the result of a turn."""

    run: Run
    act: e.Act
    role: str
    usage: e.Usage
    fault: str  # a fingerprint, where the machine counts errors

    @property
    def fresh(self) -> str:
        return self.act.tree if self.role in READ_ONLY_ROLES else fresh(self.run)

    def ended(self, claim: e.Claim = SILENT, tree: str = "", verdict: str = "ok", **more: Any) -> Finished:
        """A turn that the guard allows."""
        tree = tree or self.fresh
        changed = () if tree == self.act.tree else (f"{self.run.acts % 4}.py",)
        turn = e.TurnEnded(
            verdict=verdict, tree=tree, claim=claim, usage=self.usage, message="said", changed=changed, **more
        )
        return Finished(key=self.act.key, result=turn, ruling=ruling("allow", self.act.tree, tree))

    def ruled(self, verdict: str, rule: str, waivable: bool, base: Finished) -> Finished:
        """The guard refuses or asks: the refused change is undone and kept under a ref."""
        turn, refused_tree = base.result, fresh(self.run)
        assert isinstance(turn, e.TurnEnded)
        word = judgement(
            self.run,
            self.act,
            turn.verdict,
            ruling(verdict, self.act.tree, refused_tree, rule, waivable),
            refused_tree,
            changed=True,
        )
        result = replace(turn, tree=word.tree, changed=())  # it does not count yet
        return replace(base, result=result, ruling=word.ruling)


def fresh(run: Run) -> str:
    """A tree that did not occur before: acts are numbered."""
    return f"t{run.id}{run.acts}"


def ruling(verdict: str, old: str, new: str, rule: str = "", waivable: bool = True) -> e.Ruling:
    return e.Ruling(
        verdict=verdict,
        rule=rule,
        reason=rule,
        policy="default",
        policy_hash="h",
        diff=f"{old}>{new}",
        waivable=waivable,
        tree=new,
        kept="" if verdict == "allow" else "ref",
    )


def _turns(run: Run, act: e.Act, premise: Premise) -> Iterator[tuple[str, Finished]]:
    turn = Turn(run, act, act.role, usage_of(premise), _fault(premise))
    claims = dict(_claims(run, turn.role, premise))
    best = next(reversed(claims.values()))
    yield from ((f"the {turn.role} ends its turn{says}", turn.ended(claim)) for says, claim in claims.items())
    if premise.plans:
        yield "a plan of two steps", turn.ended(assessment=TWO_STEPS)
        yield "a plan that needs approval", turn.ended(assessment=replace(TWO_STEPS, approval=("Tier T2.",)))
    yield f"the {turn.role} is killed", turn.ended(verdict="killed")
    yield "the context overflows", turn.ended(verdict="context")
    if premise.took_us:
        yield "the turn ends: timeout", turn.ended(verdict="timeout")
    if premise.settings.fallback:
        yield "a limit", turn.ended(verdict="rate_limited", reset_at=run.at + SOON)
        yield "a limit that is past already", turn.ended(verdict="plan_limit", reset_at=run.at)
    if premise.results == "onward":
        return
    yield from _same_tree(turn, best)
    yield "the agent asks", turn.ended(e.Claim(ask="what?"))
    yield "a rate limit", turn.ended(verdict="rate_limited", reset_at=run.at + SOON)
    yield from _rulings(turn, best)
    if premise.results == "all" and not (run.tries.retries or run.tries.contexts or run.evidence.waivers):
        yield from _rarer(turn, best)
        yield from _seen_before(turn, best, premise)


def _same_tree(turn: Turn, best: e.Claim) -> Iterator[tuple[str, Finished]]:
    if turn.role in READ_ONLY_ROLES:
        return
    yield "a turn that changes nothing", turn.ended(tree=turn.act.tree, fingerprint=turn.fault)
    yield "a claim that changes nothing", turn.ended(best, tree=turn.act.tree)


def _rulings(turn: Turn, best: e.Claim) -> Iterator[tuple[str, Finished]]:
    yield "the guard denies", turn.ruled("deny", "radius", True, turn.ended(best))
    yield "the guard denies for good", turn.ruled("deny", "secret", False, turn.ended(best))
    yield "the guard was touched", turn.ruled("deny", "tampering", False, turn.ended(best))
    if turn.role in READ_ONLY_ROLES:
        return
    yield "the guard asks", turn.ruled("ask", "sensitive", True, turn.ended(best))
    if turn.run.evidence.waivers:
        yield "the waived change again", _again(turn, best)


def _again(turn: Turn, best: e.Claim) -> Finished:
    """The same change that a person has approved: it is left in place."""
    result = turn.ended(best)
    return replace(
        result, ruling=replace(ruling("deny", "", turn.fresh, "radius"), diff=turn.run.evidence.waivers[-1])
    )


def _rarer(turn: Turn, best: e.Claim) -> Iterator[tuple[str, Finished]]:
    for verdict in ("hung", "cannot_start", "timeout", "turn_limit", "plan_limit", *LIMITS, "nonsense"):
        yield f"the turn ends: {verdict}", turn.ended(verdict=verdict)
    yield "killed, though it claims", turn.ended(best, verdict="killed")
    yield "out of time, though it claims", turn.ended(best, verdict="timeout")
    yield "it needs a permission", turn.ended(verdict="needs_approval", wanted="call")
    yield "it says that it is blocked", turn.ended(e.Claim(reading="blocked"))
    yield (
        "halted for going in circles",
        turn.ended(best, halted="loop.same_action", halted_why="the same call"),
    )
    for verdict in ("killed", "timeout", "rate_limited"):
        yield f"denied and {verdict}", turn.ruled("deny", "radius", True, turn.ended(best, verdict=verdict))
        if turn.role not in READ_ONLY_ROLES:
            yield (
                f"asked for and {verdict}",
                turn.ruled("ask", "sensitive", True, turn.ended(verdict=verdict)),
            )
    if turn.role not in READ_ONLY_ROLES:
        asks = turn.ended(e.Claim(ask="what?"))
        yield "the guard asks, and so does the agent", turn.ruled("ask", "sensitive", True, asks)
        yield "nobody judged the change", replace(turn.ended(best), ruling=None)
        yield (
            "killed, changing nothing",
            turn.ended(tree=turn.act.tree, verdict="killed", fingerprint=turn.fault),
        )


def _seen_before(turn: Turn, best: e.Claim, premise: Premise) -> Iterator[tuple[str, Finished]]:
    """Back to the base tree, or to the tree proved last."""
    if turn.role in READ_ONLY_ROLES:
        return
    proved = turn.run.evidence.proof.tree if turn.run.evidence.proof else ""
    base = turn.run.progress.trees[:1] if premise.circuit else ()
    for tree in dict.fromkeys((*base, proved)):
        if tree and tree != turn.act.tree:
            yield "back to a tree seen before", turn.ended(tree=tree)
            yield "a claim, back on a tree seen before", turn.ended(best, tree=tree)


# ---- claims --------------------------------------------------------------------------------------------------


def _claims(run: Run, role: str, premise: Premise) -> Iterator[tuple[str, e.Claim]]:
    """(words, claim); the last is the one with which the run gets furthest."""
    yield "", e.Claim()
    if premise.findings:
        for one in _findings(run, role):
            yield f" with a {one.kind} finding {one.status}".replace("  ", " "), e.Claim(findings=(one,))
    on, few = run.here.on, premise.results != "all"
    if run.act is not None and run.act.why == PLAN_REVIEW:
        yield from ((f" saying {name}", e.Claim(outcome=name)) for name in REVIEWS[::-1])
        return
    if role == "cto":
        yield from _recoveries(run, few)
        return
    if role == "worker" and "done" in on:
        yield from _finishes(few)
        return
    if (role == "author" and "done" in on) or (role == "reviewer" and "passed" in on):
        yield from ((f" saying {s}", e.Claim(signal=s)) for s in _signals(role, few))
        return
    if not few and role in JUDGING_ROLES:
        yield from ((f" saying {s}", e.Claim(signal=s)) for s in ("FAIL", "PASS"))
    if not few and role == "planner":
        yield " with a plan that does not fit", e.Claim(data={"steps": 1})
    names = list(on)[::-1] if role in (*WRITING_ROLES, *JUDGING_ROLES) else list(on)
    yield from ((f" claiming '{o}'", e.Claim(outcome=o)) for o in names if not few or o not in _OURS)


def _findings(run: Run, role: str) -> list[e.Finding]:
    """There is one finding: a reviewer opens and closes it, an author disputes it. It may be one that stops the run."""
    statuses = ("disputed",) if role == "author" and run.findings else ()
    statuses = ("open", "fixed") if role == "reviewer" else statuses
    grave = [e.Finding(id="S1", severity="high", kind="security")] if role == "reviewer" else []
    return [*(e.Finding(id="F1", severity="high", status=status) for status in statuses), *grave]


_OURS = ("untested", "unproven", "stalled", "error", "timeout", "failure", "third_failure", "approval")


def _signals(role: str, few: bool) -> tuple[str, ...]:
    others = () if few else (("PASS",) if role == "author" else ("DONE",))
    return (*others, "FAIL", "DONE" if role == "author" else "PASS")


def _finishes(few: bool) -> Iterator[tuple[str, e.Claim]]:
    if not few:
        yield " with indicators, but no exit signal", e.Claim(indicators=BOTH)
        yield (
            " with an exit signal and one indicator twice",
            e.Claim(finished=True, indicators=("one", "one")),
        )
        lacks = ("CI is red.",)
        yield " with a signal that lacks something", e.Claim(finished=True, indicators=BOTH, missing=lacks)
    yield " truly done", e.Claim(finished=True, indicators=BOTH)


def _recoveries(run: Run, few: bool) -> Iterator[tuple[str, e.Claim]]:
    kinds = [kind for kind in RECOVERIES if kind in run.here.on]
    if not few:
        yield " with nonsense", e.Claim(outcome="nonsense")
    for kind in kinds:
        yield f": {kind}", e.Claim(outcome=kind, data={"kind": kind})
        targets = run.machine.targets(run.here.on[kind]) if kind in ("retry", "rollback") else ()
        for state in targets[:1] if few else targets:
            yield f": {kind} {state}", e.Claim(outcome=kind, data={"kind": kind, "state": state})
