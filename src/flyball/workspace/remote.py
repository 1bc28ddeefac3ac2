"""The remote of a user's repository: its address, and pushing a run's commit to it.

Pushing is the user's own git, with the user's own configuration and credentials, but without hooks: an agent has no
part in it, since it can write to neither.
"""

import base64
from collections.abc import Mapping

from flyball.errors import LandConflict, WorkspaceError
from flyball.workspace.git import as_user, reading_user, text
from flyball.workspace.repo import Repo

REJECTED = (b"[rejected]", b"non-fast-forward", b"[remote rejected]", b"fetch first")


def address(repo: Repo, remote: str) -> str:
    """The URL of a remote; "" if there is no such remote."""
    told = reading_user(repo.root, "remote", "get-url", "--", remote, ok=range(256))
    return text(told.out).strip() if told.code == 0 else ""


def push(repo: Repo, remote: str, commit: str, branch: str, env: Mapping[str, str], token: str = "") -> None:
    """Where the remote's branch has other commits, nothing is overwritten: that is a LandConflict."""
    url = address(repo, remote)
    settings = {"core.hooksPath": "/dev/null"}
    if token and url.startswith("https://"):
        login = base64.b64encode(f"x-access-token:{token}".encode()).decode()
        settings["http.extraHeader"] = f"Authorization: Basic {login}"
    refspec = f"{commit}:refs/heads/{branch}"
    told = as_user(repo.root, env, settings, "push", "--no-verify", "--quiet", "--", remote, refspec)
    if told.code == 0:
        return
    lines = [text(line).strip() for line in told.err.splitlines() if line.strip()]
    why = next(
        (line for line in lines if line.startswith(("fatal:", "remote:", "!"))), lines[-1] if lines else ""
    )
    if any(word in told.err for word in REJECTED):
        raise LandConflict(f"The remote '{remote}' refuses {branch}: {why.lstrip('! ')[:300]}.")
    raise WorkspaceError(f"{branch} cannot be pushed to '{remote}': {why.removeprefix('fatal: ')[:300]}.")
