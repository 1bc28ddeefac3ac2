"""The performer of a simulated world. A keeper begins an act once, outlives its driver, and writes down how it ended.

After a crash an act is in doubt: it continues, it has ended, it was lost with its keeper, nobody came back in time, or
it was never begun. `SimulatedPerformer` is what a supervisor is given; `Keepers` is what outlives it.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Protocol

from msgspec import Struct

from flyball.core.decide import Finished, Interrupted
from flyball.domain import events as e
from flyball.domain.settings import SECOND
from flyball.lab.simulate.fault_kinds import ALONE, KEPT
from flyball.lab.simulate.players import PlannedAct, Players
from flyball.lab.simulate.trees import Trees
from flyball.state.fold import BY_A_PERSON
from flyball.state.run import Run

ORPHAN_US = 60 * SECOND
News = Finished | Interrupted
Post = Callable[[News], None]


class Stage(Protocol):
    """What keepers need of their world."""

    rng: random.Random
    trees: Trees
    players: Players

    @property
    def true(self) -> int: ...

    def at(self, true: int, deed: Callable[[], None]) -> None: ...

    def fault(self, name: str, run: str) -> None: ...

    def manner(self, name: str) -> None: ...

    def breach(self, law: str, says: str) -> None: ...

    def journaled(self, run: str, key: str) -> bool: ...


class KeptAct(Struct):
    """One act under its keeper."""

    run: Run
    act: e.Act
    played: PlannedAct
    ends: int
    post: Post
    alone_since: int | None = None
    cut: str = ""  # why it came to nothing
    told: Post | None = None  # who was told

    @property
    def root(self) -> str:
        return self.run.began.root or self.run.id


class Keepers:
    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.kept: dict[str, KeptAct] = {}
        self.tidied: set[str] = set()

    def attend(self, run: Run, act: e.Act, post: Post, adopted: bool) -> None:
        """Begin it if nobody has; else continue with it, or settle it."""
        if not self.stage.journaled(run.id, act.key):
            self.stage.breach("SYS-4", f"{act.key} begins before its start is in the journal")
        kept = self.kept.get(act.key)
        if kept is None or (act.do.partition(":")[0] not in KEPT and not kept.cut):
            if adopted and kept is None:
                self.stage.fault("act not begun", run.id)
            kept = self._begun(run, act, post)
        else:
            self._taken_up(kept, post)
        self._watch(kept)

    def _begun(self, run: Run, act: e.Act, post: Post) -> KeptAct:
        self._on_its_tree(run, act)
        played = self.stage.players.play(run, act)
        if played.manner:
            self.stage.manner(played.manner)
        kept = KeptAct(run, act, played, self.stage.true + played.lasts_us, post)
        self.kept[act.key] = kept
        return kept

    def _on_its_tree(self, run: Run, act: e.Act) -> None:
        there = self.stage.trees.checkout.get(run.began.root or run.id, "")
        if act.do not in ("restore", "prepare", "check") and there != act.tree:
            self.stage.breach("SYS-10", f"{act.key} ({act.do}) takes {there} in the checkout for {act.tree}")

    def _taken_up(self, kept: KeptAct, post: Post) -> None:
        kept.post = post
        alone, kept.alone_since = kept.alone_since, None
        if kept.cut or alone is None:
            return
        if kept.ends > alone + ORPHAN_US and self.stage.true > alone + ORPHAN_US:
            self._cut(kept, ALONE)
            return
        self.stage.fault("act ended alone" if kept.ends <= self.stage.true else "act goes on", kept.run.id)

    def _watch(self, kept: KeptAct) -> None:
        post = kept.post
        self.stage.at(
            self.stage.true if kept.cut else max(kept.ends, self.stage.true), lambda: self._over(kept, post)
        )

    def _over(self, kept: KeptAct, post: Post) -> None:
        if kept.post is not post or kept.told is post or kept.alone_since is not None:
            return  # its driver is gone, or knows
        kept.told = post
        if kept.cut:
            post(Interrupted(kept.act.key, kept.cut, "ref"))
            return
        self._settle(kept)
        post(kept.played.finished)

    def _settle(self, kept: KeptAct) -> None:
        """What is now truly so."""
        trees, act, news = self.stage.trees, kept.act, kept.played.finished
        match news.result:
            case e.TurnEnded() as turn:
                ruling = news.ruling
                trees.stands(kept.root, turn.tree, ruling is None or ruling.verdict == "allow")
            case e.ProofEnded() as proof if proof.passed and not proof.invalid and proof.tree == act.tree:
                trees.proved.add(proof.tree)
                if proof.evidence and proof.evidence.doubts:
                    trees.doubted.add(proof.tree)
            case e.CommitEnded(outcome="committed") as done if done.tree == act.tree:
                (trees.landed if act.do == "land" else trees.committed).add((kept.root, done.tree))
            case e.Prepared() as made if not made.error:
                trees.stands(kept.root, made.tree)
            case e.Restored() as back:
                trees.stands(kept.root, back.tree)
            case _:
                pass

    def _cut(self, kept: KeptAct, why: str) -> None:
        kept.cut = why
        if kept.act.do.startswith("agent:") and self.stage.rng.random() < 0.7:
            self.stage.trees.spoil(kept.root)

    def stop(self, key: str) -> None:
        """A person stops it; it may be over before."""
        kept = self.kept.get(key)
        if kept is None or kept.cut or kept.ends <= self.stage.true or kept.act.do.startswith("restore"):
            return
        self._cut(kept, BY_A_PERSON)
        self.stage.manner("stopped")
        self._watch(kept)

    def driver_left(self, lost: float) -> None:
        """Each keeper that has not reported lives on, alone, or dies with the driver; how likely is said."""
        for kept in self.kept.values():
            if kept.alone_since is not None:
                continue
            kept.alone_since = self.stage.true
            if kept.cut or kept.told is kept.post:
                continue  # it is over, though perhaps not written down
            doomed = self.stage.rng.random() < lost
            if doomed and kept.ends > self.stage.true and kept.act.do.partition(":")[0] in KEPT:
                self._cut(kept, "its keeper was killed")


class SimulatedPerformer:
    """One driver's performer."""

    def __init__(self, keepers: Keepers) -> None:
        self.keepers, self.adopting = keepers, False

    def start(self, run: Run, act: e.Act, post: Post) -> None:
        self.keepers.attend(run, act, post, self.adopting)

    def stop(self, key: str, now: bool) -> None:
        self.keepers.stop(key)

    def tidy(self, run: Run) -> None:
        if run.status != "ended":
            self.keepers.stage.breach("SYS-5", f"{run.id} is tidied though it has not ended")
        self.keepers.tidied.add(run.id)
