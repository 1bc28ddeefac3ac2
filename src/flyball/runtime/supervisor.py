"""One loop drives many runs: ask what is due, record that it starts, do it, record the result. Only the loop appends.

An act starts only after its ActStarted event is durable, so after a crash `adopt` continues from the journal.
The loop sleeps until an act finishes, a message arrives or a time is reached. Each act runs in a thread of its own.
"""

from __future__ import annotations

import contextlib
import os
import queue
import selectors
import threading
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from msgspec.structs import replace

from flyball.acts.checkout import commit, land, prepare, restore
from flyball.acts.checks import check
from flyball.acts.proof import prove
from flyball.acts.run_files import RunFiles, SetupStopped
from flyball.acts.turn import take_turn
from flyball.agents import process
from flyball.core.decide import Do, Finished, Interrupted, Note, Rest, due, react
from flyball.core.family import child_of
from flyball.core.mail import hear, settles, wake
from flyball.core.standing import SET_ASIDE, hear_parked, hear_trigger, mismatched
from flyball.core.stops import cancel, due_alert, half_used, next_alert_at
from flyball.domain import events as e
from flyball.domain.messages import contradiction, for_who_works, replaces, resumes
from flyball.domain.results import ALIVE
from flyball.errors import AlreadyRunning, FlyballError, Gone, JournalError, TooDeep
from flyball.evidence import certificate
from flyball.journal import Entry, Journal, Message
from flyball.journal.records import Batch, DrivenRun, load, windows
from flyball.reading.terminal import whole, whole_text
from flyball.state.fold import BY_A_PERSON, Events
from flyball.state.run import Run
from flyball.state_dir import RunDir
from flyball.workspace import Workspace

News = Finished | Interrupted
SLEEP_MOST_S = 3600.0  # a selector cannot sleep for months


class Clock(Protocol):
    def now(self) -> int:
        """Microseconds UTC."""
        ...


class Performer(Protocol):
    """Performs acts. `start` returns at once; the result of the act is posted later, from any thread."""

    def start(self, run: Run, act: e.Act, post: Callable[[News], None]) -> None: ...

    def stop(self, key: str, now: bool) -> None: ...

    def tidy(self, run: Run) -> None:
        """A run has ended: clean up after it."""
        ...


