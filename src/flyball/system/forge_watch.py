"""What GitHub says, asked from time to time by a thread, so that a slow answer blocks nothing.

Three things are asked for: open issues that become tasks (CTO-6), issues and pull requests that tasks wait for, and CI
of the pull requests that runs have opened (CTO-8). What could not be read is said; it never means that there is nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from flyball.domain.results import URGENT, Trigger
from flyball.domain.settings import Settings
from flyball.errors import UserError
from flyball.forge import CiState, Forge, PullRequest, forge_for, slug_of
from flyball.journal.database import ring
from flyball.runtime.app import App
from flyball.runtime.backlog import Backlog, Ticket
from flyball.system.task_sources import open_issues
from flyball.views.text import clean, first_few
from flyball.workspace import Repo, inspect_repo
from flyball.workspace.landing import address

OWN = "flyball/"  # how the branches of runs begin
PULLS_MOST = 20  # so many are asked for their CI
TEXT_MOST = 20_000


class ForgeQuery(Struct, frozen=True):
    """What to ask for. An empty name: not at all."""

    issues: str = ""  # OWNER/NAME of the repository whose issues are tasks …
    label: str = ""  # … if they have this label
    pulls: str = ""  # OWNER/NAME of the repository in which runs open pull requests
    numbers: frozenset[int] = frozenset()  # issues and pull requests there that tasks wait for


class OpenProposal(Struct, frozen=True):
    """A pull request from the branch of a run, and its CI."""

    pull: PullRequest
    ci: CiState

    @property
    def run(self) -> str:
        return self.pull.head.removeprefix(OWN)


class ForgeState(Struct, frozen=True):
    tasks: tuple[Trigger, ...] | None = None  # the open issues; None: not asked for, or not read
    proposed: tuple[OpenProposal, ...] = ()
    states: dict[int, str] = {}  # number -> open | closed | merged
    problem: str = ""  # why something could not be read


NOTHING = ForgeState()


def wanted(settings: Settings, repo: Repo, backlog: Backlog) -> ForgeQuery:
    numbers = {int(name[1:]) for one in backlog.tickets for name in one.trigger.after if name[:1] == "#"}
    asks = bool(settings.github or numbers or settings.commit == "pr")
    slug = settings.forge or slug_of(address(repo, settings.remote)) if asks else ""
    slug = slug or settings.github
    numbers |= {number for one in backlog.tickets if (number := issue_of(one, slug))}
    return ForgeQuery(settings.github, settings.github_label, slug, frozenset(numbers))


def issue_of(one: Ticket, slug: str) -> int:
    """The issue of that repository that a task came from; 0: none."""
    number = one.id.removeprefix("GH")
    is_named = f"(issue #{number} of {slug})" in one.trigger.text.partition("\n")[0]
    return int(number) if number.isdecimal() and is_named else 0


def look(query: ForgeQuery, env: Mapping[str, str], before: ForgeState = NOTHING) -> ForgeState:
    """Everything that is wanted. What cannot be read now is as it was, with the reason; issues that were read count even
    if the token may not see pull requests."""
    tasks = None
    try:
        tasks = tuple(open_issues(query.issues, query.label, env)) if query.issues else None
        if not query.pulls:
            return ForgeState(tasks)
        forge = forge_for(query.pulls, env)
        states = {number: forge.state_of(number) for number in sorted(query.numbers)}
        return ForgeState(tasks, tuple(_proposed(forge)), states)
    except UserError as problem:
        return replace(before, tasks=tasks, problem=str(problem))


def _proposed(forge: Forge) -> Iterator[OpenProposal]:
    own = [one for one in forge.pull_requests() if one.head.startswith(OWN)]
    for pull in own[:PULLS_MOST]:
        yield OpenProposal(pull, forge.ci(pull.sha or pull.head))


class ForgeWatch:
    """Asks every `every_us`, and at once when the query changes."""

    def __init__(self, app: App, driver: str, every_us: int) -> None:
        self._env, self._ring, self._every_s = app.env, (app.state_dir, driver), every_us / 1_000_000
        self._wanted, self._seen, self._news = ForgeQuery(), NOTHING, False
        self._over, self._hurry = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None

    def want(self, what: ForgeQuery) -> None:
        if what == self._wanted:
            return
        self._wanted = what
        self._hurry.set()
        if self._thread is None:
            self._thread = threading.Thread(target=self._poll, name="forge", daemon=True)
            self._thread.start()

    def _poll(self) -> None:
        while not self._over.is_set():
            self._hurry.clear()
            self._seen, self._news = look(self._wanted, self._env, self._seen), True
            ring(*self._ring)
            self._hurry.wait(self._every_s)

    def news(self) -> ForgeState | None:
        """What the last look found; returned once."""
        if not self._news:
            return None
        self._news = False
        return self._seen

    def close(self) -> None:
        self._over.set()
        self._hurry.set()


# ---- what follows ----------------------------------------------------------------------------------------


def repairs(root: Path, state: ForgeState) -> list[Trigger]:
    """Work for each pull request of a run whose CI is red, where its commit is known here."""
    triggers = (_of_pull(root, one) for one in state.proposed if one.ci.state == "red")
    return [one for one in triggers if one is not None]


def _of_pull(root: Path, one: OpenProposal) -> Trigger | None:
    failing = f"{first_few(list(one.ci.failing))}, {one.pull.url}"
    return repair(root, one.pull.head, one.pull.sha, failing)


def repair(root: Path, branch: str, commit: str, what: str) -> Trigger | None:
    """CTO-8: CI is red on the branch of a run. None: it is no such branch, or has commits that are not here."""
    run = branch.removeprefix(OWN)
    repo = inspect_repo(root)
    if (
        not branch.startswith(OWN)
        or repo.git.ask("cat-file", "-e", f"{commit}^{{commit}}", ok=(0, 1, 128)).code
    ):
        return None
    text = f"CI fails on {branch} ({what}). Find the cause and fix it."
    return Trigger(
        kind="ci",
        text=clean(text)[:TEXT_MOST],
        ticket=f"{repairs_of(run)}{commit[:7]}",
        priority=URGENT["ci"],
        commit=commit,
        head=branch,
    )


def repairs_of(run: str) -> str:
    """How the names of the tasks begin that repair CI of a run's branch."""
    return f"CI-{run}-"


def still_red(trigger: Trigger, started: Mapping[str, str]) -> Trigger:
    """A repair that changed nothing leaves the same commit red: that is for a person, as a task of its own."""
    is_done = started.get(trigger.ticket) == "done"
    return replace(trigger, ticket=f"{trigger.ticket}-again") if is_done else trigger


def tried(trigger: Trigger, names: Iterable[str]) -> bool:
    """Whether a repair of the same branch was tried before this one."""
    begins = repairs_of(trigger.head.removeprefix(OWN))
    return any(name.startswith(begins) and name != trigger.ticket for name in names)
