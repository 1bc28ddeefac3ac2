"""Answer a question on the terminal with one key: the change is shown, and each verb has a letter."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import sys
import termios
import time
import tty
from collections.abc import Callable, Generator, Sequence

import click

from flyball.cli.answers import send_answer
from flyball.cli.screen import Screen, Terminal
from flyball.cli.shown_diff import coloured
from flyball.errors import FlyballError
from flyball.runtime.app import App
from flyball.runtime.questions import ABOUT_A_CHANGE, NEEDS_TEXT, change_of
from flyball.state.run import Run
from flyball.views.choices import SHOW, choices, keys_of
from flyball.views.text import fields

TAKES_REASON = ("reject",)
ESCAPES = 16  # bytes that a key may send, at most
ROOM = 14  # lines that a question itself takes
Askers = Callable[[], Sequence[Run]]
CLOSED = (OSError, ValueError, termios.error)  # what a closed terminal raises


def letters_of(run: Run) -> dict[str, str]:
    return keys_of(run.question) if run.question else {}


def key_list(run: Run, *more: str) -> str:
    """What a key that means nothing is answered with."""
    keys = [f"{key} {verb}" for key, verb in letters_of(run).items()]
    shows = [f"{SHOW} diff"] if run.question and run.question.kind in ABOUT_A_CHANGE else []
    return f"No answer has this key. Keys: {' · '.join((*keys, *shows, *more))}"


def show_change(app: App, run: Run) -> None:
    """In the pager, which shows colours and leaves a short change on the screen, as it does for git."""
    os.environ.setdefault("LESS", "FRX")
    text = "\n".join(coloured(line) for line in change_of(app, run)) or "No files were changed."
    click.echo_via_pager(text, color=True)


def take_answer(app: App, run: Run, verb: str, *, quiet: bool = False) -> bool:
    """Ask for the text where the verb takes one, and send the answer. False: nothing was sent.

    `quiet`: the run is shown on this terminal, and says that it was answered.
    """
    text = ""
    try:
        if verb in NEEDS_TEXT:
            text = _line("Your text for the agent (empty line: back)")
        elif verb in TAKES_REASON:
            text = _line("Your reason, for the agent (empty line: none, Ctrl+C: back)")
        if (verb in NEEDS_TEXT and not text.strip()) or (verb == "cancel" and not _confirmed(run)):
            click.echo("Not answered.")
            return False
        send_answer(app, run, verb, text, quiet=quiet)
    except (click.Abort, KeyboardInterrupt):
        click.echo("\nNot answered.")
        return False
    except FlyballError as problem:
        click.echo(str(problem), err=True)
        return False
    return True


def _line(prompt: str) -> str:
    return str(click.prompt(prompt, default="", show_default=False))


def _confirmed(run: Run) -> bool:
    """A run is not ended for good by one key."""
    click.echo(f"Cancel run {run.id} for good? y/N ", nl=False)
    key = click.getchar()
    click.echo(key if key.isprintable() else "")
    return key.lower() == "y"


@contextlib.contextmanager
def answer_keys(app: App, screen: Screen, askers: Askers) -> Generator[AnswerKeys | None]:
    """While a run is shown on a terminal with a person at it, its questions can be answered with keys."""
    keys = _open(app, screen, askers) if isinstance(screen, Terminal) else None
    if keys is None:
        yield None
        return
    screen.hint, screen.letters = keys.hint, letters_of
    try:
        yield keys
    finally:
        keys.close()


def _open(app: App, screen: Terminal, askers: Askers) -> AnswerKeys | None:
    with contextlib.suppress(*CLOSED):
        if sys.stdin.isatty():
            return AnswerKeys(app, screen, sys.stdin.fileno(), askers)
    return None


def _how_to(show: str) -> list[str]:
    """The last lines below a question."""
    return [*(fields([(f"{SHOW} diff", show)]) if show else []), "  Press a key to answer."]


class AnswerKeys:
    """Shows what a question is about, and takes the answer. A terminal that was closed gives no more keys.

    A key answers the question that was shown last, and no other. Then the next open one is shown.
    """

    def __init__(self, app: App, screen: Terminal, terminal: int, askers: Askers) -> None:
        """`askers`: the runs that have a question now."""
        self.app, self.screen, self.askers = app, screen, askers
        self.shown = ""  # the id of the question that was shown last
        self.answered = set[str]()
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
        self.shown = run.question.id
        lines = change_of(self.app, run)
        fits = max(5, shutil.get_terminal_size().lines - ROOM)
        with contextlib.suppress(*CLOSED), self.screen.aside():
            for line in ("", *lines[:fits]) if lines else ():
                click.echo(coloured(line), color=True)
        more = f" ({len(lines) - fits} more lines)" if len(lines) > fits else ""
        return _how_to(f"show the whole change{more}" if lines else "")

    def key(self) -> None:
        """One key was pressed. Without a question it does nothing."""
        pressed = b""
        with contextlib.suppress(OSError):
            pressed = os.read(self.source, 1)
            if pressed == b"\x1b" and select.select([self.source], [], [], 0)[0]:
                os.read(self.source, ESCAPES)  # the rest of an arrow key
        self.closed = not pressed
        letter = pressed.decode("ascii", "replace").lower()
        runs = self._open_questions()
        run = runs.get(self.shown)
        if run is None:
            self._show_next(runs)
        elif letter in (SHOW, *letters_of(run)):
            self._act(run, letter)
        elif not self.closed:
            self.screen.say(key_list(run))

    def _open_questions(self) -> dict[str, Run]:
        """The runs that wait for an answer, by their questions."""
        runs = {run.question.id: run for run in self.askers() if run.question}
        return {name: run for name, run in runs.items() if name not in self.answered}

    def _show_next(self, runs: dict[str, Run]) -> None:
        for run in list(runs.values())[:1]:
            self.screen.show_question(run)

    def _act(self, run: Run, letter: str) -> None:
        try:
            with self.screen.aside(), self._line_mode():
                if letter == SHOW:
                    show_change(self.app, run)
                elif take_answer(self.app, run, letters_of(run)[letter], quiet=True):
                    self.answered.add(self.shown)
        except CLOSED:
            self.closed = True
        if self.shown in self.answered:
            self._show_next(self._open_questions())
        elif not self.closed:
            has_change = bool(change_of(self.app, run))
            options = fields(choices(run.question, letters_of(run))) if run.question else []
            head = f"Question {self.shown} is still open."
            self.screen.ask([head, *options, *_how_to("show the whole change" if has_change else "")])

    @contextlib.contextmanager
    def _line_mode(self) -> Generator[None]:
        """Lines and echo, for a pager or a prompt. There Ctrl+C leads back, and stops no run."""
        termios.tcsetattr(self.source, termios.TCSADRAIN, self.before)
        handler = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            with contextlib.suppress(KeyboardInterrupt):
                yield
        finally:
            signal.signal(signal.SIGINT, handler)
            tty.setcbreak(self.source, termios.TCSADRAIN)
