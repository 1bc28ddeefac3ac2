"""Alerts about the time in a state (TASK-6): each step once, whatever the run does, and nothing ever stops."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from flyball.core import stops
from flyball.domain import events as e
from flyball.domain.settings import HOUR, MINUTE
from flyball.journal.memory import MemoryJournal
from flyball.journal.records import row_of
from flyball.machines import shipped
from flyball.runtime.supervisor import Supervisor
from flyball.state.fold import apply, fold, freeze, thaw
from flyball.state.run import Run
from flyball.views.task_record import TaskEvents
from support import FAIL, PASS, Played, Script, begun, judged, play, says, settings, start

ALLOWED = 30 * MINUTE  # of planning


def planning(**more: Any) -> Played:
    """A task whose validator is at work."""
    played = start(Script(), begun("task", settings(**more)))
    played.begin_act("agent:validator")
    assert played.run.state == "planning"
    return played


def warned(run: Run, passed: int) -> list[str]:
    return [event.code for event in stops.due_alert(run, run.entered_at + passed)]


@pytest.mark.parametrize(
    ("percent", "codes"),
    [
        (0, []),
        (79, []),
        (80, ["alert.80"]),
        (99, ["alert.80"]),
        (100, ["alert.100"]),
        (150, ["alert.150"]),
        (900, ["alert.150"]),
    ],
)
def test_the_highest_step_reached_is_due(percent: int, codes: list[str]) -> None:
    run = planning().run
    assert warned(run, ALLOWED * percent // 100) == codes
    step = stops.alert_reached(ALLOWED * percent // 100, ALLOWED)
    assert [f"alert.{step}"] * bool(step) == codes
    assert warned(run, ALLOWED * percent // 100 - 1) == codes or percent in stops.ALERT_STEPS


def steps(played: Played, until: int) -> list[tuple[str, int]]:
    """Each alert and when it came, as a driver sees them that sleeps until the next one."""
    known: list[tuple[str, int]] = []
    entered = played.run.entered_at
    while (at := stops.next_alert_at(played.run)) is not None and at <= entered + until:
        assert stops.due_alert(played.run, at - 1) == []
        events = stops.due_alert(played.run, at)
        played.note(events)
        known += [(event.code, at - entered) for event in events]
    return known


def test_each_step_is_told_once_and_the_act_goes_on() -> None:
    played = planning()
    act = played.run.act
    expected = [("alert.80", 24 * MINUTE), ("alert.100", 30 * MINUTE), ("alert.150", 45 * MINUTE)]
    assert steps(played, 10 * HOUR) == expected
    assert (played.run.act, played.run.status, stops.next_alert_at(played.run)) == (act, "running", None)
    assert stops.due_alert(thaw(freeze(played.run)), played.now + HOUR * 99) == []


def test_a_state_that_is_entered_again_has_its_whole_time() -> None:
    played = start(Script(planning=[FAIL, PASS]), begun("task", settings()))
    played.begin_act("agent:validator")
    assert len(steps(played, HOUR)) == 3
    played.now = played.run.at
    played.finish_act(FAIL(played.run, played.run.act))  # type: ignore[arg-type]
    played.begin_act("agent:validator")
    assert played.run.state == "planning" and played.run.path.alerted == 0
    assert len(steps(played, HOUR)) == 3


def test_a_run_that_waits_for_a_person_is_late_all_the_same() -> None:
    played = play(Script(planning=says(ask="Which table?")), begun("task", settings()))
    assert (played.run.status, played.code) == ("waiting", "wait.question")
    assert [code for code, _ in steps(played, HOUR)] == ["alert.80", "alert.100", "alert.150"]
    assert (played.run.status, played.code, played.run.question is not None) == (
        "waiting",
        "wait.question",
        True,
    )


@pytest.mark.parametrize(
    ("settings_", "allowed"),
    [
        ({}, ALLOWED),
        ({"timeouts_us": {"task": {"alert.planning": HOUR}}}, HOUR),
        ({"timeouts_us": {"task": {"alert.planning": 0}}}, 0),
    ],
)
def test_the_time_is_the_machines_unless_configured(settings_: dict[str, Any], allowed: int) -> None:
    run = planning(**settings_).run
    assert stops.alert_time_us(run) == allowed
    assert row_of(run).alert_at == (run.entered_at + allowed if allowed else 0)


@pytest.mark.parametrize(("machine", "state"), [("task", "completed"), ("build", "complete")])
def test_what_has_ended_or_has_no_alert_is_never_late(machine: str, state: str) -> None:
    run = play(Script(), begun(machine, settings())).run
    assert (run.state, warned(run, 999 * HOUR), stops.next_alert_at(run), row_of(run).alert_at) == (
        state,
        [],
        None,
        0,
    )


def test_the_standing_loop_has_a_rule_of_its_own_while_it_executes() -> None:
    run = start(Script(), begun("cto", settings())).run
    known = {state: stops.alert_time_us(_in(run, state)) for state in run.machine.states}
    assert known == {"IDLE": 0, "PLANNING": 0, "EXECUTING": 0, "WAITING_FOR_HUMAN": 24 * HOUR}


def _in(run: Run, state: str) -> Run:
    return replace(run, state=state)


def test_an_alert_is_a_timeout_warning_in_the_seeds_form() -> None:
    played = planning()
    steps(played, HOUR)
    told = TaskEvents()
    rows = [row for event in played.events for row in told.of(event) if row["event"] == "TIMEOUT_WARNING"]
    assert [(row["metadata"]["percent"], row["metadata"]["timeInState"]) for row in rows] == [
        (80, 24.0),
        (100, 30.0),
        (150, 45.0),
    ]
    assert {(row["from"], row["to"], row["actor"]) for row in rows} == {
        ("planning", "planning", "@agent-plan-manager")
    }


def test_a_warning_of_another_code_is_no_alert() -> None:
    run = planning().run
    other = apply(run, e.Warned(at=run.at + 1, code="proof.invalid", text="x"))
    assert other.path.alerted == 0 and fold(run, []) == run


# ---- the driver ------------------------------------------------------------------------------------------


class Clock:
    def __init__(self) -> None:
        self.at = 1_000_000

    def now(self) -> int:
        return self.at


class Idle(Supervisor):
    """The production loop; instead of sleeping, time passes. A validator takes six hours."""

    def __init__(self, clock: Clock) -> None:
        script = Script()

        class Acts:
            def start(self, run: Run, act: e.Act, post: Any) -> None:
                if act.do != "agent:validator":
                    post(judged(act, script(run, act)))  # type: ignore[arg-type]

            def stop(self, key: str, now: bool) -> None: ...

            def tidy(self, run: Run) -> None: ...

        self.time, self.sleeps = clock, 0
        self.codes: list[tuple[str, int]] = []
        super().__init__(
            MemoryJournal(),
            Acts(),
            clock,
            driver="d",
            alive=lambda name: False,
            new_id=lambda: "child",
            machine_table=lambda name, parent: shipped(name).table,
            on_event=self._note_warning,
        )

    def _note_warning(self, run: Run, event: e.AnyEvent) -> None:
        if isinstance(event, e.Warned):
            self.codes.append((event.code, event.at - run.entered_at))

    def _sleep(self, until: int | None = None) -> None:
        timeout = self._until_next()
        if self.driven["r1"].run.state != "planning":
            return super()._listen(0.0)
        self.sleeps += 1
        assert timeout is None or timeout > 0, "it would spin"
        self.time.at += round((timeout if timeout is not None else 6 * 3600) * 1_000_000)
        return None


@pytest.mark.parametrize("errand", [False, True])
def test_the_driver_wakes_for_each_alert_and_sleeps_on(errand: bool) -> None:
    clock = Clock()
    driver = Idle(clock)
    driver.begin(replace(begun("task", settings()), at=clock.at))
    begin = clock.at
    driver.drive(lambda: driver.driven["r1"].run.state == "planning")
    driver.errands_only = errand
    driver.drive(lambda: clock.at > begin + 5 * HOUR)
    expected = [("alert.80", 24 * MINUTE), ("alert.100", 30 * MINUTE), ("alert.150", 45 * MINUTE)]
    assert driver.codes == ([] if errand else expected)
    assert (driver.driven["r1"].run.status, driver.sleeps) == ("running", 1 if errand else 4)
    driver.close()
