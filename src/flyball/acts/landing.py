"""Landing a finished run. If the target has moved, the merge is a new tree: it is judged, proved and certified again."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from flyball import certificate
from flyball.acts.ground import Ground
from flyball.acts.proof import prove
from flyball.acts.turn import judge
from flyball.agents import process
from flyball.core import events as e
from flyball.core.run import Proof, Run
from flyball.errors import LandConflict, UserError, WorkspaceError
from flyball.guard.change import Change
from flyball.journal.keys import load_or_create
from flyball.supervisor import Interrupted
from flyball.workspace import Landed, Repo, Workspace, inspect_repo, land


def bring_home(ground: Ground, run: Run, commit: str, head: str, approved: bool = False) -> Landed:
    """The user's branch takes the run's commit, by fast-forward, or by a merge that holds on its own."""
    repo = inspect_repo(ground.folder_of_repo(run))
    try:
        return land(repo, run.id, commit)
    except LandConflict:
        pass
    merged = _merged(ground, run, repo, commit, head, approved)
    return land(inspect_repo(repo.root), run.id, merged)


def _merged(ground: Ground, run: Run, repo: Repo, commit: str, head: str, approved: bool) -> str:
    work = ground.workspace(run)
    result = work.merge(repo.head, ours=commit)
    if result.conflicts:
        names = ", ".join(result.conflicts[:5])
        raise LandConflict(
            f"flyball/{run.id} does not merge into '{repo.branch}': both changed {names}. "
            f"Merge it by hand (`git merge flyball/{run.id}`), or start a new run from the new state."
        )
    act = e.Act(
        key=f"{run.id}-land-{result.tree[:12]}", do="commit", state=run.state, tree=result.tree, head=head
    )
    _guard(ground, run, work, repo, act, approved)
    proof = _prove(ground, run, act)
    made = work.commit(result.tree, f"Merge flyball/{run.id}\n\nFlyball-Run: {run.id}\n", [repo.head, commit])
    work.publish(made)
    proved = replace(run, proof=proof) if proof else run
    statement = certificate.statement(proved, act, made, work.repo_root.name)
    certificate.write(work.dir / "certificate.json", statement, load_or_create(ground.state_dir))
    return made


def _guard(ground: Ground, run: Run, work: Workspace, repo: Repo, act: e.Act, approved: bool) -> None:
    changes = [msgspec.convert(msgspec.to_builtins(c), Change) for c in work.changes(repo.tree, act.tree)]
    fresh = replace(run, changed=(), lines=0)
    ruling = judge(ground, fresh, replace(act, tree=repo.tree), work, act.tree, changes)
    if ruling.verdict == "deny" and not run.waived:
        raise WorkspaceError(f"The guard refuses the merged change: {ruling.reason}. Nothing was landed.")
    if ruling.verdict == "ask" and not run.waived and not approved:
        raise UserError(
            f"The guard asks about the merged change: {ruling.reason}. Look at it; `--yes` lands it."
        )


def _prove(ground: Ground, run: Run, act: e.Act) -> Proof | None:
    if not run.settings.proof:
        return None
    done = prove(ground, run, replace(act, do="proof", why="gate"), process.Stop())
    if isinstance(done, Interrupted):
        raise WorkspaceError(f"The proof of the merged tree was interrupted ({done.reason}). Land again.")
    result = done.result
    assert isinstance(result, e.ProofEnded)
    if not result.passed:
        last = (result.invalid or result.summary).strip().splitlines()[-1:]
        raise LandConflict(f"The merged tree does not pass the proof ({' '.join(last)}). Nothing was landed.")
    return Proof(result.tree, True, result.failing, "", result.commands)
