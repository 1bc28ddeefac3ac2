"""On a terminal a question is answered with a key, where it stands: its change is shown, and each verb has a letter."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import termios
import tty
from collections.abc import Generator
from typing import TYPE_CHECKING

import click

from flyball.cli.answers import WITHOUT_TEXT, send_answer
from flyball.cli.screen import Terminal
from flyball.cli.shown_diff import coloured, diff_of
from flyball.core.run import Run
from flyball.errors import FlyballError
from flyball.reading.terminal import spelled_out

if TYPE_CHECKING:
    from flyball.cli.session import Session

ABOUT_A_CHANGE = ("approval", "evidence", "block", "breakpoint")
NEEDS_TEXT = ("answer", "redirect")
ROOM = 14  # lines that a question itself takes
SHOW = "d"


def letters(verbs: tuple[str, ...]) -> dict[str, str]:
    """A letter for each verb: its first one that is not taken yet. `d` shows the change."""
    chosen = {SHOW: ""}
    for verb in verbs:
        free = next((letter for letter in verb if letter.isalpha() and letter not in chosen), "")
        chosen |= {free: verb} if free else {}
    del chosen[SHOW]
    return chosen


@contextlib.contextmanager
def answer_keys(session: Session) -> Generator[None]:
    """While a session runs on a terminal with a person at it, its questions can be answered with keys."""
    screen = session.screen
    if not (session.stay and isinstance(screen, Terminal) and sys.stdin.isatty()):
        yield
        return
    source = os.dup(sys.stdin.fileno())
    before = termios.tcgetattr(source)
    desk = Desk(session, screen, source)
    screen.hint = desk.hint
    tty.setcbreak(source)
    session.supervisor.listen_to(source, desk.key)
    try:
        yield
    finally:
        session.supervisor.forget(source)
        with contextlib.suppress(termios.error):  # the terminal was closed
            termios.tcsetattr(source, termios.TCSADRAIN, before)
        os.close(source)


class Desk:
    """Shows what a question is about, and takes the answer."""

    def __init__(self, session: Session, screen: Terminal, source: int) -> None:
        self.session, self.screen, self.source = session, screen, source
        self.cooked = termios.tcgetattr(source)

    def hint(self, run: Run) -> list[str]:
        """The change, as much as fits, and the keys. What was typed before the question is no answer to it."""
        termios.tcflush(self.source, termios.TCIFLUSH)
        assert run.question is not None
        lines = self._diff(run)
        fits = max(5, shutil.get_terminal_size().lines - ROOM)
        with self.screen.aside():
            for line in lines[:fits]:
                click.echo(coloured(line), color=True)
        more = [f"… {len(lines) - fits} more lines of the change"] if len(lines) > fits else []
        keys = [f"{letter} {verb}" for letter, verb in letters(run.question.verbs).items()]
        show = [f"{SHOW} show the change"] if lines else []
        return [*more, f"Press a key: {' · '.join((*show, *keys))}"]

    def _diff(self, run: Run) -> list[str]:
        assert run.question is not None
        if run.question.kind not in ABOUT_A_CHANGE:
            return []
        with contextlib.suppress(FlyballError):
            return spelled_out(diff_of(self.session.app, run, stat=False)).splitlines()
        return []

    def key(self) -> None:
        """One key was pressed. Without a question, or without a meaning, it does nothing."""
        pressed = b""
        with contextlib.suppress(OSError):
            pressed = os.read(self.source, 1)
        if not pressed:  # the terminal was closed
            self.session.supervisor.forget(self.source)
            return
        letter = pressed.decode("ascii", "replace").lower()
        askers = (self.session.asker(self.session.run(root)) for root in self.session.roots)
        run = next((run for run in askers if run is not None), None)
        if run is None or run.question is None or letter not in (SHOW, *letters(run.question.verbs)):
            return
        with self.screen.aside(), self._line_mode():
            if letter == SHOW:
                text = "\n".join(coloured(line) for line in self._diff(run)) or "No files were changed."
                click.echo_via_pager(text, color=True)
            else:
                self._answer(run, letters(run.question.verbs)[letter])

    def _answer(self, run: Run, verb: str) -> None:
        text = ""
        try:
            if verb in NEEDS_TEXT:
                text = click.prompt(f"{verb}: what should the agent be told?")
            elif verb not in WITHOUT_TEXT:
                text = click.prompt(f"{verb}: why? (Enter for no reason)", default="", show_default=False)
            send_answer(self.session.app, run, verb, text)
        except click.Abort:
            click.echo("Not answered.")
        except FlyballError as problem:
            click.echo(str(problem), err=True)

    @contextlib.contextmanager
    def _line_mode(self) -> Generator[None]:
        """Lines and echo, for a pager or a prompt."""
        termios.tcsetattr(self.source, termios.TCSADRAIN, self.cooked)
        try:
            yield
        finally:
            tty.setcbreak(self.source, termios.TCSADRAIN)
