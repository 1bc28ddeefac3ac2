"""`World(seed)`: the production supervisor, rules and journal in a world made from one seed.

Time is virtual, agents and people are simulated, the disk and the drivers fail. Every event is checked when it becomes
durable, and every run is compared with its journal after each tick. The same seed gives the same journal, byte
for byte.
"""

from __future__ import annotations

import hashlib
import heapq
import random
import traceback
from collections.abc import Callable

from msgspec import Struct

from flyball.domain import events as e
from flyball.domain.settings import HOUR, MINUTE, SECOND
from flyball.errors import Conflict, Corrupt, Fenced, JournalError
from flyball.journal import Entry, Journal
from flyball.journal.records import load
from flyball.lab.simulate.counts import Breach
from flyball.lab.simulate.coverage import Coverage
from flyball.lab.simulate.disk import MemoryStore, SqliteStore, Store
from flyball.lab.simulate.draws import began, drawn_runs
from flyball.lab.simulate.goals import Goal
from flyball.lab.simulate.hazards import Crash, Hazards
from flyball.lab.simulate.keepers import Keepers
from flyball.lab.simulate.onlooker import Line, Onlooker, require_same
from flyball.lab.simulate.people import People
from flyball.lab.simulate.players import Players
from flyball.lab.simulate.steering import Steering
from flyball.lab.simulate.trees import Trees
from flyball.lab.simulate.virtual import Virtual
from flyball.state.fold import fold
from flyball.state.run import Run

EPOCH = 1_767_225_600_000_000  # 2026
DAY = 24 * HOUR
CALM_MOST_US = 90 * DAY  # after the helpful person comes, every run ends within this time …
CALM_MOST_EVENTS = 4_000  # … and this many events
SQLITE_EVERY = 12
AFTERWARDS = (10, 40, 120)  # random events after a goal is reached
Aim = tuple[str, Goal]  # machine, goal


class SeedResult(Struct):
    """The result of one seed."""

    seed: int
    events: int
    virtual_us: int
    coverage: Coverage
    lines: list[Line]
    digest: str = ""
    law: str = ""
    broken: str = ""
    detail: str = ""


