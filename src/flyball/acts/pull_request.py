"""`commit = "pr"`: the certified commit is pushed and proposed as a pull request.

Performed again after a crash it pushes the same commit, and finds the pull request that is there already.
"""

from __future__ import annotations

from msgspec.structs import replace

from flyball.acts.certify import certify
from flyball.acts.run_files import RunFiles
from flyball.core.run import Run
from flyball.domain import events as e
from flyball.errors import ForgeError, LandConflict, UserError, WorkspaceError
from flyball.forge import Forge, PullRequest, forge_for, slug_of
from flyball.guard.secrets import redact
from flyball.views.proposal import body, title
from flyball.workspace import Repo, inspect_repo
from flyball.workspace.remote import address, push

REFUSED = 422


def propose(run_files: RunFiles, run: Run, act: e.Act, done: e.CommitEnded) -> e.CommitEnded:
    """`conflict`: a person must change something in the repository; `unreachable`: the forge refuses or is silent."""
    branch = branch_of(run)
    try:
        repo = inspect_repo(run_files.folder_of_repo(run))
        forge = forge_of(repo, run, run_files.known(run))
        if not run.began.branch:
            raise LandConflict("The run began without a branch checked out, so a pull request has no target.")
        push(repo, run.settings.remote, done.commit, branch, run_files.known(run), forge.token)
        pull = _opened(forge, run, branch, done)
    except LandConflict as problem:
        return replace(done, outcome="conflict", reason=str(problem))
    except ForgeError as problem:
        outcome = "conflict" if problem.code == REFUSED else "unreachable"
        return replace(done, outcome=outcome, reason=str(problem))
    except (WorkspaceError, UserError) as problem:
        return replace(done, outcome="unreachable", reason=str(problem))
    if pull.state == "closed":
        reason = (
            f"The pull request {pull.url} was closed. Open it again, or take the work from flyball/{run.id}."
        )
        return replace(done, outcome="conflict", reason=reason)
    digest = certify(run_files, run, act, done.tree, done.commit, done.work, pull.url)
    return replace(done, certificate=digest, pull_request=pull.url)


def branch_of(run: Run) -> str:
    """The branch that is pushed: the run's own, or that of the pull request that the run repairs."""
    return str(run.began.options.get("head") or f"flyball/{run.id}")


def forge_of(repo: Repo, run: Run, env: dict[str, str]) -> Forge:
    remote = run.settings.remote
    url = address(repo, remote)
    if not url:
        raise WorkspaceError(
            f"{repo.root} has no remote '{remote}'. Add it with `git remote add {remote} URL`, or set forge.remote."
        )
    slug = run.settings.forge or slug_of(url)
    if not slug:
        raise UserError(
            f"The remote '{remote}' ({url}) names no GitHub repository. Set forge.repository to OWNER/NAME."
        )
    return forge_for(slug, env)


def _opened(forge: Forge, run: Run, branch: str, done: e.CommitEnded) -> PullRequest:
    known = forge.pull_request(branch)
    if known is not None:
        return known
    try:
        text = redact(body(run, done))
        return forge.open_pull_request(branch, run.began.branch, redact(title(run)), text)
    except ForgeError as problem:
        known = forge.pull_request(branch) if problem.code == REFUSED else None
        if known is None:
            raise
        return known
