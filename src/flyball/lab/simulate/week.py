"""A week of `flyball up` under a virtual clock: the production lanes, backlog, supervisor, rules and journal.

What agents, tests and people do is written down task by task (`week_tasks`); time, processes and crashes are those of
a simulated world. Every event is checked against the laws. The report lists what never occurred, and the week fails if
that is not empty: a state or transition of `cto` and `task`, a kind of trigger or question, an answer.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections import Counter
from pathlib import Path
from typing import cast

from msgspec import Struct, field

from flyball.core.mail import paused
from flyball.core.stops import VERBS
from flyball.domain import events as e
from flyball.domain.machine import duration_us
from flyball.domain.messages import RESUME, Answer, Ask, HandBack, Tell, encode
from flyball.domain.results import KINDS, Trigger
from flyball.domain.settings import HOUR, MINUTE, SECOND
from flyball.journal.sqlite import SqliteJournal
from flyball.lab.simulate.coverage import reach
from flyball.lab.simulate.hazards import Crash
from flyball.lab.simulate.trees import TreeFacts
from flyball.lab.simulate.virtual import Virtual
from flyball.lab.simulate.week_acts import WeekActs
from flyball.lab.simulate.week_tasks import TASKS, WeekTask
from flyball.lab.simulate.world import DAY, SeedResult, World
from flyball.runtime.app import App
from flyball.runtime.start import RunRequest
from flyball.state.run import Run
from flyball.system.lanes import OBJECTIVE, Lanes

MACHINES = ("cto", "task")
WORDS = ("hold", "release", "start", "edit", "cancel")  # about tasks that wait
ALONE = ("done",)  # kinds of questions that only top-level runs ask
ANSWERS = (
    *(verb for kind, verbs in VERBS.items() if kind not in ALONE for verb in verbs),
    *("proceed", "replan", "drop", "complete", "abandon"),
)
ANSWERED_AFTER, EVERY_US = "7m", 100 * MINUTE  # between two tasks
STUCK_US = 3 * DAY  # after the last task came
USUALLY = ("proceed", "approve", "raise", "go-on", "retry", "answer")  # what a helpful person answers
SETTINGS = (
    "up.health=1h",
    "limits.phase_timeout=1h",
    "limits.task.phase_timeout=1h",
    'proof.commands=["true"]',
    'up.schedule=["30 3 * * 6 Update the dependencies"]',
)
BREAKPOINT = 'run.breakpoints=["PLANNING"]'  # for lanes that start after the crash


class WeekApp(App):
    """A user's Flyball in the world: its own state directory, with the world's journal and clock."""

    def __init__(self, folder: Path, week: Week) -> None:
        env = {"PATH": "/usr/bin:/bin", "HOME": str(folder), "FLYBALL_STATE_DIR": str(folder / "state")}
        super().__init__(env)
        self.week = week
        self.clock = week
        self.state_dir.mkdir(mode=0o700)

    @property
    def journal(self) -> SqliteJournal:
        return cast("SqliteJournal", self.week.journal)


class WeekCount(Struct):
    """The counts of the week."""

    triggers: Counter[str] = field(default_factory=Counter[str])
    questions: Counter[str] = field(default_factory=Counter[str])
    answers: Counter[str] = field(default_factory=Counter[str])
    words: Counter[str] = field(default_factory=Counter[str])
    became: dict[str, str] = field(default_factory=dict[str, str])  # ticket -> done | dropped | cancelled


class Week(World):
    def __init__(self, tasks: tuple[WeekTask, ...] = TASKS) -> None:
        super().__init__(seed=1, machine="cto")
        self.hazards.still()
        self.planned, self.most_events = [], 1 << 30
        self.players.calm = True
        self.players.script = WeekActs(self.players, self._word)
        self.taken = WeekCount()
        self.tasks = {f"W{number}": task for number, task in enumerate(tasks, 1)}
        self.used: Counter[tuple[str, str]] = Counter()  # ticket, and what was said or done about it
        self.folder = Path(tempfile.mkdtemp(prefix="flyball-week-"))
        self.repo = _repository(self.folder / "repo")
        self.app = WeekApp(self.folder, self)
        self.last_at = 0

    @property
    def steered(self) -> bool:
        return True  # nothing happens at random

    # ---- the week ----

    def _play(self) -> None:
        self._enter_the_calendar()
        while not self._over():
            self._session(stays=True)
            self.idle(MINUTE)
        self._whole()

    def _drive(self, driver: Virtual) -> None:
        sets = SETTINGS if self.sessions == 1 else (*SETTINGS, BREAKPOINT)
        request = RunRequest(task=OBJECTIVE, repo=self.repo, agents=("mechanic",), sets=sets, machine="cto")
        lanes = Lanes(self.app, driver, request)
        driver.performer.adopting = True
        lanes.open()
        driver.performer.adopting = False
        driver.drive(self._over, lanes.feed, lanes.until)
        lanes.close()

    def _over(self) -> bool:
        if self.true > self.last_at + STUCK_US:
            remaining = {name: self.tasks[name].text for name in self.tasks if name not in self.taken.became}
            self._stuck(f"{remaining} after {STUCK_US // DAY} days")
        return self.true > self.last_at and self.tasks.keys() <= self.taken.became.keys()

    def _enter_the_calendar(self) -> None:
        """When each task comes, and what people do besides answering."""
        for number, name in enumerate(self.tasks):
            self.at(number * EVERY_US, lambda name=name: self._add(name))
        self.last_at = len(self.tasks) * EVERY_US
        self.at(5 * MINUTE, lambda: self._say("hold"))
        self.at(30 * MINUTE, lambda: self._say("release"))
        later = next((name for name, task in self.tasks.items() if task.later), "")
        if later:
            self.at(40 * EVERY_US, lambda: self._say("edit", later, priority=60))
            self.at(41 * EVERY_US, lambda: self._say("start", later))
        self.at(42 * EVERY_US, self._change_their_mind)
        self.at(43 * EVERY_US + 50 * MINUTE, lambda: self._to_idle("pause"))
        self.at(44 * EVERY_US + 50 * MINUTE, lambda: self._to_idle("cancel"))

    def _add(self, name: str) -> None:
        task = self.tasks[name]
        after = tuple(f"W{number}" for number in task.after)
        trigger = Trigger(
            kind=task.kind,
            text=task.text,
            ticket=name,
            priority=task.priority,
            after=after,
            later=task.later,
            plan=task.plan,
        )
        self.app.leave(self.repo, trigger, "anna")

    def _say(self, word: str, ticket: str = "", priority: int = 50) -> None:
        self.taken.words[word] += 1
        self.app.leave(self.repo, Trigger(kind=word, text="", ticket=ticket, priority=priority), "anna")

    def _change_their_mind(self) -> None:
        """A waiting task is cancelled before a lane takes it."""
        self._say("hold")
        self.app.leave(self.repo, Trigger(kind="task", text="Never mind", ticket="W0"), "anna")
        self._say("cancel", "W0")
        self._say("release")

    def _to_idle(self, what: str) -> None:
        """To every lane that has nothing to do; if there is none now, to the next one."""
        idle = [run for run in self.unfinished() if run.here.act == "listen" and run.status == "running"]
        for run in idle:
            self.post(run.id, encode(Ask(what=what, who="anna")))
        if not idle:
            self.later(11 * MINUTE, lambda: self._to_idle(what))

    # ---- what comes of acts ----

    def _word(self, run: Run, key: str) -> str:
        ticket = self._ticket(run)
        words = self.tasks[ticket].acts.get(key, ()) if ticket in self.tasks else ()
        self.used[ticket, key] += 1
        return words[self.used[ticket, key] - 1] if self.used[ticket, key] <= len(words) else ""

    def _ticket(self, run: Run) -> str:
        if run.machine.standing:
            return run.plan.trigger.ticket if run.plan.trigger else ""
        top = self.onlooker.runs.get(run.began.root or run.id)
        return str((top.run if top else run).began.options.get("ticket", ""))

    # ---- people ----

    def takes_care(self, run: Run, question: e.Question) -> bool:
        """The answer that the task gives, else a helpful one."""
        self.taken.questions[question.kind] += 1
        ticket = self._ticket(run)
        answers = self.tasks[ticket].answers if ticket in self.tasks else ()
        place = self.used[ticket, "answers"]
        text = answers[place] if place < len(answers) else ""
        verb, _, state = text.partition("@")[0].partition(" ")
        if verb in question.verbs and question.kind != "breakpoint":
            self.used[ticket, "answers"] += 1
        else:
            verb, text = next((one for one in USUALLY if one in question.verbs), question.verbs[0]), ""
        late = duration_us(text.partition("@")[2] or ANSWERED_AFTER)
        self.later(late, lambda: self._reply(run.id, question, verb, state))
        return True

    def _reply(self, run_id: str, question: e.Question, verb: str, state: str) -> None:
        run = self.run(run_id)
        if run.question is None or run.question.id != question.id:
            return  # it was settled otherwise meanwhile
        self.taken.answers[verb] += 1
        data = {"state": state or run.path.origin or "in_progress"} if verb == "retry" else {}
        answer = Answer(
            question=question.id,
            verb=verb,
            text="as before",
            who="anna",
            how="cli",
            shown=question.shown,
            data=data,
        )
        self.post(run_id, encode(answer))

    def _on_event(self, before: Run, event: e.AnyEvent, run: Run) -> None:
        super()._on_event(before, event, run)
        match event:
            case e.Triggered():
                self.taken.triggers[event.trigger.kind] += 1
                self.trees.truth.setdefault(event.trigger.tree, TreeFacts(failing=1))
            case e.Moved() | e.RunBegan():
                self._does(run)
            case _:
                pass
        ticket = self._ticket(before)
        if isinstance(event, e.Moved) and run.here.act == "listen" and ticket:
            self.taken.became[ticket] = "done" if event.outcome == "done" else "dropped"
        if isinstance(event, e.Ended) and run.machine.standing:
            for trigger in (plan.trigger for plan in (before.plan, *before.plan.waiting)):
                self.taken.became |= {trigger.ticket: "cancelled with its lane"} if trigger else {}

    def _does(self, run: Run) -> None:
        """Somebody does something while the task is in this state, once."""
        ticket, key = self._ticket(run), f"{run.machine.name}.{run.state}"
        what = self.tasks[ticket].does.get(key, "") if ticket in self.tasks else ""
        if what and not self.used[ticket, what]:
            self.used[ticket, what] += 1
            self.later(5 * SECOND, lambda: self._do(what, run.id))

    def _do(self, what: str, run_id: str) -> None:
        match what:
            case "kill":
                raise Crash("killed")
            case "interrupt":
                self.app.leave(
                    self.repo,
                    Trigger(kind="security", text="Urgent", ticket=f"U{run_id}", priority=95),
                    "anna",
                )
            case _ if what.startswith("start "):
                self._say("start", self._named(what.removeprefix("start ")))
            case "tell":
                self.post(run_id, encode(Tell(text="Keep the public API", who="anna")))
            case "take-over":
                self.post(run_id, encode(Ask(what=what, who="anna")))
                self.later(HOUR, lambda: self.post(run_id, encode(HandBack(who="anna"))))
            case _:
                self.post(run_id, encode(Ask(what=what, who="anna")))
                if what != "cancel":
                    self.later(HOUR, lambda: self._resume(run_id))

    def _named(self, text: str) -> str:
        return next(name for name, task in self.tasks.items() if task.text == text)

    def _resume(self, run_id: str) -> None:
        if paused(self.run(run_id)):
            self.post(run_id, encode(Ask(what=RESUME, who="anna")))

    def close(self) -> None:
        super().close()
        shutil.rmtree(self.folder, ignore_errors=True)


def _repository(folder: Path) -> Path:
    subprocess.run(["git", "init", "-q", "-b", "main", folder], check=True)
    (folder / "calc.py").write_text("def add(a, b):\n    return a - b\n")
    (folder / "test_calc.py").write_text("def test_add():\n    assert False\n")  # mechanic wants tests
    name = ("-c", "user.name=week", "-c", "user.email=week@localhost")
    for words in (("add", "-A"), (*name, "commit", "-qm", "Begin")):
        subprocess.run(["git", "-C", folder, *words], check=True)
    return folder.resolve()


# ---- the report ------------------------------------------------------------------------------------------


def missing(week: Week) -> list[str]:
    """What never occurred, one line each."""
    problems = [
        f"{machine}: '{state}' was never left by '{outcome}'"
        for machine in MACHINES
        for _, state, outcome in reach(machine, week.coverage).no_outcomes
    ]
    if not week.coverage.outcomes["cto", "EXECUTING", "interrupt"]:
        problems.append("cto: 'EXECUTING' was never left by 'interrupt'")
    kinds = [kind for kind in VERBS if kind not in ALONE]
    for what, names, counts in (
        ("trigger", KINDS, week.taken.triggers),
        ("word about a task", WORDS, week.taken.words),
        ("question", kinds, week.taken.questions),
        ("answer", ANSWERS, week.taken.answers),
    ):
        problems += [f"{what}: '{name}' never came" for name in dict.fromkeys(names) if not counts[name]]
    return problems


def page(week: Week, result: SeedResult) -> list[str]:
    """The report: what occurred and how often; what did not, and which laws were broken."""
    days, became = result.virtual_us / DAY, Counter(week.taken.became.values())
    lines = [
        f"{len(week.taken.became)} tasks and {result.events:,} events in {days:.1f} virtual days: "
        + ", ".join(f"{count} {how}" for how, count in became.most_common())
    ]
    for machine in MACHINES:
        outcome_counts = {
            pair[1:]: count for pair, count in week.coverage.outcomes.items() if pair[0] == machine
        }
        lines += ["", f"{machine}: states, and how often each was left by which outcome"]
        for state in dict.fromkeys(state for state, _ in outcome_counts):
            outcomes = (
                f"{name} {count}" for (where, name), count in sorted(outcome_counts.items()) if where == state
            )
            lines.append(f"  {state:<18}{', '.join(outcomes)}")
    for title, counts in (
        ("Triggers", week.taken.triggers),
        ("About tasks that wait", week.taken.words),
        ("Questions", week.taken.questions),
        ("Answers", week.taken.answers),
    ):
        lines += ["", f"{title}: {', '.join(f'{name} {count}' for name, count in counts.most_common())}"]
    never = missing(week)
    lines += ["", "Never taken:", *(f"  {one}" for one in never or ["nothing"])]
    broken = (
        f"{result.law} is broken: {result.broken}"
        if result.broken
        else "All laws held, and nothing is stuck."
    )
    return [*lines, "", broken]
