"""The commit of a proved tree: the user's hooks on it, one commit on the base, a signed certificate."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

from flyball.acts.confined import attend, interruption, log_of, spec
from flyball.acts.landing import certify
from flyball.acts.proof_tree import made_by_setup
from flyball.acts.run_files import RunFiles
from flyball.agents import process
from flyball.core.decide import Finished, Interrupted
from flyball.core.run import Run
from flyball.domain import events as e
from flyball.errors import Gone
from flyball.guard.secrets import redact
from flyball.reading.terminal import plain
from flyball.state_dir import write_whole
from flyball.workspace import Workspace
from flyball.workspace.repo import GIT_HOOKS, found_hooks

SUBJECT_MOST = 72


def commit(run_files: RunFiles, run: Run, act: e.Act, stop: process.Stop) -> Finished | Interrupted:
    work, folder = run_files.workspace(run), run_files.act_folder(act.key)
    message = commit_message(run)
    refused = _hooks(run_files, run, act, work, folder, message, stop)
    if isinstance(refused, Interrupted):
        return refused
    if refused:
        return Finished(key=act.key, result=e.CommitEnded(outcome="refused", tree=act.tree, reason=refused))
    made = _committed(work, folder, act.tree, message)
    work.publish(made)
    digest = certify(run_files, run, act, act.tree, made, act.tree)
    done = e.CommitEnded(outcome="committed", tree=act.tree, commit=made, certificate=digest)
    return Finished(key=act.key, result=done)


def _committed(work: Workspace, folder: Path, tree: str, message: str) -> str:
    """Made once an act, though the act may be performed again: a commit's id depends on its second."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    note = folder / "commit"
    if not note.exists():
        commit = work.commit(tree, message) if tree != work.base_tree else work.base_commit
        write_whole(note, commit.encode(), sync=False)
    return note.read_text()


def commit_message(run: Run) -> str:
    task = "".join(c if c.isprintable() or c in "\n\t" else " " for c in plain(run.began.task))
    lines = task.strip().splitlines() or ["Work done"]
    subject = lines[0][:SUBJECT_MOST]
    body = "\n".join(lines[1:]).strip()
    return f"{subject}\n\n{body + chr(10) * 2 if body else ''}Flyball-Run: {run.id}\n"


def _hooks(
    run_files: RunFiles, run: Run, act: e.Act, work: Workspace, folder: Path, message: str, stop: process.Stop
) -> str | Interrupted:
    """The user's own hooks, in the proof's checkout and sandbox; what they said if they refuse."""
    touched = run_files.tampered(run, whole=True)  # what is certified rests on all of it
    if touched:
        raise Gone(f"{touched} is not as it was when the run began")
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
        ended = attend(place, stop)
        if why := interruption(ended):
            return Interrupted(act.key, why)
        run_files.never_began(place, ended)
        if not ended.well:
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
