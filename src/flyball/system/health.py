"""Whether this machine, this state directory and this repository are fit for runs: one line for each check, with
the remedy.

Nothing is changed. A check that cannot be made is a bad line of its own, never an error.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from msgspec import Struct

import flyball
from flyball.agents import sandbox
from flyball.agents.accounts import statuses
from flyball.authority import trust
from flyball.config.load import load
from flyball.config.plugins import AGENTS, NOTIFY, SOURCES, plugins
from flyball.errors import FlyballError
from flyball.journal.records import KEY_FILE
from flyball.runtime.app import App
from flyball.runtime.start import loosened, tracked_files
from flyball.system.disk_usage import usage
from flyball.system.retention import dead_locks, forgotten
from flyball.views.text import first_few, plural
from flyball.workspace.git import require_git
from flyball.workspace.landing import run_branches

GB = 1_000_000_000
FREE_LEAST = 1 * GB
FREE_GOOD = 5 * GB


class Line(Struct, frozen=True):
    """`level` is ok, warn or bad; `cure` says what to do."""

    topic: str
    level: str
    text: str
    cure: str = ""


def examine(app: App, repo: Path | None) -> list[Line]:
    """Every check, in the order in which a person would look."""
    checks: list[tuple[str, Callable[[], Iterator[Line]]]] = [
        ("program", _program),
        ("git", _git),
        ("sandbox", _sandbox),
        ("agents", lambda: _agents(app)),
        ("disk", lambda: _disk(app)),
        ("state", lambda: _state(app)),
        ("journal", lambda: _journal(app)),
        ("runs", lambda: _runs(app)),
        ("leftovers", lambda: _leftovers(app)),
    ]
    if repo:
        checks += [("settings", lambda: _settings(app, repo)), ("branches", lambda: _branches(app, repo))]
    lines = list[Line]()
    for topic, check in checks:
        try:
            lines += check()
        except (FlyballError, OSError) as problem:
            same_topic = next((line.topic for line in lines if line.text == str(problem)), "")
            text = f"not checked; see {same_topic}" if same_topic else str(problem)
            lines.append(Line(topic, "bad", text))
    return lines


# ---- the machine -----------------------------------------------------------------------------------------


def _program() -> Iterator[Line]:
    version = ".".join(map(str, sys.version_info[:3]))
    place = Path(flyball.__file__).parent
    yield Line("program", "ok", f"Flyball {flyball.__version__}, Python {version}, in {place}")


def _git() -> Iterator[Line]:
    yield Line("git", "ok", "git {}.{}".format(*require_git()))


def _sandbox() -> Iterator[Line]:
    probed = sandbox.probe()
    if probed.kind == "none":
        cure = "Install bubblewrap (Debian: apt install bubblewrap)."
        yield Line("sandbox", "warn", f"none, so agents can read and write your files: {probed.why}", cure)
    elif probed.limits:
        yield Line("sandbox", "warn", f"{probed.kind}: {probed.limits}", "Install bubblewrap for all of it.")
    else:
        yield Line("sandbox", "ok", f"{probed.kind} works")


def _agents(app: App) -> Iterator[Line]:
    agents = statuses(app.env)
    installed = [row for row in agents if row.program]
    for row in installed:
        version = row.version or "installed"
        if row.login:
            yield Line(row.agent, "ok", f"{version}, login from {row.login}")
        else:
            yield Line(row.agent, "warn", f"{version}, not logged in", f"Run `{row.program}` itself.")
    missing = [row.agent for row in agents if not row.program]
    if missing:
        cure = "" if installed else "Install one, or use `mechanic`, which is built in."
        yield Line("agents", "ok" if installed else "warn", f"not installed: {', '.join(missing)}", cure)
    for group in (AGENTS, NOTIFY, SOURCES):
        if plugins(group):
            yield Line("plug-ins", "ok", f"{group}: {', '.join(sorted(plugins(group)))}")


# ---- the state directory ---------------------------------------------------------------------------------


def _disk(app: App) -> Iterator[Line]:
    place = next(path for path in (app.state_dir, *app.state_dir.parents) if path.exists())
    free = shutil.disk_usage(place).free
    level = "bad" if free < FREE_LEAST else "warn" if free < FREE_GOOD else "ok"
    cure = "" if level == "ok" else "Free some space, for example with `flyball prune --yes`."
    yield Line("disk", level, f"{free / GB:.1f} GB free for {app.state_dir}", cure)


def _state(app: App) -> Iterator[Line]:
    if not app.state_dir.exists():
        yield Line("state", "ok", f"{app.state_dir} does not exist yet; the first run creates it")
        return
    info = app.state_dir.stat()
    if info.st_uid != os.geteuid() or not os.access(app.state_dir, os.W_OK | os.X_OK):
        yield Line(
            "state", "bad", f"{app.state_dir} is not writable for you", "chown it, or set FLYBALL_STATE_DIR."
        )
        return
    open_files = [
        path for path in (app.state_dir / KEY_FILE, app.state_dir / "person.key") if _readable(path)
    ]
    for path in open_files:
        yield Line("state", "bad", f"{path} can be read by others", f"chmod 600 {path}")
    if info.st_mode & 0o077:
        yield Line(
            "state", "warn", f"{app.state_dir} can be read by other users", f"chmod 700 {app.state_dir}"
        )
    elif not open_files:
        yield Line("state", "ok", f"{app.state_dir} is private")


def _readable(path: Path) -> bool:
    return path.exists() and bool(path.stat().st_mode & 0o077)


def _journal(app: App) -> Iterator[Line]:
    if not app.dirs.journal.exists():
        yield Line("journal", "ok", "empty")
        return
    counts = [len(app.journal.rows()), len(app.journal.rows(open_question=True))]
    text = f"{plural(counts[0], 'run')}, {plural(counts[1], 'open question')}"
    yield Line("journal", "ok", text, "`flyball inbox` lists the questions." if counts[1] else "")
    if not app.has_key:
        yield Line(
            "journal", "bad", "the signing key is gone", "Restore it from a backup; see `flyball check`."
        )


def _runs(app: App) -> Iterator[Line]:
    """Runs whose process has died, and what it has left."""
    if not app.dirs.journal.exists():
        return
    rows = [row for row in app.journal.rows(status="running", parent="") if not app.driven(row.run)]
    for row in rows:
        cure = f"flyball up --repo {row.repo}" if row.machine == "cto" else f"flyball resume {row.run}"
        yield Line("runs", "warn", f"run {row.run} has no process", cure)
    dead = dead_locks(app)
    if dead:
        yield Line(
            "runs",
            "warn",
            f"{plural(len(dead), 'lock')} of processes that were killed",
            "flyball prune --yes",
        )
    if not rows and not dead:
        yield Line("runs", "ok", "every running run has a process")


def _leftovers(app: App) -> Iterator[Line]:
    usage_ = usage(app)
    ended = [
        run for one in usage_.repos for run in one.runs if run.status == "ended" and run.sizes["checkouts"]
    ]
    for run in ended:
        contents = (
            "changes that are saved nowhere else" if run.kept_checkout else "files that are no longer needed"
        )
        cure = f"Look at {app.dirs.run(run.run).checkout}, then `flyball rm {run.run}`."
        yield Line(
            "checkouts",
            "warn",
            f"ended run {run.run} holds {contents}",
            cure if run.kept_checkout else "flyball prune",
        )
    stray = forgotten(app, usage_.unknown) if usage_.unknown else []
    if stray:
        names = first_few([path.name for path in stray])
        yield Line("leftovers", "warn", f"of removed runs: {names}", "flyball prune --yes")
    for one in usage_.repos:
        if one.problem:
            yield Line(
                "repository",
                "warn",
                one.problem,
                "If it was deleted for good, remove its runs with `flyball rm RUN`.",
            )
    if not ended and not stray:
        yield Line("leftovers", "ok", "none")


# ---- this repository -------------------------------------------------------------------------------------


def _settings(app: App, repo: Path) -> Iterator[Line]:
    loaded = load(repo, app.env)
    settings = loaded.settings()
    needs = trust.needs(loaded, tracked_files(repo), loaded.machine, policy=loosened)
    if trust.untrusted(needs, loaded, repo, trust.TrustStore(app.state_dir)):
        yield Line("settings", "warn", "this repository's settings are not trusted yet", "flyball trust")
    elif not settings.proof:
        yield Line("settings", "warn", "no proof command, so runs end unproven", "flyball init")
    else:
        yield Line("settings", "ok", f"proof: {first_few(settings.proof)}")


def _branches(app: App, repo: Path) -> Iterator[Line]:
    runs = {row.run for row in app.journal.rows(repo=str(repo))} if app.dirs.journal.exists() else set[str]()
    branches = run_branches(repo)
    orphans = [branch.name for branch in branches if branch.run not in runs]
    if orphans:
        cure = f"git branch -d {orphans[0]}  (-D if it is not merged and not wanted)"
        yield Line("branches", "warn", f"these belong to no run in the journal: {first_few(orphans)}", cure)
    else:
        yield Line(
            "branches",
            "ok",
            f"{len(branches)} flyball/ branches, each belongs to a run"
            if branches
            else "no flyball/ branches",
        )
