"""`flyball up`: the standing loop of a repository, in lanes.

A lane is a `cto` run. It works on one plan at a time; a lane that waits for a person does not count, so other work
continues meanwhile. A lane decides by its rules; this module only gives it tasks from the backlog and the schedule.
"""

from __future__ import annotations

import contextlib

from msgspec.structs import replace

from flyball.config import cron
from flyball.config.schema import KEYS
from flyball.core.standing import listens, makes_way, outranks, works
from flyball.domain.results import Trigger
from flyball.domain.settings import Settings
from flyball.errors import AlreadyRunning, JournalError, UserError, WorkspaceError
from flyball.journal import Message
from flyball.journal.database import alive
from flyball.runtime.app import App
from flyball.runtime.backlog import Backlog, Ticket, backlog, mailbox, ready
from flyball.runtime.listeners import make_out_folder
from flyball.runtime.start import RunRequest, launch, resolve
from flyball.runtime.supervisor import Supervisor
from flyball.state.run import Run
from flyball.system import forge_watch, tasks
from flyball.system.conditions import met
from flyball.system.mismatches import Mismatch, mismatches
from flyball.system.retention import prune_daily
from flyball.system.webhook import Webhook
from flyball.workspace import inspect_repo

OBJECTIVE = "Work through the backlog."
OWN = (
    "parallel",
    "schedule",
    "health_us",
    "webhook",
    "github",
    "github_label",
    "poll_us",
)  # no lane reads them


