"""Try a test command before any run: in the user's folder as it is, and in a clean checkout as a proof would run it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from flyball.acts.checkout import prepare
from flyball.acts.proof import is_own_code, prove
from flyball.acts.run_files import CALM, RunFiles, log_of
from flyball.agents import process, sandbox
from flyball.core.decide import Do, Finished, Interrupted, due, react
from flyball.domain import events as e
from flyball.domain.settings import Settings
from flyball.errors import FlyballError
from flyball.machines import shipped
from flyball.reading.test_output import Lack, cannot_load, failing, failing_names, lack, passing
from flyball.reading.test_report import without_numbers
from flyball.state.fold import apply, begin
from flyball.state.run import Run
from flyball.state_dir import remove
from flyball.workspace import inspect_repo

LOG_MOST = 1 << 20
ID = "trial"
LOCK = "lock"


class Trial(Struct, frozen=True):
    """How the tests ended. `problem`: Flyball could not even try, as a sentence."""

    code: int
    log: str = ""
    took_s: float = 0.0
    problem: str = ""
    lack: Lack | None = None
    written: tuple[str, ...] = ()  # files of the checkout that the tests wrote or changed, not ignored by git
    by_id: bool = False  # the runner reports its tests by id

    @property
    def names(self) -> tuple[str, ...]:
        """Of the failing tests, as far as the runner tells them."""
        return failing_names(self.log) if self.code else ()

    @property
    def ran(self) -> bool:
        return not self.problem and self.lack is None

    @property
    def reported(self) -> bool:
        """A test runner said how many tests failed, or which."""
        return self.by_id or failing(self.log) is not None

    @property
    def loads(self) -> bool:
        """Every test file could be imported, as far as the runner says."""
        return not self.code or not cannot_load(self.log)

    def fewer(self, other: Trial) -> int:
        """How many tests less passed than there, as far as the runner tells."""
        mine, theirs = passing(self.log), passing(other.log)
        return 0 if mine is None or theirs is None else max(theirs - mine, 0)

    def agrees(self, other: Trial) -> bool:
        """The same tests fail in both, or none, and no fewer pass than there."""
        if not (self.ran and other.ran) or bool(self.code) != bool(other.code) or self.fewer(other):
            return False
        return set(map(without_numbers, self.names)) == set(map(without_numbers, other.names))

    @property
    def says(self) -> str:
        if self.problem:
            return self.problem
        if missing := self.lack:
            return f"the tests cannot run: {missing.says}"
        count = failing(self.log)
        result = "passes" if not self.code else f"{count} failing" if count else f"fails (exit {self.code})"
        return f"{result}, {self.took_s:.1f} s"


def in_folder(folder: Path, command: str, env: dict[str, str], timeout_s: float) -> Trial:
    """The command as the user would run it. It gets no terminal, and its processes are ended with it."""
    start = time.monotonic()
    with subprocess.Popen(
        ["/bin/sh", "-c", command],
        cwd=folder,
        env={**env, **CALM},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    ) as child:
        try:
            output, _ = child.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            return Trial(124, problem=f"it took longer than {timeout_s:.0f} s")
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
    text = output[-LOG_MOST:].decode("utf-8", "replace")
    return _trial(folder, child.returncode, text, time.monotonic() - start)


def _trial(folder: Path, code: int, log: str, took_s: float, problem: str = "") -> Trial:
    missing = lack(log, code)
    if missing and is_own_code(folder, missing):
        missing = None
    return Trial(code, log, took_s, problem, missing)


def in_clean_checkout(
    root: Path, settings: Settings, env: dict[str, str], state_dir: Path, with_changes: bool = False
) -> Trial:
    """As the first proof of a run: HEAD, or the uncommitted changes on it, in a checkout of its own, set up and confined
    as configured."""
    with own_place(state_dir) as place:
        try:
            return _proof(RunFiles(place, sandbox.probe(settings.sandbox), env), root, settings, with_changes)
        except FlyballError as problem:
            return Trial(1, problem=str(problem))


@contextlib.contextmanager
def own_place(state_dir: Path) -> Generator[Path]:
    """A state directory for one trial, removed at its end; leftovers of a killed trial are removed first."""
    state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    for old in state_dir.glob(f"{ID}-*"):
        _sweep(old)
    place = Path(tempfile.mkdtemp(prefix=f"{ID}-", dir=state_dir))
    with (place / LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            yield place
        finally:
            remove(place)


def _sweep(old: Path) -> None:
    """Remove what a killed trial left: its lock is free."""
    with contextlib.suppress(OSError), (old / LOCK).open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        remove(old)


Perform = Callable[[RunFiles, Run, e.Act, process.Stop], Finished | Interrupted]


def first_acts(
    run_files: RunFiles,
    root: Path,
    machine: str,
    settings: Settings,
    perform: Perform,
    with_changes: bool = False,
) -> Iterator[tuple[e.Act, Finished]]:
    """The acts of a new run, one by one, without a journal; the generator is closed when the caller has seen enough."""
    repo, now = inspect_repo(root), time.time_ns() // 1000
    began = e.RunBegan(
        at=now,
        run=ID,
        root=ID,
        machine=machine,
        table=shipped(machine).table,
        settings=settings,
        task=ID,
        rules=e.RULES,
        repo=str(repo.root),
        commit=repo.head,
        branch=repo.branch,
        with_changes=with_changes,
    )
    run, stop = begin(began), process.Stop()
    while isinstance(step := due(run, now), Do):
        run = apply(run, e.ActStarted(at=now, act=step.act))
        news = perform(run_files, run, step.act, stop)
        if not isinstance(news, Finished):
            raise FlyballError(f"The trial was interrupted: {news.reason}.")
        yield step.act, news
        run = react(run, news, now).run


def _proof(run_files: RunFiles, root: Path, settings: Settings, with_changes: bool) -> Trial:
    def perform(files: RunFiles, run: Run, act: e.Act, stop: process.Stop) -> Finished | Interrupted:
        return (prepare if act.do == "prepare" else prove)(files, run, act, stop)

    for act, news in first_acts(run_files, root, "build", settings, perform, with_changes):
        result = news.result
        if isinstance(result, e.Prepared) and result.error:
            return Trial(1, problem=result.error)
        if isinstance(result, e.ProofEnded):
            return _read(run_files, root, act, result, news.took_us)
        if not isinstance(result, e.Prepared):
            break
    return Trial(0)


def _read(run_files: RunFiles, root: Path, act: e.Act, proof: e.ProofEnded, took_us: int) -> Trial:
    folder = run_files.act_folder(act.key)
    log = log_of(folder / "0") or proof.summary or proof.cannot_start
    codes = [row.exit for row in proof.commands if row.exit]
    code = codes[0] if codes else 127 if proof.cannot_start else 0
    note, report = folder / "changed", folder / "0" / "report.json"
    written = tuple(note.read_text("utf-8", "replace").splitlines()) if note.exists() else ()
    problem = proof.invalid if proof.invalid and not codes and not written else ""
    trial = _trial(root, code, log[-LOG_MOST:], took_us / 1e6, problem)
    by_id = report.exists() and report.read_bytes() != b"null"
    return replace(trial, written=written, by_id=by_id)
