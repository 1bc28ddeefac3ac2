"""`flyball init`: detect the tests and the agents, try the tests, and write what works."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
from msgspec import Struct
from msgspec.structs import replace

from flyball.authority import trust as trusting
from flyball.cli.shared import JSON, REPO, examples, is_terminal, paint, print_json, require_repository
from flyball.config import cures
from flyball.config.detect import Detected, ProofCommand, detect, environments, render_config
from flyball.config.load import FOLDER, REPO_FILE, load
from flyball.config.paths import environment, paths
from flyball.domain.settings import Settings
from flyball.errors import ConfigError, UserError
from flyball.machines import shipped
from flyball.reading.environment import missing_names, wants_network
from flyball.runtime.pinned_env import remember
from flyball.runtime.trial import Trial, in_clean_checkout, in_folder
from flyball.workspace.git import names, reading_user, text

TRIED = 3  # of the test commands that were detected
LISTED = 5
ONLY_TRACKED = (
    "A run starts from the last commit and sees only what git tracks: commit what is missing, or name it in "
    f"[workspace] share or setup in {REPO_FILE}, then run `flyball init --force`."
)


class Tried(Struct, frozen=True):
    """How the tests ended here and in a clean checkout, and what is left to say, as sentences."""

    here: Trial | None = None
    clean: Trial | None = None
    advice: tuple[str, ...] = ()


@click.command(epilog=examples("flyball init", "flyball init --no-try"))
@REPO
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
@click.option("--try/--no-try", "tries", default=True, help="Run the tests here and in a clean checkout.")
@JSON
def init(repo: Path, force: bool, tries: bool, as_json: bool) -> None:
    """Set up Flyball in this repository.

    Writes .flyball/flyball.toml with the test command and agents that were detected, and trusts it. The tests are
    run once in this folder and once in a clean checkout, as a run does, and every difference is explained. In a
    subfolder of a repository, the tests of that subfolder are used.
    """
    root, env = require_repository(repo), environment()
    if (root / REPO_FILE).exists() and not force:
        raise UserError(f"{REPO_FILE} already exists. Edit it, or overwrite it with --force.")
    folder = str(repo.resolve().relative_to(root)).removeprefix(".")
    detected = detect(root, folder=folder, path=env.get("PATH", ""), tracked=_tracked(root, folder))
    _write(root / FOLDER / "out" / ".gitignore", "*\n")
    write_settings(root, detected, env)
    tried = Tried()
    if tries and detected.tests:
        detected, tried = try_tests(root, detected, env, _progress)
    remember(paths(env).state_dir, root, env)
    if as_json:
        print_json(_facts(root, detected, tried))
    else:
        _print(detected, tried)


def _progress(line: str) -> None:
    if is_terminal(sys.stderr):
        click.echo(paint("dim", line), err=True)


def _tracked(root: Path, folder: str) -> list[str]:
    """The environments that are in git: a checkout has them anyway."""
    return [
        name for name in environments(root, folder) if reading_user(root, "ls-files", "-z", "--", name).out
    ]


def write_settings(root: Path, detected: Detected, env: dict[str, str]) -> Settings:
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


# ---- trying the tests -----------------------------------------------------------------------------------


def try_tests(
    root: Path, detected: Detected, env: dict[str, str], show: Callable[[str], None]
) -> tuple[Detected, Tried]:
    """Run the tests here and in a clean checkout; where the two differ, look for what makes them agree."""
    settings = write_settings(root, detected, env)
    detected, here = _try_here(root, detected, env, settings.proof_timeout_us / 1e6, show)
    if not here.ran:
        write_settings(root, detected, env)
        return detected, Tried(here, None, (_cannot_run(detected, here),))
    state_dir = paths(env).state_dir

    def clean(wanted: Detected, network: str = "") -> Trial:
        configured = write_settings(root, wanted, env)
        configured = replace(configured, network_proof=network) if network else configured
        return in_clean_checkout(root, configured, env, state_dir)

    show(f"Running it in a clean checkout, as a proof does: {detected.tests[0].command}")
    best, last = detected, clean(detected)
    if last.agrees(here):
        return detected, Tried(here, last)
    for wanted in _remedies(root, detected, last):
        show(f"The results differ. Trying again with: {_difference(detected, wanted)}")
        trial = clean(wanted)
        if trial.agrees(here):
            return wanted, Tried(here, trial)
        if trial.ran and not last.ran:
            best, last = wanted, trial
    network = wants_network(last.log) and clean(best, "all").agrees(here)
    write_settings(root, best, env)
    return best, Tried(here, last, (_explanation(here, last, network),))


def _try_here(
    root: Path, detected: Detected, env: dict[str, str], timeout_s: float, show: Callable[[str], None]
) -> tuple[Detected, Trial]:
    """The first of the detected commands that runs tests is the one; if none does, the first."""
    first: Trial | None = None
    for test in detected.tests[:TRIED]:
        show(f"Running the tests in this folder: {test.command}")
        trial = in_folder(root, test.command, env, timeout_s)
        if trial.ran:
            others = tuple(other for other in detected.tests if other != test)
            return replace(detected, tests=(test, *others)), trial
        first = first or trial
    assert first is not None
    return detected, first


def _remedies(root: Path, detected: Detected, clean: Trial) -> Iterator[Detected]:
    """What may make the clean checkout like this folder, the likeliest first."""
    listing = reading_user(root, "ls-files", "-oi", "--exclude-standard", "--directory", "-z").out
    ignored = [path for path in map(text, names(listing)) if path.strip("/") not in detected.share]
    missing = [name.removeprefix(f"{root}/") for name in missing_names(clean.log)]
    asked = cures.needed(ignored, missing)
    compiled = any(path.endswith(cures.COMPILED) for path in asked or cures.shareable(ignored))
    if compiled and (root / "setup.py").is_file():
        yield _building(detected, "setup.py -q build_ext --inplace")
    everything = cures.shareable(ignored)
    submodules = [
        line.split()[1] for line in text(reading_user(root, "submodule", "status").out).splitlines()
    ]
    for paths_wanted in (asked, submodules, [*asked, *submodules], everything):
        if paths_wanted and len(paths_wanted) <= cures.MOST:
            extra = tuple(path for path in dict.fromkeys(paths_wanted) if path not in detected.share)
            yield replace(detected, share=(*detected.share, *extra), needed=extra)


def _building(detected: Detected, step: str) -> Detected:
    """The proof builds what git ignores, so that a change of its source is tested too."""
    first, *others = detected.tests
    python = next((word for word in shlex.split(first.command) if "python" in word), "python")
    enter, _, command = first.command.rpartition(" && ")
    built = " && ".join(part for part in (enter, f"{python} {step}", command) if part)
    return replace(detected, tests=(ProofCommand(built, f"{first.why}; builds the extension first"), *others))


def _difference(before: Detected, after: Detected) -> str:
    if after.tests[0] != before.tests[0]:
        return after.tests[0].command
    return f"share = {', '.join(path for path in after.share if path not in before.share)}"


# ---- explaining -----------------------------------------------------------------------------------------


def _cannot_run(detected: Detected, here: Trial) -> str:
    command, missing = detected.tests[0].command, here.lack
    python = next((word for word in shlex.split(command) if "python" in word), "")
    if here.problem or missing is None:
        return f"'{command}' did not finish in this folder: {here.problem}. Correct [proof] commands."
    if missing.kind == "tests":
        return f"'{command}' finds no tests. Set [proof] commands to the command that runs yours."
    if python and missing.kind in ("runner", "module", "metadata"):
        packages = "pytest" if missing.kind == "runner" else "what the tests need"
        own = python if "/" in python else ".venv/bin/python"
        first = "" if "/" in python else "`python3 -m venv .venv`, then "
        return (
            f"The tests do not run in this folder: {missing.says}. Install {packages}: {first}"
            f"`{own} -m pip install -e . pytest`, then run `flyball init --force`."
        )
    if "node_modules" not in detected.share and missing.kind in ("module", "command") and "npm" in command:
        return f"The tests do not run in this folder: {missing.says}. Run `npm install`, then `flyball init --force`."
    return f"The tests do not run in this folder: {missing.says}. Fix this, then run `flyball init --force`."


def _explanation(here: Trial, clean: Trial, network: bool) -> str:
    only = [name for name in clean.names if name not in here.names]
    which = f" ({', '.join(only[:LISTED])}{' …' if len(only) > LISTED else ''})" if only else ""
    if network:
        return (
            f"Tests that use the network fail in a clean checkout{which}. Proofs reach only this machine: "
            'set network.proof = "all" under [guard], or leave these tests out in [proof] commands.'
        )
    if clean.problem or not clean.ran:
        return f"In a clean checkout {clean.says.rstrip('.')}. {ONLY_TRACKED}"
    return f"In a clean checkout other tests fail than in this folder{which}. {ONLY_TRACKED}"


def _facts(root: Path, detected: Detected, tried: Tried) -> dict[str, Any]:
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


def _print(detected: Detected, tried: Tried) -> None:
    click.echo(f"Wrote {REPO_FILE}.")
    if detected.tests:
        click.echo(f"  proof   {detected.tests[0].command}   ({detected.tests[0].why})")
    for where, trial in (("in this folder", tried.here), ("in a clean checkout", tried.clean)):
        if trial:
            click.echo(f"          {where}: {trial.says}")
    for name in tried.here.names[:LISTED] if tried.here else ():
        click.echo(f"            ✗ {name}")
    shared = [path for path in detected.share if path not in detected.needed]
    if shared:
        click.echo(f"  share   {', '.join(shared)}, read-only in every checkout")
    if detected.needed:
        click.echo(f"  share   {', '.join(detected.needed)}   (not in git, but the tests need it)")
    agent = detected.agent or "none set; pass --agent or set [agents] default"
    click.echo(f"  agent   {agent} (installed: {', '.join(detected.agents) or 'none'})")
    for advice in tried.advice if detected.tests else (NO_PROOF,):
        click.echo(paint("bad" if sys.stdout.isatty() else "", f"\n{advice}", bold=True))
    flag = "" if detected.agent else ' --agent "command:my-agent {prompt}"'
    click.echo(f'\nReview and commit {FOLDER}/, then run: flyball run "Describe the task"{flag}')
