"""The performer of the supervisor: each act runs in its own thread and its result is posted back. Only the loop appends events."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable

from flyball.acts.checks import check
from flyball.acts.commit import commit, land
from flyball.acts.prepare import prepare, restore
from flyball.acts.proof import prove
from flyball.acts.run_files import RunFiles, SetupStopped
from flyball.acts.turn import take_turn
from flyball.agents import process
from flyball.core.decide import Finished, Interrupted
from flyball.domain import events as e
from flyball.errors import FlyballError, Gone
from flyball.evidence import certificate
from flyball.reading.terminal import whole, whole_text
from flyball.state.run import Run
from flyball.state_dir import RunDir
from flyball.workspace import Workspace

News = Finished | Interrupted


class Performer:
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
            left = folder.checkout.exists() and not folder.why_kept.exists()
            if (left or folder.proof.exists()) and ended(folder.path.name):
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
        except FlyballError as problem:
            news = Interrupted(act.key, whole(str(problem)))
        except Exception as problem:  # whatever it is: the loop must know, and the agent is not to blame
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
