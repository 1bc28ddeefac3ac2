"""The commands that drive runs in this process until each has ended or waits for a person: run, resume.

Ctrl+C once stops after the current turn, twice stops now, a third time exits at once. SIGTERM and a closed terminal
stop now. The runs can always be resumed.
"""

from __future__ import annotations

import contextlib
import getpass
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Generator
from pathlib import Path
from types import FrameType

import click

from flyball.agents.accounts import reports
from flyball.cli import (
    JSON,
    REPO,
    SET,
    TRUST,
    WAIT,
    examples,
    is_terminal,
    open_app,
    print_json,
    repository_of,
    say,
)
from flyball.cli.keys import AnswerKeys, answer_keys
from flyball.cli.screen import Screen, closing, open_screen, question_lines
from flyball.core.mail import paused
from flyball.domain import events as e
from flyball.domain.messages import RESUME, Ask
from flyball.domain.results import RECOVERY
from flyball.domain.settings import Settings, dollars, show_duration, without_model
from flyball.errors import (
    AlreadyRunning,
    Corrupt,
    Fenced,
    FlyballError,
    JournalError,
    NotFound,
    NotPaused,
    UserError,
)
from flyball.journal.database import Driver
from flyball.journal.records import asking, root_of
from flyball.runtime.app import App
from flyball.runtime.questions import pending_answer
from flyball.runtime.start import RunRequest, launch, task_text
from flyball.state.run import Run
from flyball.system.retention import prune_daily
from flyball.views import run_view
from flyball.views.run_view import summary
from flyball.views.text import agent_name, decode_argument, first_few
from flyball.workspace import Repo
from flyball.workspace.repo import uncommitted

INTERRUPTED = 130
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
EXIT_PRESSES = 3


class Session:
    def __init__(self, app: App, screen: Screen, stay: bool) -> None:
        self.app, self.screen, self.stay = app, screen, stay
        screen.stays = stay
        self.driver = Driver(app.state_dir)
        self.supervisor = app.supervisor(self.driver, screen.event, screen.show_call)
        self.presses = 0
        self.standing = False  # it stays also where every run waits
        self._closing = contextlib.ExitStack()

    def __enter__(self) -> Session:
        self._closing.enter_context(self._signals())  # Ctrl+C at the start stops as cleanly as later
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.close()
        with contextlib.suppress(FlyballError, OSError):
            self.app.heads.flush()  # while the leases are held: a stopped run has a signed head
        with contextlib.suppress(FlyballError, OSError):
            self.supervisor.close()
        self.driver.close()
        if self.app.dirs.is_prune_due(self.app.clock.now()):
            prune_daily(self.app)

    # ---- runs ----

    def begin(self, event: e.RunBegan) -> Run:
        return self.supervisor.begin(event)

    def adopt(self, run_id: str) -> None:
        self.supervisor.adopt(run_id)

    def run_errands(self, run_id: str) -> Run:
        """Apply what a person sent to a run that is not running; the run itself does not continue."""
        return self.supervisor.run_errands(run_id)

    @property
    def roots(self) -> list[Run]:
        """The top-level runs that are driven here, also lanes of `up` that began meanwhile."""
        return [one.run for one in self.supervisor.driven.values() if not one.run.began.parent]

    def drive(
        self, feed: Callable[[], bool] | None = None, until: Callable[[], int | None] | None = None
    ) -> None:
        """Run until every run has ended or waits for a person; `feed` may give more to do meanwhile."""
        try:
            with self._keys(), self.screen.shown():
                self.supervisor.drive(self._done, feed, until)
        except (Fenced, AlreadyRunning):
            raise
        except JournalError as problem:
            words = "up" if self.standing else f"resume {' '.join(run.id for run in self.roots)}"
            raise JournalError(f"{problem} Then continue with `flyball {words}`.") from problem

    def exit_code(self) -> int:
        return max(map(self._code, self.roots), default=0)

    def _code(self, run: Run) -> int:
        return INTERRUPTED if self.presses and run.status != "ended" else run_view.exit_code(run)

    # ---- when to stop ----

    def _done(self) -> bool:
        if self.standing and not self.presses:
            return False
        return all(map(self._rests, self.roots)) and not self.supervisor.ending

    def _rests(self, run: Run) -> bool:
        """A rate limit ends by itself, so wait for it; wait for a person only if one may be there."""
        if run.status == "running":
            return False
        if run.status == "ended":
            return run.act is None and run.landing is None
        if self._asks(run):
            return not self.stay or self.presses > 0
        return run.until is None

    def _asks(self, run: Run) -> bool:
        return self.asker(run) is not None

    def asker(self, run: Run) -> Run | None:
        """This run or the child run that has a question."""
        driven = self.supervisor.driven
        while run.question is None and run.child in driven:
            run = driven[run.child].run
        return run if run.question else None

    # ---- keys and signals ----

    @contextlib.contextmanager
    def _keys(self) -> Generator[None]:
        """Where it stays for a person, an open question can be answered with a key."""
        with contextlib.ExitStack() as stack:
            if self.stay:
                keys = stack.enter_context(answer_keys(self.app, self.screen, self._askers))
                if keys is not None:
                    self.supervisor.listen_to(keys.source, lambda: self._on_key(keys))
                    stack.callback(self.supervisor.forget, keys.source)
            yield

    def _on_key(self, keys: AnswerKeys) -> None:
        keys.key()
        if keys.closed:
            self.supervisor.forget(keys.source)

    def _askers(self) -> list[Run]:
        return [run for run in map(self.asker, self.roots) if run is not None]

    @contextlib.contextmanager
    def _signals(self) -> Generator[None]:
        """A signal becomes a byte that wakes the loop, so nothing is interrupted halfway."""
        reader, writer = socket.socketpair()
        reader.setblocking(False)
        writer.setblocking(False)
        before = {number: signal.signal(number, self._count_press) for number in SIGNALS}
        previous = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
        self.supervisor.listen_to(reader, lambda: self._on_signal(reader))
        try:
            yield
        finally:
            signal.set_wakeup_fd(previous)
            for number, handler in before.items():
                signal.signal(number, handler)
            reader.close()
            writer.close()

    def _count_press(self, number: int, _frame: FrameType | None) -> None:
        self.presses += 1 if number == signal.SIGINT else 2
        if number == signal.SIGINT and self.presses > EXIT_PRESSES:
            os._exit(INTERRUPTED)

    def _on_signal(self, reader: socket.socket) -> None:
        """Act on the signals so far. More may come meanwhile; asking twice does no harm."""
        with contextlib.suppress(BlockingIOError):
            while reader.recv(64):
                pass
        if not self.presses or self._done():
            return
        self.supervisor.ask("interrupt")
        if self.presses == 1:
            self.screen.warn("Stopping after this turn. Press Ctrl+C again to stop now.")
            return
        self.screen.warn("Stopping now.")
        self.supervisor.stop_now()


