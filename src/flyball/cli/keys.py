"""Answer a question on the terminal with one key: the change is shown, and each verb has a letter."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import sys
import termios
import time
import tty
from collections.abc import Callable, Generator

import click

from flyball.cli.answers import NEEDS_TEXT, send_answer
from flyball.cli.screen import Screen, Terminal
from flyball.cli.shown_diff import coloured, diff_of
from flyball.errors import FlyballError
from flyball.reading.terminal import spelled_out
from flyball.runtime.app import App
from flyball.state.run import Run
from flyball.views.choices import offered
from flyball.views.text import fields

ABOUT_A_CHANGE = ("approval", "evidence", "block", "breakpoint")
TAKES_REASON = ("reject",)
ROOM = 14  # lines that a question itself takes
SHOW = "d"
CLOSED = (OSError, ValueError, termios.error)  # what a terminal raises that is not there any more


def letters(verbs: tuple[str, ...], taken: str = SHOW) -> dict[str, str]:
    """A letter for each verb: its first one that is not taken yet. `d` shows the change."""
    chosen = dict.fromkeys(taken, "")
    for verb in verbs:
        free = next((letter for letter in verb if letter.isalpha() and letter not in chosen), "")
        chosen |= {free: verb} if free else {}
    return {letter: verb for letter, verb in chosen.items() if verb}


def letters_of(run: Run) -> dict[str, str]:
    return letters(offered(run.question)) if run.question else {}


def change_of(app: App, run: Run) -> list[str]:
    """The change that the run's question is about, line by line."""
    assert run.question is not None
    if run.question.kind not in ABOUT_A_CHANGE:
        return []
    with contextlib.suppress(FlyballError):
        return spelled_out(diff_of(app, run, stat=False)).splitlines()
    return []


def show_change(app: App, run: Run) -> None:
    text = "\n".join(coloured(line) for line in change_of(app, run)) or "No files were changed."
    click.echo_via_pager(text, color=True)


def take_answer(app: App, run: Run, verb: str, *, quiet: bool = False) -> bool:
    """Ask for the text where the verb takes one, and send the answer. False: nothing was sent.

    `quiet`: the run is shown on this terminal, and says that it was answered.
    """
    text = ""
    try:
        if verb in NEEDS_TEXT:
            text = click.prompt("Your text for the agent")
        elif verb in TAKES_REASON:
            text = click.prompt("Your reason, for the agent (Enter for none)", default="", show_default=False)
        send_answer(app, run, verb, text, quiet=quiet)
    except click.Abort:
        click.echo("Not answered.")
        return False
    except FlyballError as problem:
        click.echo(str(problem), err=True)
        return False
    return True


@contextlib.contextmanager
def answer_keys(app: App, screen: Screen, asker: Callable[[], Run | None]) -> Generator[AnswerKeys | None]:
    """While a run is shown on a terminal with a person at it, its questions can be answered with keys."""
    keys = _open(app, screen, asker) if isinstance(screen, Terminal) else None
    if keys is None:
        yield None
        return
    screen.hint, screen.letters = keys.hint, letters_of
    try:
        yield keys
    finally:
        keys.close()


def _open(app: App, screen: Terminal, asker: Callable[[], Run | None]) -> AnswerKeys | None:
    with contextlib.suppress(*CLOSED):
        if sys.stdin.isatty():
            return AnswerKeys(app, screen, sys.stdin.fileno(), asker)
    return None


class AnswerKeys:
    """Shows what a question is about, and takes the answer. A terminal that was closed gives no more keys."""

    def __init__(self, app: App, screen: Terminal, terminal: int, asker: Callable[[], Run | None]) -> None:
        """`asker`: the run that has a question now."""
        self.app, self.screen, self.asker = app, screen, asker
        self.before = termios.tcgetattr(terminal)
        tty.setcbreak(terminal)
        self.source = os.dup(terminal)
        self.closed = False

    def close(self) -> None:
        with contextlib.suppress(*CLOSED):
            termios.tcsetattr(self.source, termios.TCSADRAIN, self.before)
        os.close(self.source)

    def pause(self, seconds: float) -> None:
        """Wait for a key, but not longer than this."""
        if self.closed:
            time.sleep(seconds)
        elif select.select([self.source], [], [], seconds)[0]:
            self.key()

    def hint(self, run: Run) -> list[str]:
        """The change, as much as fits. What was typed before the question is not an answer to it."""
        with contextlib.suppress(*CLOSED):
            termios.tcflush(self.source, termios.TCIFLUSH)
        assert run.question is not None
        lines = change_of(self.app, run)
        fits = max(5, shutil.get_terminal_size().lines - ROOM)
        with contextlib.suppress(*CLOSED), self.screen.aside():
            for line in ("", *lines[:fits]) if lines else ():
                click.echo(coloured(line), color=True)
        more = f" ({len(lines) - fits} more lines)" if len(lines) > fits else ""
        show = fields([(f"{SHOW} diff", f"show the whole change{more}")]) if lines else []
        return [*show, "  Press a key to answer."]

    def key(self) -> None:
        """One key was pressed. Without a question, or without a meaning, it does nothing."""
        pressed = b""
        with contextlib.suppress(OSError):
            pressed = os.read(self.source, 1)
        self.closed = not pressed
        letter = pressed.decode("ascii", "replace").lower()
        run = self.asker()
        if run is None or letter not in (SHOW, *letters_of(run)):
            return
        try:
            with self.screen.aside(), self._line_mode():
                if letter == SHOW:
                    show_change(self.app, run)
                else:
                    take_answer(self.app, run, letters_of(run)[letter], quiet=True)
        except CLOSED:
            self.closed = True

    @contextlib.contextmanager
    def _line_mode(self) -> Generator[None]:
        """Lines and echo, for a pager or a prompt."""
        termios.tcsetattr(self.source, termios.TCSADRAIN, self.before)
        try:
            yield
        finally:
            tty.setcbreak(self.source, termios.TCSADRAIN)
