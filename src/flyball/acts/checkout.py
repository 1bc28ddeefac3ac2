"""What happens to the checkout of a run besides turns: it is prepared, restored to a tree, committed and landed.

A commit: the user's hooks on a proved tree, one commit on the base, a signed certificate. `commit = "pr"`: it is pushed
and proposed as a pull request.

Landing: the user's branch takes a run's certified commit. There is one way, before the run's end (`commit = "merge"`)
and after it (`flyball land`). The branch is moved by fast-forward. If it has new commits, they are merged with the
run's first, and the merge is judged, proved and certified. Performed again after a crash, landing comes to the same
commit, and proposing finds the pull request that is there already.
"""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, cast

import msgspec
from msgspec.structs import replace

from flyball.acts import run_files as grounds, turn_input
from flyball.acts.proof import made_by_setup, prove
from flyball.acts.run_files import (
    RunFiles,
    SetupStopped,
    attend,
    interruption,
    log_of,
    run_setup,
    share_links,
    spec,
)
from flyball.acts.turn import judge, left_tree, plain as plain_path
from flyball.agents import process, sandbox
from flyball.core.decide import Finished, Interrupted
from flyball.domain import events as e
from flyball.errors import FlyballError, ForgeError, Gone, LandConflict, UserError, WorkspaceError
from flyball.evidence import certificate
from flyball.guard.secrets import redact
from flyball.journal.records import load_or_create
from flyball.reading.checklist import tick
from flyball.reading.terminal import plain
from flyball.state.run import Proof, Run
from flyball.state_dir import write_whole
from flyball.views.proposal import body, title
from flyball.workspace import Repo, Workspace, inspect_repo, land as forward
from flyball.workspace.landing import address, is_ancestor, push, tip_of
from flyball.workspace.repo import CACHES, GIT_HOOKS, at_commit, found_hooks, is_dirty

if TYPE_CHECKING:
    from flyball.forge import Forge, PullRequest


def prepare(run_files: RunFiles, run: Run, act: e.Act, stop: process.Stop) -> Finished:
    try:
        result = _prepared(run_files, run, act, stop)
    except SetupStopped:
        raise
    except FlyballError as problem:
        result = e.Prepared(error=str(problem), code="error.git")
    return Finished(key=act.key, result=result)


def _prepared(run_files: RunFiles, run: Run, act: e.Act, stop: process.Stop) -> e.Prepared:
    sandbox_ = grounds.require(run.settings)
    repo, with_changes = inspect_repo(Path(run.began.repo)), run.began.with_changes
    if run.began.parent and run.began.commit:  # a step of a plan starts from the one before
        repo, with_changes = at_commit(repo, run.began.commit), False
    hidden = (*CACHES, *(f"/{name.strip('/')}" for name in (*run.settings.share, *run.settings.ignore)))
    work = Workspace.create(run_files.run_dir(run).path, repo, run.id, with_changes, hidden)
    if not run_files.mounted(run):
        _refuse_leaks(run_files, run, work)
        share_links(run, work.repo_root, work.checkout)
    problem = run_setup(run_files, run, run_files.act_folder(act.key), work.checkout, "agent", stop)
    problem = problem or _setup_stays_apart(run, work)
    if problem:
        return e.Prepared(error=problem, code="error.config")
    begun = _ticked(run, work) or _begin_at(run, work)
    kind = grounds.UNSANDBOXED if sandbox_.kind == "none" else sandbox_.kind
    note = f"No sandbox: {sandbox_.why}." if sandbox_.kind == "none" else sandbox_.limits
    notes = (*([note] if note else []), *turn_input.notes(run_files, run))
    return replace(begun, base_commit=work.base_commit, base_tree=work.base_tree, sandbox=kind, notes=notes)


def _setup_stays_apart(run: Run, work: Workspace) -> str:
    """Files that setup created do not count as the agent's work; files that it changed would."""
    if not run.settings.setup:
        return ""
    work.hide_additions()
    changed = [plain_path(change.path) for change in work.changes(work.base_tree, work.tree())]
    if not changed:
        return ""
    return f"The setup changed files that the repository tracks ({', '.join(changed[:5])}). Correct [workspace] setup."


