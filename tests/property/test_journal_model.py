"""Two processes on one SQLite journal are, call by call, the in-memory journal: results, refusals and sentences.

Runs are begun, leased, taken over and fenced, appended to rightly and wrongly, written messages, snapshotted, asked
for, pruned, and the file is closed and opened in between.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from flyball.errors import FlyballError
from flyball.journal import Checkpoint, Draft, Journal, Row, Write
from flyball.journal.memory import MemoryJournal
from flyball.journal.sqlite import SqliteJournal

RUNS = st.sampled_from(["a", "b", "ab"])
HANDS = st.sampled_from([0, 1])  # which of the two processes; each is one driver
STATES = st.sampled_from(["", "work", "look"])
STATUSES = st.sampled_from(["running", "running", "waiting", "ended"])
NUMBERS = st.integers(0, 3)
MAYBE = st.sampled_from([None, None, "a", "work", "running", "build", ""])


@st.composite
def rows(draw: st.DrawFn, run: str) -> Row:
    return Row(
        run=run,
        root=draw(RUNS),
        parent=draw(st.sampled_from(["", "a"])),
        repo=draw(st.sampled_from(["/x", "/y"])),
        machine=draw(st.sampled_from(["build", "task"])),
        state=draw(STATES),
        status=draw(STATUSES),
        question=draw(st.sampled_from(["", "q"])),
        failures=draw(NUMBERS),
        created_at=draw(NUMBERS),
        updated_at=draw(NUMBERS),
        alert_at=draw(NUMBERS),
    )


class Planned:
    """A write as it is drawn, before it is known where the run stands."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.run = draw(RUNS)
        self.off = draw(st.sampled_from([0] * 8 + [-1, 1]))
        self.fence = draw(st.sampled_from([0] * 8 + [-1, 1]))
        self.bodies = draw(st.lists(st.binary(max_size=6), max_size=3))
        self.messages = draw(st.lists(st.integers(1, 6), max_size=2)) if draw(st.booleans()) else []
        self.mine = draw(st.booleans())  # messages of this run that wait, rather than those drawn
        self.row = draw(rows(self.run if draw(st.integers(0, 15)) else "b"))
        self.snapshot = draw(st.sampled_from([b"", b"", b"one", b"two"]))

    def __repr__(self) -> str:
        return f"Planned({vars(self)})"

    def write(self, model: MemoryJournal, fence: int, gone: int) -> Write:
        seq = model.head(self.run)[0] + gone
        waiting = [message.id for message in model.mail(self.run)][:1]
        drafts = tuple(Draft(seq + n, f"k{len(body)}", body) for n, body in enumerate(self.bodies))
        messages = tuple(waiting if self.mine else self.messages)
        return Write(
            self.run, seq + self.off, drafts, self.row, fence + self.fence, messages, self.snapshot, "r1"
        )


planned = st.composite(lambda draw: Planned(draw))


def outcome(call: Callable[[], Any]) -> Any:
    """What comes of a call: its value, or whose fault it is and the sentence."""
    try:
        return call()
    except FlyballError as error:
        return type(error), str(error)


