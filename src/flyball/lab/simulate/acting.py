"""An act ends as a cue says: the model's result, with the trees and times of the world."""

from __future__ import annotations

from msgspec.structs import replace

from flyball.core.decide import Finished
from flyball.domain import events as e
from flyball.domain.settings import HOUR, SECOND
from flyball.lab.simulate.cues import Cue
from flyball.lab.simulate.players import PlannedAct, Players
from flyball.state.run import Run


class Acting:
    """`names`: the model's trees and their names in this world."""

    def __init__(self, players: Players) -> None:
        self.players, self.trees = players, players.trees
        self.names: dict[str, str] = {}

    def play(self, run: Run, act: e.Act, cue: Cue, lasts_us: int) -> PlannedAct:
        assert cue.move.finished is not None
        self.names[cue.tree] = act.tree
        model = cue.move.finished
        match model.result:
            case e.TurnEnded() as turn:
                return self._turn(run, act, cue, turn, lasts_us)
            case e.Prepared() as prepared if not prepared.error:
                base = self._tree("t0")
                return self._made(act, replace(prepared, base_tree=base, tree=base, sandbox="none"), lasts_us)
            case e.ProofEnded() as proof:
                return self._proof(run, act, replace(proof, tree=self._tree(proof.tree)), lasts_us)
            case e.CommitEnded() as committed:
                return self._made(
                    act, replace(committed, tree=self._tree(committed.tree), commit=f"c-{act.key}"), lasts_us
                )
            case e.Restored():
                return self.players.well(run, act, 0)
            case result:
                return self._made(act, result, lasts_us)

    def _made(self, act: e.Act, result: e.AnyResult, lasts_us: int) -> PlannedAct:
        return PlannedAct(Finished(key=act.key, result=result), lasts_us)

    def _tree(self, name: str) -> str:
        if name not in self.names:
            self.names[name] = self.trees.fresh(good=True)
        return self.names[name]

    def _proof(self, run: Run, act: e.Act, proof: e.ProofEnded, lasts_us: int) -> PlannedAct:
        lasts_us = act.wall_us if act.wall_us and proof.invalid == "phase timeout" else lasts_us
        took_us = 0 if _hurried(run) else lasts_us
        return PlannedAct(Finished(key=act.key, result=proof, took_us=took_us), lasts_us)

    def _turn(self, run: Run, act: e.Act, cue: Cue, turn: e.TurnEnded, lasts_us: int) -> PlannedAct:
        assert cue.move.finished is not None
        ruling, tree = cue.move.finished.ruling, self._tree(turn.tree)
        lasts_us = cue.move.finished.took_us if _hurried(run) else self._lasts(act, turn, lasts_us)
        changed = (f"{tree}.py",) if ruling and ruling.verdict == "allow" and tree != act.tree else ()
        result = replace(
            turn, tree=tree, reset_at=self._reset(cue, turn), changed=changed, lines=len(changed)
        )
        ruling_event = self._ruling(run, act, cue, ruling) if ruling else None
        return PlannedAct(
            Finished(key=act.key, result=result, ruling=ruling_event, took_us=lasts_us),
            lasts_us,
            turn.verdict,
        )

    def _lasts(self, act: e.Act, turn: e.TurnEnded, lasts_us: int) -> int:
        if turn.verdict == "hung":
            return act.idle_us + SECOND
        if turn.verdict == "timeout":
            return act.wall_us or 5 * HOUR
        return min(lasts_us, act.wall_us - 1) if act.wall_us else lasts_us

    def _reset(self, cue: Cue, turn: e.TurnEnded) -> int | None:
        if turn.reset_at is None:
            return None
        return self.players.now() + (30 * SECOND if turn.reset_at > cue.at else 0)

    def _ruling(self, run: Run, act: e.Act, cue: Cue, ruling: e.Ruling) -> e.Ruling:
        """Where the model waived a change, it is the change that was waived in this world."""
        tree = self._tree(ruling.tree)
        again = ruling.diff != f"{cue.tree}>{ruling.tree}" and bool(run.evidence.waivers)
        if ruling.verdict == "deny" and not again:
            self.trees.refused[run.began.root or run.id] = tree
        return replace(ruling, tree=tree, diff=run.evidence.waivers[-1] if again else f"{act.tree}>{tree}")


def _hurried(run: Run) -> bool:
    """Where time is what is tested, an act takes as long as in the model."""
    return run.settings.budget.wall_us is not None
