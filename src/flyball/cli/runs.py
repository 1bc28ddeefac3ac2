"""Which runs are meant, and what is told of them: shared by the commands that start, look and answer."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Generator
from pathlib import Path
from typing import Any

import click

from flyball.cli.text import clean, forgiving, many, one_line, some
from flyball.core import views
from flyball.core.letters import settles
from flyball.core.run import Run
from flyball.errors import FlyballError, WorkspaceError
from flyball.house import House
from flyball.journal import Row
from flyball.workspace.git import reading_user, text


@contextlib.contextmanager
def open_house() -> Generator[House]:
    forgiving()
    house = House(here=lambda: repository(Path.cwd()))
    try:
        yield house
    finally:
        with contextlib.suppress(FlyballError):
            house.close()


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


def root_of(house: House, run_id: str) -> str:
    row = house.journal.row(run_id)
    return row.root if row and row.root else run_id


def family(house: House, run: Run) -> list[Run]:
    """The run, its child in flight, that one's child …"""
    found = [run]
    while found[-1].child and house.journal.row(found[-1].child):
        found.append(house.read(found[-1].child))
    return found


def asking(house: House, run: Run) -> Run | None:
    """The run whose question keeps this one waiting: itself or one below it."""
    return next((member for member in family(house, run) if member.question), None)


def answered_by_mail(house: House, run: Run) -> bool:
    """A letter that waits for the driver and settles the open question."""
    mail = house.journal.mail(run.id)
    return any(settles(run, letter.body) and not house.seals.fault(letter) for letter in mail)


def undriven(house: House, row: Row | Run) -> bool:
    """It should be going on, and nobody makes it."""
    run_id = row.run if isinstance(row, Row) else row.id
    return row.status in ("running", "waiting") and not house.driven(run_id)


# ---- what is told ----------------------------------------------------------------------------------------


def summary(house: House, run: Run) -> dict[str, Any]:
    """The one object of `--json`; a question of a run below shows as the run's."""
    told = views.summary(run)
    asks = asking(house, run)
    if asks is not None:
        told["question"] = views.summary(asks)["question"]
    return told


def why(house: House, run: Run) -> list[str]:
    """Three sentences. A question of a run below is named, and that nobody drives the run."""
    said = views.why(run)
    asks = asking(house, run)
    if run.stop is None and not house.driven(run.id):
        said[-1] = f"Nothing drives it now; `flyball resume {run.began.root or run.id}` goes on."
    elif asks is not None and asks is not run:
        said[-1] = f"{said[-1]} {views.next_step(asks)}".strip()
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


def certificate_file(house: House, run: Run) -> Path | None:
    path = house.state_dir / "runs" / run.id / "certificate.json"
    return path if run.certificate and path.exists() else None


def closing(house: House, run: Run) -> list[str]:
    """What a person sees when `run` lets go: why, where the work is, and how to look further."""
    lines = why(house, run)
    asks = asking(house, run)
    if asks is not None:
        lines += ["", *question_lines(asks)]
    return [*lines, "", *(f"  {name:<12} {value}" for name, value in _places(house, run))]


def _places(house: House, run: Run) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    if not run.settings.proof:
        found.append(("proof", "unproven: no proof command is configured ([proof] commands)"))
    if run.owner and run.changed:
        found.append(
            ("branch", f"flyball/{run.id}, {many(len(run.changed), 'file')} changed: {some(run.changed)}")
        )
    certificate = certificate_file(house, run)
    if certificate:
        found.append(("certificate", str(certificate)))
    if not (run.status == "ended" or asking(house, run)):
        found.append(("go on", f"flyball resume {run.id}"))
    found.append(("look", f"flyball show {run.id} · flyball log {run.id} · flyball diff {run.id}"))
    return found


def title(run: Run) -> str:
    return f"{run.id} ({run.machine.name}): {one_line(run.began.task, 80)}"
