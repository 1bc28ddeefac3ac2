"""A copy of the project in which edits are tried. The checkout itself is only read.

Tests run in a worker under the project's own Python (worker.py). A test that hangs is ended by its own time limit, a
worker that hangs is ended and started again.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import stat
import subprocess
import tempfile
import time
from collections.abc import Collection, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, cast

from flyball.agents.mechanic.suite import Suite
from flyball.state_dir import remove

WORKER = Path(__file__).with_name("worker.py")
LEFT_OUT = (
    *(
        ".git",
        ".hg",
        "__pycache__",
        ".tox",
        ".nox",
        ".mypy_cache",
        ".pytest_cache",
        ".ruff_cache",
        ".hypothesis",
    ),
    *("build", "dist", ".eggs"),
)
LINKED = (".venv", "venv", "node_modules")
FILES_MOST = 20_000
BYTES_MOST = 300 << 20
START_S = 60
GRACE_S = 5
BOUNDS = {"RLIMIT_AS": 4 << 30, "RLIMIT_FSIZE": 100 << 20, "RLIMIT_CORE": 0}
CALM = {"PYTHONDONTWRITEBYTECODE": "1", "CI": "1", "NO_COLOR": "1"}

Place = tuple[str, int]


class CannotTry(Exception):
    """The tests cannot be run at all; the message says why."""


class Row(NamedTuple):
    """One test: what came of it, how long it took, where it failed, and which lines of the project it ran."""

    test: str
    file: str
    outcome: str  # passed, failed or skipped
    wall: float
    cpu: float
    error: str = ""
    places: tuple[Place, ...] = ()
    lines: frozenset[Place] = frozenset()
    loading: bool = False  # no test, but the file or class that tests are loaded from

    @property
    def hung(self) -> bool:
        return self.error.startswith("OutOfTime")


class Times(NamedTuple):
    """How long things may take, in seconds."""

    cpu_s: float = 3.0
    test_wall_s: float = 10.0
    load_s: float = 60.0
    wall_s: float = 120.0
    by_test: Mapping[str, float] = {}


class Run(NamedTuple):
    tests: dict[str, Row]
    ended: str  # done, died or timeout
    modules: tuple[str, ...] = ()
    took: float = 0.0

    def of(self, outcome: str) -> list[Row]:
        return [row for row in self.tests.values() if row.outcome == outcome]


class Trials:
    def __init__(self, root: Path, suite: Suite, home: Path | None = None) -> None:
        self.root, self.suite = root, suite
        self.folder = Path(tempfile.mkdtemp(prefix="mechanic-", dir=home))
        self.copy = self.folder / root.resolve().name
        self.errors = self.folder / "worker.err"
        self.worker: subprocess.Popen[bytes] | None = None
        self.quiet = True
        self.preload: tuple[str, ...] = ()
        self.hash_seed = 0  # the order of sets in the tests

    def __enter__(self) -> Trials:
        try:
            _copy(self.root, self.copy)
            self._start()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, tb: TracebackType | None
    ) -> None:
        self._end()

    def _end(self) -> None:
        self._stop()
        remove(self.folder)

    def write(self, name: str, data: bytes) -> None:
        (self.copy / name).write_bytes(data)

    def read(self, name: str) -> bytes:
        return (self.copy / name).read_bytes()

    def run(
        self,
        times: Times,
        only: Collection[str] | None = None,
        files: Collection[str] = (),
        **flags: bool,  # trace, first, modules, bounded
    ) -> Run:
        """Run the tests, or only these, on the copy as it is now."""
        bounded = flags.pop("bounded", False)
        job: dict[str, Any] = {
            **flags,
            "only": None if only is None else list(only),
            "files": list(files),
            "cpu_s": times.cpu_s,
            "test_wall_s": times.test_wall_s,
            "load_s": times.load_s,
            "wall_s": times.wall_s,
            "cpu_by_test": dict(times.by_test),
            "preload": list(self.preload),
            "bounds": BOUNDS if bounded else {},
        }
        start = time.monotonic()
        reply = self._ask(job, times.wall_s + GRACE_S)
        return _run_of(reply, time.monotonic() - start)

    # ---- the worker

    def _start(self) -> None:
        setup = {
            "runner": self.suite.runner,
            "args": list(self.suite.args),
            "here_on_path": self.suite.here_on_path,
            "copy": str(self.copy),
            "root": str(self.root),
            "quiet": self.quiet,
        }
        argv = [*self.suite.python, str(WORKER), json.dumps(setup)]
        env = {**os.environ, **CALM, "PYTHONHASHSEED": str(self.hash_seed), **dict(self.suite.env)}
        folder = self.copy / self.suite.folder
        try:
            self.worker = subprocess.Popen(
                argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self.errors.open("wb"),
                cwd=folder,
                env=env,
            )
        except OSError as problem:
            raise CannotTry(f"{' '.join(self.suite.python)} cannot be started: {problem.strerror}.") from None
        reply = self._line(START_S)
        if not reply.get("ready"):
            why = reply.get("error") or self._last_words() or "it does not answer"
            raise CannotTry(f"{' '.join(self.suite.python)} cannot run {self.suite.runner}: {why}.")

    def restart(self, hash_seed: int = 0) -> None:
        self._stop()
        self.hash_seed = hash_seed
        self._start()

    def _last_words(self) -> str:
        return (self.errors.read_text("utf-8", "replace").strip().splitlines() or [""])[-1].rstrip(".")

    def _stop(self) -> None:
        if self.worker is None:
            return
        self.worker.kill()
        for pipe in (self.worker.stdin, self.worker.stdout):
            if pipe:
                with contextlib.suppress(OSError):
                    pipe.close()
        self.worker.wait()
        self.worker = None

    def _ask(self, job: dict[str, Any], wall_s: float) -> dict[str, Any]:
        if self.worker is None:
            self._start()
        assert self.worker is not None and self.worker.stdin is not None
        with contextlib.suppress(OSError):
            self.worker.stdin.write(json.dumps(job).encode() + b"\n")
            self.worker.stdin.flush()
        reply = self._line(wall_s)
        if not reply:
            self._stop()
            return {"rows": [], "ended": "died"}
        return reply

    def _line(self, wall_s: float) -> dict[str, Any]:
        """The worker's next line; {} if it does not come."""
        assert self.worker is not None and self.worker.stdout is not None
        fd, data, deadline = self.worker.stdout.fileno(), b"", time.monotonic() + wall_s
        while not data.endswith(b"\n"):
            remaining = deadline - time.monotonic()
            if remaining <= 0 or not select.select([fd], [], [], remaining)[0]:
                return {}
            chunk = os.read(fd, 1 << 20)
            if not chunk:
                return {}
            data += chunk
        return json.loads(data)


