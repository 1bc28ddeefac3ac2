"""Whether what the journal says about the standing loop agrees with git, the pages and the plan (CTO-13, CTO-14).

Each difference is a sentence with what is decided about it. One that cannot be settled by a rule (`grave`) is for a
person: work continues only after an answer.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import cast

from msgspec import Struct

from flyball.acts.assess import words_of
from flyball.domain.settings import DAY, dollars, show_duration
from flyball.errors import NotFound, WorkspaceError
from flyball.guard.policy import Tier, needs_approval, raise_to, tier_of
from flyball.runtime.app import App
from flyball.runtime.listeners import drift
from flyball.state.run import Run
from flyball.system.conditions import never
from flyball.system.forge_watch import NOTHING, ForgeState, OpenProposal, repair
from flyball.system.tasks import started
from flyball.views.text import first_few, plural
from flyball.workspace import Repo, damaged_objects, inspect_repo

LOOPS = (("turns", "turns for this plan"), ("no_progress", "turns without progress"))
NEAR = 0.8  # of a limit: it is said
ASKED_LONG_US = DAY


class Mismatch(Struct, frozen=True):
    run: str
    text: str
    grave: bool = False


def mismatches(app: App, root: Path, lanes: list[Run], state: ForgeState = NOTHING) -> list[Mismatch]:
    """What does not agree now, in this repository and on GitHub."""
    try:
        repo = inspect_repo(root)
    except WorkspaceError as problem:
        return [Mismatch("", str(problem), grave=True)]
    lines = [
        Mismatch(
            "",
            f"{name} was edited by hand, which has no effect. The edit is kept in a copy next to it; delete that when you have read it.",
        )
        for name in drift(str(root))
    ]
    lines += _on_github(app, root, state)
    for run in lanes:
        if run.status != "ended":
            lines += [
                *_in_git(repo, run),
                *_below(app, run),
                *_plan(app, root, run),
                *_limits(run),
                *_asked(app, run),
            ]
    return lines


def _on_github(app: App, root: Path, state: ForgeState) -> Iterator[Mismatch]:
    """Pull requests and CI against the journal; tasks against what they wait for."""
    if state.problem:
        yield Mismatch("", state.problem)
    for one in state.proposed:
        yield from (Mismatch("", text) for text in _proposed(app, root, one))
    tickets = app.backlog(root).tickets
    became = started(app, root) if tickets else {}
    for ticket in tickets:
        yield from (Mismatch("", text) for text in never(app, ticket, became))
        number = ticket.id.removeprefix("GH")
        if number.isdecimal() and state.states.get(int(number)) == "closed":
            text = f"Issue #{number} was closed, and {ticket.id} still waits. Cancel it with `flyball task cancel {ticket.id}`."
            yield Mismatch("", text)


def _proposed(app: App, root: Path, one: OpenProposal) -> Iterator[str]:
    pull = one.pull
    if app.journal.row(one.run) is None:
        yield f"{pull.url} comes from {pull.head}, which belongs to no known run. Flyball does not touch it."
        return
    work = repair(root, pull.head, pull.sha, "")
    if work is None:
        yield (
            f"{pull.url} has commits that are not in this repository, so Flyball does not repair it. Fetch them with "
            f"`git fetch` if it should."
        )
    if one.ci.state == "red":
        decided = f"{work.ticket} repairs it once" if work else "a person has to look"
        yield f"CI fails for {pull.url} ({first_few(list(one.ci.failing))}): {decided}."


def _in_git(repo: Repo, run: Run) -> Iterator[Mismatch]:
    branch, commit = run.began.branch, run.plan.commit
    if branch and repo.git.ask("rev-parse", "-q", "--verify", f"refs/heads/{branch}", ok=(0, 1, 128)).code:
        text = f"The branch '{branch}' that results go to was deleted. Create it again, or stop this lane with `flyball cancel {run.id}`."
        yield Mismatch(run.id, text, grave=True)
    if commit and repo.git.ask("cat-file", "-e", f"{commit}^{{commit}}", ok=(0, 1, 128)).code:
        text = f"The commit {commit[:12]} that the plan builds on is no longer in the repository. Plan again, or drop it."
        yield Mismatch(run.id, text, grave=True)
        return
    damaged = damaged_objects(repo.git, commit or repo.head)
    if damaged:
        text = f"{plural(len(damaged), 'object')} of the commit {(commit or repo.head)[:12]} cannot be read ({damaged[0][:12]}). Repair the repository (see `git fsck`), then answer."
        yield Mismatch(run.id, text, grave=True)


def _below(app: App, run: Run) -> Iterator[Mismatch]:
    """Check the child run: it must be known, and its end must be recorded here too."""
    if not run.child:
        return
    try:
        below = app.read(run.child)
    except NotFound:
        yield Mismatch(
            run.id, f"Run {run.child}, which does the current step, is not in the journal.", grave=True
        )
        return
    if below.status == "ended":
        yield Mismatch(run.id, f"Run {run.child} has ended; using its result now.")


def _plan(app: App, root: Path, run: Run) -> Iterator[Mismatch]:
    """Whether the plan was made under the rules, and for the risk and cost, that hold now."""
    plan = run.plan.assessment
    if plan is None:
        return
    for name, before in plan.governance.items():
        if before != _digest(root / name):
            text = f"{name} has changed since the plan was made. This plan continues; the next one uses the new text."
            yield Mismatch(run.id, text)
    paths, text = [path for step in plan.steps for path in step.paths], words_of(run, plan.steps)
    tier, why = tier_of(paths, text, app.run_files().policy(run), workspace=str(root))
    if raise_to(cast("Tier", plan.tier), tier) != plan.tier:
        text = f"The plan was {plan.tier} and is {tier} by the current rules: {why[0]}"
        yield Mismatch(run.id, text, grave=needs_approval(tier) and not run.plan.approved)
    started = [row for row in app.journal.rows(parent=run.id) if row.created_at >= run.entered_at]
    cost = sum(row.cost_uusd for row in started) if run.here.act == "run" else 0
    if cost > plan.cost_uusd > 0:
        text = f"The plan has cost {dollars(cost)}; the estimate was {dollars(plan.cost_uusd)}. It continues within the budget."
        yield Mismatch(run.id, text)


def _digest(file: Path) -> str:
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest()
    except OSError:
        return "missing"


def _limits(run: Run) -> Iterator[Mismatch]:
    for key, what in LOOPS:
        count, most = (run.plan.turns if key == "turns" else run.plan.idle), run.most(key)
        if most and count >= most * NEAR:
            yield Mismatch(run.id, f"{count} of {most} {what} are used; at the limit you are asked.")


def _asked(app: App, run: Run) -> Iterator[Mismatch]:
    waited = app.clock.now() - run.entered_at
    if run.question is not None and waited > ASKED_LONG_US:
        yield Mismatch(
            run.id, f"Question {run.question.id} has been open for {show_duration(waited)}. Answer it."
        )
