"""The questions that wait for a person, and the one way to answer them: for the command line and the web page alike.

An answer is bound to the question as it was shown. It never changes a run: it is a message to the process that runs it.
"""

from __future__ import annotations

import contextlib
import getpass
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from flyball.core.mail import settles
from flyball.core.stops import ALERT_STEPS, RAISE, alert_reached
from flyball.domain import events as e
from flyball.domain.messages import Answer, readable
from flyball.domain.settings import rough, show_duration
from flyball.errors import FlyballError, UserError
from flyball.journal import Row
from flyball.journal.records import continues_with, root_of
from flyball.reading.terminal import spelled_out
from flyball.runtime.app import App
from flyball.runtime.facts import diff_of
from flyball.state.run import Run
from flyball.views import reasons
from flyball.views.choices import choices
from flyball.views.text import iso, one_line

NEEDS_TEXT = ("answer", "redirect")
ABOUT_A_CHANGE = ("approval", "evidence", "block", "breakpoint")
WITHOUT_TEXT = ("approve", "go-on", "grant", "raise", "take-over", "cancel")


class Sent(Struct, frozen=True):
    """An answer that was left. `delivered`: a process is running the run and was told of it."""

    question: str
    verb: str
    text: str
    run: str
    root: str
    delivered: bool
    continues: str  # the command that applies the answer, where nothing runs the run
    replaced: str = ""  # the verb of an earlier answer of the same person that it replaces

    def sentence(self) -> str:
        words = f'"{one_line(self.text, 60)}"' if self.verb == "answer" else self.verb
        replaced = " It replaces your earlier answer." if self.replaced else ""
        if self.delivered:
            return f"Answered {self.question} with {words}.{replaced}"
        return f"Answer saved: {words}.{replaced} {not_running(self.root, self.continues)}"


def not_running(root: str, command: str) -> str:
    return f"Run {root} is not running; apply it with `{command}`."


def open_questions(app: App) -> list[dict[str, Any]]:
    """The facts of each open question, oldest first."""
    return [_facts(app, row) for row in reversed(app.journal.rows(open_question=True))]


def late_runs(app: App) -> list[dict[str, Any]]:
    now = app.clock.now()
    return _late(app.journal.rows(late_at=now), now)


def _facts(app: App, row: Row) -> dict[str, Any]:
    run = app.read(row.run)
    question, stop = run.question, run.stop
    assert question is not None and stop is not None
    return {
        "id": question.id,
        "question": question.id,
        "run": run.id,
        "root": run.began.root or run.id,
        "repo": run.began.repo,
        "machine": run.machine.name,
        "state": run.state,
        "task": run.task,
        "kind": question.kind,
        "code": stop.code,
        "happened": reasons.happened(stop, run.state),
        "why": reasons.why(run)[1],
        "detail": stop.detail,
        "text": question.text,
        "asked": question.text,
        "verbs": list(question.verbs),
        "choices": dict(choices(question)),
        "shown": question.shown,
        "default": question.default or None,
        "deadline": iso(question.deadline) if question.deadline else None,
        "unanswered": reasons.by_default(question),
        "since": iso(run.at),
        "since_us": run.at,
        "answered": pending_answer(app, run),
        "pending": msgspec.to_builtins(unread_answer(app, run)),
        "driven": app.driven(run.id),
        "how": reasons.how_to_answer(question),
    }


def _late(rows: Sequence[Row], now: int) -> list[dict[str, Any]]:
    """Runs that are in a state for 150 % of its alert time (TASK-6). They continue, so there is no question to answer."""
    return [
        {
            "id": row.run,
            "question": None,
            "run": row.run,
            "root": row.root,
            "repo": row.repo,
            "machine": row.machine,
            "state": row.state,
            "task": row.task,
            "kind": "alert",
            "code": RAISE,
            "since": iso(row.entered_at),
            "happened": f"in '{row.state}' for {rough(now - row.entered_at)}; "
            f"the alert time is {show_duration(row.alert_at - row.entered_at)}",
            "verbs": [],
            "how": f"flyball show {row.run}, flyball tell {row.root} TEXT or flyball stop {row.root}",
        }
        for row in reversed(rows)
        if not row.question
        and alert_reached(now - row.entered_at, row.alert_at - row.entered_at) == ALERT_STEPS[-1]
    ]


def change_of(app: App, run: Run) -> list[str]:
    """The change that the run's question is about, line by line."""
    if run.question is None or run.question.kind not in ABOUT_A_CHANGE:
        return []
    with contextlib.suppress(FlyballError):
        return spelled_out(diff_of(app, run, stat=False).text).splitlines()
    return []


# ---- answers ----------------------------------------------------------------------------------------------


def leave_answer(app: App, run: Run, verb: str, text: str, how: str, version: str = "") -> Sent:
    """Answer the run's open question. `shown`: the hash of what the person saw, if that may be older than `run`."""
    question, who = run.question, getpass.getuser()
    assert question is not None
    if verb in NEEDS_TEXT and verb in question.verbs and not text.strip():
        command = reasons.answer_command(question, verb)
        raise UserError(f"The text is missing. Use: {command}.")
    if text.strip() and verb in WITHOUT_TEXT:
        raise UserError(
            f"'{verb}' takes no text. Answer with `flyball answer {question.id} {verb}`; to tell the agent "
            f'something, use `flyball tell {run.id} "text"`.'
        )
    earlier, continues = unread_answer(app, run), continues_with(app, run)
    if earlier is not None and earlier.who != who:
        raise UserError(
            f"{earlier.who} has already answered question {question.id} with {earlier.verb}. "
            f"Continue with `{continues}`."
        )
    version = version or question.shown
    message = Answer(question=question.id, verb=verb, text=text, who=who, how=how, shown=version)
    delivered = app.send(run, message)
    replaced = earlier.verb if earlier else ""
    return Sent(question.id, verb, text, run.id, root_of(app, run.id), delivered, continues, replaced)


def unread_answer(app: App, run: Run) -> Answer | None:
    """The last answer to the open question that the run's process has not read yet."""
    messages = [readable(mail.body) for mail in app.journal.mail(run.id) if not app.seals.fault(mail)]
    answers = [message for message in messages if isinstance(message, Answer)]
    return next((a for a in reversed(answers) if run.question and a.question == run.question.id), None)


def pending_answer(app: App, run: Run) -> bool:
    """An answer, or a cancel, was sent and the run's process has not read it yet."""
    mail = app.journal.mail(run.id)
    return any(settles(run, message.body) and not app.seals.fault(message) for message in mail)


def how_answered(app: App, name: str) -> str:
    """What became of the last answer to a question, as a sentence; "" if it was not answered."""
    run = app.read(app.find(name.rpartition(".")[0]))
    unread = unread_answer(app, run)
    if unread is not None and unread.question == name:
        driven, root = app.driven(run.id), root_of(app, run.id)
        return Sent(name, unread.verb, unread.text, run.id, root, driven, continues_with(app, run)).sentence()
    events = (e.decode(entry.body) for entry in app.journal.read(run.id))
    for event in events:
        if isinstance(event, e.Answered) and event.question == name:
            return Sent(name, event.verb, event.text, run.id, run.id, True, "").sentence()
    return ""
