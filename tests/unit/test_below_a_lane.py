"""What happens to the run below a lane of `up` that was set aside: a person, a restart and urgent work reach it too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from flyball.core.mail import refusal
from flyball.domain import events as e
from flyball.domain.messages import Answer, AnyMessage, Ask, HandBack, Start, encode
from flyball.journal.memory import MemoryJournal
from flyball.journal.records import load
from flyball.machines import shipped
from flyball.runtime.supervisor import Supervisor
from flyball.state.run import Run
from support import BASE, Script, begun, judged, ok, settings

ONE = e.Assessment(steps=(e.PlanStep(title="one"),))
URGENT = e.Trigger(kind="security", text="a leak", ticket="T2", priority=90)


class Lane(Supervisor):
    """The production loop with a lane of `up`; a worker's turn ends when the test says so."""

    def __init__(self, journal: MemoryJournal | None = None) -> None:
        self.time, self.working = 1_000_000, dict[str, Callable[[e.TurnEnded], None]]()
        script, lane = Script(agent__planner=[replace(ok(), assessment=ONE)]), self

        class Acts:
            def start(self, run: Run, act: e.Act, post: Any) -> None:
                if act.do == "agent:worker":
                    lane.working[run.id] = lambda turn: post(judged(act, turn))
                else:
                    post(judged(act, script(run, act)))  # type: ignore[arg-type]

            def stop(self, key: str, now: bool) -> None: ...

            def tidy(self, run: Run) -> None: ...

        super().__init__(
            journal or MemoryJournal(),
            Acts(),
            self,
            driver="d",
            alive=lambda name: False,
            new_id=lambda: f"k{self.now()}",
            machine_table=lambda name, parent: shipped(name).table,
        )

    def now(self) -> int:
        self.time += 1
        return self.time

    def go_on(self) -> Lane:
        for _ in range(500):
            self.take_mail()
            if not self.tick():
                return self
        raise AssertionError("there is always something to do")

    # ---- what the tests do and see ----

    def run_of(self, machine: str, number: int = -1) -> Run:
        names = [row.run for row in self.journal.rows(machine=machine)][::-1]
        name = names[number]
        return self.driven[name].run if name in self.driven else _read(self.journal, name)

    @property
    def lane(self) -> Run:
        return self.driven["r1"].run

    def post(self, run: str, message: AnyMessage) -> Lane:
        self.journal.post(run, self.now(), encode(message))
        return self.go_on()

    def works(self, run: Run, **more: Any) -> Lane:
        """The worker's turn ends; with a new tree, unless told otherwise."""
        self.working.pop(run.id)(ok(**{"tree": f"t{self.now()}", **more}))
        return self.go_on()

    def finishes(self, run: Run) -> Lane:
        return self.works(run, finished=True, indicators=("task complete", "all done"))


def _read(journal: Any, name: str) -> Run:
    return load(journal, name)[0]


LIMITS = {"loop": {"no_progress": 99, "probe": 0}, "cto": {"no_progress": 2}}


def at_work() -> Lane:
    """A lane whose worker is at work on the only step of a plan."""
    lane = Lane()
    lane.begin(begun("cto", settings(limits=LIMITS), commit="c0", branch="main"))
    lane.go_on().post("r1", Start(trigger=e.Trigger(kind="task", text="work", ticket="T1")))
    assert (lane.lane.state, [*lane.working]) == ("EXECUTING", [lane.run_of("loop").id])
    return lane


def halted() -> Lane:
    """A rule has set the run below aside, and asks."""
    lane = at_work()
    for _ in range(3):
        lane.works(lane.run_of("loop"), tree=BASE)
    assert (lane.lane.state, lane.lane.status, lane.working) == ("WAITING_FOR_HUMAN", "waiting", {})
    return lane


def interrupted() -> Lane:
    """The run below has made way for something urgent, which is at work now."""
    lane = at_work()
    lane.set_aside("r1")
    lane.works(lane.run_of("loop"))
    lane.give("r1", URGENT, "box", ())
    lane.go_on()
    assert (lane.lane.task, [*lane.working]) == ("a leak", [lane.run_of("loop", 1).id])
    return lane


def done(lane: Lane) -> dict[str, str]:
    return {name: became.partition(" ")[0] for name, became in lane.lane.plan.outcomes.items()}


# ---- a person works on what a rule has stopped -----------------------------------------------------------


