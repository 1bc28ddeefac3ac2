"""Which runs are meant, and what is told of them: shared by the commands that start, look and answer."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Generator
from io import TextIOWrapper
from pathlib import Path
from typing import Any

import click

from flyball.core.letters import settles
from flyball.core.run import Run
from flyball.errors import FlyballError, WorkspaceError
from flyball.journal import Row
from flyball.runtime.app import App
from flyball.views import run_view
from flyball.views.text import clean, many, one_line, some
from flyball.workspace.git import reading_user, text


@contextlib.contextmanager
def open_house() -> Generator[App]:
    _tolerate_narrow_encodings()
    app = App(here=lambda: repository(Path.cwd()))
    try:
        yield app
    finally:
        with contextlib.suppress(FlyballError):
            app.close()


def print_json(value: Any) -> None:
    click.echo(json.dumps(value))


# ---- places ----------------------------------------------------------------------------------------------


def repository(path: Path) -> str:
    """The top folder of the repository that the path is in; "" if it is in none."""
    if not path.exists():
        raise WorkspaceError(f"{path} does not exist; name a folder of a git repository.")
    found = reading_user(path.resolve(), "rev-parse", "--show-toplevel", ok=range(256))
    named = text(found.out).strip()
    return str(Path(named).resolve()) if found.code == 0 and named else ""


# ---- a run and what runs below it ------------------------------------------------------------------------


def root_of(app: App, run_id: str) -> str:
    row = app.journal.row(run_id)
    return row.root if row and row.root else run_id


def family(app: App, run: Run) -> list[Run]:
    """The run, its child in flight, that one's child …"""
    found = [run]
    while found[-1].child and app.journal.row(found[-1].child):
        found.append(app.read(found[-1].child))
    return found


def asking(app: App, run: Run) -> Run | None:
    """The run whose question keeps this one waiting: itself or one below it."""
    return next((member for member in family(app, run) if member.question), None)


def answered_by_mail(app: App, run: Run) -> bool:
    """A letter that waits for the driver and settles the open question."""
    mail = app.journal.mail(run.id)
    return any(settles(run, letter.body) and not app.seals.fault(letter) for letter in mail)


def undriven(app: App, row: Row | Run) -> bool:
    """It should be going on, and nobody makes it."""
    run_id = row.run if isinstance(row, Row) else row.id
    return row.status in ("running", "waiting") and not app.driven(run_id)


# ---- what is told ----------------------------------------------------------------------------------------


def summary(app: App, run: Run) -> dict[str, Any]:
    """The one object of `--json`; a question of a run below shows as the run's."""
    told = run_view.summary(run)
    asks = asking(app, run)
    if asks is not None:
        told["question"] = run_view.summary(asks)["question"]
    return told


def why(app: App, run: Run) -> list[str]:
    """Three sentences. A question of a run below is named, and that nobody drives the run."""
    said = run_view.why(run)
    asks = asking(app, run)
    if run.stop is None and not app.driven(run.id):
        said[-1] = f"Nothing drives it now; `flyball resume {run.began.root or run.id}` goes on."
    elif asks is not None and asks is not run:
        said[-1] = f"{said[-1]} {run_view.next_step(asks)}".strip()
    return [" ".join(clean(sentence).split()) for sentence in said]


def question_lines(run: Run) -> list[str]:
    """The open question of a run: what is asked, and how to answer."""
    question = run.question
    if question is None:
        return []
    asked = clean(question.text).strip().splitlines() or [""]
    return [
        f"Question {question.id} ({question.kind}):",
        *(f"  {line}" for line in asked),
        f"  Answer: flyball answer {question.id} {'|'.join(question.verbs)}",
    ]


def certificate_file(app: App, run: Run) -> Path | None:
    path = app.dirs.run(run.id).certificate
    return path if run.certificate and path.exists() else None


def closing(app: App, run: Run) -> list[str]:
    """What a person sees when `run` lets go: why, where the work is, and how to look further."""
    lines = why(app, run)
    asks = asking(app, run)
    if asks is not None:
        lines += ["", *question_lines(asks)]
    return [*lines, "", *(f"  {name:<12} {value}" for name, value in _places(app, run))]


def _places(app: App, run: Run) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    if not run.settings.proof:
        found.append(("proof", "unproven: no proof command is configured ([proof] commands)"))
    if run.owner and run.changed:
        found.append(
            ("branch", f"flyball/{run.id}, {many(len(run.changed), 'file')} changed: {some(run.changed)}")
        )
    certificate = certificate_file(app, run)
    if certificate:
        found.append(("certificate", str(certificate)))
    if not (run.status == "ended" or asking(app, run)):
        found.append(("go on", f"flyball resume {run.id}"))
    found.append(("look", f"flyball show {run.id} · flyball log {run.id} · flyball diff {run.id}"))
    return found


def title(run: Run) -> str:
    return f"{run.id} ({run.machine.name}): {one_line(run.began.task, 80)}"


def _tolerate_narrow_encodings() -> None:
    """A character that the terminal cannot show is no reason to fail."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")
