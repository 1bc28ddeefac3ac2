"""The count of effects from outside: what it calls doubled, missing or unannounced really is."""

from __future__ import annotations

from pathlib import Path

from flyball.domain import events as e
from flyball.journal import Entry
from flyball.lab.selftest.outside_witness import Effects, effects

TURN = e.TurnEnded(verdict="ok")


class Scene:
    """Two acts of one run, begun in the journal; what happened outside is up to the test."""

    def __init__(self, folder: Path) -> None:
        self.acts, self.witness = folder / "acts", folder / "witness"
        self.facts: list[e.AnyEvent] = []
        self.act("r-1", "agent:coder", 1)
        self.act("r-2", "proof", 0)

    def act(self, key: str, do: str, turn: int) -> None:
        self.facts.append(e.ActStarted(at=1, act=e.Act(key=key, do=do, state="s", turn=turn)))

    def end(self, *keys: str) -> None:
        self.facts += [e.ActFinished(at=2, key=key, result=TURN) for key in keys]

    def claim(self, key: str, mark: str) -> None:
        (self.acts / key).mkdir(parents=True, exist_ok=True)
        (self.acts / key / "claim").write_text(f"{mark}\n")

    def line(self, name: str, turn: str, mark: str) -> None:
        with self.witness.open("a") as file:
            file.write(f"{name} r {turn} {mark}\n")

    def counted(self) -> Effects:
        entries = [Entry("r", n, f.at, e.kind(f), e.encode(f), "") for n, f in enumerate(self.facts, 1)]
        return effects(entries, self.acts, self.witness)


def done(folder: Path) -> Scene:
    scene = Scene(folder)
    for key, mark, name, turn in (("r-1", "10.1", "write", "1"), ("r-2", "11.1", "proof", "-")):
        scene.claim(key, mark)
        scene.line(name, turn, mark)
    scene.end("r-1", "r-2")
    return scene


def test_what_was_done_once_is_counted_once(tmp_path: Path) -> None:
    assert done(tmp_path).counted() == Effects(finished={"write": 1, "proof": 1}, witnessed=2)


def test_a_turn_done_again_in_silence_is_doubled(tmp_path: Path) -> None:
    scene = done(tmp_path)
    scene.line("write", "1", "12.1")
    assert (scene.counted().doubled, scene.counted().unannounced) == (1, 0)


def test_a_process_that_does_its_work_twice_has_doubled_it(tmp_path: Path) -> None:
    scene = done(tmp_path)
    scene.line("proof", "-", "11.1")
    assert scene.counted().doubled == 1


def test_an_act_that_was_said_to_be_interrupted_may_be_begun_anew(tmp_path: Path) -> None:
    scene = done(tmp_path)
    scene.act("r-3", "agent:coder", 1)
    scene.facts.append(e.ActInterrupted(at=3, key="r-3", reason="its keeper was killed"))
    scene.claim("r-3", "12.1")
    scene.line("write", "1", "12.1")
    assert scene.counted() == Effects(finished={"write": 1, "proof": 1}, witnessed=3, interrupted=1)


def test_an_act_of_which_nothing_more_was_said_is_not_forgiven(tmp_path: Path) -> None:
    scene = done(tmp_path)
    scene.act("r-3", "agent:coder", 2)
    scene.claim("r-3", "12.1")
    scene.line("fix", "2", "12.1")
    assert scene.counted().doubled == 1


def test_an_effect_before_its_announcement_is_seen(tmp_path: Path) -> None:
    scene = done(tmp_path)
    scene.act("r-3", "agent:coder", 2)
    scene.facts.append(e.ActInterrupted(at=3, key="r-3", reason="its keeper was killed"))
    scene.line("fix", "2", "99.9")
    assert (scene.counted().doubled, scene.counted().unannounced) == (0, 1)


def test_an_effect_that_never_was_is_missing_from_the_count(tmp_path: Path) -> None:
    scene = done(tmp_path)
    scene.act("r-3", "agent:coder", 2)
    scene.end("r-3")
    assert scene.counted().finished == {"write": 1, "proof": 1}
