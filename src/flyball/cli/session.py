"""Drives runs in this process until each has ended or waits for a person.

Ctrl+C once stops after the current turn, twice stops now, a third time exits at once. SIGTERM and a closed terminal
stop now. The runs can always be resumed.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from collections.abc import Callable, Generator
from types import FrameType

from flyball.cli.keys import AnswerKeys, answer_keys
from flyball.cli.screen import Screen
from flyball.core.run import Run
from flyball.domain import events as e
from flyball.errors import AlreadyRunning, Fenced, FlyballError, JournalError
from flyball.journal.driver import Driver
from flyball.runtime.app import App
from flyball.system.retention import prune_daily
from flyball.views import run_view

INTERRUPTED = 130
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
EXIT_PRESSES = 3


class Session:
    def __init__(self, app: App, screen: Screen, stay: bool) -> None:
        self.app, self.screen, self.stay = app, screen, stay
        screen.stays = stay
        self.driver = Driver(app.state_dir)
        self.supervisor = app.supervisor(self.driver, screen.event, screen.show_call)
        self.roots: list[str] = []
        self.presses = 0
        self.standing = False  # it stays also where every run waits

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(FlyballError, OSError):
            self.app.heads.flush()  # while the leases are held: a stopped run has a signed head
        with contextlib.suppress(FlyballError, OSError):
            self.supervisor.close()
        self.driver.close()
        prune_daily(self.app)

    # ---- runs ----

    def begin(self, event: e.RunBegan) -> Run:
        self.roots.append(event.run)
        return self.supervisor.begin(event)

    def adopt(self, run_id: str) -> None:
        self.supervisor.adopt(run_id)
        self.roots.append(run_id)

    def run_errands(self, run_id: str) -> Run:
        """Apply what a person sent to a run that is not running; the run itself does not continue."""
        self.roots.append(run_id)
        with self._signals():
            return self.supervisor.run_errands(run_id)

    def run(self, root: str) -> Run:
        return self.supervisor.driven[root].run

    def drive(
        self, feed: Callable[[], bool] | None = None, until: Callable[[], int | None] | None = None
    ) -> None:
        """Run until every run has ended or waits for a person; `feed` may give more to do meanwhile."""
        try:
            with self._signals(), self._keys(), self.screen.shown():
                self.supervisor.drive(self._done, feed, until)
        except (Fenced, AlreadyRunning):
            raise
        except JournalError as problem:
            names = " ".join(self.roots)
            raise JournalError(f"{problem} Then continue with `flyball resume {names}`.") from problem

    def exit_code(self) -> int:
        return max((self._code(self.run(root)) for root in self.roots), default=0)

    def _code(self, run: Run) -> int:
        return INTERRUPTED if self.presses and run.status != "ended" else run_view.exit_code(run)

    # ---- when to stop ----

    def _done(self) -> bool:
        if self.standing and not self.presses:
            return False
        return all(self._rests(self.run(root)) for root in self.roots) and not self.supervisor.ending

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
                keys = stack.enter_context(answer_keys(self.app, self.screen, self._asker))
                if keys is not None:
                    self.supervisor.listen_to(keys.source, lambda: self._on_key(keys))
                    stack.callback(self.supervisor.forget, keys.source)
            yield

    def _on_key(self, keys: AnswerKeys) -> None:
        keys.key()
        if keys.closed:
            self.supervisor.forget(keys.source)

    def _asker(self) -> Run | None:
        askers = (self.asker(self.run(root)) for root in self.roots)
        return next((run for run in askers if run is not None), None)

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
