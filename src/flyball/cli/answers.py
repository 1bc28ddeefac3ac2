"""Commands for talking to a run: inbox, answer, approve, reject, tell, allow, pause, stop, cancel.

They never write to a run's history. They leave a message for the process that runs it.
"""

from __future__ import annotations

import difflib
import getpass
import sys
from typing import Any

import click

from flyball.cli import (
    JSON,
    RUN,
    examples,
    headline,
    is_terminal,
    open_app,
    print_json,
    say,
    terminal_width,
)
from flyball.config.values import BadValue, host as parse_host
from flyball.core.stops import VERBS
from flyball.domain.messages import Allow, AnyMessage, Ask, Tell
from flyball.domain.settings import rough
from flyball.errors import UserError
from flyball.journal.records import continues_with, family, root_of
from flyball.runtime.app import App
from flyball.runtime.questions import late_runs, leave_answer, not_running, open_questions
from flyball.state.run import Run
from flyball.views import reasons
from flyball.views.text import clean, decode_argument, fields, first_line, one_line

SPELLINGS = {"go on": "go-on", "raise budget": "raise", "grant once": "grant", "take over": "take-over"}
KNOWN_VERBS = frozenset(verb for verbs in VERBS.values() for verb in verbs)
QUESTION = click.argument("question", metavar="Q")


# ---- inbox -----------------------------------------------------------------------------------------------


@click.command(epilog=examples("flyball inbox", "flyball inbox --json | jq -r '.[].question'"))
@JSON
def inbox(as_json: bool) -> None:
    """Work through the open questions of all runs.

    On a terminal each question is shown with its change and answered with a key; elsewhere they are listed.
    """
    with open_app() as app:
        questions, late = open_questions(app), late_runs(app)
        if as_json:
            print_json([*questions, *late])
        elif not questions and not late:
            say("No open questions.")
        elif questions and is_terminal() and sys.stdin.isatty():
            from flyball.cli.inbox import work_through

            work_through(app, [(facts["run"], _as_text(app, facts, keys=True)) for facts in questions])
            say("\n\n".join(_alert_text(facts) for facts in late))
        else:
            texts = (_as_text(app, facts) for facts in questions)
            say("\n\n".join((*texts, *(_alert_text(facts) for facts in late))))


def _as_text(app: App, facts: dict[str, Any], *, keys: bool = False) -> str:
    """`keys`: the answers are listed below with their keys."""
    age = rough(app.clock.now() - facts["since_us"])
    next_step = (
        f"saved; continue with `flyball resume {facts['root']}`" if facts["answered"] else facts["how"]
    )
    rows = [
        ("run", f"{facts['run']} ({facts['machine']}, in '{facts['state']}')"),
        ("repository", facts["repo"]),
        ("task", first_line(facts["task"], 100)),
        ("reason", f"{facts['happened']} ({facts['code']})"),
        ("question", clean(facts["asked"]).strip()),
        *([] if keys and not facts["answered"] else [("answer", next_step)]),
        *([("default", clean(facts["unanswered"]))] if facts["unanswered"] else []),
    ]
    head = headline("ask", f"Question {facts['question']} ({facts['kind']}), {age} ago")
    return "\n".join((head, *fields(rows, terminal_width())))


def _alert_text(facts: dict[str, Any]) -> str:
    rows = [
        ("run", f"{facts['run']} ({facts['machine']})"),
        ("repository", facts["repo"]),
        ("task", first_line(facts["task"], 100)),
        ("reason", facts["happened"]),
        ("look", facts["how"]),
    ]
    head = headline("warn", f"Run {facts['run']} exceeds its alert time; it continues")
    return "\n".join((head, *fields(rows, terminal_width())))


# ---- answer, approve, reject -----------------------------------------------------------------------------


@click.command(
    epilog=examples(
        "flyball answer 9apx47xk.1 go-on",
        'flyball answer 9apx47xk.1 redirect "Leave the CI alone"',
        'flyball answer 9apx47xk.1 "Use the second table"',
    )
)
@QUESTION
@click.argument("words", metavar="[VERB] [TEXT]...", nargs=-1)
@JSON
def answer(question: str, words: tuple[str, ...], as_json: bool) -> None:
    """Answer a question with one of its verbs or with text.

    Q is the id of the question or of its run. `flyball inbox` shows the verbs that a question takes. Text without a verb
    is accepted if `answer` is one of them.
    """
    with open_app() as app:
        run = app.question(question)
        verb, text = read_answer(run, tuple(decode_argument(word) for word in words))
        send_answer(app, run, verb, text, as_json)


def _shortcut(verb: str, help_text: str, example: str) -> click.Command:
    """`flyball approve Q` for `flyball answer Q approve`."""

    @click.command(verb, help=help_text, epilog=examples(example))
    @QUESTION
    @click.argument("words", metavar="[TEXT]...", nargs=-1)
    @JSON
    def command(question: str, words: tuple[str, ...], as_json: bool) -> None:
        with open_app() as app:
            send_answer(app, app.question(question), verb, decode_argument(" ".join(words)), as_json)

    return command


approve = _shortcut(
    "approve", "Approve a change, plan or permission and let the run continue.", "flyball approve 9apx47xk.1"
)
reject = _shortcut(
    "reject",
    "Reject a change or plan. The agent tries again with your reason.",
    'flyball reject 9apx47xk.1 "Do it without the new dependency"',
)