def _begin_at(run: Run, work: Workspace) -> e.Prepared:
    """A retry begins at the tree that the run before had left."""
    tree = run.began.tree
    if not tree or tree == work.base_tree:
        return e.Prepared()
    try:
        paths, lines = counted(work, work.base_tree, tree)
        work.restore(tree)
    except WorkspaceError:
        raise WorkspaceError(
            f"The tree of run {run.began.retry_of} is no longer there. Start a new run with `flyball run`."
        ) from None
    work.publish(work.checkpoint(tree, 0, f"From {run.began.retry_of}\n\nFlyball-Run: {run.id}"))
    return e.Prepared(tree=tree, changed=paths, lines=lines)


def _ticked(run: Run, work: Workspace) -> e.Prepared | None:
    """CTO-6: the item of a check-list that the run does is ticked in its files, so that the commit has the tick."""
    names = cast("list[str]", run.began.options.get("tick") or [])
    content = work.read_all([(work.base_tree, names[0])])[0] if len(names) == 2 else None
    text = content.decode("utf-8", "surrogateescape") if content is not None else ""
    ticked_text = tick(text, names[1]) if text else text
    if ticked_text == text:
        return None
    file = work.checkout / names[0]
    file.write_bytes(ticked_text.encode("utf-8", "surrogateescape"))
    tree = work.tree()
    work.publish(work.checkpoint(tree, 0, f"Tick {names[0]}\n\nFlyball-Run: {run.id}"))
    return e.Prepared(tree=tree, changed=(plain_path(names[0]),), lines=2)


def counted(work: Workspace, old: str, new: str) -> tuple[tuple[str, ...], int]:
    """The files that differ between two trees, and by how many lines."""
    changes = work.changes(old, new)
    paths = tuple(dict.fromkeys(plain_path(change.path) for change in changes))
    return paths, sum(change.lines_added + change.lines_deleted for change in changes)


def _refuse_leaks(run_files: RunFiles, run: Run, work: Workspace) -> None:
    """SYS-8: without a sandbox an environment that imports this very project from elsewhere proves nothing."""
    if not run.settings.proof:
        return
    env = run_files.env(run, run_files.home(run, "proof"))
    pythons = {shutil.which(name, path=env.get("PATH")) for name in ("python", "python3")}
    pythons |= {
        str(path) for name in run.settings.share for path in (work.repo_root / name).glob("bin/python")
    }
    for python in sorted(p for p in pythons if p):
        leaks = sandbox.editable_leaks([python], work.repo_root, env=env)
        if leaks:
            raise FlyballError(
                f"{Path(python).name} would import this project from {work.repo_root}, not from the tree to be proved "
                f"({leaks[0]}). Install bubblewrap, or use an environment without an editable install of it."
            )


def restore(run_files: RunFiles, run: Run, act: e.Act) -> Finished:
    """Restore that tree in the checkout. A change that a person approved or made is published."""
    work = run_files.workspace(run)
    if act.why == "hand-back":
        return Finished(key=act.key, result=_handed_back(run, act, work))
    if act.why == "rollback":
        return Finished(key=act.key, result=_rolled_back(run, act, work, run_files.act_folder(act.key)))
    work.restore(act.tree)
    if act.why != "approved":
        return Finished(key=act.key, result=e.Restored(tree=act.tree))
    work.publish(work.checkpoint(act.tree, max(run.turns, 1), f"Approved\n\nFlyball-Run: {run.id}"))
    paths, lines = counted(work, act.since, act.tree)
    return Finished(key=act.key, result=e.Restored(tree=act.tree, changed=paths, lines=lines))