class Supervisor:
    def __init__(
        self,
        journal: Journal,
        performer: Performer,
        clock: Clock,
        *,
        driver: str,
        alive: Callable[[str], bool],
        new_id: Callable[[], str],
        machine_table: Callable[[str, Run], dict[str, Any]],
        on_event: Callable[[Run, e.AnyEvent], None] | None = None,
        on_commit: Callable[[Sequence[Entry]], None] | None = None,
        before_load: Callable[[str], None] | None = None,
        before_child: Callable[[str, str], None] | None = None,
        fault_of: Callable[[Message], str] | None = None,
    ) -> None:
        self.journal, self.performer, self.clock = journal, performer, clock
        self.driver, self.alive, self.new_id = driver, alive, new_id
        self.machine_table = machine_table
        self.on_event, self.on_commit, self.before_load = on_event, on_commit, before_load
        self.fault_of, self.before_child = fault_of, before_child
        self.driven: dict[str, DrivenRun] = {}
        self.errands_only = False
        self._news: queue.SimpleQueue[tuple[str, News]] = queue.SimpleQueue()
        self._ears = selectors.DefaultSelector()
        self._wake_in, self._wake_out = os.pipe()
        os.set_blocking(self._wake_in, False)
        self._ears.register(self._wake_in, selectors.EVENT_READ)

    # ---- runs come and go ----

    def begin(self, event: e.RunBegan) -> Run:
        """A new top-level run."""
        fence = self.journal.acquire(event.run, self.driver, self.alive)
        batch = Batch(self.driven)
        batch.start(event, fence)
        self._commit(batch)
        return self.driven[event.run].run

    def adopt(self, run_id: str, waking: bool = True) -> Run:
        """Drive a run that exists, and its unfinished descendants; continue with what was in flight."""
        self._load(run_id)
        family = [run_id, *self._load_below(run_id)]
        if waking:
            batch = Batch(self.driven)
            for member in reversed(family):
                if not self._answered_by_mail(batch.run(member)):
                    batch.add(member, wake(batch.run(member), self.clock.now()))
            self._commit(batch)
        for member in family:
            self._go_on(self.driven[member].run)
        return self.driven[run_id].run

    def adopt_abandoned(self) -> None:
        """Runs below a run that has ended, which a kill kept from ending with it."""
        for status in ALIVE:
            for row in self.journal.rows(status=status):
                above = self.journal.row(row.parent) if row.parent else None
                if above is not None and above.status == "ended" and row.run not in self.driven:
                    with contextlib.suppress(AlreadyRunning):
                        self.adopt(row.run, waking=False)

    @property
    def ending(self) -> bool:
        """Whether a run that was given up has not ended yet."""
        return any(d.run.asked == "cancel" and d.run.status != "ended" for d in self.driven.values())

    def _answered_by_mail(self, run: Run) -> bool:
        """An answer that is already in the mailbox is applied before the resume itself."""
        return run.question is not None and any(
            settles(run, message.body, cancelling=False) for message in self.journal.mail(run.id)
        )

    def _load(self, run_id: str) -> None:
        if self.before_load:
            self.before_load(run_id)
        fence = self.journal.acquire(run_id, self.driver, self.alive)
        run, seq = load(self.journal, run_id)
        self.driven[run_id] = DrivenRun(run, seq, fence)

    def _load_below(self, run_id: str) -> list[str]:
        """Its child runs that have not ended: the one that it waits for, the interrupted ones, and those that were
        given up and not yet cancelled; each with its own."""
        below = list[str]()
        for status in ALIVE:
            for row in self.journal.rows(parent=run_id, status=status):
                self._load(row.run)
                below += [row.run, *self._load_below(row.run)]
        return below

    def _go_on(self, run: Run) -> None:
        if run.act is not None and not run.act.child:
            self._start(run, run.act)

    def release(self, run_id: str) -> None:
        for member in [m for m, d in self.driven.items() if m == run_id or d.run.began.root == run_id]:
            self.journal.release(member, self.driver)
            del self.driven[member]

    # ---- the loop ----

    def listen_to(self, source: Any, callback: Callable[[], None]) -> None:
        """Wake when this socket or pipe is readable."""
        self._ears.register(source, selectors.EVENT_READ, callback)

    def forget(self, source: Any) -> None:
        """Stop listening to it."""
        with contextlib.suppress(KeyError):
            self._ears.unregister(source)

    def run_errands(self, run_id: str) -> Run:
        """Apply what a person sent to a run that nothing drives (a rollback, a take-over); it does not continue."""
        self.errands_only = True
        self.adopt(run_id, waking=False)
        self.drive(lambda: run_id not in self.driven or self.driven[run_id].run.act is None)
        return self.driven[run_id].run if run_id in self.driven else load(self.journal, run_id)[0]

    def drive(
        self,
        done: Callable[[], bool],
        feed: Callable[[], bool] | None = None,
        until: Callable[[], int | None] | None = None,
    ) -> None:
        """Drive until `done` returns true; it is called whenever nothing is due. `feed` may then add work (True: it
        did), and is asked again at the instant that `until` names."""
        while True:
            self.take_mail()
            if self.tick():
                self._listen(0.0)  # signals are handled even if something is always due
                continue
            if done():
                return
            if feed is not None and feed():
                continue
            self._sleep(until() if until else None)

    def tick(self) -> bool:
        """Record and start everything that is due now, in one transaction. False: nothing was due."""
        batch = Batch(self.driven)
        self._take_news(batch)
        acts: list[tuple[str, e.Act]] = []
        for run_id in list(self.driven):
            act = self._advance(batch, run_id)
            if act:
                acts.append((run_id, act))
            if warnings := self._alerts(batch.run(run_id)):
                batch.add(run_id, warnings)
        if not self._commit(batch):
            return False
        for run_id, act in acts:
            if not act.child:
                self._start(self.driven[run_id].run, act)
        return True

    def _alerts(self, run: Run) -> list[e.Warned]:
        return [] if self.errands_only else due_alert(run, self.clock.now())

    def _advance(self, batch: Batch, run_id: str) -> e.Act | None:
        now = self.clock.now()
        match due(batch.run(run_id), now):
            case step if self.errands_only and not _is_errand(batch.run(run_id), step):
                pass
            case Note(events) if _by_window(events) and self._see_windows(batch, run_id, now):
                pass  # the run has changed since; asked again with the present state
            case Note(events):
                batch.add(run_id, events)
            case Do(act) if act.agent and self._see_windows(batch, run_id, now):
                pass  # asked again with what was recorded
            case Do(act):
                act = self._complete(batch, run_id, act)
                batch.add(run_id, [e.ActStarted(at=now, act=act)])
                return act
            case _:
                pass
        return None

    def _see_windows(self, batch: Batch, run_id: str, now: int) -> bool:
        """Record what all runs together have spent, if this run has a budget for it and the amount has changed."""
        run = batch.run(run_id)
        if not run.settings.budget.windows:
            return False
        since = max(run.spending.window_from, self._top(batch, run).spending.window_from)
        totals = windows(self.journal, now, since)
        if run.spending.window is not None and replace(run.spending.window, at=now) == totals:
            return False
        batch.add(run_id, [totals, *([] if run.began.parent else half_used(run, totals))])
        return True

    def _complete(self, batch: Batch, run_id: str, act: e.Act) -> e.Act:
        """What an act needs from outside its run: the script's place, the child's id."""
        run = batch.run(run_id)
        if act.do.startswith("run:"):
            act = replace(act, child=self.new_id())
            self._begin_child(batch, run, act)
        if act.do in ("commit", "land"):
            act = replace(act, head=self.journal.head(run_id)[1])
        if act.do.startswith("agent:"):
            act = replace(act, turn=self._top(batch, run).turns + 1)
        return self._placed(batch, run, act) if act.agent.startswith("script:") else act

    def _top(self, batch: Batch, run: Run) -> Run:
        return batch.run(run.began.root) if run.began.root in self.driven else run

    def _placed(self, batch: Batch, run: Run, act: e.Act) -> e.Act:
        """AGENT-7: finished turns of that file over the top-level run and its descendants."""
        turns = self._top(batch, run).talk.played
        of_role = turns.get(f"{act.agent}|{act.do.partition(':')[2]}", 0)
        of_file = sum(n for key, n in turns.items() if key.startswith(f"{act.agent}|"))
        return replace(act, place=of_role, place_in_file=of_file)

    def _begin_child(self, batch: Batch, parent: Run, act: e.Act) -> None:
        table = self.machine_table(act.role, parent)
        child = child_of(parent, act, table, self.clock.now())
        if child.owner and self.before_child:
            self.before_child(parent.id, child.run)
        batch.start(child, self.journal.acquire(act.child, self.driver, self.alive))
        notes = [e.Told(at=child.at, text=text, who="parent") for text in parent.talk.notes]
        batch.add(act.child, notes)

    def _take_news(self, batch: Batch) -> None:
        while True:
            try:
                run_id, news = self._news.get_nowait()
            except queue.Empty:
                return
            if run_id not in self.driven:
                continue
            run = batch.run(run_id)
            if run.act is None or run.act.key != news.key:
                continue
            now = self.clock.now()
            if isinstance(news, Interrupted):
                fact = e.ActInterrupted(
                    at=now,
                    key=news.key,
                    reason=news.reason,
                    kept=news.kept,
                    gone=news.gone,
                    session=news.session,
                )
                batch.add(run_id, [fact])
            else:
                batch.add(run_id, react(run, news, now))

    def _commit(self, batch: Batch) -> bool:
        writes = batch.writes()
        if not writes:
            return False
        entries = self.journal.append(writes)
        if self.on_commit:
            self.on_commit(entries)
        self.driven.update(batch.after())
        for changed in batch.changed.values():
            for event in changed.events:
                if self.on_event:
                    self.on_event(changed.run, event)
                if isinstance(event, e.Abandoned) and event.run in self.driven:
                    self._spread_asked(event.run)
            if changed.run.status == "ended":
                self._let_go(changed.run, any(isinstance(event, e.Ended) for event in changed.events))
        return True

    def _let_go(self, run: Run, ends: bool) -> None:
        """A child run that ends now needs no driver any more; one that had already ended is here to be landed."""
        if run.owner:
            self.performer.tidy(run)
        if ends and run.began.parent:
            self.journal.release(run.id, self.driver)
            del self.driven[run.id]

    def _start(self, run: Run, act: e.Act) -> None:
        def post(news: News) -> None:
            self._news.put((run.id, news))
            os.write(self._wake_out, b".")

        self.performer.start(run, act, post)

    def _sleep(self, until: int | None = None) -> None:
        self._listen(self._until_next(until))

    def _listen(self, timeout: float | None) -> None:
        for key, _ in self._ears.select(timeout):
            if key.data:
                key.data()
        with contextlib.suppress(BlockingIOError):
            os.read(self._wake_in, 65536)

    def _until_next(self, until: int | None = None) -> float | None:
        now = self.clock.now()
        rests = [due(driven.run, now) for driven in self.driven.values()]
        times = [rest.until for rest in rests if isinstance(rest, Rest) and rest.until is not None]
        if not self.errands_only:
            times += [at for driven in self.driven.values() if (at := next_alert_at(driven.run)) is not None]
        times += [until] if until is not None else []
        return min(SLEEP_MOST_S, max(0.0, (min(times) - now) / 1_000_000)) if times else None

    # ---- people ----

    def take_mail(self) -> None:
        messages = self.journal.mail_all(list(self.driven))
        for number, message in enumerate(messages, 1):
            if message.run not in self.driven:  # an earlier message ended it
                continue
            batch = Batch(self.driven)
            hearing = self._at_work(message.run) if for_who_works(message.body) else message.run
            batch.take(message.run, [message.id])
            facts = self._hear(batch.run(hearing), message, messages[number:], messages[: number - 1])
            if resumes(message.body) and not any(isinstance(fact, e.LetterRefused) for fact in facts):
                batch.wake(message.run, self.clock.now())
            else:
                batch.add(hearing, facts)
            batch.spread(message.run, self.clock.now())
            self._commit(batch)
            if message.run in self.driven:
                self._spread_asked(message.run)

    def _hear(
        self, run: Run, message: Message, later: Sequence[Message], earlier: Sequence[Message]
    ) -> list[e.AnyEvent]:
        """A message that is not a person's own is refused, as a fact (HUMAN-4), and so is an answer that its author
        has replaced since, and answers of two people that contradict each other (CTO-8)."""
        fault = self._fault(message)
        newer = [other for other in later if other.run == message.run and replaces(other.body, message.body)]
        if not fault and any(not self._fault(other) for other in newer):
            fault = "a later answer replaced it"
        fault = fault or self._contradicted(message, [*earlier, *later])
        above = self.driven.get(run.began.parent)
        if not fault and resumes(message.body) and above and above.run.child != run.id:
            fault = f"it is paused for other work; answer the question of run {run.began.parent}"
        if fault:
            return [e.LetterRefused(at=self.clock.now(), letter=message.id, reason=fault)]
        return hear(run, message.body, message.id, self.clock.now())

    def _contradicted(self, message: Message, others: Sequence[Message]) -> str:
        for at, other in enumerate(others):
            contradiction_ = contradiction(message.body, other.body)
            replaced = contradiction_ and any(replaces(newer.body, other.body) for newer in others[at + 1 :])
            if contradiction_ and not replaced and not self._fault(other):
                return contradiction_
        return ""

    def _fault(self, message: Message) -> str:
        return self.fault_of(message) if self.fault_of else ""

    def _at_work(self, run_id: str) -> str:
        while self.driven[run_id].run.child in self.driven:
            run_id = self.driven[run_id].run.child
        return run_id

    def ask(self, what: str) -> None:
        """A request from the terminal, for every run driven here: pause, stop or interrupt."""
        roots = [d.run for d in self.driven.values() if not d.run.began.parent and _goes_on(d.run)]
        for run_id in [run.id for run in roots if run.asked != what]:
            self._note(run_id, [e.Asked(at=self.clock.now(), what=what, who="terminal")])
            self._spread_asked(run_id)

    def give(self, run_id: str, trigger: e.Trigger, mailbox: str, messages: Sequence[int]) -> None:
        """A standing run takes a trigger, with the messages that it comes from."""
        batch = Batch(self.driven)
        batch.add(run_id, hear_trigger(Events(batch.run(run_id), self.clock.now()), trigger))
        batch.take(run_id, messages, mailbox)
        self._commit(batch)

    def hand_over(self, run_id: str, other: str) -> None:
        """A standing run takes the first plan that another one has parked."""
        batch, now = Batch(self.driven), self.clock.now()
        batch.add(run_id, hear_parked(Events(batch.run(run_id), now), batch.run(other).plan.parked[0]))
        batch.add(other, [e.TakenUp(at=now, what="parked", run=run_id)])
        self._commit(batch)

    def set_aside(self, run_id: str) -> None:
        """The child runs stop at the end of their turn, for more urgent work."""
        self._note(run_id, [e.Asked(at=self.clock.now(), what=SET_ASIDE, who="flyball")])
        self._spread_asked(run_id)

    def wake(self, run_id: str) -> None:
        """A run that should have been interrupted continues, and so do its child runs."""
        batch = Batch(self.driven)
        batch.wake(run_id, self.clock.now())
        self._commit(batch)

    def retire(self, run_id: str, why: str) -> None:
        """A standing run with nothing to do ends."""
        self._note(run_id, cancel(Events(self.driven[run_id].run, self.clock.now()), why))

    def report(self, run_id: str, texts: tuple[str, ...], grave: bool) -> None:
        """Mismatches that were found, for a standing run."""
        self._note(run_id, mismatched(self.driven[run_id].run, self.clock.now(), texts, grave))

    def stop_now(self) -> None:
        for driven in list(self.driven.values()):
            if driven.run.act is not None:
                self.performer.stop(driven.run.act.key, True)

    def _spread_asked(self, run_id: str) -> None:
        """A request to a run also applies to its child runs; a stop or cancel ends the act in flight."""
        batch = Batch(self.driven)
        batch.spread(run_id, self.clock.now())
        self._commit(batch)
        request = self.driven[run_id].run.asked if run_id in self.driven else ""
        while request in ("stop", "cancel") and run_id in self.driven:
            run = self.driven[run_id].run
            if run.act is not None and not run.act.child:
                self.performer.stop(run.act.key, True)
            run_id = run.child

    def _note(self, run_id: str, events: Sequence[e.AnyEvent]) -> None:
        batch = Batch(self.driven)
        batch.add(run_id, events)
        self._commit(batch)

    def close(self) -> None:
        for run_id in list(self.driven):
            self.journal.release(run_id, self.driver)
        self._ears.close()
        os.close(self._wake_in)
        os.close(self._wake_out)