# ---- run ---------------------------------------------------------------------------------------------------


@click.command(
    epilog=examples(
        'flyball run "Fix the failing test" --agent mechanic',
        "flyball run @task.md --machine loop --set limits.turns=20 --json",
        'flyball run "Add a flag" --agent "command:my-agent {prompt}" --breakpoint write',
    )
)
@click.argument("task")
@click.option("--machine", default="", metavar="M", help="build (default), loop, review, task or your own.")
@click.option("--agent", "agents", multiple=True, metavar="[ROLE=]X", help="The agent, for all roles or one.")
@REPO
@SET
@click.option("--breakpoint", "breakpoints", multiple=True, metavar="STATE", help="Pause after this state.")
@click.option("--pass-env", multiple=True, metavar="NAME", help="Give agents this environment variable.")
@TRUST
@click.option("--json", "as_json", is_flag=True, help="Print a JSON summary; progress goes to stderr.")
@click.option("--detach", is_flag=True, help="Run in the background and print the run's id.")
@WAIT
@click.option("--with-changes", is_flag=True, help="Include your uncommitted changes.")
def run(
    task: str,
    machine: str,
    agents: tuple[str, ...],
    repo: Path,
    sets: tuple[str, ...],
    breakpoints: tuple[str, ...],
    pass_env: tuple[str, ...],
    trusted: bool,
    as_json: bool,
    detach: bool,
    wait: bool | None,
    with_changes: bool,
) -> int:
    """Run an agent on a task until it is proved done or needs you.

    TASK is text or @file. The agent works in its own checkout, on the branch flyball/RUN; your files are not
    touched until `flyball land`.

    Exit codes: 0 done, 1 failed, 2 bad input, 3 a question is open, 4 blocked by the guard, 5 a limit is used up,
    130 Ctrl+C.
    """
    request = RunRequest(
        task=task_text(decode_argument(task), Path.cwd()),
        repo=repo,
        machine=machine,
        agents=agents,
        sets=sets,
        breakpoints=breakpoints,
        pass_env=pass_env,
        trusted=trusted,
        with_changes=with_changes,
    )
    with open_app() as app:
        if detach:
            return _detach(app, request, as_json)
        began, repository = launch(app, request)
        return run_here(app, began, repository, open_screen(as_json), wait, as_json)


