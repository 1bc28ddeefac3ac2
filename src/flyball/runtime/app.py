"""Connects what a command needs: journal, keys, driver, performer. It decides nothing."""

from __future__ import annotations

import secrets
import shutil
import time
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from msgspec.structs import replace

from flyball.authority import person
from flyball.core.mail import refusal
from flyball.domain import events as e
from flyball.domain.messages import AnyMessage, Start, encode
from flyball.domain.results import Trigger
from flyball.errors import Corrupt, NotFound, UserError
from flyball.journal import Entry
from flyball.journal.database import Driver, alive, ring
from flyball.journal.records import Records
from flyball.machines import from_file, shipped
from flyball.runtime.backlog import SAYS, Backlog, backlog, mailbox, take_number
from flyball.state.run import Run
from flyball.state_dir import Paths, environment, out_folder, paths

if TYPE_CHECKING:
    from flyball.acts.run_files import RunFiles
    from flyball.runtime.otel import LiveTraces
    from flyball.runtime.supervisor import Supervisor

REFUSED = e.LetterRefused.__name__
TRACES = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
LISTED = 10  # tasks of the backlog in the ledger
ALPHABET = "23456789abcdefghjkmnpqrstuvwxyz"


class WallClock:
    def now(self) -> int:
        return time.time_ns() // 1000


def new_id() -> str:
    """Eight characters without similar-looking ones: short enough to type, long enough to be unique."""
    return "".join(secrets.choice(ALPHABET) for _ in range(8))


class Listener(Protocol):
    def note(self, run: Run, event: e.AnyEvent) -> None: ...

    def close(self) -> None: ...


