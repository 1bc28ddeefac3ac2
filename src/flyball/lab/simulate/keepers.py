"""The performer of a simulated world. A keeper starts an act once, outlives its driver, and records how the act ended.

After a crash an act may still be running, have ended, be lost together with its keeper, have been given up because no
driver came back in time, or never have been started. A supervisor gets a `SimulatedPerformer`; `Keepers` outlive it.
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
    """What keepers need from their world."""

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
    """One act and its keeper."""

    run: Run
    act: e.Act
    played: PlannedAct
    ends: int
    post: Post
    alone_since: int | None = None
    cut: str = ""  # why it had no result
    informed: Post | None = None  # whom it reported to

    @property
    def root(self) -> str:
        return self.run.began.root or self.run.id


class Keepers:
    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.kept: dict[str, KeptAct] = {}
        self.tidied: set[str] = set()

    def attend(self, run: Run, act: e.Act, post: Post, adopted: bool) -> None:
        """Start it if nobody has; otherwise continue with it, or settle it."""
        if not self.stage.journaled(run.id, act.key):
            self.stage.breach("SYS-4", f"{act.key} begins before its start is in the journal")
        entry = self.kept.get(act.key)
        if entry is None or (act.do.partition(":")[0] not in KEPT and not entry.cut):
            if adopted and entry is None:
                self.stage.fault("act not begun", run.id)
            entry = self._begun(run, act, post)
        else:
            self._taken_up(entry, post)
        self._watch(entry)

    def _begun(self, run: Run, act: e.Act, post: Post) -> KeptAct:
        self._on_its_tree(run, act)
        planned = self.stage.players.play(run, act)
        if planned.manner:
            self.stage.manner(planned.manner)
        entry = KeptAct(run, act, planned, self.stage.true + planned.lasts_us, post)
        self.kept[act.key] = entry
        return entry

    def _on_its_tree(self, run: Run, act: e.Act) -> None:
        there = self.stage.trees.checkout.get(run.began.root or run.id, "")
        if act.do not in ("restore", "prepare", "check") and there != act.tree:
            self.stage.breach("SYS-10", f"{act.key} ({act.do}) takes {there} in the checkout for {act.tree}")

    def _taken_up(self, entry: KeptAct, post: Post) -> None:
        entry.post = post
        alone, entry.alone_since = entry.alone_since, None
        if entry.cut or alone is None:
            return
        if entry.ends > alone + ORPHAN_US and self.stage.true > alone + ORPHAN_US:
            self._cut(entry, ALONE)
            return
        self.stage.fault("act ended alone" if entry.ends <= self.stage.true else "act goes on", entry.run.id)

    def _watch(self, entry: KeptAct) -> None:
        post = entry.post
        self.stage.at(
            self.stage.true if entry.cut else max(entry.ends, self.stage.true),
            lambda: self._over(entry, post),
        )

    def _over(self, entry: KeptAct, post: Post) -> None:
        if entry.post is not post or entry.informed is post or entry.alone_since is not None:
            return  # its driver has gone, or knows already
        entry.informed = post
        if entry.cut:
            post(Interrupted(entry.act.key, entry.cut, "ref"))
            return
        self._settle(entry)
        post(entry.played.finished)

    def _settle(self, entry: KeptAct) -> None:
        """Its effects on the world."""
        trees, act, news = self.stage.trees, entry.act, entry.played.finished
        match news.result:
            case e.TurnEnded() as turn:
                ruling = news.ruling
                trees.stands(entry.root, turn.tree, ruling is None or ruling.verdict == "allow")
            case e.ProofEnded() as proof if proof.passed and not proof.invalid and proof.tree == act.tree:
                trees.proved.add(proof.tree)
                if proof.evidence and proof.evidence.doubts:
                    trees.doubted.add(proof.tree)
            case e.CommitEnded(outcome="committed") as commit if commit.tree == act.tree:
                (trees.landed if act.do == "land" else trees.committed).add((entry.root, commit.tree))
            case e.Prepared() as prepared if not prepared.error:
                trees.stands(entry.root, prepared.tree)
            case e.Restored() as back:
                trees.stands(entry.root, back.tree)
            case _:
                pass

    def _cut(self, entry: KeptAct, why: str) -> None:
        entry.cut = why
        if entry.act.do.startswith("agent:") and self.stage.rng.random() < 0.7:
            self.stage.trees.spoil(entry.root)

    def stop(self, key: str) -> None:
        """A person stops it; it may have ended before."""
        entry = self.kept.get(key)
        if entry is None or entry.cut or entry.ends <= self.stage.true or entry.act.do.startswith("restore"):
            return
        self._cut(entry, BY_A_PERSON)
        self.stage.manner("stopped")
        self._watch(entry)

    def driver_left(self, fraction: float) -> None:
        """Each keeper that has not reported either continues, alone, or dies with the driver, with the given
        probability.
        """
        for entry in self.kept.values():
            if entry.alone_since is not None:
                continue
            entry.alone_since = self.stage.true
            if entry.cut or entry.informed is entry.post:
                continue  # it has ended, though that is perhaps not recorded
            doomed = self.stage.rng.random() < fraction
            if doomed and entry.ends > self.stage.true and entry.act.do.partition(":")[0] in KEPT:
                self._cut(entry, "its keeper was killed")


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
