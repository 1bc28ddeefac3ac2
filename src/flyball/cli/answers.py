"""Commands with which a person speaks to a run: inbox, answer, approve, reject, tell, pause, stop, cancel.

They never append to a run. They leave a letter and ring its driver, which writes down what follows from it.
"""

from __future__ import annotations

import getpass
from typing import Any

import click

from flyball.cli.runs import answered_by_mail, family, open_house, print_json, root_of
from flyball.core import codes
from flyball.core.durations import elapsed
from flyball.core.letters import Answer, AnyLetter, Ask, Tell
from flyball.core.run import Run
from flyball.errors import UserError
from flyball.journal import Row
from flyball.runtime.app import App
from flyball.views import run_view
from flyball.views.text import clean, iso, one_line, typed

PHRASES = {  # what a verb may be called, over and above its name
    "go on": "go-on",
    "raise budget": "raise",
    "grant once": "grant",
}
FOR_TEXT = ("answer", "redirect")  # the verbs that carry bare text
json_option = click.option("--json", "as_json", is_flag=True, help="Print one object.")


# ---- the inbox -------------------------------------------------------------------------------------------


@click.command(
    epilog="""\b
Examples:
  flyball inbox
  flyball inbox --json | jq -r '.[].question'"""
)
@click.option("--json", "as_json", is_flag=True, help="Print a list of objects.")
def inbox(as_json: bool) -> None:
    """List every open question, over all runs and repositories."""
    with open_house() as app:
        found = [_asked(app, row) for row in reversed(app.journal.rows(open_question=True))]
        if as_json:
            print_json(found)
        elif not found:
            click.echo("No question is open.")
        else:
            click.echo("\n\n".join(_as_text(app, one) for one in found))


def _asked(app: App, row: Row) -> dict[str, Any]:
    run = app.read(row.run)
    question, stop = run.question, run.stop
    assert question is not None and stop is not None
    said = run_view.why(run)
    return {
        "id": question.id,
        "question": question.id,
        "run": run.id,
        "root": run.began.root or run.id,
        "repo": run.began.repo,
        "machine": run.machine.name,
        "state": run.state,
        "task": run.began.task,
        "kind": question.kind,
        "code": stop.code,
        "happened": codes.of(stop.code).says,
        "why": said[1],
        "detail": stop.detail,
        "text": question.text,
        "asked": question.text,
        "verbs": list(question.verbs),
        "default": None,
        "deadline": None,
        "since": iso(run.at),
        "since_us": run.at,
        "answered": answered_by_mail(app, run),
        "driven": app.driven(run.id),
        "how": f"flyball answer {question.id} {'|'.join(question.verbs)}",
    }


def _as_text(app: App, one: dict[str, Any]) -> str:
    age = elapsed(app.clock.now() - one["since_us"])
    head = f"{one['question']}  {one['kind']}  {one['machine']} in '{one['state']}', {age} ago"
    rows = [
        ("run", f"{one['run']} in {one['repo']}"),
        ("task", one_line(one["task"], 100)),
        ("happened", f"{one['happened']} ({one['code']})"),
        ("why", one_line(one["why"], 300)),
        ("asked", "\n               ".join(clean(one["asked"]).strip().splitlines())),
        ("answer", one["how"]),
        ("otherwise", "it waits, without a deadline"),
    ]
    if one["answered"]:
        rows[-2:] = [("answered", f"the answer waits for a driver: flyball resume {one['root']}")]
    lines = [click.style(head, bold=True), *(f"  {name:<10}   {text}" for name, text in rows)]
    return "\n".join(lines)


# ---- answers ---------------------------------------------------------------------------------------------


@click.command(
    epilog="""\b
Examples:
  flyball answer 9apx47xk.1 go-on
  flyball answer 9apx47xk.1 redirect "Leave the CI alone"
  flyball answer 9apx47xk.1 "Use the second table\""""
)
@click.argument("question", metavar="Q")
@click.argument("words", metavar="[VERB] [TEXT]...", nargs=-1)
@json_option
def answer(question: str, words: tuple[str, ...], as_json: bool) -> None:
    """Answer question Q (its id, or its run's) with one of its verbs, or with text."""
    with open_house() as app:
        run = app.question(question)
        verb, text = read_answer(run, tuple(typed(word) for word in words))
        _send_answer(app, run, verb, text, as_json)


@click.command(epilog="\b\nExample:\n  flyball approve 9apx47xk.1")
@click.argument("question", metavar="Q")
@click.argument("words", metavar="[TEXT]...", nargs=-1)
@json_option
def approve(question: str, words: tuple[str, ...], as_json: bool) -> None:
    """Say yes to question Q: the change stands, the run goes on."""
    with open_house() as app:
        _send_answer(app, app.question(question), "approve", typed(" ".join(words)), as_json)


@click.command(epilog='\b\nExample:\n  flyball reject 9apx47xk.1 "Do it without the new dependency"')
@click.argument("question", metavar="Q")
@click.argument("words", metavar="[TEXT]...", nargs=-1)
@json_option
def reject(question: str, words: tuple[str, ...], as_json: bool) -> None:
    """Say no to question Q: the change is put back and the agent is told why."""
    with open_house() as app:
        _send_answer(app, app.question(question), "reject", typed(" ".join(words)), as_json)


