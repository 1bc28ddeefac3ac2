"""Commands that drive or follow a run: run, resume, watch."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import click

from flyball.cli.follow import watch_json, watch_screen
from flyball.cli.runs import (
    answered_by_mail,
    asking,
    closing,
    open_house,
    print_json,
    question_lines,
    repository,
    root_of,
    summary,
)
from flyball.cli.screen import Screen, is_terminal, open_screen
from flyball.cli.session import Session
from flyball.core import codes
from flyball.core.events import RunBegan
from flyball.core.run import Run
from flyball.errors import AlreadyRunning, Corrupt, NotFound, NotPaused, UserError
from flyball.runtime.app import App
from flyball.runtime.start import RunRequest, launch, task_text
from flyball.views import run_view
from flyball.views.text import typed
from flyball.workspace import Repo


@click.command(
    epilog="""\b
Examples:
  flyball run "Fix the failing test" --agent claude
  flyball run @task.md --machine loop --set limits.turns=20 --json
  flyball run "Add a flag" --agent coder=codex --agent critic=claude --breakpoint write"""
)
@click.argument("task")
@click.option("--machine", default="", metavar="M", help="build (default), loop, review, task or your own.")
@click.option(
    "--agent", "agents", multiple=True, metavar="[ROLE=]X", help="Which agent works, or for a role."
)
@click.option("--repo", type=click.Path(path_type=Path), default=Path(), metavar="DIR", help="Default: here.")
@click.option("--set", "sets", multiple=True, metavar="KEY=VALUE", help="A setting, e.g. limits.turns=20.")
@click.option("--breakpoint", "breakpoints", multiple=True, metavar="PHASE", help="Pause after this phase.")
@click.option("--trust", "trusted", is_flag=True, help="Agree to what tracked files of the repository want.")
@click.option("--json", "as_json", is_flag=True, help="Print one summary object; progress goes to stderr.")
@click.option("--detach", is_flag=True, help="Drive it in the background; print the run's id at once.")
@click.option("--wait", is_flag=True, help="Stay while a question is open, also in a pipe.")
@click.option("--with-changes", is_flag=True, help="Start from the uncommitted changes, not from HEAD.")
def run(
    task: str,
    machine: str,
    agents: tuple[str, ...],
    repo: Path,
    sets: tuple[str, ...],
    breakpoints: tuple[str, ...],
    trusted: bool,
    as_json: bool,
    detach: bool,
    wait: bool,
    with_changes: bool,
) -> int:
    """Run an agent on TASK (text, or @file) until it is truly done, or until it must ask.

    The work is done in a checkout of its own, on the branch flyball/RUN. Exit codes: 0 done, 1 failed,
    2 bad input, 3 a question is open, 4 blocked by the guard, 5 a limit or budget is used up, 130 Ctrl+C.
    """
    request = RunRequest(
        task=task_text(typed(task), Path.cwd()),
        repo=repo,
        machine=machine,
        agents=agents,
        sets=sets,
        breakpoints=breakpoints,
        trusted=trusted,
        with_changes=with_changes,
    )
    with open_house() as app:
        if detach:
            return _detached(app, request, as_json)
        began, found = launch(app, request)
        return attached(app, began, found, open_screen(as_json), wait, as_json)


def attached(app: App, began: RunBegan, repo: Repo, screen: Screen, wait: bool, as_json: bool) -> int:
    """Drive a new run here, until it has ended or waits for a person."""
    if repo.dirty and not began.with_changes:
        screen.say(_says_head(began.commit))
    with Session(app, screen, wait or _somebody_sits_here()) as session:
        session.begin(began)
        session.drive()
        return _let_go(app, session, as_json)


def _says_head(commit: str) -> str:
    return (
        f"The repository has uncommitted changes; the run starts from HEAD ({commit[:10]}) without them "
        "(--with-changes takes them)."
    )


def _somebody_sits_here() -> bool:
    return is_terminal(sys.stdout)


def _let_go(app: App, session: Session, as_json: bool) -> int:
    for root in session.roots:
        ended = session.run(root)
        if as_json:
            print_json(summary(app, ended))
        else:
            session.screen.say("\n".join(("", *closing(app, ended))))
    return session.exit_code()


# ---- in the background -----------------------------------------------------------------------------------


def _detached(app: App, request: RunRequest, as_json: bool) -> int:
    began, repo = launch(app, request)
    if repo.dirty and not request.with_changes:
        click.echo(_says_head(began.commit), err=True)
    with Session(app, Screen(), stay=False) as session:
        begun = session.begin(began)
    log = _start_driver(app, begun)
    if as_json:
        print_json({**summary(app, begun), "log": str(log)})
        return 0
    click.echo(begun.id)
    click.echo(f"It goes on in the background: `flyball watch {begun.id}` follows it.", err=True)
    return 0


def _start_driver(app: App, begun: Run) -> Path:
    """A process of its own session; -P, since a folder's files must not be taken for modules."""
    log = app.dirs.run(begun.id).driver_log
    log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    argv = [sys.executable, "-P", "-m", "flyball", "resume", begun.id, "--wait"]
    subprocess.Popen(
        argv, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True, cwd=app.state_dir
    )
    os.close(out)
    return log


# ---- resume ----------------------------------------------------------------------------------------------