def test_to_take_over_the_run_that_was_halted_is_an_answer() -> None:
    """CTO-10: work by hand is one of the three alternatives; the run continues with what the person made."""
    lane = halted()
    task = lane.run_of("task")
    assert lane.lane.question is not None and f"flyball take-over {task.id}" in lane.lane.question.text
    lane.post(task.id, Ask(what="take-over", who="ann"))
    runs = [lane.lane, *map(lane.run_of, ("task", "build", "loop"))]
    assert [(run.status, run.stop.code if run.stop else "") for run in runs] == [
        ("paused", "wait.take_over")
    ] * 4
    assert lane.lane.question is None and lane.working == {}
    lane.post(task.id, HandBack(who="ann"))
    assert (lane.lane.state, [*lane.working]) == ("EXECUTING", [lane.run_of("loop").id])
    lane.finishes(lane.run_of("loop"))
    assert done(lane) == {"T1": "done"}


@pytest.mark.parametrize("meanwhile", ["more urgent work", "a rule", "nothing"])
def test_a_take_over_is_not_forgotten_whatever_comes_meanwhile(meanwhile: str) -> None:
    lane = at_work()
    for _ in range(2 if meanwhile == "a rule" else 0):
        lane.works(lane.run_of("loop"), tree=BASE)
    task = lane.run_of("task")
    lane.post(task.id, Ask(what="take-over", who="ann"))
    if meanwhile == "more urgent work":
        lane.set_aside("r1")
    lane.works(lane.run_of("loop"), tree=BASE)
    assert lane.run_of("task").stop.code == "wait.take_over"  # type: ignore[union-attr]
    assert (lane.lane.state, lane.lane.status, lane.working) == ("WAITING_FOR_HUMAN", "paused", {})
    lane.post(task.id, HandBack(who="ann"))
    lane.finishes(lane.run_of("loop"))
    assert done(lane) == {"T1": "done"}


def test_a_lane_has_no_checkout_and_names_the_run_that_has_one() -> None:
    lane = halted()
    for message in (Ask(what="take-over", who="ann"), HandBack(who="ann")):
        assert f"Name the run of a step: {lane.run_of('task').id}" in refusal(lane.lane, message)


def test_a_question_below_is_dropped_when_the_whole_task_is_taken_over() -> None:
    lane = at_work()
    lane.works(lane.run_of("loop"), ask="Which table?")
    task = lane.run_of("task")
    lane.post(task.id, Ask(what="take-over", who="ann"))
    assert (lane.run_of("loop").question, lane.run_of("task").stop.code) == (None, "wait.take_over")  # type: ignore[union-attr]
    lane.post(task.id, HandBack(who="ann"))
    lane.finishes(lane.run_of("loop"))
    assert done(lane) == {"T1": "done"}


# ---- what made way for urgent work waits until it is taken up ---------------------------------------------


def test_after_a_restart_what_made_way_still_waits() -> None:
    lane = interrupted()
    again = Lane(lane.journal)  # type: ignore[arg-type]
    again.adopt("r1")
    again.go_on()
    assert [*again.working] == [again.run_of("loop", 1).id], "only the urgent work goes on"
    again.finishes(again.run_of("loop", 1))
    assert (done(again), [*again.working]) == ({"T2": "done"}, [again.run_of("loop", 0).id])
    again.finishes(again.run_of("loop", 0))
    assert done(again) == {"T2": "done", "T1": "done"}


@pytest.mark.parametrize("hands_back", [False, True])
def test_what_made_way_can_be_worked_on_by_hand_meanwhile(hands_back: bool) -> None:
    lane = interrupted()
    task = lane.run_of("task", 0)
    lane.post(task.id, Ask(what="take-over", who="ann"))
    assert (lane.run_of("task", 0).stop.code, lane.lane.status) == ("wait.take_over", "running")  # type: ignore[union-attr]
    if hands_back:
        lane.post(task.id, HandBack(who="ann"))
        assert [*lane.working] == [lane.run_of("loop", 1).id], "its turn has not come"
    lane.finishes(lane.run_of("loop", 1))
    if not hands_back:
        assert (lane.lane.state, lane.working) == ("WAITING_FOR_HUMAN", {})
        lane.post(task.id, HandBack(who="ann"))
    lane.finishes(lane.run_of("loop", 0))
    assert done(lane) == {"T2": "done", "T1": "done"}


def test_what_made_way_and_was_cancelled_meanwhile_is_for_a_person() -> None:
    lane = interrupted()
    lane.post(lane.run_of("task", 0).id, Ask(what="cancel", who="ann"))
    assert lane.run_of("task", 0).end == "cancelled"
    lane.finishes(lane.run_of("loop", 1))
    assert (lane.lane.state, lane.lane.task) == ("WAITING_FOR_HUMAN", "work")
    question = lane.lane.question
    assert question is not None and "cancelled" in question.text
    lane.post("r1", Answer(question=question.id, verb="proceed", who="ann"))
    lane.finishes(lane.run_of("loop"))
    assert done(lane) == {"T2": "done", "T1": "done"}