class App(Records):
    """One user's Flyball: their records, and everything that drives a run."""

    def __init__(self, env: dict[str, str] | None = None, here: Callable[[], str] = str) -> None:
        self.env = environment() if env is None else env
        self.paths: Paths = paths(self.env)
        super().__init__(self.paths.state_dir, here)
        self.clock = WallClock()
        self._traces: LiveTraces | None = None
        self._listening: dict[
            str, list[Listener]
        ] = {}  # to the events of a top-level run and of the runs below it

    def close(self) -> None:
        for listener in {
            id(one): one for listening in self._listening.values() for one in listening
        }.values():
            listener.close()
        if self._traces:
            self._traces.close()
        super().close()

    def question(self, name: str) -> Run:
        """The run with this question: by the question's id, or by the id of the run or of its parent."""
        run_id, _, number = name.rpartition(".")
        run = self.read(self.find(run_id if run_id and number.isdigit() else name))
        while run.question is None and run.child:
            run = self.read(run.child)
        if run.question is None or (
            run_id and number.isdigit() and run.question.id.rpartition(".")[2] != number
        ):
            raise NotFound(f"{_closed(name, run)} `flyball inbox` lists the open questions.")
        return run

    # ---- messages ----

    def send(self, run: Run, message: AnyMessage) -> bool:
        """Leave a message and wake the driver. False: no process is running the run."""
        self.require_person(type(message).__name__.lower())
        reason = refusal(run, message)
        if reason:
            raise UserError(reason)
        self.journal.post(run.id, self.clock.now(), self.seals.sealed(run.id, encode(message)))
        holder = self.journal.holder(run.id)
        return alive(self.state_dir, holder) and ring(self.state_dir, holder)

    def require_person(self, what: str) -> None:
        """Refuse a command that speaks for a person if an agent runs it, and record the attempt in its run."""
        agent = person.agent_above(self.state_dir, self.env, self._is_run)
        if agent is None:
            return
        message = person.tried(what, agent)
        if agent.run and self._is_run(agent.run) and not self._has_heard(agent.run, message):
            self.journal.post(agent.run, self.clock.now(), message)
            ring(self.state_dir, self.journal.holder(agent.run))
        raise UserError(
            f"This is an agent's process ({agent.how}), and only a person may do that. "
            "Run it in your own terminal."
        )

    def _has_heard(self, run_id: str, body: bytes) -> bool:
        """Whether this attempt is recorded already: repeated attempts must not fill the journal."""
        if any(message.body == body for message in self.journal.mail(run_id)):
            return True
        refusals = (e.decode(entry.body) for entry in self.journal.read(run_id) if entry.kind == REFUSED)
        complaint = person.complaint(body)
        return any(isinstance(event, e.LetterRefused) and event.reason == complaint for event in refusals)

    def _is_run(self, name: str) -> bool:
        return self.dirs.journal.exists() and self.journal.row(name) is not None

    @property
    def seals(self) -> person.Seals:
        return person.Seals(self.state_dir)

    # ---- the backlog ----

    def backlog(self, repo: Path | str) -> Backlog:
        return backlog(self.journal.mail(mailbox(repo)))

    def leave(self, repo: Path | str, trigger: Trigger, who: str) -> str:
        """Add a task, or a change to one, to the backlog, and wake whoever works on it. Returns its name."""
        box, journal = mailbox(repo), self.journal  # which makes the folder of the key, too
        if trigger.kind not in SAYS and not trigger.ticket:
            number = take_number(self.state_dir / f"{box}.tasks", lambda: self._known_tasks(repo))
            trigger = replace(trigger, ticket=f"T{number}")
        body = self.seals.sealed(box, encode(Start(trigger=trigger, who=who)))
        journal.post(box, self.clock.now(), body)
        ring(self.state_dir, journal.holder(box))
        return trigger.ticket

    def _known_tasks(self, repo: Path | str) -> list[str]:
        """The names of the tasks that wait or have been taken, as far back as they are kept."""
        lanes = [self.read(row.run).plan for row in self.journal.rows(repo=str(repo), machine="cto")]
        names = [name for plan in lanes for name in plan.outcomes]
        runs = [row.ticket for row in self.journal.rows(repo=str(repo), machine="task")]
        return [*names, *runs, *(one.id for one in self.backlog(repo).tickets)]

    def _waiting(self, repo: str) -> list[str]:
        """The tasks of the backlog, for the ledger."""
        tickets = self.backlog(repo).tickets
        lines = [
            f"{one.id} (priority {one.trigger.priority}{_condition(one.trigger)}): {one.trigger.text}"
            for one in tickets[:LISTED]
        ]
        return [*lines, f"and {len(tickets) - LISTED} more"] if len(tickets) > LISTED else lines

    # ---- driving ----

    def run_files(self) -> RunFiles:
        from flyball.acts.run_files import RunFiles
        from flyball.agents import sandbox

        return RunFiles(self.state_dir, sandbox.probe(), self.env)

    def supervisor(
        self,
        driver: Driver,
        on_event: Callable[[Run, e.AnyEvent], None] | None = None,
        show: Callable[[str, str], None] | None = None,
    ) -> Supervisor:
        from flyball.runtime.supervisor import Supervisor, ThreadPerformer

        committed = self._on_commit()

        def happened(run: Run, event: e.AnyEvent) -> None:
            for listener in self._listeners(run):
                listener.note(run, event)
            if on_event:
                on_event(run, event)

        performer = ThreadPerformer(self.run_files(), show)
        performer.sweep(self._is_over)
        self.dirs.keep_reserve()
        supervisor = Supervisor(
            self.journal,
            performer,
            self.clock,
            driver=driver.name,
            alive=lambda name: alive(self.state_dir, name),
            new_id=new_id,
            machine_table=self._table,
            on_event=happened,
            on_commit=committed,
            before_load=self.require_whole,
            before_child=self._pin_again,
            fault_of=lambda message: self.seals.fault(message, use=True),
        )
        supervisor.listen_to(driver.bell, driver.hear)
        return supervisor

    def _listeners(self, run: Run) -> list[Listener]:
        """The listeners to the events of a run. Most runs have no pages and no notifications, and import neither."""
        root = run.began.root or run.id
        if root not in self._listening:
            pages = [self._artifacts] if out_folder(run.began.repo) else []
            self._listening[root] = [
                *pages,
                *([self._notifier] if self.dirs.run(root).notify.exists() else []),
            ]
        return self._listening[root]

    @cached_property
    def _artifacts(self) -> Listener:
        from flyball.runtime.listeners import Artifacts

        return Artifacts(self.journal, self._waiting)

    @cached_property
    def _notifier(self) -> Listener:
        from flyball.runtime.listeners import Notifier

        return Notifier(self.dirs)

    def _on_commit(self) -> Callable[[Sequence[Entry]], None]:
        heads = self.heads  # so that the key is there before the first event
        traces = self._traces = self._traces or self._live_traces()

        def committed(entries: Sequence[Entry]) -> None:
            heads.note_all(entries, self.journal)
            if traces:
                traces.note(entries)

        return committed

    def _live_traces(self) -> LiveTraces | None:
        """Traces of the runs driven here, where a standard variable names a collector (ALO-12)."""
        if not any(self.env.get(name) for name in TRACES):
            return None
        from flyball.runtime.otel import live_traces

        return live_traces(self.journal)

    def _pin_again(self, parent: str, child: str) -> None:
        """A child run with its own checkout has its own copy of the rules pinned for its parent."""
        source, target = self.dirs.run(parent).pinned, self.dirs.run(child).pinned
        if source.exists() and not target.exists():
            shutil.copytree(source, target)

    def _is_over(self, run_id: str) -> bool:
        """Whether a run has ended and nothing is under way any more: no driver, no interrupted landing."""
        row = self.journal.row(run_id)
        if row is None or row.status != "ended" or self.driven(run_id):
            return False
        run = self.read(run_id)
        return run.act is None and run.landing is None

    def takes_no_messages(self, run_id: str) -> bool:
        """A run that ended in success still takes the order to land."""
        row = self.journal.row(run_id)
        return row is not None and row.status == "ended" and row.end != "success"

    def require_whole(self, run_id: str) -> None:
        """Before a run continues: the journal still has the head that this run once had."""
        fault = self.heads.rolled_back(run_id, self.journal)
        if fault:
            raise Corrupt(fault.message)

    def _table(self, name: str, parent: Run) -> dict[str, Any]:
        """A child's machine: as the top-level run pinned it, else the one that ships."""
        pinned = self.dirs.run(parent.began.root or parent.id).pinned / "machines" / f"{name}.toml"
        return (from_file(pinned) if pinned.exists() else shipped(name)).table


def _condition(trigger: Trigger) -> str:
    """What a task waits for, as the ledger says it."""
    return ", later" if trigger.later else f", after {', '.join(trigger.after)}" if trigger.after else ""


def _closed(name: str, run: Run) -> str:
    by_number = name.rpartition(".")[2].isdigit()
    return f"Question {name} is not open." if by_number else f"Run {run.id} has no open question."