def read_answer(run: Run, words: tuple[str, ...]) -> tuple[str, str]:
    """The verb and the text that were meant. Words that begin with no verb of the question are all text."""
    question = run.question
    assert question is not None
    takes = f"Question {question.id} takes: {', '.join(question.verbs)}."
    if not words:
        raise UserError(f"Say how to answer. {takes}")
    for used in (2, 1):
        said = " ".join(words[:used]).lower()
        verb = PHRASES.get(said, said.replace("_", "-"))
        if verb in question.verbs:
            return verb, " ".join(words[used:])
    for bare in FOR_TEXT:
        if bare in question.verbs:
            return bare, " ".join(words)
    raise UserError(f"'{one_line(words[0], 40)}' is no answer to it. {takes}")


def _send_answer(app: App, run: Run, verb: str, text: str, as_json: bool) -> None:
    question = run.question
    assert question is not None
    if answered_by_mail(app, run):
        raise UserError(
            f"Question {question.id} has an answer already; it waits for a driver. "
            f"`flyball resume {run.began.root or run.id}` goes on."
        )
    letter = Answer(
        question=question.id, verb=verb, text=text, who=getpass.getuser(), how="cli", shown=question.shown
    )
    said = f"{question.id} is answered '{verb}'."
    _send(app, run, letter, said, as_json, {"question": question.id, "verb": verb, "text": text})


# ---- words to a run --------------------------------------------------------------------------------------


@click.command(epilog='\b\nExample:\n  flyball tell @last "The API key is in the vault, do not look for it"')
@click.argument("run_name", metavar="RUN")
@click.argument("words", metavar="TEXT...", nargs=-1, required=True)
@json_option
def tell(run_name: str, words: tuple[str, ...], as_json: bool) -> None:
    """Tell the agent something; it is delivered with its next turn."""
    with open_house() as app:
        text = typed(" ".join(words)).strip()
        if not text:
            raise UserError('There is nothing to tell. Say it: flyball tell RUN "text".')
        run = family(app, app.read(app.find(run_name)))[-1]
        letter = Tell(text=text, who=getpass.getuser())
        _send(app, run, letter, f"Run {run.id} is told with its next turn.", as_json, {"text": text})


@click.command(epilog="\b\nExample:\n  flyball pause 9apx47xk")
@click.argument("run_name", metavar="RUN")
@json_option
def pause(run_name: str, as_json: bool) -> None:
    """Pause a run after this turn; `flyball resume RUN` goes on."""
    with open_house() as app:
        _ask(app, app.read(app.find(run_name)), "pause", as_json)


@click.command(epilog="\b\nExamples:\n  flyball stop 9apx47xk\n  flyball stop --now --all")
@click.argument("run_name", metavar="[RUN]", default="")
@click.option("--now", is_flag=True, help="At once, which is what stop means; for clarity.")
@click.option("--all", "everything", is_flag=True, help="Every run, in all repositories.")
@json_option
def stop(run_name: str, now: bool, everything: bool, as_json: bool) -> None:
    """Stop a run now, in the middle of its turn; `flyball resume RUN` goes on."""
    del now
    with open_house() as app:
        if everything == bool(run_name):
            raise UserError("Name the run to stop, or say --all: flyball stop RUN | flyball stop --all.")
        for run in _going(app) if everything else [app.read(app.find(run_name))]:
            _ask(app, run, "stop", as_json)


def _going(app: App) -> list[Run]:
    """The top-level runs that are not stopped already."""
    rows = [
        *app.journal.rows(status="running", parent=""),
        *app.journal.rows(status="waiting", parent=""),
    ]
    runs = [app.read(row.run) for row in rows]
    return [run for run in runs if not _stands(run)]


@click.command(epilog="\b\nExample:\n  flyball cancel 9apx47xk")
@click.argument("run_name", metavar="RUN")
@json_option
def cancel(run_name: str, as_json: bool) -> None:
    """End a run for good. What it did stays on its branch."""
    with open_house() as app:
        _ask(app, app.read(app.find(run_name)), "cancel", as_json)


def _stands(run: Run) -> bool:
    """It goes on by itself neither now nor later."""
    return run.status != "running" and run.until is None


def _ask(app: App, run: Run, what: str, as_json: bool) -> None:
    if run.status != "ended" and what != "cancel" and _stands(run):
        code = run.stop.code if run.stop else run.status
        raise UserError(f"Run {run.id} stands already ({code}). {run_view.next_step(run)}".strip())
    when = {"pause": "pauses after this turn", "stop": "stops now", "cancel": "is cancelled"}[what]
    letter = Ask(what=what, who=getpass.getuser())
    _send(app, run, letter, f"Run {run.id} {when}.", as_json, {"asked": what})


def _send(app: App, run: Run, letter: AnyLetter, said: str, as_json: bool, facts: dict[str, Any]) -> None:
    """Leave the letter, and say whether anybody takes it."""
    rung = app.send(run, letter)
    root = root_of(app, run.id)
    if as_json:
        then = None if rung else f"flyball resume {root}"
        print_json({"run": run.id, **facts, "delivered": rung, "next": then})
    elif rung:
        click.echo(f"{said} Its driver has the letter.")
    else:
        click.echo(
            f"The letter waits: nothing drives run {root} now. `flyball resume {root}` goes on with it."
        )
