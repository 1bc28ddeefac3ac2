"""Who performs the acts of a simulated world: agents that work, lie, hang, die and hit limits; proofs that know
the truth.

What the real performer does with a turn (undo a refused change or one of a read-only role) is done here too.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Protocol

from msgspec import Struct
from msgspec.structs import replace

from flyball.core.decide import Finished
from flyball.core.turns import judgement
from flyball.domain import events as e
from flyball.domain.machine import READ_ONLY_ROLES
from flyball.domain.settings import DOLLAR, HOUR, MINUTE, SECOND
from flyball.lab.prove.act_results import ruling
from flyball.lab.simulate.claims import lie, truth
from flyball.lab.simulate.trees import Trees
from flyball.state.run import Run

CALM = "good"
MANNERS: dict[str, int] = {  # what an agent may do in a turn, with its weight
    "good": 100,
    "bad": 40,
    "lie": 30,
    "same": 20,
    "seen": 15,
    "again": 10,
    "flaky": 5,
    "killed": 15,
    "hung": 10,
    "unknown": 8,
    "refused": 4,
    "cannot_start": 5,
    "nonsense": 3,
    "slow": 6,
    "rate_limited": 10,
    "plan_limit": 10,
    "overloaded": 4,
    "network": 4,
    "auth": 4,
    "billing": 3,
    "context": 10,
    "budget_limit": 3,
    "turn_limit": 5,
    "needs_approval": 4,
    "asks": 8,
    "blocked": 4,
    "deny": 10,
    "deny_for_good": 4,
    "tamper": 2,
    "guard_asks": 10,
    "halted": 4,
    "finds": 8,
    "busy": 3,
    "killed_and_asked": 3,
    "killed_and_denied": 3,
    "limited_and_asked": 3,
    "asks_twice": 3,
}
LIMITS = ("rate_limited", "plan_limit", "overloaded", "network", "auth", "billing", "budget_limit")
RESETS = ("none", "past", "now", "soon", "far")
RULED = {
    "deny": ("deny", "radius", True),
    "deny_for_good": ("deny", "secret", False),
    "tamper": ("deny", "tampering", False),
    "killed_and_denied": ("deny", "radius", True),
    "guard_asks": ("ask", "sensitive", True),
    "killed_and_asked": ("ask", "sensitive", True),
    "limited_and_asked": ("ask", "sensitive", True),
    "asks_twice": ("ask", "sensitive", True),
}
VERDICTS = {
    **{name: name for name in (*LIMITS, "killed", "unknown", "refused", "cannot_start", "context")},
    "turn_limit": "turn_limit",
    "needs_approval": "needs_approval",
    "nonsense": "sideways",
    "killed_and_asked": "killed",
    "killed_and_denied": "killed",
    "limited_and_asked": "rate_limited",
}


class Script(Protocol):
    def play(self, run: Run, act: e.Act) -> PlannedAct | None:
        """The result of an act, if it is fixed beforehand."""
        ...


class PlannedAct(Struct, frozen=True):
    """The result of an act, how long it takes, and in which manner it was done."""

    finished: Finished
    lasts_us: int
    manner: str = ""


class Players:
    def __init__(self, rng: random.Random, trees: Trees, now: Callable[[], int]) -> None:
        self.rng, self.trees, self.now = rng, trees, now
        self.calm = False
        self.script: Script | None = None
        self.manners = {name: often * rng.choice((0, 1, 1, 3)) for name, often in MANNERS.items()}
        self.manners[CALM] = rng.choice((5, 30, MANNERS[CALM]))
        for name in rng.sample(list(MANNERS), rng.choice((0, 1, 1, 2))):  # the weights of this world
            self.manners[name] = 120
        self.unready, self.unwelcome = rng.choice((0.03, 0.1, 0.5)), rng.choice((0.1, 0.2, 0.7))

    def play(self, run: Run, act: e.Act) -> PlannedAct:
        scripted = self.script.play(run, act) if self.script else None
        return scripted or self._by_lot(run, act)

    def well(self, run: Run, act: e.Act, lasts_us: int) -> PlannedAct:
        """As it should be, and at no cost."""
        calm, self.calm = self.calm, True
        planned = self._by_lot(run, act)
        self.calm = calm
        finished, hurried = planned.finished, run.settings.budget.wall_us is not None
        if isinstance(finished.result, e.TurnEnded):
            finished = replace(finished, result=replace(finished.result, usage=e.Usage()))
        return replace(
            planned, finished=replace(finished, took_us=0 if hurried else lasts_us), lasts_us=lasts_us
        )

    def _by_lot(self, run: Run, act: e.Act) -> PlannedAct:
        match act.do.partition(":")[0]:
            case "agent":
                return self.turn(run, act)
            case "proof":
                return self.proof(run, act)
            case "commit":
                return self._within(act, self._commit(run, act))
            case "land":
                return self._within(act, self._land(run))
            case "prepare":
                return self._within(act, self.prepared())
            case "restore":
                return PlannedAct(Finished(key=act.key, result=self._restored(run, act)), 0)
            case _:
                return self._within(act, self._checked())

    def _within(self, act: e.Act, result: e.AnyResult) -> PlannedAct:
        return PlannedAct(Finished(key=act.key, result=result), self.rng.randrange(MINUTE))

    # ---- turns ----

    def turn(self, run: Run, act: e.Act, manner: str = "") -> PlannedAct:
        names = list(self.manners)
        if not manner:
            manner = CALM if self.calm else self.rng.choices(names, [self.manners[n] for n in names])[0]
        lasts = self._lasts(act, manner)
        timed_out = bool(act.wall_us) and lasts >= act.wall_us
        verdict = "timeout" if timed_out else "hung" if manner == "hung" else VERDICTS.get(manner, "ok")
        tree = self._left_tree(run, act, manner)
        finished = self._judged(run, act, manner, verdict, tree)
        return PlannedAct(replace(finished, took_us=lasts), lasts, "slow" if timed_out else manner)

    def _lasts(self, act: e.Act, manner: str) -> int:
        most = MINUTE if self.calm else self.rng.choice((2 * MINUTE, 20 * MINUTE))
        lasts = self.rng.randrange(5 * SECOND, most)
        if manner == "hung":
            lasts = act.idle_us + self.rng.randrange(MINUTE)
        if manner == "slow":
            lasts = act.wall_us or 5 * HOUR
        return min(lasts, act.wall_us) if act.wall_us else lasts

    def _left_tree(self, run: Run, act: e.Act, manner: str) -> str:
        """The tree that the agent leaves, before the guard sees it."""
        rng, root = self.rng, run.began.root or run.id
        if manner == "seen":
            return rng.choice(self.trees.left.get(root) or [act.tree])
        if manner == "again":
            return self.trees.refused.get(root, act.tree)
        idle = act.role in READ_ONLY_ROLES and rng.random() < 0.9
        if manner == "same" or (idle and manner not in RULED) or (manner in VERDICTS and rng.random() < 0.5):
            return act.tree
        skilled = manner in (CALM, "asks", "finds", "guard_asks", "flaky") or rng.random() < 0.2
        return self.trees.fresh(skilled, manner == "flaky")

    def _judged(self, run: Run, act: e.Act, manner: str, verdict: str, tree: str) -> Finished:
        """As the performer does: what the guard refuses is undone, and so is a change by a read-only role."""
        root = run.began.root or run.id
        word = judgement(run, act, verdict, self._ruling(act, manner, tree, root), tree, changed=False)
        if word.ruling.verdict == "deny" and word.ruling.diff not in run.evidence.waivers:
            self.trees.refused[root] = tree
        counts = word.counts and tree != act.tree
        turn_event = self._ended(run, act, manner, verdict, word.tree)
        result = replace(turn_event, changed=(f"{tree}.py",) if counts else (), lines=int(counts))
        return Finished(key=act.key, result=result, ruling=word.ruling)

    def _ruling(self, act: e.Act, manner: str, tree: str, root: str) -> e.Ruling:
        verdict, rule, waivable = RULED.get(manner, ("allow", "", True))
        if tree == self.trees.refused.get(root) and verdict == "allow" and tree != act.tree:
            verdict, rule = "deny", "radius"
        if tree == act.tree and manner != "tamper":
            verdict, rule, waivable = "allow", "", True
        return ruling(verdict, act.tree, tree, rule, waivable)

    def _ended(self, run: Run, act: e.Act, manner: str, verdict: str, tree: str) -> e.TurnEnded:
        role = act.role
        claim = lie(self.rng, run, role) if manner == "lie" else truth(run, role, self.trees.good(tree))
        claim = self._also_said(manner, claim, role, run)
        error = "" if verdict == "ok" else f"it was {verdict}"
        return e.TurnEnded(
            verdict=verdict,
            tree=tree,
            message=f"{role} {manner}",
            session=self.rng.choice(("", f"s-{act.key}")),
            usage=self._usage(),
            claim=claim,
            reset_at=self._reset() if verdict in LIMITS else None,
            error=error,
            wanted="call" if verdict == "needs_approval" else "",
            fingerprint=f"{verdict}-{self.rng.randrange(3)}" if error else "",
            calls=300 if manner == "busy" else 1,
            halted="loop.same_action" if manner == "halted" and verdict == "ok" else "",
            halted_why="the same call again" if manner == "halted" else "",
        )

    def _also_said(self, manner: str, claim: e.Claim, role: str, run: Run) -> e.Claim:
        if manner in ("asks", "asks_twice"):
            return replace(claim, ask="Which way?")
        if manner == "blocked":
            return replace(claim, reading="blocked")
        if manner == "finds" and role in ("author", "reviewer"):
            status = self.rng.choice(("open", "fixed", "accepted", "disputed"))
            finding = e.Finding(id="F1", severity="high", status=status, text="it")
            grave = replace(finding, id=f"S{run.turn}", kind="security", status="open")
            return replace(claim, findings=(grave if self.rng.random() < 0.2 else finding,))
        return claim

    def _usage(self) -> e.Usage:
        rng = self.rng
        return e.Usage(
            input_tokens=rng.randrange(20_000),
            cache_read_tokens=rng.randrange(90_000),
            output_tokens=rng.randrange(5_000),
            cost_uusd=rng.randrange(DOLLAR),
        )

    def _reset(self) -> int | None:
        now, kind = self.now(), self.rng.choice(RESETS)
        if kind == "none":
            return None
        return now + {"past": -HOUR, "now": 0, "soon": 30 * SECOND, "far": 50 * HOUR}[kind]

    # ---- plain acts ----

    def proof(self, run: Run, act: e.Act) -> PlannedAct:
        rng, truth = self.rng, self.trees.truth[act.tree]
        failing = 0 if truth.flaky and rng.random() < 0.5 else truth.failing or int(truth.flaky)
        lasts = rng.randrange(SECOND, MINUTE if self.calm else 10 * MINUTE)
        oddly = (
            "" if self.calm else rng.choices(("", "dirty", "other", "cannot", "slow"), (90, 3, 3, 2, 2))[0]
        )
        if oddly == "slow":
            lasts = 2 * HOUR
        late = bool(act.wall_us) and lasts >= act.wall_us
        proof = e.ProofEnded(
            tree=act.tree if oddly != "other" else self.trees.fresh(good=True),
            passed=not failing and not late,
            failing=failing,
            fingerprint=f"f{failing}" if failing else "",
            summary=f"{failing} failed" if failing else "",
            invalid="phase timeout" if late else "it changed the tree" if oddly == "dirty" else "",
            cannot_start="no such program" if oddly == "cannot" else "",
        )
        proof = replace(proof, passed=False) if proof.cannot_start else proof
        if act.why == "gate" and truth.doubtful:
            doubts = e.Evidence(doubts=("test_a: it was removed",), doubts_key=f"doubts of {act.tree}")
            proof = replace(proof, evidence=doubts)
        lasts = min(lasts, act.wall_us) if act.wall_us else lasts
        return PlannedAct(
            Finished(key=act.key, result=proof, took_us=lasts), lasts, oddly and f"proof_{oddly}"
        )

    def _commit(self, run: Run, act: e.Act) -> e.CommitEnded:
        committed = e.CommitEnded(outcome="committed", tree=act.tree, commit=f"c-{act.key}", certificate="k")
        bad = not self.calm and self.rng.random() < self.unwelcome
        fate = self.rng.choice(("refused", "refused", "other")) if bad else ""
        if fate == "other":
            return replace(committed, tree=self.trees.fresh(good=True))
        return replace(committed, outcome=fate, reason="a hook says no") if fate else committed

    def _land(self, run: Run) -> e.CommitEnded:
        commit = run.checkout.commit
        assert commit is not None
        bad = not self.calm and self.rng.random() < self.unwelcome
        if run.settings.commit == "pr" and run.status != "ended":
            unreachable = replace(commit, outcome="unreachable", reason="no answer")
            return unreachable if bad else replace(commit, pull_request="url")
        return (
            replace(commit, outcome="conflict", reason="it does not merge")
            if bad
            else replace(commit, landed="main")
        )

    def prepared(self) -> e.Prepared:
        if not self.calm and self.rng.random() < 0.02:
            return e.Prepared(error="it is no repository", code="error.git")
        base = self.trees.fresh(self.rng.random() < 0.2)
        return e.Prepared(base_commit="c0", base_tree=base, tree=base, sandbox="none")

    def _restored(self, run: Run, act: e.Act) -> e.Restored:
        root = run.began.root or run.id
        if act.why == "hand-back":
            there = self.trees.checkout[root]
            return e.Restored(tree=there, changed=(f"{there}.py",), lines=1)
        counts: dict[str, Any] = {"changed": (f"{act.tree}.py",), "lines": 1} if act.why == "approved" else {}
        return e.Restored(tree=act.tree, **counts)

    def _checked(self) -> e.CheckEnded:
        bad = not self.calm and self.rng.random() < self.unready
        outcome = self.rng.choice(("failure", "failure", "cannot_start")) if bad else "ready"
        return e.CheckEnded(outcome=outcome, reason="" if outcome == "ready" else "something is missing")
