"""`flyball inbox` on a terminal: one question after the other, each with its change, answered with a key."""

from __future__ import annotations

import shutil

import click

from flyball.cli import say, terminal_width
from flyball.cli.keys import ROOM, key_list, letters_of, show_change, take_answer
from flyball.cli.shown_diff import coloured
from flyball.runtime.app import App
from flyball.runtime.questions import change_of
from flyball.state.run import Run
from flyball.views.choices import QUIT, SHOW, choices
from flyball.views.text import fields, plural

NEXT, BACK = ("\x1b[C", "]"), ("\x1b[D", "[")  # an arrow, or a bracket
MOVES = f"→ next · ← previous · {QUIT} quit"
LEAVES = ("\x03", "\x04", "\x1b", QUIT)  # Ctrl+C, Ctrl+D, Escape


def work_through(app: App, questions: list[tuple[str, str]]) -> None:
    """`questions`: the run that asks, and the question as text."""
    place = 0
    while 0 <= place < len(questions):
        name, text = questions[place]
        run = app.read(name)
        if run.question is None:
            say(f"The question of run {name} was answered meanwhile.")
            del questions[place]
            continue
        _show(app, run, text, f"Question {place + 1} of {len(questions)}")
        match _choice(app, run):
            case "answered":
                del questions[place]
            case "next":
                place += 1
            case "back":
                place = max(0, place - 1)
            case _:
                break
    remaining = len(questions)
    say(f"{plural(remaining, 'question')} still open." if remaining else "No open questions are left.")


def _show(app: App, run: Run, text: str, title: str) -> None:
    say(f"\n{title}\n\n{text}")
    assert run.question is not None
    lines, fits = change_of(app, run), max(5, shutil.get_terminal_size().lines - ROOM)
    if lines:
        click.echo()
    for line in lines[:fits]:
        click.echo(coloured(line))
    more = f" ({len(lines) - fits} more lines)" if len(lines) > fits else ""
    _show_keys(run, f"show the whole change{more}" if lines else "")


def _show_keys(run: Run, show: str) -> None:
    assert run.question is not None
    rows = [*choices(run.question, letters_of(run)), *([(f"{SHOW} diff", show)] if show else [])]
    say("\n".join(("", *fields(rows, terminal_width()))))
    say(f"  Press a key to answer, or: {MOVES}")


def _choice(app: App, run: Run) -> str:
    """What the person does with the question: answered | next | back | quit."""
    verbs = letters_of(run)
    while True:
        key = click.getchar()
        key = key.lower() if len(key) == 1 else key
        if key in LEAVES or not key:
            return "quit"
        if key in NEXT:
            return "next"
        if key in BACK:
            return "back"
        if key == SHOW:
            show_change(app, run)
        elif key not in verbs:
            say(key_list(run, MOVES))
            continue
        elif take_answer(app, run, verbs[key]):
            return "answered"
        _show_keys(run, "show the whole change" if change_of(app, run) else "")