def run_here(
    app: App, began: e.RunBegan, repo: Repo, screen: Screen, wait: bool | None, as_json: bool
) -> int:
    """Run a new run in this process, until it has ended or waits for a person."""
    for line in notices(began, repo):
        screen.alert(line)
    with Session(app, screen, is_terminal() if wait is None else wait) as session:
        session.begin(began)
        session.drive()
        return _finish(app, session, as_json)


def notices(began: e.RunBegan, repo: Repo) -> list[str]:
    """What a person should know before the run starts."""
    lines: list[str] = []
    if not began.settings.proof:
        lines.append(
            "NO PROOF: no test command is configured, so nothing checks the result; the run ends as unproven. "
            "Set [proof] commands in .flyball/flyball.toml, or run `flyball init`."
        )
    lines += _unmeasured(began.settings)
    changes = [] if began.with_changes else uncommitted(repo)
    if changes:
        lines.append(
            f"You have uncommitted changes: {first_few(changes, 3)}. The run starts from HEAD ({began.commit[:10]}) "
            "without them; use --with-changes to include them."
        )
    return lines


def _unmeasured(settings: Settings) -> list[str]:
    """A budget that nobody can measure is none: say what bounds the run instead."""
    budget, agents = settings.budget, set(settings.agents.values())
    silent = sorted(agent for agent in agents if not (without_model(agent) or reports(agent)))
    parts = [dollars(budget.uusd)] if budget.uusd is not None else []
    parts += [f"{budget.tokens:,} tokens"] if budget.tokens is not None else []
    if not parts or not silent:
        return []
    names, wall = ", ".join(map(agent_name, silent)), budget.wall_us
    time = f" and {show_duration(wall)} of working time" if wall is not None else ""
    line = (
        f"The cost of {names} may not be known to Flyball, so the budget of {' and '.join(parts)} may not stop the run. "
        f"The limits on turns{time} do."
    )
    return [line]


def _finish(app: App, session: Session, as_json: bool) -> int:
    for run in session.roots:
        if as_json:
            print_json(summary(run, asking(app, run)))
        else:
            session.screen.finish(run, closing(app, run))
    return session.exit_code()


# ---- in the background -----------------------------------------------------------------------------------


def _detach(app: App, request: RunRequest, as_json: bool) -> int:
    began, repo = launch(app, request)
    for line in notices(began, repo):
        say(line, err=True)
    with Session(app, Screen(), stay=False) as session:
        run = session.begin(began)
    log = _start_driver(app, run)
    if as_json:
        print_json({**summary(run, asking(app, run)), "log": str(log)})
        return 0
    click.echo(run.id)
    say(f"Running in the background. Follow it with `flyball watch {run.id}`.", err=True)
    return 0


def _start_driver(app: App, run: Run) -> Path:
    """Start a process in its own session. -P keeps files of the current folder from being imported as modules."""
    log = app.dirs.run(run.id).driver_log
    log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    argv = [sys.executable, "-P", "-m", "flyball", "resume", run.id, "--wait"]
    subprocess.Popen(
        argv, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True, cwd=app.state_dir
    )
    os.close(out)
    return log


# ---- resume ----------------------------------------------------------------------------------------------


@click.command(
    epilog=examples(
        "flyball resume              # every run of this repository that can continue",
        "flyball resume 9apx47xk",
        "flyball resume @last --json",
    )
)
@click.argument("run_name", metavar="[RUN]", default="")
@JSON
@WAIT
def resume(run_name: str, as_json: bool, wait: bool | None) -> int:
    """Continue a run after an answer, a pause, Ctrl+C or a crash.

    Without RUN: every run of this repository that is not running and has no unanswered question.
    """
    with open_app() as app:
        if not run_name:
            return _resume_all(app, as_json, wait)
        if _went_on(app, run_name, as_json):
            return 0
        run = resumable(app, run_name)
        asker = asking(app, run)
        if asker is not None and not _can_continue(app, run, asker) and not wait:
            return _show_question(app, run, asker, as_json)
        return _continue(app, [run.id], as_json, wait)


def _went_on(app: App, name: str, as_json: bool) -> bool:
    """A run that a person paused while a process, such as `flyball up`, runs it: that process continues it."""
    try:
        run = app.read(app.find(name))
    except NotFound:
        return False
    if not paused(run) or not app.driven(run.id):
        return False
    delivered = app.send(run, Ask(what=RESUME, who=getpass.getuser()))
    if as_json:
        print_json({"run": run.id, "asked": RESUME, "delivered": delivered})
    else:
        click.echo(f"Run {run.id} continues.")
    return True