class Journals(RuleBasedStateMachine):
    """`model` says what must come of everything that is done to the file."""

    @initialize()
    def begin(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.model = MemoryJournal()
        self.fences: list[dict[str, int]] = [{}, {}]  # the leases that each process believes to hold
        self.marks: list[Checkpoint] = []
        self.hands = [self.opened(), self.opened()]

    def opened(self) -> SqliteJournal:
        journal = SqliteJournal(Path(self.folder.name) / "journal.db")
        journal._database.ask("PRAGMA synchronous = OFF")  # durability is not what is compared
        return journal

    def teardown(self) -> None:
        for hand in getattr(self, "hands", []):
            hand.close()
        if hasattr(self, "folder"):
            self.folder.cleanup()

    def same(self, hand: int, call: Callable[[Journal], Any]) -> Any:
        expected, found = outcome(lambda: call(self.model)), outcome(lambda: call(self.hands[hand]))
        assert found == expected
        return expected

    # ---- leases

    @rule(hand=HANDS, run=RUNS, alive=st.booleans())
    def acquire(self, hand: int, run: str, alive: bool) -> None:
        fence = self.same(hand, lambda journal: journal.acquire(run, f"d{hand}", lambda _: alive))
        if isinstance(fence, int):
            self.fences[hand][run] = fence

    @rule(hand=HANDS, run=RUNS, other=st.booleans())
    def release(self, hand: int, run: str, other: bool) -> None:
        self.same(hand, lambda journal: journal.release(run, "d2" if other else f"d{hand}"))

    # ---- writing

    @rule(hand=HANDS, plans=st.lists(planned(), min_size=1, max_size=3))
    def append(self, hand: int, plans: list[Planned]) -> None:
        gone: dict[str, int] = {}
        writes: list[Write] = []
        for plan in plans:
            writes.append(plan.write(self.model, self.fences[hand].get(plan.run, 0), gone.get(plan.run, 0)))
            gone[plan.run] = gone.get(plan.run, 0) + len(plan.bodies)
        self.same(hand, lambda journal: journal.append(writes))

    @rule(hand=HANDS, plan=planned())
    def begin_and_end(self, hand: int, plan: Planned) -> None:
        """The usual life, so that there is something to prune."""
        fence = self.same(hand, lambda journal: journal.acquire(plan.run, f"d{hand}", lambda _: False))
        self.fences[hand][plan.run] = fence
        seq = self.model.head(plan.run)[0]
        last = (Draft(seq, "last", b""),)
        row = Row(run=plan.run, status="ended", state=plan.row.state, created_at=seq)
        self.same(hand, lambda journal: journal.append([Write(plan.run, seq, last, row, fence)]))

    @rule(hand=HANDS, run=RUNS, body=st.binary(max_size=4))
    def post(self, hand: int, run: str, body: bytes) -> None:
        self.same(hand, lambda journal: journal.post(run, 7, body))

    @rule(hand=HANDS, run=RUNS, at=NUMBERS)
    def prune(self, hand: int, run: str, at: int) -> None:
        self.same(hand, lambda journal: journal.prune(run, at))

    @rule(hand=HANDS)
    def reopen(self, hand: int) -> None:
        self.hands[hand].close()
        self.hands[hand] = self.opened()

    @rule(run=RUNS)
    def mark(self, run: str) -> None:
        seq, head = self.model.head(run)
        if seq:
            self.marks.append(Checkpoint(run, seq, head, 1))
        if self.model.registry_head()[0]:
            self.marks.append(Checkpoint("", *self.model.registry_head(), 1))

    # ---- reading

    @rule(hand=HANDS, run=RUNS, after=st.integers(0, 4))
    def read(self, hand: int, run: str, after: int) -> None:
        self.same(hand, lambda journal: list(journal.read(run, after)))
        self.same(hand, lambda journal: journal.hash_at(run, after))
        self.same(hand, lambda journal: journal.latest_snapshot(run))
        self.same(hand, lambda journal: journal.resolve(run[:after]))

    @rule(hand=HANDS, asked=st.tuples(*[MAYBE] * 6), late=st.none() | NUMBERS, failed=st.none() | NUMBERS)
    def rows(self, hand: int, asked: tuple[str | None, ...], late: int | None, failed: int | None) -> None:
        names = ("repo", "status", "state", "machine", "root", "parent")
        words: dict[str, Any] = dict(zip(names, asked, strict=True))
        self.same(hand, lambda journal: journal.rows(**words, late_at=late, failures=failed))
        self.same(hand, lambda journal: journal.rows(late_at=late, open_question=True, limit=failed))
        self.same(hand, lambda journal: journal.tally(machine=words["machine"]))

    @invariant()
    def everything_is_the_same(self) -> None:
        if not hasattr(self, "hands"):
            return
        for run in ("a", "b", "ab"):
            for look in ("head", "row", "holder", "mail"):
                self.same(0, lambda journal, look=look, run=run: getattr(journal, look)(run))
        self.same(1, lambda journal: (list(journal.registered()), journal.registry_head()))
        self.same(0, lambda journal: journal.mail_all(["ab", "a"]))
        assert self.hands[1].faults(self.marks) == self.model.faults(self.marks) == []


Journals.TestCase.settings = settings(
    max_examples=60, stateful_step_count=25, deadline=None, derandomize=True, database=None
)
TestJournals = Journals.TestCase
