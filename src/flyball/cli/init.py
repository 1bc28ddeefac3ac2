"""`flyball init`: detect the tests and the agents, try the tests, and write what works."""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any, NoReturn

import click
from msgspec.structs import replace

from flyball.authority import trust as trusting
from flyball.cli import JSON, REPO, examples, fitted, headline, is_terminal, paint, print_json, say
from flyball.cli.tryout import LISTED, TrialResult, Tryout
from flyball.config.detect import Detection, detect, environments, render_config
from flyball.config.elsewhere import foreign_install
from flyball.config.load import FOLDER, REPO_FILE, load
from flyball.config.ralph import TASKS_FILE, Ralph, read_ralph
from flyball.domain.settings import Settings
from flyball.errors import ConfigError, UserError
from flyball.guard.secrets import redact
from flyball.machines import shipped
from flyball.runtime.start import activated, kept_elsewhere, remember, virtual_env
from flyball.runtime.trial import Trial
from flyball.state_dir import environment, paths
from flyball.views.reasons import key_line
from flyball.views.text import plural
from flyball.workspace import inspect_repo
from flyball.workspace.git import reading_user


@click.command(epilog=examples("flyball init", "flyball init --no-try", "flyball init --from-ralph --no-try"))
@REPO
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
@click.option("--try/--no-try", "tries", default=True, help="Run the tests here and in a clean checkout.")
@click.option("--from-ralph", is_flag=True, help="Import PROMPT.md, fix_plan.md and prd.json.")
@JSON
def init(repo: Path, force: bool, tries: bool, from_ralph: bool, as_json: bool) -> None:
    """Set up Flyball in this repository.

    Writes .flyball/flyball.toml with the test command and agents that were detected, and trusts it. The tests are
    run once in this folder and once in a clean checkout, as a run does, and every difference is explained. In a
    subfolder of a repository, the tests of that subfolder are used.
    """
    root, env = inspect_repo(repo).root, environment()  # what no run can start from is refused first
    if (root / REPO_FILE).exists() and not force:
        raise UserError(f"{REPO_FILE} already exists. Edit it, or overwrite it with --force.")
    ralph = _read_ralph(root, force) if from_ralph else None
    folder = str(repo.resolve().relative_to(root)).removeprefix(".")
    own = virtual_env(root, environments(root, folder))
    env = activated(env, own or env.get("VIRTUAL_ENV") or kept_elsewhere(root / folder, env))
    detected = detect(root, folder=folder, path=env.get("PATH", ""), tracked=_tracked(root, folder))
    with _whole_or_nothing(root / REPO_FILE):
        _write(root / FOLDER / "out" / ".gitignore", "*\n")
        write_settings(root, detected, env)
        tried = TrialResult()
        if tries and detected.tests:
            tryout = Tryout(root, env, lambda wanted: write_settings(root, wanted, env), _progress)
            detected, tried = tryout.of(detected)
        write_settings(root, detected, env)
    foreign = foreign_install(root, env.get("VIRTUAL_ENV", ""), [test.command for test in detected.tests[:1]])
    if foreign:
        tried = replace(tried, advice=(foreign, *tried.advice))
    if ralph:
        _take_over(root, ralph, env)
    remember(paths(env).state_dir, root, {} if own else env)
    if as_json:
        print_json({**_facts(root, detected, tried), "tasks": ralph.tasks if ralph else []})
    else:
        _print(detected, tried)
        _print_ralph(ralph)


def _read_ralph(root: Path, force: bool) -> Ralph:
    """Read before anything is written; an existing file is not overwritten without --force."""
    ralph = read_ralph(root)
    there = [path for path in ralph.written() if (root / path).exists()]
    if there and not force:
        raise UserError(f"{there[0]} already exists. Move it away, or overwrite it with --force.")
    return ralph


def _take_over(root: Path, ralph: Ralph, env: dict[str, str]) -> None:
    """Write the prompts and the check-list, and trust the prompts as they are."""
    for path, words in ralph.written().items():
        _write(root / path, words)
    store = trusting.TrustStore(paths(env).state_dir)
    for path, sha256 in load(root, env).hashes.items():
        if path in ralph.written():
            store.trust(root, path, sha256)


def _print_ralph(ralph: Ralph | None) -> None:
    if ralph is None:
        return
    say(f"\nImported from {', '.join(ralph.files)}: {', '.join(ralph.written()) or 'nothing to do'}.")
    if ralph.tasks:
        say(
            f"{TASKS_FILE} has {plural(len(ralph.tasks), 'open task')}. Add them with `flyball task import {TASKS_FILE}`, "
            "then `flyball up` works through them."
        )


