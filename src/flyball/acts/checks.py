"""`do = "check"`: Flyball's own act. The table names the checks; each returns a problem as a sentence, or ""."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from flyball.acts.run_files import RunFiles
from flyball.agents.adapter import adapter
from flyball.domain import events as e
from flyball.state.run import Run
from flyball.workspace import inspect_repo


def check(run_files: RunFiles, run: Run) -> e.CheckEnded:
    for name in run.here.checks:
        problem = CHECKS[name](run_files, run)
        if problem:
            return e.CheckEnded(outcome="cannot_start", reason=problem)
    return e.CheckEnded(outcome="ready")


def _agents(_: RunFiles, run: Run) -> str:
    """Why an agent of one of the machine's roles cannot be started."""
    roles = dict.fromkeys(state.of for state in run.machine.states.values() if state.act == "agent")
    missing = (adapter(run.settings.agent_for(role)).missing() for role in roles)
    return next((problem for problem in missing if problem), "")


def _checkout(run_files: RunFiles, run: Run) -> str:
    same = run_files.workspace(run).tree() == run.tree
    return "" if same else "The checkout differs from the tree that the run recorded."


def _dependencies(_: RunFiles, run: Run) -> str:
    """What the task builds on: the commit it starts from, which an earlier step or task may have made."""
    if not run.began.commit or not run.began.repo:
        return ""
    repo = inspect_repo(Path(run.began.repo))
    there = repo.git.ask("cat-file", "-e", f"{run.began.commit}^{{commit}}", ok=(0, 1, 128)).code == 0
    return "" if there else f"The commit {run.began.commit[:12]} that the task builds on no longer exists."


def _base(_: RunFiles, run: Run) -> str:
    """The branch that the result will be merged into."""
    if not run.began.branch or run.settings.commit != "merge":
        return ""
    repo = inspect_repo(Path(run.began.repo))
    ref = f"refs/heads/{run.began.branch}"
    there = repo.git.ask("rev-parse", "-q", "--verify", ref, ok=(0, 1, 128)).code == 0
    return (
        "" if there else f"The branch {run.began.branch}, into which the result would be merged, was deleted."
    )


def _plan(run_files: RunFiles, run: Run) -> str:
    """TASK-5: the plan file that the task carries out."""
    name = run.plan_file
    if not name:
        return ""
    (content,) = run_files.workspace(run).read_all([(run.tree, name)])
    return (
        "" if content is not None else f"The plan file {name} is not in the files that the run started from."
    )


def _change(run_files: RunFiles, run: Run) -> str:
    """Whether the whole change, before it is committed, is still the one that was checked, under unchanged rules."""
    touched = run_files.tampered(run, whole=True)
    return f"{touched} was changed during the run." if touched else _checkout(run_files, run)


CHECKS: dict[str, Callable[[RunFiles, Run], str]] = {
    "agents": _agents,
    "checkout": _checkout,
    "dependencies": _dependencies,
    "base": _base,
    "plan": _plan,
    "change": _change,
}
