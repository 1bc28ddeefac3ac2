"""Landing: what a merge with a target that has moved must stand before anything of the user's is touched."""

from __future__ import annotations

from pathlib import Path

import msgspec
from msgspec.structs import replace

from flyball.acts.proof import prove
from flyball.acts.run_files import RunFiles
from flyball.acts.turn import judge
from flyball.agents import process
from flyball.core import events as e
from flyball.core.decide import Interrupted
from flyball.core.parts import Proof
from flyball.core.run import Run
from flyball.errors import LandConflict, UserError, WorkspaceError
from flyball.evidence import certificate
from flyball.journal.signing import load_or_create
from flyball.state_dir import write_whole
from flyball.workspace import Repo, Workspace, inspect_repo, land
from flyball.workspace.land import tip_of
from flyball.workspace.repo import is_dirty


class Merge(msgspec.Struct, frozen=True):
    """A commit of run and target together, and where the target was."""

    tip: str
    tree: str
    commit: str


class Home(msgspec.Struct, frozen=True):
    """Where a run comes from and goes to: the branch that was checked out when it began."""

    repo: Repo
    work: Workspace
    branch: str
    tip: str
    note: Path  # of the merge, once there is one


def bring_home(
    run_files: RunFiles, run: Run, act: e.Act, done: e.CommitEnded, stop: process.Stop
) -> e.CommitEnded | Interrupted:
    """`commit = "merge"`: the user's branch takes the commit; a target that moved is merged, judged and proved first.

    Performed again after a crash it comes to the same commit; what stands in the way is a conflict for a person.
    """
    try:
        home = _home(run_files, run, act)
        if not home.note.exists() and home.work.follows(home.tip, done.commit):
            return replace(done, landed=home.branch)  # it has it already
        moved = home.note.exists() or not home.work.follows(done.commit, home.tip)
        made = _merged(run_files, run, home, act, done, stop) if moved else done
    except (WorkspaceError, UserError) as problem:
        return replace(done, outcome="conflict", reason=str(problem))
    return made if isinstance(made, Interrupted) else _landed(run, home, made)


def _home(run_files: RunFiles, run: Run, act: e.Act) -> Home:
    repo = inspect_repo(run_files.folder_of_repo(run))
    branch = run.began.branch or repo.branch
    tip = tip_of(repo, branch) if branch else ""
    if not tip:
        named = f"no branch '{branch}' any more" if branch else "no branch checked out"
        raise WorkspaceError(
            f"{repo.root} has {named}, so {run.id} has nowhere to land; make it, then retry."
        )
    return Home(repo, run_files.workspace(run), branch, tip, run_files.act_folder(act.key) / "merge.json")


def _landed(run: Run, home: Home, made: e.CommitEnded) -> e.CommitEnded:
    try:
        if not home.work.follows(home.tip, made.commit):
            land(home.repo, run.id, made.commit, home.branch)
    except (WorkspaceError, UserError) as problem:
        return replace(made, outcome="conflict", reason=str(problem))
    return replace(made, landed=home.branch)


def _merged(
    run_files: RunFiles, run: Run, home: Home, act: e.Act, done: e.CommitEnded, stop: process.Stop
) -> e.CommitEnded | Interrupted:
    """Merged, judged, proved, certified and on the run's branch: all that is left is to land it."""
    work = home.work
    found = _once(run, home, done)
    judge_merge(run_files, run, work, work.tree_of(found.tip), found.tree, act.tree)
    again = replace(act, key=f"{act.key}-{found.commit[:12]}", tree=found.tree)
    proof = _proved(run_files, run, again, stop)
    if isinstance(proof, Interrupted):
        return Interrupted(act.key, proof.reason)
    work.publish(found.commit)
    told = run_files.story(run, act)
    statement = certificate.statement(_proven(run, proof), again, found.commit, work.repo_root.name, told)
    digest = certificate.write(work.places.certificate, statement, load_or_create(run_files.state_dir))
    return replace(done, of=act.tree, tree=found.tree, commit=found.commit, certificate=digest, proof=proof)


def _once(run: Run, home: Home, done: e.CommitEnded) -> Merge:
    """The merge of before a crash if it still fits where the target is: a commit's id depends on its second."""
    work, note = home.work, home.note
    if note.exists():
        known = msgspec.json.decode(note.read_bytes(), type=Merge)
        if work.follows(known.commit, home.tip) or work.follows(home.tip, known.commit):
            return known
    if home.branch == home.repo.branch and is_dirty(home.repo, untracked=False):
        raise WorkspaceError(f"{home.repo.root} has uncommitted changes; commit or stash them, then retry.")
    tree = merge(work, run, home.tip, done.commit, home.branch)
    message = f"Merge flyball/{run.id}\n\nFlyball-Run: {run.id}\n"
    made = Merge(home.tip, tree, work.commit(tree, message, [home.tip, done.commit]))
    write_whole(note, msgspec.json.encode(made))
    return made


def _proven(run: Run, proof: e.ProofEnded | None) -> Run:
    if proof is None:
        return run
    proved = Proof(proof.tree, True, proof.failing, "", proof.commands)
    return replace(run, evidence=replace(run.evidence, proof=proved))


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
    run_files: RunFiles, run: Run, work: Workspace, target: str, tree: str, certified: str
) -> e.Ruling:
    """What would land may hold nothing that the guard has not let pass in the run itself."""
    before = _ruling(run_files, run, work, work.base_tree, certified)
    now = _ruling(run_files, run, work, target, tree)
    new = [finding for finding in now.others if finding not in before.others]
    if (now.verdict != "allow" and new) or _severity(now) > _severity(before):
        raise UserError(
            f"Merged with its target, run {run.id} would not pass the guard: {now.reason} "
            f"Look at it with `git merge flyball/{run.id}`."
        )
    return now


def _severity(ruling: e.Ruling) -> int:
    return {"allow": 0, "ask": 1}.get(ruling.verdict, 2)


def _ruling(run_files: RunFiles, run: Run, work: Workspace, old: str, new: str) -> e.Ruling:
    checkout = replace(run.checkout, changed=(), lines=0, excused=(), excused_lines=0)
    fresh = replace(run, checkout=checkout)
    changes = work.changes(old, new)
    act = e.Act(key=f"{run.id}-land", do="check", state=run.state, tree=old)
    return judge(run_files, fresh, act, work, new, changes)


def _proved(
    run_files: RunFiles, run: Run, act: e.Act, stop: process.Stop
) -> e.ProofEnded | Interrupted | None:
    if not run.settings.proof:
        return None
    done = prove(run_files, run, replace(act, do="proof", why="gate"), stop)
    if isinstance(done, Interrupted):
        return done
    assert isinstance(done.result, e.ProofEnded)
    if not done.result.passed:
        raise UserError(unproved(run, done.result))
    return done.result


def unproved(run: Run, proof: e.ProofEnded) -> str:
    lines = [line.strip() for line in proof.summary.splitlines() if line.strip()]
    last = lines[-1][:300] if lines else "a proof command did not exit 0."
    why = proof.invalid or proof.cannot_start or last
    return (
        f"Merged with its target, run {run.id} fails its proof, so it was not landed: {why} "
        f"Mend it with `git merge flyball/{run.id}`, or start again: `flyball run`."
    )