def _rolled_back(run: Run, act: e.Act, work: Workspace, folder: Path) -> e.Restored:
    """Files as they were after an earlier turn. Edits in the checkout that no turn made are kept first."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    tree = left_tree(work, folder)
    edited = tree not in (run.tree, act.tree)
    ref = work.keep(tree, f"by-hand/{act.key}") if edited else ""
    work.restore(act.tree, int(act.since) if act.since != "0" else None)
    return e.Restored(tree=act.tree, kept=ref)


def _handed_back(run: Run, act: e.Act, work: Workspace) -> e.Restored:
    """Changes by a person are journaled as theirs and not checked."""
    tree = work.tree()
    if tree == act.tree:
        return e.Restored(tree=tree)
    work.publish(work.checkpoint(tree, max(run.turns, 1), f"By hand\n\nFlyball-Run: {run.id}"))
    paths, lines = counted(work, act.tree, tree)
    return e.Restored(tree=tree, changed=paths, lines=lines)


# ---- commit and land -----------------------------------------------------------------------------------------


class Merge(msgspec.Struct, frozen=True):
    """A commit of run and target together, and where the target was."""

    tip: str
    tree: str
    commit: str


class Target(msgspec.Struct, frozen=True):
    """The branch that takes the commit, and where it is now."""

    repo: Repo
    work: Workspace
    branch: str
    tip: str
    note: Path  # of the merge, once there is one


def land(run_files: RunFiles, run: Run, act: e.Act, stop: process.Stop) -> Finished | Interrupted:
    """Move the branch to the commit; any obstacle is a conflict for a person."""
    result, ruling = run.checkout.commit, None
    assert result is not None
    result = replace(result, landed="", reason="")
    if act.why == "pr":
        return Finished(key=act.key, result=propose(run_files, run, act, result))
    try:
        _refuse_moved(run_files, run, result.commit)
        target = _target(run_files, run, act)
        merge, ready = _merge_once(run, target, result), result
        if merge:
            ruling = _judge(run_files, run, target, merge)
            _require_allowed(run_files, run, target, result.tree, ruling)
            ready = _certified_merge(run_files, run, target, act, merge, result, stop)
        if isinstance(ready, Interrupted):
            return ready
        if not target.work.follows(target.tip, ready.commit):
            forward(target.repo, run.id, ready.commit, target.branch)
    except (WorkspaceError, UserError) as problem:
        conflict = replace(result, outcome="conflict", reason=str(problem))
        return Finished(key=act.key, result=conflict, ruling=ruling)
    return Finished(key=act.key, result=replace(ready, landed=target.branch), ruling=ruling)


def _refuse_moved(run_files: RunFiles, run: Run, commit: str) -> None:
    repo, branch = inspect_repo(run_files.folder_of_repo(run)), f"flyball/{run.id}"
    now = tip_of(repo, branch)
    if not now or now == commit or now in run_files.workspace(run).left_at():
        return
    reset = f"reset the branch: `git branch -f {branch} {commit[:12]}`"
    if is_ancestor(repo, now, commit):
        raise UserError(
            f"The branch {branch} was moved back to {now[:12]}, before {commit[:12]}, which was certified. To land that, {reset}."
        )
    raise UserError(
        f"The branch {branch} is at {now[:12]}, but {commit[:12]} was certified: the new commits are not proved. "
        f"Merge them yourself with `git merge {branch}`, or {reset}."
    )


def _target(run_files: RunFiles, run: Run, act: e.Act) -> Target:
    repo = inspect_repo(run_files.folder_of_repo(run))
    branch = act.branch or run.began.branch or repo.branch
    tip = tip_of(repo, branch) if branch else ""
    if not tip:
        missing = f"no branch '{branch}'" if branch else "no branch checked out"
        raise WorkspaceError(
            f"{repo.root} has {missing}, so run {run.id} cannot land. Create it, then retry."
        )
    return Target(repo, run_files.workspace(run), branch, tip, run_files.act_folder(act.key) / "merge.json")


def _merge_once(run: Run, target: Target, result: e.CommitEnded) -> Merge | None:
    """Where the branch has new commits, a merge with them: that of before a crash if it still fits where the branch
    is, since a commit's id depends on its second."""
    work, note, tip = target.work, target.note, target.tip
    if note.exists():
        recorded = msgspec.json.decode(note.read_bytes(), type=Merge)
        if work.follows(recorded.commit, tip) or work.follows(tip, recorded.commit):
            return recorded
    elif work.follows(tip, result.commit) or work.follows(result.commit, tip):
        return None
    if target.branch == target.repo.branch and is_dirty(target.repo, untracked=False):
        raise WorkspaceError(f"{target.repo.root} has uncommitted changes; commit or stash them, then retry.")
    tree = _merge_trees(work, run, tip, result.commit, target.branch)
    message = f"Merge flyball/{run.id}\n\nFlyball-Run: {run.id}\n"
    merge = Merge(tip, tree, work.commit(tree, message, [tip, result.commit]))
    note.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_whole(note, msgspec.json.encode(merge))
    return merge


