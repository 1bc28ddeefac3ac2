"""A simulation is worth what it finds: each deliberate break must be found by a seed, and named by its law.

These are breaks of the shell (the driver, the journal, the mail) and of rules that only a hostile world shows. Each
has a seed that is known to find it; the unbroken code holds on the same seed. Where the rules have changed since, so
that the seed does something else, the next ones are tried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from typing import Any

import pytest
from msgspec.structs import replace

from flyball.core import decide, mail, transition as onwards, turns
from flyball.core.decide import Note
from flyball.core.family import Family
from flyball.domain import events as e, messages
from flyball.journal.database import Database
from flyball.journal.memory import MemoryJournal
from flyball.journal.records import Batch
from flyball.lab.simulate.campaign import simulate
from flyball.runtime import supervisor
from flyball.runtime.supervisor import Supervisor
from flyball.state import fold as runs, tally
from flyball.state.fold import Events
from flyball.state.run import Restore, Run, without

Places = Mapping[tuple[Any, Any], Any]
TRIED = 150  # so many seeds at most, where the known one no longer finds it


@contextmanager
def broken(places: Places) -> Iterator[None]:
    """For a while other rules stand in these places."""
    kept = {place: _get(*place) for place in places}
    try:
        for place, rule in places.items():
            _put(*place, rule)
        yield
    finally:
        for place, rule in kept.items():
            _put(*place, rule)


def _get(where: Any, name: Any) -> Any:
    return where._APPLY[name] if isinstance(name, type) else getattr(where, name)


def _put(where: Any, name: Any, rule: Any) -> None:
    if isinstance(name, type):  # how a kind of fact is folded
        where._APPLY[name] = rule
    else:
        setattr(where, name, rule)


# ---- the driver --------------------------------------------------------------------------------------------------

advance, load = Supervisor._advance, supervisor.load


def _begins_before_it_is_written(self: Supervisor, batch: Batch, run_id: str) -> e.Act | None:
    act = advance(self, batch, run_id)
    if act is not None and not act.child:
        self._start(batch.run(run_id), act)
    return act


def _forgets_what_was_spent(journal: Any, run_id: str) -> tuple[Run, int]:
    run, seq = load(journal, run_id)
    return replace(run, spent=e.Usage()), seq


def _loses_an_event(journal: Any, run_id: str) -> tuple[Run, int]:
    run = None
    entries = list(journal.read(run_id))
    for entry in entries[:-1] or entries:
        run = runs.fold(run, [e.decode(entry.body)])
    assert run is not None
    return run, entries[-1].seq


def _runs_in_doubt_again(self: Supervisor, run: Run) -> None:
    """What was in flight is begun anew, whatever became of it."""
    if run.act is not None and not run.act.child and run.status != "ended":
        again = replace(run.act, key=f"{run.act.key}'")
        self._note(run.id, [e.ActStarted(at=self.clock.now(), act=again)])
        self._start(self.driven[run.id].run, again)


# ---- the journal and the mail --------------------------------------------------------------------------------------

ask, check, acquire = Database.ask, MemoryJournal._check, MemoryJournal.acquire
journal_apply = MemoryJournal._apply


def _syncs_nothing(self: Database, sql: str, *rest: Any) -> Any:
    return ask(self, sql.replace("synchronous = FULL", "synchronous = OFF"), *rest)


def _fences_nobody(self: MemoryJournal, write: Any, heads: Any, gone: Any) -> None:
    lease = self._leases.get(write.run)
    check(self, replace(write, fence=lease.fence) if lease else write, heads, gone)


def _keeps_the_mail(self: MemoryJournal, write: Any, entries: Any) -> None:
    journal_apply(self, replace(write, messages=()), entries)


def _anybody_drives(self: MemoryJournal, run: str, driver: str, alive: Any) -> int:
    return acquire(self, run, driver, lambda name: False)


# ---- transactions --------------------------------------------------------------------------------------------------


def _nothing(self: Family, *_: Any) -> None:
    """It is left out."""


# ---- rules that only a hostile world shows -------------------------------------------------------------------------

act_of, resting, interrupted = decide._act, decide._resting, runs._APPLY[e.ActInterrupted]
stopped_by, answered = turns.stopped_by, runs._APPLY[e.Answered]
finished = runs._APPLY[e.ActFinished]


def _burns_a_turn(run: Run, turn: e.TurnEnded) -> bool:
    return False


def _wakes_at_once(run: Run, now: int) -> Any:
    if run.until is None or run.act is not None or run.here.act == "ask":
        return resting(run, now)
    return Note(Events(run, now).add(e.Resumed(at=now, why="the wait is over")))


def _key_again(run: Run, do: str, **more: Any) -> e.Act:
    return replace(act_of(run, do, **more), key=f"{run.id}-{max(run.acts, 1)}")


def _costs_a_turn(run: Run, event: e.ActInterrupted) -> Run:
    return replace(interrupted(run, event), turn=run.turn + 1)


def _leaves_the_half_made(run: Run, event: e.ActInterrupted) -> Run:
    after = interrupted(run, event)
    return replace(after, agenda=without(after.agenda, Restore))


def _never_gives_up(run: Run, event: e.ActInterrupted) -> Run:
    after = interrupted(run, event)
    return replace(after, tries=replace(after.tries, interruptions=0))


def _asks_nothing(facts: Events, act: e.Act, turn: e.TurnEnded, ruling: e.Ruling | None) -> Any:
    return stopped_by(facts, act, turn, None if ruling and ruling.verdict == "ask" else ruling)


def _takes_any_answer(run: Run, message: messages.Answer) -> str:
    return ""


def _renews_nothing(run: Run, event: e.Answered) -> Run:
    after = answered(run, event)
    kept = {"interruptions": run.tries.interruptions, "retries": run.tries.retries}
    return replace(after, tries=replace(after.tries, **kept))


def _keeps_every_grant(run: Run, event: e.ActFinished) -> Run:
    after = finished(run, event)
    return replace(after, evidence=replace(after.evidence, grants=run.evidence.grants))


BREAKS: list[
    tuple[str, Callable[[], Places], str, int]
] = [  # what, where, the law that finds it, by which seed
    (
        "an act is begun before its start is written",
        lambda: {(Supervisor, "_advance"): _begins_before_it_is_written},
        "SYS-4",
        1,
    ),
    (
        "a resumed run forgets what it spent",
        lambda: {(supervisor, "load"): _forgets_what_was_spent},
        "SYS-3",
        3,
    ),
    ("a resumed run misses its last event", lambda: {(supervisor, "load"): _loses_an_event}, "SYS-3", 5),
    (
        "an act in doubt is simply begun again",
        lambda: {(Supervisor, "_go_on"): _runs_in_doubt_again},
        "SYS-5",
        1,
    ),
    ("an acknowledged append is not synced", lambda: {(Database, "ask"): _syncs_nothing}, "PROOF-4", 24),
    ("a lease is not fenced", lambda: {(MemoryJournal, "_check"): _fences_nobody}, "SYS-15", 76),
    ("two drivers may drive a run", lambda: {(MemoryJournal, "acquire"): _anybody_drives}, "SYS-15", 5),
    ("a message is delivered twice", lambda: {(MemoryJournal, "_apply"): _keeps_the_mail}, "PAIR-4", 3),
    ("a cost is not charged to the run above", lambda: {(Family, "_charge"): _nothing}, "GUARD-4", 4),
    ("a child's end is not its parent's news", lambda: {(Family, "_end"): _nothing}, "SYS-1", 4),
    ("a limit burns a turn", lambda: {(tally, "costs_nothing"): _burns_a_turn}, "LOOP-5", 8),
    ("a wait ends too early", lambda: {(decide, "_resting"): _wakes_at_once}, "LOOP-5", 8),
    ("a key is used twice", lambda: {(decide, "_act"): _key_again}, "SYS-5", 1),
    ("an interruption costs a turn", lambda: {(runs, e.ActInterrupted): _costs_a_turn}, "SYS-5", 3),
    ("a half-made change is left", lambda: {(runs, e.ActInterrupted): _leaves_the_half_made}, "SYS-5", 17),
    ("interruptions never ask", lambda: {(runs, e.ActInterrupted): _never_gives_up}, "SYS-5", 98),
    ("the guard's question is not heard", lambda: {(turns, "stopped_by"): _asks_nothing}, "ALO-1", 24),
    (
        "an answer is taken twice, or a wrong one",
        lambda: {(mail, "_unanswerable"): _takes_any_answer},
        "HUMAN-2",
        3,
    ),
    ("an answer renews nothing", lambda: {(runs, e.Answered): _renews_nothing}, "HUMAN-2", 321),
    ("a grant for once stays", lambda: {(runs, e.ActFinished): _keeps_every_grant}, "GUARD-2", 277),
    ("no budget stops a turn", lambda: {(decide, "spent_up"): lambda run: None}, "GUARD-4", 24),
    (
        "nobody proves at the gate",
        lambda: {(onwards, "unproved"): lambda run: False, (onwards, "disproved"): lambda run: False},
        "SYS-8",
        3,
    ),
]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("what", "places", "law", "seed"), BREAKS, ids=[row[0] for row in BREAKS])
def test_a_break_is_found_by_its_law(what: str, places: Callable[[], Places], law: str, seed: int) -> None:
    with broken(places()):
        found = next((s for s in chain([seed], range(1, TRIED)) if _law(s) == law), None)
    assert found is not None, f"no seed finds that {what}"
    assert simulate([found]).good


def _law(seed: int) -> str:
    failed = simulate([seed]).failed
    return failed[0].law if failed else ""
