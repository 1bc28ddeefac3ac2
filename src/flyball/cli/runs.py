"""Which runs are meant, and what is printed about them: shared by the commands that start, look and answer."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from flyball.core.run import Run
from flyball.domain import events as e
from flyball.views import reasons, run_view
from flyball.views.choices import choices
from flyball.views.text import clean, fields, first_few, plural

if TYPE_CHECKING:
    from flyball.journal import Row
    from flyball.journal.records import Records
    from flyball.runtime.app import App


# ---- a run and its child runs ----------------------------------------------------------------------------


def root_of(records: Records, run_id: str) -> str:
    """The top-level run that a run belongs to."""
    row = records.journal.row(run_id)
    return row.root if row and row.root else run_id


def family(records: Records, run: Run) -> list[Run]:
    """The run, its current child run, that one's child run …"""
    members = [run]
    while members[-1].child and records.journal.row(members[-1].child):
        members.append(records.read(members[-1].child))
    return members


def asking(records: Records, run: Run) -> Run | None:
    """The run with the open question: this one or a child run."""
    return next((member for member in family(records, run) if member.question), None)


def pending_answer(app: App, run: Run) -> bool:
    """An answer, or a cancel, was sent and the run's process has not read it yet."""
    from flyball.core.letters import settles

    mail = app.journal.mail(run.id)
    return any(settles(run, letter.body) and not app.seals.fault(letter) for letter in mail)


def without_process(records: Records, row: Row | Run) -> bool:
    """It should be running, but no process runs it."""
    run_id = row.id if isinstance(row, Run) else row.run
    return row.status in ("running", "waiting") and not records.driven(run_id)


# ---- output ----------------------------------------------------------------------------------------------


def summary(records: Records, run: Run) -> dict[str, Any]:
    """The object of `--json`, with the question of a child run shown as the run's own."""
    facts = run_view.summary(run)
    asker = asking(records, run)
    if asker is not None:
        facts["question"] = run_view.summary(asker)["question"]
    return facts


def why(records: Records, run: Run) -> list[str]:
    """Three sentences: what happened, the evidence, what to do next."""
    sentences = reasons.why(run)
    asker = asking(records, run)
    if run.stop is None and not records.driven(run.id):
        root = run.began.root or run.id
        sentences[0] = f"Run {run.id} is in '{run.state}', but no process is running it."
        sentences[-1] = f"Continue with `flyball resume {root}`."
    elif asker is not None and asker is not run:
        sentences[-1] = reasons.next_step(asker)
    return [" ".join(clean(sentence).split()) for sentence in sentences]


def question_lines(run: Run) -> list[str]:
    """The open question of a run: the text and how to answer."""
    question = run.question
    if question is None:
        return []
    text = clean(question.text).strip().splitlines() or [""]
    return [
        f"Question {question.id} ({question.kind}):",
        *(f"  {line}" for line in text),
        *fields(
            [*_change(run, question), *choices(question), ("to answer", reasons.how_to_answer(question))]
        ),
    ]


def _change(run: Run, question: e.Question) -> list[tuple[str, str]]:
    about_change = question.kind in ("approval", "block", "evidence")
    return [("change", f"flyball diff {run.began.root or run.id}")] if about_change else []


def certificate_file(records: Records, run: Run) -> Path | None:
    path = records.dirs.run(run.id).certificate
    return path if run.checkout.certificate and path.exists() else None


def closing(records: Records, run: Run) -> list[str]:
    """What is printed when `run` or `watch` is done: why it stopped, the question, where the result is."""
    *reason, next_step = why(records, run)
    asker = asking(records, run)
    question = ["", *question_lines(asker)] if asker else []
    steps = [] if asker else reasons.next_steps(run)
    if not steps and not asker:
        reason.append(next_step)
    return [*reason, *question, "", *fields([*_places(records, run), *_steps(steps)])]


def _places(records: Records, run: Run) -> list[tuple[str, str]]:
    certificate = certificate_file(records, run)
    changed = (
        f"{plural(len(run.checkout.changed), 'file')}: {first_few(run.checkout.changed)}"
        if run.checkout.changed
        else ""
    )
    rows = [
        ("changed", changed),
        ("branch", f"flyball/{run.id}" if run.owner and run.checkout.changed else ""),
        ("certificate", str(certificate) if certificate else ""),
        ("details", f"flyball show {run.id}"),
    ]
    return [(name, value) for name, value in rows if value]


def _steps(steps: list[tuple[str, str]]) -> list[tuple[str, str]]:
    width = max((len(command) for command, _ in steps), default=0)
    lines = [f"{command:<{width}}  # {purpose}" for command, purpose in steps]
    return [("next" if number == 0 else "", line) for number, line in enumerate(lines)]