def _merge_trees(work: Workspace, run: Run, tip: str, commit: str, branch: str) -> str:
    merged = work.merge(tip, commit)
    if merged.conflicts:
        more = f" and {len(merged.conflicts) - 5} more" if len(merged.conflicts) > 5 else ""
        raise LandConflict(
            f"Run {run.id} and '{branch}' both changed {', '.join(merged.conflicts[:5])}{more}. Merge by hand with "
            f"`git merge flyball/{run.id}`, or start a new run from '{branch}': `flyball run`."
        )
    return merged.tree


def _judge(run_files: RunFiles, run: Run, target: Target, merge: Merge) -> e.Ruling:
    return _ruling(run_files, run, target.work, target.work.tree_of(merge.tip), merge.tree)


def _require_allowed(run_files: RunFiles, run: Run, target: Target, certified: str, ruling: e.Ruling) -> None:
    """The result of the merge may hold no change that the guard did not allow in the run."""
    before = _ruling(run_files, run, target.work, target.work.base_tree, certified)
    new = [finding for finding in ruling.others if finding not in before.others]
    if (ruling.verdict != "allow" and new) or _severity(ruling) > _severity(before):
        raise UserError(
            f"Merged with its target, run {run.id} would not pass the guard: {ruling.reason} "
            f"Look at it with `git merge flyball/{run.id}`."
        )


def _severity(ruling: e.Ruling) -> int:
    return {"allow": 0, "ask": 1}.get(ruling.verdict, 2)


def _ruling(run_files: RunFiles, run: Run, work: Workspace, old: str, new: str) -> e.Ruling:
    checkout = replace(run.checkout, changed=(), lines=0, excused=(), excused_lines=0)
    act = e.Act(key=f"{run.id}-land", do="check", state=run.state, tree=old)
    return judge(run_files, replace(run, checkout=checkout), act, work, new, work.changes(old, new))


def _certified_merge(
    run_files: RunFiles,
    run: Run,
    target: Target,
    act: e.Act,
    merge: Merge,
    result: e.CommitEnded,
    stop: process.Stop,
) -> e.CommitEnded | Interrupted:
    """Proved, certified and on the run's branch: all that is left is to move the target."""
    again = replace(act, key=f"{act.key}-{merge.commit[:12]}", tree=merge.tree)
    proof = _prove(run_files, run, again, stop)
    if isinstance(proof, Interrupted):
        return Interrupted(act.key, proof.reason)
    target.work.publish(merge.commit)
    digest = certify(run_files, _with_proof(run, proof), act, merge.tree, merge.commit, result.work)
    return replace(
        result, of=result.work, tree=merge.tree, commit=merge.commit, certificate=digest, proof=proof
    )


def _prove(
    run_files: RunFiles, run: Run, act: e.Act, stop: process.Stop
) -> e.ProofEnded | Interrupted | None:
    if not run.settings.proof:
        return None
    finished = prove(run_files, run, replace(act, do="proof", why="merge"), stop)
    if isinstance(finished, Interrupted):
        return finished
    assert isinstance(finished.result, e.ProofEnded)
    if not finished.result.passed:
        raise UserError(_unproved(run, finished.result))
    return finished.result


