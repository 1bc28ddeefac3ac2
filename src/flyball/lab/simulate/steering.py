"""A world with a goal: agents, people, drivers and the disk follow the path to it, then act at random.

Nothing is changed in the code under test: acts end as the script says, messages are written, drivers die. What happens
beside the script (a restored tree, an act started again) goes well. If the script no longer fits, the world continues
at random.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from flyball.core.decide import Finished
from flyball.domain import events as e
from flyball.domain.messages import Answer, Ask
from flyball.domain.settings import HOUR, MINUTE, SECOND
from flyball.journal import Entry
from flyball.lab.prove.moves import STALE
from flyball.lab.simulate.acting import Acting
from flyball.lab.simulate.cues import Cue, script_for
from flyball.lab.simulate.fault_kinds import KEPT, outcome_of
from flyball.lab.simulate.goals import Goal
from flyball.lab.simulate.players import PlannedAct
from flyball.state.run import Run

if TYPE_CHECKING:
    from flyball.lab.simulate.world import World

TOP = "top1"
SOON_US = SECOND // 10  # until there is another driver
PATIENCE = 30  # events without a cue, after which the script no longer fits
DYING = ("act goes on", "act ended alone", "act orphaned", "act lost", "killed")  # while an act is in flight
PLANNING = ("agent:planner", "agent:validator")  # a child run that is to fail plans well
FIRST = ("agent:planner", "agent:reviewer", "agent:validator")  # the first turns of child runs
ON_DISK = ("write fails", "sync fails", "disk full")


class Steering:
    def __init__(self, world: World, machine: str, goal: Goal) -> None:
        self.world, self.goal = world, goal
        self.script = script_for(machine, goal)
        self.todo = list(goal.faults)
        self.place, self.over, self.idle_us = 0, False, SOON_US
        self.pending = ("", 0)  # the key of the act that a cue decides, and which cue
        self.arranged: set[int] = set()  # the cues whose messages or triggers have been sent
        self.answered = ""
        self.acting = Acting(world.players)
        self.quiet = 0  # events since the last cue
        self.doomed = ""  # the act during which the driver will die

    @property
    def cue(self) -> Cue | None:
        return self.script.cues[self.place] if not self.over and self.place < len(self.script.cues) else None

    @property
    def arrived(self) -> bool:
        """Whether the run is in the goal's state and has no outcome there yet."""
        record = self.world.onlooker.runs.get(TOP)
        here = record is not None and record.run.state == self.goal.state and record.run.status != "ended"
        return here and not self.over and self.place >= self.script.visit

    # ---- facts ----

    def on_event(self, before: Run, event: e.AnyEvent, run: Run) -> None:
        """An event is durable."""
        if self.over or run.id != TOP:
            return
        self.quiet += 1
        if isinstance(event, e.ActFinished) and event.key == self.pending[0]:
            self.place, self.quiet, self.pending = self.pending[1] + 1, 0, ("", 0)
        elif self._is_cue(event):
            self.place, self.quiet = self.place + 1, 0
        there = (before.state, outcome_of(before, event)) == (self.goal.state, self.goal.outcome)
        finished = self.place >= len(self.script.cues)
        if (there and finished) or self.quiet > PATIENCE or isinstance(event, e.Ended):
            self.let_go()
            return
        self._arrange(run)

    def _is_cue(self, event: e.AnyEvent) -> bool:
        cue = self.cue
        match event:
            case e.ActFinished(result=e.ChildEnded()):
                return cue is not None and cue.do.startswith("run:")
            case e.ActInterrupted():
                return cue is not None and cue.kind == "lost"
            case e.Answered():
                return cue is not None and isinstance(cue.move.message, Answer)
            case e.Asked():
                return cue is not None and isinstance(cue.move.message, Ask)
            case e.LetterRefused():
                return (
                    cue is not None
                    and isinstance(cue.move.message, Answer)
                    and cue.move.message.shown == STALE
                )
            case e.Moved():
                return cue is not None and cue.kind == "outcome"
            case _:
                return False

    def let_go(self) -> None:
        """Continue at random from here on."""
        self.over = True
        self.world.set_free()

    # ---- what is under way ----

    def _arrange(self, run: Run) -> None:
        cue = self.cue
        if cue is None or self.place in self.arranged:
            return
        world = self.world
        message = cue.move.message
        if isinstance(message, Answer) and run.question is not None:
            self._answer(run, run.question, message)
        elif isinstance(message, Ask) and not self._too_late(self.place):
            self._say(message.what, SECOND if self.place else 0)
        elif cue.kind == "outcome" and run.here.act == "listen" and run.prepared and run.act is None:
            world.later(SECOND, lambda: world.trigger(TOP, cue.move.outcome))
        else:
            return
        self.arranged.add(self.place)

    def _say(self, what: str, in_us: int) -> None:
        """At once means before anything else is started."""
        request = Ask(what=what, who="anna")
        if in_us:
            self.world.later(in_us, lambda: self.world.people.write(TOP, request))
        else:
            self.world.people.write(TOP, request)

    def _too_late(self, place: int) -> bool:
        """Whether this must be said when the act in flight has just ended, because the act would be stopped
        otherwise.
        """
        message, after = self.script.cues[place].move.message, self.script.cues[place + 1 : place + 2]
        stops = isinstance(message, Ask) and message.what in ("stop", "cancel")
        return stops and any(cue.kind == "finished" and not cue.do.startswith("run:") for cue in after)

    def _answer(self, run: Run, question: e.Question, message: Answer) -> None:
        world, version = self.world, STALE if message.shown == STALE else question.shown
        right = replace(message, question=question.id, shown=version, who="anna", how="cli")
        if self.arrived and self._due("wrong answer"):
            wrong = replace(right, verb="dance")
            world.later(SECOND, lambda: world.people.reply(run, question, wrong))
        late = 30 * HOUR if self.arrived and self._due("late answer") else 2 * SECOND
        times = 2 if self.arrived and self._due("second answer") else 1

        def reply() -> None:
            for _ in range(times):
                world.people.reply(run, question, right)

        world.later(late, reply)

    def asked(self, run: Run, question: e.Question) -> bool:
        """A run asks. Returns whether the script answers."""
        if self.over:
            return False
        cue = self.cue
        if run.id == TOP and cue is not None and isinstance(cue.move.message, Answer):
            return True  # see `_arrange`
        if self.answered != question.id:
            self.answered = question.id
            self.world.later(MINUTE, lambda: self._help(run.id))
        return True

    def _help(self, run_id: str) -> None:
        run = self.world.run(run_id)
        if run.question is not None:
            self.world.people.write(
                run_id, self.world.people.helps(run, run.question, self._below() == "failure")
            )

    # ---- acts ----

    def play(self, run: Run, act: e.Act) -> PlannedAct | None:
        """The result of an act, if the script gives one; None: any result."""
        if self.over:
            return None
        players = self.world.players
        if run.id != TOP:
            return self._play_below(run, act)
        place = self._cue_for(act)
        cue = self.script.cues[place] if place is not None else None
        if cue is None or place is None:
            return players.well(run, act, 10 * SECOND)
        if cue.kind == "lost":
            self._dies_in(act, 1)
            return players.well(run, act, 10 * SECOND)
        self.pending = (act.key, place)
        lasts = self._lasts()
        self._die_in(act)
        planned = self.acting.play(run, act, cue, lasts)
        for earlier in range(self.place, place):
            message = self.script.cues[earlier].move.message
            if isinstance(message, Ask) and self._too_late(earlier) and earlier not in self.arranged:
                self.arranged.add(earlier)
                self._say(message.what, planned.lasts_us)
        return planned

    def _cue_for(self, act: e.Act) -> int | None:
        """The next cue, or the one after a message that is due meanwhile."""
        for place in range(self.place, len(self.script.cues)):
            cue = self.script.cues[place]
            if cue.kind in ("finished", "lost"):
                return place if (act.do, act.why) == (cue.do, cue.why) else None
        return None

    def _lasts(self) -> int:
        """An act takes long enough for what has to happen during it."""
        return 5 * MINUTE if self.todo and "act orphaned" in self.todo and self.arrived else 20 * SECOND

    def _child_end(self) -> e.ChildEnded | None:
        """How the child run has to end, as far as the script says."""
        cue = self.cue
        result = cue.move.finished.result if cue and cue.move.finished else None
        return result if isinstance(result, e.ChildEnded) else None

    def _below(self) -> str:
        result = self._child_end()
        return result.end if result else "success"

    def _play_below(self, run: Run, act: e.Act) -> PlannedAct:
        """A child run ends as its parent's cue says."""
        players, how = self.world.players, self._below()
        if how == "cancelled":
            child = self.world.run(TOP).child or run.id
            self.world.later(SECOND, lambda: self.world.people.write(child, Ask(what="cancel", who="anna")))
        elif how == "failure" and act.do == "prepare" and self._fails_at_once():
            unmade = e.Prepared(error="it is no repository", code="error.git")
            return PlannedAct(Finished(key=act.key, result=unmade), 10 * SECOND)
        elif how == "failure" and act.do.startswith("agent:") and act.do not in PLANNING:
            return players.turn(run, act, "slow" if self._late_below() else "killed")
        return self._paid(act, players.well(run, act, 10 * SECOND))

    def _late_below(self) -> bool:
        result = self._child_end()
        return result is not None and result.stop.code.startswith("timeout")

    def _fails_at_once(self) -> bool:
        """Failed turns would first use up a limit of the parent run."""
        result = self._child_end()
        return result is not None and result.stop.code == "failed.agent"

    def _paid(self, act: e.Act, planned: PlannedAct) -> PlannedAct:
        """The first turn of a child run costs what the model's child run costs."""
        cost, result = self.script.premise.cost_uusd, planned.finished.result
        if not cost or not isinstance(result, e.TurnEnded) or act.do not in FIRST:
            return planned
        paid = replace(result, usage=e.Usage(cost_uusd=cost))
        return replace(planned, finished=replace(planned.finished, result=paid))

    # ---- what goes wrong ----

    def _due(self, fault: str) -> bool:
        if fault not in self.todo:
            return False
        self.todo.remove(fault)
        return True

    def _die_in(self, act: e.Act) -> None:
        """Let the driver die during this act, if the script says so."""
        if not self.arrived or act.do.partition(":")[0] not in KEPT:
            return
        fault = next((name for name in DYING if name in self.todo), "")
        if fault:
            self.todo.remove(fault)
            away = {"act ended alone": 40 * SECOND, "act orphaned": 2 * MINUTE}.get(fault, SOON_US)
            self._dies_in(act, int(fault == "act lost"), away)

    def _dies_in(self, act: e.Act, fraction: float, away_us: int = SOON_US) -> None:
        if self.doomed == act.key:
            return
        self.doomed = act.key

        def die() -> None:
            world = self.world
            now = world.onlooker.runs[TOP].run.act
            if world.supervisor is not None and now is not None and now.key == act.key:
                world.hazards.lost, self.idle_us = fraction, away_us
                world.hazards.crash("killed")

        self.world.later(SECOND // 2, die)

    def before(self) -> None:
        """Something is about to be written."""
        if not self.arrived:
            return
        if self._due("crash before write"):
            self.world.hazards.crash("crash before write")
        for fault in ON_DISK:
            if self._due(fault):
                self.world.store.spoil(0, fault)
                return

    def after(self, entries: Sequence[Entry]) -> None:
        """Something was written."""
        if not self.arrived or not self._driven():
            return
        hazards = self.world.hazards
        for fault in ("clock forward", "clock back"):
            if self._due(fault):
                hazards.jump(24 * HOUR if fault == "clock forward" else -24 * HOUR)
        if self._due("second driver"):
            hazards.second_driver()
        self._crash(entries)

    def _driven(self) -> bool:
        driver = self.world.supervisor
        return driver is not None and TOP in driver.driven

    def _crash(self, entries: Sequence[Entry]) -> None:
        hazards, begins = self.world.hazards, any(entry.kind == "ActStarted" for entry in entries)
        self.idle_us = SOON_US
        if begins and self._kept_in_flight() and self._due("act not begun"):
            hazards.crash("crash after write")
        if self._due("crash after write"):
            hazards.crash("crash after write")
        if self._due("power cut"):
            hazards.crash("power cut")
        if self._due("taken for dead"):
            hazards.take_over()
        if self._due("zombie"):
            self.world.later(2 * SOON_US, hazards.zombie)
            hazards.take_over()
        if "killed" in self.todo and not self._kept_in_flight() and self._due("killed"):
            self.world.later(SECOND // 2, hazards.kill)

    def _kept_in_flight(self) -> bool:
        act = self.world.onlooker.runs[TOP].run.act
        return act is not None and act.do.partition(":")[0] in KEPT
