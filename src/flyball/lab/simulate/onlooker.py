"""Watches every event as it becomes durable and says which law it breaks. It keeps its own counts.

It folds the bytes of the journal itself; the run that a driver holds must be equal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from msgspec import Struct

from flyball.domain import events as e
from flyball.journal import Entry
from flyball.lab.prove import laws
from flyball.lab.prove.after_end import may_follow_end
from flyball.lab.prove.observed import Observation
from flyball.lab.prove.premises import Premise, origins
from flyball.lab.prove.witness import Witness, after_event, first
from flyball.lab.simulate.counts import Breach, Family
from flyball.lab.simulate.trees import Trees
from flyball.state.fold import apply, begin
from flyball.state.run import Run

TELLER = "berta"  # listeners that report each thing once
WAITED = "the wait is over"
PINNED = ("machine", "settings", "began")
REST = tuple(name for name in Run.__struct_fields__ if name not in PINNED)


class Line(Struct, frozen=True):
    """One line of a trace: an event of a run, or something that happened in the world."""

    true: int
    run: str = ""
    event: e.AnyEvent | None = None
    says: str = ""


class WatchedRun(Struct):
    """A run as its journal adds up to, and what else is known about it."""

    run: Run
    premise: Premise
    witness: Witness
    seq: int = 0
    head: str = ""
    answered: frozenset[str] = frozenset()
    started: str = ""
    finished: frozenset[str] = frozenset()


Listener = Callable[[Run, e.AnyEvent, Run], None]


class Onlooker:
    def __init__(self, trees: Trees, now: Callable[[], int], listener: Listener) -> None:
        self.trees, self.now, self.listener = trees, now, listener
        self.runs: dict[str, WatchedRun] = {}
        self.lines: list[Line] = []
        self.events = 0
        self.family = Family()
        self.changed: dict[str, None] = {}
        self.denied: set[str] = set()  # trees that the guard refused and nobody approved
        self.unsure: set[str] = set()  # trees that the guard asks about
        self.messages: set[str] = set()  # messages from people

    def note(self, says: str) -> None:
        self.lines.append(Line(self.now(), says=says))

    def see(self, entries: Iterable[Entry]) -> None:
        """A transaction is durable."""
        runs: dict[str, None] = {}
        for entry in entries:
            self._see(entry)
            runs[entry.run] = None
        for run_id in runs:
            self._costs_add_up(run_id)

    def _see(self, entry: Entry) -> None:
        event = e.decode(entry.body)
        self.lines.append(Line(self.now(), entry.run, event))
        self.events += 1
        if e.encode(event) != entry.body:
            raise Breach(
                "SYS-3", f"event {entry.seq} of {entry.run} has other bytes when it is written again"
            )
        record = self.runs.get(entry.run)
        if record is None:
            self._begins(entry, event)
            return
        if entry.seq != record.seq + 1:
            raise Breach("SYS-4", f"event {entry.seq} of {entry.run} follows event {record.seq}")
        before = record.run
        record.run, record.seq, record.head = apply(before, event), entry.seq, entry.hash
        self.changed[entry.run] = None
        self.family.add_event(before, event)
        for check in _CHECKS.get(type(event), ()):
            check(self, record, before, event)
        self._hold_against_the_laws(record, before, event)
        self._always(record, before, event)
        self.listener(before, event, record.run)

    def _begins(self, entry: Entry, event: e.AnyEvent) -> None:
        if not isinstance(event, e.RunBegan) or entry.seq != 1:
            raise Breach("SYS-4", f"{entry.run} begins with event {entry.seq}, {entry.kind}")
        run = begin(event)
        premise = Premise(
            name="a world",
            machine=run.machine,
            settings=event.settings,
            options=event.options,
            start=event.start,
            owner=event.owner,
            origins=origins(run.machine),
        )
        self.runs[entry.run] = WatchedRun(run, premise, first(run, premise), 1, entry.hash)
        self.family.begins(event)
        self.changed[entry.run] = None
        self.listener(run, event, run)

    # ---- after every fact ----

    def _hold_against_the_laws(self, record: WatchedRun, before: Run, event: e.AnyEvent) -> None:
        """Check the laws that `prove` checks, with its witness."""
        truth = event.result if isinstance(event, e.ActFinished) else None
        was, record.witness = (
            record.witness,
            after_event(record.witness, before, event, truth, record.premise),
        )
        breach = laws.broken(Observation(record.premise, before, event, record.run, was, record.witness))
        if breach:
            raise Breach(breach[0], f"{record.run.id}: {breach[1]}")

    def _always(self, record: WatchedRun, before: Run, event: e.AnyEvent) -> None:
        run = record.run
        if before.status == "ended" and not may_follow_end(before, event):
            raise Breach("HUMAN-3", f"{run.id} has ended, then {e.kind(event)}")
        if run.tree in self.denied and run.tree != before.tree:
            raise Breach("ALO-9", f"{run.id} takes the refused tree {run.tree} for its own")
        turn_ended = isinstance(event, e.ActFinished) and isinstance(event.result, e.TurnEnded)
        if run.turn != before.turn and not turn_ended:
            raise Breach("LOOP-5", f"{e.kind(event)} costs {run.id} a turn")

    def _costs_add_up(self, run_id: str) -> None:
        run = self.runs[run_id].run
        usage, took = self.family.spent(run_id), self.family.took(run_id)
        if (run.spent, run.spending.wall_us) != (usage, took):
            raise Breach(
                "GUARD-4", f"{run_id} has {run.spent} and {run.spending.wall_us}; below it {usage} and {took}"
            )

    # ---- what a driver holds ----

    def compare(self, driven: dict[str, Run]) -> None:
        """fold(journal) == the live run, for each run that changed."""
        changed, self.changed = self.changed, {}
        for run_id in changed:
            if run_id in driven:
                require_same(
                    self.runs[run_id].run, driven[run_id], PINNED if self.runs[run_id].seq < 4 else ()
                )

    def unfinished(self) -> list[Run]:
        return [w.run for w in self.runs.values() if w.run.status != "ended"]


def require_same(journaled: Run, live: Run, more: Iterable[str] = ()) -> None:
    for name in (*REST, *more):
        mine, theirs = getattr(journaled, name), getattr(live, name)
        if mine != theirs:
            says = f"'{name}' of {live.id} is {theirs!r} in memory and {mine!r} by its journal"
            raise Breach("SYS-3", says)


# ---- by kind of fact ---------------------------------------------------------------------------------------------------


def _moved(onlooker: Onlooker, record: WatchedRun, before: Run, event: e.Moved) -> None:
    end = before.machine.states[event.target].end
    if before.tree in onlooker.unsure and end != "failure" and not before.restore:
        raise Breach(
            "ALO-1", f"{before.id} follows '{event.outcome}' though the guard asks about {before.tree}"
        )
    if end == "success" and before.owner:
        _gate(onlooker, before)


def _gate(onlooker: Onlooker, run: Run) -> None:
    trees, there = onlooker.trees, onlooker.trees.checkout.get(run.id)
    if there != run.tree:
        raise Breach("SYS-8", f"{run.id} succeeds with {run.tree}, but {there} is in the checkout")
    if run.settings.proof and run.tree not in trees.proved:
        raise Breach("SYS-8", f"{run.id} succeeds, but no proof of {run.tree} ever passed")
    if run.tree in trees.doubted - trees.accepted:
        raise Breach("EVID-3", f"{run.id} succeeds, but nobody said yes to the doubts about {run.tree}")
    if (run.id, run.tree) not in trees.committed:
        raise Breach("SYS-8", f"{run.id} succeeds, but {run.tree} was not committed")
    if run.settings.commit in ("merge", "pr") and (run.id, run.tree) not in trees.landed:
        raise Breach("SYS-8", f"{run.id} succeeds, but {run.tree} has not landed")


def _started(onlooker: Onlooker, record: WatchedRun, before: Run, event: e.ActStarted) -> None:
    key = event.act.key
    if key in record.finished or key == record.started or before.act is not None:
        raise Breach("SYS-5", f"{key} is started again, or over another act")
    record.started = key
    if event.act.do.startswith(("agent:", "run:")):
        onlooker.family.covered(lambda name: onlooker.runs[name].run, before)


def _finished(onlooker: Onlooker, record: WatchedRun, before: Run, event: e.ActFinished) -> None:
    if before.act is None or event.key != before.act.key or event.key in record.finished:
        raise Breach("SYS-5", f"{event.key} is finished twice, or was never started")
    record.finished |= {event.key}
    if isinstance(event.result, e.Restored):
        by_a_person = before.act.why in ("approved", "hand-back", "rollback")
        onlooker.unsure -= {event.result.tree} if by_a_person else set()
        onlooker.denied -= (
            {event.result.tree}
            if before.act.why == "rollback" and _stood(onlooker, before, event.result)
            else set()
        )


def _stood(onlooker: Onlooker, run: Run, back: e.Restored) -> bool:
    return back.tree in onlooker.trees.left.get(run.began.root or run.id, ())


def _interrupted(onlooker: Onlooker, record: WatchedRun, before: Run, event: e.ActInterrupted) -> None:
    if before.act is None or event.key != before.act.key:
        raise Breach("SYS-5", f"{event.key} is interrupted, but was not in flight")
    record.finished |= {event.key}


def _ruled(onlooker: Onlooker, record: WatchedRun, before: Run, event: e.Ruled) -> None:
    ruling = event.ruling
    if ruling.diff in before.evidence.waivers:
        return
    if ruling.verdict == "deny" and ruling.tree != before.tree:
        onlooker.denied |= {ruling.tree}
    if ruling.verdict == "ask":
        onlooker.unsure |= {ruling.tree}


def _answered(onlooker: Onlooker, record: WatchedRun, before: Run, event: e.Answered) -> None:
    question = before.question
    if question is None or question.id != event.question or event.question in record.answered:
        raise Breach("HUMAN-2", f"question {event.question} is answered again, or was not open")
    if event.verb not in question.verbs:
        raise Breach("HUMAN-2", f"question {event.question} is answered with '{event.verb}'")
    record.answered |= {event.question}
    if event.verb in ("approve", "go-on", "grant") and question.kind in ("approval", "block"):
        ruled = {before.evidence.ruling.tree} if before.evidence.ruling else set[str]()
        onlooker.denied -= ruled
        onlooker.unsure -= ruled
    if event.verb == "approve" and question.kind == "evidence":
        onlooker.trees.accepted.add(before.tree)


def _stopped(onlooker: Onlooker, record: WatchedRun, before: Run, event: e.Stopped) -> None:
    asks, waits = event.question is not None, event.until is not None
    if event.status in ("waiting", "blocked") and not asks and not waits:
        raise Breach("SYS-1", f"{before.id} waits for nothing: {event.stop.code}")


def _resumed(onlooker: Onlooker, record: WatchedRun, before: Run, event: e.Resumed) -> None:
    early = event.why == WAITED and before.until is not None and event.at < before.until
    if early:
        raise Breach("LOOP-5", f"{before.id} goes on before its wait is over")


def _told(onlooker: Onlooker, record: WatchedRun, before: Run, event: e.Told) -> None:
    if event.who != TELLER:
        return
    if event.text in onlooker.messages:
        raise Breach("PAIR-4", f"'{event.text}' is delivered to {before.id} though it was delivered before")
    onlooker.messages |= {event.text}


_CHECKS: dict[type[Any], tuple[Callable[..., None], ...]] = {
    e.Moved: (_moved,),
    e.ActStarted: (_started,),
    e.ActFinished: (_finished,),
    e.ActInterrupted: (_interrupted,),
    e.Ruled: (_ruled,),
    e.Answered: (_answered,),
    e.Stopped: (_stopped,),
    e.Resumed: (_resumed,),
    e.Told: (_told,),
}
__all__ = ["Breach", "Line", "Onlooker", "WatchedRun", "require_same"]
