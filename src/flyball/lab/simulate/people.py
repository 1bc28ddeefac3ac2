"""The people of a simulated world: they answer late, twice, wrongly, or to an outdated question; they pause, stop,
tell,
cancel, roll back, take over and hand back. In the end somebody helpful comes.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Protocol

from flyball.domain import events as e
from flyball.domain.messages import Answer, AnyMessage, Ask, HandBack, Rollback, Tell, encode
from flyball.domain.settings import HOUR, MINUTE, SECOND
from flyball.lab.simulate.onlooker import TELLER
from flyball.lab.simulate.trees import Trees
from flyball.state.run import Run

WHIMS = {
    "tell": 20,
    "pause": 8,
    "stop": 8,
    "take-over": 6,
    "hand-back": 3,
    "rollback": 8,
    "cancel": 1,
    "garbage": 3,
    "nonsense": 3,
    "interrupt": 4,
    "stop now": 4,
    "answer nothing": 3,
}
HELPFUL = ("raise", "approve", "go-on", "proceed", "answer", "retry", "redirect", "reject", "complete")
WHIMS_MOST = 60
PATIENCE = 25  # answers to one family, or half of all answers; then even the helpful person gives up
LATE = (SECOND, 20 * SECOND, 5 * MINUTE, 3 * HOUR, 40 * HOUR)


class PeopleWorld(Protocol):
    """What people need from their world."""

    rng: random.Random
    trees: Trees

    @property
    def true(self) -> int: ...

    @property
    def steered(self) -> bool: ...

    def fault(self, name: str, run: str) -> None: ...

    def takes_care(self, run: Run, question: e.Question) -> bool: ...

    def later(self, us: int, deed: Callable[[], None]) -> None: ...

    def post(self, run: str, body: bytes) -> None: ...

    def press(self, now: bool) -> None: ...

    def trigger(self, run: str, outcome: str) -> None: ...

    def unfinished(self) -> list[Run]: ...

    def run(self, run_id: str) -> Run: ...


class People:
    def __init__(self, town: PeopleWorld) -> None:
        self.town, self.rng = town, town.rng
        self.whims = {name: often * self.rng.choice((0, 1, 2)) for name, often in WHIMS.items()}
        self.every_us = self.rng.choice((2 * MINUTE, HOUR, 6 * HOUR))
        self.helpful, self.had = False, 0
        self.helped: dict[str, int] = {}
        self.asked_at: dict[str, int] = {}
        self.answered: set[str] = set()

    def write(self, run: str, message: AnyMessage) -> None:
        self.town.post(run, encode(message))

    # ---- questions ----

    def asked(self, run: Run, question: e.Question) -> None:
        """Somebody will answer, sooner or later, once or twice."""
        self.asked_at[question.id] = self.town.true
        if self.helpful or self.town.takes_care(run, question):
            return
        for _ in range(self.rng.choice((0, 1, 1, 1, 1, 2))):
            kind = self.rng.choices(("good", "verb", "stale", "other"), (80, 6, 7, 7))[0]
            self._will_answer(run, question, kind)
        if self.rng.random() < 0.9:
            self._will_answer(run, question, "good")

    def _will_answer(self, run: Run, question: e.Question, kind: str) -> None:
        late = self.rng.choice(LATE)
        self.town.later(late, lambda: self.reply(run, question, self._answer(run, question, kind)))

    def reply(self, run: Run, question: e.Question, answer: Answer) -> None:
        """Send it, and note what is wrong with it."""
        bad = answer.question != question.id or answer.verb not in question.verbs
        if bad or answer.shown not in ("", question.shown):
            self.town.fault("wrong answer", run.id)
        elif question.id in self.answered:
            self.town.fault("second answer", run.id)
        elif self.town.true - self.asked_at.get(question.id, self.town.true) >= 24 * HOUR:
            self.town.fault("late answer", run.id)
        self.answered |= {question.id} if not bad else set()
        self.write(run.id, answer)

    def _answer(self, run: Run, question: e.Question, kind: str) -> Answer:
        rng, verbs = self.rng, question.verbs
        few = [verb for verb in verbs if verb not in ("cancel", "abandon")] or list(verbs)
        verb = rng.choice(few) if rng.random() < 0.96 else rng.choice(verbs)
        return Answer(
            question=question.id if kind != "other" else f"{run.id}.{rng.randrange(9)}",
            verb=verb if kind != "verb" else rng.choice(("yes", "go-on", "approve", "complete")),
            text=rng.choice(("", "do it so")),
            who="anna",
            how="cli",
            shown="something else" if kind == "stale" else rng.choice(("", question.shown)),
            data=self._where(run),
        )

    def _where(self, run: Run) -> dict[str, Any]:
        states = [*run.machine.groups.get("working", ())] * 3 + ["nowhere", ""]
        return {"state": self.rng.choice(states)} if run.here.act == "ask" else {}

    # ---- whims ----

    def begin(self) -> None:
        self.town.later(self.rng.randrange(self.every_us), self._whim)

    def _whim(self) -> None:
        if self.helpful or self.had >= WHIMS_MOST:
            return
        self.had += 1
        names = [name for name, often in self.whims.items() if often]
        there = self.town.unfinished()
        if names and there:
            run = self.rng.choice(there)
            self._do(self.rng.choices(names, [self.whims[n] for n in names])[0], run)
        self.town.later(self.rng.randrange(2 * self.every_us), self._whim)

    def _do(self, whim: str, run: Run) -> None:
        root = run.began.root or run.id
        match whim:
            case "tell":
                self.write(run.id, Tell(text=f"look here, {self.had}", who=TELLER))
            case "pause" | "stop" | "cancel":
                self.write(run.id, Ask(what=whim, who="anna"))
            case "take-over":
                self.write(root, Ask(what="take-over", who="anna"))
                self.town.later(self.rng.choice(LATE), lambda: self._hand_back(root))
            case "hand-back":
                self._hand_back(root)
            case "rollback":
                self._roll_back(root)
            case "garbage":
                self.town.post(run.id, b"\xff{")
            case "nonsense":
                self.write(run.id, Ask(what="dance"))
            case "answer nothing":
                self.write(run.id, Answer(question=f"{run.id}.1", verb="approve"))
            case _:
                self.town.press(whim == "stop now")

    def _hand_back(self, root: str) -> None:
        """What a person changed meanwhile is theirs. A lane's checkout is not taken over: its steps have their own."""
        run = self.town.run(root)
        taken_over = run.stop is not None and run.stop.code == "wait.take_over" and not run.machine.supervises
        if taken_over and run.status != "ended" and self.rng.random() < 0.5:
            self.town.trees.stands(root, self.town.trees.fresh(self.rng.random() < 0.5))
        self.write(root, HandBack(who="anna"))

    def _roll_back(self, root: str) -> None:
        turns = self.town.trees.left.get(root)
        if turns:
            turn = self.rng.randrange(len(turns))
            self.write(root, Rollback(turn=turn, tree=turns[turn], who="anna"))

    # ---- a trigger ----

    def listening(self, run: Run) -> None:
        """A standing run waits for something to do."""
        if self.town.steered:
            return
        outcome = self.rng.choice(list(run.here.on))
        self.town.later(self.rng.choice(LATE), lambda: self.town.trigger(run.id, outcome))

    # ---- help ----

    def help(self) -> None:
        """Look at every run that is stopped, and answer so that it continues."""
        for run in self.town.unfinished():
            if run.question is not None:
                self.write(run.id, self.helps(run, run.question))
            elif run.status == "paused" and run.stop and run.stop.code == "wait.take_over":
                self.write(run.began.root or run.id, HandBack(who="anna"))
            elif run.machine.standing and run.here.act == "listen" and run.status == "running":
                self.write(run.id, Ask(what="cancel", who="anna"))
        self.town.later(10 * MINUTE, self.help)

    def helps(self, run: Run, question: e.Question, gives_up: bool = False) -> Answer:
        root = run.began.root or run.id
        self.helped[root] = self.helped.get(root, 0) + 1
        gives_up = gives_up or self.helped[root] > PATIENCE or sum(self.helped.values()) > 2 * PATIENCE
        verbs = ("abandon", "cancel") if gives_up else HELPFUL
        verb = next((verb for verb in verbs if verb in question.verbs), question.verbs[0])
        choices = run.machine.groups.get("working", ())
        state = run.path.origin if run.path.origin in choices else next(iter(choices), "")
        data = {"state": state} if run.here.act == "ask" and choices else {}
        return Answer(question=question.id, verb=verb, who="helper", shown=question.shown, data=data)