@click.command(
    epilog="""\b
Examples:
  flyball resume               every run of this repository that nothing drives
  flyball resume 9apx47xk
  flyball resume @last --json"""
)
@click.argument("run_name", metavar="[RUN]", default="")
@click.option("--json", "as_json", is_flag=True, help="Print a summary object for each run.")
@click.option("--wait", is_flag=True, help="Stay while a question is open, also in a pipe.")
def resume(run_name: str, as_json: bool, wait: bool) -> int:
    """Go on with a run that was paused, interrupted or killed; without RUN, with all of this repository.

    A run with an open question is shown with its question: answer it first.
    """
    with open_house() as app:
        if not run_name:
            return _resume_all(app, as_json, wait)
        found = resumable(app, run_name)
        asks = asking(app, found)
        if asks is not None and not _goes_on(app, found, asks) and not wait:
            return _show_question(app, found, asks, as_json)
        return _go_on(app, [found.id], as_json, wait)


def resumable(app: App, name: str) -> Run:
    """The top-level run that is meant, or the reason why it cannot be resumed."""
    try:
        root = root_of(app, app.find(name))
    except NotFound as problem:
        raise _with_code(NotFound, str(problem).partition(". ")[0], "ALO_LOOP_NOT_FOUND", name) from None
    found = app.read(root)
    if found.status == "ended":
        code = found.stop.code if found.stop else found.end
        raise _with_code(NotPaused, f"Run {root} has ended ({code})", "ALO_LOOP_NOT_PAUSED", root)
    if app.driven(root):
        sentence = f"Run {root} is already driven by another process"
        raise _with_code(AlreadyRunning, sentence, "ALO_LOOP_ALREADY_RUNNING", root)
    return found


def _with_code(kind: type[UserError], sentence: str, code: str, run_id: str) -> UserError:
    return kind(f"{sentence} ({code}). {codes.RECOVERY[code].replace('RUN', run_id)}")


def _goes_on(app: App, found: Run, asks: Run) -> bool:
    """`resume` is the answer to a breakpoint; anything else needs one, if only in the mail."""
    at_breakpoint = asks.stop is not None and asks.stop.code == "wait.breakpoint"
    return at_breakpoint or _settled(app, found, asks)


def _settled(app: App, found: Run, asks: Run) -> bool:
    """The question needs nobody any more: it is answered, or its cooldown is over."""
    cooled = asks.until is not None and app.clock.now() >= asks.until
    return cooled or answered_by_mail(app, asks) or answered_by_mail(app, found)


def _show_question(app: App, found: Run, asks: Run, as_json: bool) -> int:
    if as_json:
        print_json(summary(app, found))
    else:
        click.echo("\n".join(question_lines(asks)))
        click.echo("It goes on when this is answered.")
    return run_view.exit_code(found)


def _resume_all(app: App, as_json: bool, wait: bool) -> int:
    repo = repository(Path.cwd())
    if not repo:
        raise UserError(f"{Path.cwd()} is not in a git repository; name the run: flyball resume RUN.")
    found = idle_runs(app, repo)
    if not found and not as_json:
        click.echo(f"There is nothing to resume in {repo}. `flyball inbox` lists what waits for an answer.")
    return _go_on(app, found, as_json, wait) if found else 0


def idle_runs(app: App, repo: str) -> list[str]:
    """The top-level runs of a repository that nothing drives and that no unanswered question holds."""
    rows = [row for row in app.journal.rows(repo=repo, parent="") if row.status != "ended"]
    return [row.run for row in reversed(rows) if not app.driven(row.run) and _unasked(app, row.run)]


def _unasked(app: App, run_id: str) -> bool:
    found = app.read(run_id)
    asks = asking(app, found)
    return asks is None or _settled(app, found, asks)


def _go_on(app: App, run_ids: list[str], as_json: bool, wait: bool) -> int:
    screen = open_screen(as_json)
    with Session(app, screen, wait or _somebody_sits_here()) as session:
        for run_id in run_ids:
            _check_head(app, run_id)
            _check_repository(app.read(run_id))
            for row in reversed(app.journal.rows(root=run_id)):
                screen.meet(app.read(row.run))
            session.adopt(run_id)
        session.drive()
        return _let_go(app, session, as_json)


def _check_head(app: App, run_id: str) -> None:
    """A journal that was put back to an older copy would do again what was done."""
    fault = app.heads.rolled_back(run_id, app.journal)
    if fault:
        raise Corrupt(f"{fault.message} Put back the newer copy of {app.dirs.journal}.")


def _check_repository(run: Run) -> None:
    """Without it every act would come to nothing."""
    if not Path(run.began.repo).is_dir():
        raise UserError(
            f"The repository {run.began.repo} of run {run.id} is not there. Put it back, then "
            f"`flyball resume {run.id}`; or end the run with `flyball cancel {run.id}`."
        )


# ---- watch -----------------------------------------------------------------------------------------------


@click.command(
    epilog="""\b
Examples:
  flyball watch                the run started last in this repository
  flyball watch 9apx47xk
  flyball watch @last --json   its events, a JSON line each"""
)
@click.argument("run_name", metavar="[RUN]", default="")
@click.option("--json", "as_json", is_flag=True, help="Print every event as a JSON line.")
def watch(run_name: str, as_json: bool) -> int:
    """Follow a run that another process drives, until it stops. Leaving does not touch the run."""
    with open_house() as app:
        root = root_of(app, app.find(run_name) if run_name else _latest(app))
        if as_json:
            return run_view.exit_code(watch_json(app, root))
        screen = open_screen()
        ended = watch_screen(app, root, screen, stay=is_terminal())
        screen.say("\n".join(("", *closing(app, ended))))
        return run_view.exit_code(ended)


def _latest(app: App) -> str:
    repo = repository(Path.cwd())
    rows = app.journal.rows(repo=repo, parent="", limit=1) if repo else []
    return rows[0].run if rows else app.find("@last")