def _unproved(run: Run, proof: e.ProofEnded) -> str:
    lines = [line.strip() for line in proof.summary.splitlines() if line.strip()]
    last = lines[-1][:300] if lines else "a proof command did not exit 0."
    why = proof.invalid or proof.cannot_start or last
    return (
        f"Merged with its target, run {run.id} fails its proof, so it was not landed: {why} "
        f"Repair it with `git merge flyball/{run.id}`, or start a new run: `flyball run`."
    )


def _with_proof(run: Run, proof: e.ProofEnded | None) -> Run:
    if proof is None:
        return run
    proved = Proof(proof.tree, True, proof.failing, "", proof.commands)
    return replace(run, evidence=replace(run.evidence, proof=proved))


SUBJECT_MOST = 72


def commit(run_files: RunFiles, run: Run, act: e.Act, stop: process.Stop) -> Finished | Interrupted:
    work, folder = run_files.workspace(run), run_files.act_folder(act.key)
    message = commit_message(run, load_or_create(run_files.state_dir).public_key_hex)
    refusal = _hooks(run_files, run, act, work, folder, message, stop)
    if isinstance(refusal, Interrupted):
        return refusal
    if refusal:
        return Finished(key=act.key, result=e.CommitEnded(outcome="refused", tree=act.tree, reason=refusal))
    commit_id = _committed(work, folder, act.tree, message)
    work.publish(commit_id)
    digest = certify(run_files, run, act, act.tree, commit_id, act.tree)
    result = e.CommitEnded(outcome="committed", tree=act.tree, commit=commit_id, certificate=digest)
    return Finished(key=act.key, result=result)