class Lanes:
    def __init__(self, app: App, supervisor: Supervisor, request: RunRequest) -> None:
        self.app, self.supervisor, self.request = app, supervisor, request
        self.repo = inspect_repo(request.repo)
        self.box = mailbox(self.repo.root)
        self.lanes: list[str] = []
        self.fired = app.clock.now()  # schedules count from here
        self.checked = 0  # when the consistency of the journal with git and GitHub was last checked
        self.known: set[Mismatch] = set()
        self.forge: forge_watch.ForgeWatch | None = None
        self.forge_state = forge_watch.NOTHING  # what GitHub said last
        self.webhook: Webhook | None = None
        self.settings = Settings()
        self.earlier: dict[str, str] = {}  # the results of tasks of lanes that have ended
        self.outdated: dict[str, list[str]] = {}  # lane -> the settings that have changed since its start

    # ---- coming and going ----

    def open(self) -> None:
        """Take the lease of this repository's loop, and adopt or start its lanes."""
        try:
            self.app.journal.acquire(
                self.box, self.supervisor.driver, lambda name: alive(self.app.state_dir, name)
            )
        except AlreadyRunning:
            raise UserError(
                f"`flyball up` is already running for {self.repo.root}. Stop it with `flyball down`, or look with `flyball ls`."
            ) from None
        make_out_folder(str(self.repo.root))  # before the first event: who listens to a run is settled there
        _, _, _, self.settings = resolve(self.app, self.request, standing=True)
        self._open_sources()
        for row in self.app.journal.rows(repo=str(self.repo.root), machine="cto"):
            if row.status == "ended":
                self.earlier |= self.app.read(row.run).plan.outcomes
            else:
                self.supervisor.adopt(row.run)
                self.lanes.append(row.run)
        self.outdated = {run.id: names for run in self.runs if (names := self._changed(run))}
        self.supervisor.adopt_abandoned()
        if not self.lanes:
            self._new_lane()

    def _open_sources(self) -> None:
        settings = self.settings
        if settings.webhook:
            self.webhook = Webhook(settings.webhook, self.repo.root, self.app.env)
        self.forge = forge_watch.ForgeWatch(self.app, self.supervisor.driver, settings.poll_us)

    def close(self) -> None:
        for source in (self.forge, self.webhook):
            if source is not None:
                source.close()
        with contextlib.suppress(JournalError):  # the lease ends with this process anyway
            self.app.journal.release(self.box, self.supervisor.driver)

    def _new_lane(self) -> str:
        began, _ = launch(self.app, replace(self.request, task=OBJECTIVE, machine="cto"), standing=True)
        run = self.supervisor.begin(began)
        self.lanes.append(run.id)
        return run.id

    def _changed(self, run: Run) -> list[str]:
        """The settings of a lane that have other values now. Settings of `[up]` are always read anew."""
        keys = {row.field: key for key, row in KEYS.items()}
        fields = [name for name in Settings.__struct_fields__ if name not in OWN]
        return [
            keys.get(name, name.removesuffix("_us"))
            for name in fields
            if getattr(run.settings, name) != getattr(self.settings, name)
        ]

    def run(self, lane: str) -> Run:
        return self.supervisor.driven[lane].run

    @property
    def runs(self) -> list[Run]:
        return [self.run(lane) for lane in self.lanes]

    # ---- health ----

    def look(self) -> None:
        """CTO-13 and 14: at the start and from time to time, report each mismatch once; a person decides what no
        rule settles.
        """
        self.checked = self.app.clock.now()
        if self.app.dirs.is_prune_due(self.checked):
            prune_daily(self.app)
        differences = mismatches(self.app, self.repo.root, self.runs, self.forge_state)
        news = [one for one in differences if one not in self.known]
        self.known = set(differences)
        for lane in self.lanes:
            about = [one for one in news if one.run in ("", lane)]
            if about:
                self.supervisor.report(
                    lane, tuple(one.text for one in about), any(one.grave for one in about)
                )

    @property
    def _look_at(self) -> int:
        return self.checked + self.settings.health_us

    # ---- giving work ----

    def feed(self) -> bool:
        """Give the most urgent task to a lane that has time. True: something was given or asked for."""
        self._drop_ended()
        if self.app.clock.now() >= self._look_at and not any(run.agenda for run in self.runs):
            self.look()
        self._fire()
        self._ask_forge()
        queue = backlog(self._honest())
        waiting = ready(queue, self.outcomes() | met(self.app, queue, self.forge_state))
        if self._renew() or self._hand_over() or self._make_room() or self._wake_stranded(waiting):
            return True
        try:
            return self._give(queue, waiting[0]) if waiting else False
        except WorkspaceError as problem:  # the task stays in the backlog
            return self._unusable(Mismatch("", str(problem), grave=True))

    def _unusable(self, repository: Mismatch) -> bool:
        """CTO-7: the repository cannot be used. A person is asked, once. True: they are asked now."""
        if repository in self.known:
            return False
        self.known.add(repository)
        self.supervisor.report(self.lanes[0], (repository.text,), grave=True)
        return True

    def _renew(self) -> bool:
        """There is always a lane. One that began with other settings ends as soon as it has nothing to do."""
        old = next((run for run in self.runs if run.id in self.outdated and listens(run)), None)
        if old is not None:
            self.supervisor.retire(old.id, "its settings have changed")
            self._drop_ended()
        if not self.lanes:
            self._new_lane()
            return True
        return old is not None

    def _drop_ended(self) -> None:
        ended = [lane for lane in self.lanes if lane not in self.supervisor.driven or self.run(lane).end]
        for lane in ended:
            self.earlier |= self.app.read(lane).plan.outcomes
            self.lanes.remove(lane)

    def _hand_over(self) -> bool:
        """A plan that needs approval moves to a lane with nothing to do, so that the work it interrupted continues."""
        other = next((run for run in self.runs if run.plan.parked), None)
        if other is None:
            return False
        free = next((run for run in self.runs if listens(run)), None)
        if free is not None:
            self.supervisor.hand_over(free.id, other.id)
        elif not any(run.agenda for run in self.runs):  # else a new lane is being prepared
            self._new_lane()
        else:
            return False
        return True

    def _make_room(self) -> bool:
        """CTO-1: after an answer more lanes may be working than allowed; the least urgent one is interrupted."""
        busy = [run for run in reversed(self.runs) if works(run)]
        least = min(busy, key=_priority, default=None)
        if least is None or len(busy) <= self.parallel or least.here.act != "run" or least.asked:
            return False
        self.supervisor.set_aside(least.id)
        return True

    def _wake_stranded(self, waiting: list[Ticket]) -> bool:
        """The most urgent of the interrupted lanes continues, if there is room again and nothing is more urgent."""
        stranded = [
            run
            for run in self.runs
            if makes_way(run) and not any(outranks(run, one.trigger) for one in waiting)
        ]
        if not stranded or sum(map(works, self.runs)) >= self.parallel:
            return False
        self.supervisor.wake(max(stranded, key=_priority).id)
        return True

    def _honest(self) -> list[Message]:
        return [message for message in self.app.journal.mail(self.box) if not self.app.seals.fault(message)]

    def _give(self, queue: Backlog, ticket: Ticket) -> bool:
        runs = self.runs
        way = next((run for run in runs if makes_way(run) and outranks(run, ticket.trigger)), None)
        free = next((run for run in runs if listens(run)), None)
        busy = [run for run in runs if works(run)]
        lane = way or (free if len(busy) < self.parallel else None)
        if lane is not None:
            trigger = self._placed(ticket.trigger)
            self.supervisor.give(lane.id, trigger, self.box, (*ticket.messages, *queue.spent))
            return True
        less = [run for run in busy if outranks(run, ticket.trigger) and not run.asked]
        if less and len(busy) >= self.parallel:
            self.supervisor.set_aside(min(less, key=_priority).id)
            return True
        if free is None and len(busy) < self.parallel and all(not run.agenda for run in runs):
            self._new_lane()
            return True
        return False

    @property
    def parallel(self) -> int:
        return self.settings.parallel

    def outcomes(self) -> dict[str, str]:
        """The results of tickets, over all lanes."""
        now = {ticket: became for run in self.runs for ticket, became in run.plan.outcomes.items()}
        return self.earlier | now

    def _placed(self, trigger: Trigger) -> Trigger:
        """Where the work starts: HEAD, the branch that it repairs, or the result of a ticket that it builds on and that
        has not landed yet."""
        repo = inspect_repo(self.repo.root)
        commit = trigger.commit or repo.head
        outcomes = self.outcomes() | met(self.app, backlog(self._honest()), self.forge_state)
        for name in trigger.after:
            outcome = outcomes.get(name, "").partition(" ")[2]
            if (
                outcome
                and repo.git.ask("merge-base", "--is-ancestor", outcome, commit, ok=(0, 1, 128)).code == 1
            ):
                commit = outcome
        tree = repo.git.line("rev-parse", f"{commit}^{{tree}}")
        if trigger.head:
            was_tried = forge_watch.tried(trigger, tasks.started(self.app, self.repo.root))
            trigger = replace(trigger, tried=was_tried)
        return replace(trigger, commit=commit, tree=tree)

    # ---- the forge ----

    def _ask_forge(self) -> None:
        """New issues and red CI become tasks. What could not be read is reported once, and changes nothing."""
        if self.forge is None or not self.lanes:
            return
        queue = self.app.backlog(self.repo.root)
        self.forge.want(forge_watch.wanted(self.settings, self.repo, queue))
        state = self.forge.news()
        if state is None:
            return
        if state.problem and state.problem != self.forge_state.problem:
            self.supervisor.report(self.lanes[0], (state.problem,), grave=False)
            self.known.add(Mismatch("", state.problem))
        self.forge_state = state
        red = forge_watch.repairs(self.repo.root, state)
        if not state.tasks and not red:
            return
        started = tasks.started(self.app, self.repo.root)
        ids = {one.id for one in queue.tickets} | started.keys()
        for trigger in (*(state.tasks or ()), *(forge_watch.still_red(one, started) for one in red)):
            if trigger.ticket not in ids:
                self.app.leave(self.repo.root, trigger, "github")

    # ---- the clock ----

    def _schedule(self) -> list[cron.Line]:
        return [cron.parse(line) for line in self.settings.schedule]

    def _fire(self) -> None:
        """Leave a trigger for each schedule whose time has come, unless its last one is still waiting."""
        now = self.app.clock.now()
        waiting = {one.trigger.text for one in backlog(self._honest()).tickets}
        for line in self._schedule():
            at = cron.following(line, self.fired)
            if at is not None and at <= now and line.text not in waiting:
                self.app.leave(self.repo.root, Trigger(kind="schedule", text=line.text), "schedule")
        self.fired = max(self.fired, now) if self._schedule() else self.fired

    def until(self) -> int | None:
        """When the next schedule is due."""
        times = [cron.following(line, self.fired) for line in self._schedule()]
        later = [at for at in (*times, self._look_at) if at is not None and at > self.app.clock.now()]
        return min(later, default=None)


def _priority(run: Run) -> int:
    return run.plan.trigger.priority if run.plan.trigger else 0