def read_answer(run: Run, words: tuple[str, ...]) -> tuple[str, str]:
    """The verb and the text. A word that is not one of the question's verbs is never taken for another verb."""
    question = run.question
    assert question is not None
    for count in (2, 1):
        typed = " ".join(words[:count]).lower()
        verb = SPELLINGS.get(typed, typed.replace("_", "-"))
        if words and verb in question.verbs:
            return verb, " ".join(words[count:])
    if words and "answer" in question.verbs and not _looks_like_a_verb(words, question.verbs):
        return "answer", " ".join(words)
    problem = f"'{one_line(words[0], 40)}' is not a valid answer." if words else "An answer is missing."
    raise UserError(f"{problem} Question {question.id} takes: {', '.join(question.verbs)}.")


def _looks_like_a_verb(words: tuple[str, ...], verbs: tuple[str, ...]) -> bool:
    """One word that is, or nearly is, a verb is more likely a mistake than a message to the agent."""
    word = words[0].lower()
    return len(words) == 1 and (word in KNOWN_VERBS or bool(difflib.get_close_matches(word, verbs, 1, 0.75)))


def send_answer(
    app: App, run: Run, verb: str, text: str, as_json: bool = False, *, quiet: bool = False
) -> None:
    result = leave_answer(app, run, verb, text, "cli")
    if as_json:
        facts = {"question": result.question, "verb": verb, "text": text, "replaced": result.replaced or None}
        command = None if result.delivered else result.continues
        print_json({"run": result.run, **facts, "delivered": result.delivered, "next": command})
    elif not (quiet and result.delivered):
        say(result.sentence())


# ---- tell, pause, stop, cancel ---------------------------------------------------------------------------


@click.command(epilog=examples('flyball tell @last "Keep the public API unchanged"'))
@RUN
@click.argument("words", metavar="TEXT...", nargs=-1, required=True)
@JSON
def tell(run_name: str, words: tuple[str, ...], as_json: bool) -> None:
    """Send the agent a message. It is delivered with its next turn."""
    with open_app() as app:
        text = decode_argument(" ".join(words)).strip()
        if not text:
            raise UserError('The message is empty. Use: flyball tell RUN "text".')
        run = family(app, app.read(app.find(run_name)))[-1]
        message = Tell(text=text, who=getpass.getuser())
        confirmation = f"The agent of run {run.id} gets your message with its next turn."
        _send(app, run, message, (confirmation, "Message saved."), as_json, {"text": text})


@click.command(
    epilog=examples("flyball allow @last docs.python.org", "flyball allow 9apx47xk example.com:8443")
)
@RUN
@click.argument("host")
@JSON
def allow(run_name: str, host: str, as_json: bool) -> None:
    """Let the agents of a run reach one more host.

    It applies from their next turn on.
    """
    with open_app() as app:
        try:
            name = parse_host(host)
        except BadValue:
            raise UserError(
                f"'{host}' is not a host. Use for example example.com or example.com:8443."
            ) from None
        run = app.read(root_of(app, app.find(run_name)))
        message = f"The agents of run {run.id} may reach {name} from their next turn on."
        _send(
            app,
            run,
            Allow(host=name, who=getpass.getuser()),
            (message, "Permission saved."),
            as_json,
            {"host": name},
        )


@click.command(epilog=examples("flyball pause 9apx47xk"))
@RUN
@JSON
def pause(run_name: str, as_json: bool) -> None:
    """Pause a run after the current turn."""
    with open_app() as app:
        _request(app, app.read(app.find(run_name)), "pause", as_json)


@click.command(epilog=examples("flyball stop 9apx47xk", "flyball stop --all"))
@click.argument("run_name", metavar="[RUN]", default="")
@click.option("--now", is_flag=True, help="Stop at once. This is the default.")
@click.option("--all", "everything", is_flag=True, help="Stop every run in every repository.")
@JSON
def stop(run_name: str, now: bool, everything: bool, as_json: bool) -> None:
    """Stop a run now, in the middle of its turn. It can be resumed."""
    del now
    with open_app() as app:
        if everything == bool(run_name):
            raise UserError("Name a run or use --all: flyball stop RUN | flyball stop --all.")
        for run in _active(app) if everything else [app.read(app.find(run_name))]:
            _request(app, run, "stop", as_json)


def _active(app: App) -> list[Run]:
    """The top-level runs that are not stopped yet."""
    rows = [row for status in ("running", "waiting") for row in app.journal.rows(status=status, parent="")]
    return [run for run in (app.read(row.run) for row in rows) if not _is_stopped(run)]


@click.command(epilog=examples("flyball cancel 9apx47xk"))
@RUN
@JSON
def cancel(run_name: str, as_json: bool) -> None:
    """End a run for good. Its changes stay on its branch."""
    with open_app() as app:
        _request(app, app.read(app.find(run_name)), "cancel", as_json)


def _is_stopped(run: Run) -> bool:
    """It does not continue by itself, now or later."""
    return run.status != "running" and run.until is None


def _request(app: App, run: Run, what: str, as_json: bool) -> None:
    if run.status != "ended" and what != "cancel" and run.stop and _is_stopped(run):
        reason = reasons.happened(run.stop, run.state)
        raise UserError(f"Run {run.id} is already stopped: {reason}. {reasons.next_step(run)}".strip())
    effect = {"pause": "pauses after this turn", "stop": "is stopping", "cancel": "is being cancelled"}[what]
    message = Ask(what=what, who=getpass.getuser())
    _send(app, run, message, (f"Run {run.id} {effect}.", "Request saved."), as_json, {"asked": what})


def _send(
    app: App, run: Run, message: AnyMessage, texts: tuple[str, str], as_json: bool, facts: dict[str, Any]
) -> None:
    """Leave the message. `texts` say so for a run that is running, and for one that is not."""
    delivered = app.send(run, message)
    if as_json:
        command = None if delivered else continues_with(app, run)
        print_json({"run": run.id, **facts, "delivered": delivered, "next": command})
    elif delivered:
        say(texts[0])
    else:
        say(f"{texts[1]} {not_running(root_of(app, run.id), continues_with(app, run))}")
