"""Landing a finished run: the user's branch takes over exactly what was certified.

By fast-forward, or not at all. Where the target has moved on, the two are merged, what would land is judged,
proved and certified again, and then that is fast-forwarded. A landing is journaled by whoever holds the run's lease.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from flyball.acts import merge
from flyball.acts.commit import commit_message
from flyball.acts.proof import prove
from flyball.agents import process
from flyball.core import events as e
from flyball.core.decide import Interrupted
from flyball.core.run import Run
from flyball.errors import LandConflict, UserError, WorkspaceError
from flyball.evidence import certificate
from flyball.journal import driver as drivers
from flyball.journal.driver import Driver
from flyball.journal.history import load
from flyball.runtime.app import App
from flyball.runtime.batch import Batch, Driven
from flyball.workspace import Repo, Workspace, inspect_repo, land
from flyball.workspace.land import tip_of
from flyball.workspace.repo import is_dirty

Say = Callable[[str], None]


class Outcome(Struct, frozen=True):
    """What came of it. `already`: the branch had it before; `merged`: the target had moved on."""

    run: str
    branch: str
    commit: str
    before: str
    already: bool = False
    merged: bool = False


def land_run(app: App, run_id: str, target: str, who: str, say: Say) -> Outcome:
    """Bring the run's commit into the target (the branch checked out, unless named)."""
    repo = inspect_repo(Path(_landable(app.read(run_id)).began.repo))
    branch = target or repo.branch
    with _held(app, run_id) as lease:
        made = _made(lease.run)
        if _contains(repo, branch, made):
            if not _told(app, run_id, made):  # the landing before this one was cut off just after the deed
                lease.note(e.Landed(at=app.clock.now(), commit=made, branch=branch, who=who))
            return Outcome(run_id, branch, made, tip_of(repo, branch), already=True)
        _refuse_moved(app, repo, lease.run, made)
        outcome = _forward(lease, repo, branch, say)
        lease.note(e.Landed(at=app.clock.now(), commit=outcome.commit, branch=outcome.branch, who=who))
    return outcome


def _told(app: App, run_id: str, commit: str) -> bool:
    facts = (e.decode(entry.body) for entry in app.journal.read(run_id))
    return any(isinstance(fact, e.Landed) and fact.commit == commit for fact in facts)


def _landable(run: Run) -> Run:
    if not run.owner:
        raise UserError(f"Run {run.id} works in the checkout of {run.began.root}; land that one.")
    if run.status != "ended":
        raise UserError(
            f"Run {run.id} has not ended ({run.status} in '{run.state}'), so it cannot land yet; see `flyball why {run.id}`."
        )
    if run.end != "success" or run.checkout.commit is None:
        code = run.stop.code if run.stop else run.end
        raise UserError(
            f"Run {run.id} did not end in success ({code}), so there is nothing to land; see `flyball why {run.id}`."
        )
    return run


def _made(run: Run) -> str:
    assert run.checkout.commit is not None
    return run.checkout.commit.commit


def _contains(repo: Repo, branch: str, commit: str) -> bool:
    """Whether the branch has the commit already."""
    if not branch or not tip_of(repo, branch):
        return False
    return repo.git.ask("merge-base", "--is-ancestor", commit, tip_of(repo, branch), ok=(0, 1, 128)).code == 0


def _refuse_moved(app: App, repo: Repo, run: Run, made: str) -> None:
    now = tip_of(repo, f"flyball/{run.id}")
    if now and now != made and now not in _left_there(app, run):
        raise UserError(
            f"The branch flyball/{run.id} is at {now[:12]}, but {made[:12]} was certified: what was added is not proved. "
            f"Merge it yourself with `git merge flyball/{run.id}`, or put the branch back: `git branch -f flyball/{run.id} {made[:12]}`."
        )


def _left_there(app: App, run: Run) -> set[str]:
    """Where Flyball itself left the branch: a landing that was cut off has moved it before it was told."""
    try:
        return Workspace.open(app.run_files().run_dir(run).path).left_at()
    except WorkspaceError:
        return set()


# ---- the lease ------------------------------------------------------------------------------------------


class _Lease:
    """One run, held: what is noted is durable before anything else is done."""

    def __init__(self, app: App, driver: Driver, driven: Driven) -> None:
        self.app, self._driver, self._driven = app, driver, driven

    @property
    def run(self) -> Run:
        return self._driven.run

    def note(self, *events: e.AnyEvent) -> None:
        batch = Batch({self.run.id: self._driven})
        batch.add(self.run.id, events)
        for entry in self.app.journal.append(batch.writes()):
            self.app.heads.note(entry.run, entry.seq, entry.hash, entry.at)
        staged = batch.staged[self.run.id]
        self._driven = Driven(staged.run, staged.seq + len(staged.events), staged.fence)

    def settle(self) -> None:
        """A landing that was cut off left an act begun: it came to nothing."""
        if self.run.act is not None:
            at = self.app.clock.now()
            self.note(e.ActInterrupted(at=at, key=self.run.act.key, reason="the landing was cut off"))