def resumable(app: App, name: str) -> Run:
    """The top-level run that is meant, or the reason why it cannot be resumed."""
    try:
        root = root_of(app, app.find(name))
    except NotFound as problem:
        raise _with_code(NotFound, str(problem).partition(". ")[0], "ALO_LOOP_NOT_FOUND", name) from None
    run = app.read(root)
    if run.status == "ended":
        code = run.stop.code if run.stop else run.end
        raise _with_code(NotPaused, f"Run {root} has already ended ({code})", "ALO_LOOP_NOT_PAUSED", root)
    if app.driven(root):
        message = f"Run {root} is already running in another process"
        raise _with_code(AlreadyRunning, message, "ALO_LOOP_ALREADY_RUNNING", root)
    if run.machine.standing or run.began.parent:
        raise UserError(f"Run {root} belongs to `flyball up`. Continue with `flyball up`.")
    return run


def _with_code(kind: type[UserError], message: str, code: str, run_id: str) -> UserError:
    return kind(f"{message}. {RECOVERY[code].replace('RUN', run_id)} ({code})")


def _can_continue(app: App, run: Run, asker: Run) -> bool:
    """A breakpoint is answered by `resume` itself; any other question needs an answer first."""
    at_breakpoint = asker.stop is not None and asker.stop.code == "wait.breakpoint"
    return at_breakpoint or _is_settled(app, run, asker)


def _is_settled(app: App, run: Run, asker: Run) -> bool:
    """The question is answered, or the run's cooldown is over."""
    cooled = asker.until is not None and app.clock.now() >= asker.until
    return cooled or pending_answer(app, asker) or pending_answer(app, run)


def _show_question(app: App, run: Run, asker: Run, as_json: bool) -> int:
    if as_json:
        print_json(summary(run, asking(app, run)))
    else:
        say("\n".join((f"Run {run.id} needs an answer before it can continue.", *question_lines(asker))))
    return run_view.exit_code(run)


def _resume_all(app: App, as_json: bool, wait: bool | None) -> int:
    repo = repository_of(Path.cwd())
    if repo is None:
        raise UserError(f"{Path.cwd()} is not in a git repository. Name a run: flyball resume RUN.")
    run_ids = idle_runs(app, str(repo))
    if not run_ids and not as_json:
        say(f"Nothing to resume in {repo}. `flyball inbox` lists open questions.")
    return _continue(app, run_ids, as_json, wait) if run_ids else 0


def idle_runs(app: App, repo: str) -> list[str]:
    """The top-level runs of a repository that no process runs and that have no unanswered question."""
    rows = [row for row in app.journal.rows(repo=repo, parent="") if row.status != "ended"]
    return [row.run for row in reversed(rows) if not app.driven(row.run) and _needs_nobody(app, row.run)]


def _needs_nobody(app: App, run_id: str) -> bool:
    """Lanes are continued by `up`."""
    run = app.read(run_id)
    asker = asking(app, run)
    return not run.machine.standing and (asker is None or _is_settled(app, run, asker))


def _continue(app: App, run_ids: list[str], as_json: bool, wait: bool | None) -> int:
    screen = open_screen(as_json)
    if len(run_ids) > 1:
        screen.names_runs = True
        screen.say(f"Resuming {len(run_ids)} runs: {', '.join(run_ids)}.")
    with Session(app, screen, is_terminal() if wait is None else wait) as session:
        for run_id in run_ids:
            _check_head(app, run_id)
            _check_repository(app.read(run_id))
            for row in reversed(app.journal.rows(root=run_id)):
                screen.add(app.read(row.run))
            run = app.read(run_id)
            if run.status == "running":  # a run that was paused says itself that it continues
                screen.say(f"Run {run_id} continues in '{run.state}'.")
            session.adopt(run_id)
        session.drive()
        return _finish(app, session, as_json)


def _check_head(app: App, run_id: str) -> None:
    """An older copy of the journal would repeat what was already done."""
    fault = app.heads.rolled_back(run_id, app.journal)
    if fault:
        raise Corrupt(f"{fault.message} Restore the newer copy of {app.dirs.journal}.")


def _check_repository(run: Run) -> None:
    if not Path(run.began.repo).is_dir():
        raise UserError(
            f"The repository {run.began.repo} of run {run.id} does not exist. Restore it and run "
            f"`flyball resume {run.id}`, or end the run with `flyball cancel {run.id}`."
        )
