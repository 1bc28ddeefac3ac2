"""Landing: what a merge with a target that has moved must stand before anything of the user's is touched."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from flyball import certificate
from flyball.acts.ground import Ground
from flyball.acts.proof import prove
from flyball.acts.turn import judge
from flyball.agents import process
from flyball.core import events as e
from flyball.core.run import Run
from flyball.core.tally import Proof
from flyball.errors import LandConflict, UserError
from flyball.guard.change import Change
from flyball.journal.keys import load_or_create
from flyball.supervisor import Interrupted
from flyball.workspace import Landed, Repo, Workspace, inspect_repo, land


def bring_home(ground: Ground, run: Run, commit: str, act: e.Act) -> Landed:
    """`commit = "merge"`: the user's branch takes the commit; a target that moved is merged, judged and proved first."""
    repo = inspect_repo(ground.folder_of_repo(run))
    try:
        return land(repo, run.id, commit)
    except LandConflict:
        merged = _merged(ground, run, repo, commit, act)
    return land(inspect_repo(repo.root), run.id, merged)


def _merged(ground: Ground, run: Run, repo: Repo, commit: str, act: e.Act) -> str:
    work = ground.workspace(run)
    tree = merge(work, run, repo.head, commit, repo.branch)
    judge_merge(ground, run, work, repo.tree, tree, act.tree)
    again = replace(act, key=f"{act.key}-merge", tree=tree)
    proved = replace(run, proof=_proved(ground, run, again))
    made = work.commit(tree, f"Merge flyball/{run.id}\n\nFlyball-Run: {run.id}\n", [repo.head, commit])
    work.publish(made)
    statement = certificate.statement(proved, again, made, work.repo_root.name)
    certificate.write(work.dir / "certificate.json", statement, load_or_create(ground.state_dir))
    return made


def merge(work: Workspace, run: Run, tip: str, commit: str, branch: str) -> str:
    """The tree of run and target together; where both changed the same, a sentence says so."""
    merged = work.merge(tip, commit)
    if merged.conflicts:
        raise LandConflict(
            f"Run {run.id} and '{branch}' both changed {_listed(merged.conflicts)}. Merge by hand with "
            f"`git merge flyball/{run.id}`, or start again from where '{branch}' is now: `flyball run`."
        )
    return merged.tree


def _listed(paths: tuple[str, ...]) -> str:
    return ", ".join(paths[:5]) + (f" and {len(paths) - 5} more" if len(paths) > 5 else "")


def judge_merge(
    ground: Ground, run: Run, work: Workspace, target: str, tree: str, certified: str
) -> e.Ruling:
    """What would land may hold nothing that the guard has not let pass in the run itself."""
    before = _ruling(ground, run, work, work.base_tree, certified)
    now = _ruling(ground, run, work, target, tree)
    new = [finding for finding in now.others if finding not in before.others]
    if (now.verdict != "allow" and new) or _severity(now) > _severity(before):
        raise UserError(
            f"Merged with its target, run {run.id} would not pass the guard: {now.reason} "
            f"Look at it with `git merge flyball/{run.id}`."
        )
    return now


def _severity(ruling: e.Ruling) -> int:
    return {"allow": 0, "ask": 1}.get(ruling.verdict, 2)


def _ruling(ground: Ground, run: Run, work: Workspace, old: str, new: str) -> e.Ruling:
    fresh = replace(run, changed=(), lines=0, excused=(), excused_lines=0)
    changes = [msgspec.convert(msgspec.to_builtins(c), Change) for c in work.changes(old, new)]
    act = e.Act(key=f"{run.id}-land", do="check", state=run.state, tree=old)
    return judge(ground, fresh, act, work, new, changes)


def _proved(ground: Ground, run: Run, act: e.Act) -> Proof | None:
    if not run.settings.proof:
        return run.proof
    done = prove(ground, run, replace(act, do="proof", why="gate"), process.Stop())
    if isinstance(done, Interrupted):
        raise UserError(f"The proof of run {run.id} was interrupted ({done.reason}); land again.")
    assert isinstance(done.result, e.ProofEnded)
    if not done.result.passed:
        raise UserError(unproved(run, done.result))
    return Proof(done.result.tree, True, done.result.failing, "", done.result.commands)


def unproved(run: Run, proof: e.ProofEnded) -> str:
    lines = [line.strip() for line in proof.summary.splitlines() if line.strip()]
    last = lines[-1][:300] if lines else "a proof command did not exit 0."
    why = proof.invalid or proof.cannot_start or last
    return (
        f"Merged with its target, run {run.id} fails its proof, so it was not landed: {why} "
        f"Mend it with `git merge flyball/{run.id}`, or start again: `flyball run`."
    )
