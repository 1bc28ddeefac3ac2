"""Every write and every sync of a run fails in every way: what was acknowledged is still there, or the journal is
refused.

A point is one operation of the disk and one fault. The story is written until the disk fails; then a new driver with a
healthy disk (after a power cut, if that is the fault) reads, folds and continues. The result is good if the
journal holds
a prefix of the story with everything that was acknowledged; if the disk lost data that it had claimed to keep,
a shorter
prefix or a refusal is good too.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import count
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from flyball.errors import JournalError
from flyball.journal import Entry
from flyball.journal.sqlite import SqliteJournal
from flyball.lab.faulty_disk import FAULTS, DiskFault, FaultyDisk
from flyball.lab.selftest.story import RUN, Story, folded, row_at, story
from flyball.state.fold import thaw

CHECKPOINT_PAGES = 48  # often enough that the main file is written too
ON = 3  # steps with which a new driver continues
WHOLE = 16  # at one in this many points it continues to the end


class FailedDriver(Struct):
    """What a driver knows when its disk has failed: what was acknowledged, and the error message."""

    acknowledged: int = 0  # events
    posted: int = 0  # messages
    error: str = ""


class SweepResult(Struct):
    """What was tried, and the results. A sweep passes if `wrong` is empty."""

    events: int = 0
    deeds: dict[str, int] = field(default_factory=dict[str, int])
    points: int = 0
    by_fault: dict[str, int] = field(default_factory=dict[str, int])
    kept: int = 0  # points after which everything acknowledged was still there
    shorter: int = 0  # the disk lost data, and a prefix is left
    refused: int = 0  # the disk lost data, and the journal reports it
    unharmed: int = 0  # of those kept: the fault had no effect
    wrong: list[str] = field(default_factory=list[str])

    @property
    def good(self) -> bool:
        return not self.wrong and self.points == self.kept + self.shorter + self.refused


class Bench:
    """One folder, one disk, one story; each trial starts with an empty folder."""

    def __init__(self, folder: Path, source: Story | None = None) -> None:
        self.story = source or story()
        self.path = folder / "journal.db"
        self.disk = FaultyDisk(f"faulty-{next(_names)}")

    def close(self) -> None:
        self._clear()
        self.disk.unregister()

    def _clear(self) -> None:
        for name in ("", "-wal", "-shm"):
            Path(f"{self.path}{name}").unlink(missing_ok=True)

    # ---- one trial

    def undisturbed(self) -> list[str]:
        """The operations when nothing fails: `write`, `sync` or `truncate`, in order."""
        self._clear()
        self.disk.begin(DiskFault())
        lived = self._live()
        assert (lived.error, lived.acknowledged) == ("", len(self.story.entries)), lived
        return list(self.disk.operations)

    def trial(self, trouble: DiskFault, whole: bool = False) -> tuple[str, str]:
        """("kept" | "unharmed" | "shorter" | "refused" | "wrong", why)."""
        self._clear()
        self.disk.begin(trouble)
        lived = self._live()
        if lived.error and not self._is_a_sentence(lived.error, trouble):
            return "wrong", f"it said: {lived.error}"
        if trouble.kind in ("tear", "lose"):
            self.disk.power_cut()
            Path(f"{self.path}-shm").unlink(
                missing_ok=True
            )  # the shared-memory index does not survive a power cut
        self.disk.mend()
        lies = trouble.kind == "lose"
        try:
            return self._judged(lived, lies, whole)
        except JournalError as refusal:
            good = lies and str(refusal).endswith(".")
            return ("refused", str(refusal)) if good else ("wrong", f"it is refused: {refusal}")

    def _is_a_sentence(self, message: str, trouble: DiskFault) -> bool:
        names = str(self.path) in message and message.endswith(".")
        return names and (trouble.kind != "fill" or "full" in message)

    def _live(self) -> FailedDriver:
        """Write the story until it ends or the disk fails."""
        lived = FailedDriver()
        try:
            journal = self._open()
        except JournalError as error:
            lived.error = str(error)
            return lived
        try:
            self._write(journal, lived, "first", len(self.story.steps))
        except JournalError as error:
            lived.error = str(error)
        with suppress(JournalError):
            journal.close()
        return lived

    def _open(self) -> SqliteJournal:
        return SqliteJournal(self.path, self.disk.name, CHECKPOINT_PAGES)

    def _write(self, journal: SqliteJournal, lived: FailedDriver, driver: str, steps: int) -> None:
        fence = journal.acquire(RUN, driver, lambda _: False)
        coming = [step for step in self.story.steps if step.write.after >= lived.acknowledged]
        for step in coming[:steps]:
            waiting = journal.mail(RUN)
            if step.message and not waiting:
                journal.post(RUN, 1, step.message)
                lived.posted += 1
                waiting = journal.mail(RUN)
            messages = tuple(message.id for message in waiting[:1]) if step.message else ()
            lived.acknowledged += len(journal.append([replace(step.write, fence=fence, messages=messages)]))

    # ---- what a new driver finds

    def _judged(self, lived: FailedDriver, lies: bool, whole: bool) -> tuple[str, str]:
        journal = self._open()
        try:
            if faults := journal.faults():
                raise JournalError(faults[0].message)
            entries = list(journal.read(RUN))
            if why := self._differs(journal, entries):
                return "wrong", why
            if not lies and (why := self._lost(journal, entries, lived)):
                return "wrong", why
            if why := self._cannot_go_on(journal, len(entries), whole):
                return "wrong", why
        finally:
            journal.close()
        if len(entries) < lived.acknowledged:
            return "shorter", f"{len(entries)} of {lived.acknowledged} events"
        return ("kept", lived.error) if lived.error else ("unharmed", "")

    def _differs(self, journal: SqliteJournal, entries: list[Entry]) -> str:
        """Whether everything stored belongs to the story, and the state is what the events add up to."""
        seq = len(entries)
        if tuple(entries) != self.story.entries[:seq]:
            return f"its {seq} events are not the story's"
        if journal.row(RUN) != row_at(self.story, seq):
            return f"its row does not go with event {seq}"
        expected = next((s.run for s in self.story.steps if s.write.after + len(s.write.drafts) == seq), None)
        if folded(entries) != expected:
            return f"its {seq} events add up to another state"
        snapshot = journal.latest_snapshot(RUN)
        if snapshot is not None and thaw(snapshot.body) != folded(entries[: snapshot.seq]):
            return f"its snapshot at event {snapshot.seq} is of another state"
        return ""

    def _lost(self, journal: SqliteJournal, entries: list[Entry], lived: FailedDriver) -> str:
        if len(entries) < lived.acknowledged:
            return f"{lived.acknowledged} events were acknowledged, {len(entries)} are there"
        waiting = len(journal.mail(RUN))
        if waiting < lived.posted - self.story.taken(len(entries)):
            return f"{lived.posted} messages were acknowledged, {waiting} wait at event {len(entries)}"
        return ""

    def _cannot_go_on(self, journal: SqliteJournal, seq: int, whole: bool) -> str:
        lived = FailedDriver(acknowledged=seq)
        self._write(journal, lived, "second", len(self.story.steps) if whole else ON)
        if tuple(journal.read(RUN)) != self.story.entries[: lived.acknowledged] or journal.faults():
            return f"it went on from event {seq} to something else"
        return (
            ""
            if not whole or lived.acknowledged == len(self.story.entries)
            else f"it stopped at {lived.acknowledged}"
        )


_names = count()


# ---- many points -----------------------------------------------------------------------------------------------


def points(deeds: list[str], seed: int, most: int | None = None) -> list[DiskFault]:
    """Every operation with every fault, or a sample of this size; where data is lost, the power is cut some time
    later.
    """
    rng = random.Random(seed)
    every = [(at, kind) for at in range(1, len(deeds) + 1) for kind in FAULTS]
    selected = every if most is None else sorted(rng.sample(every, min(most, len(every))))
    return [
        DiskFault(kind, at, _cut(rng, at, len(deeds)) if kind == "lose" else 0, rng.randrange(1 << 30))
        for at, kind in selected
    ]


def _cut(rng: random.Random, at: int, last: int) -> int:
    """Soon, at any later time, or only after everything is closed."""
    return rng.choice((at + rng.randint(1, 40), rng.randint(at + 1, last + 1), 0))


def sweep(
    folder: Path,
    most: int | None = None,
    seed: int = 0,
    say: Callable[[int, int], None] = lambda done, of: None,
    share: tuple[int, int] = (0, 1),
) -> SweepResult:
    """Try every point (or `most` of them) in this folder. `share` (n, of): only every `of`-th point, from the n-th
    on.
    """
    bench = Bench(folder)
    try:
        deeds = bench.undisturbed()
        selected = points(deeds, seed, most)[share[0] :: share[1]]
        swept = SweepResult(events=len(bench.story.entries), deeds=dict(Counter(deeds)))
        for number, trouble in enumerate(selected):
            _note(swept, trouble, deeds, *bench.trial(trouble, number % WHOLE == 0))
            say(number + 1, len(selected))
        return swept
    finally:
        bench.close()


def _note(swept: SweepResult, trouble: DiskFault, deeds: list[str], came: str, why: str) -> None:
    swept.points += 1
    swept.by_fault[trouble.kind] = swept.by_fault.get(trouble.kind, 0) + 1
    if came == "wrong":
        what = (
            f"{deeds[trouble.at - 1]} {trouble.at}, {trouble.kind}, cut at {trouble.cut}, seed {trouble.seed}"
        )
        swept.wrong.append(f"{what}: {why}")
        return
    swept.unharmed += came == "unharmed"
    counter = "kept" if came == "unharmed" else came
    setattr(swept, counter, getattr(swept, counter) + 1)


def together(parts: Iterable[SweepResult]) -> SweepResult:
    """The results of several shares of one sweep."""
    whole = SweepResult()
    for part in parts:
        whole.events, whole.deeds = part.events, part.deeds
        whole.by_fault = dict(Counter(whole.by_fault) + Counter(part.by_fault))
        for name in ("points", "kept", "shorter", "refused", "unharmed"):
            setattr(whole, name, getattr(whole, name) + getattr(part, name))
        whole.wrong += part.wrong
    return whole