def _run_of(reply: dict[str, Any], took: float) -> Run:
    tests, modules = dict[str, Row](), tuple[str, ...]()
    for row in cast("list[dict[str, Any]]", reply["rows"]):
        if "test" in row:
            tests[row["test"]] = _row(row)
        modules = tuple(row.get("modules", modules))
    return Run(tests, str(reply["ended"]), modules, took)


def _row(fields: dict[str, Any]) -> Row:
    places = tuple((str(file), int(line)) for file, line in fields.get("places", ()))
    lines = frozenset((str(file), int(line)) for file, line in fields.get("lines", ()))
    return Row(
        *(
            str(fields["test"]),
            str(fields["file"]),
            str(fields["outcome"]),
            float(fields["wall"]),
            float(fields["cpu"]),
        ),
        error=str(fields.get("error", "")),
        places=places,
        lines=lines,
        loading=bool(fields["loading"]),
    )


def _copy(root: Path, copy: Path) -> None:
    """All but version control, caches and environments; those are linked."""
    files = size = 0

    def left_out(folder: str, names: list[str]) -> set[str]:
        nonlocal files, size
        out = {name for name in names if name in LEFT_OUT or name in LINKED}
        for name in set(names) - out:
            info = Path(folder, name).lstat()
            if not (stat.S_ISREG(info.st_mode) or stat.S_ISDIR(info.st_mode) or stat.S_ISLNK(info.st_mode)):
                out.add(name)
            files, size = files + 1, size + info.st_size
        if files > FILES_MOST or size > BYTES_MOST:
            raise CannotTry(
                f"The project is too large for me: more than {FILES_MOST:,} files or {BYTES_MOST >> 20} MB."
            )
        return out

    try:
        shutil.copytree(root, copy, symlinks=True, ignore=left_out)
    except RecursionError:
        raise CannotTry("The project has folders nested too deeply for me.") from None
    for name in LINKED:
        if (root / name).is_dir():
            (copy / name).symlink_to(root / name)