def _is_errand(run: Run, step: Do | Note | Rest) -> bool:
    """Whether a person ordered this, so that it is done even if the run itself does not continue."""
    match step:
        case Do(act):
            return act.do == "restore" or run.status == "ended"
        case Note(events):
            last = events[-1]
            return isinstance(last, e.Stopped) and last.status == "paused"
        case Rest():
            return False


def _by_window(events: Sequence[e.AnyEvent]) -> bool:
    """Whether a run is about to stop because all runs together have spent too much."""
    stops = (event.stop for event in events if isinstance(event, e.Stopped))
    return any(stop.rule.startswith(("budget.day", "budget.week")) for stop in stops)


def _goes_on(run: Run) -> bool:
    """Whether it continues by itself, at once or after its wait; a run that is already stopped need not be stopped."""
    return run.status == "running" or (run.status == "waiting" and run.until is not None)


__all__ = ["BY_A_PERSON", "JournalError", "Performer", "Supervisor"]


# ---- performing acts -----------------------------------------------------------------------------------------


class ThreadPerformer:
    """Performs each act in a thread of its own and posts what came of it."""

    def __init__(self, run_files: RunFiles, show: Callable[[str, str], None] | None = None) -> None:
        self.run_files, self.show = run_files, show
        self._stops: dict[str, process.Stop] = {}

    def start(self, run: Run, act: e.Act, post: Callable[[News], None]) -> None:
        stop = process.Stop()
        self._stops[act.key] = stop
        threading.Thread(target=self._do, args=(run, act, stop, post), name=act.key, daemon=True).start()

    def stop(self, key: str, now: bool) -> None:
        stop = self._stops.get(key)
        if stop:
            with contextlib.suppress(OSError):  # it has just ended
                stop.set(now)

    def tidy(self, run: Run) -> None:
        """A run has ended: its checkout is removed, unless something in it would be lost."""
        folder = self.run_files.run_dir(run)
        with contextlib.suppress(OSError):
            certificate.settle(folder, run.checkout.certificate)
        self._tidy(folder)

    def sweep(self, ended: Callable[[str], bool]) -> None:
        """Remove what a kill between a run's end and its cleanup left; a checkout that was kept once is left alone."""
        for folder in self.run_files.dirs.runs():
            is_left = folder.checkout.exists() and not folder.why_kept.exists()
            if (is_left or folder.proof.exists()) and ended(folder.path.name):
                self._tidy(folder)

    def _tidy(self, folder: RunDir) -> None:
        with contextlib.suppress(FlyballError, OSError):
            work = Workspace.open(folder.path)
            try:
                why = work.close(remove_checkout=not folder.why_kept.exists())
            except FlyballError as problem:
                why = str(problem)
            if why:
                folder.why_kept.write_text(why, "utf-8")

    def _do(self, run: Run, act: e.Act, stop: process.Stop, post: Callable[[News], None]) -> None:
        try:
            news = self._perform(run, act, stop)
            news = whole_text(news) if isinstance(news, Finished) else news
        except SetupStopped as stopped:
            news = Interrupted(act.key, str(stopped))
        except Gone as problem:
            news = Interrupted(act.key, str(problem), gone=True)
        except (
            TooDeep
        ) as problem:  # removed when the checkout is restored; an agent that does it again will not stop
            news = Interrupted(act.key, str(problem), gone=run.tries.interruptions > 0)
        except FlyballError as problem:
            news = Interrupted(act.key, whole(str(problem)))
        except Exception as problem:  # whatever it is: the loop must know, and it is not the agent's fault
            news = Interrupted(act.key, whole(f"{type(problem).__name__}: {problem}"))
        self._stops.pop(act.key, None)
        stop.close()
        post(news)

    def _perform(self, run: Run, act: e.Act, stop: process.Stop) -> News:
        match act.do.partition(":")[0]:
            case "agent":
                return take_turn(self.run_files, run, act, stop, self._shower(run))
            case "proof":
                return prove(self.run_files, run, act, stop)
            case "commit":
                return commit(self.run_files, run, act, stop)
            case "land":
                return land(self.run_files, run, act, stop)
            case "prepare":
                return prepare(self.run_files, run, act, stop)
            case "restore":
                return restore(self.run_files, run, act)
            case _:
                return Finished(key=act.key, result=check(self.run_files, run))

    def _shower(self, run: Run) -> Callable[[str], None]:
        show = self.show
        return (lambda text: show(run.id, text)) if show else (lambda _text: None)