@contextlib.contextmanager
def _whole_or_nothing(file: Path) -> Generator[None]:
    """Stopped in the middle, it leaves the file as it was: a first guess is not a configuration."""
    before = file.read_bytes() if file.exists() else None

    def end(number: int, frame: object) -> NoReturn:
        sys.exit(128 + number)

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, end)
    try:
        yield
    except BaseException:
        with contextlib.suppress(OSError):
            file.unlink(missing_ok=True) if before is None else file.write_bytes(before)
        raise


def _progress(line: str) -> None:
    if is_terminal(sys.stderr):
        click.echo(paint("dim", line), err=True)


def _tracked(root: Path, folder: str) -> list[str]:
    """The environments that are in git: a checkout has them anyway."""
    return [
        name for name in environments(root, folder) if reading_user(root, "ls-files", "-z", "--", name).out
    ]


def write_settings(root: Path, detected: Detection, env: dict[str, str]) -> Settings:
    """Write the file, trust it, and load the settings of a run from it."""
    _write(root / REPO_FILE, render_config(detected))
    loaded = load(root, env)
    trusting.TrustStore(paths(env).state_dir).trust(root, REPO_FILE, loaded.files[REPO_FILE].sha256)
    return loaded.settings(shipped("build"))


def _write(file: Path, words: str) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        draft = file.with_name(f".{file.name}.draft")
        draft.write_text(words, "utf-8")
        draft.replace(file)
    except OSError as problem:
        raise ConfigError(f"Cannot write {file}: {problem.strerror}. Make the folder writable.") from None


# ---- output --------------------------------------------------------------------------------------


def _facts(root: Path, detected: Detection, tried: TrialResult) -> dict[str, Any]:
    trials = {"folder": tried.here, "clean": tried.clean}
    return {
        "file": str(root / REPO_FILE),
        "agent": detected.agent or None,
        "tests": [test.command for test in detected.tests],
        "share": detected.share,
        "installed": detected.agents,
        "trials": {
            name: {"exit": trial.code, "ran": trial.ran, "failing": trial.names, "says": trial.says}
            for name, trial in trials.items()
            if trial
        },
        "agree": tried.clean.agrees(tried.here) if tried.here and tried.clean else None,
        "advice": tried.advice,
    }


NO_PROOF = (
    "NO PROOF: no test command was found, so nothing checks what an agent does. Results will be unproven.\n"
    f"Set [proof] commands in {REPO_FILE} to the command that runs your tests."
)


def _print_failing(here: Trial, detected: Detection, clean: Trial | None) -> None:
    for name in here.names[:LISTED]:
        click.echo(f"            ✗ {name}")  # not broken into lines, so that it can be copied
    if len(here.names) > LISTED:
        say(f"            and {len(here.names) - LISTED} more")
    if here.ran and not here.names:
        say(f"            {redact(key_line(here.log))}")
    if here.ran and detected.require == "all" and (clean is None or clean.code):
        red = " To allow the failures that are there now, use `flyball run --set proof.require=no-worse`."
        say(
            f"          All tests must pass before a run succeeds.{red if clean is None or clean.by_id else ''}"
        )


def _print(detected: Detection, tried: TrialResult) -> None:
    click.echo(headline("good", f"Wrote {REPO_FILE}."))
    if detected.tests:
        say(f"  proof   {detected.tests[0].command}   ({detected.tests[0].why})")
    for where, trial in (("in this folder", tried.here), ("in a clean checkout", tried.clean)):
        if trial:
            say(f"          {where}: {trial.says}")
    if tried.here and tried.here.code:
        _print_failing(tried.here, detected, tried.clean)
    shared = [path for path in detected.share if path not in detected.needed]
    if shared:
        say(f"  share   {', '.join(shared)}, read-only in every checkout")
    if detected.needed:
        say(f"  share   {', '.join(detected.needed)}   (not in git, but the tests need it)")
    say(f"  agent   {_agent(detected)}")
    for advice in tried.advice if detected.tests else (NO_PROOF,):
        click.echo(paint("bad" if sys.stdout.isatty() else "", f"\n{fitted(advice)}", bold=True))
    flag = "" if detected.agent else " --agent AGENT"
    say(f'\nReview and commit {FOLDER}/, then run: flyball run "Describe the task"{flag}')


def _agent(detected: Detection) -> str:
    installed = (
        f"installed: {', '.join(detected.agents)}" if detected.agents else "no other agent is installed"
    )
    if detected.agent:
        return f"{detected.agent}   ({installed})"
    return "none found; name one with --agent, see `flyball agents ls`"