@contextlib.contextmanager
def _held(app: App, run_id: str) -> Generator[_Lease]:
    driver = Driver(app.state_dir)
    try:
        fence = app.journal.acquire(run_id, driver.name, lambda name: drivers.alive(app.state_dir, name))
        try:
            run, seq = load(app.journal, run_id)
            lease = _Lease(app, driver, Driven(run, seq, fence))
            lease.settle()
            yield lease
        finally:
            app.journal.release(run_id, driver.name)
    finally:
        driver.close()


# ---- fast-forward, or merge first -----------------------------------------------------------------------


def _forward(lease: _Lease, repo: Repo, branch: str, say: Say) -> Outcome:
    made = _made(lease.run)
    try:
        landed = land(repo, lease.run.id, made, branch)
    except LandConflict:
        say(f"'{branch}' has moved on since {lease.run.id} began: merging, judging and proving it again.")
        made = _merged(lease, repo, branch)
        landed = land(repo, lease.run.id, made, branch)
        return Outcome(lease.run.id, landed.branch, made, landed.before, merged=True)
    return Outcome(lease.run.id, landed.branch, made, landed.before)


def _merged(lease: _Lease, repo: Repo, branch: str) -> str:
    """A commit of run and target together, judged, proved, certified and on the run's branch."""
    if branch == repo.branch and is_dirty(repo, untracked=False):
        raise WorkspaceError(f"{repo.root} has uncommitted changes; commit or stash them, then land.")
    work, run, tip = (
        Workspace.open(lease.app.run_files().run_dir(lease.run).path),
        lease.run,
        tip_of(repo, branch),
    )
    tree = merge.merge(work, run, tip, _made(run), branch)
    assert run.checkout.commit is not None
    target = repo.git.line("rev-parse", f"{tip}^{{tree}}")
    ruling = merge.judge_merge(lease.app.run_files(), run, work, target, tree, run.checkout.commit.tree)
    lease.note(e.Ruled(at=lease.app.clock.now(), key=f"{run.id}.land", ruling=ruling))
    _prove(lease, work, tree)
    return _certify(lease, work, tip, tree)


def _act(lease: _Lease, do: str, tree: str) -> e.Act:
    run = lease.run
    head = lease.app.journal.head(run.id)[1]
    return e.Act(
        key=f"{run.id}.{run.acts + 1}-land", do=do, state=run.state, why="land", tree=tree, head=head
    )


def _prove(lease: _Lease, work: Workspace, tree: str) -> None:
    if not lease.run.settings.proof:
        return
    act, clock = _act(lease, "proof", tree), lease.app.clock
    if not work.places.proof.exists():
        work.places.setup_made.unlink(missing_ok=True)  # setup must run in the new checkout again
    lease.note(e.ActStarted(at=clock.now(), act=act))
    with contextlib.closing(process.Stop()) as stop:
        done = prove(lease.app.run_files(), lease.run, act, stop)
    if isinstance(done, Interrupted):
        lease.note(e.ActInterrupted(at=clock.now(), key=act.key, reason=done.reason))
        raise UserError(f"The proof of run {lease.run.id} was interrupted ({done.reason}); land again.")
    lease.note(e.ActFinished(at=clock.now(), key=act.key, result=done.result, took_us=done.took_us))
    assert isinstance(done.result, e.ProofEnded)
    if not done.result.passed:
        raise UserError(merge.unproved(lease.run, done.result))


def _certify(lease: _Lease, work: Workspace, tip: str, tree: str) -> str:
    act, app = _act(lease, "commit", tree), lease.app
    lease.note(e.ActStarted(at=app.clock.now(), act=act))
    made = work.commit(tree, commit_message(lease.run), [tip, _made(lease.run)])
    work.publish(made)
    assert lease.run.checkout.commit is not None
    told = certificate.story(app.journal, lease.run, replace(act, tree=lease.run.checkout.commit.work))
    statement = certificate.statement(lease.run, act, made, work.repo_root.name, told)
    digest = certificate.write(work.places.next_certificate, statement, app.signer)
    done = e.CommitEnded(outcome="committed", tree=tree, commit=made, certificate=digest)
    lease.note(e.ActFinished(at=app.clock.now(), key=act.key, result=done))
    certificate.current(work.places, digest)
    work.close(remove_checkout=False)
    return made