class World:
    def __init__(self, seed: int, machine: str = "", goal: Aim | None = None) -> None:
        self.seed, self.rng = seed, random.Random(seed)
        self.true, self.skew = 0, EPOCH
        self.agenda: list[tuple[int, int, Callable[[], None]]] = []
        self.deeds = 0
        self.coverage = Coverage()
        self.recent: dict[str, dict[str, None]] = {}
        self.trees = Trees(self.rng)
        self.onlooker = Onlooker(self.trees, lambda: self.true, self._on_event)
        self.players = Players(self.rng, self.trees, self.now)
        self.keepers = Keepers(self)
        self.people = People(self)
        self.hazards = Hazards(self)
        torn = goal is not None and "power cut" in goal[1].faults
        self.store: Store = SqliteStore() if torn or seed % SQLITE_EVERY == 0 else MemoryStore()
        self.steering = Steering(self, *goal) if goal else None
        self.players.script = self.steering
        premise = self.steering.script.premise if self.steering else None
        self.planned = [began(premise, self.now())] if premise else drawn_runs(self.rng, machine, self.now())
        self.calm, self.calm_from, self.calm_events = False, 0, 0
        self.most_events = self.rng.choice((80, 200, 400))
        self.living: set[str] = set()
        self.supervisor: Virtual | None = None
        self.journal: Journal = self.store.open(self.hazards)
        self.sessions, self.named = 0, 0

    # ---- time ----

    def now(self) -> int:
        """UTC according to this computer."""
        return self.true + self.skew

    def at(self, true: int, deed: Callable[[], None]) -> None:
        self.deeds += 1
        heapq.heappush(self.agenda, (true, self.deeds, deed))

    def later(self, us: int, deed: Callable[[], None]) -> None:
        self.at(self.true + us, deed)

    def sleep(self, timeout_s: float | None) -> None:
        """A driver sleeps until the next thing happens or its time comes."""
        self.check()
        if not self.calm and self._had_enough():
            self._becalm()
        deadline = None if timeout_s is None else self.true + int(timeout_s * 1_000_000) + 1
        if deadline is not None and (not self.agenda or deadline < self.agenda[0][0]):
            self.true = deadline
            return
        if not self.agenda and self.steering is not None and self.steered:
            self.steering.let_go()
        if not self.agenda:
            raise Breach("SYS-1", "everything rests for ever")
        self._happen()

    def _happen(self) -> None:
        true, _, deed = heapq.heappop(self.agenda)
        self.true = max(self.true, true)
        deed()

    def idle(self, us: int) -> None:
        """Time without a driver."""
        until = self.true + us
        while self.agenda and self.agenda[0][0] <= until:
            self._happen()
        self.true = max(self.true, until)

    # ---- the story ----

    def play(self) -> SeedResult:
        result = SeedResult(self.seed, 0, 0, self.coverage, self.onlooker.lines)
        try:
            self._play()
        except Breach as breach:
            result.law, result.broken = breach.law, breach.says
        except Exception as problem:  # any exception in the code under test is a finding
            result.law, result.broken = "SYS-3", f"{type(problem).__name__}: {problem}"
            result.detail = traceback.format_exc()
        finally:
            result.events, result.virtual_us = self.onlooker.events, self.true
            result.digest = self._digest() if not result.broken else ""
            self.close()
        return result

    def _play(self) -> None:
        if not self.steered:
            self.set_free()
        while not self._over():
            stays = self.calm or self.steered or self.rng.random() < 0.6
            if stays or self._worth_it():
                self._session(stays)
            self.check()
            if not self.calm and (self._had_enough() or self.sessions > 60):
                self._becalm()
            self.idle(self._pause_us())
        self._audit()

    def _pause_us(self) -> int:
        """How long no process runs."""
        if self.steering is not None and self.steered:
            return self.steering.idle_us
        return MINUTE if self.calm else self.rng.choice((1, 20, 90, 1200, 90000)) * SECOND

    @property
    def steered(self) -> bool:
        """Whether the script is still followed."""
        return self.steering is not None and not self.steering.over

    def set_free(self) -> None:
        """From here on everything is random."""
        self.people.begin()
        self.hazards.begin()
        if self.steering is not None:
            self.hazards.lost = self.rng.choice((0.1, 0.3, 0.95))
            self.most_events = self.onlooker.events + self.rng.choice(AFTERWARDS)

    def _worth_it(self) -> bool:
        """As for `resume`: nothing continues while each run has an open question and no message waits."""
        runs = self.onlooker.unfinished()
        return not runs or bool(self.journal.mail_all([r.id for r in runs])) or not all(map(self._asks, runs))

    def _asks(self, run: Run) -> bool:
        return run.question is not None or bool(run.child)

    def _session(self, stays: bool) -> None:
        """One process drives until it has nothing to do, is killed, or the disk fails."""
        self.sessions += 1
        self.journal = self.store.open(self.hazards, [old.journal for old in self.hazards.zombies])
        self._catch_up()
        self.supervisor = driver = Virtual(self, self.journal, f"d{self.sessions}", stays)
        self.living.add(driver.driver)
        try:
            self._drive(driver)
            self.keepers.driver_left(0)
            driver.close()
        except Crash as crash:
            self._died(driver, crash)
        except (Fenced, Conflict, Corrupt):
            raise
        except JournalError as problem:
            self._gave_up(driver, problem)
        finally:
            self.supervisor = None
            self.living.discard(driver.driver)

    def _drive(self, driver: Virtual) -> None:
        driver.take_up(self.planned)
        driver.drive(driver.done)

    def _died(self, driver: Virtual, crash: Crash) -> None:
        self.onlooker.note(f"{driver.driver} dies: {crash.how}")
        for run in self.onlooker.unfinished():
            self.fault(crash.how, run.id)
        self.keepers.driver_left(1 if crash.how == "power cut" else self.hazards.lost)
        driver.die()
        if crash.how == "power cut":
            self.store.cut_power(self.rng)
            self.hazards.forget()
            self.journal = self.store.open(self.hazards)

    def _gave_up(self, driver: Virtual, problem: JournalError) -> None:
        """The disk fails, so the process says so and exits; sometimes it can still release its leases."""
        if self.calm:
            raise problem
        self.hazards.crashed = True
        self.onlooker.note(f"{driver.driver} gives up: {problem}")
        for run in self.onlooker.unfinished():
            self.fault(self.store.failed, run.id)
        self.keepers.driver_left(0)
        if self.rng.random() < 0.5:
            driver.close()
        else:
            driver.die()

    def _catch_up(self) -> None:
        """What was acknowledged is there; what was not may be there, if it was written but nobody was told."""
        for run_id, record in list(self.onlooker.runs.items()):
            if self.journal.hash_at(run_id, record.seq) != record.head:
                raise Breach("PROOF-4", f"event {record.seq} of {run_id} was acknowledged and is not there")
        rows = sorted(self.journal.rows(), key=lambda row: (row.created_at, bool(row.parent), row.run))
        unread: list[Entry] = []
        for row in rows:
            record = self.onlooker.runs.get(row.run)
            unread += self.journal.read(row.run, record.seq if record else 0)
        if unread:
            self.onlooker.note("written although nobody was told")
        self.onlooker.see(unread)
        if self.sessions % 5 == 1:
            self._whole()

    def _over(self) -> bool:
        entries = [self.onlooker.runs.get(event.run) for event in self.planned]
        return all(record is not None and record.run.status == "ended" for record in entries)

    # ---- the end ----

    def _had_enough(self) -> bool:
        return self.onlooker.events > self.most_events or self.true > 60 * DAY

    def _becalm(self) -> None:
        """No more faults; a helpful person comes. From here on every run must end."""
        self.onlooker.note("calm")
        self.calm = self.players.calm = self.people.helpful = True
        self.calm_from, self.calm_events = self.true, self.onlooker.events
        self.hazards.still()
        self.later(MINUTE, self.people.help)

    def check(self) -> None:
        """Called at each tick."""
        if self.supervisor is not None:
            self.onlooker.compare(
                {name: driven_run.run for name, driven_run in self.supervisor.driven.items()}
            )
        if not self.calm:
            return
        if self.true - self.calm_from > CALM_MOST_US:
            self._stuck(f"after {(self.true - self.calm_from) // DAY} days")
        if self.onlooker.events - self.calm_events > CALM_MOST_EVENTS:
            self._stuck(f"after {self.onlooker.events - self.calm_events} events")

    def _stuck(self, when: str) -> None:
        stuck = ", ".join(
            f"{run.id} ({run.machine.name} {run.state} {run.status} {run.stop.code if run.stop else ''})"
            for run in self.onlooker.unfinished()
        )
        raise Breach("SYS-1", f"{when} with somebody helpful it has not ended: {stuck}")

    def _audit(self) -> None:
        """Read the whole journal again, as a new process would."""
        self.journal = self.store.open(self.hazards)
        self._whole()
        for run_id, record in self.onlooker.runs.items():
            if record.run.status != "ended":
                raise Breach("SYS-1", f"{run_id} goes on below a run that has ended")
            events = [e.decode(entry.body) for entry in self.journal.read(run_id)]
            require_same(fold(None, events), record.run)
            require_same(load(self.journal, run_id)[0], record.run)
            if (
                record.run.owner
                and run_id not in self.keepers.tidied
                and not self.hazards.crashed
                and not self.hazards.disk
            ):
                raise Breach("SYS-10", f"nobody tidied up after {run_id}")

    def _whole(self) -> None:
        for fault in self.journal.faults():
            raise Breach("SYS-4", fault.message)

    def _digest(self) -> str:
        return hashlib.sha256(b"\n".join(self.bytes())).hexdigest()

    def bytes(self) -> list[bytes]:
        """Every event of every run as it was written, with its hash."""
        names = sorted(self.onlooker.runs)
        return [entry.hash.encode() + entry.body for name in names for entry in self.journal.read(name)]

    def close(self) -> None:
        self.hazards.forget()
        self.store.close()

    # ---- what others need ----

    def _on_event(self, before: Run, event: e.AnyEvent, run: Run) -> None:
        self.coverage.add_event(before, event, self.recent.setdefault(run.id, {}))
        if self.steering is not None:
            self.steering.on_event(before, event, run)
        match event:
            case e.Moved():
                self.recent[run.id] = {}
            case e.Stopped(question=e.Question() as question):
                self.people.asked(run, question)
            case e.Ended():
                self.coverage.ends[f"{event.end} {event.stop.code}"] += int(not run.began.parent)
            case _:
                pass
        listens = run.here.act == "listen" and run.status == "running" and run.prepared
        if listens and not isinstance(event, e.Told | e.Asked | e.LetterRefused):
            self.people.listening(run)

    def manner(self, name: str) -> None:
        self.coverage.kinds[name] += 1

    def takes_care(self, run: Run, question: e.Question) -> bool:
        return self.steering is not None and self.steering.asked(run, question)

    def fault(self, name: str, run: str) -> None:
        record = self.onlooker.runs.get(run)
        if record is not None:
            self.coverage.fault(name, record.run)
            self.recent.setdefault(run, {})[name] = None

    def breach(self, law: str, says: str) -> None:
        raise Breach(law, says)

    def journaled(self, run: str, key: str) -> bool:
        act = self.onlooker.runs[run].run.act
        return act is not None and act.key == key

    def unfinished(self) -> list[Run]:
        return self.onlooker.unfinished()

    def run(self, run_id: str) -> Run:
        return self.onlooker.runs[run_id].run

    def post(self, run: str, body: bytes) -> None:
        self.journal.post(run, self.now(), body)

    def press(self, now: bool) -> None:
        """Ctrl+C, once or twice."""
        if self.supervisor is not None:
            self.supervisor.ask("interrupt")
            if now:
                self.supervisor.stop_now()

    def trigger(self, run: str, outcome: str) -> None:
        if self.supervisor is not None and not self.calm:
            self.supervisor.trigger(run, outcome)

    def new_id(self) -> str:
        self.named += 1
        return f"r{self.named}"