def _committed(work: Workspace, folder: Path, tree: str, message: str) -> str:
    """Made once an act, though the act may be performed again: a commit's id depends on its second."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    note = folder / "commit"
    if not note.exists():
        commit = work.commit(tree, message) if tree != work.base_tree else work.base_commit
        write_whole(note, commit.encode(), sync=False)
    return note.read_text()


def commit_message(run: Run, key: str) -> str:
    """With trailers that lead from the commit to its run, and to the key that signs its certificate."""
    task = "".join(c if c.isprintable() or c in "\n\t" else " " for c in plain(run.began.task))
    lines = task.strip().splitlines() or ["Work done"]
    subject = lines[0][:SUBJECT_MOST]
    body = "\n".join(lines[1:]).strip()
    ticket = str(run.began.options.get("ticket") or "")
    trailers = f"Flyball-Run: {run.id}\n" + (f"Flyball-Task: {ticket}\n" if ticket else "")
    trailers += f"Flyball-Certificate: ed25519:{key[:32]} (flyball verify {run.id})\n"
    return f"{subject}\n\n{body + chr(10) * 2 if body else ''}{trailers}"


def _hooks(
    run_files: RunFiles, run: Run, act: e.Act, work: Workspace, folder: Path, message: str, stop: process.Stop
) -> str | Interrupted:
    """The user's own hooks, in the proof's checkout and sandbox; what they said if they refuse."""
    touched = run_files.tampered(run, whole=True)  # what is certified rests on all of it
    if touched:
        raise Gone(f"{touched} was modified since the run began")
    for name, hook in _copied(run_files.user_hooks(run), folder / GIT_HOOKS).items():
        place = folder / name
        if process.look(place) == "unclaimed":
            files = work.proof_checkout(act.tree, made_by_setup(work))
            (files / ".git" / "COMMIT_EDITMSG").write_text(message, "utf-8")
            line = _line(hook, work)
            reads = (str(folder / GIT_HOOKS),)
            process.begin(
                place,
                spec(run_files, run, line, files, "proof", run.settings.proof_timeout_us, "loopback", reads),
            )
        exit_status = attend(place, stop)
        if why := interruption(exit_status):
            return Interrupted(act.key, why)
        run_files.never_began(place, exit_status)
        if not exit_status.well:
            return f"The {name} hook refused it:\n{redact(log_of(place))[-2000:]}"
        if work.proof_tree() != act.tree:
            return f"The {name} hook changed the tree; what is committed must be what was proved."
    return ""


def _copied(pinned: Path, folder: Path) -> dict[str, Path]:
    """What is run is a copy: hooks like to leave something beside them, and that must not count as tampering."""
    if not folder.exists() and pinned.exists():
        draft = folder.with_name(f"{folder.name}.draft")
        shutil.copytree(pinned, draft, dirs_exist_ok=True)
        draft.rename(folder)  # whole, or not at all
    return found_hooks(folder)


def _line(hook: Path, work: Workspace) -> str:
    """A hook sees the change staged on the base, as it would at a commit by hand."""
    staged = f"git -c core.hooksPath=/dev/null reset -q --soft {work.base_commit}"
    return f"{staged} && {shlex.quote(str(hook))} .git/COMMIT_EDITMSG"


def certify(
    run_files: RunFiles,
    run: Run,
    act: e.Act,
    tree: str,
    commit: str,
    work_tree: str,
    pull_request: str = "",
) -> str:
    """Written beside the certificate in force, if there is one; returns its sha256.

    `work_tree` is the run's own tree, without what was merged: the one that a reviewer has judged.
    """
    project, folder = Path(run.began.repo).name, run_files.run_dir(run)
    story = run_files.story(run, replace(act, tree=work_tree))
    statement = certificate.statement(run, replace(act, tree=tree), commit, project, story, pull_request)
    file = folder.next_certificate if act.do == "land" else folder.certificate
    return certificate.write(file, statement, load_or_create(run_files.state_dir))


REFUSED = 422


def propose(run_files: RunFiles, run: Run, act: e.Act, result: e.CommitEnded) -> e.CommitEnded:
    """`conflict`: a person must change something in the repository; `unreachable`: the forge refuses or is silent."""
    branch = branch_of(run)
    try:
        repo = inspect_repo(run_files.folder_of_repo(run))
        forge = forge_of(repo, run, run_files.known(run))
        if not run.began.branch:
            raise LandConflict("The run began without a branch checked out, so a pull request has no target.")
        push(repo, run.settings.remote, result.commit, branch, run_files.known(run), forge.token)
        pull = _opened(forge, run, branch, result)
    except LandConflict as problem:
        return replace(result, outcome="conflict", reason=str(problem))
    except ForgeError as problem:
        outcome = "conflict" if problem.code == REFUSED else "unreachable"
        return replace(result, outcome=outcome, reason=str(problem))
    except (WorkspaceError, UserError) as problem:
        return replace(result, outcome="unreachable", reason=str(problem))
    if pull.state == "closed":
        reason = (
            f"The pull request {pull.url} was closed. Open it again, or take the work from flyball/{run.id}."
        )
        return replace(result, outcome="conflict", reason=reason)
    digest = certify(run_files, run, act, result.tree, result.commit, result.work, pull.url)
    return replace(result, certificate=digest, pull_request=pull.url)


def branch_of(run: Run) -> str:
    """The branch that is pushed: the run's own, or that of the pull request that the run repairs."""
    return str(run.began.options.get("head") or f"flyball/{run.id}")


def forge_of(repo: Repo, run: Run, env: dict[str, str]) -> Forge:
    from flyball.forge import forge_for, slug_of  # imports what speaks HTTP, which no other commit needs

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


def _opened(forge: Forge, run: Run, branch: str, result: e.CommitEnded) -> PullRequest:
    existing = forge.pull_request(branch)
    if existing is not None:
        return existing
    try:
        text = redact(body(run, result))
        return forge.open_pull_request(branch, run.began.branch, redact(title(run)), text)
    except ForgeError as problem:
        existing = forge.pull_request(branch) if problem.code == REFUSED else None
        if existing is None:
            raise
        return existing
