"""kill -9 of a real supervisor at random moments: nothing that was written is lost, nothing is done twice.

Right before each kill the journal is read; what is in it then must stay in it. Effects are counted by a witness outside
of Flyball. Each run must end as it does without kills. The seed chooses runs and moments; what a process is doing at
that moment depends on the machine.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from flyball.agents import process
from flyball.domain.messages import Answer
from flyball.errors import FlyballError
from flyball.evidence.consistency import check
from flyball.evidence.verify import verify_run
from flyball.lab.selftest.outside_witness import Effects, effects
from flyball.lab.selftest.place import Place
from flyball.lab.selftest.scenarios import PLOTS, Plot
from flyball.runtime.app import App
from flyball.state.run import Run

LANES = 2
KILLS_A_RUN = 8  # kills in one run, at most
KEEPERS_TOO = 3  # one in this many kills also kills the keepers of the supervisor's acts
STEP_S = 0.02
PATIENCE_S = 120.0
GOING_ON = ("go-on", "retry", "approve")


class Tally(Struct):
    """The counts. A campaign passes if those in the middle are all zero."""

    kills: int = 0
    with_keepers: int = 0
    runs: int = 0
    plots: dict[str, int] = field(default_factory=dict[str, int])
    events: int = 0
    acknowledged: int = 0
    witnessed: int = 0
    interrupted: int = 0
    loose_ends: dict[str, int] = field(default_factory=dict[str, int])  # for `flyball check`, by kind

    events_lost: int = 0
    effects_doubled: int = 0
    effects_missing: int = 0
    effects_unannounced: int = 0
    other_ends: int = 0
    faults: int = 0

    complaints: list[str] = field(default_factory=list[str])
    took_s: float = 0.0
    seed: int = 0

    @property
    def good(self) -> bool:
        wrong = (self.events_lost, self.effects_doubled, self.effects_missing, self.effects_unannounced)
        return not any(wrong) and not self.other_ends and not self.faults

    @property
    def kills_a_minute(self) -> float:
        return round(60 * self.kills / self.took_s, 1) if self.took_s else 0.0


class Ending(Struct, frozen=True):
    """How a run ended, in everything that must not depend on kills."""

    end: str
    code: str
    state: str
    turns: int
    tree: str
    commits: int
    certificate: str


class Campaign:
    """A number of kills, divided among the lanes; each lane has its own repository and state directory."""

    def __init__(self, folder: Path, kills: int, seed: int, say: Callable[[str], None]) -> None:
        self.folder, self.left, self.say = folder, kills, say
        self.tally, self.lock, self.stop = Tally(seed=seed), threading.Lock(), threading.Event()
        self.wanted = kills
        self.expected: dict[str, tuple[Ending, dict[str, int]]] = {}
        self.lanes = [
            Lane(self, Place(folder / f"lane-{n}"), random.Random(f"{seed}/{n}")) for n in range(LANES)
        ]

    def run(self) -> Tally:
        start = time.monotonic()
        self._in_lanes()
        self.tally.took_s = time.monotonic() - start
        return self.tally

    def _in_lanes(self) -> None:
        faults: list[BaseException] = []

        def guarded(lane: Lane) -> None:
            try:
                with contextlib.closing(lane.open()):
                    lane.work()
            except BaseException as fault:
                faults.append(fault)
                self.stop.set()

        threads = [threading.Thread(target=guarded, args=(lane,)) for lane in self.lanes]
        for thread in threads:
            thread.start()
        try:
            while any(thread.is_alive() for thread in threads):
                time.sleep(STEP_S)
        except BaseException:  # Ctrl+C: the lanes stop what they have started
            self.stop.set()
            raise
        finally:
            for thread in threads:
                thread.join()
        if faults:
            raise faults[0]

    def take(self, most: int) -> int:
        """Take up to this many of the remaining kills."""
        with self.lock:
            kills = min(most, self.left)
            self.left -= kills
            return kills

    def give_back(self, kills: int) -> None:
        with self.lock:
            self.left += kills

    def note(self, **counts: int) -> None:
        with self.lock:
            for name, count in counts.items():
                setattr(self.tally, name, getattr(self.tally, name) + count)
            if counts.get("kills") and (self.tally.kills % 10 == 0 or self.tally.kills == self.wanted):
                tally = self.tally
                self.say(
                    f"{tally.kills:>5} of {self.wanted} kills, {tally.runs} runs ended, "
                    f"{tally.events_lost} events lost, {tally.effects_doubled} effects doubled"
                )

    def complain(self, what: str) -> None:
        with self.lock:
            self.tally.complaints.append(what)
            self.say(what)


class Lane:
    """Runs one run after another, in one place."""

    def __init__(self, campaign: Campaign, place: Place, chance: random.Random) -> None:
        self.campaign, self.place, self.chance = campaign, place, chance
        self.app = App(place.env)
        self.known: set[str] = set()
        self.over: set[Path] = set()
        self.heads: dict[tuple[str, int], str] = {}

    def open(self) -> Lane:
        """A journal must be used by the thread that opens it."""
        self.app = App(self.place.env)
        return self

    def close(self) -> None:
        self.app.close()

    def work(self) -> None:
        while not self.campaign.stop.is_set():
            kills = self.campaign.take(self.chance.randint(1, KILLS_A_RUN))
            if not kills:
                break
            plot = self.chance.choice(PLOTS)
            self._rehearse(plot)
            self._judge(plot, self._play(plot, kills))
        self._judge_all()

    def _rehearse(self, plot: Plot) -> None:
        """Run it once without kills: the other runs are compared with this one."""
        if plot.name in self.campaign.expected:
            return
        run = self._play(plot, 0)
        if run is None or run.end != plot.end:
            why = f"{run.status} in {run.state}" if run else "it never ended"
            raise FlyballError(
                f"'{plot.name}' does not even come to its end undisturbed ({why}); see {self.place.folder / 'said'}."
            )
        with self.campaign.lock:
            self.campaign.expected[plot.name] = (self._ending(run), self._effects(run).finished)

    # ---- one run

    def _play(self, plot: Plot, kills: int) -> Run | None:
        """Start it, kill it this many times, and resume it until it ends; None: it never began or never ended."""
        words, root, remaining = self.place.words(plot), "", kills
        for _ in range(3 * kills + 20):
            if self.campaign.stop.is_set():
                break
            remaining -= self._drive(words, root, remaining > 0)
            root = root or self._begun()
            if not root:
                continue
            run = self.app.read(root)
            if run.status == "ended":
                self.campaign.give_back(remaining)
                return run
            self._answer(plot, run)
            words = ["resume", root, "--json"]
        self.campaign.give_back(remaining)
        return None

    def _drive(self, words: list[str], root: str, deadly: bool) -> int:
        """One supervisor, until it ends or is killed. Returns how many were killed: 0 or 1."""
        started = self.place.start(words)
        try:
            if deadly and not self._outlived(started, root):
                self._look(root)
                started.kill()
                return self._killed(started)
            if not self._ends_within(started, PATIENCE_S, root) and not self.campaign.stop.is_set():
                self.campaign.complain(f"A supervisor hung: flyball {' '.join(words)}")
            return 0
        finally:
            if started.poll() is None:
                started.kill()
                started.wait()

    def _outlived(self, started: subprocess.Popen[bytes], root: str) -> bool:
        """Wait for a random moment: while it starts, while it works, during an act. True: it has ended before."""
        when = self.chance.choice(("starting", "working", "working", "acting"))
        if when == "starting":
            return self._ends_within(started, self.chance.random() * 0.8, root)
        while not (self._keepers() if when == "acting" else self.place.drives(started.pid)):
            if self._ends_within(started, STEP_S, root) or self.campaign.stop.is_set():
                return True
        span = 0.2 if when == "acting" else self.chance.choice((0.2, 0.8, 2.0))
        return self._ends_within(started, self.chance.random() * span, root)

    def _ends_within(self, started: subprocess.Popen[bytes], seconds: float, root: str) -> bool:
        until = time.monotonic() + seconds
        while (rest := until - time.monotonic()) > 0 and not self.campaign.stop.is_set():
            with contextlib.suppress(subprocess.TimeoutExpired):
                started.wait(min(rest, 5 * STEP_S))
                return True
            self._look(root)
        return started.poll() is not None

    def _killed(self, started: subprocess.Popen[bytes]) -> int:
        if started.wait() != -signal.SIGKILL:
            return 0  # it had just ended by itself
        keepers = self._kill_keepers() if self.chance.randrange(KEEPERS_TOO) == 0 else 0
        self.campaign.note(kills=1, with_keepers=int(keepers > 0))
        return 1

    def _kill_keepers(self) -> int:
        """As after a power cut: the acts in flight are lost too, not only their supervisor."""
        living = self._keepers()
        for claim in living:
            with contextlib.suppress(ProcessLookupError, ValueError):
                os.kill(int(claim.read_text().partition(".")[0]), signal.SIGKILL)
        return len(living)

    def _keepers(self) -> list[Path]:
        """The claims of acts that are in flight."""
        acts = self.place.state / "acts"
        claims = [c for c in (*acts.glob("*/claim"), *acts.glob("*/*/claim")) if c not in self.over]
        states = {claim: process.look(claim.parent) for claim in claims}
        self.over.update(claim for claim in claims if states[claim] in ("ended", "lost"))
        return [claim for claim in claims if states[claim] == "alive"]

    def _begun(self) -> str:
        ids = [row.run for row in self.app.journal.rows(parent="") if row.run not in self.known]
        self.known.update(ids)
        return ids[0] if ids else ""

    def _look(self, root: str) -> None:
        """What is in the journal now must stay in it."""
        rows = self.app.journal.rows(root=root) if root else self.app.journal.rows(limit=4)
        for row in rows:
            seq, head = self.app.journal.head(row.run)
            self.heads[row.run, seq] = head

    def _answer(self, plot: Plot, run: Run) -> None:
        """What a person would answer to an open question of the run or of its child run."""
        while run.question is None and run.child and self.app.journal.row(run.child):
            run = self.app.read(run.child)
        question = run.question
        if question is None or self.app.journal.mail(run.id):
            return
        choices = (plot.answers.get(question.kind, ""), *GOING_ON, *question.verbs)
        verb = next(word for word in choices if word in question.verbs)
        self.app.send(run, Answer(question=question.id, verb=verb, who="selftest", how="selftest"))

    # ---- what came of it

    def _judge(self, plot: Plot, run: Run | None) -> None:
        if run is None:
            if not self.campaign.stop.is_set():
                self.campaign.note(other_ends=1)
                self.campaign.complain(
                    f"'{plot.name}' did not come to an end; see {self.place.folder / 'said'}."
                )
            return
        ending, effects = self.campaign.expected[plot.name]
        with self.campaign.lock:
            self.campaign.tally.plots[plot.name] = self.campaign.tally.plots.get(plot.name, 0) + 1
        self.campaign.note(runs=1)
        self._compare(run, ending, self._ending(run))
        self._weigh(run, Counter(effects), self._effects(run))

    def _compare(self, run: Run, expected: Ending, ending: Ending) -> None:
        if ending != expected:
            self.campaign.note(other_ends=1)
            self.campaign.complain(f"Run {run.id} ended as {ending}, undisturbed as {expected}.")

    def _weigh(self, run: Run, expected: Counter[str], effects: Effects) -> None:
        finished = Counter(effects.finished)
        doubled, missing = effects.doubled + (finished - expected).total(), (expected - finished).total()
        self.campaign.note(
            witnessed=effects.witnessed,
            interrupted=effects.interrupted,
            effects_doubled=doubled,
            effects_missing=missing,
            effects_unannounced=effects.unannounced,
        )
        if doubled or missing or effects.unannounced:
            self.campaign.complain(f"Run {run.id}: {effects}, wanted {dict(expected)}.")

    def _judge_all(self) -> None:
        """Everything that was read before a kill is still there, and the state directory is consistent."""
        for (run_id, seq), head in self.heads.items():
            if self.app.journal.hash_at(run_id, seq) != head:
                self.campaign.note(events_lost=1)
                self.campaign.complain(f"Run {run_id}: event {seq} was there before a kill, and is not now.")
        checked = check(self.app)
        grave = [finding for finding in checked.findings if finding.grave]
        for finding in grave:
            self.campaign.complain(finding.message)
        self.campaign.note(acknowledged=len(self.heads), events=checked.events, faults=len(grave))
        with self.campaign.lock:
            loose = Counter(finding.kind for finding in checked.findings if not finding.grave)
            self.campaign.tally.loose_ends = dict(Counter(self.campaign.tally.loose_ends) + loose)

    def _ending(self, run: Run) -> Ending:
        branch = (
            f"--branches=flyball/{run.id}",
            f"^{self.place.base}",
        )  # there is none where nothing changed
        return Ending(
            end=run.end,
            code=run.stop.code if run.stop else "",
            state=run.state,
            turns=run.turns,
            tree=run.tree,
            commits=int(self.place.git("rev-list", "--count", *branch)),
            certificate=verify_run(self.app, run.id).word,
        )

    def _effects(self, run: Run) -> Effects:
        family = [row.run for row in self.app.journal.rows(root=run.id)]
        entries = [entry for member in family for entry in self.app.journal.read(member)]
        return effects(entries, self.place.state / "acts", self.place.witness)


def chaos(
    kills: int, seed: int, say: Callable[[str], None], keep: bool = False, where: Path | None = None
) -> Tally:
    """The whole campaign, in a temporary folder, which is kept if something went wrong or if asked for."""
    folder = Path(tempfile.mkdtemp(prefix="flyball-chaos-", dir=where))
    tally: Tally | None = None
    try:
        tally = Campaign(folder, kills, seed, say).run()
        return tally
    finally:
        if keep or tally is None or not tally.good:
            say(
                f"Everything is kept in {folder}; set FLYBALL_STATE_DIR to a lane's state there to look at it."
            )
        else:
            subprocess.run(["rm", "-rf", str(folder)], check=False)


def facts(tally: Tally) -> dict[str, Any]:
    """The results for programs."""
    names = tally.__struct_fields__
    return {
        "good": tally.good,
        "kills_a_minute": tally.kills_a_minute,
        **{n: getattr(tally, n) for n in names},
    }
